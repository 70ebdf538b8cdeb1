//! `POST /v1/jobs` and `POST /v1/jobs/batch`.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_core::item::Item;
use forgerun_core::job::{Conflict, Head, Input, Job, JobForm, Unique};
use forgerun_core::scope::KeyScope;
use forgerun_core::time::Time;
use forgerun_core::work::{Definition, WorkKind};
use forgerun_problem::Digest;
use forgerun_wire::fingerprint::fingerprint;
use forgerun_wire::forge::{BATCH, SUBMIT, SubmitRequest, SubmittedView, read_batch, read_submit, refused};
use forgerun_wire::words::forge_type;

use crate::app::App;
use crate::dialects::ojs::submission::limits_of;
use crate::http::{
    ApiError, accepted, respond,
    routing::{
        Call, Reply, Route,
        operation::{ACCEPTED, SUBMITTING},
    },
};
use crate::limits::POLL_AFTER_S;
use crate::submission::{Checked, Key, Submission, SubmissionContext, SubmissionTerms, Violations};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/v1/jobs", "submit", |call| Box::pin(submit(call)))
        .strict()
        .scope(KeyScope::Submit)
        .operation("submitJob", "Submit a job.")
        .headers(SUBMITTING)
        .body(&SUBMIT)
        .replies(&[Reply::json::<SubmittedView>(202, "Accepted and stored.").headers(ACCEPTED)])
        .refuses(REFUSALS),
    Route::post("/v1/jobs/batch", "submit_batch", |call| Box::pin(submit_batch(call)))
        .scope(KeyScope::Submit)
        .operation("submitBatch", "Submit a batch: one job of many items.")
        .headers(SUBMITTING)
        .body(&BATCH)
        .replies(&[Reply::json::<SubmittedView>(202, "Accepted and stored.").headers(ACCEPTED)])
        .refuses(REFUSALS),
];

/// What only a submission is refused for.
const REFUSALS: &[Kind] = &[
    Kind::UnknownJobType,
    Kind::ScheduleInPast,
    Kind::InvalidCallbackUrl,
    Kind::InvalidQueue,
    Kind::QueueNameTooLong,
    Kind::JobPayloadTooLarge,
    Kind::IdempotencyConflict,
    Kind::Duplicate,
];

/// The terms of `/v1`.
const TERMS: SubmissionTerms = SubmissionTerms {
    queue: "queue",
    callback: "callback",
    key: "idempotency_key",
    execution_at: Some("execution_at"),
    deadline: "deadline",
    payload: "payload",
    work_kind: "work_kind",
    job_type: Some("job_type"),
    payload_bytes_max: |limits| limits.max_job_payload_bytes,
    refused,
};

/// `POST /v1/jobs`.
async fn submit(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_submit(&call.body, call.app.config.api.unknown_members)?;
    accept(&call, "POST /v1/jobs", request, Vec::new()).await
}

/// `POST /v1/jobs/batch`: one job of many items (C-81).
async fn submit_batch(call: Call<'_>) -> Result<Response, ApiError> {
    let (request, items) = read_batch(&call.body, call.app.config.api.unknown_members)?;
    accept(&call, "POST /v1/jobs/batch", request, items).await
}

async fn accept(
    call: &Call<'_>,
    operation: &str,
    mut request: SubmitRequest,
    items: Vec<Item>,
) -> Result<Response, ApiError> {
    let (app, bytes) = (call.app, &call.body);
    let of_header = accepted::header_key(&call.exchange.headers)?;
    let of_body = request.idempotency_key.take().filter(|key| !key.is_empty());
    // The header counts only if the body has none (C-66).
    let key = of_body.as_deref().or(of_header);
    let wrong = switched_off(app, request.form);
    let context = SubmissionContext { key, bytes: bytes.len(), private: call.exchange.private_targets(app) };
    let checked = submission(call, request, items).check(app, &TERMS, context, wrong).await?;
    let differ = of_body.as_deref().zip(of_header).is_some_and(|(of_body, of_header)| of_body != of_header);
    if differ && app.config.idempotency.reject_mismatch {
        let detail = "The Idempotency-Key header and the idempotency_key of the body differ.";
        return Err(ApiError::new(Kind::IdempotencyConflict, detail));
    }
    let key = match key {
        Some(key) => Some(Key { operation, key, fingerprint: fingerprint(bytes)? }),
        None => None,
    };
    let (job, existing) = checked.submit(app, key).await?;
    show(call, job, existing).await
}

