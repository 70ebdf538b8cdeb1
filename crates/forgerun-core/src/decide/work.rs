//! Reports of the holder of a job: started, alive, succeeded, failed, handed back.
//!
//! Only the holder may report. A worker that lost its lease has an old fencing token and is
//! refused.

use alloc::string::String;
use alloc::sync::Arc;
use core::time::Duration;

use super::working_set::{Slot, WorkingSet, millis};
use crate::catalog::Kind;
use crate::command::{
    Answer, Extend, Fail, HeldJob, Note, Output, Refusal, Snooze, Succeed, Upload, WorkError,
};
use crate::history::{EventKind, RetryStatus};
use crate::job::{AttemptError, ResultNote, bounded, earliest};
use crate::limits;
use crate::memo::{self, StepMemo};
use crate::retry::{AttemptFailure, Next, RetryVerdict};
use crate::rows::{Activity, NewResult, Wants};
use crate::state::{Cause, State};
use crate::time::Time;

pub(super) fn wants_snooze(snooze: &Snooze, wants: &mut Wants) {
    let job = snooze.held.job;
    wants.jobs.insert(job);
    let step = snooze.until_signal.as_deref().map(memo::signal_step);
    wants.records.extend(step.map(|step| StepMemo::key_of(job, &step)));
}

