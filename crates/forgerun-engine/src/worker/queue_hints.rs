//! Hints for the built-in worker: queues that may have simulated work, and jobs that were
//! cancelled.
//!
//! A simulated job may be in any queue, so the built-in worker does not know its queues beforehand.
//! Every announced queue is listed here until a claim finds it empty. A queue announced during a
//! claim stays: its epoch is newer than the claim's. If announcements were missed, the store is
//! queried for the queues.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard};

use forgerun_core::history::{Event, EventKind, JournalEntry};
use forgerun_core::id::JobId;
use forgerun_core::job::{Lane, Name, Shelf};
use forgerun_core::limits;
use forgerun_core::state::{Cause, State};
use tokio::sync::{Notify, broadcast};

/// Queues that are listed. Their names come from clients, so they are bounded; when the list is
/// full, the rest is read from the store once there is room.
const QUEUES_MAX: usize = 1024;

/// Idle loops woken per announcement; all at once would mostly find nothing.
const WOKEN_AT_ONCE: usize = 64;

/// Idle loops woken by one that left jobs behind.
const WOKEN_BY_LEFTOVERS: usize = 2;

/// Lists of cancelled jobs that a loop may be behind. A loop that misses more checks every job it
/// has.
const CALLED_OFF_MAX: usize = 256;

#[derive(Clone)]
pub(crate) struct QueueHints {
    inner: Arc<SharedHints>,
}

struct SharedHints {
    state: Mutex<HintState>,
    announced: Notify,
    called_off: broadcast::Sender<Arc<[JobId]>>,
}

struct HintState {
    /// Queues that may have work, and the epoch of their last announcement.
    queues: BTreeMap<Name, u64>,
    epoch: u64,
    /// Further queues may have work: the store must be queried.
    missed: bool,
    /// A claim was stopped by the bound on active jobs, and no job has ended since.
    capped: bool,
    /// The epoch in which a held job last ended.
    cap_epoch: u64,
}

/// Queues to search, as of one moment.
pub(super) struct HintedQueues {
    /// In the order of the search; never empty.
    pub(super) queues: Vec<Name>,
    /// A queue with a later announcement has new work.
    epoch: u64,
    cap_epoch: u64,
}

impl Default for QueueHints {
    fn default() -> Self {
        // Missed from the start: jobs in the store were announced before.
        let state =
            HintState { queues: BTreeMap::new(), epoch: 0, missed: true, capped: false, cap_epoch: 0 };
        let called_off = broadcast::Sender::new(CALLED_OFF_MAX);
        QueueHints {
            inner: Arc::new(SharedHints { state: Mutex::new(state), announced: Notify::new(), called_off }),
        }
    }
}

impl QueueHints {
    fn state(&self) -> MutexGuard<'_, HintState> {
        // Nothing in here can panic halfway through a change.
        self.inner.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wake(&self, n: usize) {
        // One permit more than there are waiters is kept for the next, and costs it a check.
        (0..n).for_each(|_| self.inner.announced.notify_one());
    }

