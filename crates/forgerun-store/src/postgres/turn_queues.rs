//! Queues whose keys take turns: a batch that claims from one locks it before it looks, because nodes that skip what others hold
//! would take turns of other keys. Which queues these are is seen from their jobs, so the first batch is decided twice.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};

use forgerun_core::job::Name;
use forgerun_core::{Rows, Wants};

/// Queues that are remembered. When there are more, it starts over.
const QUEUES_MAX: usize = 1024;

#[derive(Default)]
pub(super) struct TurnQueues(Mutex<HashSet<Name>>);

impl TurnQueues {
    /// Those that a batch claims from.
    pub(super) fn of<'a>(&self, wants: &'a Wants) -> impl Iterator<Item = &'a Name> {
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |name: &&Name| queues.contains(*name);
        let found: Vec<&Name> = match queues.is_empty() {
            true => Vec::new(),
            false => wants.shelves.keys().map(|shelf| &shelf.name).filter(known).collect(),
        };
        found.into_iter()
    }

    /// Notes which of the locked queues have keys that take turns, and which have none any more.
    pub(super) fn note<'a>(&self, locked: impl Iterator<Item = &'a Name>, rows: &Rows) {
        let mut locked = locked.peekable();
        if locked.peek().is_none() {
            return;
        }
        let in_line = rows.jobs.iter().filter(|job| job.turn.is_some()).map(|job| job.head.queue_id().key());
        let in_line: HashSet<Name> = in_line.collect();
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for queue in locked {
            if !in_line.contains(queue) {
                queues.remove(queue);
            } else if queues.len() < QUEUES_MAX || queues.contains(queue) {
                queues.insert(queue.clone());
            } else {
                queues.clear();
            }
        }
    }
}
