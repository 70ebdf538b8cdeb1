//! Workflows: begun in one transaction, and moved on in the transaction that ends a step. The end
//! of the job, its note in the workflow and the jobs that follow are written together, so no step
//! is lost and none runs twice.
//!
//! ```text
//!   a step's job ends ──► noted in the workflow ──► steps behind it: released (a job is made), skipped, or wait on
//!                                               ├─► nothing left, and something to undo: compensations, one by one
//!                                               └─► nothing left: the workflow's own job ends as its steps did
//! ```
//!
//! Which jobs end in a batch is known only when it is decided, so the rows of a workflow are loaded
//! on demand ([`WorkingSet::seek`]).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::nested::Started;
use super::submit;
use super::working_set::{Slot, WorkingSet};
use crate::catalog::Kind;
use crate::command::{Answer, NewJob, NewStep, NewWorkflow, Owned, Refusal, Retry, Submit};
use crate::history::{EventKind, RetryStatus};
use crate::id::{ExecutionId, JobId};
use crate::item::{ItemError, Tally};
use crate::job::{Cancellation, Head, Job, cut};
use crate::limits;
use crate::record::{RecordKey, Stored};
use crate::rows::{KeyRow, Wants};
use crate::state::{Cause, State};
use crate::time::Time;
use crate::workflow::{
    ElementTemplate, FailurePolicy, ForEach, GraphStep, PendingCancel, Signal, StepCondition, StepState,
    StepWork, Workflow, WorkflowPart,
};

const WORKFLOW_CANCELED: &str = "its workflow was cancelled";

#[derive(Default)]
pub(super) struct Workflows {
    pub(super) of_steps: BTreeMap<JobId, Workflow>,
    pub(super) for_each: BTreeMap<JobId, ForEach>,
}

pub(super) fn wants(new: &NewWorkflow, wants: &mut Wants) {
    submit::wants(&new.submit, wants);
    let at_once = new.steps.iter().filter(|step| begins_at_once(step));
    let jobs = at_once.map(|step| first_job(&new.submit, step)).collect();
    submit::wants(&Submit { jobs, idempotency: None, ..new.submit }, wants);
}

/// Whether the job of the step is made with the workflow. A step that follows a failure has no turn
/// then, even without dependencies.
fn begins_at_once(step: &NewStep) -> bool {
    let is_job = step.work == StepWork::Job && step.head.wait.is_none();
    step.after.is_empty() && step.when != StepCondition::AnyFailed && is_job
}

/// A job with the queue of the step, to check the queue's bound.
fn first_job(submit: &Submit, step: &NewStep) -> NewJob {
    let id = submit.jobs.first().map_or(JobId::from_u128(0), |own| own.id);
    NewJob { id, id_given: false, head: step.head.clone(), input: step.input.clone() }
}

/// Which steps go on when the others are cancelled.
#[derive(Clone, Copy)]
enum Spared {
    None,
    /// What an active worker does is known, and can be undone, only when it ends.
    Active,
    /// Compensations, and nested workflows that undo their steps.
    Undoing,
}

impl Spared {
    /// `is_canceling`: it is a workflow that undoes its steps.
    fn has(self, step: &GraphStep, job: &Job, is_canceling: bool) -> bool {
        match self {
            Spared::None => false,
            Spared::Active => {
                let is_wait = job.head.wait.is_some();
                job.state.is_active() && !is_wait || step.when != StepCondition::AllSucceeded
            }
            Spared::Undoing => step.undoes.is_some() || is_canceling,
        }
    }
}

