//! Single sign-on by OpenID Connect: people log in at the dashboard with their identity provider,
//! and its tokens are accepted as bearer tokens of operators.
//!
//! | file | what |
//! |---|---|
//! | `jwt.rs` | tokens and keys: signatures and claims |
//! | `provider.rs` | calls to the provider |
//!
//! No library for this: a signature is one call of aws-lc, which is here anyway, and claims are
//! judged by the server's own clock. Nothing of the provider is needed to start, and only requests
//! with its tokens wait for it.

mod jwt;
mod provider;

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forgerun_core::catalog::Kind;
use forgerun_core::time::Time;
use forgerun_engine::Clock;
use forgerun_wire::problem::RefusedRequest;
use serde_json::Value;
use url::form_urlencoded;

use self::jwt::{Claims, ExpectedClaims};
use self::provider::{AGAIN_AFTER, KnownProvider, Provider};
use super::operator::{Operator, OperatorRole};
use super::sessions::Sessions;
use crate::config;
use crate::http::ApiError;
use crate::limits::OIDC_LOGIN_LASTS;

pub(crate) use self::jwt::BadToken;
pub(crate) use self::provider::ProviderFault;

/// The purpose of the signature of a log-in's cookie.
const LOGIN: &str = "login";

/// Single sign-on with one provider.
pub(crate) struct Oidc {
    issuer: String,
    terms: config::Oidc,
    provider: Arc<Provider>,
}

/// Why a person or a token is not an operator.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Denied {
    #[error("The token of the identity provider does not count: {0}.")]
    Token(BadToken),
    #[error("{name} has no role here: the claim `{claim}` names none of auth.oidc.roles.")]
    NoRole { name: String, claim: String },
    #[error("The identity provider cannot be asked: {0}.")]
    Provider(ProviderFault),
}

/// A log-in between the first page and the provider's answer, as its cookie holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PendingLogin {
    /// Used once.
    pub(crate) state: u128,
    nonce: String,
    verifier: String,
    pub(crate) until: Time,
    /// The page to go on to.
    pub(crate) next: String,
}

impl Oidc {
    /// `None` if no issuer is configured.
    pub(crate) fn new(terms: &config::Oidc) -> Option<Oidc> {
        let issuer = terms.issuer.clone()?;
        let provider = Arc::new(Provider::new(issuer.clone(), terms.clone()));
        Some(Oidc { issuer, terms: terms.clone(), provider })
    }

    /// Whether a bearer token may be one of the provider's.
    pub(crate) fn may_be_issuer_of(token: &str) -> bool {
        jwt::looks_signed(token)
    }

    pub(crate) fn is_issuer(&self, issuer: &str) -> bool {
        self.issuer == issuer
    }

    /// The operator whom a token of the provider is about.
    pub(crate) async fn operator(&self, token: &str, now: Time) -> Result<Operator, Denied> {
        let claims = self.claims(token, None, now).await?;
        self.operator_of(&claims, now)
    }

    /// Begins a log-in: the address to send the browser to, and the value of its cookie.
    pub(crate) async fn begin(
        &self,
        sessions: &Sessions,
        clock: &dyn Clock,
        redirect_uri: &str,
        next: &str,
    ) -> Result<(String, String), Denied> {
        let now = clock.now();
        let known = self.provider.known(now).await.map_err(Denied::Provider)?;
        let random = || format!("{:032x}", clock.random());
        let login = PendingLogin {
            state: clock.random(),
            nonce: random(),
            verifier: random() + &random(),
            until: now + OIDC_LOGIN_LASTS,
            next: next.to_owned(),
        };
        let challenge = URL_SAFE_NO_PAD.encode(digest(&SHA256, login.verifier.as_bytes()));
        let at = known.authorization.as_str();
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("response_type", "code").append_pair("client_id", &self.terms.client_id);
        query.append_pair("redirect_uri", redirect_uri).append_pair("scope", &self.terms.scopes.join(" "));
        query.append_pair("state", &login.state_text()).append_pair("nonce", &login.nonce);
        query.append_pair("code_challenge", &challenge).append_pair("code_challenge_method", "S256");
        let location = format!("{at}{}{}", if at.contains('?') { '&' } else { '?' }, query.finish());
        Ok((location, login.write(sessions)))
    }

    /// Ends a log-in with the provider's code: the operator who logged in.
    pub(crate) async fn finish(
        &self,
        login: &PendingLogin,
        code: &str,
        redirect_uri: &str,
        now: Time,
    ) -> Result<Operator, Denied> {
        let known = self.provider.known(now).await.map_err(Denied::Provider)?;
        let token = self.provider.id_token(&known, code, &login.verifier, redirect_uri).await;
        let claims = self.claims(&token.map_err(Denied::Provider)?, Some(&login.nonce), now).await?;
        self.operator_of(&claims, now)
    }

    /// The claims of a token. If its key is unknown, the provider is asked for its keys again.
    async fn claims(&self, token: &str, nonce: Option<&str>, now: Time) -> Result<Claims, Denied> {
        let (issuer, audience) = (&*self.issuer, &*self.terms.client_id);
        let expected = ExpectedClaims { issuer, audience, nonce, now };
        let known = self.provider.known(now).await.map_err(Denied::Provider)?;
        let verdict = |known: &KnownProvider| jwt::verify(token, &known.keys, &expected);
        let again = match verdict(&known) {
            Err(BadToken::UnknownKey) => self.provider.renewed(&known, now).await.ok(),
            other => return other.map_err(Denied::Token),
        };
        again.map_or(Err(BadToken::UnknownKey), |known| verdict(&known)).map_err(Denied::Token)
    }

