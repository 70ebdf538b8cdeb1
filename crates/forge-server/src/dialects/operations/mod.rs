//! The async-operations dialect, `/api/v1`: start with POST and 202, poll, fetch the result.
//!
//! | file | routes |
//! |---|---|
//! | `submit.rs` | `POST jobs`, `POST jobs/batch`, and the operations of the configuration |
//! | `status.rs` | `jobs/{jobId}` |
//! | `cancel.rs` | `DELETE jobs/{jobId}`, `…/cancel` |
//! | `events.rs` | `…/events` |
//! | `items.rs` | `…/items` |
//! | `results.rs` | `…/result`, `reports/{id}`, `reports/{id}/download`, `results/{id}` |
//!
//! A `jobId` is the id of an execution (C-14): what it shows does not change any more once that has ended, even if the job
//! is retried on `/v1`.

mod action;
mod cancel;
mod events;
mod items;
mod results;
mod routes;
mod status;
mod submit;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use forge_core::job::Dialect;

use crate::app::App;
use crate::edge::{ApiError, Exchange, accept, auth, body};
use routes::Route;

/// The path below `/api/v1`, if that is where it is.
pub fn rest(path: &str) -> Option<&str> {
    path.strip_prefix("/api/v1").filter(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Answers a request. The checks that all routes share come in the order of the model (§7).
pub async fn serve(app: &App, exchange: &mut Exchange, body: Body) -> Result<Response, ApiError> {
    exchange.dialect = Dialect::Operations;
    let path = exchange.uri.path().to_owned();
    let found = rest(&path).and_then(|rest| Route::find(rest, &app.config.operations));
    let route = found.ok_or_else(ApiError::route)?;
    exchange.route = route.pattern();
    exchange.action = action::action(route, exchange.is_read());
    exchange.subject = route.subject();
    if !route.allows(&exchange.method) {
        return Err(ApiError::method(route.methods()));
    }
    let caller = auth::client(app, exchange).await?;
    auth::count(app, exchange, &caller)?;
    // A result comes in a type of its own, which is not known yet.
    let streams = matches!(route, Route::Events(_)) && accept::wants_stream(&exchange.headers);
    if !route.is_result() && !streams {
        accept::require_json(&exchange.headers)?;
    }
    let body = received(app, exchange, body).await?;
    match route {
        Route::Jobs => submit::submit(app, exchange, &caller, None, &body).await,
        Route::Batch => submit::submit_batch(app, exchange, &caller, &body).await,
        Route::Operation(operation) => submit::submit(app, exchange, &caller, Some(operation), &body).await,
        Route::Job(id) if exchange.is_read() => status::get(app, exchange, &caller, id).await,
        Route::Job(id) | Route::Cancel(id) => cancel::cancel(app, exchange, &caller, id, &body).await,
        Route::Result(id) | Route::Report(id) | Route::Results(id) => {
            results::get(app, exchange, &caller, id).await
        }
        Route::Events(id) => events::get(app, exchange, &caller, id).await,
        Route::Items(id) => items::get(app, exchange, &caller, id).await,
        Route::Download(id) => results::download(app, exchange, &caller, id).await,
    }
}

/// The body of a request that may have one; a request that only looks has none that matters.
async fn received(app: &App, exchange: &Exchange, received: Body) -> Result<Bytes, ApiError> {
    if exchange.is_read() {
        return Ok(Bytes::new());
    }
    body::read(&exchange.headers, received, app.config.limits.max_body_bytes).await
}
