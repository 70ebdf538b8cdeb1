//! Submitting: all the jobs of a request, or none. Idempotency and uniqueness are decided in the
//! transaction that writes the jobs, so that fifty equal concurrent requests make one job.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::working_set::{Slot, WorkingSet};
use super::{client_limits, queues};
use crate::command::{Answer, NewJob, Refusal, Submit};
use crate::fair::TurnNames;
use crate::history::RetryStatus;
use crate::id::{ClientId, JobId};
use crate::job::{Cancellation, Conflict, IdempotencyKey, Job, Name, Unique};
use crate::limits;
use crate::queue::QueueId;
use crate::rows::{KeyRow, Wants};
use crate::state::{Cause, Facet, State};
use crate::time::Time;

pub(super) fn wants(submit: &Submit, wants: &mut Wants) {
    wants.keys.extend(submit.idempotency.iter().map(|idempotency| idempotency.key.clone()));
    for new in &submit.jobs {
        if new.id_given {
            wants.jobs.insert(new.id);
        }
        wants.uniques.extend(new.head.unique.iter().map(|unique| unique.key));
        if let Some(names) = TurnNames::of(&new.head) {
            wants.limits.extend([names.queue, names.key]);
        }
        wants.webhooks_of.insert(new.head.client);
        client_limits::wants(new.head.client, wants);
        let queue = new.head.queue_id();
        let key = queue.key();
        if submit.queue_max.is_some_and(|queue_max| queue_max < limits::QUEUE_JOBS) {
            wants.exact.queues.insert(key.clone());
        }
        if wants.counts.insert(key) {
            queues::wants_settings(&queue, wants);
        }
    }
}

pub(super) enum SubmitPlan {
    Insert,
    /// Insert, and cancel the job that holds its unique key.
    Replace(KeyHolder),
    /// Answer with the job that holds its unique key.
    Use(KeyHolder),
}

#[derive(Clone, Copy)]
pub(super) enum KeyHolder {
    /// An existing job.
    There(Slot),
    /// A job of the same submission, by position.
    Before(usize),
}

impl KeyHolder {
    fn slot(self, made: &[Slot]) -> Slot {
        match self {
            KeyHolder::There(slot) => slot,
            KeyHolder::Before(index) => made[index],
        }
    }
}

/// A job of the submission that will hold its unique key once it is inserted.
struct HolderToBe {
    index: usize,
    facet: Facet,
    /// Its schedule, which may come from the job it replaces.
    execution_at: Option<Time>,
    /// Until when it holds the key, at the latest.
    until: Option<Time>,
}

impl HolderToBe {
    /// Whether it blocks another job with this key.
    fn blocks(&self, unique: &Unique, now: Time) -> bool {
        unique.facets & self.facet.bit() != 0 && self.until.is_none_or(|until| now < until)
    }
}

type HoldersToBe = BTreeMap<[u8; 32], HolderToBe>;

