//! Commands about queues.

use crate::pace::QueueRate;
use crate::queue::QueueId;

/// Changes the settings of a queue. Without an owner they are the operator's and apply to all
/// queues of that name.
#[derive(Clone, Debug)]
pub struct QueueCommand {
    pub queue: QueueId,
    pub change: QueueChange,
}

/// Changed settings of a queue; `None` keeps a setting.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueChange {
    /// `true` stops handing out jobs, `false` resumes. Each party sets its own pause: a queue that
    /// the operator paused stays paused whatever its owner sets.
    pub paused: Option<bool>,
    /// Refuse new jobs while this many wait; `Some(None)` removes the bound.
    pub waiting_max: Option<Option<u64>>,
    /// Hand out nothing while workers hold this many; `Some(None)` removes the bound.
    pub active_max: Option<Option<u64>>,
    /// Hand out jobs no faster than this; `Some(None)` removes the bound.
    pub rate: Option<Option<QueueRate>>,
    /// Delete all settings, as if the queue had never been set up.
    pub forget: bool,
}
