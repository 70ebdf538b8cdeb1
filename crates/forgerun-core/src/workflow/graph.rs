//! The rules for workflow steps: which of them run next.

use alloc::collections::BTreeSet;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{BadWorkflow, GraphStep, StepCondition, StepError, StepState, Workflow};
use crate::catalog::Kind;
use crate::id::JobId;
use crate::item::{ItemEnd, ItemError};
use crate::limits;

/// What happens to a waiting step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Turn {
    NotYet,
    Now,
    Never,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepCounts {
    pub succeeded: u32,
    pub failed: u32,
    pub skipped: u32,
}

impl StepCounts {
    pub const fn over(&self) -> u32 {
        self.succeeded + self.failed + self.skipped
    }
}

impl Workflow {
    /// The steps of the request, without compensations.
    pub fn declared(&self) -> impl Iterator<Item = (u32, &GraphStep)> {
        (0..).zip(&self.steps).filter(|(_, step)| step.undoes.is_none())
    }

    pub fn counts(&self) -> StepCounts {
        let mut counts = StepCounts::default();
        for (_, step) in self.declared() {
            match step.state {
                StepState::Succeeded => counts.succeeded += 1,
                StepState::Failed | StepState::Canceled => counts.failed += 1,
                StepState::Skipped => counts.skipped += 1,
                StepState::Waiting | StepState::Released => {}
            }
        }
        counts
    }

    /// Percent of its steps that are over. Compensations count once they are scheduled.
    pub fn percent_over(&self) -> u8 {
        let is_meant = |step: &&GraphStep| step.undoes.is_none() || step.state != StepState::Skipped;
        let meant = || self.steps.iter().filter(is_meant);
        let n_over = meant().filter(|step| step.state.is_over()).count();
        (n_over * 100 / meant().count().max(1)) as u8
    }

    pub fn is_over(&self) -> bool {
        self.steps.iter().all(|step| step.state.is_over())
    }

    /// Whether `job` is the current job of this step, and has not ended.
    pub fn is_under_way(&self, index: u32, job: JobId) -> bool {
        let released = self.steps.get(index as usize).is_some_and(|step| step.state == StepState::Released);
        released && self.job_of(index) == job
    }

