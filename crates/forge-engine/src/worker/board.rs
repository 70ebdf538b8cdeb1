//! The board beside the line of waiting workers: which queues may have simulated work, and which jobs were called off.
//!
//! A simulated job may be in any queue, so the built-in worker cannot name its queues beforehand. Every queue on which work
//! is announced stands here until a claim finds it empty. A name that arrives while a claim is under way stays: it has a
//! newer epoch than the one that the claim remembers. When announcements were missed, the store is asked for the queues.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::{Arc, Mutex, MutexGuard};

use forge_core::history::{Event, EventKind, JournalEntry};
use forge_core::id::JobId;
use forge_core::job::{Lane, Name, Shelf};
use forge_core::limits;
use forge_core::state::{Cause, State};
use tokio::sync::{Notify, broadcast};

/// Queues that stand on the board. Their names come from clients, so there must be an end to them; when it is full, the rest
/// is read from the store once there is room.
const QUEUES_MAX: usize = 1024;

/// Idle hands woken per announcement; as for other workers, all of them at once would mostly find nothing.
const WOKEN_AT_ONCE: usize = 64;

/// Idle hands woken by one that left work behind.
const WOKEN_BY_LEFTOVERS: usize = 2;

/// Lists of jobs called off that a hand may be behind. One that misses more asks about every job it has.
const CALLED_OFF_MAX: usize = 256;

#[derive(Clone)]
pub(crate) struct Board {
    inner: Arc<Inner>,
}

struct Inner {
    notices: Mutex<Notices>,
    posted: Notify,
    called_off: broadcast::Sender<Arc<[JobId]>>,
}

struct Notices {
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

/// What the board said when somebody looked.
pub(super) struct Look {
    /// Where to look for work, in order; never empty.
    pub(super) queues: Vec<Name>,
    /// A queue whose newest announcement is later than this has news.
    epoch: u64,
    cap_epoch: u64,
}

impl Default for Board {
    fn default() -> Self {
        // Missed from the start: what waits in the store was announced to somebody else.
        let notices =
            Notices { queues: BTreeMap::new(), epoch: 0, missed: true, capped: false, cap_epoch: 0 };
        let called_off = broadcast::Sender::new(CALLED_OFF_MAX);
        Board { inner: Arc::new(Inner { notices: Mutex::new(notices), posted: Notify::new(), called_off }) }
    }
}

impl Board {
    fn notices(&self) -> MutexGuard<'_, Notices> {
        // Nothing in here can panic half-way through a change.
        self.inner.notices.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn wake(&self, n: usize) {
        // One more than there are waiting is kept for the next, and costs it a look.
        (0..n).for_each(|_| self.inner.posted.notify_one());
    }

    /// Work is announced on these shelves; those of other lanes do not matter here.
    pub(crate) fn post<'a>(&self, shelves: impl IntoIterator<Item = &'a Shelf>) {
        let built_in = |shelf: &&Shelf| shelf.lane == Lane::BuiltIn;
        self.post_queues(shelves.into_iter().filter(built_in).map(|shelf| &shelf.name));
    }

    /// Work is announced in these queues.
    pub(super) fn post_queues<'a>(&self, queues: impl IntoIterator<Item = &'a Name>) {
        let mut notices = self.notices();
        let before = notices.epoch;
        queues.into_iter().for_each(|queue| notices.post(queue));
        let is_news = notices.epoch > before;
        drop(notices);
        if is_news {
            self.wake(WOKEN_AT_ONCE);
        }
    }

    /// There may be work anywhere.
    pub(crate) fn post_missed(&self) {
        let mut notices = self.notices();
        notices.missed = true;
        notices.make_room();
        drop(notices);
        self.wake(WOKEN_AT_ONCE);
    }

    /// A job that a worker held has ended.
    pub(crate) fn post_room(&self) {
        if self.notices().make_room() {
            self.wake(WOKEN_AT_ONCE);
        }
    }

    /// Tells the hands which of these events ended or moved a job that somebody held without the holder's doing.
    pub(crate) fn call_off(&self, entries: &[JournalEntry]) {
        if self.inner.called_off.receiver_count() == 0 {
            return;
        }
        let events = entries.iter().filter_map(JournalEntry::job_event);
        let jobs: Vec<JobId> = events.filter(|(_, event)| is_call_off(event)).map(|(job, _)| job).collect();
        if !jobs.is_empty() {
            // The last hand may just have gone.
            let _ = self.inner.called_off.send(jobs.into());
        }
    }

    /// Hears of jobs called off from now on.
    pub(super) fn called_off(&self) -> broadcast::Receiver<Arc<[JobId]>> {
        self.inner.called_off.subscribe()
    }

    /// Whether the store must be asked for queues. Says so to one who asks; that one reads them, or calls
    /// [`Self::post_missed`] again. While the board is rather full there is work enough without.
    pub(super) fn take_missed(&self) -> bool {
        let mut notices = self.notices();
        notices.queues.len() <= QUEUES_MAX / 2 && std::mem::take(&mut notices.missed)
    }

    /// Where there may be work, if anywhere: as many queues as one claim may name, those after `last` first, so that each
    /// has its turn to be first.
    pub(super) fn look(&self, last: Option<&Name>) -> Option<Look> {
        let notices = self.notices();
        if notices.queues.is_empty() || notices.capped {
            return None;
        }
        let behind = match last {
            Some(last) => notices.queues.range::<Name, _>((Excluded(last), Unbounded)),
            None => notices.queues.range::<Name, _>(..),
        };
        let n_max = notices.queues.len().min(limits::CLAIM_QUEUES_MAX);
        let queues = behind.chain(&notices.queues).map(|(name, _)| name.clone()).take(n_max).collect();
        Some(Look { queues, epoch: notices.epoch, cap_epoch: notices.cap_epoch })
    }

    /// The claim that followed `look` left nothing behind in any of its queues.
    pub(super) fn found_nothing_left(&self, look: &Look) {
        let mut notices = self.notices();
        for queue in &look.queues {
            if notices.queues.get(queue).is_some_and(|&epoch| epoch <= look.epoch) {
                notices.queues.remove(queue);
            }
        }
    }

    /// The claim that followed `look` left work behind: others should look too.
    pub(super) fn found_more(&self) {
        self.wake(WOKEN_BY_LEFTOVERS);
    }

    /// The claim that followed `look` was stopped by the bound on active jobs.
    pub(super) fn found_cap(&self, look: &Look) {
        let mut notices = self.notices();
        notices.capped = notices.cap_epoch == look.cap_epoch;
    }

    /// Ready once there may be work. Safe to drop: a wake-up that came first goes to the next who waits.
    pub(super) async fn posted(&self) {
        self.inner.posted.notified().await;
    }
}

impl Notices {
    fn post(&mut self, queue: &Name) {
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
