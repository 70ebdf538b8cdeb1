//! `GET /api/v1/jobs/{jobId}/items`: the items of a batch.

use axum::response::Response;

use crate::auth::ownership;
use crate::http::{
    ApiError, items,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT},
    },
};
use crate::traces::RequestSubject;
use forgerun_core::catalog::Kind;
use forgerun_wire::item::ItemsView;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/api/v1/jobs/{jobId}/items", "items", |call| Box::pin(get(call)))
        .operation("listItemsOfExecution", "List the items of a batch, in order.")
        .query(&[LIMIT, CURSOR, items::STATUS])
        .replies(&[Reply::json::<ItemsView>(200, "A page.")])
        .refuses(&[Kind::ResultNotFound])];

/// A page of the items of an execution.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.execution());
    let query = call.query()?;
    let found = ownership::execution(app, caller, id).await?;
    exchange.set_subject(RequestSubject::job(&found.job, false));
    items::page(app, &query, &found.job, found.id).await
}
