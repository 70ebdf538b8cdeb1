//! Spans of job steps, from commits: what is durable, with the times of the job's history.

use forgerun_core::history::{Event, EventKind, RetryStatus};
use forgerun_core::job::Job;
use forgerun_core::state::{Cause, State};
use forgerun_core::time::Time;
use forgerun_engine::observer::Commit;
use forgerun_wire::words::forge_state;

use super::context::TraceContext;
use super::span::{AttributeValue, Span, SpanKind, SpanName, SpanPart, id};
use crate::metrics;

/// Exports every step that the commit ended.
pub(super) fn of_commit(commit: &Commit<'_>, mut tell: impl FnMut(Span)) {
    for (job, event) in metrics::events(commit.changes) {
        let EventKind::Moved { from: Some(from), to, cause, retry_status } = event.kind else { continue };
        let context = TraceContext::of_job(job.id, &job.head);
        if !context.sampled {
            continue;
        }
        let story = EventSpans { job, event, context, past: EarlierTimes::before(job, event) };
        tell(story.step(from, to, cause));
        if to.is_final() && retry_status != RetryStatus::WillRetry {
            // The report is part of the transaction, which began with the event.
            let written = event.at + commit.took;
            tell(story.report(written));
            tell(story.execution(to, written));
        }
    }
}

/// A job and its event.
struct EventSpans<'a> {
    job: &'a Job,
    event: &'a Event,
    context: TraceContext,
    past: EarlierTimes,
}

/// Times before an event, from the history.
struct EarlierTimes {
    /// Start of the state that was left.
    step_began: Time,
    /// Start of the event's execution.
    execution_began: Time,
}

impl EarlierTimes {
    fn before(job: &Job, event: &Event) -> EarlierTimes {
        let mut past = EarlierTimes { step_began: event.at, execution_began: event.at };
        let mut found = false;
        for before in job.history.events().take_while(|before| before.n < event.n) {
            past.step_began = before.at;
            if !found && before.execution == event.execution {
                past.execution_began = before.at;
                found = true;
            }
        }
        past
    }
}

impl EventSpans<'_> {
    /// The time in the previous state, named after what it led to.
    fn step(&self, from: State, to: State, cause: Cause) -> Span {
        let name = match from {
            State::Created => "enqueue",
            State::Queued => "assign",
            State::Assigned => "start",
            State::Running => "run",
            State::Failed if cause == Cause::HandBack => "requeue",
            State::Failed | State::Succeeded | State::Canceled => "retry",
        };
        let mut span = self.span(name, id(self.subject(), SpanPart::Step(self.event.n)));
        span.began = self.past.step_began;
        span.attributes.push(("forgerun.current_state", AttributeValue::Word(forge_state(from))));
        span.attributes.push(("forgerun.next_state", AttributeValue::Word(forge_state(to))));
        span.error = self.error(to);
        span
    }

    fn report(&self, written: Time) -> Span {
        let mut span = self.span("report", id(self.subject(), SpanPart::Report(self.event.n)));
        span.ended = written;
        span
    }

    fn execution(&self, to: State, written: Time) -> Span {
        let mut span = self.span("execution", self.execution_id());
        span.parent = Some(id(self.subject(), SpanPart::Birth));
        (span.began, span.ended) = (self.past.execution_began, written);
        span.attributes.push(("forgerun.client_id", AttributeValue::Text(self.job.head.client.to_string())));
        span.attributes.push(("forgerun.scenario", AttributeValue::Word(metrics::scenario(self.job))));
        span.attributes.push(("forgerun.next_state", AttributeValue::Word(forge_state(to))));
        let correlation = self.job.head.correlation_id.clone();
        span.attributes.extend(correlation.map(|id| ("forgerun.correlation_id", AttributeValue::Text(id))));
        span.error = self.error(to);
        span
    }

    /// A span at the event, within its execution.
    fn span(&self, name: &'static str, id: u64) -> Span {
        Span {
            trace: self.context.trace,
            id,
            parent: Some(self.execution_id()),
            name: SpanName::Step(name),
            kind: SpanKind::Internal,
            began: self.event.at,
            ended: self.event.at,
            error: None,
            attributes: vec![
                ("forgerun.job_id", AttributeValue::Text(self.job.id.to_string())),
                ("forgerun.attempt", AttributeValue::Number(i64::from(self.event.attempt))),
                ("forgerun.execution", AttributeValue::Number(i64::from(self.event.execution))),
            ],
            link: None,
        }
    }

    /// Why the job failed, in the catalogue's words: a worker's text may be anything.
    fn error(&self, to: State) -> Option<&'static str> {
        let error = self.job.last_error().filter(|_| to == State::Failed)?;
        Some(error.kind.entry().title)
    }

    fn subject(&self) -> u128 {
        self.job.id.as_u128()
    }

    fn execution_id(&self) -> u64 {
        id(self.subject(), SpanPart::Execution(self.event.execution))
    }
}
