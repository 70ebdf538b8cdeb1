//! Redrives: retry all jobs that failed for the same reason, at a rate, until enough of them fail
//! again.
//!
//! A redrive is a job of an internal client ([`CLIENT`]) that has no keys, in a queue of that
//! client. The node that claims it processes the failed jobs of the group in small steps. Each step
//! is one transaction: it opens another execution of some jobs and notes that in the redrive's
//! record. A node that dies has done a step or not, and the next one continues there. A step names
//! the execution that failed, and only executions that had failed when the redrive began: so no
//! execution is redriven twice, and jobs that fail again are not retried.

use alloc::string::String;
use alloc::vec::Vec;

use crate::codec::{Corrupt, Field, Fields, Writer};
use crate::failure::{self, FailureId};
use crate::id::{ClientId, ExecutionId, JobId};
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::time::Time;

/// The client of redrive jobs: the same on every node and after every restart.
pub const CLIENT: ClientId = ClientId::v4(0x6f70_6572_6174_6f72_0000_0000_0000_0000);

/// The queue of that client in which they wait.
pub const QUEUE: &str = "redrives";

pub const JOB_TYPE: &str = "forgerun.redrive";

/// The parameters of a redrive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedriveTerms {
    /// At most this many jobs; `None` for all.
    pub limit: Option<u64>,
    /// Jobs per 1000 seconds; `None` for as fast as possible.
    pub per_1000_s: Option<u64>,
    /// Stop once this many have failed again; `None` for never.
    pub failures_max: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Redrive {
    pub failure: FailureId,
    pub job: JobId,
    /// Executions that failed later are not included.
    pub started_at: Time,
    /// Time of the last step.
    pub updated_at: Time,
    pub terms: RedriveTerms,
    /// Matching jobs at the start.
    pub matched: u64,
    /// Jobs that got another execution.
    pub redriven: u64,
    /// Jobs that could not: retried by a client meanwhile, deleted, or without an execution left.
    pub skipped: u64,
    /// Redriven jobs that are known to have failed again.
    pub failed_again: u64,
    /// The newest redriven jobs that are not known to have ended; at most
    /// [`limits::REDRIVE_WATCHED_MAX`].
    pub watched: Vec<(JobId, ExecutionId)>,
}

impl Redrive {
    /// A redrive before its first step.
    pub fn new(failure: FailureId, job: JobId, now: Time, terms: RedriveTerms, matched: u64) -> Redrive {
        Redrive {
            failure,
            job,
            started_at: now,
            updated_at: now,
            terms,
            matched,
            redriven: 0,
            skipped: 0,
            failed_again: 0,
            watched: Vec::new(),
        }
    }

    /// How many more jobs it may redrive.
    pub fn left(&self) -> u64 {
        self.terms.limit.unwrap_or(u64::MAX).saturating_sub(self.redriven)
    }

    /// Whether too many jobs have failed again.
    pub fn must_stop(&self) -> bool {
        self.terms.failures_max.is_some_and(|max| self.failed_again >= max)
    }

    /// Progress in percent.
    pub fn percent(&self) -> u8 {
        let goal = self.matched.min(self.terms.limit.unwrap_or(u64::MAX)).max(1);
        ((self.redriven + self.skipped).min(goal) * 100 / goal) as u8
    }
}

impl Stored for Redrive {
    const KIND: RecordKind = RecordKind::Redrive;

    /// The group: it has one redrive at a time.
    fn key(&self) -> String {
        failure::key(self.failure)
    }

    fn due_at(&self) -> Option<Time> {
        Some(self.updated_at + limits::RETENTION)
    }

    fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(128);
        let mut out = Writer(&mut bytes);
        out.bytes(1, &self.failure.0.to_be_bytes());
        out.bytes(2, &self.job.to_bytes());
        out.time(3, Some(self.started_at));
        out.time(4, Some(self.updated_at));
        let number = |of: Option<u64>| of.map_or(0, |n| n.saturating_add(1));
        out.number(5, number(self.terms.limit));
        out.number(6, number(self.terms.per_1000_s));
        out.number(7, number(self.terms.failures_max));
        out.number(8, self.matched);
        out.number(9, self.redriven);
        out.number(10, self.skipped);
        out.number(11, self.failed_again);
        for (job, execution) in &self.watched {
            let mut both = [0; 32];
            both[..16].copy_from_slice(&job.to_bytes());
            both[16..].copy_from_slice(&execution.to_bytes());
            out.bytes(12, &both);
        }
        bytes
    }

    fn decode(_key: &str, bytes: &[u8]) -> Result<Redrive, Corrupt> {
        let nothing = JobId::from_u128(0);
        let mut redrive = Redrive::new(FailureId(0), nothing, Time::ZERO, RedriveTerms::default(), 0);
        for field in Fields(bytes) {
            redrive.read(&field?)?;
        }
        if redrive.job == nothing { Err(Corrupt) } else { Ok(redrive) }
    }
}

impl Redrive {
    fn read(&mut self, field: &Field<'_>) -> Result<(), Corrupt> {
        let number = || Ok(Some(field.number()?.wrapping_sub(1)));
        match field.tag {
            1 => self.failure = FailureId(u64::from_be_bytes(field.bytes.try_into().map_err(|_| Corrupt)?)),
            2 => self.job = JobId::from_u128(field.id()?),
            3 => self.started_at = field.time()?,
            4 => self.updated_at = field.time()?,
            5 => self.terms.limit = number()?,
            6 => self.terms.per_1000_s = number()?,
            7 => self.terms.failures_max = number()?,
            8 => self.matched = field.number()?,
            9 => self.redriven = field.number()?,
            10 => self.skipped = field.number()?,
            11 => self.failed_again = field.number()?,
            12 => {
                let (job, execution) = field.bytes.split_at_checked(16).ok_or(Corrupt)?;
                let job = JobId::from_bytes(job).ok_or(Corrupt)?;
                self.watched.push((job, ExecutionId::from_bytes(execution).ok_or(Corrupt)?));
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_redrive_is_read_back_as_it_was_written() {
        let terms = RedriveTerms { limit: Some(0), per_1000_s: Some(500), failures_max: Some(10) };
        let plain = Redrive::new(FailureId(7), JobId::from_u128(1), Time::ZERO, RedriveTerms::default(), 3);
        let full = Redrive {
            terms,
            redriven: 2,
            skipped: 1,
            failed_again: 1,
            watched: alloc::vec![(JobId::from_u128(5), ExecutionId::from_u128(6))],
            ..plain.clone()
        };
        for redrive in [plain, full] {
            assert_eq!(Redrive::of(&redrive.to_record(1)), Ok(redrive));
        }
        assert_eq!(Redrive::decode("", &[12, 1, 0]), Err(Corrupt));
    }

    #[test]
    fn progress_is_of_what_was_asked_for() {
        let mut redrive =
            Redrive::new(FailureId(7), JobId::from_u128(1), Time::ZERO, RedriveTerms::default(), 200);
        redrive.redriven = 40;
        redrive.skipped = 10;
        assert_eq!((redrive.percent(), redrive.left()), (25, u64::MAX - 40));
        redrive.terms.limit = Some(50);
        assert_eq!((redrive.percent(), redrive.left()), (100, 10));
    }
}
