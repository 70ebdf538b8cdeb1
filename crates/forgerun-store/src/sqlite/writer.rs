//! The writer: the only connection through which this process writes. One at a time has it, in the order in which they asked: the
//! committer, on its own thread, for batches; a thread of the store for [`Chore`]s. Each has one transaction:
//!
//! ```text
//! BEGIN IMMEDIATE ─► load ─► decide ─► write ─► COMMIT (the log is on the disk) ─► reply
//!        │            │        │         │         │
//!        └────────────┴────────┴─────────┴─────────┴──► any error or panic: close the connection ─► reply
//! ```
//!
//! `IMMEDIATE` takes the write lock before anything is read: another process cannot come in between, it waits, and so do
//! we for it.
//!
//! Closing rolls back, whatever state the connection is in, and the next transaction opens another one.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use forgerun_core::id::BlobId;
use forgerun_core::log::LogBatch;
use forgerun_core::rows::MoreRows;
use forgerun_core::time::Time;
use forgerun_core::{Changes, Rows, Wants};
use rusqlite::Connection;
use tokio::sync::broadcast;

use super::checkpoint::{CheckpointRequests, watch};
use super::connect::DatabaseFile;
use super::load::{Loaded, load};
use super::read_cache::ReadCache;
use super::statements::statements;
use super::threads::Reply;
use super::writer_cache::WriterCache;
use super::{fault, logs, results, rewrite, write};
use crate::{BlobPlace, Decide, DoomedBlob, Error, Fault, Rewrite, Sweep, Swept, Wakeup};

statements! {
    BEGIN = "BEGIN IMMEDIATE";
    COMMIT = "COMMIT";
    ROLLBACK = "ROLLBACK";

    /// Changes when another connection has committed, not when this one has.
    DATA_VERSION = "PRAGMA data_version";
}

/// What is written besides batches.
pub(super) enum Chore {
    Sweep { sweep: Sweep, reach: BlobPlace, reply: Reply<SweepBatch> },
    BeginBlob { blob: BlobId, now: Time, place: BlobPlace, reply: Reply<()> },
    NoteUpload { blob: BlobId, upload: Option<String>, reply: Reply<()> },
    Unknown { blobs: Vec<BlobId>, reply: Reply<Vec<BlobId>> },
    TouchBlob { blob: BlobId, now: Time, reply: Reply<()> },
    Bury { blobs: Vec<BlobId>, reply: Reply<()> },
    Rewrite { rows: Vec<Rewrite>, reply: Reply<()> },
    AppendLogs { batches: Vec<LogBatch>, bytes_max: u64, reply: Reply<Vec<Option<u64>>> },
}

/// What a sweep found.
pub(super) struct SweepBatch {
    /// The rows it deleted.
    pub(super) swept: Swept,
    /// Blobs whose bytes are to be deleted next.
    pub(super) doomed: Vec<DoomedBlob>,
}

/// The connection, and what is remembered with it.
pub(super) struct SqliteWriter {
    file: DatabaseFile,
    /// `None` after a transaction that failed.
    db: Option<Connection>,
    /// The data version seen last; `None` on a connection opened anew, which cannot tell what was before.
    data_version: Option<i64>,
    cache: WriterCache,
    read_cache: Arc<ReadCache>,
    checkpoints: CheckpointRequests,
    wakeups: broadcast::Sender<Wakeup>,
}

impl SqliteWriter {
    /// A writer on a connection whose schema is up to date.
    pub(super) fn new(
        file: DatabaseFile,
        mut db: Connection,
        checkpoints: CheckpointRequests,
        read_cache: Arc<ReadCache>,
        wakeups: broadcast::Sender<Wakeup>,
    ) -> Result<SqliteWriter, Error> {
        watch(&mut db, checkpoints.clone())?;
        Ok(SqliteWriter {
            file,
            data_version: Some(data_version(&db)?),
            db: Some(db),
            cache: WriterCache::default(),
            read_cache,
            checkpoints,
            wakeups,
        })
    }

