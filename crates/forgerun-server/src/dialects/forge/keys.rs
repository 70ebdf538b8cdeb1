//! Keys of a client: list, create, renew, revoke. The secret is shown once; only its digest is
//! stored.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::id::{ClientId, KeyId};
use forgerun_core::scope::KeyScope;
use forgerun_wire::admin::AdminKey;
use forgerun_wire::body::{refused as refused_body, violation};
use forgerun_wire::forge::{KEY, KeyListView, KeyView, RENEW, REVOKE, RevokedView};

use crate::app::App;
use crate::auth::{
    Who,
    api_keys::{self, IssuedKey},
    caller as auth,
};
use crate::http::{
    ApiError, Exchange,
    accepted::REPLAYED,
    body, respond,
    routing::{Call, Callers, Reply, Route, RouteAccess},
};
use crate::own_clients;
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/v1/clients/{client_id}/keys", "create_key", |call| Box::pin(create(call)))
        .access(RouteAccess::Own(|app, exchange| Box::pin(known_or_first(app, exchange)), Callers::FirstKey))
        .scope(KeyScope::Keys)
        .operation("createKey", "Make a key, or show the valid one of that name. The first one needs no key.")
        .optional_body(&KEY)
        .replies(&[Reply::json::<KeyView>(201, "The key, with its secret if it was made just now.")
            .headers(&["Idempotent-Replayed?"])])
        .refuses(&[Kind::Duplicate]),
    Route::get("/v1/clients/{client_id}/keys", "list_keys", |call| Box::pin(list(call)))
        .access(KNOWN)
        .operation("listKeys", "List the keys of a client, without their secrets.")
        .replies(&[Reply::json::<KeyListView>(200, "The keys.")]),
    Route::post("/v1/clients/{client_id}/keys/renew", "renew_key", |call| Box::pin(renew(call)))
        .access(RouteAccess::Own(
            |app, exchange| Box::pin(known_or_expired(app, exchange)),
            Callers::ClientOrOperator,
        ))
        .scope(KeyScope::Keys)
        .operation(
            "renewKey",
            "Replace a key by a new one; for `auth.renew_grace_days` after its end an expired key may \
     do it too.",
        )
        .optional_body(&RENEW)
        .replies(&[Reply::json::<KeyView>(
            200,
            "The new key; the one before stops working after `overlap_s`.",
        )])
        .refuses(&[Kind::Duplicate]),
    Route::post("/v1/clients/{client_id}/keys/revoke", "revoke_key", |call| Box::pin(revoke(call)))
        .access(KNOWN)
        .scope(KeyScope::Keys)
        .operation("revokeKey", "Revoke a key.")
        .body(&REVOKE)
        .replies(&[Reply::json::<RevokedView>(200, "Revoked, now or before.")])
        .refuses(&[Kind::KeyNotFound]),
];

pub(super) const KNOWN: RouteAccess =
    RouteAccess::Own(|app, exchange| Box::pin(known(app, exchange)), Callers::ClientOrOperator);

/// Callers that may manage the keys of a client: the operator, and a client with a valid key.
async fn known(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    match auth::identify(app, exchange).await? {
        Who::Anonymous => Err(auth::no_key()),
        who @ (Who::Client(_) | Who::Operator(_)) => Ok(who),
    }
}

/// Like [`known`], or a client whose key expired recently (C-114).
async fn known_or_expired(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    match auth::identify_to_renew(app, exchange).await? {
        Who::Anonymous => Err(auth::no_key()),
        who @ (Who::Client(_) | Who::Operator(_)) => Ok(who),
    }
}

/// Like [`known`], or an anonymous caller for a first key, if registering is open.
async fn known_or_first(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    let who = auth::identify(app, exchange).await?;
    let Who::Anonymous = who else { return Ok(who) };
    match auth::registers_anybody(app, exchange) {
        Ok(true) => Ok(Who::Anonymous),
        Ok(false) => Err(auth::no_key()),
        Err(why) => Err(auth::key_needed(&why)),
    }
}

/// `GET /v1/clients/{client_id}/keys`.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let client = owned(&call).await?;
    let keys = call.app.engine.store().api_keys_of(client).await?;
    let now = call.app.clock.now();
    let items = keys.iter().map(|key| AdminKey::new(key, now)).collect();
    Ok(respond::json(StatusCode::OK, &KeyListView { items }))
}

/// `POST /v1/clients/{client_id}/keys`.
async fn create(call: Call<'_>) -> Result<Response, ApiError> {
    let client = owned(&call).await?;
    let IssuedKey { key, secret } = api_keys::create(&call, client).await?;
    let fresh = secret.is_some();
    call.exchange.set_subject(RequestSubject::Key { id: key.id, fresh });
    let mut response = respond::json(StatusCode::CREATED, &KeyView::new(&key, secret));
    if !fresh {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// `POST /v1/clients/{client_id}/keys/renew`.
async fn renew(call: Call<'_>) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let client = owned(&call).await?;
    let IssuedKey { key, secret } = api_keys::renew(&call, client).await?;
    call.exchange.set_subject(RequestSubject::Key { id: key.id, fresh: true });
    Ok(respond::json(StatusCode::OK, &KeyView::new(&key, secret)))
}

/// `POST /v1/clients/{client_id}/keys/revoke`.
async fn revoke(call: Call<'_>) -> Result<Response, ApiError> {
    let key_id: Option<String> = body::member(&call.body, "key_id", "a string")?;
    let key_id = key_id.ok_or_else(|| {
        let missing = violation("key_id", "is required", "required");
        refused_body(Kind::MalformedRequest, vec![missing], &["key_id"])
    })?;
    let client = owned(&call).await?;
    let key = key_id.parse::<KeyId>().map_err(|_| refused(Refusal::KeyNotFound))?;
    api_keys::revoke(&call, client, key).await?;
    call.exchange.set_subject(RequestSubject::Key { id: key, fresh: false });
    Ok(respond::json(StatusCode::OK, &RevokedView { revoked: true }))
}

/// The client in the path, if the caller may manage its keys.
pub(super) async fn owned(call: &Call<'_>) -> Result<ClientId, ApiError> {
    let client = call.id::<ClientId>("client_id").ok_or_else(|| refused(Refusal::ClientNotFound))?;
    match &call.who {
        Who::Client(caller) if caller.client != client => match call.app.engine.store().client(client).await?
        {
            Some(_) => Err(ApiError::new(Kind::ForeignResource, "This is another client.")),
            None => Err(refused(Refusal::ClientNotFound)),
        },
        Who::Anonymous if own_clients::is_own(client) => Err(auth::no_key()),
        Who::Client(_) | Who::Operator(_) | Who::Anonymous => Ok(client),
    }
}

fn refused(refusal: Refusal) -> ApiError {
    forgerun_engine::Error::Refused(refusal).into()
}
