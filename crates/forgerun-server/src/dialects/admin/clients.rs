//! Clients and their keys. A secret is shown once, when its key is made.

use std::collections::HashMap;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::client::{Client, ClientName};
use forgerun_core::id::{ClientId, KeyId};
use forgerun_wire::admin::{AdminClient, AdminClientDetail, AdminKey, AdminPage, CLIENT_LIMITS};
use forgerun_wire::forge::{KEY, KeyRequest, KeyView, RevokedView};

use super::audit;
use crate::auth::OperatorRole;
use crate::auth::api_keys::{self, IssuedKey};
use crate::client_limits;
use crate::http::{
    ApiError, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT},
    },
};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/clients", "clients", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListClients", "List the clients, oldest first.")
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<AdminClient>>(200, "A page.")]),
    Route::get("/admin/v1/clients/{client_id}", "clients", |call| Box::pin(get(call)))
        .role(OperatorRole::Viewer)
        .operation("adminGetClient", "Get a client with its keys.")
        .replies(&[Reply::json::<AdminClientDetail>(200, "The client.")]),
    Route::patch("/admin/v1/clients/{client_id}", "limit_client", |call| Box::pin(limit(call)))
        .role(OperatorRole::Admin)
        .operation("adminLimitClient", "Set limits of a client; null lifts one.")
        .body(&CLIENT_LIMITS)
        .replies(&[Reply::json::<AdminClientDetail>(200, "The client.")]),
    Route::post("/admin/v1/clients/{client_id}/keys", "create_key", |call| Box::pin(create_key(call)))
        .role(OperatorRole::Admin)
        .operation("adminCreateKey", "Make a key for a client.")
        .optional_body(&KEY)
        .replies(&[
            Reply::json::<KeyView>(200, "The valid key of that name; without `rotate` no other is made."),
            Reply::json::<KeyView>(201, "The key, with its secret."),
        ]),
    Route::delete("/admin/v1/clients/{client_id}/keys/{key_id}", "revoke_key", |call| {
        Box::pin(revoke_key(call))
    })
    .role(OperatorRole::Admin)
    .operation("adminRevokeKey", "Revoke a key of a client.")
    .replies(&[Reply::json::<RevokedView>(200, "The key is revoked.")]),
];

/// `GET /admin/v1/clients`, by id; the cursor is the last client.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<AdminClient>, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let after = match query.get("cursor").map(str::parse::<ClientId>) {
        None => None,
        Some(Ok(after)) => Some(after),
        Some(Err(_)) => return Err(query.malformed("cursor", "is no cursor of this list")),
    };
    let store = call.app.engine.store();
    let mut clients = store.all_clients(after, limit + 1).await?;
    let more = clients.len() > limit;
    clients.truncate(limit);
    let next_cursor = clients.last().filter(|_| more).map(|client| client.id.to_string());
    let now = call.app.clock.now();
    // Keys of names are ids in the same order: one read has the names of the page.
    let after = after.map(|after| after.to_string()).unwrap_or_default();
    let names: Vec<ClientName> = store.records(None, after, clients.len()).await?;
    let mut names: HashMap<ClientId, Option<String>> =
        names.into_iter().map(|named| (named.client, named.name)).collect();
    let mut items = Vec::with_capacity(clients.len());
    for client in &clients {
        let keys = store.api_keys_of(client.id).await?;
        items.push(AdminClient::new(client, names.remove(&client.id).flatten(), &keys, now));
    }
    Ok(AdminPage { items, next_cursor })
}

fn refused(refusal: Refusal) -> ApiError {
    forgerun_engine::Error::Refused(refusal).into()
}

async fn found(call: &Call<'_>) -> Result<Client, ApiError> {
    let not_found = || refused(Refusal::ClientNotFound);
    let id: ClientId = call.id("client_id").ok_or_else(not_found)?;
    call.app.engine.store().client(id).await?.ok_or_else(not_found)
}

/// `GET /admin/v1/clients/{id}`.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &shown(&call).await?))
}

/// The client in the path, with its keys.
pub(in crate::dialects) async fn shown(call: &Call<'_>) -> Result<AdminClientDetail, ApiError> {
    let client = found(call).await?;
    let keys = call.app.engine.store().api_keys_of(client.id).await?;
    let named: Option<ClientName> = call.app.engine.store().record(client.id.to_string()).await?;
    let (limits, usage) = client_limits::shown(call.app, client.id).await?;
    let now = call.app.clock.now();
    Ok(AdminClientDetail {
        client: AdminClient::new(&client, named.and_then(|named| named.name), &keys, now),
        limits,
        usage,
        keys: keys.iter().map(|key| AdminKey::new(key, now)).collect(),
    })
}

/// `PATCH /admin/v1/clients/{id}`.
async fn limit(call: Call<'_>) -> Result<Response, ApiError> {
    let client = found(&call).await?.id;
    let members = forgerun_wire::body::object(&call.body)?;
    client_limits::change(call.app, client, &members).await?;
    audit::note(call.exchange, "limit_client", &client.to_string());
    Ok(respond::json(StatusCode::OK, &shown(&call).await?))
}

/// `POST /admin/v1/clients/{id}/keys`: a new key, unless there is a valid one of that name and
/// `rotate` is not set.
async fn create_key(call: Call<'_>) -> Result<Response, ApiError> {
    let client = found(&call).await?.id;
    let IssuedKey { key, secret } = noted(&call, api_keys::create(&call, client).await?);
    let status = if secret.is_some() { StatusCode::CREATED } else { StatusCode::OK };
    Ok(respond::json(status, &KeyView::new(&key, secret)))
}

/// Makes a key for the client in the path.
pub(in crate::dialects) async fn issue_one(
    call: &Call<'_>,
    request: KeyRequest,
) -> Result<IssuedKey, ApiError> {
    let client = found(call).await?.id;
    Ok(noted(call, api_keys::issue(call, client, request).await?))
}

fn noted(call: &Call<'_>, issued: IssuedKey) -> IssuedKey {
    if issued.secret.is_some() {
        let about = format!("{} of client {}", issued.key.id, issued.key.client);
        audit::note(call.exchange, "create_key", &about);
    }
    issued
}

/// `DELETE /admin/v1/clients/{id}/keys/{key_id}`.
async fn revoke_key(call: Call<'_>) -> Result<Response, ApiError> {
    revoke_one(&call).await?;
    Ok(respond::json(StatusCode::OK, &RevokedView { revoked: true }))
}

/// Revokes the key in the path.
pub(in crate::dialects) async fn revoke_one(call: &Call<'_>) -> Result<(), ApiError> {
    let client = found(call).await?.id;
    let key: KeyId = call.id("key_id").ok_or_else(|| refused(Refusal::KeyNotFound))?;
    api_keys::revoke(call, client, key).await?;
    audit::note(call.exchange, "revoke_key", &format!("{key} of client {client}"));
    Ok(())
}
