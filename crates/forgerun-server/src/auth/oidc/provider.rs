//! Calls to the identity provider: where its endpoints are, its keys, and codes for tokens. Each
//! call is bounded in time and size, and few run at once. Keys are kept for a while, so that a
//! provider that is down costs log-ins only.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use axum::http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{Method, Request, StatusCode, request};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use forgerun_core::time::Time;
use http_body_util::{BodyExt, Full, Limited};
use serde_json::Value;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::timeout;
use url::form_urlencoded;

use super::jwt::ProviderKey;
use crate::config::{Oidc, PrivateTargets, Secret};
use crate::limits::{
    OIDC_ANSWER_BYTES_MAX, OIDC_ASKED_EVERY, OIDC_CALL_TIMEOUT, OIDC_CALLS_MAX, OIDC_KEYS_FRESH,
};
use crate::webhooks::{Dialler, SendError, SystemResolver, Target};

/// Why the provider was of no help.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ProviderFault {
    #[error("{0}")]
    Call(#[from] SendError),
    #[error("{0} is not an https address, or one on loopback of a provider there")]
    Address(&'static str),
    #[error("its configuration lacks {0}")]
    Lacks(&'static str),
    #[error("its configuration is of another issuer")]
    Issuer,
    #[error("its answer is not JSON")]
    NoJson,
    #[error("it was asked a moment ago")]
    Waiting,
    /// It refused a code, for this reason.
    #[error("it refused the code of the log-in: {0}")]
    Refused(String),
}

/// What is known of the provider.
pub(super) struct KnownProvider {
    pub(super) authorization: Target,
    token: Target,
    /// Whether it takes the secret in the body only.
    secret_in_body: bool,
    pub(super) keys: Vec<ProviderKey>,
    read_at: Time,
}

pub(super) struct Provider {
    issuer: String,
    terms: Oidc,
    dialler: Dialler,
    places: Semaphore,
    known: RwLock<Option<Arc<KnownProvider>>>,
    /// When it was asked last. Held while it is asked.
    asked_at: Mutex<Option<Time>>,
}

impl Provider {
    pub(super) fn new(issuer: String, terms: Oidc) -> Provider {
        let resolver = Arc::new(SystemResolver::default());
        Provider {
            issuer,
            terms,
            dialler: Dialler::new(resolver, PrivateTargets::Allow, None),
            places: Semaphore::new(OIDC_CALLS_MAX),
            known: RwLock::default(),
            asked_at: Mutex::default(),
        }
    }

    /// What is known, from a call if nothing is. Old knowledge is renewed beside the request.
    pub(super) async fn known(self: &Arc<Self>, now: Time) -> Result<Arc<KnownProvider>, ProviderFault> {
        let Some(known) = self.current() else { return self.ask(None, now).await };
        let age = now.as_micros().abs_diff(known.read_at.as_micros());
        if age > OIDC_KEYS_FRESH.as_micros() as u64 && self.asked_at.try_lock().is_ok() {
            let (provider, old) = (self.clone(), known.clone());
            tokio::spawn(async move { provider.ask(Some(&old), now).await.map(drop) });
        }
        Ok(known)
    }

    /// Asks again, because a key is missing in what is known. Bounded: in between nothing is asked.
    pub(super) async fn renewed(
        &self,
        old: &Arc<KnownProvider>,
        now: Time,
    ) -> Result<Arc<KnownProvider>, ProviderFault> {
        self.ask(Some(old), now).await
    }

    fn current(&self) -> Option<Arc<KnownProvider>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Asks the provider, unless it was asked a moment ago or another request has just done so.
    async fn ask(
        &self,
        old: Option<&Arc<KnownProvider>>,
        now: Time,
    ) -> Result<Arc<KnownProvider>, ProviderFault> {
        let mut asked_at = self.asked_at.lock().await;
        match (self.current(), old) {
            (Some(current), None) => return Ok(current),
            (Some(current), Some(old)) if !Arc::ptr_eq(&current, old) => return Ok(current),
            (Some(_), Some(_)) | (None, _) => {}
        }
        let pause = OIDC_ASKED_EVERY.as_micros() as u64;
        if asked_at.is_some_and(|at| now.as_micros().abs_diff(at.as_micros()) < pause) {
            return Err(ProviderFault::Waiting);
        }
        *asked_at = Some(now);
        match self.read(now).await {
            Ok(known) => {
                let known = Arc::new(known);
                *self.known.write().unwrap_or_else(PoisonError::into_inner) = Some(known.clone());
                Ok(known)
            }
            Err(fault) => {
                tracing::warn!(issuer = self.issuer, error = %fault, "identity provider not read");
                Err(fault)
            }
        }
    }

    async fn read(&self, now: Time) -> Result<KnownProvider, ProviderFault> {
        let issuer = self.issuer.trim_end_matches('/');
        let document = self.get(&format!("{issuer}/.well-known/openid-configuration"), "the issuer").await?;
        if document.get("issuer").and_then(Value::as_str) != Some(&self.issuer) {
            return Err(ProviderFault::Issuer);
        }
        let address = |name: &'static str| {
            let text = document.get(name).and_then(Value::as_str).ok_or(ProviderFault::Lacks(name))?;
            self.target(text, name).map(|target| (text, target))
        };
        let (authorization, token) = (address("authorization_endpoint")?.1, address("token_endpoint")?.1);
        let keys = ProviderKey::all(&self.get(address("jwks_uri")?.0, "jwks_uri").await?);
        let ways = document.get("token_endpoint_auth_methods_supported").and_then(Value::as_array);
        let has = |way: &str| ways.is_none_or(|ways| ways.iter().any(|known| known == way));
        let secret_in_body = !has("client_secret_basic");
        Ok(KnownProvider { authorization, token, secret_in_body, keys, read_at: now })
    }

    /// Fetches the ID token for a code.
    pub(super) async fn id_token(
        &self,
        known: &KnownProvider,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> Result<String, ProviderFault> {
        let (request, form) = self.token_request(known, code, verifier, redirect_uri);
        let (status, body) = self.call(&known.token, request, form).await?;
        let answer: Value = serde_json::from_slice(&body).map_err(|_| ProviderFault::NoJson)?;
        let text = |name: &str| answer.get(name).and_then(Value::as_str);
        match text("id_token") {
            Some(token) if status == StatusCode::OK => Ok(token.to_owned()),
            Some(_) | None if status.is_server_error() => Err(SendError::Status(status.as_u16()).into()),
            Some(_) | None => {
                let error: String = text("error").unwrap_or("no ID token").chars().take(80).collect();
                Err(ProviderFault::Refused(error))
            }
        }
    }

    /// The request for a token, and its body.
    fn token_request(
        &self,
        known: &KnownProvider,
        code: &str,
        verifier: &str,
        redirect_uri: &str,
    ) -> (request::Builder, String) {
        let (id, secret) =
            (&*self.terms.client_id, self.terms.client_secret.as_ref().map_or("", Secret::expose));
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("grant_type", "authorization_code");
        form.append_pair("code", code).append_pair("code_verifier", verifier);
        form.append_pair("redirect_uri", redirect_uri);
        if known.secret_in_body {
            form.append_pair("client_id", id).append_pair("client_secret", secret);
        }
        let request = Request::builder().method(Method::POST);
        let mut request = request.header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if !known.secret_in_body {
            // Encoded first (RFC 6749, 2.3.1).
            let part = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = STANDARD.encode(format!("{}:{}", part(id), part(secret)));
            request = request.header(AUTHORIZATION, format!("Basic {pair}"));
        }
        (request, form.finish())
    }

    async fn get(&self, url: &str, name: &'static str) -> Result<Value, ProviderFault> {
        let target = self.target(url, name)?;
        let (status, body) = self.call(&target, Request::builder(), String::new()).await?;
        if status != StatusCode::OK {
            return Err(SendError::Status(status.as_u16()).into());
        }
        serde_json::from_slice(&body).map_err(|_| ProviderFault::NoJson)
    }

    /// An address of the provider. In the clear only on this machine, and only if its issuer is.
    fn target(&self, url: &str, name: &'static str) -> Result<Target, ProviderFault> {
        let is_local = self.issuer.starts_with("http://");
        let target = Target::parse(url, PrivateTargets::Allow).ok();
        let target = target.filter(|target| target.is_https() || (is_local && target.is_loopback()));
        target.ok_or(ProviderFault::Address(name))
    }

    /// One request, and its whole answer.
    async fn call(
        &self,
        target: &Target,
        request: request::Builder,
        body: String,
    ) -> Result<(StatusCode, Bytes), SendError> {
        let request = request.uri(target.path_and_query()).header(HOST, target.authority());
        let request = request.header(ACCEPT, "application/json").body(Full::new(Bytes::from(body)));
        let request = request.map_err(|_| SendError::BadTarget)?;
        let exchange = async {
            let _place = self.places.acquire().await.map_err(|_| SendError::Closed)?;
            let mut connection = self.dialler.dial(target).await?;
            let answer = connection.requests.send_request(request).await.map_err(|_| SendError::Closed)?;
            let (head, body) = answer.into_parts();
            let body = Limited::new(body, OIDC_ANSWER_BYTES_MAX).collect().await;
            Ok((head.status, body.map_err(|_| SendError::Closed)?.to_bytes()))
        };
        timeout(OIDC_CALL_TIMEOUT, exchange).await.unwrap_or(Err(SendError::Slow))
    }
}

/// When a request that found the provider down may be repeated.
pub(super) const AGAIN_AFTER: Duration = OIDC_ASKED_EVERY;
