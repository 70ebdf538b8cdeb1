//! In SQLite: one thread that inserts a job and two events, with as few indexes as a job server can
//! have, and syncs. A whole job is ended in a later transaction: its state changes, and an event, its
//! outcome and its result are inserted.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use bytes::Bytes;
use forgerun_core::id::JobId;
use rusqlite::{Connection, params};
use tokio::sync::{mpsc, oneshot};

use super::{BATCH_MAX, OUTCOME, RESULT, stopped};

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
pub(crate) struct SqliteBaseline {
    queue: mpsc::Sender<Write>,
    n_ended: Arc<AtomicU64>,
}

enum Write {
    Insert { id: JobId, body: Bytes, written: oneshot::Sender<()> },
    End(JobId),
}

impl SqliteBaseline {
    /// Creates the file, which must not exist.
    pub(super) fn create(path: &Path) -> io::Result<SqliteBaseline> {
        let db = Connection::open(path).map_err(io::Error::other)?;
        db.execute_batch(SCHEMA).map_err(io::Error::other)?;
        let (queue, writes) = mpsc::channel(BATCH_MAX);
        let n_ended = Arc::<AtomicU64>::default();
        let count = n_ended.clone();
        let run = move || {
            if let Err(error) = write(&db, writes, &count) {
                eprintln!("the baseline stopped writing: {error}");
            }
        };
        thread::Builder::new().name("baseline".into()).spawn(run)?;
        Ok(SqliteBaseline { queue, n_ended })
    }

    /// Returns when the job is on the disk.
    pub(super) async fn write_job(&self, id: JobId, body: Bytes) -> io::Result<()> {
        let (written, committed) = oneshot::channel();
        self.queue.send(Write::Insert { id, body, written }).await.map_err(|_| stopped())?;
        committed.await.map_err(|_| stopped())
    }

    /// Returns before the job is ended.
    pub(super) async fn end(&self, id: JobId) -> io::Result<()> {
        self.queue.send(Write::End(id)).await.map_err(|_| stopped())
    }

    /// Jobs ended on the disk.
    pub(super) fn n_ended(&self) -> u64 {
        self.n_ended.load(Ordering::Relaxed)
    }
}

/// The writes that arrive during a transaction are the next one.
fn write(db: &Connection, mut writes: mpsc::Receiver<Write>, n_ended: &AtomicU64) -> rusqlite::Result<()> {
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
                Write::Insert { id, body, .. } => {
                    db.prepare_cached(INSERT_JOB)?.execute(params![id.to_bytes(), &body[..]])?;
                    for name in ["job_created", "job_queued"] {
                        db.prepare_cached(INSERT_EVENT)?.execute(params![id.to_bytes(), name])?;
                    }
                }
                Write::End(id) => {
                    db.prepare_cached(END_JOB)?.execute(params![id.to_bytes()])?;
                    db.prepare_cached(INSERT_END)?.execute(params![id.to_bytes(), OUTCOME, RESULT])?;
                    db.prepare_cached(INSERT_EVENT)?.execute(params![id.to_bytes(), "job_succeeded"])?;
                }
            }
        }
        db.prepare_cached("COMMIT")?.execute([])?;
        for write in batch.drain(..) {
            match write {
                Write::Insert { written, .. } => {
                    // The request may have been cancelled.
                    let _ = written.send(());
                }
                Write::End(_) => {
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
    async fn stored_jobs_are_in_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("baseline.db");
        let baseline = SqliteBaseline::create(&path).unwrap();
        for n in 0..3 {
            baseline.write_job(JobId::v7(1, n), Bytes::from_static(b"{}")).await.unwrap();
        }
        let count = |table: &str| {
            let sql = format!("SELECT count(*) FROM {table}");
            Connection::open(&path).unwrap().query_row(&sql, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        assert_eq!((count("jobs"), count("events"), count("ends")), (3, 6, 0));
        baseline.end(JobId::v7(1, 1)).await.unwrap();
        // The queue is in order: this job is written after that end.
        baseline.write_job(JobId::v7(1, 3), Bytes::from_static(b"{}")).await.unwrap();
        assert_eq!((count("jobs WHERE state = 4"), count("events"), count("ends")), (1, 9, 1));
        assert_eq!(baseline.n_ended(), 1);
    }
}
