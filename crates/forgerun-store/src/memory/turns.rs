//! The jobs that a batch may move forward: those parked for a limit, and those that follow when fair keys take turns.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use forgerun_core::id::JobId;
use forgerun_core::related::{self, RelatedTurns};
use forgerun_core::{Rows, Wants, limits};

use super::Tables;

impl Tables {
    pub(super) fn load_parked(&self, ids: &mut BTreeSet<JobId>, rows: &mut Rows) {
        for shelf in related::limits(&self.all_readable(ids)).parked {
            let found = self.head_of(&shelf, limits::UNPARK_MAX);
            ids.extend(&found);
            rows.shelves.insert(shelf, found);
        }
    }

    pub(super) fn load_turns(&self, wants: &Wants, ids: &mut BTreeSet<JobId>, rows: &mut Rows) {
        rows.turns = related::turns(wants, &rows.shelves, &self.all_readable(ids));
        for (shelf, &limit) in &rows.turns.behind {
            let found = self.head_of(shelf, limit);
            ids.extend(&found);
            rows.shelves.insert(shelf.clone(), found);
        }
        for ((shelf, priority), &limit) in &rows.turns.without_key {
            let first = ((Reverse(*priority), RelatedTurns::FIRST_PLACE), JobId::from_u128(0));
            let on_shelf = self.shelves.get(shelf).into_iter().flat_map(|jobs| jobs.range(first..));
            let of_priority = on_shelf.take_while(|((Reverse(of), _), _)| of == priority);
            let found: Vec<JobId> = of_priority.take(limit).map(|&(_, id)| id).collect();
            ids.extend(&found);
            rows.behind_turns.insert((shelf.clone(), *priority), found);
        }
    }
}
