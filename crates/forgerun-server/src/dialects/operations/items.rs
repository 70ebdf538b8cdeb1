//! `GET /api/v1/jobs/{jobId}/items`: the items of a batch.

use axum::response::Response;

use crate::edge::query::QueryString;
use crate::edge::routing::{Call, Route};
use crate::edge::{ApiError, items, ownership};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/api/v1/jobs/{jobId}/items", "items", |call| Box::pin(get(call)))];

/// A page of the items of an execution.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.execution());
    let query = QueryString::of(&exchange.uri, &items::PARAMETERS)?;
    let found = ownership::execution(app, caller, id).await?;
    exchange.set_subject(RequestSubject::job(&found.job, false));
    items::page(app, &query, &found.job, found.id).await
}
