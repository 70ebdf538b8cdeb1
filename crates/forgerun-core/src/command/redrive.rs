//! What can be asked about redrives.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{HeldJob, Submit};
use crate::failure::FailureId;
use crate::id::{ExecutionId, JobId};
use crate::redrive::Redrive;

/// Something about redrives.
#[derive(Clone, Debug)]
pub enum RedriveCommand {
    /// Begin one, unless one of the same group is under way.
    Begin {
        /// As it begins. Its job is the one of `submit`.
        redrive: Box<Redrive>,
        /// Its own job.
        submit: Box<Submit>,
        /// The job of the redrive of the same group that was there before, as the asker saw it: it must have ended.
        before: Option<JobId>,
    },
    /// Take a step: what is told of it is written in the same transaction.
    Step(RedriveStep),
}

/// A step of a redrive.
#[derive(Clone, Debug)]
pub struct RedriveStep {
    /// Its own job, and the proof that the asker holds it.
    pub held: HeldJob,
    /// Of which group.
    pub failure: FailureId,
    /// The jobs that are tried again.
    pub targets: Vec<RedriveTarget>,
    /// How many more of those redriven before have failed again.
    pub failed_again: u64,
    /// Those redriven before that have not ended.
    pub watched: Vec<(JobId, ExecutionId)>,
}

/// A job that is tried again.
#[derive(Clone, Copy, Debug)]
pub struct RedriveTarget {
    /// Which job.
    pub job: JobId,
    /// The execution that failed: if another one is under way by then, the job is passed over.
    pub failed: ExecutionId,
    /// The id of the new execution.
    pub next: ExecutionId,
}
