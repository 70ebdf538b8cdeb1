//! Paths outside of the APIs: health, readiness, metrics, API documents, documentation.

mod docs;
mod start;

use std::sync::{Arc, OnceLock};

use axum::Router;
use axum::extract::State;
use axum::http::header::{ACCEPT, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, VARY};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodRouter, get};
use forgerun_core::catalog::Kind;
use forgerun_engine::WorkerHandle;
use forgerun_problem::schema;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::app::{App, NotReady};
use crate::dialects::admin::queues::gauges;
use crate::documents::{Document, asyncapi, openapi};
use crate::http::{
    accept, respond,
    routing::operation::{IF_NONE_MATCH, Operation, Reply},
};
use crate::limits::{DEAD_LETTERS_COUNTED_MAX, SET_ASIDE_COUNTED_MAX, TROUBLE_AFTER_S, WEBHOOK_KEYS_FRESH};
use crate::metrics::Format;
use crate::problems;

/// Path of the JSON Schema of problems.
const SCHEMA: &str = "/schemas/async-job-problem-details.json";

/// Path of the public keys of deliveries.
const WEBHOOK_KEYS: &str = "/.well-known/forgerun/webhook-keys";

pub fn router(app: &Arc<App>) -> Router {
    let pages = table().into_iter().fold(Router::new(), |pages, (path, page, _)| pages.route(path, page));
    pages.with_state(app.clone()).merge(problems::router(&app.base)).merge(docs::router(app))
}

/// The paths of all pages; those of problem types have a parameter.
pub fn paths() -> Vec<&'static str> {
    operations().into_iter().map(|(path, _)| path).collect()
}

/// The same with what the OpenAPI document says of them.
pub fn operations() -> Vec<(&'static str, Operation)> {
    table().into_iter().map(|(path, _, operation)| (path, operation)).chain(problems::ROUTES).collect()
}

/// The caller has the page or document already.
pub const SAME: Reply = Reply::empty(304, "The caller has it already, as `If-None-Match` says.", &["ETag"]);

type PageRoute = (&'static str, MethodRouter<Arc<App>>, Operation);

fn table() -> [PageRoute; 8] {
    [
        ("/", get(first_page), FIRST_PAGE),
        ("/health", get(health), HEALTH),
        ("/ready", get(ready), READY),
        ("/metrics", get(metrics), METRICS),
        (WEBHOOK_KEYS, get(webhook_keys), KEYS),
        ("/openapi.json", document(openapi::MEDIA_TYPE, openapi_text), OPENAPI),
        ("/asyncapi.yaml", document(asyncapi::MEDIA_TYPE, |app| asyncapi::text(&app.base)), ASYNCAPI),
        (SCHEMA, document(schema::MEDIA_TYPE_SCHEMA, |app| problem_schema(app).to_string()), PROBLEM_SCHEMA),
    ]
}

const FIRST_PAGE: Operation = Operation {
    headers: &[IF_NONE_MATCH],
    replies: &[
        Reply::types(200, "A page for browsers, links for others.", &["application/json", "text/html"])
            .headers(&["Vary", "ETag"]),
        SAME,
    ],
    ..Operation::new("getFirstPage", "Find out where to go from here.")
};

const HEALTH: Operation = Operation {
    replies: &[Reply::json::<HealthBody>(200, "Alive.")],
    ..Operation::new("getHealth", "Ask whether the process answers.")
};

const READY: Operation = Operation {
    replies: &[
        Reply::json::<ReadyBody>(200, "Ready."),
        Reply::json::<NotReadyView<'static>>(503, "Not ready.").headers(&["Retry-After"]),
    ],
    ..Operation::new("getReady", "Ask whether the server can do its work now.")
};

const METRICS: Operation = Operation {
    replies: &[Reply::types(
        200,
        "Prometheus text 0.0.4; OpenMetrics if `Accept` prefers it.",
        &["text/plain", "application/openmetrics-text"],
    )],
    ..Operation::new("getMetrics", "Get what the server counts, for Prometheus.")
};

const KEYS: Operation = Operation {
    replies: &[
        Reply::types(200, "A JWK set.", &["application/jwk-set+json"]),
        Reply::json::<NotReadyView<'static>>(503, "The store does not show them now.")
            .headers(&["Retry-After"]),
    ],
    ..Operation::new(
        "getWebhookKeys",
        "Get the public keys that webhook deliveries are signed with (RFC 9421).",
    )
};

const OPENAPI: Operation = Operation {
    headers: &[IF_NONE_MATCH],
    replies: &[Reply::types(200, "The document.", &[openapi::MEDIA_TYPE]).headers(&["ETag"]), SAME],
    ..Operation::new("getOpenApi", "Get this document.")
};

const ASYNCAPI: Operation = Operation {
    headers: &[IF_NONE_MATCH],
    replies: &[Reply::types(200, "The document.", &[asyncapi::MEDIA_TYPE]).headers(&["ETag"]), SAME],
    ..Operation::new("getAsyncApi", "Get the document of events: streams and webhooks.")
};

const PROBLEM_SCHEMA: Operation = Operation {
    headers: &[IF_NONE_MATCH],
    replies: &[Reply::types(200, "The document.", &[schema::MEDIA_TYPE_SCHEMA]).headers(&["ETag"]), SAME],
    ..Operation::new("getProblemSchema", "Get the JSON Schema of problems with async-job members.")
};

/// The process answers.
#[derive(Serialize, JsonSchema)]
struct HealthBody {
    /// Always `ok`.
    status: &'static str,
}

/// The server can do its work.
#[derive(Serialize, JsonSchema)]
struct ReadyBody {
    /// Always `ready`.
    status: &'static str,
}

/// The server cannot do its work now.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "NotReady")]
struct NotReadyView<'a> {
    /// Always `not ready`.
    status: &'static str,
    /// What it waits for: `stopping`, `store`, `workers` or `damaged`.
    reason: &'a str,
    /// ForgeRun's code.
    code: &'static str,
}

