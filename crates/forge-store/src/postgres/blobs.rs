//! Blobs as rows of a table of chunks. A chunk is written and read in a statement of its own, on whatever connection is free:
//! neither a slow worker nor a slow reader holds one.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use forge_core::id::BlobId;
use forge_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::in_time;
use super::load::cell;
use super::pool::Pool;
use super::sql::Sql;
use super::value::Uuid;
use super::{Options, Postgres, fault};
use crate::{Blobs, Boxed, Error, Fault, Sink, Source, Sweep};

/// Bytes of a chunk: few enough that a statement is short, many enough that a gigabyte is only thousands of rows. Chunks
/// written with another size are read all the same.
const CHUNK_BYTES: usize = 256 * 1024;

/// Chunks deleted in one statement: 64 MiB, well within its time.
const CHUNKS_DELETED_MAX: i64 = 256;

/// Blobs of one bite. Each may be many statements.
const BLOBS_SWEPT_MAX: usize = 16;

/// Runs statements one at a time.
#[derive(Clone)]
struct BlobStatements {
    pool: Arc<Pool>,
    options: Options,
}

impl BlobStatements {
    async fn rows(&self, sql: Sql, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        let pooled = self.pool.take().await?;
        let rows = in_time(&self.options, pooled.connection().query(sql, values)).await?;
        let rows = rows.map_err(fault::report)?;
        pooled.give_back();
        Ok(rows)
    }

    async fn execute(&self, sql: Sql, values: &[&(dyn ToSql + Sync)]) -> Result<u64, Error> {
        let pooled = self.pool.take().await?;
        let done = in_time(&self.options, pooled.connection().execute(sql, values)).await?;
        let n_rows = done.map_err(fault::report)?;
        pooled.give_back();
        Ok(n_rows)
    }
}

impl Postgres {
    fn writing(&self) -> BlobStatements {
        BlobStatements { pool: self.writers.clone(), options: self.options.clone() }
    }

    fn reading(&self) -> BlobStatements {
        BlobStatements { pool: self.readers.clone(), options: self.options.clone() }
    }

    /// Deletes a bite of loose blobs. Killed in between, the next sweep finds them again.
    pub(super) async fn sweep_blobs(&self, sweep: &Sweep) -> Result<usize, Error> {
        let statements = self.writing();
        let limit = sweep.limit.min(BLOBS_SWEPT_MAX) as i64;
        let doomed = statements.rows(Sql::DoomBlobs, &[&sweep.loose_before.as_micros(), &limit]).await?;
        for row in &doomed {
            let blob: Uuid = cell(row, 0)?;
            while statements.execute(Sql::DeleteChunks, &[&blob, &CHUNKS_DELETED_MAX]).await? > 0 {}
            statements.execute(Sql::BuryBlob, &[&blob]).await?;
        }
        Ok(doomed.len())
    }
}

impl Blobs for Postgres {
    fn begin(&self, blob: BlobId, now: Time) -> Boxed<'_, Box<dyn Sink>> {
        let (statements, blob) = (self.writing(), Uuid::from(blob));
        Box::pin(async move {
            statements.execute(Sql::BeginBlob, &[&blob, &now.as_micros()]).await?;
            Ok(Box::new(ChunkSink { statements, blob, start: 0, gathered: BytesMut::new() }) as Box<dyn Sink>)
        })
    }

    fn touch(&self, blob: BlobId, now: Time) -> Boxed<'_, ()> {
        let (statements, blob) = (self.writing(), Uuid::from(blob));
        Box::pin(
            async move { statements.execute(Sql::TouchBlob, &[&blob, &now.as_micros()]).await.map(drop) },
        )
    }

    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>> {
        let (statements, id) = (self.reading(), Uuid::from(blob));
        Box::pin(async move {
            if statements.rows(Sql::FindBlob, &[&id]).await?.is_empty() {
                return Err(Error::new(Fault::Corrupt, format!("blob {blob} is missing")));
            }
            Ok(Arc::new(ChunkSource { statements, blob: id }) as Arc<dyn Source>)
        })
    }
}

struct ChunkSink {
    statements: BlobStatements,
    blob: Uuid,
    /// Where the gathered bytes begin.
    start: i64,
    /// Less than a chunk.
    gathered: BytesMut,
}

impl ChunkSink {
    async fn put(&mut self, chunk: &[u8]) -> Result<(), Error> {
        self.statements.execute(Sql::InsertChunk, &[&self.blob, &self.start, &chunk]).await?;
        self.start += chunk.len() as i64;
        Ok(())
    }
}

impl Sink for ChunkSink {
    fn write(&mut self, bytes: Bytes) -> Boxed<'_, ()> {
        Box::pin(async move {
            let mut rest = bytes.as_ref();
            while self.gathered.len() + rest.len() >= CHUNK_BYTES {
                let (now, later) = rest.split_at(CHUNK_BYTES - self.gathered.len());
                self.gathered.extend_from_slice(now);
                let chunk = std::mem::take(&mut self.gathered);
                self.put(&chunk).await?;
                rest = later;
            }
            self.gathered.extend_from_slice(rest);
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async move {
            let chunk = std::mem::take(&mut self.gathered);
            if chunk.is_empty() { Ok(()) } else { self.put(&chunk).await }
        })
    }
}

struct ChunkSource {
    statements: BlobStatements,
    blob: Uuid,
}

impl Source for ChunkSource {
    fn read(&self, offset: u64, len: usize) -> Boxed<'static, Bytes> {
        let (statements, blob) = (self.statements.clone(), self.blob);
        Box::pin(async move {
            let beyond = || Error::new(Fault::Corrupt, format!("a blob has no byte {offset}"));
            let offset = i64::try_from(offset).map_err(|_| beyond())?;
            let rows = statements.rows(Sql::ReadChunk, &[&blob, &offset]).await?;
            let row = rows.first().ok_or_else(beyond)?;
            let from = (offset - cell::<i64>(row, 0)?) as usize;
            let chunk: &[u8] = cell(row, 1)?;
            let part = chunk.get(from..).filter(|part| !part.is_empty()).ok_or_else(beyond)?;
            Ok(Bytes::copy_from_slice(&part[..part.len().min(len)]))
        })
    }
}
