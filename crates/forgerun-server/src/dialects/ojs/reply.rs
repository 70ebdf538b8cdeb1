//! Answers in OJS's media type, and what every answer carries.

use axum::http::header::{ACCEPT, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_wire::ojs::job::VERSION;
use forgerun_wire::ojs::{MEDIA_TYPE, MEDIA_TYPE_COMPATIBLE};
use serde::Serialize;

use crate::edge::exchange::REQUEST_ID;
use crate::edge::{Exchange, accept, respond};

/// Sent by every SDK, and by none of the published cases.
pub(super) const OJS_VERSION: HeaderName = HeaderName::from_static("ojs-version");

const OJS: HeaderValue = HeaderValue::from_static(MEDIA_TYPE);

pub(super) fn json(status: StatusCode, view: &impl Serialize) -> Response {
    respond::with_type(status, OJS, respond::written(view))
}

/// The same, with 200.
pub(super) fn ok(view: &impl Serialize) -> Response {
    json(StatusCode::OK, view)
}

/// Adds what every answer carries, and says the type of the body as the client wants to read it:
/// some SDKs look for the word `application/json` in it.
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

/// Whether plain JSON is asked for by name, and OJS's own type is not taken.
fn wants_plain(headers: &HeaderMap) -> bool {
    headers.contains_key(ACCEPT)
        && accept::names(headers, "application/json")
        && accept::require_type(headers, MEDIA_TYPE).is_err()
}
