//! Operator sessions in a browser. The cookie holds the session, its operator's name and role,
//! signed with a key derived from the operator's token and from the terms of single sign-on: every
//! node knows them, and new ones end all sessions. Only a logout is stored, until the session would
//! have expired: all nodes then refuse its cookie.
//!
//! Each form carries a second signature, which only pages of the same session have.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use aws_lc_rs::hmac;
use axum::http::HeaderMap;
use axum::http::header::COOKIE;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use forgerun_core::session::EndedSession;
use forgerun_core::time::Time;

use super::operator::{Operator, OperatorRole};
use crate::limits::{SESSION_LASTS, SESSIONS_ENDED_MAX};

/// Name of the cookie.
pub(crate) const SESSION_COOKIE: &str = "forgerun_session";

/// Creates and verifies sessions.
pub struct Sessions {
    key: hmac::Key,
    /// Known logouts, with the expiry of their sessions. Saves queries.
    ended: Mutex<BTreeMap<u128, Time>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OperatorSession {
    pub(crate) id: u128,
    pub(crate) until: Time,
}

impl Sessions {
    /// `secret` is derived from what the operator configured, or random without that.
    pub(crate) fn new(secret: &[u8]) -> Sessions {
        Sessions { key: hmac::Key::new(hmac::HMAC_SHA256, secret), ended: Mutex::default() }
    }

    /// A new session of an operator, with a random id; returns the value of its cookie.
    pub(crate) fn open(&self, id: u128, operator: &Operator, now: Time) -> String {
        let session = OperatorSession { id, until: now + SESSION_LASTS };
        let name = URL_SAFE_NO_PAD.encode(operator.name.as_bytes());
        self.sign("session", &format!("{}.{}.{name}", session.text(), operator.role.word()))
    }

    /// The session of a request, if its cookie is valid and no logout is known here.
    pub(crate) fn of(&self, headers: &HeaderMap, now: Time) -> Option<OperatorSession> {
        self.signed_in(headers, now).map(|(session, _)| session)
    }

    /// The session of a request, and its operator.
    pub(crate) fn signed_in(&self, headers: &HeaderMap, now: Time) -> Option<(OperatorSession, Operator)> {
        cookies(headers, SESSION_COOKIE).find_map(|cookie| self.read(cookie, now))
    }

    fn read(&self, cookie: &str, now: Time) -> Option<(OperatorSession, Operator)> {
        let mut parts = self.signed("session", cookie)?.split('.');
        let id = u128::from_str_radix(parts.next()?, 16).ok()?;
        let until = Time::from_micros(parts.next()?.parse().ok()?);
        let role = OperatorRole::parse(parts.next()?)?;
        let name = String::from_utf8(URL_SAFE_NO_PAD.decode(parts.next()?).ok()?).ok()?;
        let session = OperatorSession { id, until };
        let operator = Operator { role, name: name.into(), until: Some(until) };
        self.is_open(session, now).then_some((session, operator))
    }

    /// A text with its signature; neither this purpose nor the text can be another one.
    pub(crate) fn sign(&self, purpose: &str, text: &str) -> String {
        format!("{text}.{}", self.signature(purpose, text))
    }

