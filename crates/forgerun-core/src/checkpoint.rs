//! Checkpoints: state that a worker saves for the next attempt of a job.
//!
//! A job has one checkpoint at a time. Saving a new one replaces it and increments its sequence. It
//! outlives the attempt and the worker, and is kept for a while after the last save, even if the
//! job has ended.

use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::JobId;
use crate::job::Job;
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    pub job: JobId,
    /// Counts the checkpoints of the job, from 1.
    pub sequence: u64,
    /// The saved state, as received.
    pub state: Vec<u8>,
    /// The worker's notes: a JSON object, as received. Empty if there are none.
    pub notes: Vec<u8>,
    pub saved_at: Time,
}

impl Checkpoint {
    pub fn bytes(&self) -> u64 {
        (self.state.len() + self.notes.len()) as u64
    }

    /// Whether the checkpoint belongs to this job, not to an earlier, deleted one with the same id.
    pub fn is_of(&self, job: &Job) -> bool {
        self.job == job.id && self.saved_at >= job.head.created_at
    }
}

impl Stored for Checkpoint {
    const KIND: RecordKind = RecordKind::Checkpoint;

    fn key(&self) -> String {
        self.job.to_string()
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.saved_at + limits::RETENTION)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.state.len() + self.notes.len() + 64);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.job.to_bytes());
        out.number(2, self.sequence);
        out.bytes(3, &self.state);
        out.time(4, Some(self.saved_at));
        if !self.notes.is_empty() {
            out.bytes(5, &self.notes);
        }
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<Checkpoint, Corrupt> {
        let nothing = JobId::from_u128(0);
        let mut checkpoint = Checkpoint {
            job: nothing,
            sequence: 0,
            state: Vec::new(),
            notes: Vec::new(),
            saved_at: Time::ZERO,
        };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => checkpoint.job = JobId::from_u128(field.id()?),
                2 => checkpoint.sequence = field.number()?,
                3 => checkpoint.state = field.bytes.to_vec(),
                4 => checkpoint.saved_at = field.time()?,
                5 => checkpoint.notes = field.bytes.to_vec(),
                _ => {}
            }
        }
        if checkpoint.job == nothing { Err(Corrupt) } else { Ok(checkpoint) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_checkpoint_is_read_back_as_it_was_written() {
        let checkpoint = Checkpoint {
            job: JobId::from_u128(7),
            sequence: 3,
            state: b"{}".to_vec(),
            notes: br#"{"step_index":1}"#.to_vec(),
            saved_at: Time::from_millis(9),
        };
        let plain = Checkpoint { notes: Vec::new(), ..checkpoint.clone() };
        for checkpoint in [checkpoint, plain] {
            assert_eq!(Checkpoint::of(&checkpoint.to_record(1)), Ok(checkpoint));
        }
        assert_eq!(Checkpoint::decode("", &[]), Err(Corrupt));
    }
}
