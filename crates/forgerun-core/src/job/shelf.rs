//! Where a job stands, and in which order jobs are taken from there.

use core::cmp::Reverse;

use super::{Job, Name, Parked};
use crate::fair::{self, TurnNames};
use crate::id::JobId;
use crate::state::State;

/// Order of the jobs of a shelf: priority, then position.
pub type QueueOrder = (Reverse<i16>, JobId);

/// Why a job is looked up without its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lane {
    /// Claimable by external workers: real work.
    External = 1,
    /// Claimable by the built-in worker: simulated work.
    BuiltIn = 2,
    /// Waiting for a place in its limit.
    Parked = 3,
    Dead = 4,
    /// Failed, but not a dead letter: found by failure group.
    Failed = 5,
    /// Claimable, but behind the job of its fair key that stands in line.
    Behind = 6,
}

/// Where a store finds jobs of one lane, by priority (highest first), then by id. The name is the
/// queue's key; for [`Lane::Parked`] the limit's key; for [`Lane::Behind`] the row of the fair key;
/// for [`Lane::Dead`] and [`Lane::Failed`] the failure group (for dead letters without a group, the
/// key of the queue as its owner's). A job is on one shelf at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shelf {
    pub lane: Lane,
    pub name: Name,
}

impl Job {
    /// Its order on its shelf: priority, then its turn or acceptance.
    pub fn order(&self) -> QueueOrder {
        let accepted = self.head.place.unwrap_or(self.id);
        let place = self.turn.map_or(accepted, |turn| fair::place(turn, accepted));
        (Reverse(self.head.priority), place)
    }

    /// Its place on its shelf, if that is not its id.
    pub fn place(&self) -> Option<JobId> {
        let (_, place) = self.order();
        (place != self.id).then_some(place)
    }

    /// Limits in which it had its turn, as bits.
    pub(crate) fn turns_had(&self) -> u8 {
        match self.parked {
            Parked::TurnCame => self.turns_had | 1 << self.parked_for,
            Parked::No | Parked::ForPlace | Parked::ForTurn => 0,
        }
    }

    /// Whether a worker may get it now, as far as it is up to the job.
    pub fn is_claimable(&self) -> bool {
        self.state == State::Queued && !self.paused && self.available_at.is_none()
    }

    /// The shelf, derived from the rest of the job.
    pub fn shelf(&self) -> Option<Shelf> {
        self.shelf_of(|| self.head.shelf())
    }

    /// The same if the key of its queue is known, which is not made anew then.
    pub(crate) fn shelf_in(&self, queue: &Name) -> Option<Shelf> {
        self.shelf_of(|| Shelf { lane: self.head.lane(), name: queue.clone() })
    }

    fn shelf_of(&self, claimable: impl FnOnce() -> Shelf) -> Option<Shelf> {
        match (self.state, self.head.limits.get(usize::from(self.parked_for))) {
            (State::Queued, _) if self.paused => None,
            (State::Queued, Some(limit)) if self.parked == Parked::ForPlace => {
                Some(Shelf { lane: Lane::Parked, name: limit.key.clone() })
            }
            (State::Queued, _) if self.available_at.is_none() => match TurnNames::of(&self.head) {
                Some(names) if self.turn.is_none() => Some(names.shelf()),
                Some(_) | None => Some(claimable()),
            },
            (State::Failed, _) => self.failed_shelf(),
            _ => None,
        }
    }

    fn failed_shelf(&self) -> Option<Shelf> {
        let lane = if self.dead_lettered_at.is_some() { Lane::Dead } else { Lane::Failed };
        match (lane, self.failure) {
            (_, Some(failure)) => Some(Shelf { lane, name: failure.shelf_name() }),
            (Lane::Dead, None) => {
                Some(Shelf { lane, name: self.head.owner().scoped(self.head.queue.as_str()) })
            }
            (_, None) => None,
        }
    }
}