    pub fn under_way(&self) -> impl Iterator<Item = u32> + '_ {
        (0..).zip(&self.steps).filter(|(_, step)| step.state == StepState::Released).map(|(index, _)| index)
    }

    /// Notes how the job of a step ended.
    pub(crate) fn note(&mut self, index: u32, state: StepState, error: Option<ItemError>) {
        self.steps[index as usize].state = state;
        if state == StepState::Succeeded {
            let newest = self.steps.iter().map(|step| step.nth_success).max();
            self.steps[index as usize].nth_success = newest.unwrap_or(0) + 1;
        }
        if self.errors.len() < limits::WORKFLOW_ERRORS_MAX {
            self.errors.extend(error.map(|error| StepError { step: index, error }));
        }
    }

    /// Skips waiting steps that can never run, and returns those that are ready, which count as
    /// released from now on. Each is checked once, after all its dependencies. When all steps are
    /// over, compensations follow.
    pub(crate) fn advance(&mut self) -> Vec<u32> {
        let mut ready = Vec::new();
        if self.declared().any(|(_, step)| step.state == StepState::Waiting) {
            for index in self.in_order() {
                let step = &self.steps[index as usize];
                if step.state != StepState::Waiting || step.undoes.is_some() {
                    continue;
                }
                match self.settle(index as usize) {
                    Turn::NotYet | Turn::Never => {}
                    Turn::Now => ready.push(index),
                }
            }
            ready.sort_unstable();
        }
        ready.extend(self.next_compensation());
        ready
    }

    /// The steps in dependency order.
    fn in_order(&self) -> Vec<u32> {
        // Workflows are checked when they begin; a damaged record may have a cycle, and steps
        // behind it never run.
        order(&self.steps).unwrap_or_else(|cycle| cycle.before)
    }

    /// Moves a waiting step according to its turn.
    fn settle(&mut self, index: usize) -> Turn {
        let turn = self.turn(&self.steps[index]);
        self.steps[index].state = match turn {
            Turn::NotYet => StepState::Waiting,
            Turn::Now => StepState::Released,
            Turn::Never => StepState::Skipped,
        };
        turn
    }

    fn turn(&self, step: &GraphStep) -> Turn {
        let (mut open, mut bad) = (false, false);
        for &before in &step.after {
            match self.steps[before as usize].state {
                StepState::Waiting | StepState::Released => open = true,
                StepState::Failed | StepState::Canceled | StepState::Skipped => bad = true,
                StepState::Succeeded => {}
            }
        }
        match step.when {
            StepCondition::AllSucceeded if bad => Turn::Never,
            _ if open => Turn::NotYet,
            StepCondition::AnyFailed if !bad => Turn::Never,
            StepCondition::AllSucceeded | StepCondition::AllEnded | StepCondition::AnyFailed => Turn::Now,
        }
    }

    /// Skips the steps that wait for a success, because the workflow stops.
    pub(crate) fn stop(&mut self) {
        self.skip_waiting(|step| step.when == StepCondition::AllSucceeded);
    }

    /// Skips every waiting step, because the workflow was cancelled; compensations as well if
    /// nothing is to be undone.
    pub(crate) fn cancel_waiting(&mut self, compensations_too: bool) {
        self.skip_waiting(|step| compensations_too || step.undoes.is_none());
    }

    fn skip_waiting(&mut self, skips: impl Fn(&GraphStep) -> bool) {
        for step in &mut self.steps {
            if step.state == StepState::Waiting && skips(step) {
                step.state = StepState::Skipped;
            }
        }
    }

    /// Reopens a failed step for a retry: the steps skipped because of it wait again, unless
    /// another failure would skip them. So a waiting step always has an open dependency, whose end
    /// moves it on.
    pub(crate) fn reopen(&mut self, index: u32) {
        self.steps[index as usize].state = StepState::Released;
        self.errors.retain(|error| error.step != index);
        let mut behind = vec![false; self.steps.len()];
        behind[index as usize] = true;
        for index in self.in_order() {
            let step = &self.steps[index as usize];
            if step.undoes.is_some() || !step.after.iter().any(|&before| behind[before as usize]) {
                continue;
            }
            behind[index as usize] = true;
            if step.state == StepState::Skipped && self.turn(step) == Turn::NotYet {
                self.steps[index as usize].state = StepState::Waiting;
            }
        }
    }

    /// Whether the dependencies of the step ended as required, so that an ended workflow can
    /// continue from it.
    pub(crate) fn can_go_on_from(&self, index: u32) -> bool {
        let step = self.steps.get(index as usize).filter(|step| step.undoes.is_none());
        step.is_some_and(|step| self.turn(step) == Turn::Now)
    }

    /// Prepares another execution. Returns the failed steps that may be retried in the same job;
    /// they count as released.
    ///
    /// - With `from`, that step and all its dependents run again, and the others stay.
    /// - A workflow that was compensated begins anew.
    /// - Otherwise successful steps stay, unless they depended on an end or failure that is to be
    ///   repeated.
    pub(crate) fn prepare_again(&mut self, from: Option<u32>) -> Vec<u32> {
        let begins_anew = from.is_none() && self.was_compensated();
        let again = self.to_come_anew();
        let runs = from.map_or_else(|| vec![true; self.steps.len()], |from| self.depend_on(from));
        self.reset_compensations(&runs);
        let mut failed = Vec::new();
        for (index, step) in (0..).zip(&mut self.steps) {
            if step.undoes.is_some() || !runs[index as usize] {
                continue;
            }
            let goes_on = !begins_anew && !again[index as usize];
            match step.state {
                StepState::Succeeded if goes_on && from.is_none() => {}
                StepState::Failed if goes_on && from.is_none_or(|from| from == index) => {
                    step.state = StepState::Released;
                    failed.push(index);
                }
                StepState::Waiting | StepState::Skipped => step.state = StepState::Waiting,
                StepState::Released | StepState::Succeeded | StepState::Failed | StepState::Canceled => {
                    step.remake();
                }
            }
        }
        let steps = &self.steps;
        self.errors.retain(|error| {
            let step = error.step as usize;
            !runs[step] && steps[step].state != StepState::Skipped
        });
        failed
    }

    /// For each step, whether it is this one or depends on it, directly or not.
    fn depend_on(&self, from: u32) -> Vec<bool> {
        let mut behind = vec![false; self.steps.len()];
        behind[from as usize] = true;
        for index in self.in_order() {
            let after = &self.steps[index as usize].after;
            behind[index as usize] |= after.iter().any(|&before| behind[before as usize]);
        }
        behind
    }

    /// For each step, whether it depends on an end or failure, directly or not.
    fn to_come_anew(&self) -> Vec<bool> {
        let mut anew = vec![false; self.steps.len()];
        for index in self.in_order() {
            let step = &self.steps[index as usize];
            anew[index as usize] = step.when != StepCondition::AllSucceeded
                || step.after.iter().any(|&before| anew[before as usize]);
        }
        anew
    }

    /// Gives the step a new job.
    pub(crate) fn remake(&mut self, index: u32) {
        self.steps[index as usize].remake();
    }

    /// The ends of all steps, as the items of the workflow's own job. A skipped step counts as
    /// cancelled if another one did not succeed, and as succeeded if nothing was to be done.
    pub(crate) fn ends(&self) -> Vec<ItemEnd> {
        let well = self.counts().failed == 0;
        let mut ends: Vec<ItemEnd> =
            self.steps.iter().map(|step| ItemEnd { id: step.id.clone(), error: None }).collect();
        for error in &self.errors {
            ends[error.step as usize].error = Some(error.error.clone());
        }
        for (step, end) in self.steps.iter().zip(&mut ends) {
            end.error = match (step.state, end.error.take()) {
                (StepState::Skipped, _) if !well && step.when != StepCondition::AnyFailed => {
                    Some(ItemError::not_begun())
                }
                (StepState::Failed, None) => Some(unsaid(Kind::HandlerError, "The step failed.")),
                (StepState::Canceled, None) => Some(unsaid(Kind::Cancelled, "The step was cancelled.")),
                (_, error) => error,
            };
        }
        let ends = ends.into_iter().zip(&self.steps);
        ends.filter(|(_, step)| step.undoes.is_none()).map(|(end, _)| end).collect()
    }
}

