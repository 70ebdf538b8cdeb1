//! Successful answers.

use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::Response;
use serde::Serialize;

/// Usual number of headers; avoids growing the map.
const HEADERS_USUAL: usize = 16;

/// Usual maximum of a body, including a full job; avoids growing it.
const BODY_BYTES_USUAL: usize = 1024;

pub(crate) const JSON: HeaderValue = HeaderValue::from_static("application/json");

pub(crate) fn json(status: StatusCode, view: &impl Serialize) -> Response {
    with_type(status, JSON, written(view))
}

pub(crate) fn written(view: &impl Serialize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BODY_BYTES_USUAL);
    serde_json::to_writer(&mut bytes, view).expect("our views have text keys and no numbers that JSON lacks");
    bytes
}

pub(crate) fn with_type(status: StatusCode, media_type: HeaderValue, bytes: impl Into<Body>) -> Response {
    let mut headers = HeaderMap::with_capacity(HEADERS_USUAL);
    headers.insert(CONTENT_TYPE, media_type);
    let mut response = Response::new(bytes.into());
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}

/// Our own text as a header value.
pub(crate) fn value(text: String) -> HeaderValue {
    HeaderValue::try_from(text).expect("addresses and numbers of ours are ASCII")
}
