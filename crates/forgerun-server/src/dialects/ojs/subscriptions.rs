//! `webhooks/subscriptions`: webhooks in OJS's form. They are the same webhooks as on `/v1`, with
//! OJS events as bodies.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{OwnedWebhook, WebhookChange, WebhookCommand};
use forgerun_core::id::{ClientId, WebhookId};
use forgerun_core::scope::KeyScope;
use forgerun_core::webhook::{Envelope, Health, Secrets, Webhook, WebhookFilter};
use forgerun_core::{Answer, Command, Refusal};
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::ojs::subscription::{
    read_subscription, read_subscription_change, subscription_answer, subscription_view,
};
use serde_json::{Value, json};

use super::queues::offset;
use super::scope::{CLIENT, PAGE, Scope};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError, respond,
    routing::{Call, Reply, Route},
};
use crate::limits::WEBHOOK_SECRET_OVERLAP;
use crate::webhooks::standard::WebhookSecret;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/webhooks/subscriptions", "list_webhooks", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListSubscriptions", "List the endpoints of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::FACTS)]),
    Route::post("/ojs/v1/webhooks/subscriptions", "register_webhook", |call| Box::pin(create(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsSubscribe", "Register an endpoint for events.")
        .body(&objects::SUBSCRIPTION)
        .replies(&[Reply::object(
            201,
            "Registered; the secret is shown this once.",
            &objects::SUBSCRIPTION_VIEW,
        )
        .headers(&["Location?"])])
        .refuses(&[Kind::InvalidCallbackUrl, Kind::Duplicate]),
    Route::get("/ojs/v1/webhooks/subscriptions/{webhook_id}", "get_webhook", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetSubscription", "Get an endpoint.")
        .replies(&[Reply::object(200, "The endpoint.", &objects::SUBSCRIPTION_VIEW)]),
    Route::patch("/ojs/v1/webhooks/subscriptions/{webhook_id}", "change_webhook", |call| {
        Box::pin(change(call))
    })
    .access(CLIENT)
    .scope(KeyScope::Manage)
    .operation("ojsChangeSubscription", "Change an endpoint.")
    .body(&objects::SUBSCRIPTION)
    .replies(&[Reply::object(200, "The endpoint as it is now.", &objects::SUBSCRIPTION_VIEW)])
    .refuses(&[Kind::InvalidCallbackUrl, Kind::Duplicate]),
    Route::put("/ojs/v1/webhooks/subscriptions/{webhook_id}", "change_webhook", |call| {
        Box::pin(change(call))
    })
    .access(CLIENT)
    .scope(KeyScope::Manage)
    .operation("ojsPutSubscription", "Change an endpoint.")
    .body(&objects::SUBSCRIPTION)
    .replies(&[Reply::object(200, "The endpoint as it is now.", &objects::SUBSCRIPTION_VIEW)])
    .refuses(&[Kind::InvalidCallbackUrl, Kind::Duplicate]),
    Route::delete("/ojs/v1/webhooks/subscriptions/{webhook_id}", "change_webhook", |call| {
        Box::pin(delete(call))
    })
    .access(CLIENT)
    .scope(KeyScope::Manage)
    .operation("ojsUnsubscribe", "Delete an endpoint.")
    .replies(&[Reply::object(200, "Deleted.", &objects::SUBSCRIPTION_VIEW)]),
    Route::post("/ojs/v1/webhooks/subscriptions/{webhook_id}/rotate-secret", "rotate_secret", |call| {
        Box::pin(rotate(call))
    })
    .access(CLIENT)
    .scope(KeyScope::Manage)
    .operation("ojsRotateSecret", "Give an endpoint a new secret.")
    .replies(&[Reply::object(
        200,
        "The endpoint with its new secret, shown this once.",
        &objects::SUBSCRIPTION_VIEW,
    )]),
    Route::post("/ojs/v1/webhooks/subscriptions/{webhook_id}/test", "test_webhook", |call| {
        Box::pin(test(call))
    })
    .access(CLIENT)
    .scope(KeyScope::Manage)
    .operation("ojsTestSubscription", "Send a test to an endpoint.")
    .replies(&[Reply::object(202, "A test is on its way.", &objects::FACTS)])
    .refuses(&[Kind::IllegalTransition]),
];

/// An unguessable secret. Deliveries are signed with its bytes.
fn new_secret(app: &App) -> String {
    WebhookSecret::generate(|| app.clock.random()).to_text()
}

fn client(call: &Call<'_>) -> Result<ClientId, ApiError> {
    Ok(Scope::of(call)?.owner()?.client)
}

/// The subscription in the path, if it is the caller's. A malformed id is an unknown one (C-52).
async fn owned(call: &Call<'_>) -> Result<Webhook, ApiError> {
    let refused = |refusal| refusals::of_engine(call.app, forgerun_engine::Error::Refused(refusal));
    let id = call.id::<WebhookId>("webhook_id").ok_or_else(|| refused(Refusal::WebhookNotFound))?;
    match call.app.engine.store().webhook(id).await? {
        Some(webhook) if webhook.client == client(call)? => Ok(*webhook),
        Some(_) if call.app.config.auth.hide_foreign => Err(refused(Refusal::WebhookNotFound)),
        Some(_) => Err(ApiError::new(Kind::ForeignResource, "The subscription belongs to another client.")),
        None => Err(refused(Refusal::WebhookNotFound)),
    }
}

async fn asked(call: &Call<'_>) -> Result<OwnedWebhook, ApiError> {
    let webhook = owned(call).await?;
    Ok(OwnedWebhook::new(webhook.id, webhook.client))
}

async fn changed(app: &App, command: WebhookCommand) -> Result<Webhook, ApiError> {
    let answer = app.engine.run(Command::Webhook(command)).await;
    match answer.map_err(|error| refusals::of_engine(app, error))? {
        Answer::Webhook(webhook) => Ok(*webhook),
        answer => unreachable!("a webhook was answered with {answer:?}"),
    }
}

async fn create(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, client) = (call.app, client(&call)?);
    let request = read_subscription(&call.body)?;
    let url = call.exchange.webhook_url(app, &request.url.unwrap_or_default())?;
    let (now, secret) = (app.clock.now(), request.secret.unwrap_or_else(|| new_secret(app)));
    let webhook = Webhook {
        id: app.engine.webhook_id(),
        client,
        url,
        events: request.events.unwrap_or(forgerun_core::webhook::Events::ALL),
        envelope: Envelope::Ojs,
        filter: WebhookFilter::default(),
        description: request.metadata,
        secrets: Secrets { current: secret.clone().into_bytes(), previous: None },
        created_at: now,
        updated_at: now,
        disabled: None,
        health: Health::default(),
        n_notices: 0,
    };
    let id = webhook.id;
    let mut webhook = changed(app, WebhookCommand::Register(webhook.into())).await?;
    if request.active == Some(false) {
        let change = WebhookChange { enabled: Some(false), ..WebhookChange::default() };
        let owned = OwnedWebhook::new(id, client);
        webhook = changed(app, WebhookCommand::Update { webhook: owned, change }).await?;
    }
    let mut response = reply::json(StatusCode::CREATED, &subscription_answer(&webhook, Some(&secret)));
    let location = format!("{}/ojs/v1/webhooks/subscriptions/{id}", app.base);
    response.headers_mut().insert(LOCATION, respond::value(location));
    Ok(response)
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let offset = offset(&query, limit)?;
    let most = forgerun_core::limits::WEBHOOKS_MAX;
    let webhooks = call.app.engine.store().webhooks(client(&call)?, None, most).await?;
    let page = Pagination::new(webhooks.len() as u64, limit, offset);
    let shown = webhooks.iter().skip(offset).take(limit);
    let shown: Vec<Value> = shown.map(|webhook| subscription_view(webhook, None).into()).collect();
    Ok(reply::ok(&json!({"subscriptions": shown, "items": shown, "count": shown.len(), "pagination": page})))
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(reply::ok(&subscription_answer(&owned(&call).await?, None)))
}

async fn change(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_subscription_change(&call.body)?;
    let url = request.url.map(|url| call.exchange.webhook_url(call.app, &url)).transpose()?;
    let change = WebhookChange {
        url,
        events: request.events,
        envelope: None,
        filter: None,
        description: request.metadata.map(Some),
        enabled: request.active,
    };
    let webhook = asked(&call).await?;
    let mut changed_webhook = changed(call.app, WebhookCommand::Update { webhook, change }).await?;
    if let Some(secret) = request.secret {
        changed_webhook = changed(call.app, rotation(call.app, webhook, &secret)).await?;
    }
    Ok(reply::ok(&subscription_answer(&changed_webhook, None)))
}

fn rotation(app: &App, webhook: OwnedWebhook, secret: &str) -> WebhookCommand {
    let previous_until = app.clock.now() + WEBHOOK_SECRET_OVERLAP;
    WebhookCommand::Rotate { webhook, secret: secret.as_bytes().to_vec(), previous_until }
}

/// A new secret; for a day deliveries are signed with the old one too.
async fn rotate(call: Call<'_>) -> Result<Response, ApiError> {
    let secret = new_secret(call.app);
    let webhook = changed(call.app, rotation(call.app, asked(&call).await?, &secret)).await?;
    Ok(reply::ok(&subscription_answer(&webhook, Some(&secret))))
}

async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let owned = asked(&call).await?;
    let command = Command::Webhook(WebhookCommand::Delete(owned));
    call.app.engine.run(command).await.map_err(|error| refusals::of_engine(call.app, error))?;
    Ok(reply::ok(&json!({"deleted": true, "id": owned.webhook.to_string()})))
}

/// Sends a test delivery. Its result is listed with the webhook's deliveries: the request does not
/// wait for the receiver.
async fn test(call: Call<'_>) -> Result<Response, ApiError> {
    let command = Command::Webhook(WebhookCommand::Test(asked(&call).await?));
    let answer = call.app.engine.run(command).await.map_err(|error| refusals::of_engine(call.app, error))?;
    match answer {
        Answer::Delivery(delivery) => {
            let view = json!({"accepted": true, "delivery_id": delivery.id.to_string()});
            Ok(reply::json(StatusCode::ACCEPTED, &view))
        }
        answer => unreachable!("a test was answered with {answer:?}"),
    }
}
