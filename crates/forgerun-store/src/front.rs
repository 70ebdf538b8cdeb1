//! The jobs that will be taken first from a shelf: what a place in the queue is told by.

use std::cmp::Reverse;

use forgerun_core::id::JobId;
use forgerun_core::job::QueueOrder;

use crate::JobsAhead;

/// The jobs that will be taken first from a shelf, as they stood when they were read.
pub(crate) struct ShelfFront {
    /// Their priorities and places, in the order in which they will be taken.
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

    /// How many of them will be taken before a job that stands there.
    pub(crate) fn ahead(&self, order: QueueOrder) -> JobsAhead {
        let is_before = |(priority, place): &(i16, JobId)| (Reverse(*priority), *place) < order;
        let n = self.places.partition_point(is_before);
        JobsAhead::counted(n as u64, self.depth, || self.n_waiting)
    }
}
