//! Options of the running parts. Every queue and loop has its bound here.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::limits;

use crate::observer::{NoObserver, Observer};

#[derive(Clone, Debug)]
pub struct Options {
    /// Commands that may wait for the committer; further ones are refused.
    pub commands_waiting_max: usize,
    /// Total weight of the commands in one transaction (`Command::weight`); most weigh one.
    pub batch_max: usize,
    /// Due jobs per transaction.
    pub due_max: usize,
    /// Interval of checks for due jobs that another node left behind.
    pub due_refresh: Duration,
    /// Interval of full checks on a shared store, in case news of other nodes was lost.
    pub news_refresh: Duration,
    /// Wait before a failed store is used again.
    pub store_retry: Duration,
    /// Interval of sweeps of journal and tombstones.
    pub sweep_every: Duration,
    /// Rows that one sweep deletes at once.
    pub sweep_max: usize,
    /// Retention of journal rows: how far a reader may lag.
    pub journal_keep: Duration,
    /// How much longer journal rows are kept for a sink that has not sent them.
    pub sink_lag_max: Duration,
    /// Retention of tombstones.
    pub tombstone_keep: Duration,
    /// Retention of revoked API keys, for audit.
    pub revoked_key_keep: Duration,
    /// Retention of settled deliveries.
    pub delivery_keep: Duration,
    /// Bound on waiting jobs in the queue of a schedule; a tick is put off beyond it. `None` for no
    /// bound.
    pub queue_max: Option<u64>,
    pub result_bytes_max: u64,
    /// Bytes of the log of an attempt; beyond it the oldest lines are deleted.
    pub log_bytes_max: u64,
    pub observer: Arc<dyn Observer>,
}

impl Options {
    /// Default bound on waiting commands: enough for a thousand connections with a few each, and
    /// small enough that the wait stays well under a second.
    pub const COMMANDS_WAITING: usize = 8192;
}

impl Default for Options {
    fn default() -> Self {
        Options {
            commands_waiting_max: Options::COMMANDS_WAITING,
            batch_max: limits::BATCH_WEIGHT_MAX,
            due_max: limits::DUE_JOBS_MAX,
            due_refresh: Duration::from_secs(1),
            news_refresh: Duration::from_secs(5),
            store_retry: Duration::from_millis(100),
            sweep_every: Duration::from_secs(60),
            sweep_max: 1000,
            journal_keep: Duration::from_secs(7 * 24 * 3600),
            sink_lag_max: Duration::from_secs(72 * 3600),
            tombstone_keep: limits::TOMBSTONE,
            revoked_key_keep: Duration::from_secs(90 * 24 * 3600),
            delivery_keep: limits::DELIVERY_KEEP,
            queue_max: None,
            result_bytes_max: 1 << 30,
            log_bytes_max: limits::LOG_BYTES,
            observer: Arc::new(NoObserver),
        }
    }
}
