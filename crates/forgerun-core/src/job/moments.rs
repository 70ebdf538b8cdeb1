//! Moments at which a job changes by itself.

use super::Job;
use crate::state::State;
use crate::time::Time;

impl Job {
    /// The next moment at which `Due` must process the job.
    pub fn due_at(&self) -> Option<Time> {
        match self.state {
            State::Created if self.hold => self.begin_by(),
            State::Created => earliest(self.head.execution_at, self.begin_by()),
            State::Queued => earliest(self.available_at, self.begin_by()),
            State::Assigned => earliest(self.lease.as_ref().map(|lease| lease.until), self.deadline()),
            State::Running if !self.head.needs_worker() => self.ends_by_itself_at(),
            State::Running => {
                self.lease.as_ref().and_then(|lease| earliest(Some(lease.until), lease.timeout_at))
            }
            State::Succeeded | State::Failed | State::Canceled => self.forget_at,
        }
    }

    /// When a running job without a worker ends by itself: a wait at its moment, a workflow at its
    /// deadline.
    pub fn ends_by_itself_at(&self) -> Option<Time> {
        match (&self.head.wait, self.started_at) {
            (Some(wait), Some(began_at)) => Some(wait.ends_at(began_at)),
            (Some(_), None) => None,
            (None, _) => self.deadline().filter(|_| !self.overdue),
        }
    }

    /// Latest start, if it still applies: a moment that had passed when a client retried the job
    /// does not, since the client knew that it was late.
    pub fn expires_at(&self) -> Option<Time> {
        self.head.expires_at.filter(|&at| !self.was_retried_since(at))
    }

    /// Latest end, if it still applies; see [`Self::expires_at`].
    pub fn deadline(&self) -> Option<Time> {
        self.head.deadline.filter(|&at| !self.was_retried_since(at))
    }

    /// Latest start of a waiting job: the earlier of expiry and deadline.
    pub(crate) fn begin_by(&self) -> Option<Time> {
        earliest(self.expires_at(), self.deadline())
    }

    /// Whether a retry opened its execution at this moment or later. The head is written once, so
    /// this is derived: nothing of the execution was queued or begun before it.
    pub(crate) fn was_retried_since(&self, at: Time) -> bool {
        let earliest = self.queued_at.into_iter().chain(self.started_at).min();
        !self.executions_past.is_empty() && earliest.is_some_and(|earliest| earliest >= at)
    }
}

pub(crate) fn earliest(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    a.into_iter().chain(b).min()
}
