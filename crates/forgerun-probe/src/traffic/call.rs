//! A request of a client before it is sent: small, and easy to show.

use std::rc::Rc;

use bytes::Bytes;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderValue, Method, Request};
use http_body_util::Full;

use super::tally::Class;
use super::violation::cut;

/// The header value of a client's key.
pub(super) type Key = Option<Rc<HeaderValue>>;

#[derive(Clone, Debug)]
pub(super) struct Call {
    pub(super) method: Method,
    pub(super) path: String,
    pub(super) class: Class,
    accept: HeaderValue,
    key: Key,
    idempotency_key: Option<String>,
    body: Option<Bytes>,
}

const JSON: HeaderValue = HeaderValue::from_static("application/json");

impl Call {
    pub(super) fn get(path: String, key: &Key) -> Call {
        Call {
            method: Method::GET,
            path,
            class: Class::Other,
            accept: JSON,
            key: key.clone(),
            idempotency_key: None,
            body: None,
        }
    }

    pub(super) fn post(path: String, key: &Key, body: impl Into<Bytes>) -> Call {
        Call { method: Method::POST, body: Some(body.into()), ..Call::get(path, key) }
    }

    pub(super) fn class(self, class: Class) -> Call {
        Call { class, ..self }
    }

    /// Asks for the failure object.
    pub(super) fn for_problem(self) -> Call {
        Call { accept: HeaderValue::from_static("application/problem+json"), ..self }
    }

    pub(super) fn idempotent(self, key: Option<String>) -> Call {
        Call { idempotency_key: key, ..self }
    }

    /// Whether a repetition is harmless.
    pub(super) fn is_repeatable(&self) -> bool {
        self.method == Method::GET || self.idempotency_key.is_some()
    }

    pub(super) fn request(&self, host: &HeaderValue) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone().unwrap_or_default()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.path.parse().expect("paths are made here");
        let headers = request.headers_mut();
        headers.insert(HOST, host.clone());
        headers.insert(ACCEPT, self.accept.clone());
        if let Some(key) = &self.key {
            headers.insert(AUTHORIZATION, key.as_ref().clone());
        }
        if self.body.as_ref().is_some_and(|body| !body.is_empty()) {
            headers.insert(CONTENT_TYPE, JSON);
        }
        if let Some(key) = self.idempotency_key.as_deref().and_then(|key| HeaderValue::from_str(key).ok()) {
            headers.insert("idempotency-key", key);
        }
        request
    }

    pub(super) fn shown(&self) -> String {
        let body = self.body.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        cut(&format!("{} {} {body}", self.method, self.path)).trim_end().to_owned()
    }

    pub(super) fn curl(&self, base: &str) -> String {
        let mut curl = format!("curl -i -X {} '{}{}'", self.method, base.trim_end_matches('/'), self.path);
        curl += &format!(" -H 'Accept: {}'", self.accept.to_str().unwrap_or_default());
        if self.key.is_some() {
            curl += " -H \"Authorization: Bearer $FORGERUN_API_KEY\"";
        }
        if let Some(key) = &self.idempotency_key {
            curl += &format!(" -H 'Idempotency-Key: {key}'");
        }
        if let Some(body) = self.body.as_deref().filter(|body| !body.is_empty()) {
            let body = String::from_utf8_lossy(body).replace('\'', "'\\''");
            curl += &format!(" -H 'Content-Type: application/json' -d '{body}'");
        }
        curl
    }
}
