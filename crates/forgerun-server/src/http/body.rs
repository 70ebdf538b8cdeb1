//! Request bodies: type, size, bytes. Never buffers more than allowed.

use std::pin::pin;

use axum::body::{Body, HttpBody};
use axum::http::HeaderMap;
use axum::http::header::{CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use forgerun_core::catalog::Kind;
use forgerun_engine::{Clock, SystemClock};
use forgerun_wire::body::{refused, violation};
use forgerun_wire::problem::RefusedRequest;
use http_body_util::BodyExt;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::auth::Who;
use crate::http::ApiError;
use crate::limits::{
    BODY_PACE_PER_S, BODY_STALL, INCOMING_FREE_BYTES, STRANGER_BODY_BYTES_MAX, STRANGER_BODY_TIMEOUT,
    byte_budget::Reservation,
};

/// Size limit by caller; `bytes_max` is that of authenticated ones.
pub(crate) fn bytes_max_of(who: &Who, bytes_max: usize) -> usize {
    match who {
        Who::Anonymous => bytes_max.min(STRANGER_BODY_BYTES_MAX),
        Who::Operator(_) | Who::Client(_) => bytes_max,
    }
}

/// The bytes of a body of one of these types; an empty one needs no type (C-49). They are charged
/// to `reservation`.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    media_types: &[&str],
    bytes_max: usize,
    reservation: &mut Reservation,
) -> Result<Bytes, ApiError> {
    if body.is_end_stream() || body.size_hint().exact() == Some(0) {
        return Ok(Bytes::new());
    }
    let typed = is_one_of(headers, media_types);
    // Without a type, an empty body is fine.
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
    let bytes = gather(body, bytes_max, reservation).await?;
    if !typed && !bytes.is_empty() { Err(wrong_type(media_types)) } else { Ok(bytes) }
}

/// The bytes of a body, at most `bytes_max`. They are copied together as they come, so that tiny
/// pieces take no more memory than large ones, and memory is reserved before it is used.
pub(crate) async fn gather<B>(
    body: B,
    bytes_max: usize,
    reservation: &mut Reservation,
) -> Result<Bytes, ApiError>
where
    B: HttpBody<Data = Bytes>,
{
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let declared = body.size_hint().exact().map(|n_bytes| n_bytes as usize);
    let mut body = pin!(body);
    let mut gathered = BytesMut::new();
    let began = SystemClock.now();
    let brief = if reservation.is_of_stranger() { STRANGER_BODY_TIMEOUT } else { BODY_STALL };
    while let Some(frame) = timeout(brief, body.frame()).await.map_err(|_| too_slow())? {
        let Ok(piece) = frame.map_err(|_| broke_off())?.into_data() else { continue };
        let n_bytes = gathered.len() + piece.len();
        if n_bytes > bytes_max {
            return Err(too_large(bytes_max));
        }
        if gathered.is_empty() && piece.len() <= INCOMING_FREE_BYTES && body.is_end_stream() {
            return Ok(piece);
        }
        let since = SystemClock.now().since(began);
        let is_slow = (n_bytes as u64) < since.as_secs() * BODY_PACE_PER_S;
        if since > brief && (is_slow || reservation.is_of_stranger()) {
            return Err(too_slow());
        }
        if n_bytes > gathered.capacity() {
            let wanted = (2 * n_bytes).max(INCOMING_FREE_BYTES).min(declared.unwrap_or(bytes_max));
            let more = wanted.max(n_bytes) - gathered.capacity();
            reservation.grow(more)?;
            gathered.reserve(wanted.max(n_bytes) - gathered.len());
        }
        gathered.extend_from_slice(&piece);
    }
    Ok(gathered.freeze())
}

fn broke_off() -> ApiError {
    ApiError::new(Kind::MalformedRequest, "The connection closed before the whole body arrived.")
}

fn too_slow() -> ApiError {
    let detail = format!(
        "The body arrived too slowly: {} s without a byte, or less than {BODY_PACE_PER_S} bytes a second.",
        BODY_STALL.as_secs()
    );
    ApiError::new(Kind::OperationTimeout, detail)
}

/// A body without content: empty, or a JSON object whose members are ignored.
pub(crate) fn expect_object(bytes: &Bytes) -> Result<(), ApiError> {
    object(bytes).map(drop)
}

/// The one member that a body may have; `None` if it is missing or null. `what` is the expected
/// value: "a string".
pub(crate) fn member<T: DeserializeOwned>(
    bytes: &Bytes,
    name: &str,
    what: &str,
) -> Result<Option<T>, ApiError> {
    let value = object(bytes)?.remove(name).filter(|value| !value.is_null());
    value.map(serde_json::from_value).transpose().map_err(|_| {
        // serde's message would name internal types.
        let wrong = violation(name, &format!("must be {what}"), "type");
        refused(Kind::MalformedRequest, vec![wrong], &[name]).into()
    })
}

/// The members of a body; an empty one counts as `{}`.
fn object(bytes: &Bytes) -> Result<Map<String, Value>, ApiError> {
    Ok(forgerun_wire::body::object(if bytes.is_empty() { b"{}" } else { bytes })?)
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

pub(crate) fn too_large(bytes_max: usize) -> ApiError {
    let detail = format!("The body is larger than {bytes_max} bytes.");
    RefusedRequest::new(Kind::BodyTooLarge, detail).fact("limit_bytes", bytes_max).into()
}
