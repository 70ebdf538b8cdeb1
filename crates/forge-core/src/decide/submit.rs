//! Submitting: all the jobs of a request, or none. Idempotency and uniqueness are decided here, in the transaction
//! that writes the jobs, so that fifty equal requests at once still make one job.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

use super::queues;
use super::working_set::{Slot, WorkingSet};
use crate::command::{Answer, NewJob, Refusal, Submit};
use crate::history::Outlook;
use crate::id::JobId;
use crate::job::{Cancellation, Conflict, IdempotencyKey, Job, Name, Unique};
use crate::limits;
use crate::queue::QueueId;
use crate::rows::{KeyRow, Wants};
use crate::state::{Cause, State};
use crate::time::Time;

pub(super) fn wants(submit: &Submit, wants: &mut Wants) {
    wants.keys.extend(submit.idempotency.iter().map(|idempotency| idempotency.key.clone()));
    for new in &submit.jobs {
        if new.id_given {
            wants.jobs.insert(new.id);
        }
        wants.uniques.extend(new.head.unique.iter().map(|unique| unique.key));
        wants.webhooks_of.insert(new.head.client);
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

/// What to do about one job of a submission.
pub(super) enum SubmitPlan {
    Insert,
    /// Insert, and cancel the job that holds its unique key.
    Replace(Slot),
    /// Answer with the job that holds its unique key.
    Use(Slot),
}

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
        let mut jobs = Vec::with_capacity(plans.len());
        let mut existing = false;
        for (new, plan) in submit.jobs.iter().zip(plans) {
            let slot = match plan {
                SubmitPlan::Use(slot) => {
                    existing = true;
                    slot
                }
                SubmitPlan::Replace(holder) => {
                    let replaced = self.job(holder).head.clone();
                    self.replace(holder)?;
                    self.insert(&keep_schedule(new, replaced.execution_at))?
                }
                SubmitPlan::Insert => self.insert(new)?,
            };
            jobs.push(self.job(slot).clone());
        }
        if let Some(idempotency) = &submit.idempotency {
            let ids = jobs.iter().map(|job| job.id).collect();
            self.use_key(&idempotency.key, KeyRow { fingerprint: idempotency.fingerprint, jobs: ids });
        }
        Ok(Answer::Submitted { jobs, existing })
    }

    /// The answer to a request that was made before. A key whose jobs are all gone counts as unused: a job that was met
    /// (by its unique key) rather than made does not know the key, and is forgotten without it.
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

    /// Checks every job before any is inserted.
    pub(super) fn plan(&mut self, submit: &Submit) -> Result<Vec<SubmitPlan>, Refusal> {
        let mut plans = Vec::with_capacity(submit.jobs.len());
        let mut arrivals: BTreeMap<Name, u64> = BTreeMap::new();
        let (mut ids, mut taken) = (BTreeSet::new(), BTreeSet::new());
        for new in &submit.jobs {
            if let Some(slot) = self.met(new.id) {
                return Err(self.duplicate(slot));
            }
            let id_twice = new.id_given && !ids.insert(new.id);
            if id_twice || new.head.unique.as_ref().is_some_and(|unique| !taken.insert(unique.key)) {
                return Err(Refusal::Duplicate { existing: new.id, state: State::Created });
            }
            let plan = self.plan_unique(new)?;
            let queue = new.head.queue_id();
            if submit.refuse_paused && self.is_paused(&queue) {
                return Err(Refusal::QueuePaused { queue: queue.name });
            }
            let max = submit.queue_max.into_iter().chain(self.waiting_max(&queue)).min();
            if let Some(max) = max.filter(|_| self.needs_room(new, &plan)) {
                let key = queue.key();
                let waiting = self.waiting(&key) + arrivals.get(&key).copied().unwrap_or(0);
                self.ask_for_exact_count(&key, waiting, max);
                if waiting >= max {
                    return Err(Refusal::QueueFull { queue: queue.name, waiting, max });
                }
                *arrivals.entry(key).or_default() += u64::from(new.starts_by(self.now));
            }
            plans.push(plan);
        }
        Ok(plans)
    }

    /// Whether a queue has no room for one more job once so many have left it.
    pub(super) fn is_full(&mut self, queue: &QueueId, queue_max: Option<u64>, n_leaving: u64) -> bool {
        let Some(max) = queue_max.into_iter().chain(self.waiting_max(queue)).min() else { return false };
        let key = queue.key();
        let waiting = self.waiting(&key).saturating_sub(n_leaving);
        self.ask_for_exact_count(&key, waiting, max);
        waiting >= max
    }

    /// A bound that may be reached needs to know exactly how many jobs wait. Halfway to the default, what others are about to add
    /// cannot reach it.
    fn ask_for_exact_count(&mut self, queue: &Name, waiting: u64, queue_max: u64) {
        let near = queue_max < limits::QUEUE_JOBS || waiting >= queue_max / 2;
        if near && self.uncertain.queues.contains(queue) {
            self.changes.exact.queues.insert(queue.clone());
        }
    }

    fn plan_unique(&self, new: &NewJob) -> Result<SubmitPlan, Refusal> {
        let Some(unique) = &new.head.unique else { return Ok(SubmitPlan::Insert) };
        let Some(slot) = self.blocking(unique) else { return Ok(SubmitPlan::Insert) };
        let holder = self.job(slot);
        match unique.on_conflict {
            Conflict::Ignore => Ok(SubmitPlan::Use(slot)),
            Conflict::Replace | Conflict::ReplaceKeepingSchedule
                if !holder.state.is_active() && !holder.state.is_final() =>
            {
                Ok(SubmitPlan::Replace(slot))
            }
            Conflict::Replace | Conflict::ReplaceKeepingSchedule | Conflict::Reject => {
                Err(self.duplicate(slot))
            }
        }
    }

    /// The job that holds the unique key, if it stands in the way of whoever wants it.
    fn blocking(&self, unique: &Unique) -> Option<Slot> {
        let slot = self.uniques.get(&unique.key).and_then(|&holder| self.find(holder))?;
        let holder = self.job(slot);
        let held_until = holder.head.unique.as_ref().and_then(|unique| unique.until);
        let is_over = held_until.is_some_and(|until| until <= self.now);
        let blocks = unique.facets & holder.facet().bit() != 0;
        (blocks && !is_over).then_some(slot)
    }

    /// Lets a job that has ended hold its unique key again, unless another blocks it by now. Whatever the policy says of
    /// newcomers, that one was there first: it is neither met nor replaced.
    pub(super) fn hold_again(&mut self, slot: Slot) -> Result<(), Refusal> {
        let (id, head) = (self.job(slot).id, self.job(slot).head.clone());
        let Some(unique) = &head.unique else { return Ok(()) };
        match self.blocking(unique) {
            Some(holder) if holder != slot => Err(self.duplicate(holder)),
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

    /// Whether a job takes room in its queue that nobody leaves for it.
    fn needs_room(&self, new: &NewJob, plan: &SubmitPlan) -> bool {
        match plan {
            SubmitPlan::Insert => true,
            SubmitPlan::Replace(slot) => {
                let holder = self.job(*slot);
                holder.state != State::Queued || holder.head.queue_id() != new.head.queue_id()
            }
            SubmitPlan::Use(_) => false,
        }
    }

    fn duplicate(&self, slot: Slot) -> Refusal {
        let job = self.job(slot);
        Refusal::Duplicate { existing: job.id, state: job.state }
    }

    fn replace(&mut self, slot: Slot) -> Result<(), Refusal> {
        let reason = "replaced by a newer job with the same unique key".into();
        self.change(slot).cancel = Some(Cancellation { by: "system".into(), reason });
        let at = self.step(slot, Cause::Replace, Outlook::Open)?;
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

    /// Makes a waiting job claimable.
    pub(super) fn enqueue(&mut self, slot: Slot, cause: Cause) -> Result<(), Refusal> {
        let at = self.step(slot, cause, Outlook::Open)?;
        self.change(slot).queued_at = Some(at);
        Ok(())
    }
}

/// The newcomer, with the schedule of the job that it replaces if its policy says so.
fn keep_schedule(new: &NewJob, execution_at: Option<Time>) -> NewJob {
    let keeps = |unique: &Unique| unique.on_conflict == Conflict::ReplaceKeepingSchedule;
    let mut new = new.clone();
    if new.head.unique.as_ref().is_some_and(keeps) {
        Arc::make_mut(&mut new.head).execution_at = execution_at;
    }
    new
}
