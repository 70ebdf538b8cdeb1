//! What an operator may set about the running parts. Every queue and loop has its bound here.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::limits;

use crate::observer::{NoObserver, Observer};

/// Settings of an engine.
#[derive(Clone, Debug)]
pub struct Options {
    /// Commands that may wait for the committer; one more is refused.
    pub commands_waiting_max: usize,
    /// What the commands in one transaction may weigh together (`Command::weight`); most weigh one.
    pub batch_max: usize,
    /// Due jobs handled in one transaction.
    pub due_max: usize,
    /// How often to look for due jobs that another node left behind.
    pub due_refresh: Duration,
    /// How often to look everywhere, on a store that other nodes share, in case their news was lost.
    pub news_refresh: Duration,
    /// How long to wait before asking a store again that failed.
    pub store_retry: Duration,
    /// How often to sweep the journal and the tombstones.
    pub sweep_every: Duration,
    /// How many rows one sweep deletes at once.
    pub sweep_max: usize,
    /// How long journal rows are kept: as long as a reader may lag behind.
    pub journal_keep: Duration,
    /// How long the sweeper waits for a sink that has not sent what is in the journal, if that is longer.
    pub sink_lag_max: Duration,
    /// How long it is remembered that a forgotten job existed.
    pub tombstone_keep: Duration,
    /// How long revoked API keys are kept, for audit.
    pub revoked_key_keep: Duration,
    /// How long deliveries are kept that arrived or were given up.
    pub delivery_keep: Duration,
    /// Jobs that may wait in the queue of a schedule; a tick is put off while there are as many. `None` for no bound of the server.
    pub queue_max: Option<u64>,
    /// Bytes that one result may have.
    pub result_bytes_max: u64,
    /// Who watches the commits.
    pub observer: Arc<dyn Observer>,
}

impl Options {
    /// How many commands may wait unless something else is said: enough for a thousand connections to each have a few under
    /// way, and small enough that the wait behind it stays well under a second.
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
            observer: Arc::new(NoObserver),
        }
    }
}
