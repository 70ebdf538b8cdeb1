//! What submissions have in common, whatever dialect they come in: the rules their members must satisfy on this server, the
//! idempotency key, the way to the engine, and what the answer says beside its body.

use std::sync::Arc;

use axum::http::header::{LINK, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use forge_core::catalog::Kind;
use forge_core::command::{Idempotency, NewJob, Submit};
use forge_core::job::{BadQueueName, IdempotencyKey, Job, Name};
use forge_wire::problem::{Refused, Violation};

use super::auth::Caller;
use super::prefer::{APPLIED, Prefer};
use super::refusal::ApiError;
use super::{ownership, respond};
use crate::app::App;
use crate::config::PrivateTargets;
use crate::limits::{ENVELOPE_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
use crate::webhooks::Target;

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Says that an answer tells of something that was there before.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// All that is wrong with a submission, to be said at once.
#[derive(Default)]
pub struct Violations(pub Vec<(Kind, Violation)>);

impl Violations {
    /// Adds one about a member.
    pub fn add(&mut self, kind: Kind, member: &str, detail: impl Into<String>, constraint: &'static str) {
        let violation = Violation { pointer: format!("#/{member}"), detail: detail.into(), constraint };
        self.0.push((kind, violation));
    }

    /// The queue that a submission names, or the one of those that name none.
    pub fn queue(&mut self, app: &App, name: Option<&str>) -> Option<Name> {
        let Some(name) = name else { return Some(app.default_queue.clone()) };
        let bad = match Name::queue(name) {
            Ok(queue) => return Some(queue),
            Err(BadQueueName::TooLong) => Kind::QueueNameTooLong,
            Err(BadQueueName::Form) => Kind::InvalidQueue,
        };
        self.add(bad, "queue", BadQueueName::RULE, "format");
        None
    }

    /// Whether a job may report there.
    pub fn callback(&mut self, private: PrivateTargets, url: Option<&str>) {
        if let Some(Err(objection)) = url.map(|url| Target::parse(url, private)) {
            self.add(Kind::InvalidCallbackUrl, "callback", objection.to_string(), "format");
        }
    }

    /// Whether an idempotency key will do.
    pub fn key(&mut self, key: Option<&str>) {
        let bad = |key: &str| key.len() > IDEMPOTENCY_KEY_BYTES_MAX || key.chars().any(char::is_control);
        if key.is_some_and(bad) {
            let detail =
                format!("must have at most {IDEMPOTENCY_KEY_BYTES_MAX} bytes and no control characters");
            self.add(Kind::InvalidArgs, "idempotency_key", detail, "format");
        }
    }

    /// The payload has its own limit; what stands beside it has little to say, so a body far above is payload by another
    /// name.
    pub fn payload(&mut self, app: &App, member: &str, payload: Option<&Vec<u8>>, body_bytes: usize) {
        let bytes_max = app.config.limits.max_job_payload_bytes;
        let payload_bytes = payload.map_or(0, Vec::len);
        if payload_bytes > bytes_max || body_bytes > bytes_max + ENVELOPE_BYTES_MAX {
            let detail = format!("is larger than {} KB", bytes_max / 1024);
            self.add(Kind::JobPayloadTooLarge, member, detail, "maxLength");
        }
    }
}

impl Violations {
    /// What was read, if there is nothing to complain about; otherwise a refusal of the kind of the first complaint, in the
    /// words of a dialect.
    pub fn settled<T>(
        self,
        read: Option<T>,
        refused: fn(Kind, Vec<Violation>) -> Box<Refused>,
    ) -> Result<T, ApiError> {
        match (read, self.0.first().map(|(kind, _)| *kind)) {
            (Some(read), None) => Ok(read),
            (_, kind) => {
                let violations = self.0.into_iter().map(|(_, violation)| violation).collect();
                Err(refused(kind.unwrap_or(Kind::InvalidArgs), violations).into())
            }
        }
    }
}

/// The key of the header, which may stand in quotes as the draft has it; a blank one is none. Whoever sends a key relies on
/// it, so one that cannot be read, or is not the only one, is not passed over.
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

/// A key of `caller`. Keys of one operation meet no keys of others (C-65).
pub fn idempotency(caller: &Caller, operation: &str, key: &str, fingerprint: [u8; 32]) -> Idempotency {
    let key = IdempotencyKey { client: caller.client, operation: operation.into(), key: key.into() };
    Idempotency { key, fingerprint }
}

/// Submits one job: the job as it stands, and whether it was there before.
pub async fn submit(
    app: &App,
    new: NewJob,
    idempotency: Option<Idempotency>,
    queue_max: u64,
) -> Result<(Job, bool), forge_engine::Error> {
    let has_key = idempotency.is_some();
    let submit = Submit { jobs: vec![new], idempotency, queue_max: Some(queue_max) };
    let (jobs, existing) = app.engine.submit(submit).await?;
    if has_key {
        app.metrics.idempotency(existing);
    }
    let job = jobs.into_iter().next().expect("a submission of one job is answered with one");
    Ok((job, existing))
}

/// The job that a submission made or met: at once, or as it stands when it has ended, if the client would rather wait.
pub async fn awaited(app: &App, caller: &Caller, prefer: &Prefer, job: Job) -> Result<Job, ApiError> {
    let Some(wait) = prefer.wait else { return Ok(job) };
    app.completion.wait(app, &job, wait).await?;
    Ok(Arc::unwrap_or_clone(ownership::job(app, caller, Some(job.id)).await?))
}

/// What a 202 says beside its body: where to look, when, and whether it tells of something that was there before.
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
