//! `GET /api/v1/jobs/{jobId}/items`: how the items of a batch ended.

use axum::response::Response;
use forge_core::id::ExecutionId;

use crate::app::App;
use crate::edge::query::Query;
use crate::edge::{ApiError, Caller, Exchange, items, ownership};
use crate::traces::About;

/// A page of the items of an execution.
pub(super) async fn get(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<Response, ApiError> {
    let query = Query::of(&exchange.uri, &items::PARAMETERS)?;
    let found = ownership::execution(app, caller, id).await?;
    exchange.is_about(About::job(&found.job, false));
    items::page(app, &query, &found.job, found.id).await
}
