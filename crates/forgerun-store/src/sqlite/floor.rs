//! The least that keeping a job costs: one thread that inserts a job and two events, with as few indexes as a job server can have,
//! and syncs. It decides nothing and reads nothing back. A whole job is ended besides, in a transaction after that: its state changes, and an event,
//! its outcome and its result are inserted. Benchmarks hold the real store against it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use forgerun_core::id::JobId;
use rusqlite::{Connection, params};
use tokio::sync::{mpsc, oneshot};

use crate::{Error, Fault};

/// Jobs in one transaction, and in front of it.
const BATCH_MAX: usize = 1024;

/// Bytes that a job leaves when it ends: as many as an outcome and a small result of ours have.
const OUTCOME: [u8; 480] = [b'o'; 480];
const RESULT: [u8; 1024] = [b'r'; 1024];

const SCHEMA: &str = "
    PRAGMA journal_mode = WAL;
    PRAGMA synchronous = FULL;
    CREATE TABLE jobs (n INTEGER PRIMARY KEY, id BLOB NOT NULL, client INTEGER, queue TEXT, state INTEGER, body BLOB);
    CREATE UNIQUE INDEX jobs_id ON jobs (id);
    CREATE INDEX jobs_queue ON jobs (queue, state, id);
    CREATE INDEX jobs_client ON jobs (client, id);
    CREATE TABLE events (n INTEGER PRIMARY KEY, job BLOB NOT NULL, name TEXT);
    CREATE TABLE ends (n INTEGER PRIMARY KEY, job BLOB NOT NULL UNIQUE, outcome BLOB, result BLOB);
";

const INSERT_JOB: &str = "INSERT INTO jobs (id, client, queue, state, body) VALUES (?1, 1, 'default', 1, ?2)";
const INSERT_EVENT: &str = "INSERT INTO events (job, name) VALUES (?1, ?2)";
const END_JOB: &str = "UPDATE jobs SET state = 4 WHERE id = ?1";
const INSERT_END: &str = "INSERT INTO ends (job, outcome, result) VALUES (?1, ?2, ?3)";

/// A file that jobs are only written to.
pub struct SqliteFloor {
    queue: mpsc::Sender<SqliteFloorWrite>,
    n_ended: Arc<AtomicU64>,
}

enum SqliteFloorWrite {
    Insert { id: JobId, body: Bytes, told: oneshot::Sender<()> },
    End(JobId),
}

impl SqliteFloor {
    /// Makes the file, which must not exist.
    pub fn make(path: &Path) -> Result<SqliteFloor, Error> {
        let db = Connection::open(path)?;
        db.execute_batch(SCHEMA)?;
        let (queue, writes) = mpsc::channel(BATCH_MAX);
        let n_ended = Arc::<AtomicU64>::default();
        let count = n_ended.clone();
        let run = move || {
            if let Err(error) = write(&db, writes, &count) {
                tracing::error!(%error, "the floor stopped writing");
            }
        };
        let thread = thread::Builder::new().name("forge-floor".into()).spawn(run);
        thread.map_err(|error| Error::new(Fault::Unavailable, error))?;
        Ok(SqliteFloor { queue, n_ended })
    }

    /// Returns when the job is on the disk.
    pub async fn write_job(&self, id: JobId, body: Bytes) -> Result<(), Error> {
        let (told, hears) = oneshot::channel();
        self.queue.send(SqliteFloorWrite::Insert { id, body, told }).await.map_err(|_| gone())?;
        hears.await.map_err(|_| gone())
    }

    /// Returns before the job is ended.
    pub async fn end(&self, id: JobId) -> Result<(), Error> {
        self.queue.send(SqliteFloorWrite::End(id)).await.map_err(|_| gone())
    }

    /// How many jobs have ended, on the disk.
    pub fn n_ended(&self) -> u64 {
        self.n_ended.load(Ordering::Relaxed)
    }
}

fn gone() -> Error {
    Error::new(Fault::Unavailable, "the floor stopped writing")
}

/// Whatever comes in while a transaction is written is the next one.
fn write(
    db: &Connection,
    mut writes: mpsc::Receiver<SqliteFloorWrite>,
    n_ended: &AtomicU64,
) -> Result<(), Error> {
    let mut batch = Vec::with_capacity(BATCH_MAX);
    while let Some(first) = writes.blocking_recv() {
        batch.push(first);
        while batch.len() < BATCH_MAX
            && let Ok(next) = writes.try_recv()
        {
            batch.push(next);
        }
        db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        for write in &batch {
            match write {
                SqliteFloorWrite::Insert { id, body, .. } => {
                    db.prepare_cached(INSERT_JOB)?.execute(params![id.to_bytes(), &body[..]])?;
                    for name in ["job_created", "job_queued"] {
                        db.prepare_cached(INSERT_EVENT)?.execute(params![id.to_bytes(), name])?;
                    }
                }
                SqliteFloorWrite::End(id) => {
                    db.prepare_cached(END_JOB)?.execute(params![id.to_bytes()])?;
                    db.prepare_cached(INSERT_END)?.execute(params![id.to_bytes(), OUTCOME, RESULT])?;
                    db.prepare_cached(INSERT_EVENT)?.execute(params![id.to_bytes(), "job_succeeded"])?;
                }
            }
        }
        db.prepare_cached("COMMIT")?.execute([])?;
        for write in batch.drain(..) {
            match write {
                SqliteFloorWrite::Insert { told, .. } => {
                    // Whoever has gone meanwhile is not told.
                    let _ = told.send(());
                }
                SqliteFloorWrite::End(_) => {
                    n_ended.fetch_add(1, Ordering::Relaxed);
                }
            }
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
        let floor = SqliteFloor::make(&path).unwrap();
        for n in 0..3 {
            floor.write_job(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
        }
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table}");
            Connection::open(&path).unwrap().query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((count("jobs"), count("events"), count("ends")), (3, 6, 0));
        floor.end(JobId::v7(1, 1)).await.unwrap();
        // What is kept after it is written after it.
        floor.write_job(JobId::v7(1, 3), Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!((count("jobs WHERE state = 4"), count("events"), count("ends")), (1, 9, 1));
        assert_eq!(floor.n_ended(), 1);
    }
}
