//! Opens or refuses a stream. The caller is authenticated and counted already.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE, VARY};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use forgerun_core::catalog::Kind;
use forgerun_core::history::Event;
use forgerun_core::id::{ClientId, EventId};
use forgerun_core::job::Job;
use forgerun_wire::problem::RefusedRequest;
use tracing::debug;

use super::feed::{Backlog, EventSource, Feed, StreamContent};
use super::hub::StreamPermit;
use super::last_id::{self, ResumePoint, find};
use super::log::LogFollow;
use super::printer;
use super::subscribers::Topic;
use super::wording::EventWording;
use crate::app::App;
use crate::auth::{Caller, ownership};
use crate::http::{ApiError, Exchange};
use crate::job_logs::LogFilter;
use crate::limits::{STREAM_RECONNECT_MS, STREAMS_FULL_AFTER_S};

/// Header fields of a stream's answer, no more: hyper keeps their map as long as the connection
/// lasts.
const HEADERS: usize = 12;

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// The scope of a job's stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamScope {
    Job,
    /// One execution, by its number from 1.
    Execution(u32),
}

impl StreamScope {
    pub(crate) fn has(self, event: &Event) -> bool {
        match self {
            StreamScope::Job => true,
            StreamScope::Execution(n) => event.execution == n,
        }
    }

    /// Whether no further events are expected.
    fn is_over(self, job: &Job) -> bool {
        match self {
            StreamScope::Job => job.state.is_final(),
            StreamScope::Execution(n) => n < job.execution_n() || job.state.is_final(),
        }
    }
}

/// The events of a visible job: its changes of state from the beginning or after `Last-Event-ID`,
/// then live events, until it ends. If nothing is left, 204: a browser then stops reconnecting.
pub(crate) async fn job(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    job: Arc<Job>,
    scope: StreamScope,
    wording: EventWording,
) -> Result<Response, ApiError> {
    let last = last_id::of(&exchange.headers)?;
    if let Some(last) = last {
        last_id::check(&job, last).map_err(last_id::refused)?;
    }
    if exchange.method == Method::HEAD {
        return Ok(response(Body::empty()));
    }
    let permit = admit(app, exchange, caller)?;
    let mut job = job;
    let mut subscription = None;
    if !scope.is_over(&job) {
        subscription = Some(permit.subscribe(Topic::Job(job.id)).await?);
        // Loaded again after subscribing: later events arrive live.
        job = ownership::job(app, caller, Some(job.id)).await?;
        subscription = subscription.filter(|_| !scope.is_over(&job));
    }
    let missed = |event: &Event| scope.has(event) && last.is_none_or(|last| event.is_after(last));
    let events: Vec<Event> = job.history.events().filter(missed).collect();
    if events.is_empty() && subscription.is_none() {
        return Ok(no_more());
    }
    let mut first = greeting();
    for event in events {
        let line = printer::line(&**app.engine.store(), &job, event).await?;
        first.extend_from_slice(&wording.told(&line).unwrap_or_default());
    }
    let n_last = job.history.events().last().map_or(0, |event| event.n);
    let source = EventSource::Job { first: Some(first.into()), n_last, last, scope, subscription };
    Ok(open(app, exchange, caller, permit, StreamContent { source, wording }))
}

/// The log of a visible job: the lines after `after` or `Last-Event-ID`, then new ones, until it
/// ends. If nothing is left, 204.
pub(crate) async fn log(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    job: &Job,
    filter: LogFilter,
    after: Option<u64>,
) -> Result<Response, ApiError> {
    let last = exchange.headers.get(LAST_EVENT_ID).map(|value| value.to_str().unwrap_or_default().trim());
    let after = match last.filter(|text| !text.is_empty()).map(str::parse::<u64>) {
        None => after.unwrap_or(0),
        Some(Ok(seen)) => seen,
        Some(Err(_)) => {
            let detail = "The Last-Event-ID header must be the `seq` of a line.";
            let refused = RefusedRequest::new(Kind::MalformedRequest, detail);
            return Err(refused.fact("field", "Last-Event-ID").into());
        }
    };
    if exchange.method == Method::HEAD {
        return Ok(response(Body::empty()));
    }
    let is_resumed = last.is_some();
    if is_resumed && job.state.is_final() {
        let summary = app.engine.store().log_summary(job.id, filter.attempt).await?;
        if summary.last <= after {
            return Ok(no_more());
        }
    }
    let permit = admit(app, exchange, caller)?;
    let source = EventSource::Log(Box::new(LogFollow::new(app, filter, after)));
    Ok(open(app, exchange, caller, permit, StreamContent { source, wording: EventWording::forge() }))
}

