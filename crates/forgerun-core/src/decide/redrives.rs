//! Redrives: one per group at a time, run step by step.

use alloc::format;

use super::submit;
use super::working_set::WorkingSet;
use crate::command::{
    Answer, Extend, Note, Owned, RedriveCommand, RedriveStep, RedriveTarget, Refusal, Retry, Submit,
};
use crate::failure;
use crate::id::JobId;
use crate::limits;
use crate::record::{RecordKey, Stored};
use crate::redrive::Redrive;
use crate::rows::Wants;
use crate::state::State;

pub(super) fn wants(command: &RedriveCommand, wants: &mut Wants) {
    match command {
        RedriveCommand::Begin { redrive, submit, before } => {
            wants.records.insert(Redrive::record_key(redrive.key()));
            wants.jobs.extend(before);
            submit::wants(submit, wants);
        }
        RedriveCommand::Step(step) => {
            wants.records.insert(Redrive::record_key(failure::key(step.failure)));
            wants.jobs.insert(step.held.job);
            wants.jobs_sought.extend(step.targets.iter().map(|target| target.job));
            wants.uniques_of.extend(step.targets.iter().map(|target| target.job));
        }
    }
}

impl WorkingSet<'_> {
    pub(super) fn redrive(&mut self, command: &RedriveCommand) -> Result<Answer, Refusal> {
        match command {
            RedriveCommand::Begin { redrive, submit, before } => self.begin_redrive(redrive, submit, *before),
            RedriveCommand::Step(step) => self.step_redrive(step),
        }
    }

    fn begin_redrive(
        &mut self,
        redrive: &Redrive,
        submit: &Submit,
        before: Option<JobId>,
    ) -> Result<Answer, Refusal> {
        if let Some(known) = self.record::<Redrive>(redrive.key()) {
            let has_ended = || self.find(known.job).is_none_or(|slot| self.job(slot).state.is_final());
            // Another one began that the caller has not seen.
            if before != Some(known.job) || !has_ended() {
                return Err(Refusal::RedriveRunning(known.job));
            }
        }
        let answer = self.submit(submit)?;
        self.put_record(redrive);
        Ok(answer)
    }

    fn step_redrive(&mut self, step: &RedriveStep) -> Result<Answer, Refusal> {
        self.held(&step.held)?;
        let known: Option<Redrive> = self.record(failure::key(step.failure));
        let mut redrive = known.filter(|known| known.job == step.held.job).ok_or(Refusal::NotFound)?;
        redrive.failed_again += step.failed_again;
        redrive.watched.clone_from(&step.watched);
        for target in &step.targets {
            if redrive.left() == 0 {
                break;
            }
            if self.try_target(&redrive, target) {
                redrive.redriven += 1;
                redrive.watched.push((target.job, target.next));
            } else {
                redrive.skipped += 1;
            }
        }
        let surplus = redrive.watched.len().saturating_sub(limits::REDRIVE_WATCHED_MAX);
        redrive.watched.drain(..surplus);
        redrive.updated_at = redrive.updated_at.max(self.now);
        self.put_record(&redrive);
        let message = Some(format!("{} of {} redriven", redrive.redriven, redrive.matched));
        let note = Some(Note::Progress { percent: redrive.percent(), message });
        self.extend(&Extend { held: step.held.clone(), lease: None, note })?;
        Ok(Answer::Redriven(redrive.into()))
    }

    /// Opens another execution of a job, unless the job has changed since the redrive listed it.
    fn try_target(&mut self, redrive: &Redrive, target: &RedriveTarget) -> bool {
        let Some(slot) = self.find(target.job) else { return false };
        let job = self.job(slot);
        let is_meant = job.state == State::Failed
            && job.execution == target.failed
            && job.failure == Some(redrive.failure)
            && job.finished_at.is_some_and(|at| at <= redrive.started_at);
        let retry = Retry {
            owned: Owned { job: target.job, client: None },
            execution: target.next,
            afresh: true,
            dead_letter: false,
            from: None,
        };
        is_meant && matches!(self.retry(&retry), Ok(Answer::Done(_)))
    }

    /// Deletes a redrive that ended long ago.
    pub(super) fn redrive_due(&mut self, key: RecordKey) {
        let known: Option<Redrive> = self.record(key.key.clone());
        if known.as_ref().and_then(Stored::due_at).is_none_or(|due_at| due_at <= self.now) {
            self.remove_record(key);
        }
    }
}
