//! Changes of API keys: the only place that makes, renews and revokes them, and drops cached ones.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forgerun_core::catalog::Kind;
use forgerun_core::client::{ApiKey, ClientName};
use forgerun_core::command::{KeyCaller, KeyCommand};
use forgerun_core::id::{ClientId, KeyId};
use forgerun_core::limits::KEY_OVERLAP_MAX;
use forgerun_core::scope::{KeyScope, KeyScopes};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use forgerun_problem::Digest;
use forgerun_wire::body::{refused, violation};
use forgerun_wire::forge::KeyRequest;
use forgerun_wire::time;

use crate::app::App;
use crate::auth::{Caller, Who};
use crate::http::{ApiError, body, routing::Call};
use crate::limits::KEY_TTL_MAX;

/// Prefix of every secret, so that leaked ones are recognised.
const SECRET_START: &str = "frk_";

/// Characters of a secret that stay visible.
const PREFIX_CHARS: usize = 12;

struct ChangedKey {
    key: ApiKey,
    /// Whether the command created it.
    created: bool,
}

/// Runs a command about keys; the cached keys are dropped before the answer.
async fn changed(app: &App, command: KeyCommand) -> Result<Option<ChangedKey>, ApiError> {
    let client = command.client();
    let answer = app.engine.run(Command::Key(command)).await;
    app.keys_changed(client);
    match answer? {
        Answer::Key { key, created } => Ok(Some(ChangedKey { key, created })),
        _ => Ok(None),
    }
}

/// The caller, as the rules of keys see it.
fn key_caller(call: &Call<'_>) -> KeyCaller {
    match &call.who {
        Who::Client(Caller { key: Some(key), .. }) => KeyCaller::Key(*key),
        // Only the client of open mode has no key.
        Who::Client(caller) if call.app.default_client == Some(caller.client) => KeyCaller::Operator,
        Who::Client(_) => KeyCaller::Anonymous,
        Who::Operator(_) => KeyCaller::Operator,
        Who::Anonymous => KeyCaller::Anonymous,
    }
}

/// A key, and its secret if it was made just now.
pub(crate) struct IssuedKey {
    pub(crate) key: ApiKey,
    pub(crate) secret: Option<String>,
}

/// Makes the key that the body asks for, or finds the valid one of that name.
pub(crate) async fn create(call: &Call<'_>, client: ClientId) -> Result<IssuedKey, ApiError> {
    let request = KeyRequest {
        rotate: body::member(&call.body, "rotate", "true or false")?.unwrap_or_default(),
        name: body::member(&call.body, "name", "a string")?,
        scopes: body::member(&call.body, "scopes", "a list of scopes")?,
        expires_at: body::member(&call.body, "expires_at", "a time")?,
        overlap_s: body::member(&call.body, "overlap_s", &overlap_rule())?,
    };
    issue(call, client, request).await
}

/// Makes the requested key, or finds the valid one of that name.
pub(crate) async fn issue(
    call: &Call<'_>,
    client: ClientId,
    request: KeyRequest,
) -> Result<IssuedKey, ApiError> {
    let (mut key, secret) = fresh(call.app, client);
    let overlap = overlap(request.overlap_s)?;
    let rotate = request.rotate;
    let KeyTerms { name, scopes, expires_at } = terms(request, key.created_at)?;
    key.name = name;
    key.expires_at = expires_at.or(key.expires_at);
    let create = KeyCommand::Create { key, scopes, rotate, overlap, by: key_caller(call) };
    let ChangedKey { key, created } = changed(call.app, create).await?.ok_or_else(odd)?;
    Ok(IssuedKey { key, secret: created.then_some(secret) })
}

/// Replaces the primary key of a client.
pub(crate) async fn renew(call: &Call<'_>, client: ClientId) -> Result<IssuedKey, ApiError> {
    let (key, secret) = fresh(call.app, client);
    let grace = call.app.config.auth.renew_grace;
    let overlap = overlap(body::member(&call.body, "overlap_s", &overlap_rule())?)?;
    let renew = KeyCommand::Renew { key, by: key_caller(call), grace, overlap };
    let key = changed(call.app, renew).await?.ok_or_else(odd)?.key;
    Ok(IssuedKey { key, secret: Some(secret) })
}

/// Revokes a key of a client.
pub(crate) async fn revoke(call: &Call<'_>, client: ClientId, key: KeyId) -> Result<(), ApiError> {
    changed(call.app, KeyCommand::Revoke { client, key, by: key_caller(call) }).await?;
    Ok(())
}

fn odd() -> ApiError {
    ApiError::internal(Kind::Internal, "a command about a key was answered without one")
}

/// The checked terms of a new key.
struct KeyTerms {
    name: Option<String>,
    scopes: Option<KeyScopes>,
    expires_at: Option<Time>,
}

fn terms(request: KeyRequest, now: Time) -> Result<KeyTerms, ApiError> {
    let KeyRequest { name, scopes, expires_at, .. } = request;
    if name.is_none() {
        let given = [("scopes", scopes.is_some()), ("expires_at", expires_at.is_some())];
        if let Some((member, _)) = given.into_iter().find(|(_, given)| *given) {
            return Err(wrong(
                member,
                "is for keys with a `name`: the primary key has all scopes",
                "dependentRequired",
            ));
        }
    }
    let parse_name =
        |name: String| ClientName::parse(&name).ok_or_else(|| wrong("name", ClientName::RULE, "length"));
    let known = || format!("must be one or more of {}", KeyScope::ALL.map(KeyScope::word).join(", "));
    let parse_scopes = |words: Vec<String>| {
        let scopes: Option<KeyScopes> = words.iter().map(|word| KeyScope::parse(word)).collect();
        scopes.filter(|scopes| !scopes.is_empty()).ok_or_else(|| wrong("scopes", &known(), "enum"))
    };
    let parse_expiry = |text: String| {
        let at = time::parse(&text).filter(|at| now < *at && *at <= now + KEY_TTL_MAX);
        at.ok_or_else(|| wrong("expires_at", "must be an RFC 3339 time within the next ten years", "range"))
    };
    Ok(KeyTerms {
        name: name.map(parse_name).transpose()?,
        scopes: scopes.map(parse_scopes).transpose()?,
        expires_at: expires_at.map(parse_expiry).transpose()?,
    })
}

fn wrong(member: &str, detail: &str, constraint: &'static str) -> ApiError {
    refused(Kind::MalformedRequest, vec![violation(member, detail, constraint)], &[member]).into()
}

fn overlap_rule() -> String {
    format!("a whole number from 0 to {}", KEY_OVERLAP_MAX.as_secs())
}

/// How long a replaced key stays valid.
fn overlap(seconds: Option<u64>) -> Result<Duration, ApiError> {
    let span = Duration::from_secs(seconds.unwrap_or_default());
    let is_short = span <= KEY_OVERLAP_MAX;
    is_short
        .then_some(span)
        .ok_or_else(|| wrong("overlap_s", &format!("must be {}", overlap_rule()), "range"))
}

/// A new key and its secret.
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
        name: None,
        scopes: KeyScopes::ALL,
    };
    (key, secret)
}