impl WorkingSet<'_> {
    pub(super) fn submit(&mut self, submit: &Submit) -> Result<Answer, Refusal> {
        if submit.jobs.len() > limits::SUBMISSION_JOBS_MAX {
            return Err(Refusal::TooManyJobs);
        }
        if let Some(answer) = self.repeated(submit)? {
            return Ok(answer);
        }
        if submit.idempotency.as_ref().is_some_and(|idempotency| idempotency.too_late) {
            return Err(Refusal::TooLate);
        }
        let plans = self.plan(submit)?;
        let mut made = Vec::with_capacity(plans.len());
        let mut existing = false;
        for (new, plan) in submit.jobs.iter().zip(plans) {
            let slot = match plan {
                SubmitPlan::Use(holder) => {
                    existing = true;
                    holder.slot(&made)
                }
                SubmitPlan::Replace(holder) => {
                    let holder = holder.slot(&made);
                    let replaced = self.job(holder).head.clone();
                    self.replace(holder)?;
                    self.insert(&keep_schedule(new, replaced.execution_at))?
                }
                SubmitPlan::Insert => self.insert(new)?,
            };
            made.push(slot);
        }
        let jobs: Vec<Job> = made.into_iter().map(|slot| self.job(slot).clone()).collect();
        if let Some(idempotency) = &submit.idempotency {
            let ids = jobs.iter().map(|job| job.id).collect();
            self.use_key(&idempotency.key, KeyRow { fingerprint: idempotency.fingerprint, jobs: ids });
        }
        Ok(Answer::Submitted { jobs, existing })
    }

    /// The answer to a repeated request. A key whose jobs are all gone counts as unused: a job
    /// found by its unique key does not know the idempotency key, and is forgotten without it.
    pub(super) fn repeated(&self, submit: &Submit) -> Result<Option<Answer>, Refusal> {
        let Some(idempotency) = &submit.idempotency else { return Ok(None) };
        let Some(row) = self.keys.get(&idempotency.key) else { return Ok(None) };
        let mut jobs = row.jobs.iter().filter_map(|&id| self.find(id)).map(|slot| self.job(slot)).peekable();
        let Some(first) = jobs.peek() else { return Ok(None) };
        if row.fingerprint != idempotency.fingerprint {
            return Err(Refusal::IdempotencyConflict(first.id));
        }
        Ok(Some(Answer::Submitted { jobs: jobs.cloned().collect(), existing: true }))
    }

    pub(super) fn use_key(&mut self, key: &IdempotencyKey, row: KeyRow) {
        if self.keys.insert(key.clone(), row.clone()).is_some() {
            self.changes.keys.retain(|(used, _)| used != key);
            self.changes.keys_removed.push(key.clone());
        }
        self.changes.keys.push((key.clone(), row));
    }

    /// Checks every job before any is inserted. Jobs of one submission see each other in order.
    pub(super) fn plan(&mut self, submit: &Submit) -> Result<Vec<SubmitPlan>, Refusal> {
        let mut plans = Vec::with_capacity(submit.jobs.len());
        let mut arrivals: BTreeMap<Name, u64> = BTreeMap::new();
        let (mut ids, mut holders) = (BTreeSet::new(), HoldersToBe::new());
        for (index, new) in submit.jobs.iter().enumerate() {
            if let Some(slot) = self.met(new.id) {
                return Err(self.duplicate(slot, index));
            }
            if new.id_given && !ids.insert(new.id) {
                return Err(Refusal::DuplicateWithin { index });
            }
            let plan = self.plan_unique(new, index, &holders)?;
            let queue = new.head.queue_id();
            if submit.refuse_paused && self.is_paused(&queue) {
                return Err(Refusal::QueuePaused { queue: queue.name });
            }
            let max = submit.queue_max.into_iter().chain(self.waiting_max(&queue)).min();
            if let Some(max) = max.filter(|_| self.needs_room(&submit.jobs, new, &plan, &holders)) {
                let key = queue.key();
                let waiting = self.waiting(&key) + arrivals.get(&key).copied().unwrap_or(0);
                self.ask_for_exact_count(&key, waiting, max);
                if waiting >= max {
                    return Err(Refusal::QueueFull { queue: queue.name, waiting, max });
                }
                *arrivals.entry(key).or_default() += u64::from(new.starts_by(self.now));
            }
            self.note_holder(new, index, &plan, &mut holders);
            plans.push(plan);
        }
        self.check_client_rooms(submit, &plans)?;
        Ok(plans)
    }

    /// Refuses a submission for which a client has no room.
    fn check_client_rooms(&mut self, submit: &Submit, plans: &[SubmitPlan]) -> Result<(), Refusal> {
        let mut more: BTreeMap<ClientId, (u64, u64)> = BTreeMap::new();
        for (new, plan) in submit.jobs.iter().zip(plans) {
            if !matches!(plan, SubmitPlan::Use(_)) {
                let (n_waiting, bytes) = more.entry(new.head.client).or_default();
                *n_waiting += u64::from(new.starts_by(self.now) && new.head.workflow_head.is_none());
                *bytes += new.input.bytes();
            }
        }
        more.into_iter().try_for_each(|(client, (n, bytes))| self.check_client_room(client, n, bytes))
    }

    fn note_holder(&self, new: &NewJob, index: usize, plan: &SubmitPlan, holders: &mut HoldersToBe) {
        let Some(unique) = &new.head.unique else { return };
        let replaced = match plan {
            SubmitPlan::Use(_) => return,
            SubmitPlan::Insert => None,
            SubmitPlan::Replace(KeyHolder::There(slot)) => Some(self.job(*slot).head.execution_at),
            SubmitPlan::Replace(KeyHolder::Before(_)) => {
                holders.get(&unique.key).map(|earlier| earlier.execution_at)
            }
        };
        let execution_at = match replaced {
            Some(kept) if unique.on_conflict == Conflict::ReplaceKeepingSchedule => kept,
            Some(_) | None => new.head.execution_at,
        };
        let facet = match execution_at {
            _ if new.head.hold => Facet::Held,
            Some(at) if at > self.now => Facet::Scheduled,
            Some(_) | None => Facet::Available,
        };
        holders.insert(unique.key, HolderToBe { index, facet, execution_at, until: unique.until });
    }

    /// Whether a queue has no room for one more job after `n_leaving` have left it.
    pub(super) fn is_full(&mut self, queue: &QueueId, queue_max: Option<u64>, n_leaving: u64) -> bool {
        let Some(max) = queue_max.into_iter().chain(self.waiting_max(queue)).min() else { return false };
        let key = queue.key();
        let waiting = self.waiting(&key).saturating_sub(n_leaving);
        self.ask_for_exact_count(&key, waiting, max);
        waiting >= max
    }

    /// A bound that may be reached needs the exact number of waiting jobs. Below half of the
    /// default, what concurrent batches add cannot reach it, unless each adds many.
    fn ask_for_exact_count(&mut self, queue: &Name, waiting: u64, queue_max: u64) {
        let arrived = self.changes.counts.get(queue).map_or(0, |more| more.of(State::Queued)).max(0) as u64;
        let arriving = waiting.saturating_sub(self.waiting(queue)) + arrived;
        let near = queue_max < limits::QUEUE_JOBS
            || waiting >= queue_max / 2
            || arriving > limits::UNCOUNTED_ARRIVALS_MAX;
        if near && self.uncertain.queues.contains(queue) {
            self.changes.exact.queues.insert(queue.clone());
        }
    }

    fn plan_unique(&self, new: &NewJob, index: usize, holders: &HoldersToBe) -> Result<SubmitPlan, Refusal> {
        let Some(unique) = &new.head.unique else { return Ok(SubmitPlan::Insert) };
        let holder = match holders.get(&unique.key) {
            // The previous holder of the key no longer blocks.
            Some(earlier) => earlier.blocks(unique, self.now).then_some(KeyHolder::Before(earlier.index)),
            None => self.blocking(unique).map(KeyHolder::There),
        };
        let Some(holder) = holder else { return Ok(SubmitPlan::Insert) };
        let can_be_replaced = match holder {
            KeyHolder::Before(_) => true,
            KeyHolder::There(slot) => {
                let state = self.job(slot).state;
                !state.is_active() && !state.is_final()
            }
        };
        match unique.on_conflict {
            Conflict::Ignore => Ok(SubmitPlan::Use(holder)),
            Conflict::Replace | Conflict::ReplaceKeepingSchedule if can_be_replaced => {
                Ok(SubmitPlan::Replace(holder))
            }
            Conflict::Replace | Conflict::ReplaceKeepingSchedule | Conflict::Reject => Err(match holder {
                KeyHolder::There(slot) => self.duplicate(slot, index),
                KeyHolder::Before(_) => Refusal::DuplicateWithin { index },
            }),
        }
    }

    /// The job that holds the unique key, if it blocks the new one.
    fn blocking(&self, unique: &Unique) -> Option<Slot> {
        let slot = self.uniques.get(&unique.key).and_then(|&holder| self.find(holder))?;
        let holder = self.job(slot);
        let held_until = holder.head.unique.as_ref().and_then(|unique| unique.until);
        let is_over = held_until.is_some_and(|until| until <= self.now);
        let blocks = unique.facets & holder.facet().bit() != 0;
        (blocks && !is_over).then_some(slot)
    }

    /// Lets a retried job hold its unique key again, unless another job blocks it. The conflict
    /// policy does not apply, since this job was first: it is neither replaced nor returned.
    pub(super) fn hold_again(&mut self, slot: Slot) -> Result<(), Refusal> {
        let (id, head) = (self.job(slot).id, self.job(slot).head.clone());
        let Some(unique) = &head.unique else { return Ok(()) };
        match self.blocking(unique) {
            Some(holder) if holder != slot => Err(self.duplicate(holder, 0)),
            Some(_) | None => {
                self.hold(unique.key, id);
                Ok(())
            }
        }
    }

    fn hold(&mut self, key: [u8; 32], id: JobId) {
        if self.uniques.insert(key, id) != Some(id) {
            self.changes.uniques.insert(key, id);
        }
    }

    /// Whether a job takes a place in its queue that no other job frees.
    fn needs_room(&self, jobs: &[NewJob], new: &NewJob, plan: &SubmitPlan, holders: &HoldersToBe) -> bool {
        let (waits, head) = match plan {
            SubmitPlan::Insert => return true,
            SubmitPlan::Use(_) => return false,
            SubmitPlan::Replace(KeyHolder::There(slot)) => {
                let holder = self.job(*slot);
                (holder.state == State::Queued, &holder.head)
            }
            SubmitPlan::Replace(KeyHolder::Before(index)) => {
                let earlier = new.head.unique.as_ref().and_then(|unique| holders.get(&unique.key));
                (earlier.is_some_and(|earlier| earlier.facet == Facet::Available), &jobs[*index].head)
            }
        };
        !waits || head.queue_id() != new.head.queue_id()
    }

    fn duplicate(&self, slot: Slot, index: usize) -> Refusal {
        let job = self.job(slot);
        Refusal::Duplicate { existing: job.id, state: job.state, index }
    }

    fn replace(&mut self, slot: Slot) -> Result<(), Refusal> {
        let reason = "replaced by a newer job with the same unique key".into();
        self.change(slot).cancel = Some(Cancellation { by: "system".into(), reason });
        let at = self.step(slot, Cause::Replace, RetryStatus::Open)?;
        self.end(slot, at);
        Ok(())
    }

    pub(super) fn insert(&mut self, new: &NewJob) -> Result<Slot, Refusal> {
        let job = Job {
            attempt: 1,
            hold: new.head.hold,
            updated_at: self.now,
            ..Job::blank(new.id, new.head.clone())
        };
        if let Some(unique) = &new.head.unique {
            self.hold(unique.key, new.id);
        }
        let slot = self.add(job, new.input.clone());
        if new.starts_by(self.now) {
            self.enqueue(slot, Cause::Due)?;
        }
        Ok(slot)
    }

    pub(super) fn enqueue(&mut self, slot: Slot, cause: Cause) -> Result<(), Refusal> {
        let at = self.step(slot, cause, RetryStatus::Open)?;
        let job = self.change(slot);
        job.queued_at = Some(at);
        job.awaited_signal = None;
        Ok(())
    }
}

/// The new job, with the schedule of the job that it replaces if its policy says so.
fn keep_schedule(new: &NewJob, execution_at: Option<Time>) -> NewJob {
    let keeps = |unique: &Unique| unique.on_conflict == Conflict::ReplaceKeepingSchedule;
    let mut new = new.clone();
    if new.head.unique.as_ref().is_some_and(keeps) {
        Arc::make_mut(&mut new.head).execution_at = execution_at;
    }
    new
}
