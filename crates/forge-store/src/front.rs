//! The jobs that will be taken first from a shelf: what a place in the queue is told by.

use std::cmp::Reverse;

use forge_core::id::JobId;

use crate::JobsAhead;

/// The jobs that will be taken first from a shelf, as they stood when they were read.
pub(crate) struct ShelfFront {
    /// Where they stand, by priority and id, in the order in which they will be taken.
    places: Vec<(i16, JobId)>,
    /// At most so many were looked for: more may stand behind them.
    pub(crate) depth: usize,
    /// How many jobs wait in the whole queue.
    n_waiting: i64,
}

impl ShelfFront {
    /// What was read of a shelf.
    pub(crate) fn new(places: Vec<(i16, JobId)>, depth: usize, n_waiting: i64) -> ShelfFront {
        ShelfFront { places, depth, n_waiting }
    }

    /// How many of them will be taken before a job of this priority and id: of the same priority, the older comes first.
    pub(crate) fn ahead(&self, priority: i16, id: JobId) -> JobsAhead {
        let is_before = |place: &(i16, JobId)| (Reverse(place.0), place.1) < (Reverse(priority), id);
        let n = self.places.partition_point(is_before);
        JobsAhead::counted(n as u64, self.depth, || self.n_waiting)
    }
}
