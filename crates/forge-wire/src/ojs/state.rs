//! OJS's eight words for where a job stands, as a function of the stored state and its facets (C-02), and the names of its
//! events.

use forge_core::history::{Event, EventKind, Outlook};
use forge_core::job::{Job, Parked};
use forge_core::state::{Cause, State};

/// OJS's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the words are the documentation")]
pub enum Word {
    Scheduled,
    Available,
    Pending,
    Active,
    Completed,
    Retryable,
    Cancelled,
    Discarded,
}

impl Word {
    /// All eight.
    pub const ALL: [Word; 8] = [
        Word::Scheduled,
        Word::Available,
        Word::Pending,
        Word::Active,
        Word::Completed,
        Word::Retryable,
        Word::Cancelled,
        Word::Discarded,
    ];

    /// The word for where `job` stands.
    pub fn of(job: &Job) -> Word {
        match job.state {
            State::Created if job.hold => Word::Pending,
            State::Created => Word::Scheduled,
            // A job that waits for its limit is skipped, not delayed: it stays available.
            State::Queued if job.available_at.is_some() && job.parked == Parked::No => Word::Retryable,
            State::Queued => Word::Available,
            State::Assigned | State::Running => Word::Active,
            State::Succeeded => Word::Completed,
            State::Failed => Word::Discarded,
            State::Canceled if has_expired(job) => Word::Discarded,
            State::Canceled => Word::Cancelled,
        }
    }

    /// The spelling on the wire.
    pub const fn as_str(self) -> &'static str {
        match self {
            Word::Scheduled => "scheduled",
            Word::Available => "available",
            Word::Pending => "pending",
            Word::Active => "active",
            Word::Completed => "completed",
            Word::Retryable => "retryable",
            Word::Cancelled => "cancelled",
            Word::Discarded => "discarded",
        }
    }

    /// Reads a word; `dead` is an older one for `discarded` (C-26).
    pub fn parse(text: &str) -> Option<Word> {
        if text == "dead" {
            return Some(Word::Discarded);
        }
        Word::ALL.into_iter().find(|word| word.as_str() == text)
    }
}

/// Whether the job ended because its time to begin had passed (C-98).
pub fn has_expired(job: &Job) -> bool {
    let last = job.history.events().last().map(|event| event.kind);
    job.state == State::Canceled && matches!(last, Some(EventKind::Moved { cause: Cause::Expire, .. }))
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
