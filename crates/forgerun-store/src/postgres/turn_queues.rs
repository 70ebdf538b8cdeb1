//! Queues whose keys take turns: a batch that claims from one locks it before it looks, because nodes that skip what others hold
//! would take turns of other keys. Which queues these are is seen from their jobs, so the first batch is decided twice.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use forgerun_core::job::Name;
use forgerun_core::{Rows, Wants};

/// Queues that are remembered. When there are more, it starts over.
const QUEUES_MAX: usize = 1024;

/// A queue is forgotten when so many batches have found no job in line. One may just miss those that a batch without the lock
/// holds for a moment.
const MISSES_MAX: u32 = 64;

/// Queues, and how many batches have found no job in line since there was one.
#[derive(Default)]
pub(super) struct TurnQueues(Mutex<HashMap<Name, u32>>);

impl TurnQueues {
    /// Those that a batch claims from.
    pub(super) fn of<'a>(&self, wants: &'a Wants) -> impl Iterator<Item = &'a Name> {
        let queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known = |name: &&Name| queues.contains_key(*name);
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
            if in_line.contains(queue) {
                if queues.len() >= QUEUES_MAX {
                    queues.clear();
                }
                queues.insert(queue.clone(), 0);
            } else if let Some(misses) = queues.get_mut(queue) {
                *misses += 1;
                if *misses > MISSES_MAX {
                    queues.remove(queue);
                }
            }
        }
    }
}
