//! What can be asked about a queue.

use crate::pace::QueueRate;
use crate::queue::QueueId;

/// Sets something for a queue. Without an owner it is the operator who asks, and all queues of that name are meant.
#[derive(Clone, Debug)]
pub struct QueueCommand {
    /// Which queue.
    pub queue: QueueId,
    /// What changes.
    pub change: QueueChange,
}

/// What changes about a queue; `None` leaves a thing as it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueChange {
    /// `true` stops handing out jobs, `false` resumes. What another set is not touched: a queue that its operator paused stays
    /// paused whatever its owner says.
    pub paused: Option<bool>,
    /// Refuse new jobs while so many wait; `Some(None)` lifts the bound.
    pub waiting_max: Option<Option<u64>>,
    /// Hand out nothing while workers hold so many; `Some(None)` lifts the bound.
    pub active_max: Option<Option<u64>>,
    /// Hand out jobs no faster; `Some(None)` lifts the bound.
    pub rate: Option<Option<QueueRate>>,
}
