//! Where jobs live. One small trait, spoken in batches; three implementations that pass the same conformance suite:
//! [`memory`] (the reference), `sqlite` (embedded, the default) and `postgres` (several nodes).
//!
//! A store knows no rule. It loads what a batch wants, lets the core decide, and writes what came out, all or nothing.
//! This is the only crate that speaks SQL.

#![forbid(unsafe_code)]

#[cfg(feature = "sqlite")]
pub mod backup;
mod blobs;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod check;
#[cfg(feature = "testing")]
pub mod conformance;
mod error;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod front;
mod id_suffix;
mod logs;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod marks;
pub mod memory;
#[cfg(any(feature = "sqlite", feature = "postgres"))]
mod migrations;
#[cfg(feature = "s3")]
pub mod objects;
mod operator;
#[cfg(feature = "postgres")]
pub mod outbox;
#[cfg(feature = "postgres")]
pub mod postgres;
mod query;
mod rewrite;
#[cfg(feature = "encryption")]
pub mod sealed;
#[cfg(feature = "sqlite")]
pub mod sqlite;
#[cfg(all(feature = "testing", feature = "postgres"))]
pub mod testing;

use std::future::Future;
use std::ops::AddAssign;
use std::pin::Pin;

use forgerun_core::job::Shelf;
use forgerun_core::log::LogBatch;
use forgerun_core::rows::Minute;
use forgerun_core::time::Time;
use forgerun_core::{Changes, Rows, Wants};
use tokio::sync::broadcast;

pub use blobs::{BlobPlace, Blobs, DoomedBlob, NoteUpload, ObjectPlace, Sink, Source};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use check::{CheckReport, Finding, FindingKind};
pub use error::{Error, Fault};
pub use id_suffix::IdSuffix;
pub use logs::{LogChunk, LogQuery};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub use migrations::SchemaStatus;
pub use operator::OperatorQuery;
pub use query::{
    DeliveriesOf, DeliveryFilter, Filter, JobsAhead, JournalRow, ListPage, Page, Query, QueueCounts,
    StoredResult, Tombstone,
};
pub use rewrite::Rewrite;

/// What a call of a store gives: boxed, because a store is chosen at run time.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, Error>> + Send + 'a>>;

/// Turns the rows of a batch into its changes. Owned, so that a store may run it on a thread of its own; `FnMut`, because a
/// batch that lost a race is loaded and decided again.
pub type Decide = Box<dyn FnMut(Rows) -> Changes + Send>;

/// A place where jobs live.
pub trait Store: Send + Sync + 'static {
    /// Loads and locks what is wanted, lets `decide` turn it into changes, and writes these all or nothing. Durable when it
    /// returns. Changes that write nothing cost no write.
    fn transact(&self, wants: Wants, decide: Decide) -> Boxed<'_, Changes>;

    /// Reads without locking: one page of anything that can be looked up, listed or counted.
    fn read(&self, query: Query) -> Boxed<'_, Page>;

    /// Appends log lines, one batch per job at most, all or nothing. Returns the number of the last line of each batch;
    /// `None` if its job is gone. Beyond `bytes_max` bytes of an attempt the oldest chunks are deleted
    /// ([`LogPlace::trim`](forgerun_core::log::LogPlace::trim)).
    fn append_logs(&self, batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>>;

    /// Puts contents in the place of others, all or nothing. Only a store that keeps rows itself can.
    fn rewrite(&self, rows: Vec<Rewrite>) -> Boxed<'_, ()> {
        drop(rows);
        Box::pin(async {
            Err(Error::new(Fault::Rejected, "contents cannot be rewritten through this store"))
        })
    }

    /// The bytes beside the rows.
    fn blobs(&self) -> &dyn Blobs;

    /// Deletes journal rows, tombstones, revoked keys, settled deliveries, contents of results, limits nobody uses and loose blobs that are older than these moments,
    /// at most `limit` of each, and says how many of each it deleted.
    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept>;

    /// News of what other processes on the same data made possible.
    fn wakeups(&self) -> broadcast::Receiver<Wakeup>;

    /// How many transactions are worth having under way at once.
    fn lanes(&self) -> usize;

    /// Whether [`Store::transact`] works on the thread that polls it, disk included: a thread for it alone is then the shortest way.
    fn blocks(&self) -> bool {
        false
    }

    /// What time it is by the clock that all processes on the same data share; `None` where that is the clock of the machine.
    fn now(&self) -> Boxed<'_, Option<Time>> {
        Box::pin(async { Ok(None) })
    }

    /// The first report of damage to the store as a whole (not to one row) since it was opened. What is behind it cannot be trusted until an operator
    /// has looked and opened it again.
    fn damage(&self) -> Option<&str> {
        None
    }

    /// Whether other processes may be at work on the same data, so that news of them can be lost.
    fn is_shared(&self) -> bool {
        self.lanes() > 1
    }
}

