//! What an execution left. Before the end, and where it did not end well, there is nothing (C-69).

use axum::response::Response;
use forge_core::catalog::Kind;
use forge_core::id::ExecutionId;
use forge_core::state::State;
use forge_wire::problem::Refused;
use forge_wire::words;

use crate::app::App;
use crate::edge::ownership::Execution;
use crate::edge::results::{self, Form};
use crate::edge::{ApiError, Caller, Exchange, ownership};
use crate::traces::About;

/// `GET /api/v1/jobs/{jobId}/result`, `…/reports/{jobId}`, `…/results/{jobId}`.
pub(super) async fn get(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<Response, ApiError> {
    let found = ready(app, exchange, caller, id).await?;
    results::answer(app, exchange, &found.job, Form::AsAsked).await
}

/// `GET /api/v1/reports/{jobId}/download`: the same as a file.
pub(super) async fn download(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<Response, ApiError> {
    let found = ready(app, exchange, caller, id).await?;
    results::answer(app, exchange, &found.job, Form::File).await
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
