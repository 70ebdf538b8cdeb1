//! What time does to jobs: schedules and waits end, leases and timeouts run out, jobs expire and are forgotten.
//! One moment per job, [`Job::due_at`], stands for all of it.
//!
//! [`Job::due_at`]: crate::job::Job::due_at

use super::desk::{Desk, Place};
use crate::catalog::Kind;
use crate::command::{Answer, Refusal, WorkError};
use crate::job::Parked;
use crate::limits;
use crate::state::{Cause, State};
use crate::time::Time;

impl Desk<'_> {
    pub(super) fn due(&mut self, limit: usize) -> Answer {
        let limit = limit.min(limits::DUE_JOBS_MAX);
        let more = self.due.len() >= limit;
        let rest = self.due.split_off(self.due.len().min(limit));
        let due = core::mem::replace(&mut self.due, rest);
        let mut n_jobs = 0;
        for id in due {
            let Some(place) = self.find(id) else { continue };
            // An earlier command of the batch may have changed it.
            if self.job(place).due_at().is_some_and(|at| at <= self.now) {
                let done = self.happen(place);
                debug_assert_eq!(done, Ok(()), "{:?}", self.job(place));
                n_jobs += 1;
            }
        }
        Answer::Due { n_jobs, more }
    }

    fn happen(&mut self, place: Place) -> Result<(), Refusal> {
        let job = self.job(place);
        let come = |at: Option<Time>| at.is_some_and(|at| at <= self.now);
        match job.state {
            State::Created | State::Queued if come(job.head.expires_at) => self.expire(place),
            State::Created => self.enqueue(place, Cause::Due),
            State::Queued => {
                let job = self.change(place);
                job.available_at = None;
                job.parked = match job.parked {
                    Parked::ForTurn => Parked::TurnCame,
                    Parked::No | Parked::ForPlace | Parked::TurnCame => Parked::No,
                };
                self.reshelve(place);
                Ok(())
            }
            State::Assigned => self.take_back(place, Cause::LeaseExpired),
            State::Running if come(job.lease.as_ref().and_then(|lease| lease.timeout_at)) => {
                let error = WorkError::new(Kind::HandlerTimeout, "the attempt ran longer than it may");
                self.break_off(place, Cause::Timeout, &error)
            }
            State::Running => {
                let error = WorkError::new(Kind::RunnerLost, "the worker gave no sign of life");
                self.break_off(place, Cause::RunnerLost, &error)
            }
            State::Succeeded | State::Failed | State::Canceled => {
                let kept = job.record_kept();
                self.erase(place, Some(kept));
                Ok(())
            }
        }
    }
}
