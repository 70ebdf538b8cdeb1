//! Fair shares: the keys of a queue take turns by weight.
//!
//! Within one priority of a queue, only the next job of each key stands in line, with the virtual
//! time at which its turn begins ([`Job::turn`]). The key's other jobs wait behind it, on a shelf
//! of their own. A claim takes the least turn, which the order of the shelf says, and the key's
//! next job steps forward, a turn later. So a claim reads what it hands out, however many jobs and
//! keys wait (start-time fair queueing).
//!
//! Jobs without a key are not lined up. A claim that finds both compares the first of them as one
//! more key of weight 1.
//!
//! [`Job::turn`]: crate::job::Job::turn

use alloc::format;
use core::cmp::Reverse;

use crate::id::JobId;
use crate::job::{Head, Lane, Name, Shelf};
use crate::limits;
use crate::rows::LimitRow;
use crate::time::Time;

/// The key that a job takes turns by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fair {
    pub key: Name,
    /// From 1 to [`limits::FAIR_WEIGHT_MAX`].
    pub weight: u8,
}

impl Fair {
    /// `None` if the weight is out of range.
    pub fn new(key: Name, weight: u8) -> Option<Fair> {
        (1..=limits::FAIR_WEIGHT_MAX).contains(&weight).then_some(Fair { key, weight })
    }
}

/// Virtual time that a turn of weight 1 takes. Divisible by most weights.
const TURN: u64 = 10_080;

/// Virtual time that a turn of this weight takes.
pub(crate) const fn turn_of(weight: u8) -> u64 {
    let weight = if weight == 0 { 1 } else { weight as u64 };
    (TURN + weight / 2) / weight
}

/// Places of jobs that wait for their turn come before those of all other jobs of their priority.
pub(crate) const PLACES_WITHOUT_KEY: JobId = JobId::from_u128(1 << 80);

/// The place of a job whose turn begins then. Of equal turns, the earlier job comes first, nearly
/// always.
pub(crate) const fn place(turn: u64, accepted: JobId) -> JobId {
    const LOW_12: u128 = 0xfff;
    let accepted = accepted.as_u128();
    let order = (accepted >> 80 & LOW_12) << 12 | accepted & LOW_12;
    JobId::from_u128((turn as u128 & ((1 << 56) - 1)) << 24 | order)
}

/// No name of a client has control characters, so these are the first of all limits, too: they are
/// locked in the order of their names.
const MARK: char = '\u{1f}';

/// Whether a limit's row is about turns.
pub fn is_about_turns(row: &Name) -> bool {
    row.as_str().starts_with(MARK)
}

/// Names of the rows with the turns of a priority of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnNames {
    /// The row of the queue, [`QueueTurns`].
    pub queue: Name,
    /// The row of the key, [`KeyTurns`], and the shelf of its jobs that are not in line.
    pub key: Name,
}

impl TurnNames {
    /// `None` for a job without a key.
    pub fn of(head: &Head) -> Option<TurnNames> {
        Some(TurnNames::in_queue(&head.queue_id().key(), head.priority, &head.fair.as_ref()?.key))
    }

    fn in_queue(queue: &Name, priority: i16, key: &Name) -> TurnNames {
        let queue = queue_row(queue, priority);
        TurnNames { key: Name::joined(&format!("{queue}{MARK}{key}")), queue }
    }

    pub fn shelf(&self) -> Shelf {
        Shelf { lane: Lane::Behind, name: self.key.clone() }
    }
}

fn queue_row(queue: &Name, priority: i16) -> Name {
    Name::joined(&format!("{MARK}{queue}{MARK}{priority}"))
}

/// The rows that a claim compares jobs without a key by: the queue's and, of these jobs, the key's.
pub(crate) fn names_without_key(queue: &Name, priority: i16) -> TurnNames {
    let queue = queue_row(queue, priority);
    TurnNames { key: Name::joined(&format!("{queue}{MARK}")), queue }
}

