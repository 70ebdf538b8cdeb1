//! Authentication: anonymous callers, the operator, or a client with a valid key.

use std::sync::Arc;
use std::time::Duration;

use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_core::scope::{KeyScope, KeyScopes};
use forgerun_core::session::EndedSession;
use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use forgerun_problem::Digest;
use forgerun_wire::problem::RefusedRequest;
use subtle::ConstantTimeEq;

use crate::app::App;
use crate::auth::oidc::{Denied, Oidc};
use crate::auth::operator::Operator;
use crate::auth::sessions::OperatorSession;
use crate::config::Registration;
use crate::http::{ApiError, Exchange};
use crate::limits::{WRONG_TOKEN_DELAY, limiter::Account};

/// An authenticated client, and its counters.
#[derive(Clone)]
pub struct Caller {
    pub client: ClientId,
    pub(crate) account: Arc<Account>,
    /// Digest of its key; `None` for the client of open mode.
    pub(crate) key: Option<[u8; 32]>,
    pub(crate) expires_at: Option<Time>,
    pub(crate) scopes: KeyScopes,
    /// The operator's session, if any.
    pub(crate) session: Option<OperatorSession>,
}

impl Caller {
    /// Remaining validity of its key, if it expires.
    pub(crate) fn good_for(&self, now: Time) -> Option<Duration> {
        self.expires_at.map(|at| at.since(now))
    }
}

pub enum Who {
    /// Without credentials.
    Anonymous,
    Operator(Operator),
    Client(Caller),
}

pub(super) enum Credentials<'a> {
    None,
    /// Blank, of another scheme, not text, or more than one: a proxy may choose another one than we
    /// do.
    Unreadable,
    Bearer(&'a str),
}

pub(super) fn credentials(headers: &HeaderMap) -> Credentials<'_> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = match (values.next(), values.next()) {
        (None, _) => return Credentials::None,
        (Some(value), None) => value,
        (Some(_), Some(_)) => return Credentials::Unreadable,
    };
    let Ok(value) = value.to_str() else { return Credentials::Unreadable };
    match value.trim().split_once(' ') {
        Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty() => {
            Credentials::Bearer(token.trim())
        }
        _ => Credentials::Unreadable,
    }
}

/// Authenticates a request. Bad credentials are always refused: a client that sends a key expects
/// to be identified.
pub(crate) async fn identify(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    identify_as(app, exchange, Asked::Anything).await
}

/// The same for a request to renew a key, which a recently expired key may make (C-114). The rules
/// check again.
pub(crate) async fn identify_to_renew(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    identify_as(app, exchange, Asked::Renewal).await
}

/// The same for routes of the operator: wrong tokens are counted there.
pub(crate) async fn identify_operator(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    identify_as(app, exchange, Asked::OperatorOnly).await
}

/// The purpose of the credentials.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asked {
    Anything,
    Renewal,
    OperatorOnly,
}

async fn identify_as(app: &App, exchange: &mut Exchange, asked: Asked) -> Result<Who, ApiError> {
    let identified = identify_bearer(app, exchange, asked).await;
    if let (Err(error), Credentials::Bearer(token)) = (&identified, credentials(&exchange.headers))
        && matches!(error.kind(), Kind::Unauthenticated | Kind::KeyRevoked | Kind::KeyExpired)
    {
        app.wrong_keys.note(exchange.address, token, exchange.began);
    }
    identified
}

async fn identify_bearer(app: &App, exchange: &mut Exchange, asked: Asked) -> Result<Who, ApiError> {
    let token = match credentials(&exchange.headers) {
        Credentials::None => return Ok(Who::Anonymous),
        Credentials::Unreadable => {
            return Err(unauthenticated("The Authorization header is not `Bearer <api_key>`."));
        }
        Credentials::Bearer(token) => token,
    };
    let digest = Digest::of(token.as_bytes()).0;
    let now = exchange.began;
    if app.admin_digest.is_some_and(|admin| bool::from(admin.ct_eq(&digest))) {
        return Ok(Who::Operator(Operator::of_token()));
    }
    if let (Asked::OperatorOnly, Some(oidc), true) = (asked, &app.oidc, Oidc::may_be_issuer_of(token)) {
        return match oidc.operator(token, now).await {
            Ok(operator) => Ok(Who::Operator(operator)),
            Err(denied @ Denied::Token(_)) => {
                Err(unknown_because(app, exchange, asked, &denied.to_string()).await)
            }
            Err(denied) => Err(denied.into()),
        };
    }
    let known = app.api_keys.find(digest, &app.engine, &app.limiter, now).await?;
    let Some(known) = known else { return Err(unknown(app, exchange, asked).await) };
    let key = &known.key;
    // Known by now, valid or not: the log names the client.
    let caller = Caller {
        client: key.client,
        account: known.account.clone(),
        key: Some(digest),
        expires_at: key.expires_at.into_iter().chain(key.revoked_at).min(),
        scopes: key.scopes,
        session: None,
    };
    exchange.caller = Some(caller.clone());
    if key.is_revoked(now) {
        return Err(ApiError::new(Kind::KeyRevoked, "The API key was revoked."));
    }
    let grace = if asked == Asked::Renewal { app.config.auth.renew_grace } else { Duration::ZERO };
    if !key.is_good_within(now, grace) {
        return Err(expired(key.is_good_within(now, app.config.auth.renew_grace)));
    }
    known.used(&app.engine, now);
    Ok(Who::Client(caller))
}

