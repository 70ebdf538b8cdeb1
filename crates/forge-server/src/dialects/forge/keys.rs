//! Keys of a client: make, renew, revoke. The secret is shown once, when the key is made; only its digest is kept.

use std::time::Duration;

use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use forge_core::catalog::Kind;
use forge_core::client::ApiKey;
use forge_core::command::KeyCommand;
use forge_core::id::{ClientId, KeyId};
use forge_core::{Answer, Command, Refusal};
use forge_problem::Digest;
use forge_wire::forge::{KeyRequest, KeyView, RevokeRequest, RevokedView};

use super::routes::Route;
use crate::app::App;
use crate::config::Registration;
use crate::edge::submission::REPLAYED;
use crate::edge::{ApiError, Exchange, Who, auth, body, respond};
use crate::traces::About;

/// What every secret begins with, so that one that leaked is recognised.
const SECRET_START: &str = "frk_";

/// Characters of a secret that stay visible.
const PREFIX_CHARS: usize = 12;

/// Who may deal with keys here: the operator, a client with a good key, and for a first key perhaps nobody.
pub(super) async fn asker(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    let who = auth::identify(app, exchange).await?;
    match &who {
        Who::Client(caller) => auth::count(app, exchange, caller)?,
        Who::Operator => {}
        Who::Nobody => {
            let first_key = exchange.route == Route::Keys(None).pattern();
            if app.config.auth.registration == Registration::Admin || !first_key {
                return Err(auth::unauthenticated("The request has no API key."));
            }
        }
    }
    Ok(who)
}

/// `POST /v1/clients/{id}/keys`, `…/renew`, `…/revoke`.
pub(super) async fn serve(
    app: &App,
    exchange: &Exchange,
    route: Route,
    asker: &Who,
    client: Option<ClientId>,
    bytes: &Bytes,
) -> Result<Response, ApiError> {
    match route {
        Route::Keys(_) => {
            let KeyRequest { rotate } = body::object(bytes)?;
            let client = owned(app, asker, client).await?;
            create(app, exchange, asker, client, rotate).await
        }
        Route::KeysRenew(_) => {
            body::expect_object(bytes)?;
            let client = owned(app, asker, client).await?;
            let (key, secret) = fresh(app, client);
            let key = changed(app, KeyCommand::Renew(key)).await?.ok_or_else(odd)?;
            exchange.is_about(About::Key { id: key.key.id, fresh: true });
            Ok(respond::json(StatusCode::OK, &KeyView::new(&key.key, Some(secret))))
        }
        _ => {
            let RevokeRequest { key_id } = body::object(bytes)?;
            let client = owned(app, asker, client).await?;
            let key = key_id.parse::<KeyId>().map_err(|_| refused(Refusal::KeyNotFound))?;
            changed(app, KeyCommand::Revoke { client, key }).await?;
            exchange.is_about(About::Key { id: key, fresh: false });
            Ok(respond::json(StatusCode::OK, &RevokedView { revoked: true }))
        }
    }
}

/// The client, if the asker may deal with its keys.
async fn owned(app: &App, asker: &Who, client: Option<ClientId>) -> Result<ClientId, ApiError> {
    let client = client.ok_or_else(|| refused(Refusal::ClientNotFound))?;
    match asker {
        Who::Client(caller) if caller.client != client => match app.engine.store().client(client).await? {
            Some(_) => Err(ApiError::new(Kind::ForeignResource, "The keys belong to another client.")),
            None => Err(refused(Refusal::ClientNotFound)),
        },
        Who::Client(_) | Who::Operator | Who::Nobody => Ok(client),
    }
}

async fn create(
    app: &App,
    exchange: &Exchange,
    asker: &Who,
    client: ClientId,
    rotate: bool,
) -> Result<Response, ApiError> {
    let (key, secret) = fresh(app, client);
    let first_only = matches!(asker, Who::Nobody);
    let key = changed(app, KeyCommand::Create { key, rotate, first_only }).await?.ok_or_else(odd)?;
    exchange.is_about(About::Key { id: key.key.id, fresh: key.created });
    let secret = key.created.then_some(secret);
    let mut response = respond::json(StatusCode::CREATED, &KeyView::new(&key.key, secret));
    if !key.created {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

/// A key as the rules answered it.
struct Kept {
    key: ApiKey,
    created: bool,
}

/// Runs a command about keys; what this node remembers of them is forgotten before anybody hears of it.
async fn changed(app: &App, command: KeyCommand) -> Result<Option<Kept>, ApiError> {
    let client = command.client();
    let answer = app.engine.run(Command::Key(command)).await;
    app.ring.forget(client);
    match answer? {
        Answer::Key { key, created } => Ok(Some(Kept { key, created })),
        _ => Ok(None),
    }
}

/// A key that is not known to anybody yet, and its secret.
fn fresh(app: &App, client: ClientId) -> (ApiKey, String) {
    let mut random = [0; 32];
    random[..16].copy_from_slice(&app.clock.random().to_be_bytes());
    random[16..].copy_from_slice(&app.clock.random().to_be_bytes());
    let secret = format!("{SECRET_START}{}", URL_SAFE_NO_PAD.encode(random));
    let now = app.clock.now();
    let ttl: Duration = app.config.auth.key_ttl;
    let key = ApiKey {
        id: app.engine.key_id(),
        client,
        digest: Digest::of(secret.as_bytes()).0,
        prefix: secret[..PREFIX_CHARS].to_owned(),
        created_at: now,
        expires_at: Some(now + ttl),
        revoked_at: None,
        last_used_at: None,
    };
    (key, secret)
}

fn refused(refusal: Refusal) -> ApiError {
    forge_engine::Error::Refused(refusal).into()
}

fn odd() -> ApiError {
    ApiError::internal(Kind::Internal, "a command about a key was answered without one")
}
