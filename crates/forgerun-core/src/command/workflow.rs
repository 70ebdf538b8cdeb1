//! Commands to begin a workflow, to add steps to it, and to list the elements of a `for_each`. All
//! other commands go to the workflow's own job.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{HeldJob, Submit};
use crate::id::JobId;
use crate::job::{Head, Input};
use crate::workflow::{FailurePolicy, StepCondition, StepDefinition, StepWork};

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

#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub work: StepWork,
}

/// New steps of a running workflow, all or nothing; by the worker that holds one of its steps.
#[derive(Clone, Debug)]
pub struct AddSteps {
    pub workflow: JobId,
    /// The job of the step that adds them.
    pub held: HeldJob,
    /// How many steps the workflow had when the caller read it. Positions from here on are those of
    /// the new steps.
    pub n_known: u32,
    pub steps: Vec<NewStep>,
}

/// What was read of the list of a `for_each`.
#[derive(Clone, Debug)]
pub struct ListElements {
    /// The own job of the `for_each`.
    pub id: JobId,
    /// Position of the first element in the list. A list that was read twice is written once.
    pub first: u32,
    pub read: ListRead,
}

#[derive(Clone, Debug)]
pub enum ListRead {
    /// The next elements, each as JSON.
    Elements { elements: Vec<Vec<u8>>, is_last: bool },
    /// Why there is no list.
    Failed(String),
}

/// A `for_each` whose list must be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListWanted {
    pub id: JobId,
    /// The job whose result has the list.
    pub source: JobId,
    /// JSON pointer to the list.
    pub pointer: String,
    /// Elements that are known already.
    pub n_known: u32,
}
