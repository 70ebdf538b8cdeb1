//! Workflows that are steps of others. The own job of such a workflow is the job of the step, so
//! its end moves the workflow around it on.

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use crate::command::{NewJob, NewStep, Refusal};
use crate::id::JobId;
use crate::job::Head;
use crate::limits;
use crate::record::RecordKey;
use crate::state::State;
use crate::workflow::{
    FailurePolicy, NestedWorkflow, PendingCancel, StepCondition, StepDefinition, StepKind, StepState,
    StepWork, Workflow, WorkflowForm, WorkflowHead, WorkflowPart,
};

/// What became of a ready step.
pub(super) enum Started {
    Begun,
    /// It has succeeded already, and these steps are ready.
    Over(Vec<u32>),
    Unreadable,
}

impl WorkingSet<'_> {
    /// Makes what a ready step consists of.
    pub(super) fn start_step(
        &mut self,
        id: JobId,
        index: u32,
        definition: &StepDefinition,
    ) -> Result<Started, Refusal> {
        let Some(workflow) = self.workflows.of_steps.get(&id) else { return Ok(Started::Begun) };
        let (job, policy) = (workflow.job_of(index), workflow.policy);
        match &definition.work {
            StepWork::Job => {
                let (mut head, input) = (definition.head.clone(), definition.input.clone());
                self.drop_passed_times(id, &mut head);
                let waits = head.wait.is_some();
                let slot = self.insert(&NewJob { id: job, id_given: false, head, input })?;
                if waits {
                    return self.begin_wait(id, index, slot).map(Started::Over);
                }
            }
            StepWork::Workflow(nested) => return self.start_nested(job, &definition.head, nested),
            StepWork::ForEach(plan) => {
                let source = workflow.job_of(plan.source);
                self.start_for_each(job, source, policy, definition, plan)?;
            }
            StepWork::Undo(of) => {
                let undone = workflow.steps[index as usize].undoes.map(|undone| workflow.job_of(undone));
                let Some(of) = of.or(undone) else { return Ok(Started::Unreadable) };
                if let Some(started) = self.start_undo(job, of, definition)? {
                    return Ok(started);
                }
                return Ok(Started::Over(self.note_step(id, index, StepState::Succeeded)));
            }
        }
        Ok(Started::Begun)
    }

    /// Begins a workflow that is a step.
    fn start_nested(
        &mut self,
        id: JobId,
        head: &Arc<Head>,
        nested: &NestedWorkflow,
    ) -> Result<Started, Refusal> {
        let Ok(mut workflow) = Workflow::new(id, head.client, nested.policy, &nested.steps) else {
            return Ok(Started::Unreadable);
        };
        workflow.outer = head.workflow;
        let own = NewJob { id, id_given: false, head: head.clone(), input: Arc::default() };
        self.begin_workflow(&own, workflow, &nested.steps)?;
        Ok(Started::Begun)
    }

    /// Inserts the own job of a workflow and its records, and begins its first steps.
    pub(super) fn begin_workflow(
        &mut self,
        own: &NewJob,
        mut workflow: Workflow,
        steps: &[NewStep],
    ) -> Result<Slot, Refusal> {
        let parts = WorkflowPart::divide(own.id, 0, 0, steps);
        workflow.parts = parts.iter().map(|part| part.first).collect();
        let ready = workflow.advance();
        let slot = self.insert(own)?;
        self.start_without_worker(slot)?;
        parts.iter().for_each(|part| self.put_record(part));
        self.workflows.of_steps.insert(own.id, workflow);
        self.release_steps(own.id, ready)?;
        self.end_workflow(slot)?;
        Ok(slot)
    }

    /// Undoes a nested workflow that succeeded: its compensations become the steps of another one.
    /// `None` if nothing is to be undone.
    fn start_undo(
        &mut self,
        id: JobId,
        of: JobId,
        definition: &StepDefinition,
    ) -> Result<Option<Started>, Refusal> {
        let Some(undone) = self.seek_workflow(of) else {
            let is_being_loaded = self.is_being_loaded(&Workflow::key_of(of));
            return Ok(Some(if is_being_loaded { Started::Begun } else { Started::Unreadable }));
        };
        let mut to_undo: Vec<(u32, u32, String, JobId)> = undone
            .compensations()
            .filter(|(_, undone_step, step)| {
                let succeeded = undone.steps[*undone_step as usize].state == StepState::Succeeded;
                succeeded && step.state == StepState::Skipped
            })
            .map(|(index, step, _)| {
                (index, step, undone.steps[step as usize].id.clone(), undone.job_of(step))
            })
            .collect();
        to_undo.sort_by_key(|(_, step, ..)| core::cmp::Reverse(undone.steps[*step as usize].nth_success));
        let keys: Vec<_> = to_undo.iter().map(|(index, ..)| undone.part_of(*index)).collect();
        let mut steps: Vec<NewStep> = Vec::new();
        for ((index, _, name, job), key) in to_undo.into_iter().zip(keys) {
            let part: Option<WorkflowPart> = self.seek_record(&key);
            if self.is_being_loaded(&key) {
                return Ok(Some(Started::Begun));
            }
            let Some(StepDefinition { head, input, work }) =
                part.as_ref().and_then(|part| part.definition(index))
            else {
                continue;
            };
            let work = match work {
                StepWork::Undo(None) => StepWork::Undo(Some(job)),
                other => other.clone(),
            };
            let after = (steps.len() as u32).checked_sub(1).into_iter().collect();
            let (head, input) = (head.clone(), input.clone());
            let when = StepCondition::AllEnded;
            steps.push(NewStep { id: name, after, when, head, input, compensation: None, work });
        }
        if steps.is_empty() {
            return Ok(None);
        }
        let about = WorkflowHead { form: WorkflowForm::Chain, name: String::new() };
        let own = about.own_job(definition.head.client, steps.len(), definition.head.created_at);
        let head = Head {
            items: own.items,
            job_type: WorkflowHead::NESTED_JOB_TYPE.into(),
            queue: own.queue,
            retry: own.retry,
            workflow_head: own.workflow_head,
            ..Head::clone(&definition.head)
        };
        let nested = NestedWorkflow { policy: FailurePolicy::Continue, steps };
        self.start_nested(id, &Arc::new(head), &nested).map(Some)
    }

    /// Stops the nested workflows that run before the cancellation of their workflow, so that they
    /// undo their steps. Returns whether one has something to undo.
    pub(super) fn undo_nested(&mut self, id: JobId, cancel: &PendingCancel) -> Result<bool, Refusal> {
        let Some(workflow) = self.workflows.of_steps.get(&id) else { return Ok(false) };
        let nested = workflow.under_way().filter(|&index| {
            let step = &workflow.steps[index as usize];
            step.kind == StepKind::Workflow && step.undoes.is_none()
        });
        let nested: Vec<JobId> = nested.map(|index| workflow.job_of(index)).collect();
        let mut any = false;
        for job in nested {
            let Some(slot) = self.seek(job).filter(|&slot| self.job(slot).state == State::Running) else {
                continue;
            };
            let cancel = PendingCancel { by_client: false, ..cancel.clone() };
            any |= self.undo_and_cancel(slot, cancel)?.is_some();
        }
        Ok(any)
    }

    /// Whether the workflow, or one around it, may still need the result of an ended job.
    pub(super) fn is_needed(&mut self, slot: Slot) -> bool {
        let mut step = self.job(slot).head.workflow;
        // A damaged row must not keep this going for ever.
        for _ in 0..=limits::WORKFLOW_DEPTH_MAX {
            let Some(own) = step.and_then(|step| self.seek(step.workflow)) else { return false };
            if !self.job(own).state.is_final() {
                return true;
            }
            step = self.job(own).head.workflow;
        }
        false
    }

    fn is_being_loaded(&self, key: &RecordKey) -> bool {
        self.changes.more.records.contains(key)
    }
}
