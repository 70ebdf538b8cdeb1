//! Commands about checkpoints.

use alloc::string::String;
use alloc::vec::Vec;

use super::{HeldJob, Owned};

/// Saves or deletes the checkpoint of a job. OJS asks workers for no proof, so
/// [`LeaseProof::Anyone`](super::LeaseProof::Anyone) is accepted; a given proof is refused if its
/// lease was lost.
#[derive(Clone, Debug)]
pub enum CheckpointCommand {
    /// Replace the checkpoint; refused once the job has ended.
    Save {
        held: HeldJob,
        state: Vec<u8>,
        /// Notes to store with it: a JSON object, or empty.
        notes: Vec<u8>,
    },
    /// Record the result of a named step. The first one counts.
    SaveStep {
        held: HeldJob,
        step: String,
        /// JSON.
        result: Vec<u8>,
    },
    /// Delete the checkpoint and the recorded steps, if there are any. The last holder may do so
    /// after the job's end too.
    Delete(HeldJob),
}

impl CheckpointCommand {
    pub fn owned(&self) -> Owned {
        let held = self.held();
        Owned { job: held.job, client: held.client }
    }

    pub const fn held(&self) -> &HeldJob {
        match self {
            CheckpointCommand::Save { held, .. }
            | CheckpointCommand::SaveStep { held, .. }
            | CheckpointCommand::Delete(held) => held,
        }
    }
}
