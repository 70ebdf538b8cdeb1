//! Spans of requests that change something. Reads are not traced: polling clients would drown the
//! rest.

use forgerun_core::id::{ExecutionId, JobId, KeyId};
use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_core::time::Time;

use super::context::TraceContext;
use super::span::{AttributeValue, Span, SpanKind, SpanName, SpanPart, id};
use super::{Traces, otlp};
use crate::http::Exchange;

/// The subject of a request, known once its handler knows it.
#[derive(Clone, Debug)]
pub(crate) enum RequestSubject {
    /// A job, as the request left it.
    Job {
        id: JobId,
        state: State,
        context: Option<TraceContext>,
        fresh: bool,
    },
    Key {
        id: KeyId,
        fresh: bool,
    },
}

impl RequestSubject {
    /// A job; `fresh` if the request created it.
    pub(crate) fn job(job: &Job, fresh: bool) -> RequestSubject {
        let context = job.head.traceparent.as_deref().and_then(TraceContext::parse);
        RequestSubject::Job { id: job.id, state: job.state, context, fresh }
    }

    pub(crate) fn job_id(&self) -> Option<JobId> {
        match self {
            RequestSubject::Job { id, .. } => Some(*id),
            RequestSubject::Key { .. } => None,
        }
    }

    /// The state of the job after the request.
    pub(crate) fn state(&self) -> Option<State> {
        match self {
            RequestSubject::Job { state, .. } => Some(*state),
            RequestSubject::Key { .. } => None,
        }
    }

    const fn subject(&self) -> u128 {
        match self {
            RequestSubject::Job { id, .. } => id.as_u128(),
            RequestSubject::Key { id, .. } => id.as_u128(),
        }
    }

    const fn is_fresh(&self) -> bool {
        match self {
            RequestSubject::Job { fresh, .. } | RequestSubject::Key { fresh, .. } => *fresh,
        }
    }

    /// The trace of the subject.
    fn context(&self) -> TraceContext {
        match self {
            RequestSubject::Job { id, context, .. } => context.unwrap_or(TraceContext::new(id.as_u128())),
            RequestSubject::Key { id, .. } => TraceContext::new(id.as_u128()),
        }
    }
}

impl Traces {
    /// Exports an answered request, if it changes something.
    pub(crate) fn request(&self, exchange: &Exchange, status: u16, ended: Time) {
        if exchange.action.is_empty() || exchange.is_read() {
            return;
        }
        let Some(place) = place(exchange) else { return };
        let mut attributes = vec![
            ("http.request.method", AttributeValue::Text(exchange.method.as_str().to_owned())),
            ("http.route", AttributeValue::Word(exchange.route)),
            ("http.response.status_code", AttributeValue::Number(i64::from(status))),
            ("forgerun.action", AttributeValue::Word(exchange.action)),
            ("forgerun.request_id", AttributeValue::Text(exchange.request_id().to_owned())),
        ];
        let client = exchange.caller.as_ref().map(|caller| caller.client.to_string());
        attributes.extend(client.map(|client| ("forgerun.client_id", AttributeValue::Text(client))));
        attributes.extend(exchange.request_subject().map(|about| match about {
            RequestSubject::Job { id, .. } => ("forgerun.job_id", AttributeValue::Text(id.to_string())),
            RequestSubject::Key { id, .. } => ("forgerun.key_id", AttributeValue::Text(id.to_string())),
        }));
        self.put(Span {
            trace: place.trace,
            id: place.id,
            parent: place.parent,
            name: SpanName::Request(method(exchange), exchange.route),
            kind: SpanKind::Server,
            began: exchange.began,
            ended,
            // A refusal is the caller's mistake, not an error of the server.
            error: (status >= 500).then_some(otlp::SERVER_FAULT),
            attributes,
            link: place.link,
        });
    }
}

/// The method, if it can change something; unknown methods must not create span names.
fn method(exchange: &Exchange) -> &'static str {
    let known = ["POST", "DELETE", "PATCH", "PUT"].into_iter().find(|known| exchange.method == *known);
    known.unwrap_or("_OTHER")
}

struct SpanPosition {
    trace: u128,
    id: u64,
    parent: Option<u64>,
    link: Option<(u128, u64)>,
}

/// In the caller's trace, if there is one; else in the subject's, else in a new one. `None` if the
/// caller's trace is not recorded.
fn place(exchange: &Exchange) -> Option<SpanPosition> {
    let request = exchange.request_id().parse::<ExecutionId>().map_or(1, ExecutionId::as_u128);
    let given = exchange.trace_context().0.as_deref().and_then(TraceContext::parse);
    let about = exchange.request_subject();
    let own = match about {
        Some(about) if about.is_fresh() => id(about.subject(), SpanPart::Birth),
        Some(_) | None => id(request, SpanPart::Request),
    };
    let born = about.filter(|about| !about.is_fresh()).map(|about| {
        let birth = id(about.subject(), SpanPart::Birth);
        (about.context(), birth)
    });
    let place = match (given, born) {
        (Some(given), born) => {
            let other = born.filter(|(context, _)| context.trace != given.trace);
            let link = other.map(|(context, birth)| (context.trace, birth));
            (given.sampled, SpanPosition { trace: given.trace, id: own, parent: given.parent, link })
        }
        // The request that created a key may have been in its caller's trace, so a key has no
        // certain parent.
        (None, Some((context, birth))) => {
            let parent = about.and_then(RequestSubject::job_id).map(|_| birth);
            (context.sampled, SpanPosition { trace: context.trace, id: own, parent, link: None })
        }
        (None, None) => {
            let trace = about.map_or(request, |about| about.context().trace);
            (true, SpanPosition { trace, id: own, parent: None, link: None })
        }
    };
    place.0.then_some(place.1)
}
