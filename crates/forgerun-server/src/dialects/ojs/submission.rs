//! Makes a submission from a parsed envelope, for all ways that envelopes come.

use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::job::{Conflict, Head, Input, Limit, Name, Unique};
use forgerun_core::queue::Owner;
use forgerun_core::state::Facet;
use forgerun_wire::body;
use forgerun_wire::ojs::envelope::JobEnvelope;
use forgerun_wire::ojs::limit::Limited;
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::ojs::unique::{Dimensions, OnConflict, Uniqueness};
use forgerun_wire::problem::RefusedRequest;

use crate::app::App;
use crate::http::ApiError;
use crate::limits::OJS_ENVELOPE_BYTES_MAX;
use crate::submission::{Submission, SubmissionTerms};

/// OJS's terms for the common checks. The envelope as a whole has its own bound (C-101).
pub(crate) const TERMS: SubmissionTerms = SubmissionTerms {
    queue: "options/queue",
    callback: "callback",
    key: "Idempotency-Key",
    execution_at: None,
    deadline: "options/deadline",
    payload: "args",
    work_kind: "options/work_kind",
    job_type: None,
    payload_bytes_max: |_| OJS_ENVELOPE_BYTES_MAX,
    refused: |kind, violations| body::refused(kind, violations, &[]),
};

/// The submission of an envelope for `owner`. `head` has what the caller knows beside the envelope.
pub(crate) fn from_envelope(
    app: &App,
    owner: &Owner,
    envelope: JobEnvelope,
    head: Head,
) -> Result<Submission, ApiError> {
    let queue = envelope.queue.unwrap_or_else(|| app.default_queue.clone());
    let limits = limits_of(owner, envelope.limits, &queue);
    let dimensions = Dimensions {
        client: owner.client,
        tenant: owner.tenant.as_ref().map(Name::as_str),
        job_type: &envelope.job_type,
        queue: queue.as_str(),
        args: &envelope.args,
        meta: &envelope.meta,
    };
    let now = head.created_at;
    let unique = match &envelope.unique {
        None => None,
        Some(unique) => Some(Unique {
            key: unique.key(dimensions).ok_or_else(incomparable)?,
            facets: facets(unique),
            until: unique.period.map(|period| now + period),
            on_conflict: conflict(unique.on_conflict),
        }),
    };
    let head = Head {
        tenant: owner.tenant.clone(),
        priority: envelope.priority,
        fair: envelope.fair,
        execution_at: envelope.scheduled_at.map(|moment| moment.at),
        expires_at: envelope.expires_at.map(|moment| moment.at),
        deadline: envelope.deadline.map(|deadline| deadline.moment(now)),
        lease: envelope.lease,
        timeout: envelope.timeout,
        retry: envelope.retry,
        limits,
        hold: envelope.pending,
        unique,
        tags: envelope.tags,
        definition: envelope.work_kind.map(|kind| app.simulated(kind)),
        job_type: envelope.job_type,
        queue,
        ..head
    };
    let input =
        Input { payload: envelope.args, meta: envelope.meta, extra: envelope.kept, items: Vec::new() };
    Ok(Submission { id: envelope.id, queue: None, head, input: Arc::new(input) })
}

/// Limits as they are stored: shared by the jobs of their owner.
pub(crate) fn limits_of(owner: &Owner, limits: Vec<Limited>, queue: &Name) -> Vec<Limit> {
    let stored = |limited: Limited| Limit {
        key: owner.scoped(&limited.key.unwrap_or_else(|| format!("queue:{queue}"))),
        concurrency: limited.concurrency,
        rate: limited.rate,
    };
    limits.into_iter().map(stored).collect()
}

/// Arguments that JSON allows and no number type holds, such as `1e999`, cannot be compared, so
/// uniqueness is undecidable.
fn incomparable() -> ApiError {
    let detail = "`args` and `meta` of a unique job must have numbers that can be compared.";
    RefusedRequest::new(Kind::InvalidArgs, detail).fact("field", "args").fact("constraint", "range").into()
}

/// Facets in which the other job counts.
fn facets(unique: &Uniqueness) -> u16 {
    let bits = |word: &StateWord| match word {
        StateWord::Scheduled => Facet::Scheduled.bit(),
        StateWord::Pending => Facet::Held.bit(),
        StateWord::Available => Facet::Available.bit(),
        StateWord::Retryable => Facet::Waiting.bit(),
        StateWord::Active => Facet::Assigned.bit() | Facet::Running.bit(),
        StateWord::Completed => Facet::Succeeded.bit(),
        StateWord::Discarded => Facet::Failed.bit() | Facet::Expired.bit(),
        StateWord::Cancelled => Facet::Canceled.bit(),
    };
    unique.states.iter().map(bits).fold(0, |all, bits| all | bits)
}

const fn conflict(on_conflict: OnConflict) -> Conflict {
    match on_conflict {
        OnConflict::Reject => Conflict::Reject,
        OnConflict::Ignore => Conflict::Ignore,
        OnConflict::Replace => Conflict::Replace,
        OnConflict::ReplaceExceptSchedule => Conflict::ReplaceKeepingSchedule,
    }
}
