//! `for_each`: begun like a job of a step, told its elements from outside, and moved on in the
//! transaction that ends an element.
//!
//! ```text
//!   its turn comes ──► own job and record, due at once ──► the engine reads the list ──► ListElements, slice by slice
//!   an element ends ──► noted in the record ──► the next one begins
//!                                           └─► none left: the own job ends, and with it the step
//! ```

use alloc::format;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

use super::workflows::how_it_ended;
use super::working_set::{Slot, WorkingSet};
use crate::catalog::Kind;
use crate::command::{Answer, ListElements, ListRead, ListWanted, NewJob, Owned, Refusal, Retry, WorkError};
use crate::history::{EventKind, RetryStatus};
use crate::id::JobId;
use crate::item::{ItemError, Tally};
use crate::job::{Cancellation, Head, Input};
use crate::limits;
use crate::record::{RecordKey, Stored};
use crate::rows::Wants;
use crate::state::{Cause, State};
use crate::workflow::{
    ElementPart, ElementState, ElementTemplate, FailurePolicy, ForEach, ForEachPlan, StepDefinition,
    StepState, WorkflowForm, WorkflowHead, WorkflowStep,
};

pub(super) fn wants(list: &ListElements, wants: &mut Wants) {
    wants.jobs_sought.insert(list.id);
    wants.records.insert(ForEach::key_of(list.id));
    wants.records.insert(ElementTemplate::record_key(list.id.to_string()));
}

/// A part that was read last: elements begin in order, so the next one is probably in it.
#[derive(Default)]
struct Read {
    template: Option<ElementTemplate>,
    part: Option<(RecordKey, Option<ElementPart>)>,
}

