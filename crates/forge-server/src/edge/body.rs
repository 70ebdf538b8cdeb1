//! The body of a request: its type, its size, then its bytes. Nothing larger than allowed is ever held.

use std::error::Error;

use axum::body::{Body, HttpBody, to_bytes};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::Bytes;
use forge_core::catalog::Kind;
use forge_wire::body::{refused, violation};
use forge_wire::problem::Refused;
use http_body_util::LengthLimitError;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::refusal::ApiError;

/// The bytes of a body of one of these types; none at all is fine and needs no type (C-49).
pub async fn read(
    headers: &HeaderMap,
    body: Body,
    media_types: &[&str],
    bytes_max: usize,
) -> Result<Bytes, ApiError> {
    if body.is_end_stream() || body.size_hint().exact() == Some(0) {
        return Ok(Bytes::new());
    }
    let typed = is_one_of(headers, media_types);
    // Without a type one has to look whether there is anything at all.
    if !typed && headers.contains_key(CONTENT_TYPE) {
        return Err(wrong_type(media_types));
    }
    if headers
        .get(CONTENT_ENCODING)
        .is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity"))
    {
        return Err(ApiError::new(Kind::UnsupportedCompression, "The body must not be compressed."));
    }
    if !typed && headers.contains_key(CONTENT_LENGTH) {
        return Err(wrong_type(media_types));
    }
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let bytes = to_bytes(body, bytes_max).await.map_err(|error| {
        if error.source().is_some_and(|source| source.is::<LengthLimitError>()) {
            return too_large(bytes_max);
        }
        ApiError::new(Kind::MalformedRequest, "The body broke off.")
    })?;
    if !typed && !bytes.is_empty() { Err(wrong_type(media_types)) } else { Ok(bytes) }
}

/// A body that says nothing: empty, or a JSON object whose members do not matter.
pub fn expect_object(bytes: &Bytes) -> Result<(), ApiError> {
    object(bytes).map(drop)
}

/// The one member that a body may have; `None` if it is absent or null. `what` says what it must be: "a string".
pub fn member<T: DeserializeOwned>(bytes: &Bytes, name: &str, what: &str) -> Result<Option<T>, ApiError> {
    let value = object(bytes)?.remove(name).filter(|value| !value.is_null());
    value.map(serde_json::from_value).transpose().map_err(|_| {
        // What serde says names types of ours.
        let wrong = violation(name, &format!("must be {what}"), "type");
        refused(Kind::MalformedRequest, vec![wrong], &[name]).into()
    })
}

/// The members of a body; an empty one counts as `{}`.
fn object(bytes: &Bytes) -> Result<Map<String, Value>, ApiError> {
    Ok(forge_wire::body::object(if bytes.is_empty() { b"{}" } else { bytes })?)
}

fn is_one_of(headers: &HeaderMap, media_types: &[&str]) -> bool {
    let Some(Ok(media_type)) = headers.get(CONTENT_TYPE).map(|value| value.to_str()) else { return false };
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    media_types.iter().any(|media_type| essence.eq_ignore_ascii_case(media_type))
}

fn wrong_type(media_types: &[&str]) -> ApiError {
    let detail = format!("The Content-Type of a body must be {}.", media_types.join(" or "));
    ApiError::new(Kind::UnsupportedMediaType, detail)
}

/// The answer to a body of more bytes.
pub(crate) fn too_large(bytes_max: usize) -> ApiError {
    let detail = format!("The body is larger than {bytes_max} bytes.");
    Refused::new(Kind::BodyTooLarge, detail).fact("limit_bytes", bytes_max).into()
}
