//! Steps added to a running workflow by the worker that holds one of its steps.

use alloc::collections::BTreeSet;
use alloc::vec::Vec;

use super::working_set::WorkingSet;
use crate::command::{AddSteps, Answer, NewStep, Refusal};
use crate::job::Job;
use crate::rows::Wants;
use crate::state::State;
use crate::workflow::{StepWork, Workflow, WorkflowPart};

pub(super) fn wants(add: &AddSteps, wants: &mut Wants) {
    wants.jobs.insert(add.held.job);
    wants.jobs_sought.insert(add.workflow);
    wants.records.insert(Workflow::key_of(add.workflow));
}

impl WorkingSet<'_> {
    pub(super) fn add_steps(&mut self, add: &AddSteps) -> Result<Answer, Refusal> {
        let slot = self.held(&add.held)?;
        if self.job(slot).head.workflow.is_none_or(|step| step.workflow != add.workflow) {
            return Err(Refusal::NotItsStep);
        }
        let own = self.find(add.workflow).ok_or(Refusal::NotFound)?;
        let state = self.job(own).state;
        if state != State::Running {
            return Err(Refusal::WrongState(state));
        }
        let mut workflow = self.seek_workflow(add.workflow).cloned().ok_or(Refusal::NotItsStep)?;
        if workflow.canceling.is_some() || workflow.is_compensating() {
            return Err(Refusal::WrongState(state));
        }
        check_ids(&workflow, &add.steps)?;
        let n_before = workflow.steps.len() as u32;
        let steps: Vec<NewStep> = add.steps.iter().map(|step| moved(step, add.n_known, n_before)).collect();
        workflow.add(&steps).map_err(Refusal::BadWorkflow)?;
        let parts = WorkflowPart::divide(workflow.id, workflow.parts.len() as u32, n_before, &steps);
        workflow.parts.extend(parts.iter().map(|part| part.first));
        parts.iter().for_each(|part| self.put_record(part));
        self.workflows.of_steps.insert(add.workflow, workflow);
        self.change(own).steps_added += steps.len() as u32;
        self.go_on(add.workflow)?;
        self.catch_up(own)?;
        Ok(Answer::Done(Job::clone(self.job(own))))
    }
}

fn check_ids(workflow: &Workflow, steps: &[NewStep]) -> Result<(), Refusal> {
    let mut ids: BTreeSet<&str> = workflow.declared().map(|(_, step)| step.id.as_str()).collect();
    match steps.iter().position(|step| !ids.insert(&step.id)) {
        Some(index) => Err(Refusal::StepExists { index }),
        None => Ok(()),
    }
}

/// The step with the positions that it has in the workflow: others may have been added since the
/// caller read it.
fn moved(step: &NewStep, n_known: u32, n_before: u32) -> NewStep {
    let place = |place: u32| if place < n_known { place } else { place - n_known + n_before };
    let mut step = step.clone();
    step.after.iter_mut().for_each(|before| *before = place(*before));
    if let StepWork::ForEach(plan) = &mut step.work {
        alloc::sync::Arc::make_mut(plan).source = place(plan.source);
    }
    step
}
