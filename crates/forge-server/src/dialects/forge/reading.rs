//! What a job left: its report, its result, its items.

use axum::http::header::X_CONTENT_TYPE_OPTIONS;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forge_core::catalog::Kind;
use forge_core::id::{ExecutionId, JobId};
use forge_core::state::State;
use forge_wire::forge::ReportView;
use forge_wire::problem::Refused;
use forge_wire::words::forge_state;

use crate::app::App;
use crate::edge::query::Query;
use crate::edge::{ApiError, Caller, Exchange, accept, items, ownership, respond};
use crate::traces::About;

/// `GET /v1/jobs/{id}/report`. Before the end there is none (C-68).
pub(super) async fn report(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
) -> Result<Response, ApiError> {
    let job = ownership::job(app, caller, id).await?;
    exchange.is_about(About::job(&job, false));
    match ReportView::new(&job) {
        Some(report) => Ok(respond::json(StatusCode::OK, &report)),
        None => {
            let detail = "The job is not finished; its report is written when it is.";
            Err(Refused::new(Kind::ReportNotFound, detail).fact("state", forge_state(job.state)).into())
        }
    }
}

/// `GET /v1/jobs/{id}/result`. Before the end, and for a job that did not end well, there is none (C-69).
pub(super) async fn result(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
) -> Result<Response, ApiError> {
    let job = ownership::job(app, caller, id).await?;
    if job.state != State::Succeeded {
        let state = forge_state(job.state);
        let detail = format!("The job is {state}; only a job that SUCCEEDED has a result.");
        return Err(Refused::new(Kind::ResultNotReady, detail).fact("state", state).into());
    }
    let Some(output) = app.engine.store().result(job.execution).await? else {
        return Err(ApiError::new(Kind::ResultNotFound, "The job left no result, or it was removed."));
    };
    accept::require_type(&exchange.headers, &output.media_type)?;
    // What a worker calls its output is not ours to trust.
    let media_type = HeaderValue::try_from(output.media_type)
        .unwrap_or_else(|_| HeaderValue::from_static("application/octet-stream"));
    let mut response = respond::with_type(StatusCode::OK, media_type, output.bytes);
    response.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    Ok(response)
}

/// `GET /v1/jobs/{id}/items`: how the items of a batch ended, in the execution under way or the one that is named.
pub(super) async fn items(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<JobId>,
) -> Result<Response, ApiError> {
    let [limit, cursor, status] = items::PARAMETERS;
    let query = Query::of(&exchange.uri, &[limit, cursor, status, "execution"])?;
    let job = ownership::job(app, caller, id).await?;
    exchange.is_about(About::job(&job, false));
    let execution = match query.get("execution").map(str::parse::<ExecutionId>) {
        None => job.execution,
        Some(Ok(named)) if named == job.execution || job.executions_past.contains(&named) => named,
        Some(_) => return Err(query.invalid("execution", "names no execution of this job")),
    };
    items::page(app, &query, &job, execution).await
}
