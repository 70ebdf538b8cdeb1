//! The server as a whole, for tools of operators: maintenance, configuration, counters, and what
//! this server has none of (pools of workers, middleware, overrides of limits).

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::rows::{Activity, Counts, Minute};
use forgerun_core::scope::KeyScope;
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::problem::RefusedRequest;
use serde_json::{Value, json};

use super::overall::{activity_since, n_workers};
use super::queues::numbers;
use super::scope::{CLIENT, CLIENT_OR_OPERATOR, Scope};
use super::{objects, reply, server};
use crate::http::{
    ApiError, respond,
    routing::{Answers, Call, Reply, Route, operation::Parameter},
};

const MAINTENANCE: &[Reply] = &[Reply::object(200, "There is no maintenance.", &objects::FACTS)];
const CONFIG: &[Reply] = &[Reply::object(200, "What concerns clients.", &objects::FACTS)];

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/admin/system/maintenance", "maintenance", |call| Box::pin(maintenance(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsGetMaintenance", "Ask whether there is maintenance.")
        .replies(MAINTENANCE),
    Route::post("/ojs/v1/admin/system/maintenance", "maintenance", |call| Box::pin(set_maintenance(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Manage)
        .operation("ojsSetMaintenance", "End maintenance; it cannot be begun: pause queues instead.")
        .body(&objects::MAINTENANCE)
        .replies(MAINTENANCE)
        .refuses(&[Kind::UnsupportedFeature]),
    Route::get("/ojs/v1/admin/maintenance", "maintenance", |call| Box::pin(maintenance(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsGetMaintenanceOfCli", "Ask whether there is maintenance.")
        .replies(MAINTENANCE),
    Route::post("/ojs/v1/admin/maintenance", "maintenance", |call| Box::pin(set_maintenance(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Manage)
        .operation("ojsSetMaintenanceOfCli", "End maintenance; it cannot be begun: pause queues instead.")
        .body(&objects::MAINTENANCE)
        .replies(MAINTENANCE)
        .refuses(&[Kind::UnsupportedFeature]),
    Route::get("/ojs/v1/admin/system/config", "config", |call| Box::pin(config(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsGetConfig", "Get the limits of this server.")
        .replies(CONFIG),
    Route::get("/ojs/v1/admin/config", "config", |call| Box::pin(config(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsGetConfigOfCli", "Get the limits of this server.")
        .replies(CONFIG),
    Route::get("/ojs/v1/metrics", "metrics", |call| Box::pin(metrics(call)))
        .access(CLIENT)
        .answers(Answers::Any)
        .operation("ojsGetMetrics", "Get the numbers of the caller: JSON, or Prometheus text.")
        .query(&[FORMAT])
        .replies(&[Reply::object(
            200,
            "The numbers. With `format=prometheus` they are plain text.",
            &objects::FACTS,
        )]),
    Route::get("/ojs/v1/middleware", "middleware", |call| Box::pin(middleware(call)))
        .access(CLIENT)
        .operation("ojsListMiddleware", "List the middleware of this server, which has none.")
        .replies(&[Reply::object(200, "Nothing.", &objects::FACTS)]),
    Route::get("/ojs/v1/admin/pools", "pools", |call| Box::pin(pools(call)))
        .access(CLIENT)
        .operation("ojsListPools", "List pools of workers, of which this server has none.")
        .replies(&[Reply::object(200, "Nothing.", &objects::FACTS)]),
    Route::put("/ojs/v1/admin/pools/{name}", "unsupported", |call| Box::pin(no_pools(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsPutPool", "Set up a pool of workers: not supported.")
        .replies(&[])
        .refuses(&[Kind::UnsupportedFeature]),
];

const FORMAT: Parameter = Parameter::new("format", "`prometheus` for text.");

fn unsupported(detail: &str) -> ApiError {
    RefusedRequest::new(Kind::UnsupportedFeature, detail).into()
}

/// There is no maintenance as such: an operator pauses queues, and workers are told to be quiet.
async fn maintenance(_: Call<'_>) -> Result<Response, ApiError> {
    Ok(reply::ok(&json!({"enabled": false, "maintenance": false})))
}

async fn set_maintenance(call: Call<'_>) -> Result<Response, ApiError> {
    let members = Members::of_body(&call.body)?;
    let mut violations = ViolationList::default();
    let kind = Kind::MalformedRequest;
    let enabled: Option<bool> = violations.typed(kind, "enabled", members.get("enabled"), "true or false");
    if members.get("enabled").is_none() {
        violations.add(kind, "enabled", "is required", "required");
    }
    if violations.settle(enabled)? {
        let detail =
            "There is no maintenance mode. Pause the queues: their jobs wait, and new ones are accepted.";
        return Err(unsupported(detail));
    }
    maintenance(call).await
}

async fn no_pools(_: Call<'_>) -> Result<Response, ApiError> {
    let detail =
        "There are no pools: a worker names its queues in order, and shares of a queue are set for keys.";
    Err(unsupported(detail))
}

async fn pools(_: Call<'_>) -> Result<Response, ApiError> {
    Ok(reply::ok(&json!({"pools": [], "items": []})))
}

async fn middleware(_: Call<'_>) -> Result<Response, ApiError> {
    Ok(reply::ok(&json!({"enqueue": [], "execution": []})))
}

async fn config(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, manifest) = (call.app, server::current_manifest(call.app, &call.app.base));
    let limits = &app.config.limits;
    Ok(reply::ok(&json!({
        "version": manifest["implementation"]["version"],
        "backend": manifest["backend"],
        "conformance_level": manifest["conformance_level"],
        "payload_limits": manifest["payload_limits"],
        "limits": {"max_body_bytes": limits.max_body_bytes, "rate_per_minute": limits.rate_per_minute},
        "retention": {"jobs_days": app.config.retention.jobs.as_secs() / 86_400},
        "default_queue": app.default_queue.as_str(),
    })))
}

/// The figures of the last hour, and where jobs stand now.
async fn metrics(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, owner) = (call.app, Scope::of(&call)?.owner()?);
    let query = call.query()?;
    let queues = app.engine.store().queues_of(&owner).await?;
    let mut counts = Counts::default();
    queues.iter().for_each(|queue| counts.merge(&queue.counts));
    let Minute(now) = Minute::of(app.clock.now());
    let activity: Activity = activity_since(app, &queues, now - 60).await?;
    let (jobs, hour) = (numbers(&counts, activity), 3600.0);
    let facts: [(&str, Value); 10] = [
        ("uptime_seconds", app.clock.now().since(app.started_at).as_secs().into()),
        ("jobs_enqueued_total", activity.submitted.max(0).into()),
        ("jobs_completed_total", jobs.completed_last_hour.into()),
        ("jobs_failed_total", jobs.failed_last_hour.into()),
        ("jobs_active", jobs.active.into()),
        ("jobs_available", jobs.available.into()),
        ("queues_active", queues.len().into()),
        ("workers_active", n_workers(app, &owner).await?.into()),
        ("avg_latency_ms", jobs.avg_duration_ms.into()),
        ("throughput_per_second", (activity.succeeded.max(0) as f64 / hour).into()),
    ];
    if query.get("format") == Some("prometheus") {
        let lines = facts.map(|(name, value)| format!("# TYPE ojs_{name} gauge\nojs_{name} {value}\n"));
        let text = axum::http::HeaderValue::from_static("text/plain");
        return Ok(respond::with_type(axum::http::StatusCode::OK, text, lines.concat().into_bytes()));
    }
    let members: serde_json::Map<String, Value> =
        facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    Ok(reply::ok(&members))
}
