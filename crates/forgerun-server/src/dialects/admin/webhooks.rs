//! Webhooks of all clients, with their health.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::id::WebhookId;
use forgerun_wire::admin::{AdminPage, AdminWebhook};

use crate::auth::OperatorRole;
use crate::http::{
    ApiError, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT},
    },
};

pub(super) const ROUTES: &[Route] =
    &[Route::get("/admin/v1/webhooks", "webhooks", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListWebhooks", "List the webhooks of all clients, oldest first.")
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<AdminWebhook>>(200, "A page.")])];

/// `GET /admin/v1/webhooks`, oldest first; the cursor is the last webhook.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<AdminWebhook>, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let after = match query.get("cursor").map(str::parse::<WebhookId>) {
        None => None,
        Some(Ok(after)) => Some(after),
        Some(Err(_)) => return Err(query.malformed("cursor", "is no cursor of this list")),
    };
    let mut webhooks = call.app.engine.store().all_webhooks(after, limit + 1).await?;
    let more = webhooks.len() > limit;
    webhooks.truncate(limit);
    let next_cursor = webhooks.last().filter(|_| more).map(|webhook| webhook.id.to_string());
    let now = call.app.clock.now();
    let mut items: Vec<_> = webhooks.iter().map(|webhook| AdminWebhook::new(webhook, now)).collect();
    call.app
        .client_names
        .fill(call.app, items.iter_mut().map(|item| (&item.client, &mut item.client_name)))
        .await?;
    Ok(AdminPage { items, next_cursor })
}
