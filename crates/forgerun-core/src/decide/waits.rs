//! Waiting steps: begun with the turn of the step, ended by time or by a signal; and deadlines of
//! workflows.
//!
//! A signal and a timeout that meet are decided one after the other, like all commands: the first
//! one ends the wait, and the second one finds it ended.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use crate::catalog::Kind;
use crate::command::{Answer, Output, Owned, Refusal, SendSignal, SignalTarget, WorkError};
use crate::history::RetryStatus;
use crate::id::JobId;
use crate::memo::{self, MemoIndex, StepMemo};
use crate::record::Stored;
use crate::rows::Wants;
use crate::state::{Cause, State};
use crate::workflow::{Signal, StepState, Wait, Workflow};

pub(super) fn wants(signal: &SendSignal, wants: &mut Wants) {
    match &signal.to {
        SignalTarget::Named { workflow, name } => {
            wants.jobs.insert(workflow.job);
            wants.records.insert(Workflow::key_of(workflow.job));
            wants.records.insert(Signal::key_of(workflow.job, name));
        }
        SignalTarget::Job { job, name } => {
            wants.jobs.insert(job.job);
            let step = StepMemo::key_of(job.job, &memo::signal_step(name));
            wants.records.extend([step, MemoIndex::record_key(job.job.to_string())]);
        }
        SignalTarget::Token(token) => drop(wants.jobs.insert(token.job)),
    }
}

/// The step that a signal is for.
struct SignaledStep {
    workflow: JobId,
    index: u32,
    name: String,
    state: StepState,
    /// Its current job.
    job: JobId,
}

