//! Waiting workers, and how they are woken. An empty claim costs no transaction: a shelf that a
//! claim found empty is *idle* until a job is put on it.
//!
//! Three races, and how they are avoided:
//!
//! - a job arrives between the check and the wait: a worker enters the line *before* it checks, and
//!   a shelf becomes idle only if nothing was announced since that check began (its epoch);
//! - an announcement reaches only workers that no longer need it: a worker that leaves without
//!   having checked, or without the result of its claim, passes it on to the next;
//! - a woken worker cannot claim, because of the bound on active jobs: it leaves the line, passes
//!   the announcement on and waits for a job to end.
//!
//! A worker in line also places its claim here ([`standing`]): a batch with new jobs executes it,
//! so that mostly no worker is woken.

mod standing;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use forgerun_core::Answer;
use forgerun_core::command::Claim;
use forgerun_core::job::Shelf;
use tokio::sync::Notify;

use crate::Error;
use crate::worker::QueueHints;
pub(crate) use standing::StandingClaim;
use standing::StandingClaims;

/// Waiting workers woken per announcement. A batch of jobs may feed many of them, and a worker that
/// found more than it could claim wakes the next; all at once would mostly find nothing.
const WOKEN_AT_ONCE: usize = 64;

/// Waiting workers woken by one that left jobs behind: two, so that their number doubles with each
/// round.
const WOKEN_BY_LEFTOVERS: usize = 2;

/// Shelves remembered without waiting workers. Their names come from clients, so they are bounded;
/// a forgotten one costs a query.
const SHELVES_KEPT_MAX: usize = 10_000;

#[derive(Clone, Default)]
pub(crate) struct Wakeups {
    line: Arc<Mutex<WaitingWorkers>>,
    /// The same for the built-in worker, which does not know its queues beforehand.
    pub(crate) queue_hints: QueueHints,
}

#[derive(Default)]
struct WaitingWorkers {
    /// A shelf without an entry is not idle and has no waiters.
    shelves: BTreeMap<Shelf, ShelfWaiters>,
    next_waiter: u64,
    /// Counts announcements over all shelves, so that a shelf that is forgotten and added again
    /// never repeats an epoch.
    epoch: u64,
    /// Workers that found the bound on active jobs reached.
    capped: BTreeMap<u64, Arc<Notify>>,
    /// The epoch in which a held job last ended.
    cap_epoch: u64,
    /// Claims of waiting workers.
    standing: StandingClaims,
}

struct ShelfWaiters {
    /// A claim found nothing, and nothing was announced since.
    idle: bool,
    epoch: u64,
    /// The longest waiting first. A woken waiter is removed, and gets the same place again by
    /// checking.
    waiters: BTreeMap<u64, Arc<Notify>>,
}

/// A worker's place in the lines of its shelves. Left when dropped.
pub(crate) struct Waiter {
    wakeups: Wakeups,
    shelves: Vec<Shelf>,
    number: u64,
    notify: Arc<Notify>,
    state: WaiterState,
    standing: Option<StandingClaim>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum WaiterState {
    /// Not in line: it has not checked yet, or waits for the bound on active jobs.
    NotInLine,
    /// In line. If it is missing there, it was woken and has not checked since.
    InLine,
    /// In line, with a claim under way whose result it does not know.
    Claiming,
}

/// The state of a waiter's shelves when it checked.
pub(crate) struct ShelfCheck {
    epochs: Vec<u64>,
    cap_epoch: u64,
    /// Whether there may be work.
    pub(crate) worthwhile: bool,
}

impl Wakeups {
    fn line(&self) -> MutexGuard<'_, WaitingWorkers> {
        // Nothing in here can panic halfway through a change.
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// A waiter for these shelves.
    pub(crate) fn wait_for(&self, shelves: Vec<Shelf>) -> Waiter {
        let number = self.line().number();
        Waiter {
            wakeups: self.clone(),
            shelves,
            number,
            notify: Arc::default(),
            state: WaiterState::NotInLine,
            standing: None,
        }
    }

    /// Announces jobs on these shelves.
    pub(crate) fn wake<'a>(&self, shelves: impl IntoIterator<Item = &'a Shelf> + Clone) {
        self.queue_hints.announce(shelves.clone());
        let mut line = self.line();
        shelves.into_iter().for_each(|shelf| line.wake(shelf, WOKEN_AT_ONCE));
    }

    /// Announces that there may be jobs anywhere.
    pub(crate) fn wake_all(&self) {
        self.queue_hints.announce_anywhere();
        let mut line = self.line();
        let line = &mut *line;
        line.epoch += 1;
        line.shelves.values_mut().for_each(|spot| spot.wake(WOKEN_AT_ONCE, line.epoch));
        line.wake_capped();
    }

    /// Announces that a held job has ended.
    pub(crate) fn wake_capped(&self) {
        self.queue_hints.announce_room();
        self.line().wake_capped();
    }
}

impl WaitingWorkers {
    fn number(&mut self) -> u64 {
        self.next_waiter += 1;
        self.next_waiter
    }

    fn wake(&mut self, shelf: &Shelf, n: usize) {
        self.epoch += 1;
        if let Some(spot) = self.shelves.get_mut(shelf) {
            spot.wake(n, self.epoch);
        }
    }