    /// Does a chore. A sweep that nobody waits for any more is left to the next one.
    pub(super) fn handle(&mut self, chore: Chore) {
        match chore {
            Chore::Sweep { reply, .. } if reply.is_closed() => {}
            Chore::Sweep { sweep, reach, reply } => {
                let sweep = |db: &Connection| {
                    let swept = write::sweep(db, &sweep)?;
                    Ok(SweepBatch { swept, doomed: results::doom(db, &sweep, reach)? })
                };
                let _ = reply.send(self.alone(sweep));
            }
            Chore::BeginBlob { blob, now, place, reply } => {
                let _ = reply.send(self.alone(|db| results::begin_blob(db, blob, now, place)));
            }
            Chore::NoteUpload { blob, upload, reply } => {
                let _ = reply.send(self.alone(|db| results::note_upload(db, blob, upload.as_deref())));
            }
            Chore::Unknown { blobs, reply } => {
                let _ = reply.send(self.alone(|db| results::unknown(db, blobs)));
            }
            Chore::TouchBlob { blob, now, reply } => {
                let _ = reply.send(self.alone(|db| results::touch_blob(db, blob, now)));
            }
            Chore::Bury { blobs, reply } => {
                let _ = reply.send(self.alone(|db| results::bury(db, &blobs)));
            }
            Chore::Rewrite { rows, reply } => {
                let _ = reply
                    .send(self.alone_beside(Some(&Changes::default()), |db| rewrite::rewrite(db, &rows)));
            }
            Chore::AppendLogs { batches, bytes_max, reply } => {
                let appended =
                    self.alone_beside(Some(&Changes::default()), |db| logs::append(db, &batches, bytes_max));
                let _ = reply.send(appended);
            }
        }
    }

    /// Loads, decides and writes a batch.
    pub(super) fn transact(&mut self, wants: &Wants, mut decide: Decide) -> Result<Changes, Error> {
        let read_cache = self.read_cache.clone();
        self.transaction(|db, cache| {
            let Loaded { rows, mut numbers } = load(db, wants, cache)?;
            let mut changes = decided(&mut decide, rows)?;
            let mut more = MoreRows::default();
            while !changes.more.is_empty() {
                more.extend(changes.more);
                let loaded = load(db, &wants.with(&more), cache)?;
                numbers = loaded.numbers;
                changes = decided(&mut decide, Rows { more: more.clone(), ..loaded.rows })?;
            }
            if changes.is_empty() {
                finish_empty(db)?;
            } else {
                let n_before = db.total_changes();
                write::write(db, &changes, &mut numbers)?;
                commit(db)?;
                if db.total_changes() != n_before {
                    read_cache.committed(Some(&changes));
                }
                cache.note(&changes, &numbers);
            }
            Ok(changes)
        })
    }

    /// Looks whether another process has written, and says so to those who wait.
    pub(super) fn look(&mut self) {
        if let Err(error) = self.transaction(|db, _| finish_empty(db)) {
            tracing::debug!(%error, "could not look for commits of other processes");
        }
    }

    /// Runs `work` in a transaction of its own.
    fn alone<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        self.alone_beside(None, work)
    }

    /// The same for work of which is known what it does to jobs.
    fn alone_beside<T>(
        &mut self,
        changes: Option<&Changes>,
        work: impl FnOnce(&Connection) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let read_cache = self.read_cache.clone();
        self.transaction(|db, _| {
            let n_before = db.total_changes();
            let done = work(db)?;
            commit(db)?;
            if db.total_changes() != n_before {
                read_cache.committed(changes);
            }
            Ok(done)
        })
    }

    /// Runs `work` in a transaction, which it must end. Whatever happens, none is open afterwards.
    fn transaction<T>(
        &mut self,
        work: impl FnOnce(&Connection, &mut WriterCache) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let db = match self.db.take() {
            Some(db) => db,
            None => self.reopened()?,
        };
        let done = self.begin(&db).and_then(|()| work(&db, &mut self.cache));
        match done {
            Ok(_) => self.db = Some(db),
            Err(_) => self.cache.clear(),
        }
        done
    }

    fn begin(&mut self, db: &Connection) -> Result<(), Error> {
        db.prepare_cached(BEGIN)?.execute([])?;
        self.read_cache.begun();
        let version = data_version(db)?;
        if self.data_version.replace(version) != Some(version) {
            // Another process wrote, or may have. It does not tell what it did, only that it did something.
            self.cache.clear();
            let _ = self.wakeups.send(Wakeup::Everything);
        }
        Ok(())
    }

    fn reopened(&mut self) -> Result<Connection, Error> {
        self.data_version = None;
        let mut db = self.file.writer()?;
        watch(&mut db, self.checkpoints.clone())?;
        Ok(db)
    }
}

