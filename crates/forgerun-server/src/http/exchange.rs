//! One request, and what its processing finds out.

use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use axum::body::HttpBody;
use axum::http::header::ACCEPT_LANGUAGE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::job::Dialect;
use forgerun_core::time::Time;
use forgerun_problem::CorrelationId;
use forgerun_wire::body::{refused, violation};
use forgerun_wire::language::Language;

use crate::app::App;
use crate::auth::{Caller, Operator, Who};
use crate::config::PrivateTargets;
use crate::http::{
    ApiError,
    forwarded::real_address,
    local::{self, RequestOrigin},
    prefer::Prefer,
    routing::{Api, Parameters, operation::Operation},
};
use crate::limits::{TRACESTATE_BYTES_MAX, byte_budget::ByteHolder, rate::RateStatus, unread::UnreadAnswers};
use crate::traces::RequestSubject;
use crate::webhooks::Target;

pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
pub(crate) const CORRELATION_ID: HeaderName = HeaderName::from_static("x-correlation-id");

/// Bytes of a client's request id that are echoed.
const REQUEST_ID_BYTES_MAX: usize = 128;

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

/// Marks an answer of which not all bytes are memory of its own.
#[derive(Clone, Copy)]
pub(crate) enum BodyMemory {
    /// It is shared with others.
    Shared,
    /// It is read piece by piece.
    Streamed,
}

/// One request, and what its processing finds out.
pub struct Exchange {
    pub method: Method,
    pub uri: Uri,
    pub headers: HeaderMap,
    /// The peer's address, or the client's if a trusted proxy names it.
    pub address: IpAddr,
    version: Version,
    pub began: Time,
    /// The server's request id, as a header.
    pub id: HeaderValue,
    /// `None` for a page.
    pub(crate) api: Option<&'static dyn Api>,
    /// Dialect of its answer.
    pub dialect: Dialect,
    /// The pattern of its route, for metrics and traces.
    pub route: &'static str,
    /// Its action in one word, for logs and traces; empty if unknown.
    pub action: &'static str,
    /// What its route says of it; nothing for a page.
    pub(crate) operation: &'static Operation,
    /// Where the parameters of its path stand.
    pub(crate) parameters: Parameters,
    /// The job id in the path, if it is valid.
    pub subject: Option<JobId>,
    /// The caller, once authenticated.
    pub caller: Option<Caller>,
    /// The operator, once authenticated.
    pub operator: Option<Operator>,
    /// The client's preferences.
    pub prefer: Prefer,
    /// The caller's rate limit after this request.
    pub(crate) rate_status: Option<RateStatus>,
    /// The caller, for memory budgets.
    pub(crate) holder: ByteHolder,
    /// The unread answers of its connection, over HTTP/2.
    unread: Option<Arc<UnreadAnswers>>,
    /// Trace id of the caller, the best correlation id.
    trace_id: Option<CorrelationId>,
    /// Correlation id of the caller.
    correlation_id: Option<CorrelationId>,
    /// Whether it counts as a worker call.
    pub(crate) is_worker_call: bool,
    /// The job or key it is about, once known.
    request_subject: OnceLock<RequestSubject>,
}

impl Exchange {
    /// Starts an exchange. The client's ids are sanitised, never refused: a tracing aid must not
    /// fail the call (C-30).
    pub(crate) fn begin(app: &App, parts: Parts, peer: IpAddr) -> Exchange {
        let Parts { method, uri, headers, version, mut extensions, .. } = parts;
        let id = app.engine.execution_id().to_string();
        let traceparent = headers.get(TRACEPARENT).and_then(|value| value.to_str().ok());
        let address = real_address(&app.config.server.trusted_proxies, peer, &headers);
        Exchange {
            holder: ByteHolder::new(&Who::Anonymous, address),
            unread: extensions.remove(),
            trace_id: traceparent.and_then(CorrelationId::from_traceparent),
            correlation_id: headers.get(CORRELATION_ID).and_then(sanitized),
            prefer: Prefer::of(&headers, app.bounds.wait_max),
            method,
            uri,
            address,
            headers,
            version,
            began: app.clock.now(),
            id: HeaderValue::try_from(id).expect("a UUID is ASCII"),
            api: None,
            dialect: Dialect::Forge,
            route: "",
            action: "",
            operation: &Operation::NONE,
            parameters: Parameters::default(),
            subject: None,
            caller: None,
            operator: None,
            rate_status: None,
            is_worker_call: false,
            request_subject: OnceLock::new(),
        }
    }

