//! A step for each element of a list, which a step before it left as its result.
//!
//! Elements are jobs, not steps. The `for_each` has an own job like a workflow; three kinds of
//! records belong to it:
//!
//! - [`ForEach`]: where the elements stand. Written whenever one ends, so it is packed: runs of
//!   equal states, which few elements interrupt.
//! - [`ElementPart`]: some of the elements, as JSON. Written once.
//! - [`ElementTemplate`]: what their jobs have in common. Written once.
//!
//! The list is read outside of the core, because it may be large or lie beside the rows, and comes
//! in slices ([`ListElements`]). Elements begin in their order, some at a time.
//!
//! [`ListElements`]: crate::command::ListElements

pub(super) mod layout;

use alloc::collections::BTreeMap;
use alloc::string::{String, ToString};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::{ArgsPiece, ForEachPlan, StepError, StepKind, StepState, WorkflowStep, step_job};
use crate::id::JobId;
use crate::item::{ItemError, Tally};
use crate::job::{Head, Input};
use crate::limits;
use crate::record::{RecordKey, Stored};
use crate::time::Time;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ElementState {
    Waiting = 0,
    Released = 1,
    Succeeded = 2,
    /// Failed or was cancelled.
    Failed = 3,
}

impl ElementState {
    pub(super) const ALL: [ElementState; 4] =
        [ElementState::Waiting, ElementState::Released, ElementState::Succeeded, ElementState::Failed];
}

/// The states of the elements, and where their list is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForEach {
    /// The own job.
    pub id: JobId,
    /// The step that it is.
    pub outer: WorkflowStep,
    /// The job whose result has the list.
    pub source: JobId,
    /// JSON pointer to the list.
    pub pointer: String,
    /// Elements that run at once.
    pub parallel: u32,
    /// No element begins after one has failed.
    pub stops: bool,
    /// The whole list was read.
    pub is_whole: bool,
    /// When the list is to be read, or read again.
    pub due_at: Option<Time>,
    /// The first element of each [`ElementPart`].
    pub parts: Vec<u32>,
    /// Of the elements that were read.
    pub states: Vec<ElementState>,
    /// Elements before this one had a job.
    pub n_begun: u32,
    /// Number of jobs made for an element beyond the first.
    pub remade: BTreeMap<u32, u8>,
    /// Errors of elements, in the order in which they ended.
    pub errors: Vec<StepError>,
    /// No element before this one waits. Not stored.
    pub(super) first_waiting: u32,
    /// Elements that are released. Not stored.
    pub(super) n_released: u32,
}

impl ForEach {
    /// A `for_each` whose list is to be read.
    pub(crate) fn new(
        id: JobId,
        outer: WorkflowStep,
        source: JobId,
        plan: &ForEachPlan,
        stops: bool,
        now: Time,
    ) -> ForEach {
        ForEach {
            id,
            outer,
            source,
            pointer: plan.pointer.clone(),
            parallel: plan.parallel,
            stops,
            is_whole: false,
            due_at: Some(now),
            parts: Vec::new(),
            states: Vec::new(),
            n_begun: 0,
            remade: BTreeMap::new(),
            errors: Vec::new(),
            first_waiting: 0,
            n_released: 0,
        }
    }

    /// As it is read from a store.
    pub(crate) fn settled(self) -> ForEach {
        ForEach { first_waiting: 0, ..self }
    }

    pub fn key_of(id: JobId) -> RecordKey {
        ForEach::record_key(id.to_string())
    }

    pub fn n(&self) -> u32 {
        self.states.len() as u32
    }

    pub fn count(&self, state: ElementState) -> u32 {
        self.states.iter().filter(|&&found| found == state).count() as u32
    }

    pub fn tally(&self) -> Tally {
        Tally { completed: self.count(ElementState::Succeeded), failed: self.count(ElementState::Failed) }
    }

    /// Percent of the elements that have ended; 0 while the list is being read.
    pub fn percent_over(&self) -> u8 {
        let Tally { completed, failed } = self.tally();
        if self.is_whole { ((completed + failed) * 100 / self.n().max(1)) as u8 } else { 0 }
    }

    /// The job of an element.
    pub fn job_of(&self, index: u32) -> JobId {
        step_job(self.id, index, self.remade.get(&index).copied().unwrap_or(0))
    }

    /// The job of an element, if one was made.
    pub fn made_job(&self, index: u32) -> Option<JobId> {
        (index < self.n_begun).then(|| self.job_of(index))
    }

    pub(crate) fn part_of(&self, index: u32) -> RecordKey {
        let n = self.parts.iter().take_while(|&&first| first <= index).count().saturating_sub(1);
        ElementPart::record_key(ElementPart::key_of(self.id, n as u32))
    }

