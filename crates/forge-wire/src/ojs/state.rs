//! OJS's eight words for where a job stands, as a function of the stored state and its facets (C-02), and the names of its
//! events.

use forge_core::history::{Event, EventKind, Outlook};
use forge_core::job::Job;
use forge_core::state::{Cause, Facet, State};

/// OJS's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the words are the documentation")]
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

    /// The word for where `job` stands.
    pub fn of(job: &Job) -> StateWord {
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
    let EventKind::Moved { to, cause, outlook, .. } = event.kind else {
        return match event.kind {
            EventKind::Progress(_) => &["job.progress"],
            EventKind::Emitted | EventKind::Moved { .. } => &[],
        };
    };
    match (to, cause) {
        (State::Created, _) if job.head.execution_at.is_some() && !job.head.hold => &["job.scheduled"],
        (State::Created | State::Assigned, _) | (State::Queued, Cause::RetryByPolicy) => &[],
        (State::Queued, _) => &["job.enqueued"],
        (State::Running, _) => &["job.started"],
        (State::Succeeded, _) => &["job.completed"],
        // Handed back without an outcome: nothing failed, and the job is there to be taken again.
        (State::Failed, Cause::HandBack) => &["job.enqueued"],
        (State::Failed, _) if outlook == Outlook::WillRetry => &["job.failed", "job.retrying"],
        (State::Failed, _) => &["job.failed", "job.discarded"],
        (State::Canceled, Cause::Expire) => &["job.expired"],
        (State::Canceled, _) => &["job.cancelled"],
    }
}

/// Every name that an event of a job can have.
pub const EVENT_NAMES: [&str; 10] = [
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
];
