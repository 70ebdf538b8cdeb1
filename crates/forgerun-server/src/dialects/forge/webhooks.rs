//! Webhooks of a client.

use forgerun_wire::request_body;
use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::ETAG;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{OwnedWebhook, WebhookChange, WebhookCommand};
use forgerun_core::delivery::Delivery;
use forgerun_core::id::WebhookId;
use forgerun_core::scope::KeyScope;
use forgerun_core::time::Time;
use forgerun_core::webhook::{Health, Secrets, Webhook};
use forgerun_core::{Answer, Command, Refusal};
use forgerun_wire::body::{refused as refused_body, violation};
use forgerun_wire::forge::{
    DeletedView, DeliveryView, RedeliveredView, WEBHOOK, WEBHOOK_CHANGE, WebhookView, WebhooksView,
    read_webhook, read_webhook_change,
};
use forgerun_wire::time;

use crate::app::App;
use crate::http::{
    ApiError, body, precondition,
    query::QueryString,
    respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT, Parameter},
    },
};
use crate::limits::{WEBHOOK_SECRET_OVERLAP, WEBHOOK_SECRET_OVERLAP_MAX};
use crate::webhooks::standard::WebhookSecret;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/webhooks", "list_webhooks", |call| Box::pin(list(call)))
        .operation("listWebhooks", "List the caller's webhooks, oldest first.")
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<WebhooksView>(200, "A page.")]),
    Route::post("/v1/webhooks", "register_webhook", |call| Box::pin(register(call)))
        .scope(KeyScope::Manage)
        .operation("registerWebhook", "Register a webhook.")
        .body(&WEBHOOK)
        .replies(&[
            Reply::json::<WebhookView>(201, "Registered; the secret is shown this once.").headers(&["ETag"])
        ])
        .refuses(&[Kind::InvalidCallbackUrl, Kind::Duplicate]),
    Route::get("/v1/webhooks/{webhook_id}", "get_webhook", |call| Box::pin(get(call)))
        .operation("getWebhook", "Get a webhook, and how its deliveries go.")
        .replies(&[Reply::json::<WebhookView>(200, "The webhook and its health.").headers(&["ETag"])]),
    Route::patch("/v1/webhooks/{webhook_id}", "change_webhook", |call| Box::pin(update(call)))
        .tagged()
        .scope(KeyScope::Manage)
        .operation("changeWebhook", "Change a webhook.")
        .headers(&[IF_MATCH])
        .optional_body(&WEBHOOK_CHANGE)
        .replies(&[Reply::json::<WebhookView>(200, "The webhook as it is now.").headers(&["ETag"])])
        .refuses(&[Kind::InvalidCallbackUrl, Kind::Duplicate]),
    Route::delete("/v1/webhooks/{webhook_id}", "change_webhook", |call| Box::pin(delete(call)))
        .tagged()
        .scope(KeyScope::Manage)
        .operation("deleteWebhook", "Delete a webhook.")
        .headers(&[IF_MATCH])
        .replies(&[Reply::json::<DeletedView>(
            200,
            "The webhook is deleted, and its deliveries are given up.",
        )]),
    Route::post("/v1/webhooks/{webhook_id}/rotate-secret", "rotate_secret", |call| Box::pin(rotate(call)))
        .tagged()
        .scope(KeyScope::Manage)
        .operation("rotateSecret", "Give a webhook a new secret; both sign for a while.")
        .headers(&[IF_MATCH])
        .optional_body(&ROTATE)
        .replies(&[Reply::json::<WebhookView>(200, "The webhook with its new secret, shown this once.")
            .headers(&["ETag"])]),
    Route::post("/v1/webhooks/{webhook_id}/test", "test_webhook", |call| Box::pin(test(call)))
        .tagged()
        .scope(KeyScope::Manage)
        .operation("testWebhook", "Send a test to a webhook.")
        .headers(&[IF_MATCH])
        .replies(&[Reply::json::<DeliveryView>(202, "A test is on its way.")])
        .refuses(&[Kind::IllegalTransition]),
    Route::post("/v1/webhooks/{webhook_id}/redeliver", "redeliver", |call| Box::pin(redeliver_failed(call)))
        .tagged()
        .scope(KeyScope::Manage)
        .operation("redeliverFailed", "Send the deliveries again that were given up.")
        .headers(&[IF_MATCH])
        .optional_body(&REDELIVER)
        .replies(&[Reply::json::<RedeliveredView>(202, "On their way again.")])
        .refuses(&[Kind::IllegalTransition]),
];

