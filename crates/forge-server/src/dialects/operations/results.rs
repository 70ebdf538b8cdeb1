//! What an execution left. Before the end, and where it did not end well, there is nothing (C-69).

use axum::http::header::{CONTENT_DISPOSITION, X_CONTENT_TYPE_OPTIONS};
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forge_core::catalog::Kind;
use forge_core::id::ExecutionId;
use forge_core::state::State;
use forge_wire::problem::Refused;
use forge_wire::words;

use crate::app::App;
use crate::edge::ownership::Execution;
use crate::edge::{ApiError, Caller, Exchange, accept, ownership, respond};
use crate::traces::About;

/// `GET /api/v1/jobs/{jobId}/result`, `…/reports/{jobId}`, `…/results/{jobId}`.
pub(super) async fn get(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<Response, ApiError> {
    let found = ready(app, exchange, caller, id).await?;
    let Some(output) = app.engine.store().result(found.id).await? else {
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

/// `GET /api/v1/reports/{jobId}/download`: the same as a file.
pub(super) async fn download(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<Response, ApiError> {
    let mut response = get(app, exchange, caller, id).await?;
    response.headers_mut().insert(CONTENT_DISPOSITION, HeaderValue::from_static("attachment"));
    Ok(response)
}

/// The execution, if it ended well.
async fn ready(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<Execution, ApiError> {
    let found = ownership::execution(app, caller, id).await?;
    exchange.is_about(About::job(&found.job, false));
    if found.is_under_way() && found.job.state == State::Succeeded {
        return Ok(found);
    }
    let status = match found.is_under_way() {
        true => words::operation_status(&words::job_status(&found.job)),
        false => "Failed",
    };
    let detail = format!("The job is {status}; only a job that is Completed has a result.");
    Err(Refused::new(Kind::ResultNotReady, detail).fact("status", status).into())
}
