//! `GET /api/v1/jobs/{jobId}`: 202 until it ends, then 200.

use std::time::Duration;

use axum::http::header::{LINK, RETRY_AFTER, VARY};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::{Dialect, Job};
use forgerun_core::rows::Outcome;
use forgerun_core::state::State;
use forgerun_problem::{JobStatus, Problem};
use forgerun_wire::operations::{
    AcceptedView, ResultNoteView, RetriedExecution, StatusContext, StatusView, live_status, result_path,
    status_path,
};
use forgerun_wire::words;
use serde::Serialize;

use crate::app::{App, JobsAhead};
use crate::auth::ownership::{self, OwnedExecution};
use crate::http::{
    ApiError, Exchange,
    accept::{self, FailureFormat},
    failure,
    prefer::{APPLIED, Prefer},
    respond,
    routing::{Answers, Call, Reply, Route, operation::PREFER},
    wait,
};
use crate::limits::QUEUE_PLACES_COUNTED;
use crate::traces::RequestSubject;

/// The route.
pub(super) const ROUTES: &[Route] = &[Route::get("/api/v1/jobs/{jobId}", "get", |call| Box::pin(get(call)))
    .answers(Answers::BodyOrFailure)
    .job_token()
    .operation(
        "getStatus",
        "Get the status of an execution: 202 while it waits or runs, 200 once it has ended.",
    )
    .headers(&[PREFER])
    .replies(&[
        Reply::json::<StatusView>(202, "It waits or runs: ask again.").headers(&[
            "Vary",
            "Retry-After",
            "Preference-Applied?",
        ]),
        Reply::json::<StatusView>(
            200,
            "It has ended, and stays as it is. A failed one is its failure object, or JSON if \
     `Accept` names it.",
        ),
    ])
    .refuses(&[Kind::WorkerUnavailable])];

/// The content type in the pattern's document.
const JSON: HeaderValue = HeaderValue::from_static("application/json; charset=utf-8");

/// `GET /api/v1/jobs/{jobId}`.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.execution());
    let mut found = ownership::execution(app, caller, id).await?;
    let prefer = Prefer { respond_async: false, ..exchange.prefer };
    if found.is_under_way() && wait::wait_for_end(app, &found.job, prefer).await? {
        found = ownership::execution(app, caller, id).await?;
    }
    exchange.set_subject(RequestSubject::job(&found.job, false));
    let mut response = show(app, exchange, &found).await?;
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.extend(prefer.applied().map(|applied| (APPLIED, applied)));
    Ok(response)
}

/// A failed execution is a problem, unless the client names JSON in `Accept` (C-08).
async fn show(app: &App, exchange: &Exchange, found: &OwnedExecution) -> Result<Response, ApiError> {
    let form = || accept::form(exchange, FailureFormat::ProblemJson);
    let job = &found.job;
    match job.state {
        _ if !found.is_under_way() => of_past(app, found, form()).await,
        State::Created | State::Queued | State::Assigned | State::Running => {
            let mut context = context_of(app, job);
            context.queue_position = place(app, job).await?;
            let write = || respond::written(&StatusView::new(job, &context));
            let bytes = match job.state {
                // The estimate depends on the current time.
                State::Running => write().into(),
                _ => app.body_cache.of(Dialect::Operations, job, context.queue_position, write),
            };
            let mut response = respond::with_type(StatusCode::ACCEPTED, JSON, bytes);
            let seconds = app.config.asyncops.retry_after.as_secs();
            response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
            Ok(response)
        }
        State::Succeeded => {
            let view = view(app, found).await?;
            let mut response = json(StatusCode::OK, &view);
            if view.result_url.is_some() {
                link(&mut response, app, &result_path(job, found.id));
            }
            Ok(response)
        }
        State::Failed | State::Canceled => {
            if let Some(response) = failure::last_word(app, job, form()).await? {
                return Ok(response);
            }
            let mut response = json(StatusCode::OK, &view(app, found).await?);
            failure::add_field(app, &mut response, || app.outcomes.failure(job, &[]));
            Ok(response)
        }
    }
}