    fn wake_capped(&mut self) {
        self.epoch += 1;
        self.cap_epoch = self.epoch;
        std::mem::take(&mut self.capped).into_values().for_each(|notify| notify.notify_one());
    }

    fn spot(&mut self, shelf: &Shelf) -> &mut ShelfWaiters {
        self.epoch += 1;
        let unknown = ShelfWaiters { idle: false, epoch: self.epoch, waiters: BTreeMap::new() };
        self.shelves.entry(shelf.clone()).or_insert(unknown)
    }

    /// Removes a waiter from a line, and passes on an announcement that it did not use.
    fn remove(&mut self, shelf: &Shelf, number: u64, state: WaiterState) {
        let n_shelves = self.shelves.len();
        let Some(spot) = self.shelves.get_mut(shelf) else { return };
        let was_woken = spot.waiters.remove(&number).is_none();
        let in_vain = match state {
            WaiterState::NotInLine => false,
            WaiterState::InLine => was_woken && !spot.idle,
            // Its claim may have failed after locking jobs, so even an idle shelf is uncertain.
            WaiterState::Claiming => true,
        };
        if in_vain {
            self.epoch += 1;
            spot.wake(1, self.epoch);
        }
        if spot.waiters.is_empty() && (!spot.idle || n_shelves > SHELVES_KEPT_MAX) {
            self.shelves.remove(shelf);
        }
    }
}

impl ShelfWaiters {
    fn wake(&mut self, n: usize, epoch: u64) {
        self.idle = false;
        self.epoch = epoch;
        for _ in 0..n {
            let Some((_, notify)) = self.waiters.pop_first() else { break };
            notify.notify_one();
        }
    }
}

impl Waiter {
    /// Enters the lines, then checks the shelves without a query. If it is worthwhile, a claim
    /// follows, and one of the next three methods reports its result.
    pub(crate) fn look(&mut self) -> ShelfCheck {
        let mut line = self.wakeups.line();
        line.capped.remove(&self.number);
        let mut look = ShelfCheck { epochs: Vec::new(), cap_epoch: line.cap_epoch, worthwhile: false };
        for shelf in &self.shelves {
            let spot = line.spot(shelf);
            spot.waiters.insert(self.number, self.notify.clone());
            look.epochs.push(spot.epoch);
            look.worthwhile |= !spot.idle;
        }
        self.state = if look.worthwhile { WaiterState::Claiming } else { WaiterState::InLine };
        look
    }

    /// The claim found jobs, and perhaps more than it could take: then the next in line should
    /// check too.
    pub(crate) fn took(&mut self, more: bool) {
        self.state = WaiterState::InLine;
        if more {
            let mut line = self.wakeups.line();
            self.shelves.iter().for_each(|shelf| line.wake(shelf, WOKEN_BY_LEFTOVERS));
        }
    }

    /// The claim after `look` found nothing.
    pub(crate) fn found_nothing(&mut self, look: &ShelfCheck) {
        self.state = WaiterState::InLine;
        let mut line = self.wakeups.line();
        for (shelf, &epoch) in self.shelves.iter().zip(&look.epochs) {
            if let Some(spot) = line.shelves.get_mut(shelf).filter(|spot| spot.epoch == epoch) {
                spot.idle = true;
            }
        }
    }

    /// The claim after `look` was stopped by the bound on active jobs.
    pub(crate) fn found_cap(&mut self, look: &ShelfCheck) {
        let mut line = self.wakeups.line();
        self.shelves.iter().for_each(|shelf| line.remove(shelf, self.number, WaiterState::Claiming));
        self.state = WaiterState::NotInLine;
        // A wakeup that reached it in line is passed on by now. If it were kept, it would circulate
        // among capped workers for ever.
        self.notify = Arc::default();
        if line.cap_epoch == look.cap_epoch {
            line.capped.insert(self.number, self.notify.clone());
        } else {
            // A job ended since.
            self.notify.notify_one();
        }
    }

    /// Places its claim for the first batch with new jobs. A waiter for the bound on active jobs
    /// has none.
    pub(crate) fn place_claim(&mut self, claim: &Claim) {
        if self.state == WaiterState::InLine {
            let standing = self.wakeups.place(&mut self.wakeups.line(), self.number, claim.clone());
            self.standing = Some(standing);
        }
    }

    /// Withdraws the claim. If a batch has taken it already, returns its result.
    pub(crate) async fn withdraw(&mut self) -> Option<Result<Answer, Error>> {
        let standing = self.standing.as_mut()?;
        let answer = if standing.withdraw() { None } else { Some(standing.answer().await) };
        self.standing = None;
        answer
    }

    /// Resolves when there may be work, or when a batch has executed the placed claim: then with
    /// its result. Cancel-safe: an earlier wakeup is kept for the next call.
    pub(crate) async fn woken(&mut self) -> Option<Result<Answer, Error>> {
        let Some(standing) = &mut self.standing else {
            self.notify.notified().await;
            return None;
        };
        let answer = tokio::select! {
            biased;
            answer = standing.answer() => answer,
            () = self.notify.notified() => return None,
        };
        self.standing = None;
        Some(answer)
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        if self.standing.take().is_some_and(|mut standing| !standing.withdraw()) {
            // A batch has its claim, and its result is lost.
            self.state = WaiterState::Claiming;
        }
        let mut line = self.wakeups.line();
        self.shelves.iter().for_each(|shelf| line.remove(shelf, self.number, self.state));
        line.capped.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
