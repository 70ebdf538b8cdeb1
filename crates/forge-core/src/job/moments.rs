//! When something happens to a job by itself.

use super::Job;
use crate::state::State;
use crate::time::Time;

impl Job {
    /// The next moment at which something must happen to the job without anybody asking; what `Due` looks for.
    pub fn due_at(&self) -> Option<Time> {
        let earliest = |a: Option<Time>, b: Option<Time>| a.into_iter().chain(b).min();
        match self.state {
            State::Created if self.hold => self.expires_at(),
            State::Created => earliest(self.head.execution_at, self.expires_at()),
            State::Queued => earliest(self.available_at, self.expires_at()),
            State::Assigned | State::Running => {
                self.lease.as_ref().and_then(|lease| earliest(Some(lease.until), lease.timeout_at))
            }
            State::Succeeded | State::Failed | State::Canceled => self.forget_at,
        }
    }

    /// Until when it must begin, if that still counts: a moment that had passed when somebody retried the job does not. They
    /// asked for it knowing that it is late.
    pub fn expires_at(&self) -> Option<Time> {
        self.head.expires_at.filter(|&at| !self.was_retried_since(at))
    }

    /// Whether its execution was opened by a retry, at this moment or later. The head is written once, so this is told by what the
    /// retry left: nothing of the execution was queued or begun before it.
    pub(crate) fn was_retried_since(&self, at: Time) -> bool {
        let earliest = self.queued_at.into_iter().chain(self.started_at).min();
        !self.executions_past.is_empty() && earliest.is_some_and(|earliest| earliest >= at)
    }
}
