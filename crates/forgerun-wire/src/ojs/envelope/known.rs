//! Names of members that OJS or this server gives a meaning. All others are kept as they were given.

/// Set by the server alone: whatever views of jobs write.
const SYSTEM: [&str; 38] = [
    "args_wrapped",
    "simulated",
    "paused",
    "awaited_signal",
    "state",
    "attempt",
    "created_at",
    "enqueued_at",
    "started_at",
    "completed_at",
    "cancelled_at",
    "discarded_at",
    "dead_lettered_at",
    "activated_at",
    "next_attempt_at",
    "retry_delay_ms",
    "result",
    "result_url",
    "cancel_reason",
    "discard_reason",
    "re_enqueued_at",
    "error",
    "errors",
    "progress",
    "progress_message",
    "worker_id",
    "lease_token",
    "traceparent",
    "tracestate",
    "lease_expires_at",
    "workflow_id",
    "parent_results",
    "parent_jobs",
    "parent_steps",
    "workflow_step",
    "previous_state",
    "deduplicated",
    "job",
];

pub(super) const OPTIONS: [&str; 22] = [
    "limits",
    "fair",
    "work_kind",
    "queue",
    "priority",
    "timeout",
    "timeout_ms",
    "scheduled_at",
    "delay_until",
    "expires_at",
    "deadline",
    "retry",
    "retry_policy",
    "unique",
    "tags",
    "visibility_timeout",
    "visibility_timeout_ms",
    "pending",
    "rate_limit",
    "max_attempts",
    "meta",
    "metadata",
];

const TOP: [&str; 7] = ["specversion", "id", "type", "args", "meta", "schema", "options"];

/// Whether a member of a job is one of OJS's, or of this server's: no stranger that is kept.
pub(in crate::ojs) fn is_known(name: &str) -> bool {
    TOP.contains(&name) || OPTIONS.contains(&name) || SYSTEM.contains(&name)
}
