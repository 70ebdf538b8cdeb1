//! `POST /api/v1/jobs`, `POST /api/v1/jobs/batch`, and `POST /api/v1/{resource}/{action}` for
//! configured operations.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::item::Item;
use forgerun_core::job::{Head, Input, Job, Name};
use forgerun_core::scope::KeyScope;
use forgerun_core::work::Definition;
use forgerun_wire::fingerprint::fingerprint;
use forgerun_wire::operations::{
    AcceptedView, BATCH, SUBMIT, SubmitRequest, read_batch, read_submit, refused, status_path,
};

use super::status;
use crate::app::App;
use crate::auth::ownership::OwnedExecution;
use crate::config::Operation;
use crate::dialects::ojs::submission::limits_of;
use crate::http::{
    ApiError, accepted,
    routing::{
        Call, Reply, Route,
        operation::{ACCEPTED, SUBMITTING},
    },
};
use crate::submission::{Key, Submission, SubmissionContext, SubmissionTerms, Violations};
use crate::traces::RequestSubject;

/// The fixed submission routes.
pub(super) const ROUTES: &[Route] = &[
    Route::post("/api/v1/jobs", "submit", |call| Box::pin(submit(call)))
        .strict()
        .scope(KeyScope::Submit)
        .operation("beginJob", "Begin a job.")
        .headers(SUBMITTING)
        .body(&SUBMIT)
        .replies(&[Reply::json::<AcceptedView>(202, "Accepted and stored.").headers(ACCEPTED)])
        .refuses(REFUSALS),
    Route::post("/api/v1/jobs/batch", "submit_batch", |call| Box::pin(submit_batch(call)))
        .scope(KeyScope::Submit)
        .operation(
            "beginBatch",
            "Begin a batch: one job of many items. Either all items are simulated or none is.",
        )
        .headers(SUBMITTING)
        .body(&BATCH)
        .replies(&[Reply::json::<AcceptedView>(202, "Accepted and stored.").headers(ACCEPTED)])
        .refuses(REFUSALS),
];

/// The route of every configured operation, each at a path of its own.
pub(super) static OPERATION: Route =
    Route::post("/api/v1/{resource}/{action}", "submit", |call| Box::pin(submit_operation(call)))
        .strict()
        .scope(KeyScope::Submit)
        .operation("begin", "Begin the operation `{}`, as it is configured; `type` may be left out.")
        .headers(SUBMITTING)
        .body(&SUBMIT)
        .replies(&[Reply::json::<AcceptedView>(202, "Accepted and stored.").headers(ACCEPTED)])
        .refuses(REFUSALS);

/// What only a submission is refused for.
const REFUSALS: &[Kind] = &[
    Kind::UnknownJobType,
    Kind::JobTypeTooLong,
    Kind::InvalidCallbackUrl,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::JobPayloadTooLarge,
    Kind::IdempotencyConflict,
];

/// The terms of `/api/v1`.
const TERMS: SubmissionTerms = SubmissionTerms {
    queue: "queue",
    callback: "callback",
    key: "idempotency_key",
    execution_at: None,
    deadline: "deadline",
    payload: "parameters",
    work_kind: "work_kind",
    job_type: None,
    payload_bytes_max: |limits| limits.max_job_payload_bytes,
    refused,
};

/// A configured operation.
#[derive(Clone, Copy)]
struct Declared<'a> {
    /// Its name: `reports/generate`.
    name: &'a str,
    operation: &'a Operation,
}

/// `POST /api/v1/jobs`.
async fn submit(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_submit(&call.body, call.app.config.api.unknown_members, true)?;
    accept(&call, submission(&call, request, Vec::new(), None)).await
}

/// `POST /api/v1/jobs/batch`: one job of many items (C-81).
async fn submit_batch(call: Call<'_>) -> Result<Response, ApiError> {
    let (request, items) = read_batch(&call.body, call.app.config.api.unknown_members)?;
    accept(&call, submission(&call, request, items, None)).await
}