    fn operator_of(&self, claims: &Claims, now: Time) -> Result<Operator, Denied> {
        let text = |name: &str| claims.get(name).and_then(Value::as_str);
        let subject = text("sub").unwrap_or_default();
        let name = ["preferred_username", "email", "name"].into_iter().find_map(text);
        let until = jwt::end(claims, now);
        let operator = |role| Operator::person(role, subject, name, until);
        match self.role(claims) {
            Some(role) => Ok(operator(role)),
            None => {
                let name = operator(OperatorRole::Viewer).name.to_string();
                Err(Denied::NoRole { name, claim: self.terms.role_claim.clone() })
            }
        }
    }

    /// The highest role that the claims give.
    fn role(&self, claims: &Claims) -> Option<OperatorRole> {
        let given = match claim(claims, &self.terms.role_claim)? {
            Value::String(one) => vec![one.as_str()],
            Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
            _ => return None,
        };
        let roles = self.terms.roles.iter();
        roles.filter(|(value, _)| given.contains(&value.as_str())).map(|(_, role)| *role).max()
    }
}

/// A claim by its name, or by its path such as `realm_access.roles`.
fn claim<'a>(claims: &'a Claims, name: &str) -> Option<&'a Value> {
    if let Some(value) = claims.get(name) {
        return Some(value);
    }
    let (first, rest) = name.split_once('.')?;
    claim(claims.get(first)?.as_object()?, rest)
}

impl PendingLogin {
    /// As the provider returns it.
    pub(crate) fn state_text(&self) -> String {
        format!("{:032x}", self.state)
    }

    fn write(&self, sessions: &Sessions) -> String {
        let next = URL_SAFE_NO_PAD.encode(&self.next);
        let (state, until) = (self.state_text(), self.until.as_micros());
        sessions.sign(LOGIN, &format!("{state}.{}.{}.{until}.{next}", self.nonce, self.verifier))
    }

    /// The log-in of a cookie. It may have expired, or been used.
    pub(crate) fn read(sessions: &Sessions, cookie: &str) -> Option<PendingLogin> {
        let mut parts = sessions.signed(LOGIN, cookie)?.split('.');
        let mut part = || parts.next();
        Some(PendingLogin {
            state: u128::from_str_radix(part()?, 16).ok()?,
            nonce: part()?.to_owned(),
            verifier: part()?.to_owned(),
            until: Time::from_micros(part()?.parse().ok()?),
            next: String::from_utf8(URL_SAFE_NO_PAD.decode(part()?).ok()?).ok()?,
        })
    }
}

impl From<Denied> for ApiError {
    fn from(denied: Denied) -> ApiError {
        let kind = match &denied {
            Denied::Token(_) | Denied::Provider(ProviderFault::Refused(_)) => Kind::Unauthenticated,
            Denied::NoRole { .. } => Kind::Forbidden,
            Denied::Provider(_) => Kind::DependencyTimeout,
        };
        let refused = RefusedRequest::new(kind, denied.to_string());
        match kind {
            Kind::DependencyTimeout => refused.retry_after(AGAIN_AFTER.as_secs()).into(),
            _ => refused.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn oidc(role_claim: &str) -> Oidc {
        let terms = config::Oidc {
            issuer: Some("https://idp.example".into()),
            client_id: "forgerun".into(),
            client_secret: None,
            scopes: vec!["openid".into()],
            role_claim: role_claim.into(),
            roles: vec![
                ("ops".into(), OperatorRole::Operator),
                ("all".into(), OperatorRole::Viewer),
                ("root".into(), OperatorRole::Admin),
            ],
        };
        Oidc::new(&terms).unwrap()
    }

    #[test]
    fn the_highest_role_counts_and_an_unknown_one_is_none() {
        for (path, claims, role) in [
            ("roles", json!({"roles": ["all", "ops", "x"]}), Some(OperatorRole::Operator)),
            ("roles", json!({"roles": "root"}), Some(OperatorRole::Admin)),
            ("roles", json!({"roles": ["admin", 7]}), None),
            ("roles", json!({"roles": {"root": true}}), None),
            ("roles", json!({}), None),
            ("realm_access.roles", json!({"realm_access": {"roles": ["all"]}}), Some(OperatorRole::Viewer)),
            ("https://x.example/r", json!({"https://x.example/r": ["ops"]}), Some(OperatorRole::Operator)),
        ] {
            assert_eq!(oidc(path).role(claims.as_object().unwrap()), role, "{claims}");
        }
    }

    #[test]
    fn a_log_in_is_read_back_from_its_own_cookie_only() {
        let sessions = Sessions::new(b"secret");
        let login = PendingLogin {
            state: 7,
            nonce: "n".into(),
            verifier: "v".into(),
            until: Time::from_millis(5),
            next: "/dashboard/jobs?q=a.b".into(),
        };
        let cookie = login.write(&sessions);
        assert_eq!(PendingLogin::read(&sessions, &cookie), Some(login));
        for other in
            ["", "x", &cookie.replacen(".n.", ".m.", 1), &Sessions::new(b"other").sign(LOGIN, "7.n.v.5.")]
        {
            assert_eq!(PendingLogin::read(&sessions, other), None, "{other}");
        }
        let session = sessions.open(7, &Operator::of_token(), Time::ZERO);
        assert_eq!(PendingLogin::read(&sessions, &session), None, "a session is no log-in");
    }
}
