//! Checkpoints: saved while a job has not ended, deleted, forgotten.

use alloc::string::ToString;

use super::working_set::WorkingSet;
use crate::checkpoint::Checkpoint;
use crate::command::{Answer, CheckpointCommand, Refusal};
use crate::record::Stored;
use crate::rows::Wants;

pub(super) fn wants(command: &CheckpointCommand, wants: &mut Wants) {
    let job = command.owned().job;
    wants.jobs.insert(job);
    wants.records.insert(Checkpoint::record_key(job.to_string()));
}

impl WorkingSet<'_> {
    pub(super) fn checkpoint(&mut self, command: &CheckpointCommand) -> Result<Answer, Refusal> {
        let slot = self.owned(command.owned())?;
        let (job, stands) = (self.job(slot).id, self.job(slot).state);
        let known: Option<Checkpoint> = self.record(job.to_string());
        match command {
            CheckpointCommand::Save { .. } if stands.is_final() => Err(Refusal::WrongState(stands)),
            CheckpointCommand::Save { state, notes, .. } => {
                let sequence = known.map_or(0, |known| known.sequence) + 1;
                let (state, notes) = (state.clone(), notes.clone());
                let checkpoint = Checkpoint { job, sequence, state, notes, saved_at: self.now };
                self.put_record(&checkpoint);
                Ok(Answer::Checkpoint(checkpoint.into()))
            }
            CheckpointCommand::Delete(_) => {
                if known.is_some() {
                    self.remove_record(Checkpoint::record_key(job.to_string()));
                }
                Ok(Answer::Settled)
            }
        }
    }
}