/// What may go: it belongs to no job any more, or the job was promised it only so long.
#[derive(Clone, Copy, Debug)]
pub struct Sweep {
    /// Journal rows written before this.
    pub journal_before: Time,
    /// And none after this one, because somebody has not read it.
    pub journal_until: i64,
    /// Tombstones of jobs forgotten before this.
    pub tombstones_before: Time,
    /// API keys revoked before this.
    pub revoked_keys_before: Time,
    /// Deliveries that arrived or were given up before this.
    pub deliveries_before: Time,
    /// The content of results that expire at this moment or before. What is known of it stays.
    pub results_until: Time,
    /// Limits that nobody holds a place in and whose turn came before this: they are as if they had never been.
    pub limits_before: Time,
    /// What happened in queues before this minute.
    pub activity_before: Minute,
    /// Blobs that were loose before this.
    pub loose_before: Time,
    /// At most so many of each.
    pub limit: usize,
}

impl Sweep {
    /// A sweep that finds nothing old enough, to begin with.
    pub const fn nothing(limit: usize) -> Sweep {
        const NEVER: Time = Time::from_micros(i64::MIN);
        Sweep {
            journal_before: NEVER,
            journal_until: i64::MAX,
            tombstones_before: NEVER,
            revoked_keys_before: NEVER,
            deliveries_before: NEVER,
            results_until: NEVER,
            limits_before: NEVER,
            activity_before: Minute(i64::MIN),
            loose_before: NEVER,
            limit,
        }
    }
}

/// What a sweep deleted: how many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Swept {
    pub journal_rows: usize,
    pub tombstones: usize,
    pub revoked_keys: usize,
    pub deliveries: usize,
    pub results: usize,
    pub limits: usize,
    pub blobs: usize,
    /// Log chunks whose job was deleted while they were written.
    pub log_chunks: usize,
}

impl Swept {
    /// How many in all.
    pub const fn total(&self) -> usize {
        let Swept { journal_rows, tombstones, revoked_keys, deliveries, results, limits, blobs, log_chunks } =
            *self;
        journal_rows + tombstones + revoked_keys + deliveries + results + limits + blobs + log_chunks
    }
}

impl AddAssign for Swept {
    fn add_assign(&mut self, more: Swept) {
        self.journal_rows += more.journal_rows;
        self.tombstones += more.tombstones;
        self.revoked_keys += more.revoked_keys;
        self.deliveries += more.deliveries;
        self.results += more.results;
        self.limits += more.limits;
        self.blobs += more.blobs;
        self.log_chunks += more.log_chunks;
    }
}

/// Something another process on the same data did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wakeup {
    /// There is claimable work on this shelf.
    Shelf(Shelf),
    /// Something happened; the journal has grown.
    Journal,
    /// There is something to deliver.
    Deliveries,
    /// News may have been missed: look everywhere.
    Everything,
}
