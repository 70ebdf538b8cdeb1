//! Commands about redrives.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::{HeldJob, Submit};
use crate::failure::FailureId;
use crate::id::{ExecutionId, JobId};
use crate::redrive::Redrive;

#[derive(Clone, Debug)]
pub enum RedriveCommand {
    /// Begin a redrive, unless one of the same group is running.
    Begin {
        /// The redrive in its initial state. Its job is the one of `submit`.
        redrive: Box<Redrive>,
        submit: Box<Submit>,
        /// Job of the previous redrive of the group, as the caller saw it. It must have ended.
        before: Option<JobId>,
    },
    /// Run one step; its report is written in the same transaction.
    Step(RedriveStep),
}

#[derive(Clone, Debug)]
pub struct RedriveStep {
    /// The job of the redrive, and the proof that the caller holds it.
    pub held: HeldJob,
    pub failure: FailureId,
    /// Jobs to retry.
    pub targets: Vec<RedriveTarget>,
    /// How many more of the jobs redriven before have failed again.
    pub failed_again: u64,
    /// Jobs redriven before that have not ended.
    pub watched: Vec<(JobId, ExecutionId)>,
}

#[derive(Clone, Copy, Debug)]
pub struct RedriveTarget {
    pub job: JobId,
    /// The execution that failed. If another one runs by now, the job is skipped.
    pub failed: ExecutionId,
    pub next: ExecutionId,
}
