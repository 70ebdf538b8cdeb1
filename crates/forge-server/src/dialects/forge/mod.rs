//! ForgeRun's own dialect, `/v1`.
//!
//! | file | routes |
//! |---|---|
//! | `clients.rs` | `clients` |
//! | `keys.rs` | `clients/{id}/keys`, `…/renew`, `…/revoke` |
//! | `submit.rs`, `rules.rs` | `POST jobs`, `POST jobs/batch` |
//! | `jobs.rs` | `jobs/{id}`, `…/cancel`, `…/retry` |
//! | `delete.rs` | `DELETE jobs/{id}` |
//! | `list.rs` | `GET jobs` |
//! | `webhooks.rs` | `webhooks`, `webhooks/{id}` |
//! | `deliveries.rs` | `…/deliveries` of webhooks and jobs |
//! | `reading.rs` | `…/report`, `…/result`, `…/items` |
//! | `events.rs` | `…/events`, `events` |
//!
//! [`serve`] makes the checks that all routes share, in the order of the model (§7), and hands over.

mod action;
mod clients;
mod delete;
mod deliveries;
mod events;
mod jobs;
mod keys;
mod list;
mod reading;
mod routes;
mod rules;
mod submit;
mod webhooks;

use axum::body::Body;
use axum::http::Method;
use axum::response::Response;
use bytes::Bytes;
use forge_core::job::Dialect;

use crate::app::App;
use crate::edge::{ApiError, Caller, Exchange, accept, auth, body};
use deliveries::Of;
use routes::Route;

/// The path below `/v1`, if that is where it is.
pub fn rest(path: &str) -> Option<&str> {
    path.strip_prefix("/v1").filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request.
pub async fn serve(app: &App, exchange: &mut Exchange, body: Body) -> Result<Response, ApiError> {
    exchange.dialect = Dialect::Forge;
    let route = rest(exchange.uri.path()).and_then(Route::find).ok_or_else(ApiError::route)?;
    exchange.route = route.pattern();
    exchange.action = action::action(route, exchange.is_read());
    exchange.subject = route.job();
    if !route.allows(&exchange.method) {
        return Err(ApiError::method(route.methods()));
    }
    match route {
        Route::Clients => {
            clients::gate(app, exchange).await?;
            accept::require_json(&exchange.headers)?;
            let body = received(app, exchange, body).await?;
            clients::create(app, &body).await
        }
        Route::Keys(client) | Route::KeysRenew(client) | Route::KeysRevoke(client) => {
            let asker = keys::asker(app, exchange).await?;
            accept::require_json(&exchange.headers)?;
            let body = received(app, exchange, body).await?;
            keys::serve(app, exchange, route, &asker, client, &body).await
        }
        Route::Job(id) if exchange.method == Method::DELETE => {
            let asker = auth::client_or_operator(app, exchange).await?;
            if let Some(caller) = &asker {
                auth::count(app, exchange, caller)?;
            }
            accept::require_json(&exchange.headers)?;
            let body = received(app, exchange, body).await?;
            delete::job(app, asker.as_ref(), id, &body).await
        }
        route => {
            let caller = auth::client(app, exchange).await?;
            auth::count(app, exchange, &caller)?;
            // A result comes in a type of its own, which is not known yet.
            let streams = matches!(route, Route::Events(_) | Route::AllEvents)
                && accept::wants_stream(&exchange.headers);
            if !matches!(route, Route::Result(_)) && !streams {
                accept::require_json(&exchange.headers)?;
            }
            let body = received(app, exchange, body).await?;
            of_client(app, exchange, &caller, route, &body).await
        }
    }
}

/// What only a client may ask: its jobs, its webhooks, and what was sent about the ones or to the others.
async fn of_client(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    route: Route,
    body: &Bytes,
) -> Result<Response, ApiError> {
    match route {
        Route::Jobs if exchange.is_read() => list::jobs(app, exchange, caller).await,
        Route::Jobs => submit::submit(app, exchange, caller, body).await,
        Route::Batch => submit::submit_batch(app, exchange, caller, body).await,
        Route::Job(id) => jobs::get(app, exchange, caller, id).await,
        Route::Cancel(id) => jobs::cancel(app, exchange, caller, id, body).await,
        Route::Retry(id) => jobs::retry(app, exchange, caller, id, body).await,
        Route::Report(id) => reading::report(app, exchange, caller, id).await,
        Route::Result(id) => reading::result(app, exchange, caller, id).await,
        Route::Items(id) => reading::items(app, exchange, caller, id).await,
        Route::Events(id) => events::of_job(app, exchange, caller, id).await,
        Route::AllEvents => events::of_client(app, exchange, caller).await,
        Route::Deliveries(id) => deliveries::list(app, exchange, caller, Of::Webhook(id)).await,
        Route::JobDeliveries(id) => deliveries::list(app, exchange, caller, Of::Job(id)).await,
        Route::Delivery(id, delivery) => deliveries::show(app, caller, Of::Webhook(id), delivery).await,
        Route::JobDelivery(id, delivery) => deliveries::show(app, caller, Of::Job(id), delivery).await,
        Route::Redeliver(id, delivery) => {
            deliveries::redeliver(app, caller, Of::Webhook(id), delivery, body).await
        }
        Route::JobRedeliver(id, delivery) => {
            deliveries::redeliver(app, caller, Of::Job(id), delivery, body).await
        }
        Route::Webhooks
        | Route::Webhook(_)
        | Route::WebhookRotate(_)
        | Route::WebhookTest(_)
        | Route::WebhookRedeliver(_) => webhooks::serve(app, exchange, caller, route, body).await,
        Route::Clients | Route::Keys(_) | Route::KeysRenew(_) | Route::KeysRevoke(_) => {
            unreachable!("others than clients ask for these too, and are served before")
        }
    }
}

/// The body of a request that may have one; a request that only looks has none that matters.
async fn received(app: &App, exchange: &Exchange, received: Body) -> Result<Bytes, ApiError> {
    if exchange.is_read() {
        return Ok(Bytes::new());
    }
    body::read(&exchange.headers, received, app.config.limits.max_body_bytes).await
}
