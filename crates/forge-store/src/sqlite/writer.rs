//! The writer: the only connection through which this process writes. One at a time has it, in the order in which they asked: the
//! committer, on its own thread, for batches; a thread of the store for [`Chore`]s. Each has one transaction:
//!
//! ```text
//! BEGIN IMMEDIATE ─► load ─► decide ─► write ─► COMMIT (the log is on the disk) ─► reply
//!        │            │        │         │         │
//!        └────────────┴────────┴─────────┴─────────┴──► any error or panic: ROLLBACK ─► reply
//! ```
//!
//! `IMMEDIATE` takes the write lock before anything is read: another process cannot come in between, it waits, and so do
//! we for it. Where even rolling back fails, the connection is closed, which rolls back too, and the next transaction
//! opens another.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use forge_core::id::BlobId;
use forge_core::rows::MoreRows;
use forge_core::time::Time;
use forge_core::{Changes, Rows, Wants};
use rusqlite::Connection;
use tokio::sync::broadcast;

use super::checkpoint::{CheckpointRequests, watch};
use super::connect::DatabaseFile;
use super::load::{Loaded, load};
use super::read_cache::ReadCache;
use super::statements::statements;
use super::threads::Reply;
use super::writer_cache::WriterCache;
use super::{fault, results, write};
use crate::{BlobPlace, Decide, DoomedBlob, Error, Fault, Sweep, Swept, Wakeup};

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
    /// `None` after a transaction that could not even be rolled back.
    db: Option<Connection>,
    /// The data version seen last; `None` on a new connection.
    data_version: Option<i64>,
    cache: WriterCache,
    read_cache: Arc<ReadCache>,
    bell: CheckpointRequests,
    wakeups: broadcast::Sender<Wakeup>,
}

impl SqliteWriter {
    /// A writer on a connection whose schema is up to date.
    pub(super) fn new(
        file: DatabaseFile,
        mut db: Connection,
        bell: CheckpointRequests,
        read_cache: Arc<ReadCache>,
        wakeups: broadcast::Sender<Wakeup>,
    ) -> Result<SqliteWriter, Error> {
        watch(&mut db, bell.clone())?;
        Ok(SqliteWriter {
            file,
            db: Some(db),
            data_version: None,
            cache: WriterCache::default(),
            read_cache,
            bell,
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
                leave(db)?;
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

    /// Runs `work` in a transaction of its own.
    fn alone<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T, Error>) -> Result<T, Error> {
        let read_cache = self.read_cache.clone();
        self.transaction(|db, _| {
            let n_before = db.total_changes();
            let done = work(db)?;
            commit(db)?;
            if db.total_changes() != n_before {
                read_cache.committed(None);
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
        if done.is_err() {
            self.cache.clear();
        }
        if done.is_ok() || is_rolled_back(&db) {
            self.db = Some(db);
        }
        done
    }

    fn begin(&mut self, db: &Connection) -> Result<(), Error> {
        db.prepare_cached(BEGIN)?.execute([])?;
        self.read_cache.begun();
        let version = db.prepare_cached(DATA_VERSION)?.query_row([], |row| row.get(0))?;
        let seen = self.data_version.replace(version);
        if seen.is_some_and(|seen| seen != version) {
            // Another process wrote. It does not tell what it did, only that it did something.
            self.cache.clear();
            let _ = self.wakeups.send(Wakeup::Everything);
        }
        Ok(())
    }

    fn reopened(&mut self) -> Result<Connection, Error> {
        self.data_version = None;
        let mut db = self.file.writer()?;
        watch(&mut db, self.bell.clone())?;
        Ok(db)
    }
}

/// Returns when everything is on the disk.
fn commit(db: &Connection) -> Result<(), Error> {
    db.prepare_cached(COMMIT)?.execute([]).map_err(fault::of_commit)?;
    Ok(())
}

/// Ends a transaction that wrote nothing: there is nothing to wait for.
fn leave(db: &Connection) -> Result<(), Error> {
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

/// SQLite ends a transaction by itself when there is no room or the disk fails.
fn is_rolled_back(db: &Connection) -> bool {
    let rolled_back = db.is_autocommit() || db.execute_batch(ROLLBACK).is_ok();
    if !rolled_back {
        tracing::warn!("rolling back failed; the connection is opened anew");
    }
    rolled_back
}
