//! Sinks: how far each is, what it last said, and who sends.

use axum::http::StatusCode;
use axum::response::Response;
use forge_wire::admin::{AdminPage, AdminSink};

use crate::edge::query::QueryString;
use crate::edge::routing::{Call, Route, RouteAccess};
use crate::edge::{ApiError, respond};

/// The routes of sinks.
pub(super) const ROUTES: &[Route] =
    &[Route::get("/admin/v1/sinks", "sinks", |call| Box::pin(list(call))).access(RouteAccess::Operator)];

/// `GET /admin/v1/sinks`: those that this node is configured for. There are few, so there is one page.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    QueryString::of(&call.exchange.uri, &[])?;
    let items = call.app.sinks.look(call.app).await?;
    Ok(respond::json(StatusCode::OK, &AdminPage::<AdminSink> { items, next_cursor: None }))
}
