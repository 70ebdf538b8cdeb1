//! Workers that wait for work, and who wakes them. An empty claim costs no transaction: a shelf that a claim found empty is
//! known to be *idle* until something is put on it.
//!
//! Three traps, and what shuts them:
//!
//! - the job that arrives between a look and the wait: a worker takes its place in the line *before* it looks, and a
//!   shelf is only marked idle if nothing was announced since that look began (its epoch);
//! - the announcement that reaches only workers who do not need it any more: one that leaves without having looked, or
//!   without having learnt what its claim found, passes it on to the next;
//! - the worker that cannot take what it was woken for, because of the bound on active jobs: it leaves the line, passes
//!   the announcement on and waits for a job to end.
//!
//! Whoever stands in line also leaves its claim there ([`standing`]): a batch that brings work carries it out, so that mostly nobody is woken.

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

/// Waiting workers woken per announcement. A batch of jobs may feed many of them, and one that found more than it
/// could take wakes the next; all of them at once would mostly find nothing.
const WOKEN_AT_ONCE: usize = 64;

/// Waiting workers woken by one that left work behind: two, so that with each round twice as many look.
const WOKEN_BY_LEFTOVERS: usize = 2;

/// Shelves remembered although nobody waits there. Their names come from clients, so there must be an end to them; one
/// that is forgotten costs a look.
const SHELVES_KEPT_MAX: usize = 10_000;

#[derive(Clone, Default)]
pub(crate) struct Wakeups {
    line: Arc<Mutex<WaitingWorkers>>,
    /// The same news for the built-in worker, which does not wait for shelves that it knows beforehand.
    pub(crate) queue_hints: QueueHints,
}

#[derive(Default)]
struct WaitingWorkers {
    /// A shelf that is not here is not idle, and nobody waits for it.
    shelves: BTreeMap<Shelf, ShelfWaiters>,
    next_waiter: u64,
    /// Counts announcements over all shelves, so that a shelf forgotten and met again never has an epoch that somebody
    /// remembers.
    epoch: u64,
    /// Workers that found the bound on active jobs reached.
    capped: BTreeMap<u64, Arc<Notify>>,
    /// The epoch in which a held job last ended.
    cap_epoch: u64,
    /// Claims of those who wait.
    standing: StandingClaims,
}

struct ShelfWaiters {
    /// A claim looked and found nothing, and nothing was announced since.
    idle: bool,
    epoch: u64,
    /// The longest waiting first. Whoever is woken is taken out, and takes the same place again by looking.
    waiters: BTreeMap<u64, Arc<Notify>>,
}

/// A worker's place in the line of its shelves. Leaves it when dropped.
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
    /// Not in line: it has not looked yet, or waits for the bound on active jobs.
    NotInLine,
    /// In line. Missing there means that it was woken and has not looked since.
    InLine,
    /// In line, and a claim is under way whose result it does not know.
    Claiming,
}

/// What the shelves of a waiter looked like when it looked.
pub(crate) struct ShelfCheck {
    epochs: Vec<u64>,
    cap_epoch: u64,
    /// Whether there may be work.
    pub(crate) worthwhile: bool,
}

impl Wakeups {
    fn line(&self) -> MutexGuard<'_, WaitingWorkers> {
        // Nothing in here can panic half-way through a change.
        self.line.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Somebody who will look at these shelves.
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

    /// Announces work on these shelves.
    pub(crate) fn wake<'a>(&self, shelves: impl IntoIterator<Item = &'a Shelf> + Clone) {
        self.queue_hints.announce(shelves.clone());
        let mut line = self.line();
        shelves.into_iter().for_each(|shelf| line.wake(shelf, WOKEN_AT_ONCE));
    }

    /// Announces that there may be work anywhere.
    pub(crate) fn wake_all(&self) {
        self.queue_hints.announce_anywhere();
        let mut line = self.line();
        let line = &mut *line;
        line.epoch += 1;
        line.shelves.values_mut().for_each(|spot| spot.wake(WOKEN_AT_ONCE, line.epoch));
        line.wake_capped();
    }

    /// Announces that a job which a worker held has ended.
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

    /// Takes a waiter out of the line of a shelf, and passes on what was announced to it in vain.
    fn remove(&mut self, shelf: &Shelf, number: u64, state: WaiterState) {
        let n_shelves = self.shelves.len();
        let Some(spot) = self.shelves.get_mut(shelf) else { return };
        let was_woken = spot.waiters.remove(&number).is_none();
        let in_vain = match state {
            WaiterState::NotInLine => false,
            WaiterState::InLine => was_woken && !spot.idle,
            // Its claim may have failed after hiding jobs from others, so that even idle is not sure.
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
    /// Takes its place in the line, then looks at the shelves, without touching the store. If it is worthwhile, a claim
    /// follows, and what it finds is told by one of the next three.
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

    /// The claim found work, and perhaps more than it could take: then the next in line should look too.
    pub(crate) fn took(&mut self, more: bool) {
        self.state = WaiterState::InLine;
        if more {
            let mut line = self.wakeups.line();
            self.shelves.iter().for_each(|shelf| line.wake(shelf, WOKEN_BY_LEFTOVERS));
        }
    }

    /// The claim that followed `look` found nothing.
    pub(crate) fn found_nothing(&mut self, look: &ShelfCheck) {
        self.state = WaiterState::InLine;
        let mut line = self.wakeups.line();
        for (shelf, &epoch) in self.shelves.iter().zip(&look.epochs) {
            if let Some(spot) = line.shelves.get_mut(shelf).filter(|spot| spot.epoch == epoch) {
                spot.idle = true;
            }
        }
    }

    /// The claim that followed `look` was stopped by the bound on active jobs.
    pub(crate) fn found_cap(&mut self, look: &ShelfCheck) {
        let mut line = self.wakeups.line();
        self.shelves.iter().for_each(|shelf| line.remove(shelf, self.number, WaiterState::Claiming));
        self.state = WaiterState::NotInLine;
        // A wake-up that reached it in line is passed on by now. Kept as well, it would go round among capped workers for
        // ever.
        self.notify = Arc::default();
        if line.cap_epoch == look.cap_epoch {
            line.capped.insert(self.number, self.notify.clone());
        } else {
            // A job ended since.
            self.notify.notify_one();
        }
    }

    /// Leaves its claim with the line, for the first batch that brings work. One that waits for the bound on active jobs has none to leave.
    pub(crate) fn place_claim(&mut self, claim: &Claim) {
        if self.state == WaiterState::InLine {
            let standing = self.wakeups.place(&mut self.wakeups.line(), self.number, claim.clone());
            self.standing = Some(standing);
        }
    }

    /// Takes the claim back. Where a batch has it already, what the batch made of it.
    pub(crate) async fn withdraw(&mut self) -> Option<Result<Answer, Error>> {
        let standing = self.standing.as_mut()?;
        let answer = if standing.withdraw() { None } else { Some(standing.answer().await) };
        self.standing = None;
        answer
    }

    /// Ready once there may be work, or once a batch has carried out the claim that it left: then what became of it. Safe to drop: a wake-up
    /// that came first is kept for the next call.
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
            // A batch has its claim, and nobody will learn what it found.
            self.state = WaiterState::Claiming;
        }
        let mut line = self.wakeups.line();
        self.shelves.iter().for_each(|shelf| line.remove(shelf, self.number, self.state));
        line.capped.remove(&self.number);
    }
}

#[cfg(test)]
mod tests;
