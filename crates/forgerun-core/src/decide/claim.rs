//! Claiming: queues in the order of the claim, then by priority, then by turns of fair keys, then
//! by age.
//!
//! A job of which a limit has no room is *parked*, so that it does not block the jobs behind it:
//!
//! - no place free (concurrency): it waits on the parked shelf of that key until a job with the key
//!   ends. The job that gets the free place may be cancelled first, or wait in a paused queue, so a
//!   parked job is also rechecked after [`limits::PARKED`];
//! - no turn yet (rate): the next free moment of the rate is reserved for it, and it becomes
//!   claimable then. Each waiting job has a moment of its own, so there is no stampede.

use alloc::vec::Vec;
use core::time::Duration;

use super::working_set::{Slot, WorkingSet};
use super::{client_limits, queues, workers};
use crate::client_limits::ClientLimit;
use crate::command::{Answer, Claim, Refusal};
use crate::history::RetryStatus;
use crate::job::{Cancellation, Lease, Limit, Name, Parked, Rate};
use crate::limits;
use crate::queue::QueueId;
use crate::record::Stored;
use crate::rows::Wants;
use crate::state::{Cause, State};
use crate::time::Time;
use crate::worker::Worker;

pub(super) fn wants(claim: &Claim, wants: &mut Wants) {
    for (queue, shelf) in claim.queue_ids().zip(claim.shelves()) {
        if queue.owner.is_some() {
            wants.counts.insert(shelf.name.clone());
        }
        let wanted = wants.shelves.entry(shelf).or_default();
        *wanted = (*wanted + claim.limit).min(limits::CLAIM_JOBS_MAX);
        queues::wants_settings(&queue, wants);
        if let Some(owner) = &queue.owner {
            client_limits::wants(owner.client, wants);
        }
    }
    wants.records.extend(workers::claimant(claim).map(|worker| Worker::record_key(worker.key())));
    wants.active |= claim.active_max.is_some();
    wants.exact.active |= claim.active_max.is_some_and(|active_max| active_max < limits::ACTIVE_JOBS);
}

enum ClaimGate {
    Open,
    /// Not before another job with the key of this limit ends.
    NoPlace(u8),
    /// Not before this moment, which is reserved in this limit.
    NotBefore(u8, Time),
}

