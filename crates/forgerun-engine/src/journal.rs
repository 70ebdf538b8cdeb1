//! Journal readers, each with a cursor of its own. At least once, in order: a reader that continues
//! from its stored position misses nothing.

use std::sync::Arc;

use forgerun_store::{JournalRow, Store};
use tokio::sync::watch;

use crate::Error;

/// Notifies readers of new rows.
#[derive(Clone)]
pub(crate) struct JournalSignal {
    /// Set when the engine has stopped: existing rows can be read, but no new ones follow.
    stopped: Arc<watch::Sender<bool>>,
}

impl Default for JournalSignal {
    fn default() -> Self {
        JournalSignal { stopped: Arc::new(watch::channel(false).0) }
    }
}

impl JournalSignal {
    pub(crate) fn ring(&self) {
        self.stopped.send_modify(|_| {});
    }

    /// Notifies for the last time.
    pub(crate) fn close(&self) {
        self.stopped.send_replace(true);
    }
}

/// Reads the journal from a position on.
pub struct JournalReader {
    store: Arc<dyn Store>,
    stopped: watch::Receiver<bool>,
    after: i64,
}

impl JournalReader {
    pub(crate) fn new(store: Arc<dyn Store>, journal_signal: &JournalSignal, after: i64) -> JournalReader {
        JournalReader { store, stopped: journal_signal.stopped.subscribe(), after }
    }

    /// The position up to which it has read.
    pub fn position(&self) -> i64 {
        self.after
    }

    /// The next rows, from one to `limit`; waits for the first. [`Error::Stopped`] once the engine
    /// has stopped and all rows are read. Cancel-safe: the cursor moves only when rows are
    /// returned.
    pub async fn next(&mut self, limit: usize) -> Result<Vec<JournalRow>, Error> {
        loop {
            // Subscribed before the query, so that a row written in between is not missed.
            let stopped = *self.stopped.borrow_and_update();
            let rows = self.store.journal(self.after, limit.max(1)).await?;
            if let Some(last) = rows.last() {
                self.after = last.seq;
                return Ok(rows);
            }
            if stopped {
                return Err(Error::Stopped);
            }
            self.stopped.changed().await.map_err(|_| Error::Stopped)?;
        }
    }
}
