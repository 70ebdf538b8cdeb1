//! What time does to jobs: schedules and waits end, leases and timeouts run out, jobs expire and are forgotten.
//! One moment per job, [`Job::due_at`], stands for all of it.
//!
//! [`Job::due_at`]: crate::job::Job::due_at

use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use crate::catalog::Kind;
use crate::command::{Answer, Refusal, WorkError, WorkerLost};
use crate::job::Parked;
use crate::limits;
use crate::record::RecordKind;
use crate::state::{Cause, State};
use crate::time::Time;

impl WorkingSet<'_> {
    pub(super) fn due(&mut self, limit: usize) -> Answer {
        let limit = limit.min(limits::DUE_JOBS_MAX);
        let mut more = self.due.len() >= limit;
        let rest = self.due.split_off(self.due.len().min(limit));
        let due = core::mem::replace(&mut self.due, rest);
        let mut n_jobs = 0;
        for id in due {
            let Some(slot) = self.find(id) else {
                // It cannot be read, and is set aside.
                more = true;
                continue;
            };
            if self.job(slot).due_at().is_some_and(|at| at <= self.now) {
                let done = self.happen(slot);
                // Counted as done without being done, it would come back for ever. Whoever decides the batch finds out which
                // job it is.
                assert_eq!(done, Ok(()), "{:?}", self.job(slot));
                n_jobs += 1;
            } else {
                // An earlier command of the batch changed it. If not, the store has a wrong moment beside it, which would
                // stand at the head of what is due for ever: written again, it is right.
                self.change(slot);
            }
        }
        let (n_records, workers_lost) = self.records_due();
        Answer::Due { n_jobs, n_records, more: more || n_records >= limits::DUE_RECORDS_MAX, workers_lost }
    }

    fn records_due(&mut self) -> (usize, Vec<WorkerLost>) {
        let due = core::mem::take(&mut self.records_due);
        let n_records = due.len();
        let mut workers_lost = Vec::new();
        for key in due {
            match key.kind {
                RecordKind::Worker => workers_lost.extend(self.worker_due(key)),
                // Nothing happens to these by itself.
                RecordKind::Queue => {}
            }
        }
        (n_records, workers_lost)
    }

    fn happen(&mut self, slot: Slot) -> Result<(), Refusal> {
        let job = self.job(slot);
        let come = |at: Option<Time>| at.is_some_and(|at| at <= self.now);
        match job.state {
            State::Created | State::Queued if come(job.head.expires_at) => self.expire(slot),
            State::Created => self.enqueue(slot, Cause::Due),
            State::Queued => {
                let job = self.change(slot);
                job.available_at = None;
                job.parked = match job.parked {
                    Parked::ForTurn => Parked::TurnCame,
                    Parked::No | Parked::ForPlace | Parked::TurnCame => Parked::No,
                };
                self.reshelve(slot);
                Ok(())
            }
            State::Running if come(job.lease.as_ref().and_then(|lease| lease.timeout_at)) => {
                let error = WorkError::new(Kind::HandlerTimeout, "the attempt ran longer than it may");
                self.break_off(slot, Cause::Timeout, &error)
            }
            State::Assigned | State::Running => self.lose(slot),
            State::Succeeded | State::Failed | State::Canceled => {
                let kept = job.record_kept();
                self.erase(slot, Some(kept));
                Ok(())
            }
        }
    }
}