/// Whether a token from the login form is the operator's. Wrong ones are counted with those in
/// headers.
pub(crate) async fn check_token(app: &App, exchange: &Exchange, token: &str) -> Result<(), ApiError> {
    let digest = Digest::of(token.as_bytes()).0;
    if app.admin_digest.is_some_and(|admin| bool::from(admin.ct_eq(&digest))) {
        return Ok(());
    }
    app.wrong_keys.note(exchange.address, token, exchange.began);
    Err(unknown(app, exchange, Asked::OperatorOnly).await)
}

/// The answer to unknown credentials. If there is an operator's token, they may be an attempt to
/// guess it, and the answer is delayed after too many (C-125).
async fn unknown(app: &App, exchange: &Exchange, asked: Asked) -> ApiError {
    let detail = match asked {
        Asked::OperatorOnly if knows_operator(app) => "The token is not the operator's.",
        Asked::Anything | Asked::Renewal | Asked::OperatorOnly => "The API key is not known.",
    };
    unknown_because(app, exchange, asked, detail).await
}

async fn unknown_because(app: &App, exchange: &Exchange, asked: Asked, detail: &str) -> ApiError {
    if !knows_operator(app) {
        return unauthenticated(detail);
    }
    let (limiter, now) = (&app.limiter, exchange.began);
    let account = limiter.address(exchange.address, now);
    let late = match asked {
        Asked::Anything | Asked::Renewal => limiter.wrong_key(&account, now),
        Asked::OperatorOnly => limiter.wrong_token(&account, now),
    };
    match late {
        Ok(None) => {}
        Ok(Some(_late)) => SystemClock.sleep(WRONG_TOKEN_DELAY).await,
        Err(too_many) => return too_many,
    }
    unauthenticated(detail)
}

/// The answer to a job token that was not made here.
pub(super) async fn unknown_token(app: &App, exchange: &Exchange) -> ApiError {
    unknown(app, exchange, Asked::Anything).await
}

/// The answer to an expired key.
pub(crate) fn expired(can_renew: bool) -> ApiError {
    let detail = match can_renew {
        true => "The API key has expired; all it can still do is renew itself.",
        false => "The API key has expired; ask the operator for another.",
    };
    ApiError::new(Kind::KeyExpired, detail)
}

/// Whether operators can prove who they are: by the token, or by single sign-on.
pub(crate) fn knows_operator(app: &App) -> bool {
    app.admin_digest.is_some() || app.oidc.is_some()
}

/// Refuses a client whose key lacks one of these scopes.
pub(crate) fn check_scopes(caller: &Caller, needed: KeyScopes) -> Result<(), ApiError> {
    let missing = needed.without(caller.scopes);
    if missing.is_empty() { Ok(()) } else { Err(scope_missing(missing).into()) }
}

/// The answer to a key without these scopes.
pub(crate) fn scope_missing(missing: KeyScopes) -> RefusedRequest {
    let words = missing.iter().map(KeyScope::word).collect::<Vec<_>>().join(", ");
    let detail = format!("The API key lacks a scope that this needs: {words}.");
    RefusedRequest::new(Kind::Forbidden, detail).fact("reason", "scope_missing").fact("scope", words)
}

/// The client of a request; anonymous callers and the operator are refused.
pub(crate) async fn client(app: &App, exchange: &mut Exchange) -> Result<Caller, ApiError> {
    match client_or_operator(app, exchange).await? {
        Who::Client(caller) => Ok(caller),
        Who::Operator(_) | Who::Anonymous => {
            Err(ApiError::new(Kind::Forbidden, "The admin token owns no jobs; use an API key."))
        }
    }
}

/// The client or operator of a request; anonymous callers are refused.
pub(crate) async fn client_or_operator(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    let who = identify(app, exchange).await?;
    let Who::Anonymous = who else { return Ok(who) };
    let Some(client) = app.default_client else {
        return Err(no_key());
    };
    exchange.check_local(app).map_err(|why| key_needed(&why))?;
    let account = app.limiter.client(client, exchange.began);
    let caller =
        Caller { client, account, key: None, expires_at: None, scopes: KeyScopes::ALL, session: None };
    exchange.caller = Some(caller.clone());
    Ok(Who::Client(caller))
}

