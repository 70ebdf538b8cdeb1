//! The least that keeping a job costs: one thread that inserts a job and two events, with as few indexes as a job server can have,
//! and syncs. It decides nothing and reads nothing back. Benchmarks hold the real store against it.

use std::path::Path;
use std::thread;

use bytes::Bytes;
use forge_core::id::JobId;
use rusqlite::{Connection, params};
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Fault};

/// Jobs in one transaction, and in front of it.
const BATCH_MAX: usize = 1024;

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE jobs (n INTEGER PRIMARY KEY, id BLOB NOT NULL, client INTEGER, queue TEXT, state INTEGER, body BLOB);
    CREATE UNIQUE INDEX jobs_id ON jobs (id);
    CREATE INDEX jobs_queue ON jobs (queue, state, id);
    CREATE INDEX jobs_client ON jobs (client, id);
    CREATE TABLE events (n INTEGER PRIMARY KEY, job BLOB NOT NULL, name TEXT);
";

const INSERT_JOB: &str = "INSERT INTO jobs (id, client, queue, state, body) VALUES (?1, 1, 'default', 1, ?2)";
const INSERT_EVENT: &str = "INSERT INTO events (job, name) VALUES (?1, ?2)";

/// A file that jobs are only written to.
pub struct Floor(mpsc::Sender<NewRow>);

struct NewRow {
    id: JobId,
    body: Bytes,
    told: oneshot::Sender<()>,
}

impl Floor {
    /// Makes the file, which must not exist.
    pub fn make(path: &Path) -> Result<Floor, Error> {
        let db = Connection::open(path)?;
        db.execute_batch(SCHEMA)?;
        let (door, jobs) = mpsc::channel(BATCH_MAX);
        let run = move || {
            if let Err(error) = write(&db, jobs) {
                tracing::error!(%error, "the floor stopped writing");
            }
        };
        let thread = thread::Builder::new().name("forge-floor".into()).spawn(run);
        thread.map_err(|error| Error::new(Fault::Unavailable, error))?;
        Ok(Floor(door))
    }

    /// Returns when the job is on the disk.
    pub async fn keep(&self, id: JobId, body: Bytes) -> Result<(), Error> {
        let (told, hears) = oneshot::channel();
        let gone = || Error::new(Fault::Unavailable, "the floor stopped writing");
        self.0.send(NewRow { id, body, told }).await.map_err(|_| gone())?;
        hears.await.map_err(|_| gone())
    }
}

/// Whatever comes in while a transaction is written is the next one.
fn write(db: &Connection, mut jobs: mpsc::Receiver<NewRow>) -> Result<(), Error> {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(first) = jobs.blocking_recv() {
        batch.push(first);
        while batch.len() < BATCH_MAX
            && let Ok(next) = jobs.try_recv()
        {
            batch.push(next);
        }
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for NewRow { id, body, .. } in &batch {
            db.prepare_cached(INSERT_JOB)?.execute(params![id.to_bytes(), &body[..]])?;
            for name in ["job_created", "job_queued"] {
                db.prepare_cached(INSERT_EVENT)?.execute(params![id.to_bytes(), name])?;
            }
        }
        db.prepare_cached("COMMIT")?.execute([])?;
        for NewRow { told, .. } in batch.drain(..) {
            // Whoever has gone meanwhile is not told.
            let _ = told.send(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_kept_is_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("floor.db");
        let floor = Floor::make(&path).unwrap();
        for n in 0..3 {
            floor.keep(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
        }
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table}");
            Connection::open(&path).unwrap().query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((count("jobs"), count("events")), (3, 6));
    }
}