/// The job of a schedule, checked like a submission.
pub(super) async fn template(
    call: &Call<'_>,
    request: SubmitRequest,
    given: &[u8],
) -> Result<Checked, ApiError> {
    let wrong = switched_off(call.app, request.form);
    let context =
        SubmissionContext { key: None, bytes: given.len(), private: call.exchange.private_targets(call.app) };
    submission(call, request, Vec::new()).check(call.app, &TERMS, context, wrong).await
}

/// The operator may switch off forms of jobs.
fn switched_off(app: &App, form: JobForm) -> Violations {
    let mut wrong = Violations::default();
    if !app.config.catalog.allowed_types.contains(&form) {
        let detail = format!("{} is switched off on this server", forge_type(form));
        wrong.add(Kind::UnknownJobType, "type", detail, "enum");
    }
    wrong
}

/// The 202, at once or when the job has ended, if the client prefers to wait.
async fn show(call: &Call<'_>, job: Job, existing: bool) -> Result<Response, ApiError> {
    let (app, prefer) = (call.app, call.exchange.prefer);
    let job = accepted::awaited(app, call.caller(), &prefer, job).await?;
    call.exchange.set_subject(RequestSubject::job(&job, !existing));
    let view = SubmittedView::new(&job);
    let mut response = respond::json(StatusCode::ACCEPTED, &view);
    let location = [&app.base, "/v1/jobs/", &view.job_id].concat();
    accepted::announce(&mut response, location, POLL_AFTER_S, &prefer, existing);
    Ok(response)
}

fn submission(call: &Call<'_>, request: SubmitRequest, items: Vec<Item>) -> Submission {
    let app = call.app;
    let head = call.head(call.caller().client, request.correlation_id.as_deref());
    let now = head.created_at;
    let client = head.client;
    let is_real = request.job_type.is_some();
    let definition = (items.is_empty() && !is_real).then(|| definition(app, &request, now));
    let head = Head {
        form: request.form,
        definition,
        execution_at: request.execution_at,
        priority: request.priority.unwrap_or(0),
        fair: request.fair,
        limits: limits_of(&head.owner(), request.limits, &head.queue),
        retry: match is_real {
            true => app.real_policy(request.retry_mode, request.max_retries),
            false => app.retry_policy(request.retry_mode),
        },
        timeout: request.timeout,
        deadline: request.deadline.map(|deadline| deadline.moment(now)),
        tags: request.tags,
        unique: request.unique_key.map(|key| unique(client, &key)),
        callback: request.callback,
        job_type: request.job_type.unwrap_or_default(),
        ..head
    };
    let items = if is_real { items } else { with_kinds(app, items, now) };
    let input = Input { payload: request.payload.unwrap_or_default(), items, ..Input::default() };
    Submission { id: None, queue: request.queue, head, input: Arc::new(input) }
}

/// Items without a kind get a random one each.
fn with_kinds(app: &App, mut items: Vec<Item>, now: Time) -> Vec<Item> {
    for (place, item) in (0..).zip(&mut items) {
        let seed = now.as_micros().unsigned_abs() + place;
        item.work_kind = item.work_kind.or_else(|| Some(random_definition(app, seed).work_kind));
    }
    items
}

/// The work of a simulated job: as requested, or chosen by the time of the request.
fn definition(app: &App, request: &SubmitRequest, now: Time) -> Definition {
    match (request.work_kind, request.form) {
        (Some(kind), _) => app.simulated(kind),
        // Its work is the notification (C-56).
        (None, JobForm::EmitEvent) => Definition { duration_ms: 0, ..app.simulated(WorkKind::SuccessFast) },
        (None, JobForm::Execute | JobForm::Deferred) => {
            random_definition(app, now.as_micros().unsigned_abs())
        }
    }
}

fn random_definition(app: &App, seed: u64) -> Definition {
    let failure_per_mille = (app.config.catalog.failure_probability * 1000.0).round() as u16;
    Definition::random(seed, failure_per_mille, app.max_runtime_ms())
}

/// A key of the client that no second job may have before the first has ended.
fn unique(client: ClientId, key: &str) -> Unique {
    let text = format!("unique_key of /v1\0{client}\0{key}");
    Unique {
        key: Digest::of(text.as_bytes()).0,
        facets: Unique::UNFINISHED,
        until: None,
        on_conflict: Conflict::Reject,
    }
}
