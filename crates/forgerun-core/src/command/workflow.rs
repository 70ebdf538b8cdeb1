//! Command to begin a workflow. All other commands go to the workflow's own job.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Submit;
use crate::job::{Head, Input};
use crate::workflow::{FailurePolicy, StepCondition, StepDefinition};

/// A new workflow, all or nothing.
#[derive(Clone, Debug)]
pub struct NewWorkflow {
    /// The workflow's own job, and nothing else. The queue bounds also count the steps that begin
    /// at once.
    pub submit: Submit,
    /// How a failed step affects the others.
    pub policy: FailurePolicy,
    /// Steps without dependencies begin at once.
    pub steps: Vec<NewStep>,
}

#[derive(Clone, Debug)]
pub struct NewStep {
    /// The client's name for the step. Unique within its workflow.
    pub id: String,
    /// Positions of the steps it depends on.
    pub after: Vec<u32>,
    pub when: StepCondition,
    pub head: Arc<Head>,
    pub input: Arc<Input>,
    /// The job that undoes the step, if it has succeeded.
    pub compensation: Option<StepDefinition>,
}
