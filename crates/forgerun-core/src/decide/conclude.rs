//! How a batch job ends: all items succeeded is SUCCEEDED, some of each is FAILED, mixed (ruling
//! C-81), none is FAILED like any job. A retry, by the policy or by a client, runs the failed items
//! only; the execution records which these are.

use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;

use super::working_set::{Slot, WorkingSet};
use crate::catalog::Kind;
use crate::command::{Answer, Conclude, Refusal, WorkError};
use crate::history::RetryStatus;
use crate::item::{ItemEnd, ItemError, Tally};
use crate::job::cut;
use crate::limits;
use crate::state::{Cause, State};
use crate::time::Time;

impl WorkingSet<'_> {
    pub(super) fn conclude(&mut self, conclude: &Conclude) -> Result<Answer, Refusal> {
        let slot = self.held(&conclude.held)?;
        let job = self.job(slot);
        let expected = job.head.items.map_or(0, |items| items.n);
        if expected == 0 || expected as usize != conclude.ends.len() {
            return Err(Refusal::WrongItems { expected });
        }
        if job.state != State::Running {
            return Err(Refusal::WrongState(job.state));
        }
        self.end_items(slot, &conclude.ends, "items", None)?;
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// Ends a workflow that was stopped at its deadline. `remark` is appended to the error message.
    pub(super) fn end_overdue(
        &mut self,
        slot: Slot,
        ends: &Arc<[ItemEnd]>,
        deadline: Time,
        remark: Option<&str>,
    ) -> Result<(), Refusal> {
        self.note_ends(slot, ends);
        let message = self.job(slot).head.deadline_message(deadline);
        let remark = remark.map_or_else(String::new, |remark| format!(". {remark}"));
        let error = WorkError::new(Kind::HandlerTimeout, &format!("{message}{remark}"));
        self.break_off(slot, Cause::Timeout, &error)
    }

    fn note_ends(&mut self, slot: Slot, ends: &Arc<[ItemEnd]>) {
        let execution = self.job(slot).execution;
        self.change(slot).tally = Tally::of(ends);
        self.changes.items.insert(execution, bounded(ends));
    }

    /// Ends a job as its items did. `word` is the noun for its items; `remark` is appended to the
    /// error message.
    pub(super) fn end_items(
        &mut self,
        slot: Slot,
        ends: &Arc<[ItemEnd]>,
        word: &str,
        remark: Option<&str>,
    ) -> Result<(), Refusal> {
        self.note_ends(slot, ends);
        match verdict(ends, word) {
            None => {
                let at = self.step(slot, Cause::Finish, RetryStatus::Open)?;
                self.end(slot, at);
                Ok(())
            }
            Some((cause, mut error)) => {
                if let Some(remark) = remark {
                    error.message = format!("{} {remark}", error.message);
                }
                self.break_off(slot, cause, &error)
            }
        }
    }
}

/// The ends, each with its message cut to what is stored.
fn bounded(ends: &Arc<[ItemEnd]>) -> Arc<[ItemEnd]> {
    let is_long = |error: &ItemError| error.message.len() > limits::ITEM_MESSAGE_BYTES_MAX;
    if !ends.iter().filter_map(|end| end.error.as_ref()).any(is_long) {
        return ends.clone();
    }
    let mut ends = ends.to_vec();
    for error in ends.iter_mut().filter_map(|end| end.error.as_mut()) {
        error.message = cut(core::mem::take(&mut error.message), limits::ITEM_MESSAGE_BYTES_MAX);
    }
    ends.into()
}

/// The failure of the batch as a whole, if any.
fn verdict(ends: &[ItemEnd], word: &str) -> Option<(Cause, WorkError)> {
    let Tally { completed, failed } = Tally::of(ends);
    if failed == 0 {
        return None;
    }
    let errors = || ends.iter().filter_map(|end| end.error.as_ref());
    let retryable = errors().any(|error| error.retryable);
    let (cause, kind) = match () {
        () if completed > 0 => (Cause::Mixed, Kind::BatchPartial),
        () if errors().all(|error| error.kind == Kind::HandlerTimeout) => {
            (Cause::Timeout, Kind::HandlerTimeout)
        }
        () if retryable => (Cause::Fail, Kind::HandlerTransient),
        () => (Cause::Fail, Kind::HandlerError),
    };
    let message = format!("{completed} of {} {word} completed successfully.", ends.len());
    Some((cause, WorkError { retryable: Some(retryable), ..WorkError::new(kind, &message) }))
}
