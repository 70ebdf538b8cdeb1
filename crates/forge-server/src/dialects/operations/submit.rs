//! `POST /api/v1/jobs`, `POST /api/v1/jobs/batch`, and `POST /api/v1/{resource}/{action}` for the operations of the configuration.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forge_core::command::{Idempotency, NewJob};
use forge_core::item::{Item, Items};
use forge_core::job::{Dialect, Head, Input, Job, Name};
use forge_core::work::Definition;
use forge_wire::body::fingerprint;
use forge_wire::operations::{SubmitRequest, read_batch, read_submit, refused, status_path};

use super::status;
use crate::app::App;
use crate::config::Operation;
use crate::edge::ownership::OwnedExecution;
use crate::edge::routing::{Call, Route};
use crate::edge::submission::{self, Violations};
use crate::edge::{ApiError, Caller, Exchange};
use crate::traces::RequestSubject;

/// The routes of submissions that are always there.
pub(super) const ROUTES: &[Route] = &[
    Route::post("/api/v1/jobs", "submit", |call| Box::pin(submit(call))),
    Route::post("/api/v1/jobs/batch", "submit_batch", |call| Box::pin(submit_batch(call))),
];

/// The route of every operation of the configuration, which stands at a path of its own.
pub(super) static OPERATION: Route =
    Route::post("/api/v1/{resource}/{action}", "submit", |call| Box::pin(submit_operation(call)));

/// An operation of the configuration.
#[derive(Clone, Copy)]
struct Declared<'a> {
    /// As it is declared: `reports/generate`.
    name: &'a str,
    operation: &'a Operation,
}

/// `POST /api/v1/jobs`.
async fn submit(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_submit(&call.body, true)?;
    take_in(&call, Submission { request, items: Vec::new(), declared: None }).await
}

/// `POST /api/v1/{resource}/{action}`.
async fn submit_operation(call: Call<'_>) -> Result<Response, ApiError> {
    let path = call.exchange.uri.path();
    let name = path.strip_prefix("/api/v1/").unwrap_or_default();
    let operation = call.app.config.operations.get(name).ok_or_else(ApiError::route)?;
    let request = read_submit(&call.body, false)?;
    let declared = Some(Declared { name, operation });
    take_in(&call, Submission { request, items: Vec::new(), declared }).await
}

/// `POST /api/v1/jobs/batch`: one job of many items (C-81).
async fn submit_batch(call: Call<'_>) -> Result<Response, ApiError> {
    let (request, items) = read_batch(&call.body)?;
    take_in(&call, Submission { request, items, declared: None }).await
}

/// What was asked: one job, of an operation or of none, or a batch of items.
struct Submission<'a> {
    request: SubmitRequest,
    items: Vec<Item>,
    declared: Option<Declared<'a>>,
}

impl Submission<'_> {
    /// Keys of one operation meet no keys of others (C-65).
    fn operation(&self) -> String {
        match self.declared {
            Some(declared) => format!("POST /api/v1/{}", declared.name),
            None if self.items.is_empty() => "POST /api/v1/jobs".to_owned(),
            None => "POST /api/v1/jobs/batch".to_owned(),
        }
    }
}

async fn take_in(call: &Call<'_>, submission: Submission<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, bytes) = (call.app, call.exchange, call.caller(), &call.body);
    let Submission { request, items, declared } = &submission;
    let key = submission::header_key(&exchange.headers)?;
    let mut wrong = Violations::default();
    let own_queue =
        declared.and_then(|declared| declared.operation.queue.as_ref()).map(|queue| queue.as_str());
    let queue = wrong.queue(app, request.queue.as_deref().or(own_queue));
    wrong.callback(exchange.private_targets(app), request.callback.as_deref());
    wrong.key(key);
    // The items of a batch are many small payloads; the bound on bodies is theirs.
    let body_bytes = if items.is_empty() { bytes.len() } else { 0 };
    wrong.payload(app, "parameters", request.parameters.as_ref(), body_bytes);
    let queue = wrong.settled(queue, refused)?;
    let idempotency = match key {
        Some(key) => Some(submission::idempotency(caller, &submission.operation(), key, fingerprint(bytes)?)),
        None => None,
    };
    let new = new_job(app, exchange, caller, submission, Place { queue, key: idempotency.as_ref() });
    let submitted = submission::submit(app, new, idempotency, app.config.limits.queue_size).await;
    let (job, existing) = submitted?;
    accepted(app, exchange, caller, job, existing).await
}

