//! What can be asked about workflows: a new one. Everything else is asked of its own job.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::Submit;
use crate::job::{Head, Input};
use crate::workflow::{FailurePolicy, StepCondition, StepDefinition};

/// A new workflow, all of it or nothing.
#[derive(Clone, Debug)]
pub struct NewWorkflow {
    /// Its own job, and nothing else. The bounds of queues count for the steps that begin at once, too.
    pub submit: Submit,
    /// What the failure of a step means for the others.
    pub policy: FailurePolicy,
    /// The steps. Those without others to wait for begin at once.
    pub steps: Vec<NewStep>,
}

/// A step of a new workflow.
#[derive(Clone, Debug)]
pub struct NewStep {
    /// What the client calls it. Unique within its workflow.
    pub id: String,
    /// The steps it waits for, by their place.
    pub after: Vec<u32>,
    /// When it has its turn.
    pub when: StepCondition,
    /// All that is fixed about its job.
    pub head: Arc<Head>,
    /// The raw bytes that go with it.
    pub input: Arc<Input>,
    /// The job that undoes it, once it has succeeded.
    pub compensation: Option<StepDefinition>,
}
