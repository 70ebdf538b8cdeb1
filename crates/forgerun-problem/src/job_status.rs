//! The states of an asynchronous job: the seven registered ones, and whatever else a server
//! defines.

use std::fmt;

use crate::item::{ItemOutcome, ItemStatus};

/// A value of `jobStatus`. Spelling is exact: `failed` is not [`JobStatus::Failed`].
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum JobStatus {
    /// Taken in, not started.
    Accepted,
    /// Being worked on.
    Processing,
    /// Ended well.
    Completed,
    /// Ended with an error.
    Failed,
    /// Stopped before its end.
    Cancelled,
    /// Took longer than it was allowed to.
    TimedOut,
    /// A batch of which some items ended well and some did not.
    CompletedWithErrors,
    /// A state of the server's own making.
    Other(OtherStatus),
}

impl JobStatus {
    /// The registered states.
    pub const REGISTERED: [JobStatus; 7] = [
        JobStatus::Accepted,
        JobStatus::Processing,
        JobStatus::Completed,
        JobStatus::Failed,
        JobStatus::Cancelled,
        JobStatus::TimedOut,
        JobStatus::CompletedWithErrors,
    ];

    /// The state with this exact spelling. One that is not registered counts as not terminal, as a
    /// consumer must assume who has not read the server's documentation.
    #[must_use]
    pub fn new(name: &str) -> Self {
        match Self::REGISTERED.into_iter().find(|status| status.as_str() == name) {
            Some(registered) => registered,
            None => Self::Other(OtherStatus { name: name.into(), terminal: false }),
        }
    }

    /// A state which its server documents as terminal. Registered names keep their registered
    /// meaning.
    #[must_use]
    pub fn documented_as_terminal(name: &str) -> Self {
        match Self::new(name) {
            Self::Other(other) => Self::Other(OtherStatus { terminal: true, ..other }),
            registered => registered,
        }
    }

    /// The state of a batch whose items all ended: theirs if they agree, otherwise
    /// [`JobStatus::CompletedWithErrors`] if any went well and [`JobStatus::Failed`] if none did.
    /// An empty batch is complete.
    #[must_use]
    pub fn of_batch(items: &[ItemOutcome]) -> Self {
        let all = |status| items.iter().all(|item| item.status() == status);
        let any_completed = items.iter().any(|item| item.status() == ItemStatus::Completed);
        match items {
            _ if all(ItemStatus::Completed) => Self::Completed,
            _ if any_completed => Self::CompletedWithErrors,
            _ if all(ItemStatus::Cancelled) => Self::Cancelled,
            _ if all(ItemStatus::TimedOut) => Self::TimedOut,
            _ => Self::Failed,
        }
    }

    /// The spelling on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Accepted => "ACCEPTED",
            Self::Processing => "PROCESSING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::TimedOut => "TIMED_OUT",
            Self::CompletedWithErrors => "COMPLETED_WITH_ERRORS",
            Self::Other(other) => &other.name,
        }
    }

    /// Whether the job will not leave this state any more.
    #[must_use]
    pub fn is_terminal(&self) -> bool {
        match self {
            Self::Accepted | Self::Processing => false,
            Self::Completed | Self::Failed | Self::Cancelled | Self::TimedOut | Self::CompletedWithErrors => {
                true
            }
            Self::Other(other) => other.terminal,
        }
    }
}

impl JobStatus {
    /// Whether this is a registered state in other letters.
    pub(crate) fn is_misspelt(&self) -> bool {
        match self {
            Self::Other(other) => Self::REGISTERED
                .iter()
                .any(|registered| registered.as_str().eq_ignore_ascii_case(&other.name)),
            Self::Accepted
            | Self::Processing
            | Self::Completed
            | Self::Failed
            | Self::Cancelled
            | Self::TimedOut
            | Self::CompletedWithErrors => false,
        }
    }
}

impl fmt::Display for JobStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A state that is not registered; made by [`JobStatus::new`], so it never has a registered name.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OtherStatus {
    name: Box<str>,
    terminal: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spelling_is_compared_exactly() {
        assert_eq!(JobStatus::new("FAILED"), JobStatus::Failed);
        for wrong in ["failed", "Failed", " FAILED", "FAILED ", "CANCELED"] {
            assert_ne!(JobStatus::new(wrong), JobStatus::Failed);
            assert!(matches!(JobStatus::new(wrong), JobStatus::Other(_)), "{wrong}");
        }
    }

    #[test]
    fn registered_states_keep_their_names_and_their_finality() {
        let terminal: Vec<_> = JobStatus::REGISTERED.iter().filter(|status| status.is_terminal()).collect();
        let names: Vec<_> = terminal.iter().map(|status| status.as_str()).collect();
        assert_eq!(names, ["COMPLETED", "FAILED", "CANCELLED", "TIMED_OUT", "COMPLETED_WITH_ERRORS"]);
        for status in JobStatus::REGISTERED {
            assert_eq!(JobStatus::new(status.as_str()), status);
        }
    }

    #[test]
    fn an_unknown_state_is_not_terminal_unless_documented() {
        assert!(!JobStatus::new("AWAITING_APPROVAL").is_terminal());
        assert!(JobStatus::documented_as_terminal("ARCHIVED").is_terminal());
        assert!(!JobStatus::documented_as_terminal("PROCESSING").is_terminal());
    }

    #[test]
    fn a_batch_is_what_its_items_are() {
        use ItemStatus::{Cancelled, Completed, Failed, TimedOut};
        let of = |statuses: &[ItemStatus]| {
            let items: Vec<_> = statuses.iter().map(|status| ItemOutcome::new("x", *status)).collect();
            JobStatus::of_batch(&items)
        };
        assert_eq!(of(&[]), JobStatus::Completed);
        assert_eq!(of(&[Completed, Completed]), JobStatus::Completed);
        assert_eq!(of(&[Completed, Failed]), JobStatus::CompletedWithErrors);
        assert_eq!(of(&[Failed, TimedOut]), JobStatus::Failed);
        assert_eq!(of(&[Cancelled, Cancelled]), JobStatus::Cancelled);
        assert_eq!(of(&[TimedOut]), JobStatus::TimedOut);
    }
}
