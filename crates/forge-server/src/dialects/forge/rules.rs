//! What a submission of the right shape must still satisfy on this server. All that is wrong is said at once.

use std::time::Duration;

use forge_core::catalog::Kind;
use forge_core::job::Name;
use forge_core::time::Time;
use forge_wire::forge::{SubmitRequest, refused};
use forge_wire::problem::{Refused, Violation};
use forge_wire::words::forge_type;

use crate::app::App;
use crate::config::PrivateTargets;
use crate::edge::submission::Violations;

/// How far the clocks of client and server may differ (C-58).
const SKEW: Duration = Duration::from_secs(1);

/// What a submission was found to be.
pub(super) enum SubmissionVerdict {
    /// Fine; it waits in this queue.
    Fine(Name),
    /// Its time is over, and nothing else is wrong: as a new job it is refused, but it may be a repetition of one that was
    /// in time.
    TooLate(Name, Box<Refused>),
    /// Refused.
    Bad(Box<Refused>),
}

/// A submission, and what is known of it beside its members.
pub(super) struct SubmissionFacts<'a> {
    pub(super) request: &'a SubmitRequest,
    /// The idempotency key that counts.
    pub(super) key: Option<&'a str>,
    pub(super) body_bytes: usize,
    pub(super) now: Time,
    /// Whether its callback may lead to a private address.
    pub(super) private: PrivateTargets,
}

/// Judges a submission.
pub(super) fn judge(app: &App, subject: &SubmissionFacts<'_>) -> SubmissionVerdict {
    let mut wrong = Violations::default();
    let request = subject.request;
    if !app.config.catalog.allowed_types.contains(&request.form) {
        let detail = format!("{} is switched off on this server", forge_type(request.form));
        wrong.add(Kind::UnknownJobType, "type", detail, "enum");
    }
    let queue = wrong.queue(app, request.queue.as_deref());
    wrong.callback(subject.private, request.callback.as_deref());
    wrong.key(subject.key);
    wrong.payload(app, "payload", request.payload.as_ref(), subject.body_bytes);
    if request.execution_at.is_some_and(|at| at + SKEW < subject.now) {
        wrong.add(Kind::ScheduleInPast, "execution_at", "lies in the past", "future");
    }
    verdict(wrong.0, queue)
}

fn verdict(wrong: Vec<(Kind, Violation)>, queue: Option<Name>) -> SubmissionVerdict {
    let only_late = wrong.iter().all(|(kind, _)| *kind == Kind::ScheduleInPast);
    let kind = wrong.first().map(|(kind, _)| *kind);
    let violations = wrong.into_iter().map(|(_, violation)| violation).collect();
    match (kind, queue) {
        (None, Some(queue)) => SubmissionVerdict::Fine(queue),
        (Some(kind), Some(queue)) if only_late => {
            SubmissionVerdict::TooLate(queue, refused(kind, violations))
        }
        (kind, _) => SubmissionVerdict::Bad(refused(kind.unwrap_or(Kind::InvalidArgs), violations)),
    }
}