/// A past execution shows its stored outcome, and links to the next one.
async fn of_past(app: &App, found: &OwnedExecution, form: FailureFormat) -> Result<Response, ApiError> {
    let (outcome, problem) = last_word(app, found).await?;
    let mut response = match form {
        FailureFormat::ProblemJson | FailureFormat::ProblemXml => {
            failure::show(outcome, form, problem.job().retry_after_s())?
        }
        FailureFormat::Json => {
            let mut response = json(StatusCode::OK, &retried(found, &problem));
            failure::add_field(app, &mut response, || problem);
            response
        }
    };
    if let Some(next) = found.retried_as() {
        link(&mut response, app, &status_path(next));
    }
    Ok(response)
}

fn link(response: &mut Response, app: &App, path: &str) {
    let link = format!("<{}{path}>; rel=\"related\"", app.base);
    response.headers_mut().insert(LINK, respond::value(link));
}

/// The view of an execution.
pub(super) async fn view(app: &App, found: &OwnedExecution) -> Result<StatusView, ApiError> {
    let job = &found.job;
    if !found.is_under_way() {
        let (_, problem) = last_word(app, found).await?;
        return Ok(retried(found, &problem));
    }
    let mut context = context_of(app, job);
    context.queue_position = place(app, job).await?;
    let note = job.result.as_ref();
    context.result = note.map(|note| ResultNoteView { media_type: &note.media_type, size: note.size });
    Ok(StatusView::new(job, &context))
}

/// Position in the queue, from 1, of a job that waits for its first attempt.
async fn place(app: &App, job: &Job) -> Result<Option<u64>, ApiError> {
    if job.state != State::Queued || words::job_status(job) != JobStatus::Accepted {
        return Ok(None);
    }
    let ahead = app.engine.store().ahead(job, QUEUE_PLACES_COUNTED).await?;
    Ok(ahead.map(|(JobsAhead::Exactly(n) | JobsAhead::About(n))| n + 1))
}

/// The answer to the submission that began this execution. Usually without a query.
pub(super) async fn accepted(app: &App, found: &OwnedExecution) -> Result<AcceptedView, ApiError> {
    let context = context_of(app, &found.job);
    if found.is_under_way() {
        return Ok(AcceptedView::new(&found.job, live_status(&found.job, context.extended), &context));
    }
    let status = view(app, found).await?.status;
    Ok(AcceptedView::new(&found.job, &status, &context))
}

fn retried(found: &OwnedExecution, problem: &Problem) -> StatusView {
    let (n, retried_as) = (found.n_past().unwrap_or(1), found.retried_as().unwrap_or(found.job.execution));
    StatusView::retried(&found.job, &RetriedExecution { execution: found.id, n, retried_as, problem })
}

/// What the view depends on besides the job.
fn context_of<'a>(app: &'a App, job: &Job) -> StatusContext<'a> {
    StatusContext {
        base: &app.base,
        now: app.clock.now(),
        expected: expected(app, job),
        queue_position: None,
        result: None,
        extended: app.config.asyncops.extended_statuses,
    }
}

/// The expected duration: known for simulated work, otherwise set by the operation.
fn expected(app: &App, job: &Job) -> Option<Duration> {
    if let Some(definition) = job.head.definition {
        let span = Duration::from_millis(definition.duration_ms.into());
        return Duration::try_from_secs_f64(span.as_secs_f64() * app.config.sim.time_scale).ok();
    }
    app.config.operations.get(job.head.operation.as_deref()?)?.expected
}

/// The outcome of a retried execution. Only ended executions are retried, so it has one.
async fn last_word(app: &App, found: &OwnedExecution) -> Result<(Outcome, Problem), ApiError> {
    let outcome = app.engine.store().outcome(found.id).await?;
    // Deleted between two queries.
    let outcome = outcome.ok_or_else(ownership::not_found)?;
    let problem = failure::read(&outcome)?;
    Ok((outcome, problem))
}

/// JSON with the content type of the pattern's document.
pub(super) fn json(status: StatusCode, view: &impl Serialize) -> Response {
    respond::with_type(status, JSON, respond::written(view))
}
