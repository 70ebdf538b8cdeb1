//! Common parts of submissions over HTTP: idempotency key, waiting for the end, and headers of the
//! answer.

use std::sync::Arc;

use axum::http::header::{LINK, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Job;

use crate::app::App;
use crate::auth::{Caller, ownership};
use crate::http::{
    ApiError,
    prefer::{APPLIED, Prefer},
    respond, wait,
};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Set if the answer is about an existing job.
pub(crate) const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// The idempotency key in the header, possibly in quotes as the draft has it; a blank one counts as
/// missing. A client that sends a key relies on it, so an unreadable or repeated header is refused.
pub(crate) fn header_key(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
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

/// The job of a submission: at once, or in its final state if the client prefers to wait.
pub(crate) async fn awaited(app: &App, caller: &Caller, prefer: &Prefer, job: Job) -> Result<Job, ApiError> {
    let Some(wait) = prefer.wait else { return Ok(job) };
    wait::until_ended(app, &job, wait).await?;
    Ok(Arc::unwrap_or_clone(ownership::job(app, caller, Some(job.id)).await?))
}

/// Headers of a 202: location, poll interval, and whether the job existed.
pub(crate) fn announce(
    response: &mut Response,
    location: String,
    pause_s: u64,
    prefer: &Prefer,
    existing: bool,
) {
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
