//! Observers of commits: metrics and logs count only what is durable.

use std::fmt::Debug;
use std::time::Duration;

use forgerun_core::Changes;
use forgerun_store::{Fault, Swept};

/// Observes commits. Called by the committer, so it must be quick.
pub trait Observer: Send + Sync + Debug + 'static {
    /// A batch is durable; its callers are answered next.
    fn committed(&self, commit: &Commit<'_>);

    /// The store failed, and a batch of this many commands was given up.
    fn failed(&self, fault: Fault, n_commands: usize);

    /// A sweep finished and deleted this, perhaps nothing.
    fn swept(&self, _: &Swept) {}

    /// Events were deleted before a sink had sent them: it was behind for too long.
    fn dropped(&self, _sink: &str, _n_events: u64) {}

    /// Log lines of jobs were written.
    fn logged(&self, _n_lines: u64) {}
}

#[derive(Clone, Copy, Debug)]
pub struct Commit<'a> {
    /// The changes, without the answers.
    pub changes: &'a Changes,
    /// Number of commands in the transaction.
    pub n_commands: usize,
    /// Number of accepted heartbeats.
    pub n_heartbeats: usize,
    /// Duration of the transaction.
    pub took: Duration,
}

#[derive(Clone, Copy, Debug)]
pub struct NoObserver;

impl Observer for NoObserver {
    fn committed(&self, _: &Commit<'_>) {}

    fn failed(&self, _: Fault, _: usize) {}
}
