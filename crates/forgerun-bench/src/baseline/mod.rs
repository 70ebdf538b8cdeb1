//! The least that stores a job durably: rows without rules, in batches, synced before the answer. Benchmarks compare the
//! real stores with it.

mod postgres;
mod sqlite;

use std::io;
use std::path::Path;

use bytes::Bytes;
use forgerun_core::id::JobId;

pub(crate) use postgres::PostgresBaseline;
pub(crate) use sqlite::SqliteBaseline;

/// Jobs in one transaction, and in front of it.
const BATCH_MAX: usize = 1024;

/// Bytes stored at the end of a job: as many as an outcome and a small result of ours have.
const OUTCOME: [u8; 480] = [b'o'; 480];
const RESULT: [u8; 1024] = [b'r'; 1024];

pub(crate) enum Baseline {
    Sqlite(SqliteBaseline),
    Postgres(PostgresBaseline),
}

impl Baseline {
    /// A file in the folder, or tables in the empty database.
    pub(crate) async fn create(folder: &Path, database_url: Option<&str>) -> io::Result<Baseline> {
        Ok(match database_url {
            None => Baseline::Sqlite(SqliteBaseline::create(&folder.join("baseline.db"))?),
            Some(url) => Baseline::Postgres(PostgresBaseline::create(url).await?),
        })
    }

    /// Returns when the job is on the disk.
    pub(crate) async fn write_job(&self, id: JobId, body: Bytes) -> io::Result<()> {
        match self {
            Baseline::Sqlite(baseline) => baseline.write_job(id, body).await,
            Baseline::Postgres(baseline) => baseline.write_job(id, body).await,
        }
    }

    /// Returns before the job is ended.
    pub(crate) async fn end(&self, id: JobId) -> io::Result<()> {
        match self {
            Baseline::Sqlite(baseline) => baseline.end(id).await,
            Baseline::Postgres(baseline) => baseline.end(id).await,
        }
    }

    /// Jobs ended on the disk.
    pub(crate) fn n_ended(&self) -> u64 {
        match self {
            Baseline::Sqlite(baseline) => baseline.n_ended(),
            Baseline::Postgres(baseline) => baseline.n_ended(),
        }
    }
}

fn stopped() -> io::Error {
    io::Error::other("the baseline stopped writing")
}