/// `POST /api/v1/{resource}/{action}`.
async fn submit_operation(call: Call<'_>) -> Result<Response, ApiError> {
    let name = call.exchange.uri.path().strip_prefix("/api/v1/").unwrap_or_default();
    let operation = call.app.config.operations.get(name).ok_or_else(ApiError::route)?;
    let request = read_submit(&call.body, call.app.config.api.unknown_members, false)?;
    accept(&call, submission(&call, request, Vec::new(), Some(Declared { name, operation }))).await
}

async fn accept(call: &Call<'_>, submission: Submission) -> Result<Response, ApiError> {
    let (app, bytes) = (call.app, &call.body);
    let key = accepted::header_key(&call.exchange.headers)?;
    let context = SubmissionContext { key, bytes: bytes.len(), private: call.exchange.private_targets(app) };
    let checked = submission.check(app, &TERMS, context, Violations::default()).await?;
    let operation = ["POST ", call.exchange.uri.path()].concat();
    let key = match key {
        Some(key) => Some(Key { operation: &operation, key, fingerprint: fingerprint(bytes)? }),
        None => None,
    };
    let (job, existing) = checked.submit(app, key).await?;
    show(call, job, existing).await
}

/// The 202, at once or when the job has ended, if the client prefers to wait. It describes the
/// execution that the submission began, whatever happened to the job since.
async fn show(call: &Call<'_>, job: Job, existing: bool) -> Result<Response, ApiError> {
    let (app, prefer) = (call.app, call.exchange.prefer);
    let job = accepted::awaited(app, call.caller(), &prefer, job).await?;
    call.exchange.set_subject(RequestSubject::job(&job, !existing));
    let found = OwnedExecution { id: job.id.first_execution(), job: Arc::new(job) };
    let view = status::accepted(app, &found).await?;
    let mut response = status::json(StatusCode::ACCEPTED, &view);
    let location = format!("{}{}", app.base, status_path(found.id));
    let pause_s = app.config.asyncops.retry_after.as_secs();
    accepted::announce(&mut response, location, pause_s, &prefer, existing);
    Ok(response)
}

/// Values of the request override those of its operation.
fn submission(
    call: &Call<'_>,
    request: SubmitRequest,
    items: Vec<Item>,
    declared: Option<Declared<'_>>,
) -> Submission {
    let app = call.app;
    let name = declared.map(|declared| declared.name);
    let operation = declared.map(|declared| declared.operation);
    let mode = request.retry_mode.or(operation.and_then(|operation| operation.retry_mode));
    let retries = request.max_retries.or(operation.and_then(|operation| operation.max_retries));
    let own_queue = || operation.and_then(|operation| operation.queue.as_ref()).map(Name::to_string);
    let head = call.head(call.caller().client, request.correlation_id.as_deref());
    let head = Head {
        definition: items.is_empty().then(|| definition(app, &request, declared)).flatten(),
        job_type: request.job_type.or(name.map(Into::into)).unwrap_or_default(),
        operation: name.map(Into::into),
        priority: request.priority.unwrap_or(0),
        fair: request.fair,
        limits: limits_of(&head.owner(), request.limits, &head.queue),
        retry: app.operation_policy(mode, retries),
        timeout: request.timeout,
        deadline: request.deadline.map(|deadline| deadline.moment(head.created_at)),
        tags: request.tags,
        callback: request.callback,
        retention: operation.and_then(|operation| operation.retention),
        ..head
    };
    let input = Input { payload: request.parameters.unwrap_or_default(), items, ..Input::default() };
    Submission { id: None, queue: request.queue.or_else(own_queue), head, input: Arc::new(input) }
}

/// The simulated work, if any: as requested, or as the operation defines. The work of an operation
/// has the configured duration and result.
fn definition(app: &App, request: &SubmitRequest, declared: Option<Declared<'_>>) -> Option<Definition> {
    let operation = declared.map(|declared| declared.operation);
    let kind = request.work_kind.or(operation.and_then(|operation| operation.work_kind))?;
    let mut definition = app.simulated(kind);
    if let Some(operation) = operation {
        definition.payload_kb = operation.result_kb;
        if let Some(expected) = operation.expected.filter(|_| request.work_kind.is_none()) {
            definition.duration_ms = u32::try_from(expected.as_millis()).unwrap_or(u32::MAX);
        }
    }
    Some(definition)
}
