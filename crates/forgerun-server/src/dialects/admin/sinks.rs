//! Sinks: position, last error, and sending node.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_wire::admin::{AdminPage, AdminSink};

use crate::auth::OperatorRole;
use crate::http::{
    ApiError, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT},
    },
};

/// The routes of sinks.
pub(super) const ROUTES: &[Route] = &[Route::get("/admin/v1/sinks", "sinks", |call| Box::pin(list(call)))
    .role(OperatorRole::Viewer)
    .operation("adminListSinks", "List the brokers that this node sends events to, and how far each is.")
    .query(&[LIMIT, CURSOR])
    .replies(&[Reply::json::<AdminPage<AdminSink>>(200, "A page, by name.")])];

/// `GET /admin/v1/sinks`: the configured sinks of this node, by name; the cursor is the last name.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let after = query.get("cursor").unwrap_or_default();
    let mut items: Vec<AdminSink> = call.app.sinks.look(call.app).await?;
    items.retain(|sink| sink.name.as_str() > after);
    items.sort_by(|one, other| one.name.cmp(&other.name));
    let more = items.len() > limit;
    items.truncate(limit);
    let next_cursor = items.last().filter(|_| more).map(|sink| sink.name.clone());
    Ok(respond::json(StatusCode::OK, &AdminPage { items, next_cursor }))
}
