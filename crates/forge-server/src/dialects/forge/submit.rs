//! `POST /v1/jobs`.

use std::sync::Arc;

use axum::http::header::{LINK, LOCATION, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use bytes::Bytes;
use forge_core::catalog::Kind;
use forge_core::command::{Idempotency, NewJob};
use forge_core::job::{Form, Head, Input, Job, Name};
use forge_core::time::Time;
use forge_core::work::{Definition, WorkKind};
use forge_wire::body::fingerprint;
use forge_wire::forge::{SubmitRequest, SubmittedView, read_submit};

use super::rules::{self, Subject, Verdict};
use crate::app::App;
use crate::edge::prefer::{APPLIED, Prefer};
use crate::edge::submission::{self, REPLAYED};
use crate::edge::{ApiError, Caller, Exchange, ownership, respond};
use crate::limits::POLL_AFTER_S;
use crate::traces::About;

/// Keys of this operation meet no keys of others (C-65).
const OPERATION: &str = "POST /v1/jobs";

/// `POST /v1/jobs`.
pub(super) async fn submit(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    bytes: &Bytes,
) -> Result<Response, ApiError> {
    let mut request = read_submit(bytes)?;
    let of_header = submission::header_key(&exchange.headers);
    let of_body = request.idempotency_key.take().filter(|key| !key.is_empty());
    // The header counts only where the body has none (C-66).
    let key = of_body.as_deref().or(of_header);
    let now = app.clock.now();
    let subject = Subject { request: &request, key, body_bytes: bytes.len(), now };
    let (queue, too_late) = match rules::judge(app, &subject) {
        Verdict::Fine(queue) => (queue, None),
        Verdict::TooLate(queue, refused) if key.is_some() => (queue, Some(refused)),
        Verdict::TooLate(_, refused) | Verdict::Bad(refused) => return Err(refused.into()),
    };
    let differ = of_body.as_deref().zip(of_header).is_some_and(|(of_body, of_header)| of_body != of_header);
    if differ && app.config.idempotency.reject_mismatch {
        let detail = "The Idempotency-Key header and the idempotency_key of the body differ.";
        return Err(ApiError::new(Kind::IdempotencyConflict, detail));
    }
    let idempotency = match key {
        Some(key) => Some(submission::idempotency(caller, OPERATION, key, fingerprint(bytes)?)),
        None => None,
    };
    let new = new_job(app, exchange, caller, request, Place { queue, now, key: idempotency.as_ref() });
    // A queue that holds nothing takes nothing new, but still answers what was there before.
    let queue_max = if too_late.is_some() { 0 } else { app.config.limits.queue_size };
    let submitted = submission::submit(app, new, idempotency, queue_max).await;
    let (job, existing) = match (submitted, too_late) {
        (Err(forge_engine::Error::Refused(_)), Some(refused)) => return Err(refused.into()),
        (submitted, _) => submitted?,
    };
    accepted(app, exchange, caller, job, existing).await
}

/// The 202, at once or when the job has ended, if the client would rather wait.
async fn accepted(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    mut job: Job,
    existing: bool,
) -> Result<Response, ApiError> {
    let prefer = Prefer::of(&exchange.headers, app.bounds.wait_max);
    if let Some(wait) = prefer.wait {
        app.endings.wait(app, &job, wait).await?;
        job = *ownership::job(app, caller, Some(job.id)).await?;
    }
    exchange.is_about(About::job(&job, !existing));
    let mut response = respond::json(StatusCode::ACCEPTED, &SubmittedView::new(&job));
    let location = format!("{}/v1/jobs/{}", app.base, job.id);
    let headers = response.headers_mut();
    headers.insert(LINK, respond::value(format!("<{location}>; rel=\"status\"")));
    headers.insert(LOCATION, respond::value(location));
    headers.insert(RETRY_AFTER, HeaderValue::from(POLL_AFTER_S));
    headers.extend(prefer.applied().map(|applied| (APPLIED, applied)));
    if existing {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// Where and when a job comes into the world.
struct Place<'a> {
    queue: Name,
    now: Time,
    key: Option<&'a Idempotency>,
}

fn new_job(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    request: SubmitRequest,
    place: Place<'_>,
) -> NewJob {
    let (traceparent, tracestate) = exchange.trace_context();
    let correlation = exchange.correlation(request.correlation_id.as_deref());
    let head = Head {
        form: request.form,
        definition: Some(definition(app, &request, place.now)),
        execution_at: request.execution_at,
        priority: request.priority.unwrap_or(0),
        timeout: Some(app.config.exec.max_runtime),
        retry: app.retry_policy(request.retry_mode),
        idempotency: place.key.map(|idempotency| idempotency.key.clone()),
        callback: request.callback,
        correlation_id: correlation.map(|id| id.as_str().to_owned()),
        traceparent,
        tracestate,
        language: exchange.language().stored(),
        retention: Some(app.config.retention.jobs),
        ..Head::new(caller.client, place.queue, place.now)
    };
    let input = Input { payload: request.payload.unwrap_or_default(), ..Input::default() };
    NewJob { id: app.engine.job_id(), id_given: false, head: Arc::new(head), input: Arc::new(input) }
}

/// What the job shall do: what the client asked for, or what the time of the request says.
fn definition(app: &App, request: &SubmitRequest, now: Time) -> Definition {
    let max_runtime_ms = u32::try_from(app.config.exec.max_runtime.as_millis()).unwrap_or(u32::MAX);
    match (request.work_kind, request.form) {
        (Some(kind), _) => Definition::of(kind, max_runtime_ms),
        // Its work is the notification (C-56).
        (None, Form::EmitEvent) => {
            Definition { duration_ms: 0, ..Definition::of(WorkKind::SuccessFast, max_runtime_ms) }
        }
        (None, Form::Execute | Form::Deferred) => {
            let failure_per_mille = (app.config.catalog.failure_probability * 1000.0).round() as u16;
            Definition::random(now.as_micros().unsigned_abs(), failure_per_mille, max_runtime_ms)
        }
    }
}
