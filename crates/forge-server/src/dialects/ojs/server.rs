//! What the server says of itself, what it does not do, and the hooks of the published suite.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use forge_core::Command;
use forge_core::catalog::Kind;
use forge_core::command::{Cancel, Owned, QueueChange, QueueCommand};
use forge_core::queue::{QueueId, QueueSettings};
use forge_wire::ojs::server::{HealthStatus, ServerFacts, health, manifest};
use forge_wire::problem::Refused;
use serde_json::json;

use super::scope::{CLIENT, Scope};
use super::{refusals, reply};
use crate::app::{App, Filter};
use crate::config::Database;
use crate::edge::ApiError;
use crate::edge::routing::{Call, RateCount, Route, RouteAccess};
use crate::limits::{OJS_ENVELOPE_BYTES_MAX, PAGE_MAX};

macro_rules! unsupported {
    ($($verb:ident $path:literal),+ $(,)?) => {
        &[
            Route::get("/ojs/manifest", "manifest", |call| Box::pin(tell_manifest(call)))
                .access(RouteAccess::Anyone)
                .rate(RateCount::Uncounted),
            Route::get("/ojs/v1/health", "health", |call| Box::pin(tell_health(call)))
                .access(RouteAccess::Anyone)
                .rate(RateCount::Uncounted),
            Route::post("/ojs/v1/admin/reset", "reset", |call| Box::pin(reset(call))).access(CLIENT),
            $(Route::$verb($path, "unsupported", |call| Box::pin(not_supported(call))).access(CLIENT),)+
        ]
    };
}

/// What is served, and what OJS knows and this server does not do.
pub(super) const ROUTES: &[Route] = unsupported![
    get "/ojs/v1/cron",
    post "/ojs/v1/cron",
    get "/ojs/v1/cron/{name}",
    patch "/ojs/v1/cron/{name}",
    delete "/ojs/v1/cron/{name}",
    post "/ojs/v1/workflows",
    get "/ojs/v1/workflows/{id}",
    delete "/ojs/v1/workflows/{id}",
    get "/ojs/v1/schemas",
    post "/ojs/v1/schemas",
    get "/ojs/v1/schemas/{uri}",
    delete "/ojs/v1/schemas/{uri}",
    get "/ojs/v1/jobs/{job_id}/checkpoint",
    put "/ojs/v1/jobs/{job_id}/checkpoint",
    post "/ojs/v1/jobs/{job_id}/checkpoint",
    delete "/ojs/v1/jobs/{job_id}/checkpoint",
];

async fn not_supported(call: Call<'_>) -> Result<Response, ApiError> {
    let detail =
        "This server does not do cron, workflows, schemas and checkpoints; the manifest says what it does.";
    Err(Refused::new(Kind::UnsupportedFeature, detail).fact("feature", call.exchange.route).into())
}

const VERSION: &str = env!("CARGO_PKG_VERSION");

fn backend(app: &App) -> &'static str {
    match &app.config.server.database {
        Database::Memory => "memory",
        Database::Sqlite(_) => "sqlite",
        Database::Postgres(_) => "postgres",
    }
}

async fn tell_manifest(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    let facts = ServerFacts {
        version: VERSION,
        backend: backend(app),
        base: &app.base,
        envelope_bytes_max: OJS_ENVELOPE_BYTES_MAX,
    };
    Ok(reply::ok(&manifest(facts)))
}

async fn tell_health(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
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
    let status = if good { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    let mut response = reply::json(status, &view);
    if !good {
        let soon = axum::http::HeaderValue::from(Duration::from_secs(1).as_secs());
        response.headers_mut().insert(axum::http::header::RETRY_AFTER, soon);
    }
    Ok(response)
}

/// Wipes what the caller has: its jobs, and what it set for its queues. For the published suite alone, and only where the
/// operator asked for it, on loopback.
async fn reset(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    if !app.config.ojs.test_hooks || call.exchange.check_local(app).is_err() {
        return Err(ApiError::route());
    }
    let scope = Scope::of(&call)?;
    let client = scope.owner()?.client;
    let mut n_jobs = 0;
    loop {
        let filter = Filter { client: Some(client), limit: PAGE_MAX, ..Filter::default() };
        let jobs = app.engine.store().jobs(filter).await?;
        if jobs.is_empty() {
            break;
        }
        n_jobs += jobs.len();
        for job in jobs {
            let owned = Owned { job: job.id, client: Some(client) };
            let (by, reason) = ("user".to_owned(), "reset".to_owned());
            let cancel = Cancel { owned: owned.clone(), execution: None, by, reason };
            let gone = async {
                app.engine.run(Command::Cancel(cancel)).await?;
                app.engine.run(Command::Forget(owned)).await
            };
            gone.await.map_err(|error| refusals::of_engine(app, error))?;
        }
    }
    for settings in all_settings(app, client).await? {
        let change = QueueChange { paused: Some(false), waiting_max: Some(None), active_max: Some(None) };
        let command = QueueCommand { queue: QueueId::parse(&settings.queue), change };
        app.engine.run(Command::Queue(command)).await.map_err(|error| refusals::of_engine(app, error))?;
    }
    Ok(reply::ok(&json!({"reset": true, "jobs": n_jobs})))
}

async fn all_settings(app: &App, client: forge_core::id::ClientId) -> Result<Vec<QueueSettings>, ApiError> {
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
