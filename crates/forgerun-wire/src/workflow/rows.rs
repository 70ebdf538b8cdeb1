//! What is known of a workflow, as every dialect shows it.

use std::collections::BTreeMap;

use forgerun_core::id::JobId;
use forgerun_core::job::{Head, Input, Job};
use forgerun_core::state::State;
use forgerun_core::workflow::{GraphStep, StepState, Workflow, WorkflowHead, WorkflowPart};

/// A workflow with its steps and their jobs.
#[derive(Clone, Debug)]
pub struct WorkflowRows {
    /// Its own job.
    pub job: Job,
    /// Which step waits for which, and where each stands.
    pub workflow: Workflow,
    /// What the jobs of steps are, or will be.
    pub parts: Vec<WorkflowPart>,
    /// The jobs of steps that were made and are still there.
    pub jobs: BTreeMap<JobId, Job>,
}

/// A step with what is known of it.
#[derive(Clone, Copy, Debug)]
pub struct StepRows<'a> {
    /// Its place.
    pub index: u32,
    /// The step.
    pub step: &'a GraphStep,
    /// What its job is, or will be.
    pub definition: Option<(&'a Head, &'a Input)>,
    /// Its job, if one was made.
    pub job_id: Option<JobId>,
    /// The job as it stands; `None` too if it is gone.
    pub job: Option<&'a Job>,
    /// Where its compensation stands among all steps, if it declares one.
    pub compensation: Option<u32>,
}

impl<'a> StepRows<'a> {
    /// The head of its job, made or not.
    pub fn head(&self) -> Option<&'a Head> {
        self.job.map(|job| &*job.head).or(self.definition.map(|(head, _)| head))
    }
}

impl WorkflowRows {
    /// The ids of the jobs that were made of steps.
    pub fn job_ids(workflow: &Workflow) -> Vec<JobId> {
        (0..workflow.steps.len() as u32).filter_map(|index| workflow.made_job(index)).collect()
    }

    /// What it is called, and how it was described.
    pub fn head(&self) -> Option<&WorkflowHead> {
        self.job.head.workflow_head.as_ref()
    }

    /// The steps, in order.
    pub fn steps(&self) -> impl Iterator<Item = StepRows<'_>> {
        let compensations = self.workflow.compensations();
        let by_step: BTreeMap<u32, u32> = compensations.map(|(index, undone, _)| (undone, index)).collect();
        self.workflow.declared().map(move |(index, step)| StepRows {
            compensation: by_step.get(&index).copied(),
            ..self.row(index, step)
        })
    }

    /// The compensation of a step.
    pub fn compensation(&self, of: &StepRows<'_>) -> Option<StepRows<'_>> {
        let index = of.compensation?;
        Some(self.row(index, self.workflow.steps.get(index as usize)?))
    }

    fn row<'a>(&'a self, index: u32, step: &'a GraphStep) -> StepRows<'a> {
        let definition = self.parts.iter().find_map(|part| part.definition(index));
        let job_id = self.workflow.made_job(index);
        StepRows {
            index,
            step,
            definition: definition.map(|definition| (&*definition.head, &*definition.input)),
            job_id,
            job: job_id.and_then(|id| self.jobs.get(&id)),
            compensation: None,
        }
    }

    /// Why a step, or a compensation, did not succeed.
    pub fn error(&self, index: u32) -> Option<&str> {
        let error = self.workflow.errors.iter().find(|error| error.step == index);
        error.map(|error| error.error.message.as_str())
    }

    /// The ids of the steps that a step waits for.
    pub fn depends_on(&self, step: &GraphStep) -> Vec<String> {
        let id = |&before: &u32| self.workflow.steps.get(before as usize).map(|step| step.id.clone());
        step.after.iter().filter_map(id).collect()
    }
}

/// Where a step stands, in one of these words: waiting, pending, active, completed, failed, cancelled.
pub fn step_word(step: &GraphStep, job: Option<&Job>) -> &'static str {
    match step.state {
        StepState::Waiting => "waiting",
        StepState::Released => match job.map(|job| job.state) {
            Some(State::Running) if job.is_some_and(|job| job.head.wait.is_some()) => "waiting",
            Some(State::Assigned | State::Running) => "active",
            _ => "pending",
        },
        StepState::Succeeded => "completed",
        StepState::Failed => "failed",
        StepState::Canceled | StepState::Skipped => "cancelled",
    }
}
