//! Manifest, health, unsupported features, and the hooks of the published suite.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Cancel, Owned, OwnedWebhook, QueueChange, QueueCommand, ScheduleCommand, WebhookCommand,
};
use forgerun_core::id::ClientId;
use forgerun_core::limits::WEBHOOKS_MAX;
use forgerun_core::queue::{QueueId, QueueSettings};
use forgerun_core::schedule::Schedule;
use forgerun_core::scope::KeyScope;
use forgerun_wire::ojs::server::{HealthStatus, ServerFacts, health, manifest};
use forgerun_wire::problem::RefusedRequest;
use serde_json::{Value, json};

use super::scope::{CLIENT, Scope};
use super::{objects, refusals, reply};
use crate::app::{App, Filter};
use crate::config::Database;
use crate::http::{
    ApiError,
    routing::{Call, RateCount, Reply, Route, RouteAccess},
};
use crate::limits::{OJS_ENVELOPE_BYTES_MAX, PAGE_MAX};
use crate::schemas;

/// The routes, including those of OJS features that this server does not support.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/manifest", "manifest", |call| Box::pin(tell_manifest(call)))
        .access(RouteAccess::Anyone)
        .rate(RateCount::Uncounted)
        .operation("ojsGetManifest", "Get what this server can do.")
        .replies(&[Reply::object(200, "The manifest of Open Job Spec.", &objects::FACTS)]),
    Route::get("/ojs/v1/health", "health", |call| Box::pin(tell_health(call)))
        .access(RouteAccess::Anyone)
        .rate(RateCount::Uncounted)
        .operation("ojsGetHealth", "Ask how the server is.")
        .replies(&[
            Reply::object(200, "Well.", &objects::FACTS),
            Reply::object(503, "Not well.", &objects::FACTS).headers(&["Retry-After"]),
        ]),
    Route::post("/ojs/v1/admin/reset", "reset", |call| Box::pin(reset(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsReset", "Wipe what the caller has; only with `ojs.test_hooks`.")
        .replies(&[Reply::object(200, "Wiped.", &objects::FACTS)])
        .refuses(&[Kind::RouteNotFound]),
    Route::get("/ojs/v1/ws", "unsupported", |call| Box::pin(unsupported(call)))
        .access(CLIENT)
        .operation("ojsConnect", "Open a WebSocket: not supported.")
        .replies(&[])
        .refuses(&[Kind::UnsupportedFeature]),
];

/// The answer about WebSockets.
async fn unsupported(_: Call<'_>) -> Result<Response, ApiError> {
    let detail = "This server does not do that; the manifest says what it does.";
    Err(RefusedRequest::new(Kind::UnsupportedFeature, detail).into())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn backend(app: &App) -> &'static str {
    match &app.config.server.database {
        Database::Memory => "memory",
        Database::Sqlite(_) => "sqlite",
        Database::Postgres(_) => "postgres",
    }
}

/// The manifest for a client that reaches the server at this address.
pub(in crate::dialects) fn current_manifest(app: &App, base: &str) -> Value {
    manifest(ServerFacts {
        version: VERSION,
        backend: backend(app),
        base,
        envelope_bytes_max: OJS_ENVELOPE_BYTES_MAX,
        has_grpc: app.config.grpc.addr.is_some(),
    })
}

/// The public address of the server, or else the one that the request was sent to.
fn base_of(call: &Call<'_>) -> String {
    let host = call.exchange.headers.get(axum::http::header::HOST).and_then(|host| host.to_str().ok());
    match host.filter(|host| call.app.base.is_empty() && !host.is_empty()) {
        Some(host) => {
            let scheme = if call.app.config.server.tls.cert.is_some() { "https" } else { "http" };
            format!("{scheme}://{host}")
        }
        None => call.app.base.clone(),
    }
}

async fn tell_manifest(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(reply::ok(&current_manifest(call.app, &base_of(&call))))
}

/// Whether the server is healthy, and the checks.
pub(in crate::dialects) async fn current_health(app: &App) -> (bool, Value) {
    let asked = app.clock.now();
    let good = app.readiness().await.is_ok();
    let now = app.clock.now();
    let view = health(HealthStatus {
        good,
        version: VERSION,
        backend: backend(app),
        uptime_s: now.since(app.started_at).as_secs(),
        latency_ms: now.since(asked).as_millis() as u64,
    });
    (good, view)
}

async fn tell_health(call: Call<'_>) -> Result<Response, ApiError> {
    let (good, view) = current_health(call.app).await;
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = reply::json(status, &view);
    if !good {
        let soon = axum::http::HeaderValue::from(Duration::from_secs(1).as_secs());
        response.headers_mut().insert(axum::http::header::RETRY_AFTER, soon);
    }
    Ok(response)
}

/// Deletes all jobs and registrations of the caller. For the published suite only, on loopback, if
/// the operator enabled it.
async fn reset(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    if !app.config.ojs.test_hooks || call.exchange.check_local(app).is_err() {
        return Err(ApiError::route());
    }
    let client = Scope::of(&call)?.owner()?.client;
    let n_jobs = forget_jobs(app, client).await?;
    for settings in all_settings(app, client).await? {
        let change = QueueChange { forget: true, ..QueueChange::default() };
        let command = QueueCommand { queue: QueueId::parse(&settings.queue), change };
        run(app, Command::Queue(command)).await?;
    }
    for schedule in all_schedules(app, client).await? {
        run(app, Command::Schedule(ScheduleCommand::Delete(schedule.id))).await?;
    }
    for schema in schemas::index(app, client).await?.entries {
        schemas::delete(app, client, schema.job_type, schema.version).await?;
    }
    for webhook in app.engine.store().webhooks(client, None, WEBHOOKS_MAX).await? {
        let owned = OwnedWebhook::new(webhook.id, client);
        run(app, Command::Webhook(WebhookCommand::Delete(owned))).await?;
    }
    Ok(reply::ok(&json!({"reset": true, "jobs": n_jobs})))
}

async fn run(app: &App, command: Command) -> Result<(), ApiError> {
    app.engine.run(command).await.map_err(|error| refusals::of_engine(app, error))?;
    Ok(())
}

async fn forget_jobs(app: &App, client: ClientId) -> Result<usize, ApiError> {
    let mut n_jobs = 0;
    loop {
        let filter = Filter { client: Some(client), limit: PAGE_MAX, ..Filter::default() };
        let jobs = app.engine.store().jobs(filter).await?;
        if jobs.is_empty() {
            return Ok(n_jobs);
        }
        n_jobs += jobs.len();
        for job in jobs {
            let owned = Owned { job: job.id, client: Some(client) };
            let (by, reason) = ("user".to_owned(), "reset".to_owned());
            let cancel = Cancel { owned: owned.clone(), execution: None, by, reason, compensate: false };
            run(app, Command::Cancel(cancel)).await?;
            run(app, Command::Forget(owned)).await?;
        }
    }
}

async fn all_schedules(app: &App, client: ClientId) -> Result<Vec<Schedule>, ApiError> {
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page: Vec<Schedule> = app.engine.store().records(None, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.id.key();
        found.extend(page.into_iter().filter(|schedule| schedule.id.owner.client == client));
    }
}

async fn all_settings(app: &App, client: ClientId) -> Result<Vec<QueueSettings>, ApiError> {
    let of_client = |settings: &QueueSettings| {
        QueueId::parse(&settings.queue).owner.is_some_and(|owner| owner.client == client)
    };
    let (mut found, mut after) = (Vec::new(), String::new());
    loop {
        let page: Vec<QueueSettings> = app.engine.store().records(None, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(found) };
        after = last.queue.as_str().to_owned();
        found.extend(page.into_iter().filter(of_client));
    }
}
