//! Pages of other origins (CORS): which may call, and what they may send and see. Cookies are never
//! allowed, so a page has only what it brings itself: an API key or a job token.

use axum::body::Body;
use axum::http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, ACCESS_CONTROL_REQUEST_METHOD, ORIGIN, VARY,
};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::response::Response;

use crate::app::App;
use crate::http::{Exchange, respond::value};
use crate::limits::CORS_MAX_AGE_S;

/// Headers of requests that our routes read.
const SENT: HeaderValue = HeaderValue::from_static(
    "Accept-Language, Authorization, Content-Type, Idempotency-Key, If-Match, If-None-Match, Last-Event-ID, \
     OJS-Version, Prefer, Range, Traceparent, Tracestate, X-Correlation-ID, X-OJS-Tenant, X-Request-ID",
);

/// Headers of answers that a page may read.
const SEEN: HeaderValue = HeaderValue::from_static(
    "Content-Disposition, Content-Range, ETag, Idempotent-Replayed, Location, Preference-Applied, Problem, \
     RateLimit, RateLimit-Policy, Retry-After, X-Correlation-ID, X-RateLimit-Limit, X-RateLimit-Remaining, \
     X-RateLimit-Reset, X-Request-ID",
);

/// Whether pages of other origins may call the route at all: not the operator's.
fn is_for_pages(app: &App, exchange: &Exchange) -> bool {
    let of_api = exchange.api.is_some_and(|api| matches!(api.prefix(), "/v1" | "/api/v1" | "/ojs"));
    of_api && !app.config.server.cors_origins.is_empty()
}

/// The origin of a request as an answer repeats it, if it is allowed.
fn allowed(app: &App, headers: &HeaderMap) -> Option<HeaderValue> {
    let origin = headers.get(ORIGIN)?;
    let is_listed = |known: &&String| *known == "*" || known.as_bytes() == origin.as_bytes();
    let known = app.config.server.cors_origins.iter().find(is_listed)?;
    Some(if known == "*" { HeaderValue::from_static("*") } else { origin.clone() })
}

/// The answer to a preflight, if the request is one and its origin may call. `allow` are the
/// methods of the path.
pub(crate) fn preflight(app: &App, exchange: &Exchange, allow: &str) -> Option<Response> {
    let is_preflight =
        exchange.method == Method::OPTIONS && exchange.headers.contains_key(ACCESS_CONTROL_REQUEST_METHOD);
    if !is_preflight || !is_for_pages(app, exchange) {
        return None;
    }
    allowed(app, &exchange.headers)?;
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    let headers = response.headers_mut();
    headers.insert(ACCESS_CONTROL_ALLOW_METHODS, value(allow.to_owned()));
    headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, SENT);
    headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from(CORS_MAX_AGE_S));
    Some(response)
}

/// Adds the headers of every answer to a page.
pub(crate) fn add_headers(app: &App, exchange: &Exchange, headers: &mut HeaderMap) {
    if !is_for_pages(app, exchange) {
        return;
    }
    headers.append(VARY, HeaderValue::from_static("Origin"));
    if let Some(origin) = allowed(app, &exchange.headers) {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin);
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, SEEN);
    }
}
