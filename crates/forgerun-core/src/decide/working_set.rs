//! The working set of a batch: its rows, and [`WorkingSet::step`], the only way a job changes
//! state.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::time::Duration;

use super::client_limits;
use super::outbox::Outbox;
use super::records::Records;
use super::workflows::Workflows;
use crate::client::{ApiKey, Client};
use crate::client_limits::ClientUsage;
use crate::command::{Answer, HeldJob, Owned, Refusal};
use crate::decide::Batch;
use crate::failure::{FailureGroup, FailureId};
use crate::fair::PLACES_WITHOUT_KEY;
use crate::history::{Event, EventKind, JournalEntry, RetryStatus};
use crate::id::{ClientId, JobId, KeyId};
use crate::invariants;
use crate::job::{IdempotencyKey, Input, Job, Lane, Name, Parked, QueueOrder, Shelf};
use crate::limits;
use crate::random::SplitMix64;
use crate::record::{RecordKey, Stored};
use crate::rows::{
    Activity, Changes, CountSet, Counts, Forgotten, KeyRow, LimitRow, Minute, MoreRows, Outcome, Render, Rows,
};
use crate::state::{Cause, Facet, State, next};
use crate::time::Time;

/// Position of a job in the working set.
pub(super) type Slot = usize;

pub(super) struct WorkingSet<'a> {
    pub(super) now: Time,
    render: &'a dyn Render,
    random: SplitMix64,
    jobs: Vec<WorkingJob>,
    index: BTreeMap<JobId, Slot>,
    shelves: BTreeMap<Shelf, LoadedShelf>,
    /// Jobs without a fair key that stand behind the loaded ones of a shelf, by priority.
    behind_turns: BTreeMap<(Shelf, i16), BTreeSet<(QueueOrder, JobId)>>,
    pub(super) due: Vec<JobId>,
    pub(super) keys: BTreeMap<IdempotencyKey, KeyRow>,
    pub(super) uniques: BTreeMap<[u8; 32], JobId>,
    pub(super) limits: BTreeMap<Name, LimitRow>,
    pub(super) records: Records,
    pub(super) records_due: Vec<RecordKey>,
    pub(super) clients: BTreeMap<ClientId, Client>,
    pub(super) api_keys: BTreeMap<KeyId, ApiKey>,
    counts: BTreeMap<Name, Counts>,
    /// Counts that concurrent batches may change.
    pub(super) uncertain: CountSet,
    pub(super) outbox: Outbox,
    pub(super) active: u64,
    /// The bound on active jobs stopped a claim: the jobs it left must not wake it again at once.
    pub(super) capped: bool,
    /// Shelves from which a claim of this batch may take nothing more. The jobs left there must not
    /// wake it either.
    pub(super) closed: BTreeSet<Shelf>,
    /// Failures to add, by group.
    pub(super) failures: BTreeMap<FailureId, FailureGroup>,
    /// The first of these failures: its job, and the number of its event.
    pub(super) first_failure: Option<(JobId, u32)>,
    /// Workflows of which a step ended.
    pub(super) workflows: Workflows,
    /// Rows loaded on demand by an earlier decision of this batch.
    asked: MoreRows,
    pub(super) changes: Changes,
}

struct WorkingJob {
    job: Job,
    /// Set for a job inserted by this batch.
    input: Option<Arc<Input>>,
    /// The key of its queue, cached.
    queue: Name,
    /// Its shelf in the working set.
    shelf: Option<Shelf>,
    /// Its order there.
    order: QueueOrder,
    /// Its facet in the counts.
    counted: Option<Facet>,
    changed: bool,
    forgotten: bool,
}

#[derive(Default)]
struct LoadedShelf {
    jobs: BTreeSet<(QueueOrder, JobId)>,
    /// The store may have more behind the loaded ones.
    more: bool,
    /// The last loaded job, if the store may have more behind it; `None` too if all loaded ones are
    /// unreadable.
    cut: Option<(QueueOrder, JobId)>,
}

