//! What can be asked about a checkpoint.

use alloc::vec::Vec;

use super::Owned;

/// Saves or deletes the checkpoint of a job.
#[derive(Clone, Debug)]
pub enum CheckpointCommand {
    /// Replace it; refused once the job has ended.
    Save {
        /// Which job, and who asks.
        owned: Owned,
        /// What to save.
        state: Vec<u8>,
        /// What to keep with it: a JSON object, or nothing.
        notes: Vec<u8>,
    },
    /// Delete it, if there is one.
    Delete(Owned),
}

impl CheckpointCommand {
    /// Which job, and who asks.
    pub const fn owned(&self) -> &Owned {
        match self {
            CheckpointCommand::Save { owned, .. } | CheckpointCommand::Delete(owned) => owned,
        }
    }
}
