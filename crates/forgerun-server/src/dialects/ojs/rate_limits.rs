//! Limits that jobs share by a key. Their values are those of the jobs; a server keeps how much of
//! each is used.

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Name;
use forgerun_core::rows::LimitRow;
use forgerun_core::scope::KeyScope;
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use serde_json::{Value, json};

use super::queues::offset;
use super::scope::{CLIENT, PAGE, Scope};
use super::{objects, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::limits::LIST_ROWS_MAX;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/rate-limits", "limits", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListRateLimits", "List the limits of the caller that are in use.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::ITEMS)]),
    Route::get("/ojs/v1/rate-limits/{key}", "limit", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetRateLimit", "Get how much of a limit is used.")
        .replies(&[Reply::object(200, "How much is used.", &objects::FACTS)]),
    Route::put("/ojs/v1/rate-limits/{key}", "unsupported", |call| Box::pin(put(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsPutRateLimit", "Override a limit: not supported.")
        .replies(&[])
        .refuses(&[Kind::UnsupportedFeature]),
    Route::put("/ojs/v1/rate-limits/{key}/override", "unsupported", |call| Box::pin(put(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsPutRateLimitOverride", "Override a limit: not supported.")
        .replies(&[])
        .refuses(&[Kind::UnsupportedFeature]),
    Route::delete("/ojs/v1/rate-limits/{key}/override", "limit", |call| Box::pin(get(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsDeleteRateLimitOverride", "Leave a limit to its jobs, as it is.")
        .replies(&[Reply::object(200, "How much is used.", &objects::FACTS)]),
];

fn view(app: &App, key: &str, row: &LimitRow) -> Value {
    let turn_at = (row.turn_at > app.clock.now()).then(|| time::millis(row.turn_at));
    json!({
        "key": key,
        "active": row.active,
        "concurrency": {"active": row.active},
        "next_turn_at": turn_at,
    })
}

/// A limit is unknown until a job was handed out under it.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, owner) = (call.app, Scope::of(&call)?.owner()?);
    let key = call.text("key").into_owned();
    let row = app.engine.store().limit(owner.scoped(&key)).await?.unwrap_or_default();
    Ok(reply::ok(&view(app, &key, &row)))
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, owner) = (call.app, Scope::of(&call)?.owner()?);
    let query = call.query()?;
    let limit = query.limit()?;
    let skipped = offset(&query, limit)?;
    let prefix = owner.prefix();
    let mut found: Vec<(Name, LimitRow)> = app.engine.store().limits_of(&owner, LIST_ROWS_MAX + 1).await?;
    let is_all = found.len() <= LIST_ROWS_MAX;
    found.truncate(LIST_ROWS_MAX);
    let mut page = Pagination::new(found.len() as u64, limit, skipped);
    page.total_is_minimum = !is_all;
    let shown = found.iter().skip(skipped).take(limit);
    let items: Vec<Value> = shown
        .map(|(key, row)| view(app, key.as_str().strip_prefix(&prefix).unwrap_or_default(), row))
        .collect();
    Ok(reply::ok(&json!({"rate_limits": items, "items": items, "pagination": page})))
}

async fn put(_: Call<'_>) -> Result<Response, ApiError> {
    let detail = "A limit has the value of its jobs; submit them with another one.";
    Err(RefusedRequest::new(Kind::UnsupportedFeature, detail).into())
}
