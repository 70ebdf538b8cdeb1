//! Commands of owners and operators: cancel, retry, activate, forget.

use super::working_set::WorkingSet;
use crate::command::{Answer, Cancel, Owned, Refusal, Retry};
use crate::history::RetryStatus;
use crate::item::Tally;
use crate::job::{self, bounded};
use crate::state::{Cause, State};
use crate::workflow::PendingCancel;

impl WorkingSet<'_> {
    /// Works in every state that is not final. On a final job it is a no-op that reports the state,
    /// as it is if the given execution has ended. A worker that holds the job learns of it with its
    /// next heartbeat. A workflow with compensations runs on until they are done.
    pub(super) fn cancel(&mut self, cancel: &Cancel) -> Result<Answer, Refusal> {
        let slot = self.owned(&cancel.owned)?;
        let job = self.job(slot);
        if job.state.is_final() || cancel.execution.is_some_and(|meant| meant != job.execution) {
            return Ok(Answer::Unchanged(job.clone()));
        }
        let cause = if cancel.owned.client.is_some() { Cause::CancelByUser } else { Cause::CancelBySystem };
        let (by, reason) = (bounded(cancel.by.clone()), bounded(cancel.reason.clone()));
        let cancellation = job::Cancellation { by, reason };
        if cancel.compensate {
            let by_client = cancel.owned.client.is_some();
            let pending = PendingCancel { cancellation: cancellation.clone(), by_client };
            match self.undo_and_cancel(slot, pending)? {
                None => {}
                Some(true) => return Ok(Answer::Done(self.job(slot).clone())),
                Some(false) => return Ok(Answer::Unchanged(self.job(slot).clone())),
            }
        }
        self.change(slot).cancel = Some(cancellation);
        let at = self.step(slot, cause, RetryStatus::Open)?;
        self.end(slot, at);
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// Opens another execution of a failed job, unless another job holds its unique key. Repeating
    /// the call while that execution is running is a no-op.
    pub(super) fn retry(&mut self, retry: &Retry) -> Result<Answer, Refusal> {
        let slot = self.owned(&retry.owned)?;
        let job = self.job(slot);
        // A wait is repeated with its workflow, in a new job, whose token is new as well.
        if job.head.wait.is_some() {
            return Err(Refusal::WrongState(job.state));
        }
        let retried = job.attempt > 1 || !job.executions_past.is_empty();
        match job.state {
            State::Failed => {}
            State::Queued | State::Assigned | State::Running if retried => {
                return Ok(Answer::Unchanged(job.clone()));
            }
            State::Created | State::Queued | State::Assigned | State::Running => {
                return Err(Refusal::WrongState(job.state));
            }
            State::Succeeded | State::Canceled => return Err(Refusal::WrongState(job.state)),
        }
        if retry.dead_letter && job.dead_lettered_at.is_none() {
            return Err(Refusal::NoDeadLetter);
        }
        let allowed = if retry.afresh { job.can_reopen() } else { job.can_retry() };
        if !allowed {
            return Err(Refusal::RetryLimitReached { attempts: job.attempt });
        }
        if let Some(from) = retry.from {
            self.check_from(slot, from)?;
        }
        self.hold_again(slot)?;
        let random = self.random();
        let now = self.now;
        let job = self.change(slot);
        let wait = job.head.retry.delay(job.attempt, random);
        job.available_at = (!retry.afresh && !wait.is_zero()).then(|| now + wait);
        let n_execution = job.execution_n();
        job.errors
            .iter_mut()
            .filter(|error| error.execution == 0)
            .for_each(|error| error.execution = n_execution);
        job.executions_past.push(job.execution);
        job.execution = retry.execution;
        job.attempt = if retry.afresh { 1 } else { job.attempt + 1 };
        if retry.afresh {
            job.attempt_handed = 0;
        }
        job.started_at = None;
        job.finished_at = None;
        job.forget_at = None;
        job.dead_lettered_at = None;
        job.overdue = false;
        job.failure = None;
        job.progress = None;
        job.message = None;
        job.tally = Tally::default();
        self.changes.executions.push((retry.execution, retry.owned.job));
        self.enqueue(slot, Cause::RetryByUser)?;
        self.resume_workflow(slot, retry.from)?;
        Ok(Answer::Done(self.job(slot).clone()))
    }

    pub(super) fn activate(&mut self, owned: &Owned) -> Result<Answer, Refusal> {
        let slot = self.owned(owned)?;
        let job = self.job(slot);
        if job.state != State::Created || !job.hold {
            return Err(Refusal::WrongState(job.state));
        }
        self.change(slot).hold = false;
        if self.job(slot).head.execution_at.is_none_or(|at| at <= self.now) {
            self.enqueue(slot, Cause::Activate)?;
        }
        Ok(Answer::Done(self.job(slot).clone()))
    }

    pub(super) fn forget(&mut self, owned: &Owned) -> Result<Answer, Refusal> {
        let slot = self.owned(owned)?;
        if !self.job(slot).state.is_final() {
            return Err(Refusal::WrongState(self.job(slot).state));
        }
        self.erase(slot, None);
        Ok(Answer::Settled)
    }
}
