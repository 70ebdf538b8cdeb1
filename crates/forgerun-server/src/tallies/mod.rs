//! Limits that hold for all nodes together, though each counts in memory.
//!
//! ```text
//!   requests ──► limiter ──► tally of this node ──► store ──► the other nodes ──► their limiters
//!                   ▲                                                                   │
//!                   └────────────────── the same, the other way round ◄────────────────┘
//! ```
//!
//! A few times per second a node writes what its callers used since the last time, if anything, and
//! reads the others' tallies. So within such an interval a caller can use a limit on several nodes;
//! that makes a debt, and a longer wait. Changed keys are reported in the same way. Quotas are
//! summed in the store itself, because they are permanent.
//!
//! A store that is not shared has no tallies. If the store fails, a node counts alone.

mod reader;
mod writer;

use std::sync::{Arc, Mutex, PoisonError};

use forgerun_core::id::ClientId;
use forgerun_core::tally::NodeTally;
use forgerun_core::{Answer, Command};
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;

use self::reader::TallyReader;
use self::writer::TallyWriter;
use crate::app::App;
use crate::limits::{
    PAGE_MAX, QUOTAS_PER_ROUND, READY_TIMEOUT, TALLY_EVERY, TALLY_KEYS_MAX, TALLY_STOP_GRACE,
};

/// News for other nodes.
#[derive(Debug, Default)]
pub struct NodeNews {
    keys_changed: Mutex<Vec<ClientId>>,
    news: Notify,
}

impl NodeNews {
    /// Reports a changed key of a client.
    pub(crate) fn key_changed(&self, client: ClientId) {
        let mut changed = self.keys_changed.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a shared store nothing collects them.
        if changed.len() < TALLY_KEYS_MAX {
            changed.push(client);
        }
        self.news.notify_one();
    }

    fn take(&self) -> Vec<ClientId> {
        std::mem::take(&mut *self.keys_changed.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Handle of the tally loop. Dropping it cuts the loop off.
pub struct TallyHandle {
    stop: watch::Sender<bool>,
    task: JoinHandle<()>,
}

impl TallyHandle {
    /// Starts the loop, and returns when the callers' previous use is known; `None` without other
    /// nodes.
    pub async fn start(app: &Arc<App>) -> Option<TallyHandle> {
        let is_shared = app.engine.store().is_shared();
        if !is_shared && !app.limiter.has_quota() {
            return None;
        }
        let (stop, stopped) = watch::channel(false);
        let mut tallies = TallyLoop {
            app: app.clone(),
            writer: TallyWriter::default(),
            reader: TallyReader::default(),
            is_shared,
        };
        // If the store fails, the start does not wait for long: the loop retries.
        if is_shared {
            let _ = timeout(READY_TIMEOUT, tallies.read_others()).await;
        }
        Some(TallyHandle { stop, task: tokio::spawn(tallies.run(stopped)) })
    }

    /// Reports the rest, and ends.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = timeout(TALLY_STOP_GRACE, &mut self.task).await;
    }
}

impl Drop for TallyHandle {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct TallyLoop {
    app: Arc<App>,
    writer: TallyWriter,
    reader: TallyReader,
    is_shared: bool,
}

impl TallyLoop {
    async fn run(mut self, mut stopped: watch::Receiver<bool>) {
        loop {
            let is_last = *stopped.borrow_and_update();
            self.round().await;
            if is_last {
                return;
            }
            tokio::select! {
                // A dropped handle means stop, too.
                _ = stopped.changed() => {}
                () = self.app.node_news.news.notified() => {}
                () = self.app.clock.sleep(TALLY_EVERY) => {}
            }
        }
    }

    async fn round(&mut self) {
        if self.is_shared {
            self.publish().await;
            self.read_others().await;
        }
        self.add_quotas().await;
    }

    /// Writes the news of this node. If that fails, they are repeated next time.
    async fn publish(&mut self) {
        let app = &self.app;
        self.writer.begin();
        for limiter in app.limiters() {
            limiter.take_untold(|key, n, full_at| self.writer.spent(key, n, full_at));
        }
        app.node_news.take().into_iter().for_each(|client| self.writer.key_changed(client));
        let Some(tally) = self.writer.tally(app.node.as_str(), app.clock.now()) else { return };
        match app.engine.run(Command::Tally(tally.into())).await {
            Ok(_) => self.writer.written(),
            Err(error) => tracing::debug!(%error, "tally write failed"),
        }
    }

    /// Applies the news of other nodes.
    async fn read_others(&mut self) {
        let app = &self.app;
        let tallies: Result<Vec<NodeTally>, _> =
            app.engine.store().records(None, String::new(), PAGE_MAX).await;
        let mut tallies = match tallies {
            Ok(tallies) => tallies,
            Err(error) => return tracing::debug!(%error, "tally read failed"),
        };
        tallies.retain(|tally| tally.node != app.node.as_str());
        let news = self.reader.read(&tallies);
        let now = app.clock.now();
        for (key, spent) in news.spent {
            app.limiters().for_each(|limiter| limiter.add_remote(key, spent, now));
        }
        news.keys_changed.into_iter().for_each(|client| app.keys_changed_elsewhere(client));
    }

    /// Adds the quota use to the stored totals. If the result is unknown, it is added again.
    async fn add_quotas(&self) {
        let limiter = &self.app.limiter;
        let untold = limiter.quota_untold(QUOTAS_PER_ROUND);
        if !limiter.has_quota() || untold.is_empty() {
            return;
        }
        match self.app.engine.run(Command::Spend(untold.clone())).await {
            Ok(Answer::Spent(spent)) => limiter.quota_told(&untold, &spent, self.app.clock.now()),
            Ok(other) => tracing::debug!(?other, "quota update failed"),
            Err(error) => tracing::debug!(%error, "quota update failed"),
        }
    }
}