impl GraphStep {
    pub(super) fn remake(&mut self) {
        self.state = StepState::Waiting;
        self.generation = self.generation.saturating_add(1);
    }
}

/// An error without further details.
fn unsaid(kind: Kind, message: &str) -> ItemError {
    ItemError { kind, message: String::from(message), retryable: false }
}

/// Checks the steps: not too many, and no cycle.
pub(super) fn check(steps: &[GraphStep]) -> Result<(), BadWorkflow> {
    if steps.is_empty() {
        return Err(BadWorkflow::Empty);
    }
    if steps.iter().filter(|step| step.undoes.is_none()).count() > limits::WORKFLOW_STEPS_MAX {
        return Err(BadWorkflow::TooManySteps);
    }
    if steps.iter().map(|step| step.after.len()).sum::<usize>() > limits::WORKFLOW_EDGES_MAX {
        return Err(BadWorkflow::TooManyEdges);
    }
    let mut signals = BTreeSet::new();
    for (index, step) in (0..).zip(steps) {
        if step.signal.as_ref().is_some_and(|signal| !signals.insert(signal)) {
            return Err(BadWorkflow::SameSignal(index));
        }
        let mut seen = step.after.clone();
        seen.sort_unstable();
        let twice = seen.windows(2).any(|pair| pair[0] == pair[1]);
        if twice || step.after.iter().any(|&before| before as usize >= steps.len()) {
            return Err(BadWorkflow::BadEdge(index));
        }
    }
    order(steps).map(drop).map_err(|cycle| BadWorkflow::Cycle(cycle.step))
}

/// Steps that depend on each other in a cycle.
struct Cycle {
    /// The first step in the cycle, or behind it.
    step: u32,
    /// The steps outside of it, in order.
    before: Vec<u32>,
}

/// The steps in dependency order; in time linear in steps and edges.
fn order(steps: &[GraphStep]) -> Result<Vec<u32>, Cycle> {
    let mut behind: Vec<Vec<u32>> = vec![Vec::new(); steps.len()];
    for (index, step) in (0..).zip(steps) {
        step.after.iter().for_each(|&before| behind[before as usize].push(index));
    }
    let mut open: Vec<usize> = steps.iter().map(|step| step.after.len()).collect();
    let mut order: Vec<u32> =
        (0..).zip(&open).filter(|(_, open)| **open == 0).map(|(index, _)| index).collect();
    let mut n_done = 0;
    while let Some(&index) = order.get(n_done) {
        n_done += 1;
        for &behind in &behind[index as usize] {
            open[behind as usize] -= 1;
            if open[behind as usize] == 0 {
                order.push(behind);
            }
        }
    }
    match open.iter().position(|&open| open > 0) {
        Some(step) => Err(Cycle { step: step as u32, before: order }),
        None => Ok(order),
    }
}
