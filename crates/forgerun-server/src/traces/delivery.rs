//! Delivery attempts as spans in the trace of their job. The receiver gets the span's position in
//! `traceparent`, with or without a collector, so that its work can join the trace.

use forgerun_core::history::Event;
use forgerun_core::job::Job;
use forgerun_core::time::Time;

use super::Traces;
use super::context::TraceContext;
use super::span::{AttributeValue, Span, SpanKind, SpanName, SpanPart, id};

/// The position of one attempt in the trace of its job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptSpan {
    context: TraceContext,
    span: u64,
    parent: u64,
}

impl AttemptSpan {
    /// Attempt `n` of a delivery about a job's event.
    pub(crate) fn new(job: &Job, event: &Event, delivery: u128, n: u32) -> AttemptSpan {
        AttemptSpan {
            context: TraceContext::of_job(job.id, &job.head),
            span: id(delivery, SpanPart::Attempt(n)),
            parent: id(job.id.as_u128(), SpanPart::Execution(event.execution)),
        }
    }

    /// The value for the receiver.
    pub(crate) fn traceparent(&self) -> String {
        let flags = u8::from(self.context.sampled);
        format!("00-{:032x}-{:016x}-{flags:02x}", self.context.trace, self.span)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct AttemptRecord {
    pub(crate) delivery: String,
    pub(crate) job: String,
    pub(crate) n: u32,
    pub(crate) began: Time,
    pub(crate) ended: Time,
    /// Status of the answer.
    pub(crate) status: Option<u16>,
    /// The error in one word.
    pub(crate) error: Option<&'static str>,
}

impl Traces {
    /// Exports an ended attempt.
    pub(crate) fn attempt(&self, place: &AttemptSpan, told: AttemptRecord) {
        if !place.context.sampled {
            return;
        }
        let mut attributes = vec![
            ("forgerun.job_id", AttributeValue::Text(told.job)),
            ("forgerun.delivery_id", AttributeValue::Text(told.delivery)),
            ("forgerun.attempt", AttributeValue::Number(i64::from(told.n))),
        ];
        let status = told.status.map(|status| AttributeValue::Number(i64::from(status)));
        attributes.extend(status.map(|status| ("http.response.status_code", status)));
        self.put(Span {
            trace: place.context.trace,
            id: place.span,
            parent: Some(place.parent),
            name: SpanName::Step("webhook"),
            kind: SpanKind::Client,
            began: told.began,
            ended: told.ended,
            error: told.error,
            attributes,
            link: None,
        });
    }
}
