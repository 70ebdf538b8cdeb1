//! Checkpoints: saved while a job has not ended, deleted, forgotten.

use alloc::string::ToString;
use alloc::vec::Vec;

use super::client_limits;
use super::working_set::{Slot, WorkingSet};
use crate::checkpoint::Checkpoint;
use crate::client_limits::ClientLimit;
use crate::command::{Answer, CheckpointCommand, LeaseProof, Refusal};
use crate::id::JobId;
use crate::limits;
use crate::memo::{MemoIndex, StepMemo};
use crate::record::{RecordKey, Stored};
use crate::rows::Wants;
use crate::time::Time;

pub(super) fn wants(command: &CheckpointCommand, wants: &mut Wants) {
    let job = command.owned().job;
    wants.jobs.insert(job);
    match command {
        CheckpointCommand::Save { .. } => {
            wants.records.insert(Checkpoint::record_key(job.to_string()));
        }
        CheckpointCommand::SaveStep { step, .. } => {
            wants.records.extend([MemoIndex::record_key(job.to_string()), StepMemo::key_of(job, step)]);
        }
        CheckpointCommand::Delete(_) => {
            wants.records.insert(Checkpoint::record_key(job.to_string()));
            wants.records.insert(MemoIndex::record_key(job.to_string()));
        }
    }
    command.owned().client.into_iter().for_each(|client| client_limits::wants(client, wants));
}