impl WorkingSet<'_> {
    pub(super) fn signal(&mut self, signal: &SendSignal) -> Result<Answer, Refusal> {
        if let SignalTarget::Job { job, name } = &signal.to {
            return self.signal_handler(job, name, &signal.body);
        }
        let step = self.signaled_step(&signal.to)?;
        let known: Option<Signal> = self.seek_record(&Signal::key_of(step.workflow, &step.name));
        let own = self.seek(step.workflow).ok_or(Refusal::NotFound)?;
        let repeats = known.as_ref().is_some_and(|known| known.digest == signal.digest);
        let early = known.as_ref().is_some_and(|known| known.ended.is_none());
        let ended_it = known.as_ref().is_some_and(|known| known.ended == Some(step.job));
        match step.state {
            StepState::Waiting if early && !repeats => return Err(Refusal::SignalTaken),
            StepState::Waiting if early => return Ok(Answer::Unchanged(self.job(own).clone())),
            StepState::Waiting => {
                self.note_signal(&step, signal, None);
                self.workflow_mut(step.workflow)
                    .into_iter()
                    .for_each(|workflow| workflow.keep_signal(step.index));
            }
            StepState::Released => {
                let slot = self.seek(step.job).filter(|&slot| self.job(slot).state == State::Running);
                let slot = slot.ok_or(Refusal::WaitOver)?;
                self.note_signal(&step, signal, Some(step.job));
                self.finish_wait(slot, Some(signal.body.clone()))?;
            }
            StepState::Succeeded if ended_it && repeats => {
                return Ok(Answer::Unchanged(self.job(own).clone()));
            }
            StepState::Succeeded => return Err(Refusal::SignalTaken),
            StepState::Failed | StepState::Canceled | StepState::Skipped => return Err(Refusal::WaitOver),
        }
        Ok(Answer::Done(self.job(own).clone()))
    }

    /// Records the signal among the steps of a job, where its handler finds it, and makes the job
    /// claimable if the handler waits for it.
    fn signal_handler(&mut self, owned: &Owned, name: &str, body: &[u8]) -> Result<Answer, Refusal> {
        let slot = self.owned(owned)?;
        let head = &self.job(slot).head;
        if head.workflow_head.is_some() || head.wait.is_some() || head.is_simulated() {
            return Err(Refusal::SignalUnknown);
        }
        let result = [memo::SIGNAL_PREFIX, body, b"}"].concat();
        if let Some(known) = self.signal_of(slot, name) {
            return match known.result {
                known if known == result => Ok(Answer::Unchanged(self.job(slot).clone())),
                known if known.starts_with(memo::SIGNAL_PREFIX) => Err(Refusal::SignalTaken),
                _ => Err(Refusal::WaitOver),
            };
        }
        let state = self.job(slot).state;
        if state.is_final() {
            return Err(Refusal::WrongState(state));
        }
        let saved_at = self.now.max(self.job(slot).head.created_at);
        self.record_step(slot, &memo::signal_step(name), result, saved_at)?;
        if self.job(slot).awaited_signal.as_deref() == Some(name) {
            let job = self.change(slot);
            job.available_at = None;
            job.awaited_signal = None;
            self.reshelve(slot);
        }
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// How the wait of a handler for a signal ended.
    pub(super) fn signal_of(&self, slot: Slot, name: &str) -> Option<StepMemo> {
        self.recorded_step(slot, &memo::signal_step(name))
    }

    fn signaled_step(&mut self, to: &SignalTarget) -> Result<SignaledStep, Refusal> {
        match to {
            SignalTarget::Named { workflow: owned, name } => {
                let own = self.owned(owned)?;
                if self.job(own).head.workflow_head.is_none() {
                    return Err(Refusal::NotFound);
                }
                let workflow = self.seek_workflow(owned.job).ok_or(Refusal::NotFound)?;
                let index = workflow.signaled(name).ok_or(Refusal::SignalUnknown)?;
                Ok(signaled(workflow, index, name))
            }
            SignalTarget::Job { .. } => Err(Refusal::SignalUnknown),
            SignalTarget::Token(token) => {
                let slot = self.find(token.job).ok_or(Refusal::SignalUnknown)?;
                let head = self.job(slot).head.clone();
                let (wait, step) = (head.wait.as_deref().and_then(Wait::signal), head.workflow);
                let wait = wait.filter(|wait| token.opens(wait)).ok_or(Refusal::SignalUnknown)?;
                let step = step.ok_or(Refusal::SignalUnknown)?;
                let workflow = self.seek_workflow(step.workflow).ok_or(Refusal::SignalUnknown)?;
                let found = signaled(workflow, step.index, &wait.name);
                // The token of an earlier execution.
                if found.job == token.job { Ok(found) } else { Err(Refusal::WaitOver) }
            }
        }
    }

    fn note_signal(&mut self, step: &SignaledStep, signal: &SendSignal, ended: Option<JobId>) {
        self.put_record(&Signal {
            workflow: step.workflow,
            name: step.name.clone(),
            ended,
            digest: signal.digest,
            body: if ended.is_none() { signal.body.clone() } else { Vec::new() },
            received_at: self.now,
        });
    }

    /// Begins the wait of a step whose job was just inserted. If its signal came early, the step
    /// has succeeded; returns the steps that this makes ready.
    pub(super) fn begin_wait(&mut self, id: JobId, index: u32, slot: Slot) -> Result<Vec<u32>, Refusal> {
        self.start_without_worker(slot)?;
        let head = self.job(slot).head.clone();
        let Some(wait) = head.wait.as_deref().and_then(Wait::signal) else { return Ok(Vec::new()) };
        let key = Signal::key_of(id, &wait.name);
        let Some(workflow) = self.workflow_mut(id) else { return Ok(Vec::new()) };
        let kept = workflow.kept_signals(index);
        let is_kept = workflow.take_signal(index);
        if !is_kept {
            return Ok(Vec::new());
        }
        // The waits behind this one may have theirs, too: to load them one by one would decide the
        // batch once more for each.
        let _: Vec<Option<Signal>> = kept.iter().map(|key| self.seek_record(key)).collect();
        let kept = self.record(key.key).filter(|kept: &Signal| kept.ended.is_none());
        let Some(kept) = kept else { return Ok(Vec::new()) };
        let job = self.job(slot).id;
        self.put_record(&Signal { ended: Some(job), body: Vec::new(), ..kept.clone() });
        // Noted before the job ends, so that its end does not move the workflow: a long chain of
        // such steps would need a deep stack.
        let ready = self.note_step(id, index, StepState::Succeeded);
        self.finish_wait(slot, Some(kept.body))?;
        Ok(ready)
    }

    /// Ends a wait well. The result of a wait for a time is `null`, which is not stored.
    fn finish_wait(&mut self, slot: Slot, result: Option<Vec<u8>>) -> Result<(), Refusal> {
        let at = self.step(slot, Cause::Finish, RetryStatus::Open)?;
        if let Some(body) = result {
            self.set_result(slot, at, &Arc::new(Output::inline("application/json", body)));
        }
        self.end(slot, at);
        Ok(())
    }

    /// The moment of a wait has come.
    pub(super) fn wait_due(&mut self, slot: Slot) -> Result<(), Refusal> {
        let head = self.job(slot).head.clone();
        match head.wait.as_deref().and_then(Wait::signal) {
            None => self.finish_wait(slot, None),
            Some(signal) => {
                let message = format!("no signal `{}` came within {:?}", signal.name, signal.timeout);
                let error = WorkError::new(Kind::HandlerTimeout, &message);
                self.break_off(slot, Cause::Timeout, &error)
            }
        }
    }

    /// Stops a workflow at its deadline. It fails once its compensations are done, if its policy
    /// asks for them.
    pub(super) fn workflow_overdue(&mut self, own: Slot) -> Result<(), Refusal> {
        let id = self.job(own).id;
        self.change(own).overdue = true;
        if self.conductor(id).is_none() {
            return Ok(());
        }
        self.stop_at_deadline(id)?;
        self.catch_up(own)
    }
}

fn signaled(workflow: &Workflow, index: u32, name: &str) -> SignaledStep {
    let state = workflow.steps.get(index as usize).map_or(StepState::Skipped, |step| step.state);
    SignaledStep { workflow: workflow.id, index, name: name.into(), state, job: workflow.job_of(index) }
}
