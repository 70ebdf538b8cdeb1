//! Compensation: undoes the steps that succeeded, one by one, the newest first.
//!
//! A compensation is skipped until its workflow fails or is cancelled with steps to undo. Then it
//! waits, runs and ends like any step; a failed one does not stop the others.

use alloc::format;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;

use super::{FailurePolicy, GraphStep, StepKind, StepState, Workflow};
use crate::limits;

impl GraphStep {
    /// The compensation of the step at this position.
    pub(super) fn compensation(of: u32, kind: StepKind) -> GraphStep {
        GraphStep {
            after: vec![of],
            undoes: Some(of),
            state: StepState::Skipped,
            kind,
            ..GraphStep::default()
        }
    }
}

impl Workflow {
    /// The compensations, each with the position of its step.
    pub fn compensations(&self) -> impl Iterator<Item = (u32, u32, &GraphStep)> {
        (0..).zip(&self.steps).filter_map(|(index, step)| Some((index, step.undoes?, step)))
    }

    /// Whether compensations run or wait.
    pub fn is_compensating(&self) -> bool {
        self.compensations().any(|(_, _, step)| !step.state.is_over())
    }

    /// Whether a compensation ran since the workflow last began from its first step.
    pub fn was_compensated(&self) -> bool {
        self.compensations().any(|(_, _, step)| step.state != StepState::Skipped)
    }

    /// Schedules the compensations of all steps that succeeded and are not undone yet.
    pub(crate) fn plan_compensations(&mut self) {
        let to_undo = |&(_, undone, step): &(u32, u32, &GraphStep)| {
            let succeeded = self.steps[undone as usize].state == StepState::Succeeded;
            succeeded && step.state == StepState::Skipped
        };
        let planned: Vec<u32> = self.compensations().filter(to_undo).map(|(index, ..)| index).collect();
        for index in planned {
            self.steps[index as usize].state = StepState::Waiting;
        }
    }

    /// The next compensation to run; it counts as released from now on.
    pub(super) fn next_compensation(&mut self) -> Option<u32> {
        if self.declared().any(|(_, step)| !step.state.is_over()) {
            return None;
        }
        if self.policy == FailurePolicy::Compensate && self.counts().failed > 0 {
            self.plan_compensations();
        }
        if self.compensations().any(|(_, _, step)| step.state == StepState::Released) {
            return None;
        }
        let waiting = self.compensations().filter(|(_, _, step)| step.state == StepState::Waiting);
        let (next, ..) = waiting.max_by_key(|&(_, undone, _)| self.steps[undone as usize].nth_success)?;
        self.steps[next as usize].state = StepState::Released;
        Some(next)
    }

    /// Prepares compensations for another execution that runs the marked steps again. Of the
    /// others, undone steps stay undone; all else can be undone again.
    pub(super) fn reset_compensations(&mut self, runs_again: &[bool]) {
        for step in &mut self.steps {
            let Some(undone) = step.undoes else { continue };
            let stays = step.state == StepState::Succeeded && !runs_again[undone as usize];
            if !stays && step.state != StepState::Skipped {
                step.remake();
                step.state = StepState::Skipped;
            }
        }
    }

    /// A sentence that names the steps that could not be undone; `None` if all were.
    pub(crate) fn compensation_failures(&self) -> Option<String> {
        let is_bad = |state| matches!(state, StepState::Failed | StepState::Canceled);
        let failed = self.compensations().filter(|(_, _, step)| is_bad(step.state));
        let names: Vec<&str> = failed.map(|(_, undone, _)| self.steps[undone as usize].id.as_str()).collect();
        let shown = names.len().min(limits::COMPENSATION_FAILURES_NAMED);
        let rest = match names.len() - shown {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        (shown > 0).then(|| format!("Compensation failed for: {}{rest}.", names[..shown].join(", ")))
    }
}
