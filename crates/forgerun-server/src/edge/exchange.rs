//! One request, and what was learned of it on its way.

use std::net::IpAddr;
use std::sync::OnceLock;

use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::job::Dialect;
use forgerun_core::time::Time;
use forgerun_problem::CorrelationId;
use forgerun_wire::body::{refused, violation};
use forgerun_wire::language::Language;

use super::auth::Caller;
use super::forwarded::real_address;
use super::local::{self, RequestOrigin};
use super::prefer::Prefer;
use super::rate::RateStatus;
use super::refusal::ApiError;
use super::routing::{Api, Parameters};
use crate::app::App;
use crate::config::PrivateTargets;
use crate::limits::TRACESTATE_BYTES_MAX;
use crate::traces::RequestSubject;
use crate::webhooks::Target;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");

/// Bytes of a client's request id that are shown again.
const REQUEST_ID_BYTES_MAX: usize = 128;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// One request, and what was learned of it on its way.
pub struct Exchange {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// From where: who connected, or whom a trusted proxy names.
    pub address: IpAddr,
    version: Version,
    pub began: Time,
    /// The id the server gave it, as a header.
    pub id: HeaderValue,
    /// The API that it belongs to; `None` for a page.
    pub(crate) api: Option<&'static dyn Api>,
    /// Whose spelling its answer has.
    pub dialect: Dialect,
    /// Where it goes, for metrics and traces: the pattern of its route.
    pub route: &'static str,
    /// What it wants done, for logs and traces, in one word; empty if that is nothing we know.
    pub action: &'static str,
    /// Where the parameters of its path stand.
    pub(crate) parameters: Parameters,
    /// The job it is about, if its id is one.
    pub subject: Option<JobId>,
    /// Who asks, once that is known.
    pub caller: Option<Caller>,
    /// What the client would like.
    pub prefer: Prefer,
    /// Where the caller stands with its limit.
    pub(crate) rate_status: Option<RateStatus>,
    /// The trace-id of the caller, the best correlation there is.
    trace_id: Option<CorrelationId>,
    /// What the caller calls the request.
    correlation_id: Option<CorrelationId>,
    /// Whether it is counted among the calls of workers.
    pub(crate) is_worker_call: bool,
    /// What it turned out to be about.
    request_subject: OnceLock<RequestSubject>,
}

impl Exchange {
    /// Takes in a request. The client's ids are sanitised, never refused: a tracing aid must not
    /// fail the call (C-30).
    pub(crate) fn begin(app: &App, parts: Parts, peer: IpAddr) -> Exchange {
        let Parts { method, uri, headers, version, .. } = parts;
        let id = app.engine.execution_id().to_string();
        let traceparent = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        Exchange {
            trace_id: traceparent.and_then(CorrelationId::from_traceparent),
            correlation_id: headers.get(CORRELATION_ID).and_then(sanitized),
            prefer: Prefer::of(&headers, app.bounds.wait_max),
            method,
            uri,
            address: real_address(&app.config.server.trusted_proxies, peer, &headers),
            headers,
            version,
            began: app.clock.now(),
            id: HeaderValue::try_from(id).expect("a UUID is ASCII"),
            api: None,
            dialect: Dialect::Forge,
            route: "",
            action: "",
            parameters: Parameters::default(),
            subject: None,
            caller: None,
            rate_status: None,
            is_worker_call: false,
            request_subject: OnceLock::new(),
        }
    }