    /// Announces jobs on these shelves; those of other lanes are ignored.
    pub(crate) fn announce<'a>(&self, shelves: impl IntoIterator<Item = &'a Shelf>) {
        let built_in = |shelf: &&Shelf| shelf.lane == Lane::BuiltIn;
        self.announce_queues(shelves.into_iter().filter(built_in).map(|shelf| &shelf.name));
    }

    /// Announces jobs in these queues.
    pub(super) fn announce_queues<'a>(&self, queues: impl IntoIterator<Item = &'a Name>) {
        let mut state = self.state();
        let before = state.epoch;
        queues.into_iter().for_each(|queue| state.announce(queue));
        let is_news = state.epoch > before;
        drop(state);
        if is_news {
            self.wake(WOKEN_AT_ONCE);
        }
    }

    /// Announces that there may be jobs anywhere.
    pub(crate) fn announce_anywhere(&self) {
        let mut state = self.state();
        state.missed = true;
        state.make_room();
        drop(state);
        self.wake(WOKEN_AT_ONCE);
    }

    /// Announces that a held job has ended.
    pub(crate) fn announce_room(&self) {
        if self.state().make_room() {
            self.wake(WOKEN_AT_ONCE);
        }
    }

    /// Informs the loops of held jobs that these events ended or moved without their holder.
    pub(crate) fn call_off(&self, entries: &[JournalEntry]) {
        if self.inner.called_off.receiver_count() == 0 {
            return;
        }
        let events = entries.iter().filter_map(JournalEntry::job_event);
        let jobs: Vec<JobId> = events.filter(|(_, event)| is_call_off(event)).map(|(job, _)| job).collect();
        if !jobs.is_empty() {
            // The last loop may just have ended.
            let _ = self.inner.called_off.send(jobs.into());
        }
    }

    /// Subscribes to jobs that are taken from their holder.
    pub(super) fn called_off(&self) -> broadcast::Receiver<Arc<[JobId]>> {
        self.inner.called_off.subscribe()
    }

    /// Whether the store must be queried for queues. Returns true to one caller only; that one
    /// queries it, or calls [`Self::announce_anywhere`] again. While many queues are listed there
    /// is work enough.
    pub(super) fn take_missed(&self) -> bool {
        let mut state = self.state();
        state.queues.len() <= QUEUES_MAX / 2 && std::mem::take(&mut state.missed)
    }

    /// Queues to search, if any: as many as one claim may name, those after `last` first, so that
    /// each is first in turn.
    pub(super) fn look(&self, last: Option<&Name>) -> Option<HintedQueues> {
        let state = self.state();
        if state.queues.is_empty() || state.capped {
            return None;
        }
        let behind = match last {
            Some(last) => state.queues.range::<Name, _>((Excluded(last), Unbounded)),
            None => state.queues.range::<Name, _>(..),
        };
        let n_max = state.queues.len().min(limits::CLAIM_QUEUES_MAX);
        let queues = behind.chain(&state.queues).map(|(name, _)| name.clone()).take(n_max).collect();
        Some(HintedQueues { queues, epoch: state.epoch, cap_epoch: state.cap_epoch })
    }

    /// The claim after `look` left no job in its queues.
    pub(super) fn found_nothing_left(&self, look: &HintedQueues) {
        let mut state = self.state();
        for queue in &look.queues {
            if state.queues.get(queue).is_some_and(|&epoch| epoch <= look.epoch) {
                state.queues.remove(queue);
            }
        }
    }

    /// The claim after `look` left jobs behind: other loops should check too.
    pub(super) fn found_more(&self) {
        self.wake(WOKEN_BY_LEFTOVERS);
    }

    /// The claim after `look` was stopped by the bound on active jobs.
    pub(super) fn found_cap(&self, look: &HintedQueues) {
        let mut state = self.state();
        // The claim locked jobs that a concurrent one may have skipped and reported as missing.
        look.queues.iter().for_each(|queue| state.announce(queue));
        state.capped = state.cap_epoch == look.cap_epoch;
    }

    /// Resolves when there may be work. Cancel-safe: an earlier wakeup goes to the next waiter.
    pub(super) async fn announced(&self) {
        self.inner.announced.notified().await;
    }
}

impl HintState {
    fn announce(&mut self, queue: &Name) {
        self.epoch += 1;
        if let Some(epoch) = self.queues.get_mut(queue) {
            *epoch = self.epoch;
        } else if self.queues.len() < QUEUES_MAX {
            self.queues.insert(queue.clone(), self.epoch);
        } else {
            self.missed = true;
        }
    }

    fn make_room(&mut self) -> bool {
        self.epoch += 1;
        self.cap_epoch = self.epoch;
        std::mem::take(&mut self.capped)
    }
}

/// A holder learns the effect of its own reports from their answers; this is about all other
/// events.
fn is_call_off(event: &Event) -> bool {
    match event.kind {
        EventKind::Moved { from: Some(from), to, cause, .. } if from.is_active() => {
            to == State::Canceled || matches!(cause, Cause::Timeout | Cause::RunnerLost)
        }
        EventKind::Moved { .. } | EventKind::Progress(_) | EventKind::Emitted => false,
    }
}

#[cfg(test)]
mod tests;