/// Requires the operator. If the server is open to local callers and has no token, any local caller
/// is the operator.
pub(crate) async fn operator(app: &App, exchange: &mut Exchange) -> Result<Who, ApiError> {
    match identify_operator(app, exchange).await? {
        who @ Who::Operator(_) => Ok(who),
        Who::Anonymous if knows_operator(app) => Err(unauthenticated(
            "The request has no admin token; send `Authorization: Bearer <admin_token>`.",
        )),
        Who::Anonymous if app.default_client.is_none() => Err(unauthenticated(
            "Only the operator may do this, by the admin token, and the server has none: auth.admin_token is not set.",
        )),
        Who::Anonymous => match exchange.check_local(app) {
            Ok(()) => Ok(Who::Operator(Operator::of_token())),
            Err(why) => Err(unauthenticated(&format!("The request needs an admin token, because {why}."))),
        },
        Who::Client(_) => Err(ApiError::new(Kind::Forbidden, "Only the operator may do this.")),
    }
}

/// The operator as a caller, for counters and logs: as the internal client of the operator's jobs,
/// which has no keys.
pub(crate) fn as_caller(app: &App, exchange: &Exchange) -> Caller {
    let account = app.limiter.address(exchange.address, exchange.began);
    let session = app.sessions.of(&exchange.headers, exchange.began);
    Caller {
        client: forgerun_core::redrive::CLIENT,
        account,
        key: None,
        expires_at: exchange.operator.as_ref().and_then(|operator| operator.until),
        scopes: KeyScopes::ALL,
        session,
    }
}

/// Whether a session has expired or was logged out, perhaps on another node or before this one
/// started.
pub(crate) async fn has_ended(app: &App, session: OperatorSession, now: Time) -> Result<bool, ApiError> {
    if !app.sessions.is_open(session, now) {
        return Ok(true);
    }
    let ended: Option<EndedSession> = app.engine.store().record(session.end_key()).await?;
    if ended.is_some() {
        app.sessions.end(session, now);
    }
    Ok(ended.is_some())
}

/// Whether the key or session of a caller is still valid. An error of the store does not invalidate
/// it.
pub(crate) async fn is_good(app: &App, caller: &Caller) -> bool {
    let now = app.clock.now();
    if let Some(session) = caller.session {
        return !has_ended(app, session, now).await.unwrap_or(false);
    }
    let Some(digest) = caller.key else { return caller.expires_at.is_none_or(|at| now < at) };
    match app.api_keys.find(digest, &app.engine, &app.limiter, now).await {
        Ok(known) => known.is_some_and(|known| known.key.is_good(now)),
        Err(_) => true,
    }
}

/// Counts a request of a client against its limits, and stores its rate status for the answer.
pub(crate) fn count(app: &App, exchange: &mut Exchange, caller: &Caller) -> Result<(), ApiError> {
    let (rate_status, verdict) = app.limiter.request(&caller.account, exchange.began);
    exchange.rate_status = rate_status;
    verdict
}

/// Whether the request may register without credentials; if only its origin prevents that, returns
/// the reason.
pub(crate) fn registers_anybody(app: &App, exchange: &Exchange) -> Result<bool, String> {
    match app.config.auth.registration {
        Registration::Open => Ok(true),
        Registration::Local => exchange.check_local(app).map(|()| true),
        Registration::Admin => Ok(false),
    }
}

/// The answer to a request without a key.
pub(crate) fn no_key() -> ApiError {
    unauthenticated("The request has no API key; send `Authorization: Bearer <api_key>`.")
}

/// The answer to a request that would need no key from this machine.
pub(crate) fn key_needed(why: &str) -> ApiError {
    unauthenticated(&format!(
        "The request needs an API key (send `Authorization: Bearer <api_key>`), because {why}."
    ))
}

/// Counts a call of a worker, which has a limit of its own (C-99).
pub(crate) fn count_worker_call(app: &App, exchange: &mut Exchange, caller: &Caller) -> Result<(), ApiError> {
    let Some(limiter) = &app.worker_limiter else { return Ok(()) };
    let account = limiter.client(caller.client, exchange.began);
    let (rate_status, verdict) = limiter.request(&account, exchange.began);
    exchange.rate_status = rate_status;
    exchange.is_worker_call = true;
    verdict
}

/// The answer to an unauthenticated request.
pub(crate) fn unauthenticated(detail: &str) -> ApiError {
    ApiError::new(Kind::Unauthenticated, detail)
}
