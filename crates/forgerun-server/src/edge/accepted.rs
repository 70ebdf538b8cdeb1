//! What submissions over HTTP have in common: the key of the header, waiting for the end, and what
//! the answer says beside its body.

use std::sync::Arc;

use axum::http::header::{LINK, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Job;

use super::auth::Caller;
use super::prefer::{APPLIED, Prefer};
use super::refusal::ApiError;
use super::{ownership, respond, wait};
use crate::app::App;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Says that an answer tells of something that was there before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The key of the header, which may stand in quotes as the draft has it; a blank one is none.
/// Whoever sends a key relies on it, so one that cannot be read, or is not the only one, is not
/// passed over.
pub fn header_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all(IDEMPOTENCY_KEY).iter();
    let Some(value) = values.next() else { return Ok(None) };
    let key = std::str::from_utf8(value.as_bytes()).ok().filter(|_| values.next().is_none());
    let Some(key) = key.map(str::trim) else {
        let detail = "The Idempotency-Key header is not one key in UTF-8.";
        return Err(ApiError::new(Kind::MalformedRequest, detail));
    };
    let key = key.strip_prefix('"').and_then(|key| key.strip_suffix('"')).unwrap_or(key);
    Ok(Some(key).filter(|key| !key.is_empty()))
}

/// The job that a submission made or met: at once, or as it stands when it has ended, if the client
/// would rather wait.
pub async fn awaited(app: &App, caller: &Caller, prefer: &Prefer, job: Job) -> Result<Job, ApiError> {
    let Some(wait) = prefer.wait else { return Ok(job) };
    wait::until_ended(app, &job, wait).await?;
    Ok(Arc::unwrap_or_clone(ownership::job(app, caller, Some(job.id)).await?))
}

/// What a 202 says beside its body: where to look, when, and whether it tells of something that was
/// there before.
pub fn announce(response: &mut Response, location: String, pause_s: u64, prefer: &Prefer, existing: bool) {
    let headers = response.headers_mut();
    headers.insert(LINK, respond::value(["<", &location, ">; rel=\"status\""].concat()));
    headers.insert(LOCATION, respond::value(location));
    headers.insert(RETRY_AFTER, HeaderValue::from(pause_s));
    headers.extend(prefer.applied().map(|applied| (APPLIED, applied)));
    if existing {
        headers.insert(REPLAYED, HeaderValue::from_static("true"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_whole_or_refused() {
        for (values, expected) in [
            (&[][..], Ok(None)),
            (&[b" " as &[u8]], Ok(None)),
            (&[b"A"], Ok(Some("A"))),
            (&["\"Ä\"".as_bytes()], Ok(Some("Ä"))),
            (&[b"\xff"], Err(())),
            (&[b"A", b"A"], Err(())),
        ] {
            let header = |value: &&[u8]| (IDEMPOTENCY_KEY, HeaderValue::from_bytes(value).unwrap());
            let mut headers = HeaderMap::new();
            for (name, value) in values.iter().map(header) {
                headers.append(name, value);
            }
            assert_eq!(header_key(&headers).map_err(|_| ()), expected, "{headers:?}");
        }
    }
}