impl<'a> WorkingSet<'a> {
    pub(super) fn new(batch: &Batch, mut rows: Rows, render: &'a dyn Render) -> WorkingSet<'a> {
        let outbox = Outbox::new(&mut rows);
        let mut unreadable = core::mem::take(&mut rows.unreadable);
        let asked = super::shelves_asked(batch);
        let mut index = BTreeMap::new();
        let mut jobs = Vec::with_capacity(rows.jobs.len() + batch.commands.len());
        for job in rows.jobs {
            index.insert(job.id, jobs.len());
            let queue = job.head.queue_id().key();
            let (shelf, order, counted) = (job.shelf_in(&queue), job.order(), Some(job.facet()));
            jobs.push(WorkingJob {
                job,
                input: None,
                queue,
                shelf,
                order,
                counted,
                changed: false,
                forgotten: false,
            });
        }
        let mut shelves: BTreeMap<Shelf, LoadedShelf> = BTreeMap::new();
        for (shelf, ids) in rows.shelves {
            let limit = asked.get(&shelf).or_else(|| rows.turns.behind.get(&shelf)).copied();
            let limit = limit.unwrap_or(limits::UNPARK_MAX);
            let mut key = |id: &JobId| {
                let entry: &WorkingJob = &jobs[*index.get(id)?];
                if entry.shelf.as_ref() == Some(&shelf) {
                    return Some((entry.job.order(), *id));
                }
                unreadable.push(super::set_aside::misplaced(&entry.job, &shelf));
                None
            };
            let jobs: BTreeSet<_> = ids.iter().filter_map(&mut key).collect();
            let more = ids.len() >= limit;
            let cut = if more { jobs.last().copied() } else { None };
            shelves.insert(shelf, LoadedShelf { jobs, more, cut });
        }
        let key_of = |id: &JobId| Some((jobs[*index.get(id)?].order, *id));
        let further = rows.behind_turns.iter();
        let behind_turns = further.map(|(of, ids)| (of.clone(), ids.iter().filter_map(key_of).collect()));
        let behind_turns = behind_turns.collect();
        let mut limits = rows.limits;
        for name in rows.turns.rows {
            limits.entry(name).or_default();
        }
        let mut set = WorkingSet {
            now: batch.now,
            render,
            random: SplitMix64::new(batch.seed),
            jobs,
            index,
            shelves,
            behind_turns,
            due: rows.due,
            keys: rows.keys,
            uniques: rows.uniques,
            limits,
            records: Records::new(rows.records),
            records_due: rows.records_due,
            clients: rows.clients,
            api_keys: rows.api_keys.into_iter().map(|key| (key.id, key)).collect(),
            counts: rows.counts,
            uncertain: rows.uncertain,
            outbox,
            active: rows.active,
            capped: false,
            closed: BTreeSet::new(),
            failures: BTreeMap::new(),
            first_failure: None,
            workflows: Workflows::default(),
            asked: core::mem::take(&mut rows.more),
            changes: Changes::default(),
        };
        set.set_aside(unreadable);
        set
    }

    pub(super) fn random(&mut self) -> u64 {
        self.random.draw()
    }

    pub(super) fn find(&self, id: JobId) -> Option<Slot> {
        self.index.get(&id).copied().filter(|&slot| !self.jobs[slot].forgotten)
    }

    /// Position of a job that the batch has loaded, even if it was deleted since.
    pub(super) fn met(&self, id: JobId) -> Option<Slot> {
        self.index.get(&id).copied()
    }

    /// A job that no command names. If it is not loaded yet, the batch is decided again with it.
    pub(super) fn seek(&mut self, id: JobId) -> Option<Slot> {
        let found = self.find(id);
        if self.met(id).is_none() && !self.asked.jobs.contains(&id) {
            self.changes.more.jobs.insert(id);
        }
        found
    }

    /// The same for a record.
    pub(super) fn seek_record<T: Stored>(&mut self, key: &RecordKey) -> Option<T> {
        if !self.records.contains(key) && !self.asked.records.contains(key) {
            self.changes.more.records.insert(key.clone());
        }
        self.record(key.key.clone())
    }

    /// The same for counts.
    pub(super) fn seek_counts(&mut self, key: &Name) -> Option<Counts> {
        let counts = self.counts.get(key).copied();
        if counts.is_none() && !self.asked.counts.contains(key) {
            self.changes.more.counts.insert(key.clone());
        }
        counts
    }

    pub(super) fn add_counts(&mut self, key: Name, more: &Counts) {
        self.counts.get_mut(&key).into_iter().for_each(|counts| counts.merge(more));
        self.changes.counts.entry(key).or_default().merge(more);
    }

    pub(super) fn job(&self, slot: Slot) -> &Job {
        &self.jobs[slot].job
    }

    pub(super) fn change(&mut self, slot: Slot) -> &mut Job {
        self.jobs[slot].changed = true;
        &mut self.jobs[slot].job
    }

    /// The job, if the caller owns it.
    pub(super) fn owned(&self, owned: &Owned) -> Result<Slot, Refusal> {
        let slot = self.find(owned.job).ok_or(Refusal::NotFound)?;
        match owned.client {
            Some(client) if client != self.job(slot).head.client => Err(Refusal::Foreign),
            _ => Ok(slot),
        }
    }

    /// The job, if the worker holds it.
    ///
    /// An expired lease that was not taken back yet still counts: no other worker has the job.
    pub(super) fn held(&self, held: &HeldJob) -> Result<Slot, Refusal> {
        let slot = self.owned(&Owned { job: held.job, client: held.client })?;
        self.job(slot).check_holder(&held.proof)?;
        Ok(slot)
    }

    /// Inserts a new job, in CREATED.
    pub(super) fn add(&mut self, job: Job, input: Arc<Input>) -> Slot {
        let slot = self.jobs.len();
        self.index.insert(job.id, slot);
        let queue = job.head.queue_id().key();
        let order = job.order();
        let entry = WorkingJob {
            job,
            input: Some(input),
            queue,
            shelf: None,
            order,
            counted: None,
            changed: true,
            forgotten: false,
        };
        self.jobs.push(entry);
        let kind = EventKind::Moved {
            from: None,
            to: State::Created,
            cause: Cause::Submit,
            retry_status: RetryStatus::Open,
        };
        let bytes = self.jobs[slot].input.as_ref().map_or(0, |input| input.bytes());
        self.charge(slot, bytes.cast_signed());
        self.append_event(slot, kind);
        self.recount(slot);
        self.note_activity(slot, Activity { submitted: 1, ..Activity::default() });
        slot
    }

    /// Moves a job, with its event, counts and limit. Returns the moment of the event.
    pub(super) fn step(
        &mut self,
        slot: Slot,
        cause: Cause,
        retry_status: RetryStatus,
    ) -> Result<Time, Refusal> {
        let from = self.job(slot).state;
        let to = next(from, cause).ok_or(Refusal::WrongState(from))?;
        self.change(slot).state = to;
        let at = self.append_event(slot, EventKind::Moved { from: Some(from), to, cause, retry_status });
        match (from.is_active(), to.is_active()) {
            (false, true) => self.take_limit_slot(slot),
            (true, false) => self.release_limit_slot(slot),
            (true, true) | (false, false) => {}
        }
        self.reshelve(slot);
        Ok(at)
    }

    /// Writes an event to the journal, to the job's history if it moved, and to the outbox.
    pub(super) fn append_event(&mut self, slot: Slot, kind: EventKind) -> Time {
        let now = self.now;
        self.jobs[slot].changed = true;
        let job = &mut self.jobs[slot].job;
        let (n, at) = job.history.next(now);
        let event = Event { n, kind, at, attempt: job.attempt, execution: job.execution_n() };
        match kind {
            EventKind::Moved { .. } => job.history.push(&event),
            EventKind::Progress(_) | EventKind::Emitted => job.history.count(&event),
        }
        job.updated_at = at;
        let entry = JournalEntry::of_job(job.id, job.head.client, event);
        let concerns_somebody = self.outbox.concerns(&job.head);
        self.changes.journal.push(entry);
        if concerns_somebody {
            self.announce(slot, event);
        }
        at
    }

    /// Closes the execution of a job that has just reached a final state.
    pub(super) fn end(&mut self, slot: Slot, at: Time) {
        let job = self.change(slot);
        job.finished_at = Some(at);
        job.lease = None;
        job.paused = false;
        job.available_at = None;
        job.parked = Parked::No;
        job.forget_at = Some(at + job.record_kept());
        self.note_failure(slot, at);
        self.reshelve(slot);
        self.note_end(slot, at);
        let job = self.job(slot);
        let items = self.changes.items.get(&job.execution).map_or(&[][..], |ends| ends);
        let object = self.render.outcome(job, items);
        let outcome = Outcome { execution: job.execution, job: job.id, object };
        self.changes.outcomes.push(outcome);
        self.move_workflow(slot);
    }

    /// Deletes an ended job; a tombstone per execution remains. `kept` as in [`Forgotten`].
    pub(super) fn erase(&mut self, slot: Slot, kept: Option<Duration>) {
        let (job, now) = (&self.jobs[slot].job, self.now);
        let mut executions = job.executions_past.clone();
        executions.push(job.execution);
        let (id, client) = (job.id, job.head.client);
        if let Some(key) = &job.head.idempotency {
            if self.keys.remove(key).is_some() {
                self.changes.keys.retain(|(used, _)| used != key);
            }
            self.changes.keys_removed.push(key.clone());
        }
        if self.jobs[slot].changed {
            // Rows that this batch was about to write would outlive the job.
            self.changes.outcomes.retain(|outcome| outcome.job != id);
            self.changes.results.retain(|result| !executions.contains(&result.execution));
            self.changes.items.retain(|execution, _| !executions.contains(execution));
            self.changes.executions.retain(|(_, job)| *job != id);
        }
        self.changes.uniques_removed.extend(job.head.unique.as_ref().map(|unique| (unique.key, id)));
        self.changes.forgotten.push(Forgotten { job: id, executions, client, at: now, kept });
        self.outbox.forget(id);
        if self.is_for_each(slot) {
            self.forget_for_each(id);
        } else if self.job(slot).head.workflow_head.is_some() {
            self.forget_workflow(id);
        }
        self.forget_checkpoint(id);
        let bytes = self.jobs[slot].job.stored_bytes.cast_signed();
        self.add_usage(client, ClientUsage { bytes: -bytes, ..ClientUsage::default() });
        self.jobs[slot].forgotten = true;
        self.recount(slot);
    }

    /// Moves the job to its shelf.
    pub(super) fn reshelve(&mut self, slot: Slot) {
        let was = self.jobs[slot].counted;
        self.recount(slot);
        self.line_up(slot, was);
        let entry = &mut self.jobs[slot];
        let (shelf, order) = (entry.job.shelf_in(&entry.queue), entry.job.order());
        if shelf == entry.shelf {
            return;
        }
        let key_before = (entry.order, entry.job.id);
        let key = (order, entry.job.id);
        if let Some(stock) = entry.shelf.as_ref().and_then(|old| self.shelves.get_mut(old)) {
            stock.jobs.remove(&key_before);
        }
        for jobs in self.behind_turns.values_mut() {
            jobs.remove(&key_before);
        }
        if let Some(stock) = shelf.as_ref().and_then(|new| self.shelves.get_mut(new)) {
            // Behind the cut the store may have earlier jobs. And a limit is loaded with existing
            // jobs only, so a batch does not know the limit of a job it inserts.
            // Behind the line it is not handed out.
            let may_go_out = shelf.as_ref().is_some_and(|shelf| shelf.lane != Lane::Behind);
            let limit_unknown = may_go_out && entry.input.is_some() && !entry.job.head.limits.is_empty();
            let in_view = !stock.more || stock.cut.is_some_and(|cut| key < cut);
            if in_view && !limit_unknown {
                stock.jobs.insert(key);
            }
        }
        entry.shelf = shelf;
        entry.order = order;
    }

    /// Notes that the store has no job on this shelf.
    pub(super) fn know_whole(&mut self, shelf: Shelf) {
        self.shelves.entry(shelf).or_default();
    }

    /// Whether no loaded job of a shelf is left and the store may have more.
    pub(super) fn is_used_up(&self, shelf: &Shelf) -> bool {
        self.shelves.get(shelf).is_none_or(|stock| stock.more && stock.jobs.is_empty())
    }

    /// The first job of a shelf and priority that does not take turns.
    pub(super) fn first_without_key(&self, shelf: &Shelf, priority: i16) -> Option<Slot> {
        let from = ((Reverse(priority), PLACES_WITHOUT_KEY), JobId::from_u128(0));
        let loaded = self.shelves.get(shelf)?.jobs.range(from..).next();
        let further = self.behind_turns.get(&(shelf.clone(), priority)).and_then(BTreeSet::first);
        let &((Reverse(of), _), id) = loaded.into_iter().chain(further).min()?;
        if of == priority { self.find(id) } else { None }
    }

    /// The first job on a shelf.
    pub(super) fn first_on(&self, shelf: &Shelf) -> Option<Slot> {
        let &(_, id) = self.shelves.get(shelf)?.jobs.first()?;
        self.find(id)
    }

    /// Whether a shelf has more jobs than the working set.
    pub(super) fn has_more(&self, shelf: &Shelf) -> bool {
        self.shelves.get(shelf).is_some_and(|stock| stock.more || !stock.jobs.is_empty())
    }

    pub(super) fn waiting(&self, queue: &Name) -> u64 {
        self.counts.get(queue).map_or(0, |counts| counts.of(State::Queued)).max(0) as u64
    }

    /// Active jobs of a queue, by its key.
    pub(super) fn active_in(&self, queue: &Name) -> u64 {
        self.counts.get(queue).map_or(0, Counts::active).max(0) as u64
    }

    /// Updates the counts for the job.
    fn recount(&mut self, slot: Slot) {
        let entry = &mut self.jobs[slot];
        let facet = (!entry.forgotten).then(|| entry.job.facet());
        let was = core::mem::replace(&mut entry.counted, facet);
        if was == facet {
            return;
        }
        let queue = entry.queue.clone();
        let mut counts = Counts::default();
        was.into_iter().for_each(|facet| counts.add(facet, -1));
        facet.into_iter().for_each(|facet| counts.add(facet, 1));
        let usage = |facet: Option<Facet>| {
            facet.map_or(ClientUsage::default(), |facet| client_limits::usage_of(&entry.job, facet))
        };
        let (before, after, client) = (usage(was), usage(facet), entry.job.head.client);
        self.add_counts(queue, &counts);
        let (waiting, active) = (after.waiting - before.waiting, after.active - before.active);
        self.add_usage(client, ClientUsage { waiting, active, bytes: 0 });
    }

    /// Adds to the figures of the job's queue.
    pub(super) fn note_activity(&mut self, slot: Slot, activity: Activity) {
        let queue = self.jobs[slot].queue.clone();
        self.changes.activity.entry((queue, Minute::of(self.now))).or_default().merge(activity);
    }

    fn note_end(&mut self, slot: Slot, at: Time) {
        let job = self.job(slot);
        let ran_ms = job.started_at.map_or(0, |started_at| millis(at.since(started_at)));
        let (succeeded, failed) = match job.state {
            State::Succeeded => (1, 0),
            State::Failed => (0, 1),
            State::Canceled | State::Created | State::Queued | State::Assigned | State::Running => return,
        };
        self.note_activity(slot, Activity { succeeded, failed, ran_ms, ..Activity::default() });
    }

    fn take_limit_slot(&mut self, slot: Slot) {
        self.active += u64::from(self.jobs[slot].job.head.is_simulated());
        for limit in &self.jobs[slot].job.head.limits {
            let row = self.limits.entry(limit.key.clone()).or_default();
            row.active += 1;
            self.changes.limits.insert(limit.key.clone(), *row);
        }
    }

    /// A job left its limits: of each, the job that waits longest becomes claimable.
    fn release_limit_slot(&mut self, slot: Slot) {
        let simulated = u64::from(self.jobs[slot].job.head.is_simulated());
        self.active = self.active.saturating_sub(simulated);
        let head = self.jobs[slot].job.head.clone();
        for limit in &head.limits {
            let row = self.limits.entry(limit.key.clone()).or_default();
            row.active = row.active.saturating_sub(1);
            self.changes.limits.insert(limit.key.clone(), *row);
            self.unpark_first(limit.key.clone());
        }
    }

    /// The job that waits longest for a place in a limit becomes claimable.
    pub(super) fn unpark_first(&mut self, key: Name) {
        if let Some(waiting) = self.first_on(&Shelf { lane: Lane::Parked, name: key }) {
            let job = self.change(waiting);
            job.parked = Parked::No;
            job.available_at = None;
            self.reshelve(waiting);
        }
    }

    /// All changes, once every command has its answer.
    pub(super) fn finish(mut self, answers: Vec<Answer>) -> Changes {
        self.changes.answers = answers;
        self.put_failures();
        self.put_workflows();
        (0..self.jobs.len()).for_each(|slot| self.recount(slot));
        self.outbox.finish(&mut self.changes);
        self.changes.counts.retain(|_, counts| !counts.is_zero());
        self.changes.records = core::mem::take(&mut self.records).changes().collect();
        let records = self.changes.records.values().filter_map(|change| change.new.as_ref()?.due_at).min();
        self.changes.next_due = records;
        let claimable = |shelf: &Shelf| matches!(shelf.lane, Lane::External | Lane::BuiltIn);
        for (shelf, stock) in &self.shelves {
            // Loaded but not claimed: on a shared store another node may have skipped them because
            // of this lock, so they are announced again.
            if claimable(shelf) && !stock.jobs.is_empty() && !self.closed.contains(shelf) && !self.capped {
                self.changes.woken.insert(shelf.clone());
            }
        }
        for entry in self.jobs {
            if entry.forgotten {
                continue;
            }
            // The same for a job that was locked only to be read, such as by a repeated submission
            // or a refused cancel.
            let by_name = |shelf: &Shelf| !self.shelves.contains_key(shelf);
            let passed_over = |shelf: &Shelf| claimable(shelf) && (entry.changed || by_name(shelf));
            self.changes.woken.extend(entry.shelf.filter(passed_over));
            if !entry.changed {
                continue;
            }
            debug_assert_eq!(invariants::job(&entry.job), Ok(()), "{:?}", entry.job);
            let due = self.changes.next_due.into_iter().chain(entry.job.due_at()).min();
            self.changes.next_due = due;
            match entry.input {
                Some(input) => self.changes.inserted.push((entry.job, input)),
                None => self.changes.updated.push(entry.job),
            }
        }
        self.changes
    }
}

/// In whole milliseconds.
pub(super) fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}