    /// The text, if it was signed here for this purpose.
    pub(crate) fn signed<'a>(&self, purpose: &str, value: &'a str) -> Option<&'a str> {
        let (text, signature) = value.rsplit_once('.')?;
        self.is_signed(purpose, text, signature).then_some(text)
    }

    /// Whether a session is open, as far as is known here.
    pub(crate) fn is_open(&self, session: OperatorSession, now: Time) -> bool {
        now < session.until && !self.lock().contains_key(&session.id)
    }

    /// Ends a session; `false` if it is known here to have ended before.
    pub(crate) fn end(&self, session: OperatorSession, now: Time) -> bool {
        let mut ended = self.lock();
        ended.retain(|_, until| now < *until);
        // Beyond the bound, the store alone knows.
        ended.len() >= SESSIONS_ENDED_MAX || ended.insert(session.id, session.until).is_none()
    }

    /// The CSRF token of a session's forms. Pages without a session share one.
    pub(crate) fn form_token(&self, session: Option<OperatorSession>) -> String {
        self.signature("form", &form_text(session))
    }

    /// Whether the CSRF token is of this session.
    pub(crate) fn is_form_token(&self, session: Option<OperatorSession>, token: &str) -> bool {
        self.is_signed("form", &form_text(session), token)
    }

    fn signature(&self, purpose: &str, text: &str) -> String {
        let tag = hmac::sign(&self.key, format!("{purpose} {text}").as_bytes());
        tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn is_signed(&self, purpose: &str, text: &str, signature: &str) -> bool {
        use subtle::ConstantTimeEq;
        bool::from(self.signature(purpose, text).as_bytes().ct_eq(signature.as_bytes()))
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u128, Time>> {
        // The map is never half changed, so a panic elsewhere is harmless.
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OperatorSession {
    /// Key of the record of its logout.
    pub(crate) fn end_key(&self) -> String {
        EndedSession::key_of(self.id)
    }

    /// The record of its logout.
    pub(crate) fn ended(&self) -> EndedSession {
        EndedSession { id: self.id, until: self.until }
    }

    fn text(&self) -> String {
        format!("{:032x}.{}", self.id, self.until.as_micros())
    }
}

fn form_text(session: Option<OperatorSession>) -> String {
    session.map(|session| session.text()).unwrap_or_default()
}

/// The values of a cookie; a browser may send several of one name.
pub(crate) fn cookies<'a>(headers: &'a HeaderMap, name: &'a str) -> impl Iterator<Item = &'a str> {
    let lines = headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
    let pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
    pairs.filter(move |(known, _)| *known == name).map(|(_, value)| value)
}

/// Which requests a browser sends a cookie with.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SameSite {
    /// Those of our own pages.
    Strict,
    /// Links of other sites, too, as from the page of an identity provider.
    Lax,
}

/// A cookie for the dashboard only, inaccessible to scripts.
pub(crate) fn set_cookie(
    name: &str,
    value: &str,
    lasts: Duration,
    same_site: SameSite,
    is_secure: bool,
) -> String {
    let secure = if is_secure { "; Secure" } else { "" };
    let lasts = lasts.as_secs();
    format!("{name}={value}; Path=/dashboard; Max-Age={lasts}; HttpOnly; SameSite={same_site:?}{secure}")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    const NOW: Time = Time::from_millis(1_000_000);

    fn with(cookie: &str) -> HeaderMap {
        let line = format!("other=1; {SESSION_COOKIE}={cookie}");
        HeaderMap::from_iter([(COOKIE, HeaderValue::from_str(&line).unwrap())])
    }

    #[test]
    fn a_session_is_known_by_its_signature_until_it_ends() {
        let sessions = Sessions::new(b"token");
        let cookie = sessions.open(7, &Operator::of_token(), NOW);
        let session = sessions.of(&with(&cookie), NOW).unwrap();
        assert_eq!(session, OperatorSession { id: 7, until: NOW + SESSION_LASTS });
        assert_eq!(sessions.of(&with(&cookie), NOW + SESSION_LASTS), None);
        assert_eq!(Sessions::new(b"another").of(&with(&cookie), NOW), None, "a new token ends it");
        let longer = cookie.replacen("0007.", "0007.9", 1);
        for forged in ["", ".", "7.8.9", longer.as_str(), &cookie[1..], &cookie[..cookie.len() - 1]] {
            assert_eq!(sessions.of(&with(forged), NOW), None, "{forged}");
        }
        let viewer = Operator::person(OperatorRole::Viewer, "u-1", Some("Ada . é"), session.until);
        let of_viewer = sessions.open(8, &viewer, NOW);
        assert_eq!(
            sessions.signed_in(&with(&of_viewer), NOW),
            Some((OperatorSession { id: 8, ..session }, viewer))
        );
        let raised = of_viewer.replace("viewer", "admin");
        assert_eq!(sessions.of(&with(&raised), NOW), None, "another role");
        assert_eq!(sessions.signed("login", &cookie), None, "another purpose");
        sessions.end(session, NOW);
        assert_eq!(sessions.of(&with(&cookie), NOW), None, "logged out");
    }

    #[test]
    fn a_form_is_of_one_session() {
        let sessions = Sessions::new(b"token");
        let of = |id| sessions.of(&with(&sessions.open(id, &Operator::of_token(), NOW)), NOW);
        let token = sessions.form_token(of(1));
        assert!(sessions.is_form_token(of(1), &token));
        for other in [of(2), None] {
            assert!(!sessions.is_form_token(other, &token));
        }
        assert!(!sessions.is_form_token(of(1), ""));
        assert!(sessions.is_form_token(None, &sessions.form_token(None)));
    }
}
