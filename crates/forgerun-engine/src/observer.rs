//! Somebody who watches: metrics and logs are counted from commits, so that they tell what is durable and nothing else.

use std::fmt::Debug;
use std::time::Duration;

use forgerun_core::Changes;
use forgerun_store::{Fault, Swept};

/// Watches commits. Called by the committer, so it must be quick.
pub trait Observer: Send + Sync + Debug + 'static {
    /// A batch is durable; its callers hear of it next.
    fn committed(&self, commit: &Commit<'_>);

    /// The store failed, and a batch with so many commands was given up.
    fn failed(&self, fault: Fault, n_commands: usize);

    /// A sweep is over; it deleted this, perhaps nothing.
    fn swept(&self, _: &Swept) {}

    /// So many events were deleted that a sink had not sent: it was behind for too long.
    fn dropped(&self, _sink: &str, _n_events: u64) {}
}

/// A batch that is durable.
#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// What was written. The answers are not in it any more.
    pub changes: &'a Changes,
    /// How many commands shared the transaction.
    pub n_commands: usize,
    /// How many of them were signs of life of a worker that holds its job.
    pub n_heartbeats: usize,
    /// How long the transaction took.
    pub took: Duration,
}

/// Nobody watches.
#[derive(Clone, Copy, Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn committed(&self, _: &Commit<'_>) {}

    fn failed(&self, _: Fault, _: usize) {}
}
