//! Turns of fair keys: which job of a key stands in line, and when its turn begins; see `fair.rs`.
//!
//! A turn is used when a job is handed out. A job that leaves the line otherwise passes its turn to
//! the next one of its key.

use crate::fair::{self, KeyTurns, QueueTurns, TurnNames, turn_of};
use crate::job::{Name, Shelf};
use crate::rows::LimitRow;
use crate::state::{Facet, State};

use super::working_set::{Slot, WorkingSet};

/// What a turn costs that a job without a key gets.
pub(super) struct TurnWithoutKey {
    names: TurnNames,
    turn: u64,
}

impl WorkingSet<'_> {
    /// The row of a limit. If it is not loaded, the batch is decided again with it.
    fn seek_limit(&mut self, name: &Name) -> LimitRow {
        let row = self.limits.get(name).copied();
        if row.is_none() {
            self.changes.more.limits.insert(name.clone());
        }
        row.unwrap_or_default()
    }

    fn queue_turns(&mut self, names: &TurnNames) -> QueueTurns {
        QueueTurns::of(self.seek_limit(&names.queue))
    }

    fn key_turns(&mut self, names: &TurnNames) -> KeyTurns {
        KeyTurns::of(self.seek_limit(&names.key))
    }

    fn put_limit(&mut self, name: &Name, row: LimitRow) {
        self.limits.insert(name.clone(), row);
        self.changes.limits.insert(name.clone(), row);
    }

    fn put_turns(&mut self, names: &TurnNames, queue: QueueTurns, key: KeyTurns) {
        self.put_limit(&names.queue, queue.row());
        self.put_limit(&names.key, key.row());
    }

    /// Puts a job in line, or takes it out of it. `was` is where it was counted before.
    pub(super) fn line_up(&mut self, slot: Slot, was: Option<Facet>) {
        let job = self.job(slot);
        if job.head.fair.is_none() {
            return;
        }
        match (job.turn, job.is_claimable()) {
            (None, true) => self.enter_line(slot, was),
            (Some(turn), false) => self.leave_line(slot, turn),
            (None, false) | (Some(_), true) => {}
        }
    }

    fn enter_line(&mut self, slot: Slot, was: Option<Facet>) {
        let Some(names) = TurnNames::of(&self.job(slot).head) else { return };
        let (mut queue, mut key) = (self.queue_turns(&names), self.key_turns(&names));
        let weight = self.job(slot).head.fair_weight();
        if key.weight == 0 {
            let turn = queue.next_of(key);
            key = KeyTurns { weight, next: turn };
            queue.n_keys += 1;
            self.put_turns(&names, queue, key);
            self.change(slot).turn = Some(turn);
            // No other job of the key was claimable, so what this batch adds is all there is.
            self.know_whole(names.shelf());
        } else if key.weight != weight && matches!(was, Some(Facet::Scheduled | Facet::Held)) {
            // The newest job of the key.
            key.weight = weight;
            self.put_limit(&names.key, key.row());
        }
    }

    fn leave_line(&mut self, slot: Slot, turn: u64) {
        self.change(slot).turn = None;
        let Some(names) = TurnNames::of(&self.job(slot).head) else { return };
        let (mut queue, mut key) = (self.queue_turns(&names), self.key_turns(&names));
        let mut next = turn;
        if self.job(slot).state == State::Assigned {
            queue.now = queue.now.max(turn);
            next += turn_of(key.weight);
        }
        key.next = next;
        if let Some(follower) = self.first_on(&names.shelf()) {
            self.put_turns(&names, queue, key);
            self.change(follower).turn = Some(next);
            self.reshelve(follower);
        } else {
            key.weight = 0;
            queue.n_keys = queue.n_keys.saturating_sub(1);
            self.put_turns(&names, queue, key);
        }
    }

    /// The job of a shelf whose turn it is. Of jobs without a key, which come behind those in line,
    /// the turn to use with it.
    pub(super) fn next_on(&mut self, shelf: &Shelf) -> Option<(Slot, Option<TurnWithoutKey>)> {
        let first = self.first_on(shelf)?;
        let Some(turn) = self.job(first).turn else { return Some((first, None)) };
        if self.uncertain.turns.contains(&shelf.name) {
            // Another node skips the jobs that this one holds, and would take turns of other keys.
            self.changes.exact.turns.insert(shelf.name.clone());
        }
        let priority = self.job(first).head.priority;
        if let Some(other) = self.first_without_key(shelf, priority) {
            let names = fair::names_without_key(&shelf.name, priority);
            let key = self.key_turns(&names);
            let other_turn = self.queue_turns(&names).next_of(key);
            if other_turn < turn {
                return Some((other, Some(TurnWithoutKey { names, turn: other_turn })));
            }
        }
        let names = TurnNames::of(&self.job(first).head)?;
        // What follows is not loaded: it is claimed in the next batch.
        (!self.is_used_up(&names.shelf())).then_some((first, None))
    }

    pub(super) fn use_turn_without_key(&mut self, TurnWithoutKey { names, turn }: TurnWithoutKey) {
        let queue = QueueTurns { now: turn, ..self.queue_turns(&names) };
        self.put_turns(&names, queue, KeyTurns { weight: 0, next: turn + turn_of(1) });
    }
}
