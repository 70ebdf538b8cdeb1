//! Claiming: who gets which job. Queues in the order of the claim, then by priority, then by age.
//!
//! A job whose limit has no room is *parked*, so that it does not stand in the way of the jobs behind it:
//!
//! - no place free (concurrency): it waits on the parked shelf of its key until a job with that key ends. Whoever is
//!   given the free place may be called off before it takes it, or wait in a paused queue, so a parked job is also looked
//!   at again after [`limits::PARKED`];
//! - no turn yet (rate): the next free moment in the rate is reserved for it, and it becomes claimable then. However
//!   many wait, each has a moment of its own, so nothing stampedes.

use alloc::vec::Vec;
use core::time::Duration;

use super::working_set::{Slot, WorkingSet};
use crate::command::{Answer, Claim, Refusal};
use crate::history::Outlook;
use crate::job::{Cancellation, Lease, Limit, Parked, Rate, Shelf};
use crate::limits;
use crate::rows::Wants;
use crate::state::Cause;
use crate::time::Time;

pub(super) fn wants(claim: &Claim, wants: &mut Wants) {
    for queue in claim.queues.iter().take(limits::CLAIM_QUEUES_MAX) {
        let shelf = Shelf { lane: claim.worker_kind.lane(), name: queue.clone() };
        let wanted = wants.shelves.entry(shelf).or_default();
        *wanted = (*wanted + claim.limit).min(limits::CLAIM_JOBS_MAX);
        wants.queues.insert(queue.clone());
    }
    wants.active |= claim.active_max.is_some();
    wants.exact.active |= claim.active_max.is_some_and(|active_max| active_max < limits::ACTIVE_JOBS);
}

/// Whether a job may be handed out.
enum Gate {
    Open,
    /// Not before another job with its key ends.
    NoPlace,
    /// Not before this moment.
    NotBefore(Time),
}

impl WorkingSet<'_> {
    pub(super) fn claim(&mut self, claim: &Claim) -> Result<Answer, Refusal> {
        let mut jobs = Vec::new();
        let limit = claim.limit.min(limits::CLAIM_JOBS_MAX);
        let (mut more, mut capped) = (false, false);
        for queue in claim.queues.iter().take(limits::CLAIM_QUEUES_MAX) {
            if self.queues.get(queue).is_some_and(|row| row.paused) {
                continue;
            }
            let shelf = Shelf { lane: claim.worker_kind.lane(), name: queue.clone() };
            while jobs.len() < limit && !capped {
                let Some(slot) = self.first_on(&shelf) else { break };
                self.ask_for_exact_active(claim.active_max);
                if claim.active_max.is_some_and(|active_max| self.active >= active_max) {
                    capped = true;
                } else if self.may_go(slot)? {
                    self.hand_out(slot, claim)?;
                    jobs.push(self.job(slot).clone());
                }
            }
            more |= self.has_more(&shelf);
        }
        self.capped |= capped;
        Ok(Answer::Claimed { jobs, more: more && !capped, capped })
    }

    /// A bound that may be reached needs to know exactly how many jobs workers hold. Halfway to the default, what others are
    /// about to add cannot reach it.
    fn ask_for_exact_active(&mut self, active_max: Option<u64>) {
        let near = |most: u64| most < limits::ACTIVE_JOBS || self.active >= most / 2;
        self.changes.exact.active |= self.uncertain.active && active_max.is_some_and(near);
    }

    /// Whether the job can be handed out now. If not, it is taken off its shelf: expired or parked.
    fn may_go(&mut self, slot: Slot) -> Result<bool, Refusal> {
        if self.job(slot).head.expires_at.is_some_and(|expires_at| expires_at <= self.now) {
            self.expire(slot)?;
            return Ok(false);
        }
        let Some(limit) = self.job(slot).head.limit.clone() else { return Ok(true) };
        let turn_came = self.job(slot).parked == Parked::TurnCame;
        match self.gate(&limit, turn_came) {
            Gate::Open => return Ok(true),
            Gate::NoPlace => {
                let look_again_at = self.now + limits::PARKED;
                let job = self.change(slot);
                job.parked = Parked::ForPlace;
                job.available_at = Some(look_again_at);
            }
            Gate::NotBefore(at) => {
                let job = self.change(slot);
                job.parked = Parked::ForTurn;
                job.available_at = Some(at);
            }
        }
        self.reshelve(slot);
        Ok(false)
    }

    /// Looks at the limit, and uses up a turn of its rate if there is one to use or to reserve.
    fn gate(&mut self, limit: &Limit, turn_came: bool) -> Gate {
        let now = self.now;
        let row = self.limits.entry(limit.key.clone()).or_default();
        if limit.concurrency.is_some_and(|concurrency| row.active >= concurrency) {
            return Gate::NoPlace;
        }
        let Some(rate) = limit.rate.filter(|_| !turn_came) else { return Gate::Open };
        let (interval, burst) = spacing(rate);
        let earliest = row.turn_at - burst;
        row.turn_at = row.turn_at.max(now) + interval;
        self.changes.limits.insert(limit.key.clone(), *row);
        if earliest <= now { Gate::Open } else { Gate::NotBefore(earliest) }
    }

    fn hand_out(&mut self, slot: Slot, claim: &Claim) -> Result<(), Refusal> {
        let at = self.step(slot, Cause::Claim, Outlook::Open)?;
        let job = self.change(slot);
        let length = claim.lease.or(job.head.lease).unwrap_or(claim.lease_default);
        job.fence += 1;
        job.attempt_handed = job.attempt;
        job.parked = Parked::No;
        job.lease =
            Some(Lease { worker: claim.worker.clone(), until: at + length, length, timeout_at: None });
        if claim.start { self.begin(slot) } else { Ok(()) }
    }

    /// Calls off a job that was not begun in time.
    pub(super) fn expire(&mut self, slot: Slot) -> Result<(), Refusal> {
        let reason = "not begun before it expired".into();
        self.change(slot).cancel = Some(Cancellation { by: "system".into(), reason });
        let at = self.step(slot, Cause::Expire, Outlook::Open)?;
        self.end(slot, at);
        Ok(())
    }
}

/// The time between two turns, and how far ahead of it a burst may run.
fn spacing(rate: Rate) -> (Duration, Duration) {
    let interval = rate.per / rate.count.max(1);
    (interval, rate.per.saturating_sub(interval))
}
