//! OJS's eight words for where a job stands, as a function of the stored state and its facets (C-02), and the names of its
//! events.

use forgerun_core::history::{Event, EventKind, RetryStatus};
use forgerun_core::job::Job;
use forgerun_core::state::{Cause, Facet, State};

/// OJS's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StateWord {
    Scheduled,
    Available,
    Pending,
    Active,
    Completed,
    Retryable,
    Cancelled,
    Discarded,
}

impl StateWord {
    /// All eight.
    pub const ALL: [StateWord; 8] = [
        StateWord::Scheduled,
        StateWord::Available,
        StateWord::Pending,
        StateWord::Active,
        StateWord::Completed,
        StateWord::Retryable,
        StateWord::Cancelled,
        StateWord::Discarded,
    ];

    /// The word for where `job` stands. A batch of which some items ended well is completed (C-81).
    pub fn of(job: &Job) -> StateWord {
        if job.is_mixed() && job.head.workflow_head.is_none() {
            return StateWord::Completed;
        }
        StateWord::of_facet(job.facet())
    }

    /// The word for a facet.
    pub const fn of_facet(facet: Facet) -> StateWord {
        match facet {
            Facet::Scheduled => StateWord::Scheduled,
            Facet::Held => StateWord::Pending,
            Facet::Available => StateWord::Available,
            Facet::Waiting => StateWord::Retryable,
            Facet::Assigned | Facet::Running => StateWord::Active,
            Facet::Succeeded => StateWord::Completed,
            Facet::Failed | Facet::Expired => StateWord::Discarded,
            Facet::Canceled => StateWord::Cancelled,
        }
    }

    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            StateWord::Scheduled => "scheduled",
            StateWord::Available => "available",
            StateWord::Pending => "pending",
            StateWord::Active => "active",
            StateWord::Completed => "completed",
            StateWord::Retryable => "retryable",
            StateWord::Cancelled => "cancelled",
            StateWord::Discarded => "discarded",
        }
    }

    /// Reads a word; `dead` is an older one for `discarded` (C-26).
    pub fn parse(text: &str) -> Option<StateWord> {
        if text == "dead" {
            return Some(StateWord::Discarded);
        }
        StateWord::ALL.into_iter().find(|word| word.as_str() == text)
    }
}

/// OJS's names of an event, in order. A failure has two: that it happened, and what follows. None where OJS has no word: an
/// assignment is no start yet, and a wait before a retry was told with the failure.
pub fn event_names(event: &Event, job: &Job) -> &'static [&'static str] {
    if job.head.workflow_head.is_some() {
        return workflow_event_names(event);
    }
    let EventKind::Moved { to, cause, retry_status, .. } = event.kind else {
        return match event.kind {
            EventKind::Progress(_) => &["job.progress"],
            EventKind::Emitted | EventKind::Moved { .. } => &[],
        };
    };
    match (to, cause) {
        (State::Created, _) if job.head.execution_at.is_some() && !job.head.hold => &["job.scheduled"],
        (State::Created | State::Assigned, _) | (State::Queued, Cause::RetryByPolicy) => &[],
        (State::Queued, Cause::Due) if job.head.schedule.is_some() => &["job.enqueued", "cron.triggered"],
        (State::Queued, _) => &["job.enqueued"],
        (State::Running, _) => &["job.started"],
        (State::Succeeded, _) => &["job.completed"],
        // Handed back without an outcome: nothing failed, and the job is there to be taken again.
        (State::Failed, Cause::HandBack) => &["job.enqueued"],
        (State::Failed, _) if retry_status == RetryStatus::WillRetry => &["job.failed", "job.retrying"],
        (State::Failed, _) => &["job.failed", "job.discarded"],
        (State::Canceled, Cause::Expire) => &["job.expired"],
        (State::Canceled, _) => &["job.cancelled"],
    }
}

/// The names of what happens to a workflow: its own job has none of those of other jobs.
const fn workflow_event_names(event: &Event) -> &'static [&'static str] {
    match event.kind {
        EventKind::Progress(_) => &["workflow.step_completed"],
        EventKind::Emitted => &[],
        EventKind::Moved { to, .. } => match to {
            State::Created | State::Queued | State::Assigned => &[],
            State::Running => &["workflow.started"],
            State::Succeeded => &["workflow.completed"],
            State::Failed => &["workflow.failed"],
            State::Canceled => &["workflow.cancelled"],
        },
    }
}

/// Every name that an event of a job, a schedule or a workflow can have.
pub const EVENT_NAMES: [&str; 16] = [
    "job.scheduled",
    "job.enqueued",
    "job.started",
    "job.progress",
    "job.completed",
    "job.failed",
    "job.retrying",
    "job.discarded",
    "job.cancelled",
    "job.expired",
    "cron.triggered",
    "workflow.started",
    "workflow.step_completed",
    "workflow.completed",
    "workflow.failed",
    "workflow.cancelled",
];
