//! Attempts to deliver a webhook, as spans in the trace of their job. The receiver gets the place
//! of the span in `traceparent`, whether or not there is a collector, so that what it does can join
//! the trace.

use forgerun_core::history::Event;
use forgerun_core::job::Job;
use forgerun_core::time::Time;

use super::Traces;
use super::context::TraceContext;
use super::span::{AttributeValue, Span, SpanKind, SpanName, SpanPart, id};

/// The place of one attempt in the trace of its job.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttemptSpan {
    context: TraceContext,
    span: u64,
    parent: u64,
}

impl AttemptSpan {
    /// Attempt number `n` at a delivery about an event of a job.
    pub(crate) fn new(job: &Job, event: &Event, delivery: u128, n: u32) -> AttemptSpan {
        AttemptSpan {
            context: TraceContext::of_job(job.id, &job.head),
            span: id(delivery, SpanPart::Attempt(n)),
            parent: id(job.id.as_u128(), SpanPart::Execution(event.execution)),
        }
    }

    /// As the receiver is told.
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
    /// What the receiver answered with.
    pub(crate) status: Option<u16>,
    /// What went wrong, in a word.
    pub(crate) error: Option<&'static str>,
}

impl Traces {
    /// Tells of an attempt that is over.
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
