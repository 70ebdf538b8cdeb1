//! Blobs as rows of a table of chunks. A chunk is written and read in a statement of its own, on whatever connection is free:
//! neither a slow worker nor a slow reader holds one. With an object store, new blobs go there, and their rows say so.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use forgerun_core::id::BlobId;
use forgerun_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::in_time;
use super::load::cell;
use super::pool::Pool;
use super::sql::Sql;
use super::value::Uuid;
use super::{Options, Postgres, fault};
use crate::blobs::{delete_objects, no_objects, some_objects};
use crate::{BlobPlace, Blobs, Boxed, DoomedBlob, Error, Fault, NoteUpload, Sink, Source, Sweep};

/// Bytes of a chunk: few enough that a statement is short, many enough that a gigabyte is only thousands of rows. Chunks
/// written with another size are read all the same.
const CHUNK_BYTES: usize = 256 * 1024;

/// Chunks deleted in one statement: 64 MiB, well within its time.
const CHUNKS_DELETED_MAX: i64 = 256;

/// Blobs that are doomed together. Each may be many statements, and nobody else deletes them meanwhile.
const BLOBS_DOOMED_MAX: usize = 16;

/// Those of some blobs that have no row.
pub(super) const UNKNOWN: &str = "
    SELECT id
      FROM unnest($1::uuid[]) AS given (id)
     WHERE NOT EXISTS (SELECT FROM blobs WHERE blobs.id = given.id)";

/// Those that are doomed already come again: whoever was to delete them did not get round to it. Skips what another node
/// is at, and what lies in a place that this node does not reach.
pub(super) const DOOM: &str = "
    UPDATE blobs SET doomed = true
     WHERE id IN (SELECT id
                    FROM blobs
                   WHERE loose_at < $1::bigint AND place <= $3::smallint
                   ORDER BY loose_at
                   LIMIT $2::bigint
                     FOR UPDATE SKIP LOCKED)
 RETURNING id, place, upload";

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

    /// Notes uploads of a blob in its row.
    fn note_upload(&self, blob: Uuid) -> NoteUpload {
        let statements = self.clone();
        Box::new(move |upload| {
            let statements = statements.clone();
            Box::pin(async move { statements.execute(Sql::NoteUpload, &[&blob, &upload]).await.map(drop) })
        })
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

    /// Deletes loose blobs, as many as the sweep may. Killed in between, the next sweep finds them again.
    pub(super) async fn sweep_blobs(&self, sweep: &Sweep) -> Result<usize, Error> {
        let mut n_swept = 0;
        while n_swept < sweep.limit {
            let limit = (sweep.limit - n_swept).min(BLOBS_DOOMED_MAX);
            let n_deleted = self.sweep_some_blobs(sweep, limit).await?;
            n_swept += n_deleted;
            // No more are there, or the object store does not delete them: they would come again.
            if n_deleted < limit {
                break;
            }
        }
        Ok(n_swept + self.sweep_unknown(sweep).await?)
    }

    async fn sweep_some_blobs(&self, sweep: &Sweep, limit: usize) -> Result<usize, Error> {
        let (statements, limit) = (self.writing(), limit as i64);
        let reach = BlobPlace::of_new(self.objects.as_ref()) as i16;
        let doomed =
            statements.rows(Sql::DoomBlobs, &[&sweep.loose_before.as_micros(), &limit, &reach]).await?;
        let doomed = doomed.iter().map(doomed_blob).collect::<Result<Vec<_>, Error>>()?;
        let (beside, objects): (Vec<_>, Vec<_>) =
            doomed.into_iter().partition(|blob| blob.place == BlobPlace::Beside);
        for blob in &beside {
            let blob = Uuid::from(blob.id);
            while statements.execute(Sql::DeleteChunks, &[&blob, &CHUNKS_DELETED_MAX]).await? > 0 {}
        }
        let deleted = delete_objects(self.objects.as_ref(), objects).await;
        for blob in beside.iter().chain(&deleted) {
            statements.execute(Sql::BuryBlob, &[&Uuid::from(blob.id)]).await?;
        }
        Ok(beside.len() + deleted.len())
    }

    /// Deletes objects that no row names: their rows went while they were being written, or with a database that was lost.
    async fn sweep_unknown(&self, sweep: &Sweep) -> Result<usize, Error> {
        // Listed before the rows are looked at: a row comes before its object, so one without a row has lost it.
        let listed = some_objects(self.objects.as_ref(), sweep.loose_before).await;
        if listed.is_empty() {
            return Ok(0);
        }
        let listed: Vec<Uuid> = listed.into_iter().map(Uuid::from).collect();
        let unknown = self.writing().rows(Sql::UnknownBlobs, &[&listed]).await?;
        let doomed = |row| {
            Ok(DoomedBlob { id: cell::<Uuid>(row, 0)?.into(), place: BlobPlace::Objects, upload: None })
        };
        let unknown = unknown.iter().map(doomed).collect::<Result<Vec<_>, Error>>()?;
        Ok(delete_objects(self.objects.as_ref(), unknown).await.len())
    }
}

fn doomed_blob(row: &Row) -> Result<DoomedBlob, Error> {
    let id = cell::<Uuid>(row, 0)?.into();
    Ok(DoomedBlob { id, place: BlobPlace::of(cell(row, 1)?)?, upload: cell(row, 2)? })
}

impl Blobs for Postgres {
    fn begin(&self, blob: BlobId, now: Time) -> Boxed<'_, Box<dyn Sink>> {
        let (statements, id) = (self.writing(), blob);
        Box::pin(async move {
            let (blob, place) = (Uuid::from(id), BlobPlace::of_new(self.objects.as_ref()) as i16);
            statements.execute(Sql::BeginBlob, &[&blob, &now.as_micros(), &place]).await?;
            if let Some(objects) = &self.objects {
                return Ok(objects.create(id, statements.note_upload(blob)));
            }
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
            let found = statements.rows(Sql::FindBlob, &[&id]).await?;
            let missing = || Error::new(Fault::Corrupt, format!("blob {blob} is missing"));
            match (BlobPlace::of(cell(found.first().ok_or_else(missing)?, 0)?)?, &self.objects) {
                (BlobPlace::Beside, _) => {
                    Ok(Arc::new(ChunkSource { statements, blob: id }) as Arc<dyn Source>)
                }
                (BlobPlace::Objects, Some(objects)) => objects.open(blob).await,
                (BlobPlace::Objects, None) => Err(no_objects(blob)),
            }
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
