//! What a node says about a sink.

use alloc::string::String;
use core::time::Duration;

use crate::job::Name;
use crate::sink::{SinkPosition, SinkTotals};
use crate::time::Time;

/// Something about a sink.
#[derive(Clone, Debug)]
pub enum SinkCommand {
    /// A node wants to send. Refused while another one holds the sink.
    Take(SinkTake),
    /// The holder says how far it is, and goes on holding it.
    Report(SinkReport),
    /// The holder stops: another may take over at once.
    Leave(SinkReport),
}

impl SinkCommand {
    /// The sink it is about.
    pub const fn sink(&self) -> &Name {
        match self {
            SinkCommand::Take(take) => &take.sink,
            SinkCommand::Report(report) | SinkCommand::Leave(report) => &report.sink,
        }
    }
}

/// A node wants to send.
#[derive(Clone, Debug)]
pub struct SinkTake {
    /// Which sink.
    pub sink: Name,
    /// What it is: `kafka`, `nats`, `amqp`.
    pub kind: String,
    /// The node: another name with every start of a process.
    pub node: Name,
    /// How long it is held without a word.
    pub lease: Duration,
    /// Where a sink begins that is used for the first time.
    pub begin: SinkPosition,
    /// Do not wait for a lease to end: whoever held it is known to be gone.
    pub at_once: bool,
}

/// The holder says how far it is.
#[derive(Clone, Debug)]
pub struct SinkReport {
    /// Which sink.
    pub sink: Name,
    /// The fence that it got when it took the sink.
    pub fence: u64,
    /// How long it is held from now on without a word.
    pub lease: Duration,
    /// Everything up to here is through: confirmed by the broker, or to be passed over.
    pub position: SinkPosition,
    /// How many events went where, in all: not since the last report, which may have been written although nobody heard of it.
    pub totals: SinkTotals,
    /// When the broker last confirmed anything.
    pub sent_at: Option<Time>,
    /// Why nothing goes out: since when, and what was said last.
    pub trouble: Option<(Time, String)>,
}