impl WorkingSet<'_> {
    /// Deletes the checkpoint of a deleted job if the batch has loaded it, which it has when a
    /// client deletes the job. If retention deletes the job, loading each checkpoint would double
    /// the cost of every batch: the checkpoint then expires by itself
    /// ([`Checkpoint::due_at`](Stored::due_at)), and [`Checkpoint::is_of`] hides it meanwhile.
    pub(super) fn forget_checkpoint(&mut self, job: JobId) {
        let key = Checkpoint::record_key(job.to_string());
        if self.records.contains(&key) {
            self.remove_record(key);
        }
        self.forget_steps(job);
    }

    /// Deletes the recorded steps of a job if the batch has loaded their index.
    fn forget_steps(&mut self, job: JobId) {
        let Some(index) = self.record::<MemoIndex>(job.to_string()) else { return };
        for step in &index.steps {
            let key = StepMemo::key_of(job, step);
            let _: Option<StepMemo> = self.seek_record(&key);
            if self.records.contains(&key) {
                self.remove_record(key);
            }
        }
        self.remove_record(MemoIndex::record_key(job.to_string()));
    }

    /// A worker that lost its lease must not overwrite what the next one saves.
    fn check_holder(&self, slot: Slot, command: &CheckpointCommand) -> Result<(), Refusal> {
        match (command, &command.held().proof) {
            (_, LeaseProof::Anyone) => Ok(()),
            (CheckpointCommand::Save { held, .. } | CheckpointCommand::SaveStep { held, .. }, _) => {
                self.held(held).map(drop)
            }
            (CheckpointCommand::Delete(_), LeaseProof::Token(token)) if *token != self.job(slot).fence => {
                Err(Refusal::LeaseLost)
            }
            (CheckpointCommand::Delete(_), LeaseProof::Token(_) | LeaseProof::Worker(_)) => Ok(()),
        }
    }

    pub(super) fn checkpoint(&mut self, command: &CheckpointCommand) -> Result<Answer, Refusal> {
        let slot = self.owned(&command.owned())?;
        self.check_holder(slot, command)?;
        let (job, stands) = (self.job(slot).id, self.job(slot).state);
        // The clocks of nodes differ, and a checkpoint older than its job is not of that job.
        let saved_at = self.now.max(self.job(slot).head.created_at);
        let known: Option<Checkpoint> = self.record(job.to_string());
        let known = known.filter(|known| known.is_of(self.job(slot)));
        match command {
            CheckpointCommand::SaveStep { step, result, .. } => self.save_step(slot, step, result, saved_at),
            CheckpointCommand::Save { .. } if stands.is_final() => Err(Refusal::WrongState(stands)),
            CheckpointCommand::Save { state, notes, .. } => {
                let before = known.as_ref().map_or(0, Checkpoint::bytes);
                let more = (state.len() + notes.len()) as u64;
                let client = self.job(slot).head.client;
                self.check_usage(client, ClientLimit::StorageBytes, more.saturating_sub(before))?;
                self.charge(slot, more.cast_signed() - before.cast_signed());
                let sequence = known.map_or(0, |known| known.sequence) + 1;
                let (state, notes) = (state.clone(), notes.clone());
                let checkpoint = Checkpoint { job, sequence, state, notes, saved_at };
                self.put_record(&checkpoint);
                Ok(Answer::Checkpoint(checkpoint.into()))
            }
            CheckpointCommand::Delete(_) => {
                self.forget_steps(job);
                if let Some(known) = known {
                    self.charge(slot, -known.bytes().cast_signed());
                    self.remove_record(Checkpoint::record_key(job.to_string()));
                }
                Ok(Answer::Settled)
            }
        }
    }

    /// The first result of a step counts. A repetition of it changes nothing.
    fn save_step(
        &mut self,
        slot: Slot,
        step: &str,
        result: &[u8],
        saved_at: Time,
    ) -> Result<Answer, Refusal> {
        let job = self.job(slot);
        if job.state.is_final() {
            return Err(Refusal::WrongState(job.state));
        }
        if let Some(memo) = self.recorded_step(slot, step) {
            let is_same = memo.result == result;
            return if is_same {
                Ok(Answer::Step { memo: memo.into(), created: false })
            } else {
                Err(Refusal::StepRecorded)
            };
        }
        let memo = self.record_step(slot, step, result.to_vec(), saved_at)?;
        Ok(Answer::Step { memo: memo.into(), created: true })
    }

    pub(super) fn recorded_step(&self, slot: Slot, step: &str) -> Option<StepMemo> {
        let known: Option<StepMemo> = self.record(StepMemo::key_of(self.job(slot).id, step).key);
        known.filter(|memo| memo.is_of(self.job(slot)))
    }

    /// Records a step that has no result yet, within the bounds of the job.
    pub(super) fn record_step(
        &mut self,
        slot: Slot,
        step: &str,
        result: Vec<u8>,
        saved_at: Time,
    ) -> Result<StepMemo, Refusal> {
        let (id, attempt) = (self.job(slot).id, self.job(slot).attempt);
        let index: Option<MemoIndex> = self.record(id.to_string());
        let index = index.filter(|index| index.is_of(self.job(slot)));
        let mut index = index.unwrap_or_else(|| MemoIndex::new(id, saved_at));
        let memo = StepMemo { job: id, step: step.into(), result, saved_at, attempt };
        if index.steps.len() >= limits::STEPS_MAX || index.n_bytes + memo.n_bytes() > limits::STEPS_BYTES_MAX
        {
            return Err(Refusal::StepsFull);
        }
        index.steps.push(step.into());
        index.n_bytes += memo.n_bytes();
        index.saved_at = saved_at;
        self.put_record(&memo);
        self.put_record(&index);
        Ok(memo)
    }

    /// Keeps a recorded step while its job has not ended: a handler may wait for a long time.
    pub(super) fn step_due(&mut self, key: RecordKey) {
        match self.record::<StepMemo>(key.key.clone()) {
            Some(memo) if self.is_unfinished(memo.job) => {
                self.put_record(&StepMemo { saved_at: self.now, ..memo });
            }
            _ => self.drop_overdue::<StepMemo>(key),
        }
    }

    /// The same for the index of the steps.
    pub(super) fn step_index_due(&mut self, key: RecordKey) {
        match self.record::<MemoIndex>(key.key.clone()) {
            Some(index) if self.is_unfinished(index.job) => {
                self.put_record(&MemoIndex { saved_at: self.now, ..index });
            }
            _ => self.drop_overdue::<MemoIndex>(key),
        }
    }

    fn is_unfinished(&mut self, job: JobId) -> bool {
        self.seek(job).is_some_and(|slot| !self.job(slot).state.is_final())
    }
}
