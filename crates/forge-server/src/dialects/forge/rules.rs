//! What a submission of the right shape must still satisfy on this server. All that is wrong is said at once.

use std::time::Duration;

use forge_core::catalog::Kind;
use forge_core::job::Name;
use forge_core::time::Time;
use forge_wire::forge::{SubmitRequest, refused};
use forge_wire::problem::{Refused, Violation};
use forge_wire::words::forge_type;

use super::callback;
use crate::app::App;
use crate::limits::{ENVELOPE_BYTES_MAX, IDEMPOTENCY_KEY_BYTES_MAX};
/// How far the clocks of client and server may differ (C-58).
const SKEW: Duration = Duration::from_secs(1);

/// What a submission was found to be.
pub(super) enum Verdict {
    /// Fine; it waits in this queue.
    Fine(Name),
    /// Its time is over, and nothing else is wrong: as a new job it is refused, but it may be a repetition of one that was
    /// in time.
    TooLate(Name, Box<Refused>),
    /// Refused.
    Bad(Box<Refused>),
}

/// A submission, and what is known of it beside its members.
pub(super) struct Subject<'a> {
    pub(super) request: &'a SubmitRequest,
    /// The idempotency key that counts.
    pub(super) key: Option<&'a str>,
    pub(super) body_bytes: usize,
    pub(super) now: Time,
}

/// Judges a submission.
pub(super) fn judge(app: &App, subject: &Subject<'_>) -> Verdict {
    let mut wrong: Vec<(Kind, Violation)> = Vec::new();
    let mut complain = |kind, name: &str, detail: String, constraint| {
        wrong.push((kind, Violation { pointer: format!("#/{name}"), detail, constraint }));
    };
    let request = subject.request;
    if !app.config.catalog.allowed_types.contains(&request.form) {
        let detail = format!("{} is switched off on this server", forge_type(request.form));
        complain(Kind::UnknownJobType, "type", detail, "enum");
    }
    let queue = match request.queue.as_deref() {
        None => Some(app.default_queue.clone()),
        Some(name) => Name::new(name),
    };
    if queue.is_none() {
        let too_long =
            request.queue.as_ref().is_some_and(|name| name.len() > forge_core::limits::NAME_BYTES_MAX);
        let kind = if too_long { Kind::QueueNameTooLong } else { Kind::InvalidQueue };
        complain(kind, "queue", "must have 1 to 255 bytes and no control characters".into(), "format");
    }
    if let Some(url) = &request.callback
        && let Some(objection) = callback::objection(url, app.config.webhooks.private_targets)
    {
        complain(Kind::InvalidCallbackUrl, "callback", objection.into(), "format");
    }
    if let Some(key) = subject.key
        && (key.len() > IDEMPOTENCY_KEY_BYTES_MAX || key.chars().any(char::is_control))
    {
        let detail = format!("must have at most {IDEMPOTENCY_KEY_BYTES_MAX} bytes and no control characters");
        complain(Kind::InvalidArgs, "idempotency_key", detail, "format");
    }
    if let Some(detail) = too_large(app, subject) {
        complain(Kind::JobPayloadTooLarge, "payload", detail, "maxLength");
    }
    if request.execution_at.is_some_and(|at| at + SKEW < subject.now) {
        complain(Kind::ScheduleInPast, "execution_at", "lies in the past".into(), "future");
    }
    verdict(wrong, queue)
}

fn verdict(wrong: Vec<(Kind, Violation)>, queue: Option<Name>) -> Verdict {
    let only_late = wrong.iter().all(|(kind, _)| *kind == Kind::ScheduleInPast);
    let kind = wrong.first().map(|(kind, _)| *kind);
    let violations = wrong.into_iter().map(|(_, violation)| violation).collect();
    match (kind, queue) {
        (None, Some(queue)) => Verdict::Fine(queue),
        (Some(kind), Some(queue)) if only_late => Verdict::TooLate(queue, refused(kind, violations)),
        (kind, _) => Verdict::Bad(refused(kind.unwrap_or(Kind::InvalidArgs), violations)),
    }
}

/// The payload has its own limit; what stands beside it has little to say, so a body far above is payload by another name.
fn too_large(app: &App, subject: &Subject<'_>) -> Option<String> {
    let bytes_max = app.config.limits.max_job_payload_bytes;
    let payload_bytes = subject.request.payload.as_ref().map_or(0, Vec::len);
    let too_large = payload_bytes > bytes_max || subject.body_bytes > bytes_max + ENVELOPE_BYTES_MAX;
    too_large.then(|| format!("is larger than {} KB", bytes_max / 1024))
}
