//! Builds this node's tally.

use std::collections::HashMap;

use forgerun_core::id::ClientId;
use forgerun_core::tally::{NodeTally, TallyEntry};
use forgerun_core::time::Time;

use crate::limits::{TALLY_ENTRIES_MAX, TALLY_KEYS_MAX, TALLY_ROUNDS_KEPT, spending::SpendingKey};

/// What was reported, so that counting continues.
#[derive(Debug, Default)]
pub(super) struct TallyWriter {
    round: u64,
    entries: HashMap<SpendingKey, WrittenEntry>,
    keys_changed: Vec<(ClientId, u64)>,
    /// There are news that no stored tally has.
    is_new: bool,
}

#[derive(Debug)]
struct WrittenEntry {
    begun: u64,
    spent: u64,
    /// Round of the last change.
    changed: u64,
    full_at: Time,
}

impl TallyWriter {
    /// Begins a round: drops old entries.
    pub(super) fn begin(&mut self) {
        self.round += 1;
        let round = self.round;
        self.entries.retain(|_, entry| entry.changed + TALLY_ROUNDS_KEPT > round);
        self.keys_changed.retain(|(_, told)| told + TALLY_ROUNDS_KEPT > round);
    }

    /// Adds a caller's use.
    pub(super) fn spent(&mut self, key: SpendingKey, n: u64, full_at: Time) {
        let begun = self.round;
        let entry =
            self.entries.entry(key).or_insert(WrittenEntry { begun, spent: 0, changed: begun, full_at });
        entry.spent += n;
        entry.changed = begun;
        entry.full_at = full_at;
        self.is_new = true;
    }

    /// Adds a client with changed keys. Beyond the bound other nodes find out a little later.
    pub(super) fn key_changed(&mut self, client: ClientId) {
        if self.keys_changed.len() < TALLY_KEYS_MAX {
            self.keys_changed.push((client, self.round));
            self.is_new = true;
        }
    }

    /// The tally to write, if there are news. Of too many callers, those with least left come
    /// first.
    pub(super) fn tally(&self, node: &str, now: Time) -> Option<NodeTally> {
        if !self.is_new {
            return None;
        }
        let entry = |(&(kind, caller), told): (&SpendingKey, &WrittenEntry)| TallyEntry {
            limit: kind as u8,
            caller,
            begun: told.begun,
            spent: told.spent,
            full_at: told.full_at,
        };
        let mut entries: Vec<TallyEntry> = self.entries.iter().map(entry).collect();
        entries.sort_unstable_by_key(|entry| std::cmp::Reverse(entry.full_at));
        entries.truncate(TALLY_ENTRIES_MAX);
        let keys_changed = self.keys_changed.clone();
        Some(NodeTally { node: node.to_owned(), round: self.round, written_at: now, entries, keys_changed })
    }

    /// The tally was stored.
    pub(super) fn written(&mut self) {
        self.is_new = false;
    }
}