fn data_version(db: &Connection) -> Result<i64, Error> {
    Ok(db.prepare_cached(DATA_VERSION)?.query_row([], |row| row.get(0))?)
}

/// Returns when everything is on the disk.
fn commit(db: &Connection) -> Result<(), Error> {
    db.prepare_cached(COMMIT)?.execute([]).map_err(fault::of_commit)?;
    Ok(())
}

/// Ends a transaction that wrote nothing: there is nothing to wait for.
fn finish_empty(db: &Connection) -> Result<(), Error> {
    db.prepare_cached(ROLLBACK)?.execute([])?;
    Ok(())
}

/// What `decide` says; a panic in it is a bug that must not end the thread all others wait for.
fn decided(decide: &mut Decide, rows: Rows) -> Result<Changes, Error> {
    catch_unwind(AssertUnwindSafe(|| decide(rows))).map_err(|_| {
        tracing::error!("deciding a batch panicked; nothing of it was written");
        Error::new(Fault::Rejected, "deciding the batch panicked")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::checkpoint::Checkpointer;
    use crate::sqlite::migrate::migrate;

    /// Each row is a page.
    fn insert(db: &Connection, n_rows: i64, text: &str) -> Result<(), Error> {
        let mut insert = db.prepare_cached("INSERT INTO notes (text) VALUES (?)")?;
        for _ in 0..n_rows {
            insert.execute([text.repeat(4000)])?;
        }
        Ok(())
    }

    #[test]
    fn what_a_failed_transaction_left_in_the_log_does_not_come_back_over_what_another_process_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let file = DatabaseFile { path: folder.path().join("jobs.db"), options: Default::default() };
        let db = file.writer().unwrap();
        migrate(&db).unwrap();
        // The log begins anew, so that nothing is read from it when SQLite rolls back.
        db.execute_batch("CREATE TABLE notes (text TEXT NOT NULL); PRAGMA wal_checkpoint(TRUNCATE)").unwrap();
        let (_checkpointer, checkpoints) = Checkpointer::start(&file).unwrap();
        let wakeups = broadcast::channel(16).0;
        let mut writer =
            SqliteWriter::new(file.clone(), db, checkpoints, Arc::new(ReadCache::new(None)), wakeups)
                .unwrap();
        let other = file.writer().unwrap();

        let failed = writer.transaction(|db, _| -> Result<(), Error> {
            // A thousand more than fit into the cache.
            insert(db, 5000, "f")?;
            Err(Error::new(Fault::Rejected, "for the test"))
        });
        assert!(failed.is_err());
        for _ in 0..10 {
            other.execute_batch(BEGIN).unwrap();
            insert(&other, 200, "o").unwrap();
            other.execute_batch(COMMIT).unwrap();
        }
        writer.alone(|db| insert(db, 1, "w")).unwrap();

        let reader = file.reader().unwrap();
        let sql = "SELECT (SELECT count(*) FROM notes WHERE text LIKE 'oooo%'), (SELECT count(*) FROM notes),
                          (SELECT * FROM pragma_integrity_check)";
        let found = reader.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        assert_eq!(found, (2000, 2001, "ok".to_owned()));
    }
}