    /// The media types of its API's answers.
    pub(crate) fn media_types(&self) -> &'static [&'static str] {
        self.api.map_or(&["application/json"][..], Api::media_types)
    }

    /// A path parameter as sent, not decoded.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.get(self.uri.path(), name)
    }

    /// The server's request id.
    pub fn request_id(&self) -> &str {
        self.id.to_str().expect("a UUID is ASCII")
    }

    /// The request id in OJS answers: the client's own if it is well formed, else the server's
    /// (C-100).
    pub(crate) fn shown_request_id(&self) -> HeaderValue {
        let own = || format!("req_{}", self.request_id());
        self.given_request_id().unwrap_or_else(|| HeaderValue::try_from(own()).expect("a UUID is ASCII"))
    }

    /// The client's request id, if it is well formed.
    fn given_request_id(&self) -> Option<HeaderValue> {
        let well_formed = |value: &&HeaderValue| {
            (1..=REQUEST_ID_BYTES_MAX).contains(&value.len())
                && value.as_bytes().iter().all(u8::is_ascii_graphic)
        };
        self.headers.get(REQUEST_ID).filter(well_formed).cloned()
    }

    /// Sets the job or key of the request. The first call counts.
    pub(crate) fn set_subject(&self, subject: RequestSubject) {
        let _ = self.request_subject.set(subject);
    }

    /// The job or key of the request, once known.
    pub(crate) fn request_subject(&self) -> Option<&RequestSubject> {
        self.request_subject.get()
    }

    /// Correlation id: the trace id, else the client's header, else the body's (ruling C-29).
    pub fn correlation(&self, of_body: Option<&str>) -> Option<CorrelationId> {
        let of_headers = self.trace_id.as_ref().or(self.correlation_id.as_ref()).cloned();
        of_headers.or_else(|| of_body.and_then(CorrelationId::sanitize))
    }

    /// The client's language for problems. A submission stores it with the job for its outcome
    /// (C-96): `Head { language: exchange.language().stored(), .. }`.
    pub fn language(&self) -> Language {
        language_of(&self.headers)
    }

    /// The W3C trace context, if the request has a valid one.
    pub fn trace_context(&self) -> (Option<String>, Option<String>) {
        if self.trace_id.is_none() {
            return (None, None);
        }
        let text = |name| self.headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
        let traceparent = text(TRACEPARENT).map(|value| value.trim().to_owned());
        let tracestate = text(TRACESTATE).filter(|value| value.len() <= TRACESTATE_BYTES_MAX);
        (traceparent, tracestate.map(str::to_owned))
    }

    /// The request's trace context: its caller's, or a new one that begins with the request id.
    pub(crate) fn traceparent(&self) -> String {
        if let Some(given) = self.trace_context().0 {
            return given;
        }
        let id = self.request_id().replace('-', "");
        format!("00-{id}-{}-00", &id[16..])
    }

    /// Writes the ids of every answer.
    pub(crate) fn write_ids(&self, headers: &mut HeaderMap) {
        let correlation = match self.correlation_id.as_ref().or(self.trace_id.as_ref()) {
            Some(id) => HeaderValue::from_str(id.as_str()).expect("a sanitised id is ASCII"),
            None => self.id.clone(),
        };
        // Health checks look for their own id (C-100).
        let is_probe = matches!(self.uri.path(), "/health" | "/ready");
        let given = if is_probe { self.given_request_id() } else { None };
        headers.insert(REQUEST_ID, given.unwrap_or_else(|| self.id.clone()));
        headers.insert(CORRELATION_ID, correlation);
        if let Some(traceparent) = self.trace_id.as_ref().and_then(|_| self.headers.get(TRACEPARENT)) {
            headers.insert(TRACEPARENT, traceparent.clone());
        }
    }

    /// Charges an answer over HTTP/2 to its caller until it is read.
    pub(crate) fn charge(&self, mut response: Response) -> Result<Response, ApiError> {
        let Some(unread) = &self.unread else { return Ok(response) };
        let n_bytes = response.body().size_hint().exact().unwrap_or(0);
        let charge = match response.extensions().get::<BodyMemory>() {
            Some(BodyMemory::Shared) => unread.begin_shared(),
            Some(BodyMemory::Streamed) => unread.begin(self.holder, 0)?,
            None => unread.begin(self.holder, usize::try_from(n_bytes).unwrap_or(usize::MAX))?,
        };
        response.extensions_mut().insert(charge);
        Ok(response)
    }

    /// Refuses a request without a valid `Host`.
    pub(crate) fn check_host(&self) -> Result<(), ApiError> {
        local::check_host(self.version, &self.headers)
    }

    /// Whether the request is local and gets relaxed rules; otherwise the reason, in words that
    /// follow "because".
    pub fn check_local(&self, app: &App) -> Result<(), String> {
        let origin = RequestOrigin { version: self.version, uri: &self.uri, headers: &self.headers };
        local::check(&app.config.server, origin)
    }

    /// The normalised URL of a webhook, if this request may register it.
    pub fn webhook_url(&self, app: &App, url: &str) -> Result<String, ApiError> {
        let target = Target::parse_new(url, self.private_targets(app)).map_err(|objection| {
            let wrong = violation("url", &objection.to_string(), "format");
            refused(Kind::InvalidCallbackUrl, vec![wrong], &["url"])
        })?;
        Ok(target.as_str().to_owned())
    }

    /// Whether its webhooks may call private addresses.
    pub fn private_targets(&self, app: &App) -> PrivateTargets {
        match app.config.webhooks.private_targets {
            PrivateTargets::Local if self.check_local(app).is_err() => PrivateTargets::Deny,
            configured => configured,
        }
    }

    /// Whether it only reads.
    pub fn is_read(&self) -> bool {
        self.method == Method::GET || self.method == Method::HEAD
    }
}

/// The preferred language; several lines of `Accept-Language` count as one.
pub(crate) fn language_of(headers: &HeaderMap) -> Language {
    let mut lines = headers.get_all(ACCEPT_LANGUAGE).iter().filter_map(|line| line.to_str().ok());
    let Some(first) = lines.next() else { return Language::English };
    let all = lines.fold(first.to_owned(), |all, line| all + "," + line);
    Language::wanted(Some(&all))
}

/// A header may contain any bytes; all but harmless ASCII is dropped.
fn sanitized(value: &HeaderValue) -> Option<CorrelationId> {
    CorrelationId::sanitize(&String::from_utf8_lossy(value.as_bytes()))
}