    pub(crate) fn part_keys(&self) -> impl Iterator<Item = RecordKey> + '_ {
        (0..self.parts.len()).map(|n| ElementPart::record_key(ElementPart::key_of(self.id, n as u32)))
    }

    pub(crate) fn is_under_way(&self, index: u32, job: JobId) -> bool {
        self.states.get(index as usize) == Some(&ElementState::Released) && self.job_of(index) == job
    }

    pub(crate) fn under_way(&self) -> Vec<u32> {
        let released = (0..).zip(&self.states).filter(|(_, state)| **state == ElementState::Released);
        released.map(|(index, _)| index).collect()
    }

    /// The next element to begin, if there is room for it.
    pub(crate) fn next(&mut self) -> Option<u32> {
        if self.n_released >= self.parallel || self.is_stopped() {
            return None;
        }
        while self.states.get(self.first_waiting as usize)? != &ElementState::Waiting {
            self.first_waiting += 1;
        }
        Some(self.first_waiting)
    }

    fn is_stopped(&self) -> bool {
        self.stops && !self.errors.is_empty()
    }

    /// Whether nothing is left to do.
    pub(crate) fn is_over(&mut self) -> bool {
        self.is_whole && self.n_released == 0 && self.next().is_none()
    }

    pub(crate) fn set(&mut self, index: u32, state: ElementState) {
        let place = &mut self.states[index as usize];
        let was = core::mem::replace(place, state);
        self.n_released -= u32::from(was == ElementState::Released);
        self.n_released += u32::from(state == ElementState::Released);
        if state == ElementState::Waiting {
            self.first_waiting = self.first_waiting.min(index);
        }
    }

    /// Notes how an element ended.
    pub(crate) fn note(&mut self, index: u32, error: Option<ItemError>) {
        let state = if error.is_none() { ElementState::Succeeded } else { ElementState::Failed };
        self.set(index, state);
        if self.errors.len() < limits::WORKFLOW_ERRORS_MAX {
            self.errors.extend(error.map(|error| StepError { step: index, error }));
        }
    }

    /// Adds elements behind the others, and returns the records that have them.
    pub(crate) fn add(&mut self, elements: &[Vec<u8>]) -> Vec<ElementPart> {
        let mut parts: Vec<ElementPart> = Vec::new();
        let mut room = 0;
        for element in elements {
            let is_full = |part: &ElementPart| {
                part.elements.len() >= limits::ELEMENT_PART_ELEMENTS || element.len() > room
            };
            if parts.last().is_none_or(is_full) {
                let (for_each, n, first) = (self.id, self.parts.len() as u32, self.n());
                self.parts.push(first);
                parts.push(ElementPart { for_each, n, first, elements: Vec::new() });
                room = limits::ELEMENT_PART_BYTES;
            }
            room = room.saturating_sub(element.len());
            parts.last_mut().expect("one was pushed").elements.push(element.clone());
            self.states.push(ElementState::Waiting);
        }
        parts
    }

    /// Prepares another execution: elements that did not succeed wait again.
    pub(crate) fn prepare_again(&mut self, now: Time) {
        for index in 0..self.n() {
            if self.states[index as usize] == ElementState::Failed {
                self.set(index, ElementState::Waiting);
            }
        }
        self.errors.clear();
        self.due_at = (!self.is_whole).then_some(now);
    }

    /// Gives an element a new job.
    pub(crate) fn remake(&mut self, index: u32) {
        let made = self.remade.entry(index).or_default();
        *made = made.saturating_add(1);
    }

    /// The state of an element in the words of steps.
    pub fn step_state(&self, index: u32) -> StepState {
        match self.states.get(index as usize) {
            None | Some(ElementState::Waiting) => StepState::Waiting,
            Some(ElementState::Released) => StepState::Released,
            Some(ElementState::Succeeded) => StepState::Succeeded,
            Some(ElementState::Failed) => StepState::Failed,
        }
    }
}

/// What the jobs of all elements have in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementTemplate {
    /// The own job of the `for_each`.
    pub for_each: JobId,
    pub head: Arc<Head>,
    /// Without payload.
    pub input: Input,
    /// The payload.
    pub args: Vec<ArgsPiece>,
}

/// Some elements of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ElementPart {
    /// The own job of the `for_each`.
    pub for_each: JobId,
    /// Number of the part, from 0.
    pub n: u32,
    /// Position of its first element.
    pub first: u32,
    /// Each as JSON.
    pub elements: Vec<Vec<u8>>,
}

impl ElementPart {
    pub fn element(&self, index: u32) -> Option<&[u8]> {
        self.elements.get(index.checked_sub(self.first)? as usize).map(Vec::as_slice)
    }
}

impl StepKind {
    pub(super) const ALL: [StepKind; 3] = [StepKind::Job, StepKind::Workflow, StepKind::ForEach];
}
