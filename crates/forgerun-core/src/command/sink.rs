//! Commands about sinks.

use alloc::string::String;
use core::time::Duration;

use crate::job::Name;
use crate::sink::{SinkPosition, SinkTotals};
use crate::time::Time;

#[derive(Clone, Debug)]
pub enum SinkCommand {
    /// A node asks for the sink. Refused while another node holds it.
    Take(SinkTake),
    /// The holder reports its position and keeps the sink.
    Report(SinkReport),
    /// The holder stops: another node may take over at once.
    Leave(SinkReport),
}

impl SinkCommand {
    pub const fn sink(&self) -> &Name {
        match self {
            SinkCommand::Take(take) => &take.sink,
            SinkCommand::Report(report) | SinkCommand::Leave(report) => &report.sink,
        }
    }
}

#[derive(Clone, Debug)]
pub struct SinkTake {
    pub sink: Name,
    /// `kafka`, `nats` or `amqp`.
    pub kind: String,
    /// The node's name, different with every process start.
    pub node: Name,
    /// Lease: how long the node holds the sink without a report.
    pub lease: Duration,
    /// Start position of a sink that is used for the first time.
    pub begin: SinkPosition,
    /// Do not wait for the lease to end: its holder is known to be gone.
    pub at_once: bool,
}

#[derive(Clone, Debug)]
pub struct SinkReport {
    pub sink: Name,
    /// Fencing token from when the node took the sink.
    pub fence: u64,
    /// New lease, counted from now.
    pub lease: Duration,
    /// Everything up to here was confirmed by the broker, or is to be skipped.
    pub position: SinkPosition,
    /// Totals since the beginning. Not deltas: a report may have been written although its answer
    /// was lost.
    pub totals: SinkTotals,
    /// Last confirmation of the broker.
    pub sent_at: Option<Time>,
    /// Why nothing is sent: since when, and the last error.
    pub trouble: Option<(Time, String)>,
}