impl WorkingSet<'_> {
    pub(super) fn start(&mut self, held: &HeldJob) -> Result<Answer, Refusal> {
        let slot = self.held(held)?;
        self.begin(slot)?;
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// ASSIGNED to RUNNING; the timeout of the attempt begins.
    pub(super) fn begin(&mut self, slot: Slot) -> Result<(), Refusal> {
        let at = self.step(slot, Cause::Start, RetryStatus::Open)?;
        let job = self.change(slot);
        job.started_at = Some(at);
        job.progress = None;
        job.message = None;
        let timeout_at = earliest(job.head.timeout.map(|timeout| at + timeout), job.deadline());
        let waited_ms = job.queued_at.map_or(0, |queued_at| millis(at.since(queued_at)));
        if let Some(lease) = &mut job.lease {
            lease.timeout_at = timeout_at;
        }
        self.note_activity(slot, Activity { started: 1, waited_ms, ..Activity::default() });
        Ok(())
    }

    pub(super) fn extend(&mut self, extend: &Extend) -> Result<Answer, Refusal> {
        let slot = self.held(&extend.held)?;
        self.prolong(slot, extend.lease);
        let job = self.change(slot);
        match &extend.note {
            Some(Note::Progress { percent, message }) if job.state == State::Running => {
                let percent = (*percent).min(100).max(job.progress.unwrap_or(0));
                job.progress = Some(percent);
                if let Some(message) = message {
                    job.message = Some(bounded(message.clone()));
                }
                self.append_event(slot, EventKind::Progress(percent));
            }
            Some(Note::Emitted) if job.state == State::Running => {
                self.append_event(slot, EventKind::Emitted);
            }
            Some(_) | None => {}
        }
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// Extends the lease.
    pub(super) fn prolong(&mut self, slot: Slot, length: Option<Duration>) {
        let now = self.now;
        if let Some(lease) = &mut self.change(slot).lease {
            // A late or shorter extension never shortens the lease.
            lease.until = lease.until.max(now + length.unwrap_or(lease.length));
        }
    }

    pub(super) fn upload(&mut self, upload: &Upload) -> Result<Answer, Refusal> {
        let slot = self.held(&upload.held)?;
        if let Some(lease) = &mut self.change(slot).lease {
            lease.upload = Some(upload.output.clone());
        }
        Ok(Answer::Done(self.job(slot).clone()))
    }

    pub(super) fn succeed(&mut self, succeed: &Succeed) -> Result<Answer, Refusal> {
        let slot = self.held(&succeed.held)?;
        if let Some(items) = self.job(slot).head.items {
            // The items of a batch decide its end, so they must be reported.
            return Err(Refusal::WrongItems { expected: items.n });
        }
        let uploaded = self.job(slot).lease.as_ref().and_then(|lease| lease.upload.clone());
        let at = self.step(slot, Cause::Finish, RetryStatus::Open)?;
        if let Some(output) = succeed.output.clone().or(uploaded) {
            self.set_result(slot, at, &output);
        }
        self.end(slot, at);
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// Stores the result and its retention, which is never longer than the job's.
    pub(super) fn set_result(&mut self, slot: Slot, at: Time, output: &Arc<Output>) {
        let job = self.change(slot);
        // Later steps may need the result of a step, whenever they run.
        let keep = job.head.result_retention.filter(|_| job.head.workflow.is_none());
        let kept = keep.map(|keep| keep.of(output));
        let expires_at = kept.filter(|&kept| kept < job.record_kept()).map(|kept| at + kept);
        let media_type = bounded(output.media_type.clone());
        job.result = Some(ResultNote { media_type, size: output.content.size(), expires_at });
        let execution = job.execution;
        let size = output.content.size();
        self.charge(slot, i64::try_from(size).unwrap_or(i64::MAX));
        self.changes.results.push(NewResult { execution, size, output: output.clone(), expires_at });
    }

    pub(super) fn fail(&mut self, fail: &Fail) -> Result<Answer, Refusal> {
        let slot = self.held(&fail.held)?;
        let cause = if fail.error.kind == Kind::HandlerTimeout { Cause::Timeout } else { Cause::Fail };
        self.break_off(slot, cause, &fail.error)?;
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// Ends the running attempt with an error, and goes on as the retry policy says.
    pub(super) fn break_off(&mut self, slot: Slot, cause: Cause, error: &WorkError) -> Result<(), Refusal> {
        if self.job(slot).state != State::Running {
            return Err(Refusal::WrongState(self.job(slot).state));
        }
        let random = self.random();
        let job = self.job(slot);
        let retryable = error.retryable.unwrap_or(error.kind.entry().retryable);
        let failure = AttemptFailure {
            attempt: job.attempt,
            retryable,
            verdict: error.verdict,
            code: code(error, error.kind),
            class: error.class.as_deref(),
        };
        let is_over = job.deadline().is_some_and(|deadline| deadline <= self.now);
        let next = match (job.head.retry.after(failure, random), error.delay) {
            (Next::RetryIn(_), _) if is_over => job.head.retry.exhausted(),
            (Next::RetryIn(_), Some(delay)) => Next::RetryIn(delay.min(limits::RETRY_DELAY_MAX)),
            (next, _) => next,
        };
        let retry_status = match next {
            Next::RetryIn(_) => RetryStatus::WillRetry,
            Next::End { .. } if job.can_retry() => RetryStatus::Open,
            Next::End { .. } => RetryStatus::Final,
        };
        let at = self.step(slot, cause, retry_status)?;
        // Ended explicitly, by the handler or by the policy's list, not by the kind of failure.
        let settled = match error.verdict {
            Some(RetryVerdict::Discard | RetryVerdict::DeadLetter) => true,
            Some(RetryVerdict::Retry) => false,
            None => matches!(next, Next::End { listed: true, .. }),
        };
        // A timeout stays one, whichever rule forbids the retry.
        let kind = if settled && cause != Cause::Timeout { Kind::NonRetryable } else { error.kind };
        self.remember(
            slot,
            AttemptError {
                attempt: self.job(slot).attempt,
                at,
                kind,
                code: bounded(String::from(code(error, kind))),
                message: bounded(error.message.clone()),
                class: error.class.clone().map(bounded),
                retryable: retryable && !settled,
                details: error.details.clone(),
                wait: match next {
                    Next::RetryIn(_) if cause == Cause::RunnerLost => Some(Duration::ZERO),
                    Next::RetryIn(wait) => Some(wait),
                    Next::End { .. } => None,
                },
                discarded: match (next, error.verdict) {
                    (Next::End { .. }, Some(RetryVerdict::Discard)) => true,
                    (Next::End { dead_letter, listed }, _) => retryable && !listed && !dead_letter,
                    (Next::RetryIn(_), _) => false,
                },
                execution: self.job(slot).execution_n(),
            },
        );
        match next {
            // A lost runner says nothing about the work: retry at once.
            Next::RetryIn(_) if cause == Cause::RunnerLost => self.try_again(slot, Duration::ZERO, 1),
            Next::RetryIn(wait) => self.try_again(slot, wait, 1),
            Next::End { dead_letter, .. } => {
                self.change(slot).dead_lettered_at = dead_letter.then_some(at);
                self.end(slot, at);
                Ok(())
            }
        }
    }

    /// Puts a job back on its shelf, claimable after `delay`.
    pub(super) fn hand_back(&mut self, held: &HeldJob, delay: Duration) -> Result<Answer, Refusal> {
        let slot = self.held(held)?;
        let delay = delay.min(limits::RETRY_DELAY_MAX);
        match self.job(slot).state {
            State::Running => {
                self.step(slot, Cause::HandBack, RetryStatus::WillRetry)?;
                self.try_again(slot, delay, 0)?;
            }
            _ => {
                self.change(slot).available_at = (!delay.is_zero()).then(|| self.now + delay);
                self.take_back(slot, Cause::HandBack)?;
            }
        }
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// Puts a job back for a while, or until the signal that its handler waits for.
    pub(super) fn snooze(&mut self, snooze: &Snooze) -> Result<Answer, Refusal> {
        let Some(name) = &snooze.until_signal else { return self.hand_back(&snooze.held, snooze.delay) };
        let slot = self.held(&snooze.held)?;
        if self.signal_of(slot, name).is_some() {
            return self.hand_back(&snooze.held, Duration::ZERO);
        }
        self.hand_back(&snooze.held, snooze.delay)?;
        let job = self.change(slot);
        job.awaited_signal = job.available_at.is_some().then(|| name.clone());
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// ASSIGNED to QUEUED: the attempt never began.
    pub(super) fn take_back(&mut self, slot: Slot, cause: Cause) -> Result<(), Refusal> {
        self.change(slot).lease = None;
        self.enqueue(slot, cause)
    }

    /// FAILED to QUEUED by the server. `raise` is 0 if the broken attempt does not count.
    fn try_again(&mut self, slot: Slot, wait: Duration, raise: u32) -> Result<(), Refusal> {
        let available_at = (!wait.is_zero()).then(|| self.now + wait);
        let job = self.change(slot);
        job.lease = None;
        job.attempt += raise;
        job.available_at = available_at;
        self.enqueue(slot, Cause::RetryByPolicy)
    }

    fn remember(&mut self, slot: Slot, error: AttemptError) {
        let errors = &mut self.change(slot).errors;
        if errors.len() >= limits::ERRORS_MAX {
            errors.remove(0);
        }
        errors.push(error);
    }
}

/// The worker's own code, or the catalog's.
fn code(error: &WorkError, kind: Kind) -> &str {
    if error.code.is_empty() { kind.entry().ojs_or_custom() } else { &error.code }
}
