//! Rows that are set aside, and rows that a test has damaged: what is in memory does not break by itself.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::codec::Corrupt;
use forgerun_core::set_aside::{RowId, SetAside, Unreadable};
use forgerun_core::{Changes, Rows};

use crate::Error;

#[derive(Default)]
pub(super) struct SetAsideRows {
    rows: BTreeMap<RowId, SetAside>,
    damaged: BTreeSet<RowId>,
}

impl SetAsideRows {
    pub(super) fn damage(&mut self, row: RowId) {
        self.damaged.insert(row);
    }

    pub(super) fn mend(&mut self, row: RowId) {
        self.damaged.remove(&row);
    }

    pub(super) fn is_damaged(&self, row: RowId) -> bool {
        self.damaged.contains(&row)
    }

    /// Fails for a row that was asked for by name and is damaged.
    pub(super) fn check(&self, row: RowId) -> Result<(), Error> {
        if self.is_damaged(row) { Err(Corrupt.into()) } else { Ok(()) }
    }

    /// Says whether a row that was met can be read, and notes it if not.
    pub(super) fn readable(&self, row: RowId, rows: &mut Rows) -> bool {
        let damaged = self.is_damaged(row);
        if damaged && rows.unreadable.iter().all(|known| known.row != row) {
            rows.unreadable.push(Unreadable { row, reason: Corrupt.to_string(), next: None });
        }
        !damaged
    }

    pub(super) fn write(&mut self, changes: &Changes) {
        self.rows.extend(changes.set_aside.iter().map(|aside| (aside.row, aside.clone())));
        changes.restored.iter().for_each(|row| drop(self.rows.remove(row)));
        changes.forgotten.iter().for_each(|gone| drop(self.rows.remove(&RowId::Job(gone.job))));
    }

    pub(super) fn list(&self, limit: usize) -> Vec<SetAside> {
        self.rows.values().take(limit).cloned().collect()
    }
}