/// A document that stays the same as long as the server runs. Written when it is first asked for:
/// to write all of them takes longer than everything else that a server does before it is ready.
fn document(media_type: &'static str, write: fn(&App) -> String) -> MethodRouter<Arc<App>> {
    let document = Arc::new(OnceLock::new());
    get(async move |State(app): State<Arc<App>>, headers: HeaderMap| {
        document.get_or_init(|| Document::new(media_type, write(&app))).answer(&headers)
    })
}

fn openapi_text(app: &App) -> String {
    openapi::document(&app.config, &app.base).to_string()
}

fn problem_schema(app: &App) -> Value {
    schema::document_at(&format!("{}{SCHEMA}", app.base))
}

/// The root page: HTML for browsers, links for programs.
async fn first_page(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    let page = match accept::prefers(&headers, "text/html", "application/json") {
        true => Document::new("text/html; charset=utf-8", start::html()),
        false => Document::new("application/json", start::json(&app.base)),
    };
    let mut response = page.answer(&headers);
    response.headers_mut().insert(VARY, HeaderValue::from_static("Accept"));
    response
}

/// Liveness: the process answers. Says nothing about the store; that is `/ready`.
async fn health() -> Response {
    ([(CONTENT_TYPE, "application/json")], "{\"status\":\"ok\"}\n").into_response()
}

/// Readiness: the store answers, the configured workers run, and the server is not stopping.
async fn ready(State(app): State<Arc<App>>) -> Response {
    let why_not = match app.readiness().await {
        Ok(()) => return ([(CONTENT_TYPE, "application/json")], "{\"status\":\"ready\"}\n").into_response(),
        Err(why_not) => why_not,
    };
    let (kind, reason) = match why_not {
        NotReady::Stopping => (Kind::StorageUnavailable, "stopping"),
        NotReady::Workers => (Kind::WorkerUnavailable, "workers"),
        NotReady::Store(error) => {
            tracing::error!(%error, "readiness check: store failed");
            (Kind::StorageUnavailable, "store")
        }
        NotReady::StoreSilent => (Kind::StorageTimeout, "store"),
        NotReady::Damaged(damage) => {
            tracing::error!(damage, "readiness check: store damaged");
            (Kind::StorageError, "damaged")
        }
    };
    not_ready(kind, reason)
}

fn not_ready(kind: Kind, reason: &str) -> Response {
    let body = NotReadyView { status: "not ready", reason, code: kind.entry().rfa };
    let mut response = respond::json(StatusCode::SERVICE_UNAVAILABLE, &body);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(TROUBLE_AFTER_S));
    response
}

/// The public keys of deliveries; empty if they are not signed.
async fn webhook_keys(State(app): State<Arc<App>>) -> Response {
    let keys = match &app.webhook_keys {
        None => json!({"keys": []}),
        Some(keyring) => match keyring.current().await {
            Ok(keys) => keys.document(),
            Err(error) => {
                tracing::error!(%error, "webhook keys not available");
                return not_ready(Kind::StorageUnavailable, "store");
            }
        },
    };
    let fresh = format!("public, max-age={}", WEBHOOK_KEYS_FRESH.as_secs());
    ([(CONTENT_TYPE, "application/jwk-set+json".to_owned()), (CACHE_CONTROL, fresh)], keys.to_string())
        .into_response()
}

/// For Prometheus. Counts from the store are read now.
async fn metrics(State(app): State<Arc<App>>, headers: HeaderMap) -> Response {
    if let Ok(queues) = gauges::read(&app, app.config.metrics.queues_max).await {
        app.metrics.queues.set(&queues);
    }
    if let Ok(n_dead) = app.engine.store().dead_letters(DEAD_LETTERS_COUNTED_MAX).await {
        app.metrics.dead_letter_depth.set(n_dead as i64);
    }
    if let Ok(rows) = app.engine.store().set_aside(SET_ASIDE_COUNTED_MAX).await {
        app.metrics.rows_set_aside.set(rows.len() as i64);
    }
    if let Ok(due) = app.engine.store().next_delivery().await {
        let late = due.map_or(0, |due| app.clock.now().since(due).as_secs());
        app.metrics.webhooks.lag.set(late as i64);
    }
    if let Some(gauge) = app.worker().map(WorkerHandle::gauge) {
        app.metrics.worker_busy.set(gauge.busy as i64);
        app.metrics.worker_places.set((gauge.busy + gauge.free) as i64);
    }
    app.sinks.handles().iter().for_each(|handle| app.metrics.sinks.update(handle));
    let format = match accept::prefers(&headers, Format::OPEN_METRICS, Format::PROMETHEUS) {
        true => Format::OpenMetrics,
        false => Format::Prometheus,
    };
    // A client that names the bare type gets it; scrapers name a version, or nothing.
    let is_bare = headers.get(ACCEPT).is_some_and(|accept| accept == Format::PROMETHEUS);
    let media_type = if is_bare { Format::PROMETHEUS } else { format.media_type() };
    ([(CONTENT_TYPE, media_type)], app.metrics.text(format)).into_response()
}