    /// The media types that answers of its API come in.
    pub(crate) fn media_types(&self) -> &'static [&'static str] {
        self.api.map_or(&["application/json"][..], Api::media_types)
    }

    /// A parameter of its path as it was sent, not decoded.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(self.uri.path(), name)
    }

    /// The id the server gave the request.
    pub fn request_id(&self) -> &str {
        self.id.to_str().expect("a UUID is ASCII")
    }

    /// The id of the request as OJS wants it shown: the client's own if it is well formed, or else
    /// the server's (C-100).
    pub(crate) fn shown_request_id(&self) -> HeaderValue {
        let own = || format!("req_{}", self.request_id());
        self.given_request_id().unwrap_or_else(|| HeaderValue::try_from(own()).expect("a UUID is ASCII"))
    }

    /// What the client calls the request, if that can be shown.
    fn given_request_id(&self) -> Option<HeaderValue> {
        let well_formed = |value: &&HeaderValue| {
            (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
                && value.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        self.headers.get(REQUEST_ID).filter(well_formed).cloned()
    }

    /// Notes what the request turned out to be about. The first word counts.
    pub(crate) fn set_subject(&self, subject: RequestSubject) {
        let _ = self.request_subject.set(subject);
    }

    /// What the request turned out to be about, once that is known.
    pub(crate) fn request_subject(&self) -> Option<&RequestSubject> {
        self.request_subject.get()
    }

    /// What the client supplied to find its request again: a trace-id first, then its own word,
    /// then that of the body (ruling C-29).
    pub fn correlation(&self, of_body: Option<&str>) -> Option<CorrelationId> {
        let of_headers = self.trace_id.as_ref().or(self.correlation_id.as_ref()).cloned();
        of_headers.or_else(|| of_body.and_then(CorrelationId::sanitize))
    }

    /// The language the client wants problems explained in. A submission leaves it to the job's
    /// outcome (C-96): `Head { language: exchange.language().stored(), .. }`.
    pub fn language(&self) -> Language {
        language_of(&self.headers)
    }

    /// The W3C trace context, if the request brought one that can be read.
    pub fn trace_context(&self) -> (Option<String>, Option<String>) {
        if self.trace_id.is_none() {
            return (None, None);
        }
        let text = |name| self.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let traceparent = text(TRACEPARENT).map(|value| value.trim().to_owned());
        let tracestate = text(TRACESTATE).filter(|value| value.len() <= TRACESTATE_BYTES_MAX);
        (traceparent, tracestate.map(str::to_owned))
    }

    /// Where the request stands in a trace: as its caller says, or in one of its own that begins
    /// with its id.
    pub(crate) fn traceparent(&self) -> String {
        if let Some(given) = self.trace_context().0 {
            return given;
        }
        let id = self.request_id().replace('-', "");
        format!("00-{id}-{}-00", &id[16..])
    }

    /// Writes the ids that every answer carries.
    pub(crate) fn write_ids(&self, headers: &mut HeaderMap) {
        let correlation = match self.correlation_id.as_ref().or(self.trace_id.as_ref()) {
            Some(id) => HeaderValue::from_str(id.as_str()).expect("a sanitised id is ASCII"),
            None => self.id.clone(),
        };
        // Who looks whether we are alive wants to find its own id (C-100).
        let is_probe = matches!(self.uri.path(), "/health" | "/ready");
        let given = if is_probe { self.given_request_id() } else { None };
        headers.insert(REQUEST_ID, given.unwrap_or_else(|| self.id.clone()));
        headers.insert(CORRELATION_ID, correlation);
        if let Some(traceparent) = self.trace_id.as_ref().and_then(|_| self.headers.get(TRACEPARENT)) {
            headers.insert(TRACEPARENT, traceparent.clone());
        }
    }

    /// Refuses a request that does not say which host it means.
    pub(crate) fn check_host(&self) -> Result<(), ApiError> {
        local::check_host(self.version, &self.headers)
    }

    /// Whether it comes from this machine and gets what is relaxed there; otherwise why not, in
    /// words that follow "because".
    pub fn check_local(&self, app: &App) -> Result<(), String> {
        let origin = RequestOrigin { version: self.version, uri: &self.uri, headers: &self.headers };
        local::check(&app.config.server, origin)
    }

    /// The URL of a webhook as it is kept, if a webhook that this request asks for may lead there.
    pub fn webhook_url(&self, app: &App, url: &str) -> Result<String, ApiError> {
        let target = Target::parse_new(url, self.private_targets(app)).map_err(|objection| {
            let wrong = violation("url", &objection.to_string(), "format");
            refused(Kind::InvalidCallbackUrl, vec![wrong], &["url"])
        })?;
        Ok(target.as_str().to_owned())
    }

    /// Whether the webhooks it asks for may lead to private addresses.
    pub fn private_targets(&self, app: &App) -> PrivateTargets {
        match app.config.webhooks.private_targets {
            PrivateTargets::Local if self.check_local(app).is_err() => PrivateTargets::Deny,
            configured => configured,
        }
    }

    /// Whether it only looks.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}

/// The language that a request wants problems and pages in; several lines of `Accept-Language`
/// count as one.
pub(crate) fn language_of(headers: &HeaderMap) -> Language {
    let mut lines = headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|line| line.to_str().ok());
    let Some(first) = lines.next() else { return Language::English };
    let all = lines.fold(first.to_owned(), |all, line| all + "," + line);
    Language::wanted(Some(&all))
}

/// A header may hold any bytes; those that are not ASCII are dropped like all that is not harmless.
fn sanitized(value: &HeaderValue) -> Option<CorrelationId> {
    CorrelationId::sanitize(&String::from_utf8_lossy(value.as_bytes()))
}
