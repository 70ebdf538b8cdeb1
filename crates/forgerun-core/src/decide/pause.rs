//! Pause and resume of one job, or of a workflow with its steps. The state stays as it is, and so
//! do deadlines, leases and waits: a paused job only stands on no shelf.

use alloc::vec;
use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use crate::command::{Answer, JobPause, Refusal};
use crate::id::JobId;
use crate::job::Parked;
use crate::state::State;

impl WorkingSet<'_> {
    /// A job that is so already stays as it is, and so does an ended one that is resumed.
    pub(super) fn pause(&mut self, pause: &JobPause) -> Result<Answer, Refusal> {
        let slot = self.owned(&pause.owned)?;
        let job = self.job(slot);
        if pause.paused && job.state.is_final() {
            return Err(Refusal::WrongState(job.state));
        }
        if job.paused == pause.paused {
            return Ok(Answer::Unchanged(job.clone()));
        }
        self.set_paused(slot, pause.paused)?;
        Ok(Answer::Done(self.job(slot).clone()))
    }

    /// The same for all steps of a workflow that are under way, workflows among them included.
    /// Resumed, a workflow starts what its pause held back.
    fn set_paused(&mut self, slot: Slot, paused: bool) -> Result<(), Refusal> {
        let mut open = vec![slot];
        let mut workflows = Vec::new();
        while let Some(slot) = open.pop() {
            if self.job(slot).state.is_final() || self.job(slot).paused == paused {
                continue;
            }
            self.mark_paused(slot, paused);
            if self.job(slot).head.workflow_head.is_some() {
                workflows.push(slot);
                let steps: Vec<JobId> = self.steps_under_way(slot);
                open.extend(steps.into_iter().filter_map(|step| self.seek(step)));
            }
        }
        if !paused {
            // Inner ones first: they may end, which moves the outer ones.
            workflows.into_iter().rev().try_for_each(|own| self.start_held_back(own))?;
        }
        Ok(())
    }

    /// Resumes a workflow and the steps that still run, but starts none.
    pub(super) fn lift_pause(&mut self, own: Slot) {
        if !self.job(own).paused {
            return;
        }
        self.mark_paused(own, false);
        for step in self.steps_under_way(own) {
            if let Some(slot) = self.seek(step).filter(|&slot| self.job(slot).paused) {
                self.mark_paused(slot, false);
            }
        }
    }

    fn mark_paused(&mut self, slot: Slot, paused: bool) {
        let now = self.now;
        let job = self.change(slot);
        job.paused = paused;
        job.updated_at = job.updated_at.max(now);
        if !paused && job.state == State::Queued && job.parked == Parked::ForPlace {
            // Places that became free meanwhile were given to others: the next claim looks again.
            job.parked = Parked::No;
            job.available_at = None;
        }
        self.reshelve(slot);
    }
}
