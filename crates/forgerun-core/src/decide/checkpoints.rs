//! Checkpoints: saved while a job has not ended, deleted, forgotten.

use alloc::string::ToString;

use super::client_limits;
use super::working_set::{Slot, WorkingSet};
use crate::checkpoint::Checkpoint;
use crate::client_limits::ClientLimit;
use crate::command::{Answer, CheckpointCommand, LeaseProof, Refusal};
use crate::id::JobId;
use crate::record::Stored;
use crate::rows::Wants;

pub(super) fn wants(command: &CheckpointCommand, wants: &mut Wants) {
    let job = command.owned().job;
    wants.jobs.insert(job);
    wants.records.insert(Checkpoint::record_key(job.to_string()));
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
    }

    /// A worker that lost its lease must not overwrite what the next one saves.
    fn check_holder(&self, slot: Slot, command: &CheckpointCommand) -> Result<(), Refusal> {
        match (command, &command.held().proof) {
            (_, LeaseProof::Anyone) => Ok(()),
            (CheckpointCommand::Save { held, .. }, _) => self.held(held).map(drop),
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
                if let Some(known) = known {
                    self.charge(slot, -known.bytes().cast_signed());
                    self.remove_record(Checkpoint::record_key(job.to_string()));
                }
                Ok(Answer::Settled)
            }
        }
    }
}