impl WorkingSet<'_> {
    /// Makes the own job of a `for_each`. Its list is read by the engine, because it is due.
    pub(super) fn start_for_each(
        &mut self,
        id: JobId,
        source: JobId,
        policy: FailurePolicy,
        definition: &StepDefinition,
        plan: &ForEachPlan,
    ) -> Result<(), Refusal> {
        let of_elements = &definition.head;
        let about = WorkflowHead { form: WorkflowForm::ForEach, name: String::new() };
        let own = about.own_job(of_elements.client, 0, of_elements.created_at);
        let head = Head {
            job_type: WorkflowHead::NESTED_JOB_TYPE.into(),
            items: None,
            dialect: of_elements.dialect,
            tenant: of_elements.tenant.clone(),
            correlation_id: of_elements.correlation_id.clone(),
            traceparent: of_elements.traceparent.clone(),
            tracestate: of_elements.tracestate.clone(),
            language: of_elements.language.clone(),
            retention: of_elements.retention,
            workflow: of_elements.workflow,
            ..own
        };
        let new = NewJob { id, id_given: false, head: Arc::new(head), input: Arc::default() };
        let slot = self.insert(&new)?;
        self.start_without_worker(slot)?;
        let head = Arc::new(Head { workflow: None, ..Head::clone(of_elements) });
        let input = Input { payload: vec![], ..Input::clone(&definition.input) };
        self.put_record(&ElementTemplate { for_each: id, head, input, args: plan.args.clone() });
        let stops = policy != FailurePolicy::Continue;
        let outer = of_elements.workflow.unwrap_or(WorkflowStep { workflow: id, index: 0 });
        let for_each = ForEach::new(id, outer, source, plan, stops, self.now);
        self.workflows.for_each.insert(id, for_each);
        Ok(())
    }

    /// The record, if it exists.
    pub(super) fn seek_for_each(&mut self, id: JobId) -> Option<&mut ForEach> {
        if !self.workflows.for_each.contains_key(&id) {
            let found = self.seek_record::<ForEach>(&ForEach::key_of(id))?;
            self.workflows.for_each.insert(id, found);
        }
        self.workflows.for_each.get_mut(&id)
    }

    pub(super) fn is_for_each(&self, own: Slot) -> bool {
        let head = self.job(own).head.workflow_head.as_ref();
        head.is_some_and(|head| head.form == WorkflowForm::ForEach)
    }

    /// A list is due to be read, by the node that asked; by another one if that does not finish.
    pub(super) fn list_due(&mut self, key: RecordKey) -> Option<ListWanted> {
        let Some(mut for_each) = self.record::<ForEach>(key.key.clone()) else {
            self.never_due(key);
            return None;
        };
        if for_each.due_at.is_none_or(|at| at > self.now) {
            return None;
        }
        for_each.due_at = Some(self.now + limits::LIST_AGAIN);
        let (id, source, n_known) = (for_each.id, for_each.source, for_each.n());
        let pointer = for_each.pointer.clone();
        self.workflows.for_each.insert(id, for_each);
        Some(ListWanted { id, source, pointer, n_known })
    }

    /// Takes elements of a list. Those of a `for_each` that has ended, or that another node has
    /// added meanwhile, change nothing.
    pub(super) fn list_elements(&mut self, list: &ListElements) -> Result<Answer, Refusal> {
        let Some(own) = self.find(list.id) else { return Ok(Answer::Settled) };
        let runs = self.job(own).state == State::Running;
        let now = self.now;
        let Some(for_each) = self.seek_for_each(list.id) else { return Ok(Answer::Settled) };
        if for_each.is_whole || for_each.n() != list.first {
            return Ok(Answer::Settled);
        }
        if !runs {
            for_each.due_at = None;
            return Ok(Answer::Settled);
        }
        match &list.read {
            ListRead::Failed(message) => {
                for_each.due_at = None;
                self.fail_for_each(own, message)?;
            }
            ListRead::Elements { elements, is_last } => {
                if for_each.states.len() + elements.len() > limits::ELEMENTS_MAX {
                    for_each.due_at = None;
                    let message = format!("The list has more than {} elements.", limits::ELEMENTS_MAX);
                    self.fail_for_each(own, &message)?;
                    return Ok(Answer::Settled);
                }
                for_each.is_whole = *is_last;
                for_each.due_at = (!is_last).then(|| now + limits::LIST_AGAIN);
                let parts = for_each.add(elements);
                parts.iter().for_each(|part| self.put_record(part));
                self.begin_elements(own)?;
            }
        }
        Ok(Answer::Settled)
    }

    fn fail_for_each(&mut self, own: Slot, message: &str) -> Result<(), Refusal> {
        let id = self.job(own).id;
        self.cancel_elements(id, message)?;
        let tally = self.workflows.for_each.get(&id).map(ForEach::tally);
        self.change(own).tally = tally.unwrap_or_default();
        self.break_off(own, Cause::Fail, &WorkError::new(Kind::HandlerError, message))
    }

    /// Begins as many elements as may run, none while it is paused, and ends the `for_each` if none
    /// is left.
    pub(super) fn begin_elements(&mut self, own: Slot) -> Result<(), Refusal> {
        let id = self.job(own).id;
        if self.job(own).paused {
            return self.end_for_each(own);
        }
        let mut read = Read::default();
        while let Some(index) = self.workflows.for_each.get_mut(&id).and_then(ForEach::next) {
            if !self.begin_element(id, index, &mut read)? {
                return Ok(());
            }
        }
        self.end_for_each(own)
    }

    /// Returns whether the rows for it were loaded.
    fn begin_element(&mut self, id: JobId, index: u32, read: &mut Read) -> Result<bool, Refusal> {
        let Some(for_each) = self.workflows.for_each.get(&id) else { return Ok(true) };
        let (job, part_key, had_job) =
            (for_each.job_of(index), for_each.part_of(index), index < for_each.n_begun);
        if had_job && self.retry_element(id, index, job)? != Some(false) {
            return Ok(self.changes.more.jobs.is_empty());
        }
        let template_key = ElementTemplate::record_key(id.to_string());
        if read.template.is_none() {
            read.template = self.seek_record(&template_key);
        }
        if read.part.as_ref().is_none_or(|(known, _)| *known != part_key) {
            read.part = Some((part_key.clone(), self.seek_record(&part_key)));
        }
        if [&template_key, &part_key].into_iter().any(|key| self.changes.more.records.contains(key)) {
            return Ok(false);
        }
        let part = read.part.as_ref().and_then(|(_, part)| part.as_ref());
        let made = made_element(read.template.as_ref(), part, id, index);
        let Some(for_each) = self.workflows.for_each.get_mut(&id) else { return Ok(true) };
        for_each.n_begun = for_each.n_begun.max(index + 1);
        match made {
            Ok((head, input)) => {
                for_each.set(index, ElementState::Released);
                let job = for_each.job_of(index);
                self.insert(&NewJob { id: job, id_given: false, head, input })?;
            }
            Err(message) => {
                let error = ItemError { kind: Kind::HandlerError, message, retryable: false };
                for_each.note(index, Some(error));
            }
        }
        Ok(true)
    }

    /// Retries an element that had a job: in that job if it failed. Returns whether it did; `None`
    /// if the job is still being loaded.
    fn retry_element(&mut self, id: JobId, index: u32, job: JobId) -> Result<Option<bool>, Refusal> {
        let slot = self.seek(job);
        if self.changes.more.jobs.contains(&job) {
            return Ok(None);
        }
        let state = slot.map(|slot| self.job(slot).state);
        let Some(for_each) = self.workflows.for_each.get_mut(&id) else { return Ok(Some(false)) };
        match state {
            Some(State::Failed) => {
                for_each.set(index, ElementState::Released);
                let (owned, execution) = (Owned { job, client: None }, self.new_execution());
                let retry = Retry { owned, execution, afresh: true, dead_letter: false, from: None };
                if self.retry(&retry).is_ok() {
                    return Ok(Some(true));
                }
            }
            Some(State::Succeeded) => {
                for_each.note(index, None);
                return Ok(Some(true));
            }
            // A client retried it by itself.
            Some(State::Created | State::Queued | State::Assigned | State::Running) => {
                for_each.set(index, ElementState::Released);
                return Ok(Some(true));
            }
            Some(State::Canceled) | None => {}
        }
        if let Some(for_each) = self.workflows.for_each.get_mut(&id) {
            for_each.remake(index);
        }
        Ok(Some(false))
    }

    /// Moves a `for_each` on when the job of an element ends.
    pub(super) fn element_ended(&mut self, slot: Slot, own: Option<Slot>, index: u32) -> Result<(), Refusal> {
        let job = self.job(slot);
        let Some(step) = job.head.workflow else { return Ok(()) };
        let (job_id, (state, error)) = (job.id, how_it_ended(job));
        let runs = own.is_some_and(|own| self.job(own).state == State::Running);
        let Some(for_each) = self.seek_for_each(step.workflow) else { return Ok(()) };
        if !for_each.is_under_way(index, job_id) {
            return Ok(());
        }
        let unsaid = || ItemError {
            kind: Kind::HandlerError,
            message: String::from("The element failed."),
            retryable: false,
        };
        for_each.note(index, (state != StepState::Succeeded).then(|| error.unwrap_or_else(unsaid)));
        match own {
            Some(own) if runs => {
                self.tell_elements(own);
                self.begin_elements(own)
            }
            _ => Ok(()),
        }
    }

    /// Writes the progress, if it is another percent: an event per element would be ten thousand.
    fn tell_elements(&mut self, own: Slot) {
        let id = self.job(own).id;
        let Some(for_each) = self.workflows.for_each.get_mut(&id) else { return };
        let (percent, tally) = (for_each.percent_over(), for_each.tally());
        let is_over = for_each.is_over();
        if is_over || self.job(own).progress.unwrap_or(0) >= percent {
            return;
        }
        let job = self.change(own);
        job.progress = Some(percent);
        job.tally = tally;
        self.append_event(own, EventKind::Progress(percent));
    }

    pub(super) fn end_for_each(&mut self, own: Slot) -> Result<(), Refusal> {
        let (id, state) = (self.job(own).id, self.job(own).state);
        let Some(for_each) = self.workflows.for_each.get_mut(&id) else { return Ok(()) };
        if state != State::Running || !for_each.is_over() {
            return Ok(());
        }
        let (tally, n) = (for_each.tally(), for_each.n());
        let first = for_each.errors.first().cloned();
        self.change(own).tally = tally;
        let Some(first) = first else {
            let at = self.step(own, Cause::Finish, RetryStatus::Open)?;
            self.end(own, at);
            return Ok(());
        };
        let Tally { failed, .. } = tally;
        let message = format!(
            "{failed} of {n} elements did not succeed; the first is {}: {}",
            first.step, first.error.message
        );
        self.break_off(own, Cause::Fail, &WorkError::new(Kind::HandlerError, &message))
    }

    /// Cancels the elements that run; no other begins.
    pub(super) fn cancel_elements(&mut self, id: JobId, reason: &str) -> Result<(), Refusal> {
        let Some(for_each) = self.seek_for_each(id) else { return Ok(()) };
        for_each.due_at = None;
        let under_way = for_each.under_way();
        let error = ItemError { kind: Kind::Cancelled, message: reason.into(), retryable: false };
        let mut jobs = vec![];
        for index in under_way {
            for_each.note(index, Some(error.clone()));
            jobs.push(for_each.job_of(index));
        }
        for job in jobs {
            let Some(slot) = self.seek(job) else { continue };
            if self.job(slot).state.is_final() {
                continue;
            }
            self.change(slot).cancel = Some(Cancellation { by: "workflow".into(), reason: reason.into() });
            let at = self.step(slot, Cause::CancelBySystem, RetryStatus::Open)?;
            self.end(slot, at);
        }
        Ok(())
    }

    /// Retries the elements that did not succeed, and reads the list if that failed.
    pub(super) fn run_elements_again(&mut self, own: Slot) -> Result<(), Refusal> {
        let (id, now) = (self.job(own).id, self.now);
        let Some(for_each) = self.seek_for_each(id) else { return Ok(()) };
        for_each.prepare_again(now);
        self.begin_elements(own)
    }

    /// A client retried the job of an element by itself.
    pub(super) fn reopen_element(&mut self, slot: Slot, id: JobId, index: u32) {
        let job = self.job(slot).id;
        let runs = self.seek(id).is_some_and(|own| self.job(own).state == State::Running);
        let Some(for_each) = self.seek_for_each(id) else { return };
        let is_failed = for_each.states.get(index as usize) == Some(&ElementState::Failed);
        if runs && is_failed && for_each.job_of(index) == job {
            for_each.set(index, ElementState::Released);
            for_each.errors.retain(|error| error.step != index);
        }
    }

    /// Deletes the records of a deleted `for_each`.
    pub(super) fn forget_for_each(&mut self, id: JobId) {
        let Some(for_each) = self.seek_for_each(id) else { return };
        let parts: Vec<RecordKey> = for_each.part_keys().collect();
        self.workflows.for_each.remove(&id);
        for part in parts {
            let _: Option<ElementPart> = self.seek_record(&part);
            self.remove_record(part);
        }
        let template = ElementTemplate::record_key(id.to_string());
        let _: Option<ElementTemplate> = self.seek_record(&template);
        self.remove_record(template);
        self.remove_record(ForEach::key_of(id));
    }
}

/// The job of an element, or why there is none.
fn made_element(
    template: Option<&ElementTemplate>,
    part: Option<&ElementPart>,
    id: JobId,
    index: u32,
) -> Result<(Arc<Head>, Arc<Input>), String> {
    let element = part.and_then(|part| part.element(index));
    let (Some(template), Some(element)) = (template, element) else {
        return Err("The element cannot be read.".into());
    };
    let size = ForEachPlan::args_bytes(&template.args, element.len());
    if size > limits::ELEMENT_ARGS_BYTES_MAX {
        let max = limits::ELEMENT_ARGS_BYTES_MAX;
        return Err(format!("The arguments of the element have {size} bytes; at most {max} are accepted."));
    }
    let step = WorkflowStep { workflow: id, index };
    let head = Arc::new(Head { workflow: Some(step), ..Head::clone(&template.head) });
    let payload = ForEachPlan::args_of(&template.args, element, index);
    Ok((head, Arc::new(Input { payload, ..template.input.clone() })))
}