/// A precondition.
const IF_MATCH: Parameter = Parameter::header(
    "If-Match",
    "Only if the webhook still has this `ETag`; otherwise nothing is done.",
    "\"650a1b2c3d4e5\"",
);

request_body! {
    /// How to change a secret.
    ROTATE = "RotateRequest" {
        /// For how long deliveries are signed with the old secret too; a day if absent.
        "overlap_s": maybe(integer(0, 2_592_000)),
    }
    ; examples {"an_hour": {"value": {"overlap_s": 3600}}}
}

request_body! {
    /// What to send again.
    REDELIVER = "RedeliverRequest" {
        /// What was given up at this moment or later; everything if absent.
        "since": maybe(time()),
    }
    ; examples {"since": {"value": {"since": "2026-05-28T12:00:00.000Z"}}}
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let webhook = owned(&call).await?;
    Ok(shown(StatusCode::OK, &webhook, None, call.app.clock.now()))
}

/// A webhook, with its entity tag.
fn shown(status: StatusCode, webhook: &Webhook, secret: Option<String>, now: Time) -> Response {
    let mut response = respond::json(status, &WebhookView::new(webhook, secret, now));
    response.headers_mut().insert(ETAG, respond::value(etag(webhook)));
    response
}

/// The version of a webhook's settings; deliveries do not change it.
fn etag(webhook: &Webhook) -> String {
    format!("\"{:x}\"", webhook.revision().as_micros())
}

async fn test(call: Call<'_>) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let delivery = sent(call.app, WebhookCommand::Test(asked(&call).await?)).await?;
    let url = owned(&call).await?.url;
    Ok(respond::json(StatusCode::ACCEPTED, &DeliveryView::new(&delivery, Some(&url))))
}

async fn register(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, caller) = (call.app, call.caller());
    let request = read_webhook(&call.body)?;
    let url = call.exchange.webhook_url(app, &request.url.unwrap_or_default())?;
    let (now, secret) = (app.clock.now(), WebhookSecret::generate(|| app.clock.random()));
    let webhook = Webhook {
        id: app.engine.webhook_id(),
        client: caller.client,
        url,
        events: request.events.unwrap_or(forgerun_core::webhook::Events::ALL),
        envelope: request.envelope.unwrap_or_default(),
        filter: request.filter.unwrap_or_default(),
        description: request.description.flatten(),
        secrets: Secrets { current: secret.expose().to_vec(), previous: None },
        created_at: now,
        updated_at: now,
        disabled: None,
        health: Health::default(),
        n_notices: 0,
    };
    let id = webhook.id;
    let mut webhook = changed(app, WebhookCommand::Register(webhook.into())).await?;
    if request.enabled == Some(false) {
        let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
        let owned = OwnedWebhook::new(id, caller.client);
        webhook = changed(app, WebhookCommand::Update { webhook: owned, change }).await?;
    }
    Ok(shown(StatusCode::CREATED, &webhook, Some(secret.to_text()), now))
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, caller) = (call.app, call.caller());
    let query = call.query()?;
    let limit = query.limit()?;
    let after = cursor::<WebhookId>(&query)?;
    // One more than is shown indicates whether there are more.
    let mut webhooks = app.engine.store().webhooks(caller.client, after, limit + 1).await?;
    let more = webhooks.len() > limit;
    webhooks.truncate(limit);
    let next_cursor = webhooks.last().filter(|_| more).map(|webhook| webhook.id.to_string());
    let now = app.clock.now();
    let webhooks = webhooks.iter().map(|webhook| WebhookView::new(webhook, None, now)).collect();
    Ok(respond::json(StatusCode::OK, &WebhooksView { webhooks, next_cursor }))
}

async fn update(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    let request = read_webhook_change(if call.body.is_empty() { b"{}" } else { &call.body })?;
    let url = request.url.map(|url| call.exchange.webhook_url(app, &url)).transpose()?;
    let change = WebhookChange {
        url,
        events: request.events,
        envelope: request.envelope,
        filter: request.filter,
        description: request.description,
        enabled: request.enabled,
    };
    let webhook = changed(app, WebhookCommand::Update { webhook: asked(&call).await?, change }).await?;
    Ok(shown(StatusCode::OK, &webhook, None, app.clock.now()))
}

async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    body::expect_object(&call.body)?;
    run(app, Command::Webhook(WebhookCommand::Delete(asked(&call).await?))).await?;
    Ok(respond::json(StatusCode::OK, &DeletedView { deleted: true }))
}