/// The events of all jobs and webhooks of the caller: from now on, or all after `Last-Event-ID`.
pub(crate) async fn client(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    wording: EventWording,
) -> Result<Response, ApiError> {
    of(app, exchange, caller, Some(caller.client), wording).await
}

/// The events of all jobs and webhooks, for the operator.
pub(crate) async fn everything(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    wording: EventWording,
) -> Result<Response, ApiError> {
    of(app, exchange, caller, None, wording).await
}

async fn of(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    client: Option<ClientId>,
    wording: EventWording,
) -> Result<Response, ApiError> {
    let last = last_id::of(&exchange.headers)?;
    let mut first = greeting();
    if exchange.method == Method::HEAD {
        return Ok(response(Body::empty()));
    }
    let permit = admit(app, exchange, caller)?;
    let (past, subscription) = match last {
        None => (Backlog::none(), Some(permit.subscribe(Topic::of(client)).await?)),
        Some(last) => {
            let found = find(&**app.engine.store(), client, last, app.clock.now()).await?;
            match found.map_err(last_id::refused)? {
                ResumePoint::After { row, at } => {
                    let rest = row.entries.into_iter().skip(at + 1);
                    let rest =
                        rest.filter(|entry| client.is_none_or(|client| entry.client == client)).collect();
                    (Backlog { after: row.seq, rest }, None)
                }
                ResumePoint::Reset(after) => {
                    first.extend_from_slice(&reset(last));
                    (Backlog { after, ..Backlog::none() }, None)
                }
            }
        }
    };
    let source = EventSource::Client { first: Some(first.into()), client, past, subscription };
    Ok(open(app, exchange, caller, permit, StreamContent { source, wording }))
}

/// Counts a stream of the caller until the permit is dropped; refused at the bound.
pub(crate) fn admit(app: &App, exchange: &Exchange, caller: &Caller) -> Result<StreamPermit, ApiError> {
    let max = app.config.limits.max_streams_per_client;
    let permit = app.hub.admit(caller.client, max);
    permit.ok_or_else(|| {
        debug!(request_id = exchange.request_id(), client_id = %caller.client, "too many streams");
        let refused =
            RefusedRequest::new(Kind::RateLimited, format!("The client has {max} streams open already."));
        let refused = refused.fact("max_streams_per_client", max);
        refused.limited(max as u64, "at once", STREAMS_FULL_AFTER_S).into()
    })
}

fn open(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    permit: StreamPermit,
    told: StreamContent,
) -> Response {
    let feed = Feed::new(app.shared(), exchange, caller, permit, told);
    response(Body::new(feed.into_body()))
}

fn response(body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    headers.reserve(HEADERS);
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    // Buffering proxies would delay events.
    headers.insert(ACCEL_BUFFERING, HeaderValue::from_static("no"));
    response
}

fn no_more() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// The beginning of every stream: the reconnection time.
fn greeting() -> Vec<u8> {
    format!("retry: {STREAM_RECONNECT_MS}\n\n").into_bytes()
}

/// Tells the client that events were lost.
fn reset(last: EventId) -> Bytes {
    let data = serde_json::json!({
        "reason": "expired",
        "last_event_id": last.to_string(),
        "detail": "Events after this one are not kept any more. What is kept follows; read the jobs to know where they stand.",
    });
    printer::lines("reset", None::<EventId>, data.to_string().as_bytes())
}