/// The 202, at once or when the job has ended, if the client would rather wait. It tells of the execution that the submission
/// began, whatever became of the job since.
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
    let found = OwnedExecution { id: job.id.first_execution(), job: Arc::new(job) };
    let view = status::accepted(app, &found).await?;
    let mut response = status::json(StatusCode::ACCEPTED, &view);
    let location = format!("{}{}", app.base, status_path(found.id));
    let pause_s = app.config.asyncops.retry_after.as_secs();
    submission::announce(&mut response, location, pause_s, &prefer, existing);
    Ok(response)
}

/// Where a job comes into the world.
struct Place<'a> {
    queue: Name,
    key: Option<&'a Idempotency>,
}

fn new_job(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    Submission { request, items, declared }: Submission<'_>,
    place: Place<'_>,
) -> NewJob {
    let (traceparent, tracestate) = exchange.trace_context();
    let correlation = exchange.correlation(request.correlation_id.as_deref());
    let name = declared.map(|declared| declared.name);
    let operation = declared.map(|declared| declared.operation);
    let mode = request.retry_mode.or(operation.and_then(|operation| operation.retry_mode));
    let retries = request.max_retries.or(operation.and_then(|operation| operation.max_retries));
    let retention = operation.and_then(|operation| operation.retention);
    let head = Head {
        dialect: Dialect::Operations,
        definition: items.is_empty().then(|| definition(app, &request, declared)).flatten(),
        items: summary(&items),
        job_type: request.job_type.or(name.map(Into::into)).unwrap_or_default(),
        operation: name.map(Into::into),
        priority: request.priority.unwrap_or(0),
        timeout: Some(app.config.exec.max_runtime),
        retry: app.operation_policy(mode, retries),
        idempotency: place.key.map(|idempotency| idempotency.key.clone()),
        callback: request.callback,
        correlation_id: correlation.map(|id| id.as_str().to_owned()),
        traceparent,
        tracestate,
        language: exchange.language().stored(),
        retention: Some(retention.unwrap_or(app.config.retention.jobs)),
        keep: Some(app.keep()),
        ..Head::new(caller.client, place.queue, app.clock.now())
    };
    let input = Input { payload: request.parameters.unwrap_or_default(), items, ..Input::default() };
    NewJob { id: app.engine.job_id(), id_given: false, head: Arc::new(head), input: Arc::new(input) }
}

/// What the job knows of its items. One that is simulated tells of all of them.
fn summary(items: &[Item]) -> Option<Items> {
    let simulated = items.first()?.work_kind.is_some();
    Some(Items { n: items.len() as u32, simulated })
}

/// What is simulated, if anything: what the client asked for, or what the operation says. The work of an operation takes as
/// long as it is said to take, and leaves what operations leave.
fn definition(app: &App, request: &SubmitRequest, declared: Option<Declared<'_>>) -> Option<Definition> {
    let operation = declared.map(|declared| declared.operation);
    let max_runtime_ms = u32::try_from(app.config.exec.max_runtime.as_millis()).unwrap_or(u32::MAX);
    let kind = request.work_kind.or(operation.and_then(|operation| operation.work_kind))?;
    let mut definition = Definition::of(kind, max_runtime_ms);
    if let Some(operation) = operation {
        definition.payload_kb = operation.result_kb;
        if let Some(expected) = operation.expected.filter(|_| request.work_kind.is_none()) {
            definition.duration_ms = u32::try_from(expected.as_millis()).unwrap_or(u32::MAX);
        }
    }
    Some(definition)
}
