//! Answers in OJS's media type, and common headers.

use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_wire::ojs::job::VERSION;
use forgerun_wire::ojs::{MEDIA_TYPE, MEDIA_TYPE_COMPATIBLE};
use serde::Serialize;

use crate::http::{Exchange, accept, exchange::REQUEST_ID, respond};

/// Sent by every SDK, but not by the published suite.
pub(super) const OJS_VERSION: HeaderName = HeaderName::from_static("ojs-version");

const OJS: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

pub(super) fn json(status: StatusCode, view: &impl Serialize) -> Response {
    respond::with_type(status, OJS, respond::written(view))
}

pub(super) fn ok(view: &impl Serialize) -> Response {
    json(StatusCode::OK, view)
}

/// Adds common headers, and the content type that the client wants: some SDKs look for the text
/// `application/json` in it.
pub(super) fn add_headers(exchange: &Exchange, headers: &mut HeaderMap) {
    headers.insert(OJS_VERSION, HeaderValue::from_static(VERSION));
    headers.insert(REQUEST_ID, exchange.shown_request_id());
    if headers.get(CONTENT_TYPE) == Some(&OJS) {
        if exchange.headers.contains_key(OJS_VERSION) {
            headers.insert(CONTENT_TYPE, HeaderValue::from_static(MEDIA_TYPE_COMPATIBLE));
        } else if wants_plain(&exchange.headers) {
            headers.insert(CONTENT_TYPE, respond::JSON);
        }
    }
}

/// Whether plain JSON is named in `Accept`, and OJS's own type is not.
fn wants_plain(headers: &HeaderMap) -> bool {
    headers.contains_key(ACCEPT)
        && accept::names(headers, "application/json")
        && accept::require_type(headers, MEDIA_TYPE).is_err()
}