impl WorkingSet<'_> {
    pub(super) fn claim(&mut self, claim: &Claim) -> Result<Answer, Refusal> {
        let mut jobs = Vec::new();
        let worker = workers::claimant(claim);
        if worker.as_ref().is_some_and(|worker| !self.takes_work(worker)) {
            // There may be work: other workers may claim it, and the wakeup that this one received
            // is theirs.
            return Ok(Answer::Claimed { jobs, more: false, capped: true });
        }
        let limit = claim.limit.min(limits::CLAIM_JOBS_MAX);
        let (mut more, mut capped, mut queue_full) = (false, false, false);
        for (queue, shelf) in claim.queue_ids().zip(claim.shelves()) {
            if self.is_paused(&queue) {
                self.closed.insert(shelf);
                continue;
            }
            let (active_max, rate) = (self.active_max(&queue), self.rate(&queue));
            while jobs.len() < limit && !capped {
                let Some((slot, turn_without_key)) = self.next_on(&shelf) else { break };
                if self.holds_enough(&queue) {
                    queue_full = true;
                    self.closed.insert(shelf.clone());
                    break;
                }
                self.ask_for_exact_active(claim.active_max);
                if let Some(active_max) = active_max {
                    self.ask_for_exact_queue(&shelf.name);
                    if self.active_in(&shelf.name) >= active_max {
                        queue_full = true;
                        self.closed.insert(shelf.clone());
                        break;
                    }
                }
                if claim.active_max.is_some_and(|active_max| self.active >= active_max) {
                    capped = true;
                } else if rate.is_some_and(|rate| !self.has_turn(&queue, rate)) {
                    self.closed.insert(shelf.clone());
                    break;
                } else if self.may_go(slot)? {
                    self.hand_out(slot, claim)?;
                    if let Some(turn) = turn_without_key {
                        self.use_turn_without_key(turn);
                    }
                    jobs.push(self.job(slot).clone());
                    rate.into_iter().for_each(|rate| self.use_turn(&queue, rate));
                }
            }
            more |= self.has_more(&shelf) && !self.closed.contains(&shelf);
        }
        self.capped |= capped;
        if let Some(worker) = worker.filter(|_| !jobs.is_empty()) {
            self.note_fetch(&worker, claim, &jobs);
        }
        let capped = capped || (queue_full && !more && jobs.is_empty());
        Ok(Answer::Claimed { jobs, more: more && !capped, capped })
    }

    /// Whether the workers of a client hold as many jobs as they may.
    fn holds_enough(&mut self, queue: &QueueId) -> bool {
        let Some(owner) = &queue.owner else { return false };
        self.check_usage(owner.client, ClientLimit::MaxActive, 1).is_err()
    }

    /// A bound that may be reached needs the exact number of active jobs. Below half of the
    /// default, what concurrent batches add cannot reach it.
    fn ask_for_exact_active(&mut self, active_max: Option<u64>) {
        let near = |most: u64| most < limits::ACTIVE_JOBS || self.active >= most / 2;
        self.changes.exact.active |= self.uncertain.active && active_max.is_some_and(near);
    }

    /// The same for the active jobs of a queue with a bound.
    fn ask_for_exact_queue(&mut self, queue: &Name) {
        if self.uncertain.queues.contains(queue) {
            self.changes.exact.queues.insert(queue.clone());
        }
    }

    /// Whether the job can be handed out now. If not, it leaves its shelf: expired or parked.
    fn may_go(&mut self, slot: Slot) -> Result<bool, Refusal> {
        if self.job(slot).begin_by().is_some_and(|at| at <= self.now) {
            self.expire(slot)?;
            return Ok(false);
        }
        let head = self.job(slot).head.clone();
        if head.limits.is_empty() {
            return Ok(true);
        }
        let turns_had = self.job(slot).turns_had();
        let waits_for = match self.gate(&head.limits, turns_had) {
            ClaimGate::Open => return Ok(true),
            ClaimGate::NoPlace(limit) => {
                let look_again_at = self.now + limits::PARKED;
                let job = self.change(slot);
                (job.parked, job.turns_had) = (Parked::ForPlace, 0);
                job.available_at = Some(look_again_at);
                limit
            }
            ClaimGate::NotBefore(limit, at) => {
                let job = self.change(slot);
                (job.parked, job.turns_had) = (Parked::ForTurn, turns_had);
                job.available_at = Some(at);
                limit
            }
        };
        self.change(slot).parked_for = waits_for;
        self.reshelve(slot);
        if head.limits.len() > 1 {
            self.pass_places_on(&head.limits, waits_for);
        }
        Ok(false)
    }

    /// A job that now waits for one limit may have been woken for the free place of another, which
    /// the next job there can take.
    fn pass_places_on(&mut self, limits: &[Limit], waits_for: u8) {
        for (limit, _) in limits.iter().zip(0..).filter(|(_, n)| *n != waits_for) {
            let active = self.limits.get(&limit.key).map_or(0, |row| row.active);
            if limit.concurrency.is_some_and(|concurrency| active < concurrency) {
                self.unpark_first(limit.key.clone());
            }
        }
    }

    /// Checks all limits. If all have room, uses a turn of each rate; if not, uses none of them,
    /// and reserves a turn of the one that has the latest.
    fn gate(&mut self, limits: &[Limit], turns_had: u8) -> ClaimGate {
        let now = self.now;
        let mut latest: Option<(Time, u8)> = None;
        for (limit, n) in limits.iter().zip(0..) {
            let row = *self.limits.entry(limit.key.clone()).or_default();
            if limit.concurrency.is_some_and(|concurrency| row.active >= concurrency) {
                return ClaimGate::NoPlace(n);
            }
            if let Some(rate) = limit.rate.filter(|_| turns_had & (1 << n) == 0) {
                let earliest = row.turn_at - spacing(rate).1;
                latest = latest.max(Some((earliest, n)));
            }
        }
        let too_early = latest.filter(|(earliest, _)| *earliest > now);
        for (limit, n) in limits.iter().zip(0..) {
            let is_reserved = too_early.is_none_or(|(_, latest)| latest == n);
            if let Some(rate) = limit.rate.filter(|_| is_reserved && turns_had & (1 << n) == 0) {
                let row = self.limits.entry(limit.key.clone()).or_default();
                row.turn_at = row.turn_at.max(now) + spacing(rate).0;
                self.changes.limits.insert(limit.key.clone(), *row);
            }
        }
        too_early.map_or(ClaimGate::Open, |(earliest, n)| ClaimGate::NotBefore(n, earliest))
    }

    fn hand_out(&mut self, slot: Slot, claim: &Claim) -> Result<(), Refusal> {
        let at = self.step(slot, Cause::Claim, RetryStatus::Open)?;
        let job = self.change(slot);
        let length = claim.lease.or(job.head.lease).unwrap_or(claim.lease_default);
        job.fence += 1;
        job.attempt_handed = job.attempt;
        (job.parked, job.parked_for, job.turns_had) = (Parked::No, 0, 0);
        job.lease = Some(Lease {
            worker: claim.worker.clone(),
            until: at + length,
            length,
            timeout_at: None,
            upload: None,
        });
        if claim.start { self.begin(slot) } else { Ok(()) }
    }

    /// Cancels a job that was not started in time, or has no time left.
    pub(super) fn expire(&mut self, slot: Slot) -> Result<(), Refusal> {
        let job = self.change(slot);
        // A worker had the assigned job, so it is the deadline that passed.
        let expires_at = job.expires_at().filter(|_| job.state != State::Assigned);
        job.expired = expires_at.is_some() && expires_at == job.begin_by();
        let (cause, reason) = match job.expired {
            true => (Cause::Expire, "expired"),
            false => (Cause::CancelBySystem, "deadline"),
        };
        job.cancel = Some(Cancellation { by: "system".into(), reason: reason.into() });
        let at = self.step(slot, cause, RetryStatus::Open)?;
        self.end(slot, at);
        Ok(())
    }
}

/// The time between two turns, and the length of a burst.
fn spacing(rate: Rate) -> (Duration, Duration) {
    let interval = rate.per / rate.count.max(1);
    (interval, rate.per.saturating_sub(interval))
}