/// The turns of a priority of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct QueueTurns {
    /// Keys that have a job in line. The row stays as long as there is one.
    pub(crate) n_keys: u32,
    /// When the newest turn began.
    pub(crate) now: u64,
}

impl QueueTurns {
    pub(crate) fn of(row: LimitRow) -> QueueTurns {
        QueueTurns { n_keys: row.active, now: row.turn_at.as_micros().unsigned_abs() }
    }

    pub(crate) fn row(self) -> LimitRow {
        LimitRow { active: self.n_keys, turn_at: Time::from_micros(self.now.cast_signed()) }
    }

    /// When the next turn of a key begins. A key that was idle gets no credit. The row of the queue
    /// is dropped when all keys are idle, and time begins anew: then what a key owes is one turn.
    pub(crate) fn next_of(self, key: KeyTurns) -> u64 {
        key.next.clamp(self.now, self.now + TURN)
    }
}

/// The turns of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeyTurns {
    /// That of its newest job; 0 while none of its jobs is in line.
    pub(crate) weight: u8,
    /// When its next turn begins, at the earliest.
    pub(crate) next: u64,
}

impl KeyTurns {
    pub(crate) fn of(row: LimitRow) -> KeyTurns {
        let weight = u8::try_from(row.active).unwrap_or(limits::FAIR_WEIGHT_MAX);
        KeyTurns { weight, next: row.turn_at.as_micros().unsigned_abs() }
    }

    pub(crate) fn row(self) -> LimitRow {
        LimitRow { active: self.weight.into(), turn_at: Time::from_micros(self.next.cast_signed()) }
    }
}

/// How many jobs of each of these keys `n` turns take, if none of them runs out of jobs. The keys
/// are given by their next turns and weights.
pub(crate) fn jobs_of_turns(mut keys: alloc::vec::Vec<(u64, u8)>, n: usize) -> alloc::vec::Vec<usize> {
    let mut taken = alloc::vec![0; keys.len()];
    let mut line: alloc::collections::BinaryHeap<Reverse<(u64, usize)>> =
        keys.iter().enumerate().map(|(index, &(turn, _))| Reverse((turn, index))).collect();
    for _ in 0..n {
        let Some(Reverse((turn, index))) = line.pop() else { break };
        taken[index] += 1;
        keys[index].0 = turn + turn_of(keys[index].1);
        line.push(Reverse((keys[index].0, index)));
    }
    taken
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn turns_come_in_their_order_and_before_jobs_without_a_key() {
        let (early, late) = (JobId::v7(1, 9), JobId::v7(2, 3));
        let places = [
            place(0, early),
            place(0, late),
            place(1, early),
            place(1 << 55, late),
            PLACES_WITHOUT_KEY,
            early,
        ];
        assert!(places.is_sorted_by(|a, b| a < b), "{places:?}");
    }

    #[test]
    fn a_weight_takes_its_part_of_a_turn() {
        for weight in 1..=limits::FAIR_WEIGHT_MAX {
            let error = (turn_of(weight) * u64::from(weight)).abs_diff(TURN);
            assert!(error * 200 <= TURN, "{weight}");
        }
    }

    #[test]
    fn an_idle_key_gets_no_credit_and_owes_one_turn_at_most() {
        let turns = QueueTurns { n_keys: 1, now: 5 * TURN };
        let next = |next| turns.next_of(KeyTurns { weight: 0, next });
        assert_eq!([next(0), next(5 * TURN + 7), next(99 * TURN)], [5 * TURN, 5 * TURN + 7, 6 * TURN]);
    }

    #[test]
    fn jobs_are_foreseen_by_weight() {
        assert_eq!(jobs_of_turns(vec![(0, 3), (0, 1)], 8), [6, 2]);
        assert_eq!(jobs_of_turns(vec![(0, 1), (9 * TURN, 1)], 5), [5, 0]);
        assert_eq!(jobs_of_turns(vec![], 5), [0; 0]);
    }
}
