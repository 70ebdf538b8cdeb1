//! `POST /v1/jobs` and `POST /v1/jobs/batch`.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forge_core::catalog::Kind;
use forge_core::command::{Idempotency, NewJob};
use forge_core::item::{Item, Items};
use forge_core::job::{Head, Input, Job, JobForm, Name};
use forge_core::time::Time;
use forge_core::work::{Definition, WorkKind};
use forge_wire::body::fingerprint;
use forge_wire::forge::{SubmitRequest, SubmittedView, read_batch, read_submit};

use super::rules::{self, SubmissionFacts, SubmissionVerdict};
use crate::app::App;
use crate::edge::routing::{Call, Route};
use crate::edge::{ApiError, Caller, Exchange, respond, submission};
use crate::limits::POLL_AFTER_S;
use crate::traces::RequestSubject;

/// The routes of submissions.
pub(super) const ROUTES: &[Route] = &[
    Route::post("/v1/jobs", "submit", |call| Box::pin(submit(call))),
    Route::post("/v1/jobs/batch", "submit_batch", |call| Box::pin(submit_batch(call))),
];

/// `POST /v1/jobs`.
async fn submit(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_submit(&call.body)?;
    take_in(&call, Submission { request, items: Vec::new() }).await
}

/// `POST /v1/jobs/batch`: one job of many items (C-81).
async fn submit_batch(call: Call<'_>) -> Result<Response, ApiError> {
    let (request, items) = read_batch(&call.body)?;
    take_in(&call, Submission { request, items }).await
}

/// What was asked: one job, or a batch of items.
struct Submission {
    request: SubmitRequest,
    items: Vec<Item>,
}

impl Submission {
    /// Keys of one operation meet no keys of others (C-65).
    fn operation(&self) -> &'static str {
        if self.items.is_empty() { "POST /v1/jobs" } else { "POST /v1/jobs/batch" }
    }
}

async fn take_in(call: &Call<'_>, mut submission: Submission) -> Result<Response, ApiError> {
    let (app, exchange, caller, bytes) = (call.app, call.exchange, call.caller(), &call.body);
    let operation = submission.operation();
    let of_header = submission::header_key(&exchange.headers)?;
    let of_body = submission.request.idempotency_key.take().filter(|key| !key.is_empty());
    // The header counts only where the body has none (C-66).
    let key = of_body.as_deref().or(of_header);
    let now = app.clock.now();
    // The items of a batch are many small payloads; the bound on bodies is theirs.
    let body_bytes = if submission.items.is_empty() { bytes.len() } else { 0 };
    let private = exchange.private_targets(app);
    let subject = SubmissionFacts { request: &submission.request, key, body_bytes, now, private };
    let (queue, too_late) = match rules::judge(app, &subject) {
        SubmissionVerdict::Fine(queue) => (queue, None),
        SubmissionVerdict::TooLate(queue, refused) if key.is_some() => (queue, Some(refused)),
        SubmissionVerdict::TooLate(_, refused) | SubmissionVerdict::Bad(refused) => {
            return Err(refused.into());
        }
    };
    let differ = of_body.as_deref().zip(of_header).is_some_and(|(of_body, of_header)| of_body != of_header);
    if differ && app.config.idempotency.reject_mismatch {
        let detail = "The Idempotency-Key header and the idempotency_key of the body differ.";
        return Err(ApiError::new(Kind::IdempotencyConflict, detail));
    }
    let idempotency = match key {
        Some(key) => Some(submission::idempotency(caller, operation, key, fingerprint(bytes)?)),
        None => None,
    };
    let new = new_job(app, exchange, caller, submission, Place { queue, now, key: idempotency.as_ref() });
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
    job: Job,
    existing: bool,
) -> Result<Response, ApiError> {
    let prefer = exchange.prefer;
    let job = submission::awaited(app, caller, &prefer, job).await?;
    exchange.is_about(RequestSubject::job(&job, !existing));
    let view = SubmittedView::new(&job);
    let mut response = respond::json(StatusCode::ACCEPTED, &view);
    let location = [&app.base, "/v1/jobs/", &view.job_id].concat();
    submission::announce(&mut response, location, POLL_AFTER_S, &prefer, existing);
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
    Submission { request, items }: Submission,
    place: Place<'_>,
) -> NewJob {
    let (traceparent, tracestate) = exchange.trace_context();
    let correlation = exchange.correlation(request.correlation_id.as_deref());
    let head = Head {
        form: request.form,
        definition: items.is_empty().then(|| definition(app, &request, place.now)),
        items: (!items.is_empty()).then_some(Items { n: items.len() as u32, simulated: true }),
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
        keep: Some(app.keep()),
        ..Head::new(caller.client, place.queue, place.now)
    };
    let items = with_kinds(app, items, place.now);
    let input = Input { payload: request.payload.unwrap_or_default(), items, ..Input::default() };
    NewJob { id: app.engine.job_id(), id_given: false, head: Arc::new(head), input: Arc::new(input) }
}

/// Items that name no kind get one by chance, each its own.
fn with_kinds(app: &App, mut items: Vec<Item>, now: Time) -> Vec<Item> {
    for (place, item) in (0..).zip(&mut items) {
        let seed = now.as_micros().unsigned_abs() + place;
        item.work_kind = item.work_kind.or_else(|| Some(random_definition(app, seed).work_kind));
    }
    items
}

/// What the job shall do: what the client asked for, or what the time of the request says.
fn definition(app: &App, request: &SubmitRequest, now: Time) -> Definition {
    let max_runtime_ms = max_runtime_ms(app);
    match (request.work_kind, request.form) {
        (Some(kind), _) => Definition::of(kind, max_runtime_ms),
        // Its work is the notification (C-56).
        (None, JobForm::EmitEvent) => {
            Definition { duration_ms: 0, ..Definition::of(WorkKind::SuccessFast, max_runtime_ms) }
        }
        (None, JobForm::Execute | JobForm::Deferred) => {
            random_definition(app, now.as_micros().unsigned_abs())
        }
    }
}

fn random_definition(app: &App, seed: u64) -> Definition {
    let failure_per_mille = (app.config.catalog.failure_probability * 1000.0).round() as u16;
    Definition::random(seed, failure_per_mille, max_runtime_ms(app))
}

fn max_runtime_ms(app: &App) -> u32 {
    u32::try_from(app.config.exec.max_runtime.as_millis()).unwrap_or(u32::MAX)
}