impl WorkingSet<'_> {
    pub(super) fn workflow(&mut self, new: &NewWorkflow) -> Result<Answer, Refusal> {
        if let Some(answer) = self.repeated(&new.submit)? {
            return Ok(answer);
        }
        if new.submit.idempotency.as_ref().is_some_and(|idempotency| idempotency.too_late) {
            return Err(Refusal::TooLate);
        }
        let [own] = &new.submit.jobs[..] else { return Err(Refusal::TooManyJobs) };
        let workflow = Workflow::new(own.id, own.head.client, new.policy, &new.steps);
        let workflow = workflow.map_err(Refusal::BadWorkflow)?;
        self.check_room(new, own)?;
        let slot = self.begin_workflow(own, workflow, &new.steps)?;
        let job = self.job(slot).clone();
        if let Some(idempotency) = &new.submit.idempotency {
            let row = KeyRow { fingerprint: idempotency.fingerprint, jobs: vec![job.id] };
            self.use_key(&idempotency.key, row);
        }
        Ok(Answer::Submitted { jobs: vec![job], existing: false })
    }

    /// The queue bounds count the steps that begin at once, without those of workflows within.
    fn check_room(&mut self, new: &NewWorkflow, own: &NewJob) -> Result<(), Refusal> {
        let first =
            new.steps.iter().filter(|step| begins_at_once(step)).map(|step| first_job(&new.submit, step));
        let own_id_is_free = Submit { jobs: vec![own.clone()], idempotency: None, ..new.submit };
        self.plan(&own_id_is_free)?;
        let first = Submit { jobs: first.collect(), idempotency: None, ..new.submit };
        self.plan(&first).map(drop)
    }

    /// Starts a job that needs no worker, as soon as it is queued.
    pub(super) fn start_without_worker(&mut self, slot: Slot) -> Result<(), Refusal> {
        let job = self.change(slot);
        job.available_at = None;
        job.fence += 1;
        job.attempt_handed = job.attempt;
        self.step(slot, Cause::Claim, RetryStatus::Open)?;
        self.begin(slot)
    }

    /// Makes the jobs of ready steps. A step whose definition is unreadable fails, so that its
    /// workflow does not wait for ever.
    pub(super) fn release_steps(&mut self, id: JobId, ready: Vec<u32>) -> Result<(), Refusal> {
        let mut read: Option<(RecordKey, Option<WorkflowPart>)> = None;
        let mut ready = VecDeque::from(ready);
        while let Some(index) = ready.pop_front() {
            let Some(workflow) = self.workflows.of_steps.get(&id) else { return Ok(()) };
            let key = workflow.part_of(index);
            if read.as_ref().is_none_or(|(known, _)| *known != key) {
                read = Some((key.clone(), self.seek_record(&key)));
            }
            let part = read.as_ref().and_then(|(_, part)| part.as_ref());
            let started = match part.and_then(|part| part.definition(index)) {
                Some(definition) => self.start_step(id, index, definition)?,
                None if self.changes.more.records.contains(&key) => Started::Begun,
                None => Started::Unreadable,
            };
            match started {
                Started::Begun => {}
                Started::Over(behind) => ready.extend(behind),
                Started::Unreadable => ready.extend(self.fail_unreadable_step(id, index)),
            }
        }
        Ok(())
    }

    /// Removes expiry and deadline that had passed when the workflow was retried: the retry asks
    /// for the step anyway.
    pub(super) fn drop_passed_times(&self, id: JobId, head: &mut Arc<Head>) {
        let Some(own) = self.find(id) else { return };
        let is_late = |at: Option<Time>| at.is_some_and(|at| self.job(own).was_retried_since(at));
        if is_late(head.expires_at) {
            Arc::make_mut(head).expires_at = None;
        }
        if is_late(head.deadline) {
            Arc::make_mut(head).deadline = None;
        }
    }

    /// Fails a step without a readable definition. Returns the steps that this makes ready.
    fn fail_unreadable_step(&mut self, id: JobId, index: u32) -> Vec<u32> {
        let message = String::from("The definition of the step cannot be read.");
        let error = ItemError { kind: Kind::HandlerError, message, retryable: false };
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Vec::new() };
        workflow.note(index, StepState::Failed, Some(error));
        workflow.advance()
    }

    /// Notes the end of a step that does not move its workflow by itself. Returns the steps that
    /// this makes ready.
    pub(super) fn note_step(&mut self, id: JobId, index: u32, state: StepState) -> Vec<u32> {
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Vec::new() };
        workflow.note(index, state, None);
        workflow.advance()
    }

    /// Moves the workflow on when a job ends.
    pub(super) fn move_workflow(&mut self, slot: Slot) {
        let job = self.job(slot);
        let (head, state) = (job.head.clone(), job.state);
        let cancelled = match head.workflow_head {
            Some(_) if state == State::Canceled => self.cancel_steps_of(slot),
            Some(_) | None => Ok(()),
        };
        let moved = cancelled.and_then(|()| match head.workflow {
            Some(step) => self.step_ended(slot, step.workflow, step.index),
            None => Ok(()),
        });
        debug_assert_eq!(moved, Ok(()), "{:?}", self.job(slot));
    }

    /// If the workflow's own job is unreadable, its steps go on; the workflow ends when its job is
    /// restored.
    fn step_ended(&mut self, slot: Slot, id: JobId, index: u32) -> Result<(), Refusal> {
        let own = self.seek(id);
        if own.is_some_and(|own| self.is_for_each(own)) {
            return self.element_ended(slot, own, index);
        }
        if own.is_none() && self.changes.more.jobs.contains(&id) {
            // Which of the two it is is known only with the job: both are loaded along.
            let _: Option<ForEach> = self.seek_record(&ForEach::key_of(id));
            let _: Option<ElementTemplate> = self.seek_record(&ElementTemplate::record_key(id.to_string()));
            let _: Option<Workflow> = self.seek_record(&Workflow::key_of(id));
            return Ok(());
        }
        if own.is_none() && self.seek_for_each(id).is_some() {
            return self.element_ended(slot, None, index);
        }
        let runs = own.is_none_or(|own| self.job(own).state == State::Running);
        let job = self.job(slot);
        let (job_id, (state, error)) = (job.id, how_it_ended(job));
        let Some(workflow) = self.seek_workflow(id) else { return Ok(()) };
        if !workflow.is_under_way(index, job_id) {
            return Ok(());
        }
        let policy = workflow.policy;
        let stops = error.is_some() && workflow.steps[index as usize].undoes.is_none();
        workflow.note(index, state, error);
        if !runs {
            return Ok(());
        }
        if stops && policy != FailurePolicy::Continue {
            workflow.stop();
            let spared = match policy {
                FailurePolicy::Continue | FailurePolicy::Stop => Spared::None,
                FailurePolicy::Compensate => Spared::Active,
            };
            self.cancel_steps(id, "a step of its workflow did not succeed", spared)?;
        }
        self.go_on(id)?;
        own.map_or(Ok(()), |own| self.catch_up(own))
    }

    /// Updates the workflow's own job from its steps.
    pub(super) fn catch_up(&mut self, own: Slot) -> Result<(), Refusal> {
        self.tell_progress(own, self.job(own).id);
        self.end_workflow(own)
    }

    /// A restored job may be a workflow whose steps went on meanwhile.
    pub(super) fn workflow_restored(&mut self, slot: Slot) {
        let job = self.job(slot);
        let (id, runs) = (job.id, job.head.workflow_head.is_some() && job.state == State::Running);
        if runs && self.is_for_each(slot) {
            let caught_up = if self.seek_for_each(id).is_some() { self.begin_elements(slot) } else { Ok(()) };
            debug_assert_eq!(caught_up, Ok(()), "{:?}", self.job(slot));
        } else if runs && self.conductor(id).is_some() {
            let caught_up = self.catch_up(slot);
            debug_assert_eq!(caught_up, Ok(()), "{:?}", self.job(slot));
        }
    }

    /// The workflow's own job, if both the job and its record exist.
    pub(super) fn conductor(&mut self, id: JobId) -> Option<Slot> {
        let own = self.seek(id);
        self.seek_workflow(id)?;
        own
    }

    pub(super) fn seek_workflow(&mut self, id: JobId) -> Option<&mut Workflow> {
        if !self.workflows.of_steps.contains_key(&id) {
            let workflow = self.seek_record::<Workflow>(&Workflow::key_of(id))?;
            self.workflows.of_steps.insert(id, workflow);
        }
        self.workflows.of_steps.get_mut(&id)
    }

    pub(super) fn workflow_mut(&mut self, id: JobId) -> Option<&mut Workflow> {
        self.workflows.of_steps.get_mut(&id)
    }

    fn tell_progress(&mut self, own: Slot, id: JobId) {
        let Some(workflow) = self.workflows.of_steps.get(&id) else { return };
        if self.job(own).state != State::Running || workflow.is_over() {
            return;
        }
        let counts = workflow.counts();
        let percent = workflow.percent_over();
        let job = self.change(own);
        job.progress = Some(percent.max(job.progress.unwrap_or(0)));
        job.tally = Tally { completed: counts.succeeded, failed: counts.failed };
        let percent = job.progress.unwrap_or(percent);
        self.append_event(own, EventKind::Progress(percent));
    }

    /// Ends the workflow if all steps are over. Rows that are still being loaded may belong to open
    /// steps.
    pub(super) fn end_workflow(&mut self, own: Slot) -> Result<(), Refusal> {
        let (id, state, paused) = (self.job(own).id, self.job(own).state, self.job(own).paused);
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Ok(()) };
        if state != State::Running || !workflow.is_over() {
            return Ok(());
        }
        // Compensations may be held back.
        if paused && !workflow.clone().advance().is_empty() {
            return Ok(());
        }
        let not_undone = workflow.compensation_failures();
        let Some(PendingCancel { mut cancellation, by_client }) = workflow.canceling.take() else {
            let ends = workflow.ends().into();
            return match self.job(own).head.deadline.filter(|_| self.job(own).overdue) {
                Some(deadline) => self.end_overdue(own, &ends, deadline, not_undone.as_deref()),
                None => self.end_items(own, &ends, "steps", not_undone.as_deref()),
            };
        };
        if let Some(not_undone) = not_undone {
            let room = limits::TEXT_BYTES_MAX.saturating_sub(not_undone.len() + 2);
            let reason = cut(cancellation.reason, room);
            cancellation.reason = format!("{}. {not_undone}", reason.trim_end_matches('.'));
        }
        self.change(own).cancel = Some(cancellation);
        let cause = if by_client { Cause::CancelByUser } else { Cause::CancelBySystem };
        let at = self.step(own, cause, RetryStatus::Open)?;
        self.end(own, at);
        Ok(())
    }

    /// Stops a workflow before its cancellation and begins to undo its steps. Returns whether that
    /// changed it; `None` if nothing is to be undone, so that it can be cancelled at once.
    pub(super) fn undo_and_cancel(
        &mut self,
        own: Slot,
        cancel: PendingCancel,
    ) -> Result<Option<bool>, Refusal> {
        let id = self.job(own).id;
        let is_workflow = self.job(own).head.workflow_head.is_some() && !self.is_for_each(own);
        if !is_workflow || self.conductor(id).is_none() {
            return Ok(None);
        }
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Ok(None) };
        if workflow.canceling.is_some() {
            return Ok(Some(false));
        }
        workflow.plan_compensations();
        let undoes = workflow.is_compensating();
        let nested_undoes = self.undo_nested(id, &cancel)?;
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Ok(None) };
        if !undoes && !nested_undoes {
            return Ok(None);
        }
        workflow.cancel_waiting(false);
        workflow.canceling = Some(cancel);
        self.cancel_steps(id, WORKFLOW_CANCELED, Spared::Undoing)?;
        self.lift_pause(own);
        self.go_on(id)?;
        self.catch_up(own)?;
        Ok(Some(true))
    }

    /// Cancels what is left of a workflow at its deadline, and begins to undo it if its policy says
    /// so.
    pub(super) fn stop_at_deadline(&mut self, id: JobId) -> Result<(), Refusal> {
        const REASON: &str = "the deadline of its workflow passed";
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Ok(()) };
        workflow.cancel_waiting(false);
        if workflow.policy == FailurePolicy::Compensate {
            let cancellation = Cancellation { by: "deadline".into(), reason: REASON.into() };
            self.undo_nested(id, &PendingCancel { cancellation, by_client: false })?;
        }
        self.cancel_steps(id, REASON, Spared::Undoing)?;
        self.go_on(id)
    }

    /// A paused workflow starts no step. It goes on only if there is none to start, which may end
    /// it.
    pub(super) fn go_on(&mut self, id: JobId) -> Result<(), Refusal> {
        if self.find(id).is_some_and(|own| self.job(own).paused) {
            let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Ok(()) };
            let mut ahead = workflow.clone();
            if ahead.advance().is_empty() {
                *workflow = ahead;
            }
            return Ok(());
        }
        let ready = self.workflows.of_steps.get_mut(&id).map(Workflow::advance).unwrap_or_default();
        self.release_steps(id, ready)
    }

    /// The jobs of the steps of a workflow that have not ended.
    pub(super) fn steps_under_way(&mut self, own: Slot) -> Vec<JobId> {
        let id = self.job(own).id;
        if self.is_for_each(own) {
            let Some(for_each) = self.seek_for_each(id) else { return Vec::new() };
            return for_each.under_way().into_iter().map(|index| for_each.job_of(index)).collect();
        }
        let Some(workflow) = self.seek_workflow(id) else { return Vec::new() };
        workflow.under_way().map(|index| workflow.job_of(index)).collect()
    }

    /// Starts the steps that a pause held back.
    pub(super) fn start_held_back(&mut self, own: Slot) -> Result<(), Refusal> {
        let id = self.job(own).id;
        if self.job(own).state != State::Running {
            return Ok(());
        }
        if self.is_for_each(own) {
            return if self.seek_for_each(id).is_some() { self.begin_elements(own) } else { Ok(()) };
        }
        if self.seek_workflow(id).is_none() {
            return Ok(());
        }
        self.go_on(id)?;
        self.end_workflow(own)
    }

    /// Cancels the steps of a cancelled workflow.
    fn cancel_steps_of(&mut self, own: Slot) -> Result<(), Refusal> {
        let id = self.job(own).id;
        if self.is_for_each(own) {
            return self.cancel_elements(id, WORKFLOW_CANCELED);
        }
        if self.conductor(id).is_none() {
            return Ok(());
        }
        if let Some(workflow) = self.workflows.of_steps.get_mut(&id) {
            workflow.cancel_waiting(true);
            workflow.canceling = None;
        }
        self.cancel_steps(id, WORKFLOW_CANCELED, Spared::None)
    }

    /// Cancels the active jobs of the workflow, except the spared ones. All are noted as cancelled
    /// before the first one ends, so their ends do not move the workflow; the caller does that
    /// once.
    fn cancel_steps(&mut self, id: JobId, reason: &str, spared: Spared) -> Result<(), Refusal> {
        let Some(workflow) = self.workflows.of_steps.get(&id) else { return Ok(()) };
        let under_way: Vec<(u32, JobId)> =
            workflow.under_way().map(|index| (index, workflow.job_of(index))).collect();
        let error = ItemError { kind: Kind::Cancelled, message: String::from(reason), retryable: false };
        let mut slots = Vec::new();
        for (index, job) in under_way {
            let slot = self.seek(job);
            let Some(workflow) = self.workflows.of_steps.get(&id) else { return Ok(()) };
            let step = &workflow.steps[index as usize];
            let is_canceling = self.workflows.of_steps.get(&job).is_some_and(|own| own.canceling.is_some());
            if slot.is_some_and(|slot| spared.has(step, self.job(slot), is_canceling)) {
                continue;
            }
            let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Ok(()) };
            workflow.note(index, StepState::Canceled, Some(error.clone()));
            slots.extend(slot);
        }
        for slot in slots {
            if self.job(slot).state.is_final() {
                continue;
            }
            self.change(slot).cancel = Some(Cancellation { by: "workflow".into(), reason: reason.into() });
            let at = self.step(slot, Cause::CancelBySystem, RetryStatus::Open)?;
            self.end(slot, at);
        }
        Ok(())
    }

    /// After a retry: a workflow retries its failed steps; the workflow of a step waits for the
    /// step again.
    pub(super) fn resume_workflow(&mut self, slot: Slot, from: Option<u32>) -> Result<(), Refusal> {
        let head = self.job(slot).head.clone();
        if let Some(step) = head.workflow {
            self.reopen_step(slot, step.workflow, step.index);
        }
        if head.workflow_head.is_some() { self.run_again(slot, from) } else { Ok(()) }
    }

    fn reopen_step(&mut self, slot: Slot, id: JobId, index: u32) {
        if self.seek(id).is_some_and(|own| self.is_for_each(own)) {
            return self.reopen_element(slot, id, index);
        }
        let Some(own) = self.conductor(id) else { return };
        let (runs, job) = (self.job(own).state == State::Running, self.job(slot).id);
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return };
        let Some(step) = workflow.steps.get(index as usize) else { return };
        // Jobs whose compensations run are not retried.
        let too_late = step.undoes.is_none() && workflow.is_compensating();
        let stands_for_it = workflow.job_of(index) == job;
        if runs && stands_for_it && step.state == StepState::Failed && !too_late {
            workflow.reopen(index);
        }
    }

    /// Refuses a retry from a step that cannot run.
    pub(super) fn check_from(&mut self, own: Slot, from: u32) -> Result<(), Refusal> {
        let id = self.job(own).id;
        let workflow = self.seek_workflow(id).ok_or(Refusal::NotFound)?;
        if workflow.can_go_on_from(from) { Ok(()) } else { Err(Refusal::StepNotReady) }
    }

    fn run_again(&mut self, own: Slot, from: Option<u32>) -> Result<(), Refusal> {
        let id = self.job(own).id;
        self.start_without_worker(own)?;
        if self.is_for_each(own) {
            return self.run_elements_again(own);
        }
        if self.conductor(id).is_none() {
            return Ok(());
        }
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return Ok(()) };
        for index in workflow.prepare_again(from) {
            self.try_step(id, index);
        }
        self.go_on(id)?;
        self.end_workflow(own)
    }

    /// Retries a failed step: in its job, or in a new one if that is gone or cannot be retried.
    fn try_step(&mut self, id: JobId, index: u32) {
        let Some(job) = self.workflows.of_steps.get(&id).map(|workflow| workflow.job_of(index)) else {
            return;
        };
        let slot = self.seek(job);
        let execution = self.new_execution();
        let state = slot.map(|slot| self.job(slot).state);
        let owned = Owned { job, client: None };
        let retry = Retry { owned, execution, afresh: true, dead_letter: false, from: None };
        let tried = match state {
            Some(State::Failed) => self.retry(&retry).is_ok(),
            // A client retried it directly.
            Some(_) => true,
            None => false,
        };
        let Some(workflow) = self.workflows.of_steps.get_mut(&id) else { return };
        match state {
            _ if !tried => workflow.remake(index),
            Some(State::Succeeded) => workflow.note(index, StepState::Succeeded, None),
            Some(State::Canceled) => workflow.remake(index),
            Some(State::Created | State::Queued | State::Assigned | State::Running | State::Failed)
            | None => {}
        }
    }

    pub(super) fn new_execution(&mut self) -> ExecutionId {
        let bits = u128::from(self.random()) << 64 | u128::from(self.random());
        ExecutionId::v7(self.now.unix_ms(), bits)
    }

    /// Deletes the records of a deleted workflow.
    pub(super) fn forget_workflow(&mut self, id: JobId) {
        let key = Workflow::key_of(id);
        let Some(workflow) = self.seek_record::<Workflow>(&key) else { return };
        self.workflows.of_steps.remove(&id);
        for part in workflow.part_keys() {
            let _: Option<WorkflowPart> = self.seek_record(&part);
            self.remove_record(part);
        }
        for name in workflow.steps.iter().filter_map(|step| step.signal.as_deref()) {
            let signal = Signal::key_of(id, name);
            if self.seek_record::<Signal>(&signal).is_some() {
                self.remove_record(signal);
            }
        }
        self.remove_record(key);
    }

    pub(super) fn put_workflows(&mut self) {
        for (id, workflow) in core::mem::take(&mut self.workflows.of_steps) {
            let key = Workflow::key_of(id);
            if self.record::<Workflow>(key.key).as_ref() != Some(&workflow) {
                self.put_record(&workflow);
            }
        }
        for (id, for_each) in core::mem::take(&mut self.workflows.for_each) {
            let for_each = for_each.settled();
            if self.record::<ForEach>(id.to_string()).as_ref() != Some(&for_each) {
                self.put_record(&for_each);
            }
        }
    }
}

pub(super) fn how_it_ended(job: &Job) -> (StepState, Option<ItemError>) {
    let message = |text: &str| cut(String::from(text), limits::STEP_MESSAGE_BYTES_MAX);
    match job.state {
        State::Succeeded => (StepState::Succeeded, None),
        State::Canceled => {
            let reason = job.cancel.as_ref().map_or("", |cancel| &cancel.reason);
            let error = ItemError { kind: Kind::Cancelled, message: message(reason), retryable: false };
            (StepState::Canceled, Some(error))
        }
        State::Failed | State::Created | State::Queued | State::Assigned | State::Running => {
            let error = job.last_error().map(|error| ItemError {
                kind: error.kind,
                message: message(&error.message),
                retryable: error.retryable,
            });
            (StepState::Failed, error)
        }
    }
}