async fn rotate(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    let overlap_s: Option<u64> = body::member(&call.body, "overlap_s", "a whole number of seconds")?;
    let overlap = overlap_s.map_or(WEBHOOK_SECRET_OVERLAP, Duration::from_secs);
    if overlap > WEBHOOK_SECRET_OVERLAP_MAX {
        let detail = format!("must lie between 0 and {}", WEBHOOK_SECRET_OVERLAP_MAX.as_secs());
        let wrong = violation("overlap_s", &detail, "range");
        return Err(refused_body(Kind::InvalidArgs, vec![wrong], &["overlap_s"]).into());
    }
    let (now, secret) = (app.clock.now(), WebhookSecret::generate(|| app.clock.random()));
    let command = WebhookCommand::Rotate {
        webhook: asked(&call).await?,
        secret: secret.expose().to_vec(),
        previous_until: now + overlap,
    };
    let webhook = changed(app, command).await?;
    Ok(shown(StatusCode::OK, &webhook, Some(secret.to_text()), now))
}

async fn redeliver_failed(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    let since: Option<String> = body::member(&call.body, "since", "a string")?;
    let since = match since.as_deref().map(time::parse) {
        None => Time::ZERO,
        Some(Some(since)) => since,
        Some(None) => {
            let wrong = violation("since", "must be an RFC 3339 time", "format");
            return Err(refused_body(Kind::MalformedRequest, vec![wrong], &["since"]).into());
        }
    };
    let again = WebhookCommand::RedeliverFailed { webhook: asked(&call).await?, since };
    match run(app, Command::Webhook(again)).await? {
        Answer::Redelivered { n_deliveries, more } => {
            let view = RedeliveredView { redelivered: n_deliveries, more };
            Ok(respond::json(StatusCode::ACCEPTED, &view))
        }
        answer => Err(odd(&answer)),
    }
}

/// The webhook in the path, if it is the caller's. A malformed id is an unknown one (C-52).
pub(super) async fn owned(call: &Call<'_>) -> Result<Box<Webhook>, ApiError> {
    let id = call.id::<WebhookId>("webhook_id").ok_or_else(|| refused(Refusal::WebhookNotFound))?;
    match call.app.engine.store().webhook(id).await? {
        Some(webhook) if webhook.client == call.caller().client => Ok(webhook),
        Some(_) => Err(foreign()),
        None => Err(refused(Refusal::WebhookNotFound)),
    }
}

/// The webhook in the path with the requested version, if any. The change checks the version again.
async fn asked(call: &Call<'_>) -> Result<OwnedWebhook, ApiError> {
    let webhook = call.id("webhook_id").ok_or_else(|| refused(Refusal::WebhookNotFound))?;
    let any = OwnedWebhook::new(webhook, call.caller().client);
    if precondition::wanted(&call.exchange.headers).is_none() {
        return Ok(any);
    }
    let known = owned(call).await?;
    precondition::check(&call.exchange.headers, &etag(&known))?;
    Ok(OwnedWebhook { revision: Some(known.revision()), ..any })
}

async fn changed(app: &App, command: WebhookCommand) -> Result<Box<Webhook>, ApiError> {
    match run(app, Command::Webhook(command)).await? {
        Answer::Webhook(webhook) => Ok(webhook),
        answer => Err(odd(&answer)),
    }
}

async fn sent(app: &App, command: WebhookCommand) -> Result<Box<Delivery>, ApiError> {
    match run(app, Command::Webhook(command)).await? {
        Answer::Delivery(delivery) => Ok(delivery),
        answer => Err(odd(&answer)),
    }
}

/// Runs a command; maps refusals about foreign jobs to webhooks.
pub(super) async fn run(app: &App, command: Command) -> Result<Answer, ApiError> {
    match app.engine.run(command).await {
        Err(forgerun_engine::Error::Refused(Refusal::Foreign)) => Err(foreign()),
        answer => Ok(answer?),
    }
}

fn foreign() -> ApiError {
    ApiError::new(Kind::ForeignResource, "The webhook belongs to another client.")
}

pub(super) fn refused(refusal: Refusal) -> ApiError {
    forgerun_engine::Error::Refused(refusal).into()
}

pub(super) fn odd(answer: &Answer) -> ApiError {
    ApiError::internal(Kind::Internal, format!("a webhook was answered with {answer:?}"))
}

pub(super) fn cursor<T: std::str::FromStr>(query: &QueryString) -> Result<Option<T>, ApiError> {
    let read = |cursor: &str| cursor.parse::<T>();
    query
        .get("cursor")
        .map(read)
        .transpose()
        .map_err(|_| query.malformed("cursor", "is no cursor of this list"))
}
