//! `GET /api/v1/jobs/{jobId}/events`: what happened to an execution, or happens (C-92).

use axum::response::Response;
use forge_core::id::ExecutionId;

use crate::app::App;
use crate::edge::sse::Scope;
use crate::edge::{ApiError, Caller, Exchange, events, ownership};
use crate::traces::About;

/// The events of one execution: those of a retry belong to another one.
pub(super) async fn get(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<Response, ApiError> {
    let query = events::query(exchange)?;
    let found = ownership::execution(app, caller, id).await?;
    exchange.is_about(About::job(&found.job, false));
    let n = found.n_past().unwrap_or_else(|| found.job.execution_n());
    events::show(app, exchange, caller, &query, found.job, Scope::Execution(n)).await
}
