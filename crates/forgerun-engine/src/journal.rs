//! Readers of the journal, each with a cursor of its own. At least once, in order: a reader that goes on from the place it
//! remembers misses nothing.

use std::sync::Arc;

use forgerun_store::{JournalRow, Store};
use tokio::sync::watch;

use crate::Error;

/// Rung when the journal has grown.
#[derive(Clone)]
pub(crate) struct JournalSignal {
    /// Whether the engine has stopped: what is there then may be read, but nothing more comes.
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

    /// Rings for the last time.
    pub(crate) fn close(&self) {
        self.stopped.send_replace(true);
    }
}

/// Reads the journal from a place on.
pub struct JournalReader {
    store: Arc<dyn Store>,
    stopped: watch::Receiver<bool>,
    after: i64,
}

impl JournalReader {
    pub(crate) fn new(store: Arc<dyn Store>, journal_signal: &JournalSignal, after: i64) -> JournalReader {
        JournalReader { store, stopped: journal_signal.stopped.subscribe(), after }
    }

    /// The place up to which this reader has read: where another one may go on.
    pub fn position(&self) -> i64 {
        self.after
    }

    /// The next rows, at least one and at most `limit`; waits until there is one. Once the engine has stopped and all is
    /// read, [`Error::Stopped`]. Safe to drop: nothing is lost, since the cursor moves only when rows are handed out.
    pub async fn next(&mut self, limit: usize) -> Result<Vec<JournalRow>, Error> {
        loop {
            // Heard before looking, so that a row written in between rings again.
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
