//! Keys of a client: create, renew, revoke. The secret is shown once; only its digest is stored.

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::command::KeyCommand;
use forgerun_core::id::{ClientId, KeyId};
use forgerun_wire::body::{refused as refused_body, violation};
use forgerun_wire::forge::{KEY, KeyView, REVOKE, RevokedView};

use crate::app::App;
use crate::auth::{Who, api_keys, caller as auth};
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
        .operation("createKey", "Make a key, or show the one there is. The first one needs no key.")
        .optional_body(&KEY)
        .replies(&[Reply::json::<KeyView>(201, "The key, with its secret if it was made just now.")
            .headers(&["Idempotent-Replayed?"])]),
    Route::post("/v1/clients/{client_id}/keys/renew", "renew_key", |call| Box::pin(renew(call)))
        .access(RouteAccess::Own(
            |app, exchange| Box::pin(known_or_expired(app, exchange)),
            Callers::ClientOrOperator,
        ))
        .operation(
            "renewKey",
            "Replace a key by a new one; for `auth.renew_grace_days` after its end an expired key may \
     do it too.",
        )
        .replies(&[Reply::json::<KeyView>(200, "The new key; the one before stops working.")])
        .refuses(&[Kind::Duplicate]),
    Route::post("/v1/clients/{client_id}/keys/revoke", "revoke_key", |call| Box::pin(revoke(call)))
        .access(KNOWN)
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
        who @ (Who::Client(_) | Who::Operator) => Ok(who),
    }
}

/// Like [`known`], or a client whose key expired recently (C-114).
async fn known_or_expired(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    match auth::identify_to_renew(app, exchange).await? {
        Who::Anonymous => Err(auth::no_key()),
        who @ (Who::Client(_) | Who::Operator) => Ok(who),
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

/// `POST /v1/clients/{client_id}/keys`.
async fn create(call: Call<'_>) -> Result<Response, ApiError> {
    let app = call.app;
    let rotate: Option<bool> = body::member(&call.body, "rotate", "true or false")?;
    let rotate = rotate.unwrap_or_default();
    let (key, secret) = api_keys::fresh(app, owned(&call).await?);
    let first_only = matches!(call.who, Who::Anonymous);
    let key =
        api_keys::changed(app, KeyCommand::Create { key, rotate, first_only }).await?.ok_or_else(odd)?;
    call.exchange.set_subject(RequestSubject::Key { id: key.key.id, fresh: key.created });
    let secret = key.created.then_some(secret);
    let mut response = respond::json(StatusCode::CREATED, &KeyView::new(&key.key, secret));
    if !key.created {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// `POST /v1/clients/{client_id}/keys/renew`.
async fn renew(call: Call<'_>) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let (key, secret) = api_keys::fresh(call.app, owned(&call).await?);
    let shown = match &call.who {
        Who::Client(caller) => caller.key,
        Who::Operator | Who::Anonymous => None,
    };
    let renew = KeyCommand::Renew { key, shown, grace: call.app.config.auth.renew_grace };
    let key = api_keys::changed(call.app, renew).await?.ok_or_else(odd)?;
    call.exchange.set_subject(RequestSubject::Key { id: key.key.id, fresh: true });
    Ok(respond::json(StatusCode::OK, &KeyView::new(&key.key, Some(secret))))
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
    api_keys::changed(call.app, KeyCommand::Revoke { client, key }).await?;
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
        Who::Client(_) | Who::Operator | Who::Anonymous => Ok(client),
    }
}

fn refused(refusal: Refusal) -> ApiError {
    forgerun_engine::Error::Refused(refusal).into()
}

fn odd() -> ApiError {
    ApiError::internal(Kind::Internal, "a command about a key was answered without one")
}
