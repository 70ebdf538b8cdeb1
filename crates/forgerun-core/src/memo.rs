//! Memos: results of named steps that a worker records for later attempts of a job.
//!
//! The first result of a step counts: it is recorded once and never replaced, so that all attempts
//! go on from the same. A step is one record, and an index bounds how many a job has. Both outlive
//! the attempt and the worker, and are kept for a while after the last one, like a checkpoint.

use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

use crate::codec::{Corrupt, Fields, Writer};
use crate::id::JobId;
use crate::job::Job;
use crate::limits;
use crate::record::{RecordKey, RecordKind, Stored};
use crate::time::Time;

/// Prefix of the result of a step that records a signal; the body and `}` follow. A worker that
/// waited in vain records anything else under the name. So of a signal and a timeout the first one
/// counts.
pub const SIGNAL_PREFIX: &[u8] = br#"{"signal":"#;

/// Name of the step that records a signal to the handler of a job.
pub fn signal_step(name: &str) -> String {
    format!("signal:{name}")
}

/// The recorded result of one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepMemo {
    pub job: JobId,
    pub step: String,
    /// JSON, as received.
    pub result: Vec<u8>,
    pub saved_at: Time,
    /// The attempt that recorded it.
    pub attempt: u32,
}

/// The steps of a job that have a recorded result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoIndex {
    pub job: JobId,
    /// In the order in which they were recorded.
    pub steps: Vec<String>,
    /// Of all names and results.
    pub n_bytes: u64,
    pub saved_at: Time,
}

impl MemoIndex {
    pub fn new(job: JobId, now: Time) -> MemoIndex {
        MemoIndex { job, steps: Vec::new(), n_bytes: 0, saved_at: now }
    }

    /// Whether it belongs to this job, not to an earlier, deleted one with the same id.
    pub fn is_of(&self, job: &Job) -> bool {
        self.job == job.id && self.saved_at >= job.head.created_at
    }
}

impl StepMemo {
    /// Whether it belongs to this job; see [`MemoIndex::is_of`].
    pub fn is_of(&self, job: &Job) -> bool {
        self.job == job.id && self.saved_at >= job.head.created_at
    }

    pub fn key_of(job: JobId, step: &str) -> RecordKey {
        Self::record_key(format!("{job}/{step}"))
    }

    /// The group in which the steps of a job are listed.
    pub fn group_of(job: JobId) -> String {
        job.to_string()
    }

    pub fn n_bytes(&self) -> u64 {
        (self.step.len() + self.result.len()) as u64
    }
}

impl Stored for StepMemo {
    const KIND: RecordKind = RecordKind::StepMemo;

    fn key(&self) -> String {
        format!("{}/{}", self.job, self.step)
    }

    fn group(&self) -> String {
        StepMemo::group_of(self.job)
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.saved_at + limits::RETENTION)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.result.len() + self.step.len() + 48);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.job.to_bytes());
        out.text(2, Some(&self.step));
        out.bytes(3, &self.result);
        out.time(4, Some(self.saved_at));
        out.number(5, u64::from(self.attempt));
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<StepMemo, Corrupt> {
        let (mut job, mut step) = (None, None);
        let (mut result, mut saved_at, mut attempt) = (Vec::new(), Time::ZERO, 0);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => job = Some(JobId::from_u128(field.id()?)),
                2 => step = Some(field.text()?),
                3 => result = field.bytes.to_vec(),
                4 => saved_at = field.time()?,
                5 => attempt = field.small()?,
                _ => {}
            }
        }
        Ok(StepMemo { job: job.ok_or(Corrupt)?, step: step.ok_or(Corrupt)?, result, saved_at, attempt })
    }
}

impl Stored for MemoIndex {
    const KIND: RecordKind = RecordKind::MemoIndex;

    fn key(&self) -> String {
        self.job.to_string()
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.saved_at + limits::RETENTION)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(64 + 16 * self.steps.len());
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.job.to_bytes());
        self.steps.iter().for_each(|step| out.text(2, Some(step)));
        out.number(3, self.n_bytes);
        out.time(4, Some(self.saved_at));
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<MemoIndex, Corrupt> {
        let (mut job, mut steps, mut n_bytes, mut saved_at) = (None, Vec::new(), 0, Time::ZERO);
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => job = Some(JobId::from_u128(field.id()?)),
                2 => steps.push(field.text()?),
                3 => n_bytes = field.number()?,
                4 => saved_at = field.time()?,
                _ => {}
            }
        }
        Ok(MemoIndex { job: job.ok_or(Corrupt)?, steps, n_bytes, saved_at })
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn memos_are_read_back_as_they_were_written() {
        let (job, saved_at) = (JobId::from_u128(7), Time::from_millis(9));
        let memo = StepMemo { job, step: "a/b".into(), result: b"[1]".to_vec(), saved_at, attempt: 2 };
        assert_eq!(StepMemo::of(&memo.to_record(1)), Ok(memo));
        let index = MemoIndex { job, steps: vec!["a/b".into(), "c".into()], n_bytes: 6, saved_at };
        assert_eq!(MemoIndex::of(&index.to_record(1)), Ok(index));
        assert_eq!(StepMemo::decode("", &[]), Err(Corrupt));
        assert_eq!(MemoIndex::decode("", &[]), Err(Corrupt));
    }
}
