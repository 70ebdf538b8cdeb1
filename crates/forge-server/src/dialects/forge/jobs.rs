//! One job: look at it, cancel it, retry it.

use axum::http::header::{LINK, RETRY_AFTER, VARY};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use forge_core::Command;
use forge_core::catalog::Kind;
use forge_core::command::{Cancel, Owned, Retry};
use forge_core::id::JobId;
use forge_core::job::Job;
use forge_core::rows::Outcome;
use forge_core::state::State;
use forge_problem::read::Reader;
use forge_problem::{MEDIA_TYPE_JSON, MEDIA_TYPE_XML};
use forge_wire::forge::{CanceledView, JobView, RetriedView};
use forge_wire::outcome;

use crate::app::App;
use crate::config::Database;
use crate::edge::accept::{self, Form};
use crate::edge::prefer::{APPLIED, Prefer};
use crate::edge::{ApiError, Caller, Exchange, body, ownership, respond};
use crate::limits::{POLL_AFTER_S, PROBLEM_FIELD_BYTES_MAX};
use crate::traces::About;

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
const PROBLEM: HeaderName = HeaderName::from_static("problem");

/// `GET /v1/jobs/{id}`.
pub(super) async fn get(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
) -> Result<Response, ApiError> {
    let mut job = ownership::job(app, caller, id).await?;
    let prefer = Prefer { respond_async: false, ..Prefer::of(&exchange.headers, app.bounds.wait_max) };
    if let Some(wait) = prefer.wait.filter(|_| !job.state.is_final()) {
        if nobody_works(app, &job) {
            return Err(ApiError::new(
                Kind::WorkerUnavailable,
                "No worker of this server would end the job.",
            ));
        }
        app.endings.wait(app, &job, wait).await?;
        job = ownership::job(app, caller, id).await?;
    }
    exchange.is_about(About::job(&job, false));
    let mut response = show(app, exchange, &job).await?;
    let headers = response.headers_mut();
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    headers.extend(prefer.applied().map(|applied| (APPLIED, applied)));
    Ok(response)
}

/// Whether the job is simulated and nobody here or elsewhere will do it: then waiting for it is pointless (C-51).
fn nobody_works(app: &App, job: &Job) -> bool {
    let alone = !matches!(app.config.server.database, Database::Postgres(_));
    app.config.workers.count == 0 && alone && job.head.definition.is_some()
}

async fn show(app: &App, exchange: &Exchange, job: &Job) -> Result<Response, ApiError> {
    let ended_badly = matches!(job.state, State::Failed | State::Canceled);
    let form = if ended_badly { accept::form(&exchange.headers) } else { Form::Json };
    match form {
        Form::Json => Ok(view(app, job)),
        Form::ProblemJson | Form::ProblemXml => match app.engine.store().outcome(job.execution).await? {
            Some(outcome) if form == Form::ProblemJson => Ok(stored(job, outcome)),
            Some(outcome) => as_xml(job, &outcome),
            // Ended, and no last word: a job of an older store. What is known is still worth telling.
            None => Ok(view(app, job)),
        },
    }
}

/// The dialect's own JSON, with what went wrong in a header field beside it (C-08).
fn view(app: &App, job: &Job) -> Response {
    let mut response = respond::json(StatusCode::OK, &JobView::new(job));
    let headers = response.headers_mut();
    match job.state {
        State::Created | State::Queued | State::Assigned | State::Running => {
            headers.insert(RETRY_AFTER, HeaderValue::from(POLL_AFTER_S));
        }
        State::Succeeded => {
            let link = format!("<{}/v1/jobs/{}/result>; rel=\"related\"", app.base, job.id);
            headers.insert(LINK, respond::value(link));
        }
        State::Failed | State::Canceled if app.config.problem.header_field => {
            let field = app.problem_field.write(&app.outcomes.failure(job));
            let field = field.filter(|field| field.len() <= PROBLEM_FIELD_BYTES_MAX);
            headers.extend(field.and_then(|field| Some((PROBLEM, HeaderValue::try_from(field).ok()?))));
        }
        State::Failed | State::Canceled => {}
    }
    response
}

/// The last word on the job, byte for byte.
fn stored(job: &Job, outcome: Outcome) -> Response {
    let digest = format!("sha-256=:{}:", STANDARD.encode(outcome.object.digest));
    let media_type = HeaderValue::from_static(MEDIA_TYPE_JSON);
    let mut response = respond::with_type(StatusCode::OK, media_type, outcome.object.bytes);
    response.headers_mut().insert(CONTENT_DIGEST, respond::value(digest));
    pace(job, &mut response);
    response
}

fn as_xml(job: &Job, outcome: &Outcome) -> Result<Response, ApiError> {
    let reading = Reader::new().json(&outcome.object.bytes);
    let reading = reading.map_err(|error| ApiError::internal(Kind::StorageError, error))?;
    let media_type = HeaderValue::from_static(MEDIA_TYPE_XML);
    let mut response = respond::with_type(StatusCode::OK, media_type, reading.problem.to_xml());
    pace(job, &mut response);
    Ok(response)
}

/// When submitting the same work again is worth it: the header says what the object says (C-34).
fn pace(job: &Job, response: &mut Response) {
    let (kind, _) = outcome::what_went_wrong(job);
    if outcome::retryable(job, kind) {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(outcome::retry_after_s(job)));
    }
}

/// `POST /v1/jobs/{id}/cancel`. On a job that has ended it changes nothing and tells the state (C-22).
pub(super) async fn cancel(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
    bytes: &Bytes,
) -> Result<Response, ApiError> {
    body::expect_object(bytes)?;
    let cancel = Cancel {
        owned: owned(caller, id)?,
        by: "user".to_owned(),
        reason: "the client asked for it".to_owned(),
    };
    let (job, _) = app.engine.act(Command::Cancel(cancel)).await?;
    exchange.is_about(About::job(&job, false));
    Ok(respond::json(StatusCode::OK, &CanceledView::new(&job)))
}

/// `POST /v1/jobs/{id}/retry`. While the retry is under way, another call changes nothing and tells the state (C-23).
pub(super) async fn retry(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
    bytes: &Bytes,
) -> Result<Response, ApiError> {
    body::expect_object(bytes)?;
    let execution = app.engine.execution_id();
    let retry = Retry { owned: owned(caller, id)?, execution, afresh: false };
    let (job, _) = app.engine.act(Command::Retry(retry)).await?;
    exchange.is_about(About::job(&job, false));
    Ok(respond::json(StatusCode::OK, &RetriedView::new(&job)))
}

fn owned(caller: &Caller, id: Option<JobId>) -> Result<Owned, ApiError> {
    let job = id.ok_or_else(ownership::not_found)?;
    Ok(Owned { job, client: Some(caller.client) })
}
