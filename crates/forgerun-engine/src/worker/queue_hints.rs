//! What the built-in worker knows beside the line of waiting workers: which queues may have simulated work, and which jobs were called off.
//!
//! A simulated job may be in any queue, so the built-in worker cannot name its queues beforehand. Every queue on which work
//! is announced stands here until a claim finds it empty. A name that arrives while a claim is under way stays: it has a
//! newer epoch than the one that the claim remembers. When announcements were missed, the store is asked for the queues.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard};

use forgerun_core::history::{Event, EventKind, JournalEntry};
use forgerun_core::id::JobId;
use forgerun_core::job::{Lane, Name, Shelf};
use forgerun_core::limits;
use forgerun_core::state::{Cause, State};
use tokio::sync::{Notify, broadcast};

/// Queues that are remembered. Their names come from clients, so there must be an end to them; when it is full, the rest
/// is read from the store once there is room.
const QUEUES_MAX: usize = 1024;

/// Idle worker loops woken per announcement; as for other workers, all of them at once would mostly find nothing.
const WOKEN_AT_ONCE: usize = 64;

/// Idle worker loops woken by one that left work behind.
const WOKEN_BY_LEFTOVERS: usize = 2;

/// Lists of jobs called off that a worker loop may be behind. One that misses more asks about every job it has.
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
    /// The queues that may have work, and when work was last announced there.
    queues: BTreeMap<Name, u64>,
    /// Counts announcements.
    epoch: u64,
    /// Queues may have work that do not stand here: the store knows.
    missed: bool,
    /// A claim was stopped by the bound on active jobs, and none has ended since.
    capped: bool,
    /// The epoch in which a held job last ended.
    cap_epoch: u64,
}

/// Where there was work to expect when somebody looked.
pub(super) struct HintedQueues {
    /// Where to look for work, in order; never empty.
    pub(super) queues: Vec<Name>,
    /// A queue whose newest announcement is later than this has news.
    epoch: u64,
    cap_epoch: u64,
}

impl Default for QueueHints {
    fn default() -> Self {
        // Missed from the start: what waits in the store was announced to somebody else.
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
        // Nothing in here can panic half-way through a change.
        self.inner.state.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wake(&self, n: usize) {
        // One more than there are waiting is kept for the next, and costs it a look.
        (0..n).for_each(|_| self.inner.announced.notify_one());
    }

    /// Work is announced on these shelves; those of other lanes do not matter here.
    pub(crate) fn announce<'a>(&self, shelves: impl IntoIterator<Item = &'a Shelf>) {
        let built_in = |shelf: &&Shelf| shelf.lane == Lane::BuiltIn;
        self.announce_queues(shelves.into_iter().filter(built_in).map(|shelf| &shelf.name));
    }

    /// Work is announced in these queues.
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

    /// There may be work anywhere.
    pub(crate) fn announce_anywhere(&self) {
        let mut state = self.state();
        state.missed = true;
        state.make_room();
        drop(state);
        self.wake(WOKEN_AT_ONCE);
    }

    /// A job that a worker held has ended.
    pub(crate) fn announce_room(&self) {
        if self.state().make_room() {
            self.wake(WOKEN_AT_ONCE);
        }
    }

    /// Tells the worker loops which of these events ended or moved a job that somebody held without the holder's doing.
    pub(crate) fn call_off(&self, entries: &[JournalEntry]) {
        if self.inner.called_off.receiver_count() == 0 {
            return;
        }
        let events = entries.iter().filter_map(JournalEntry::job_event);
        let jobs: Vec<JobId> = events.filter(|(_, event)| is_call_off(event)).map(|(job, _)| job).collect();
        if !jobs.is_empty() {
            // The last worker loop may just have gone.
            let _ = self.inner.called_off.send(jobs.into());
        }
    }

    /// Hears of jobs called off from now on.
    pub(super) fn called_off(&self) -> broadcast::Receiver<Arc<[JobId]>> {
        self.inner.called_off.subscribe()
    }

    /// Whether the store must be asked for queues. Says so to one who asks; that one reads them, or calls
    /// [`Self::announce_anywhere`] again. While many queues are known there is work enough without.
    pub(super) fn take_missed(&self) -> bool {
        let mut state = self.state();
        state.queues.len() <= QUEUES_MAX / 2 && std::mem::take(&mut state.missed)
    }

    /// Where there may be work, if anywhere: as many queues as one claim may name, those after `last` first, so that each
    /// has its turn to be first.
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

    /// The claim that followed `look` left nothing behind in any of its queues.
    pub(super) fn found_nothing_left(&self, look: &HintedQueues) {
        let mut state = self.state();
        for queue in &look.queues {
            if state.queues.get(queue).is_some_and(|&epoch| epoch <= look.epoch) {
                state.queues.remove(queue);
            }
        }
    }

    /// The claim that followed `look` left work behind: others should look too.
    pub(super) fn found_more(&self) {
        self.wake(WOKEN_BY_LEFTOVERS);
    }

    /// The claim that followed `look` was stopped by the bound on active jobs.
    pub(super) fn found_cap(&self, look: &HintedQueues) {
        let mut state = self.state();
        // The claim held jobs that another one, at the same time, may have passed over and reported as none: they are there.
        look.queues.iter().for_each(|queue| state.announce(queue));
        state.capped = state.cap_epoch == look.cap_epoch;
    }

    /// Ready once there may be work. Safe to drop: a wake-up that came first goes to the next who waits.
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

/// A holder learns what became of its own reports from their answers; here is the rest.
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
