//! Sinks: which node sends, and its position.
//!
//! One node holds a sink at a time. Only the holder moves the position, and only forward: a holder
//! that was replaced has an old fence, and is refused.

use super::working_set::WorkingSet;
use crate::command::{Answer, Refusal, SinkCommand, SinkReport, SinkTake};
use crate::job::bounded;
use crate::record::Stored;
use crate::rows::Wants;
use crate::sink::{SinkCursor, SinkLease, SinkTrouble};

pub(super) fn wants(command: &SinkCommand, wants: &mut Wants) {
    wants.records.insert(SinkCursor::record_key(command.sink().as_str().into()));
}

impl WorkingSet<'_> {
    pub(super) fn sink(&mut self, command: &SinkCommand) -> Result<Answer, Refusal> {
        let sink = match command {
            SinkCommand::Take(take) => self.take_sink(take)?,
            SinkCommand::Report(report) => self.report_sink(report)?,
            SinkCommand::Leave(report) => SinkCursor { lease: None, ..self.report_sink(report)? },
        };
        self.put_record(&sink);
        Ok(Answer::Sink(sink.into()))
    }

    fn take_sink(&self, take: &SinkTake) -> Result<SinkCursor, Refusal> {
        let known = self.record::<SinkCursor>(take.sink.as_str().into());
        let mut sink = known.unwrap_or_else(|| SinkCursor::new(take.sink.clone(), take.begin, self.now));
        if sink.is_held(self.now) && !take.at_once {
            return Err(Refusal::SinkHeld);
        }
        sink.kind.clone_from(&take.kind);
        sink.lease = Some(SinkLease { node: take.node.clone(), until: self.now + take.lease });
        sink.fence += 1;
        sink.seen_at = sink.seen_at.max(self.now);
        Ok(sink)
    }

    /// A holder whose lease is over stays the holder until another node takes over.
    fn report_sink(&self, report: &SinkReport) -> Result<SinkCursor, Refusal> {
        let mut sink = self.record::<SinkCursor>(report.sink.as_str().into()).ok_or(Refusal::LeaseLost)?;
        let lease = sink.lease.as_mut().filter(|_| sink.fence == report.fence).ok_or(Refusal::LeaseLost)?;
        lease.until = self.now + report.lease;
        sink.position = sink.position.max(report.position);
        sink.totals = report.totals;
        sink.sent_at = report.sent_at;
        let trouble = report.trouble.clone();
        sink.trouble = trouble.map(|(since, message)| SinkTrouble { since, message: bounded(message) });
        sink.seen_at = sink.seen_at.max(self.now);
        Ok(sink)
    }
}
