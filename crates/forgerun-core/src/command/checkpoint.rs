//! What can be asked about a checkpoint.

use alloc::vec::Vec;

use super::{HeldJob, Owned};

/// Saves or deletes the checkpoint of a job. OJS asks workers for no proof that they hold it, so [`LeaseProof::Anyone`](super::Holder::Anyone) may;
/// who gives one is refused if it is of a lease that was lost.
#[derive(Clone, Debug)]
pub enum CheckpointCommand {
    /// Replace it; refused once the job has ended.
    Save {
        /// Which job, and who asks.
        held: HeldJob,
        /// What to save.
        state: Vec<u8>,
        /// What to keep with it: a JSON object, or nothing.
        notes: Vec<u8>,
    },
    /// Delete it, if there is one. The last holder may after the end of the job too.
    Delete(HeldJob),
}

impl CheckpointCommand {
    /// Which job, and who asks.
    pub fn owned(&self) -> Owned {
        let held = self.held();
        Owned { job: held.job, client: held.client }
    }

    /// The same, with the proof.
    pub const fn held(&self) -> &HeldJob {
        match self {
            CheckpointCommand::Save { held, .. } | CheckpointCommand::Delete(held) => held,
        }
    }
}
