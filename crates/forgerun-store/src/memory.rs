//! The reference store: ordered maps behind one lock. What the other two must do, in the fewest words; and the
//! disk of the simulator, since it outlives the engines that use it.

mod aside;
mod blobs;
mod deliveries;
mod logs;
mod operator;
mod rewrite;
mod turns;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::command::Content;
use forgerun_core::history::JournalEntry;
use forgerun_core::id::{BlobId, ClientId, ExecutionId, JobId, KeyId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{IdempotencyKey, Input, Job, Lane, Name, QueueOrder, Shelf};
use forgerun_core::log::LogBatch;
use forgerun_core::queue::QueueId;
use forgerun_core::record::{Record, RecordKey};
use forgerun_core::rows::{Activity, Counts, KeyRow, LimitRow, Minute, MoreRows, NewResult, Outcome};
use forgerun_core::set_aside::RowId;
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::workflow::WorkflowHead;
use forgerun_core::{Changes, Rows, Wants, limits, related};
use tokio::sync::broadcast;

use aside::SetAsideRows;
use deliveries::DeliveryTables;
use logs::LogTable;

use crate::{
    Blobs, Boxed, Decide, Error, Fault, Filter, JobsAhead, JournalRow, ListPage, Page, Query, QueueCounts,
    Rewrite, Store, StoredResult, Sweep, Swept, Tombstone, Wakeup,
};
use blobs::BlobTable as BlobShelves;

/// Jobs in memory. Several engines may share one, as several nodes share a database.
pub struct Memory {
    tables: Mutex<Tables>,
    blobs: Arc<BlobShelves>,
    wakeups: broadcast::Sender<Wakeup>,
}

#[derive(Default)]
struct Tables {
    jobs: BTreeMap<JobId, Job>,
    /// Jobs on a shelf, in shelf order: highest priority first, then oldest.
    shelves: BTreeMap<Shelf, BTreeSet<(QueueOrder, JobId)>>,
    due: BTreeSet<(Time, JobId)>,
    /// Own jobs of workflows.
    workflows: BTreeSet<JobId>,
    inputs: BTreeMap<JobId, Input>,
    executions: BTreeMap<ExecutionId, JobId>,
    outcomes: BTreeMap<ExecutionId, Outcome>,
    results: BTreeMap<ExecutionId, StoredResult>,
    items: BTreeMap<ExecutionId, Vec<ItemEnd>>,
    tombstones: BTreeMap<ExecutionId, Tombstone>,
    keys: BTreeMap<IdempotencyKey, KeyRow>,
    uniques: BTreeMap<[u8; 32], JobId>,
    limits: BTreeMap<Name, LimitRow>,
    records: BTreeMap<RecordKey, Record>,
    activity: BTreeMap<(Name, Minute), Activity>,
    clients: BTreeMap<ClientId, Client>,
    api_keys: BTreeMap<KeyId, ApiKey>,
    counts: BTreeMap<Name, Counts>,
    journal: BTreeMap<i64, (Time, Vec<JournalEntry>)>,
    /// The place of the newest journal row, deleted or not: a number given twice would hide a row from its readers.
    journal_end: i64,
    delivery_tables: DeliveryTables,
    logs: LogTable,
    aside: SetAsideRows,
}

impl Default for Memory {
    fn default() -> Self {
        Memory::new()
    }
}

impl Memory {
    /// An empty store.
    pub fn new() -> Memory {
        Memory { tables: Mutex::default(), blobs: Arc::default(), wakeups: broadcast::channel(1024).0 }
    }

    /// Makes a row unreadable, as damage to a disk would. For tests.
    pub fn damage(&self, row: RowId) {
        self.tables().aside.damage(row);
    }

    /// Makes a row readable again that [`Self::damage`] made unreadable.
    pub fn mend(&self, row: RowId) {
        self.tables().aside.mend(row);
    }

    fn tables(&self) -> MutexGuard<'_, Tables> {
        // A panic in `decide` happens before anything is written, so the tables are whole even then.
        self.tables.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    fn transact_now(&self, wants: &Wants, decide: &mut Decide) -> Result<Changes, Error> {
        let mut tables = self.tables();
        let rows = tables.load(wants)?;
        let mut changes = decide(rows);
        let mut more = MoreRows::default();
        while !changes.more.is_empty() {
            more.extend(changes.more);
            let rows = tables.load(&wants.with(&more))?;
            changes = decide(Rows { more: more.clone(), ..rows });
        }
        tables.write(&changes, &self.blobs)?;
        drop(tables);
        if changes.wake_all {
            let _ = self.wakeups.send(Wakeup::Everything);
        }
        for shelf in &changes.woken {
            // Nobody listening is fine.
            let _ = self.wakeups.send(Wakeup::Shelf(shelf.clone()));
        }
        if !changes.journal.is_empty() {
            let _ = self.wakeups.send(Wakeup::Journal);
        }
        if !changes.deliveries.is_empty() {
            let _ = self.wakeups.send(Wakeup::Deliveries);
        }
        Ok(changes)
    }
}

impl Store for Memory {
    fn transact(&self, wants: Wants, mut decide: Decide) -> Boxed<'_, Changes> {
        Box::pin(async move { self.transact_now(&wants, &mut decide) })
    }

    fn read(&self, query: Query) -> Boxed<'_, Page> {
        Box::pin(async move { self.tables().read(query) })
    }

    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept> {
        Box::pin(async move {
            let swept = self.tables().sweep(&sweep, &self.blobs);
            Ok(Swept { blobs: self.blobs.sweep(sweep.loose_before, sweep.limit), ..swept })
        })
    }

    fn append_logs(&self, batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>> {
        Box::pin(async move {
            let mut tables = self.tables();
            let append = |batch: &LogBatch| {
                tables.jobs.contains_key(&batch.job).then(|| tables.logs.append(batch, bytes_max))
            };
            Ok(batches.iter().map(append).collect())
        })
    }

    fn rewrite(&self, rows: Vec<Rewrite>) -> Boxed<'_, ()> {
        Box::pin(async move {
            let mut tables = self.tables();
            rows.into_iter().for_each(|row| tables.rewrite(row, &self.blobs));
            Ok(())
        })
    }

    fn blobs(&self) -> &dyn Blobs {
        &self.blobs
    }

    fn wakeups(&self) -> broadcast::Receiver<Wakeup> {
        self.wakeups.subscribe()
    }

    fn lanes(&self) -> usize {
        1
    }
}

impl Tables {
    fn load(&self, wants: &Wants) -> Result<Rows, Error> {
        let mut rows = Rows::default();
        let mut ids: BTreeSet<JobId> = wants.jobs.clone();
        for key in &wants.keys {
            if let Some(row) = self.keys.get(key) {
                ids.extend(&row.jobs);
                rows.keys.insert(key.clone(), row.clone());
            }
        }
        let again = related::uniques(wants, &self.all_readable(&wants.uniques_of));
        for key in wants.uniques.iter().chain(&again) {
            if let Some(&holder) = self.uniques.get(key) {
                ids.insert(holder);
                rows.uniques.insert(*key, holder);
            }
        }
        ids.iter().try_for_each(|id| self.aside.check(RowId::Job(*id)))?;
        ids.extend(&wants.jobs_sought);
        for (shelf, &limit) in &wants.shelves {
            let found = self.head_of(shelf, limit);
            ids.extend(&found);
            rows.shelves.insert(shelf.clone(), found);
        }
        if let Some(due) = wants.due {
            let found = self.due.iter().take_while(|(at, _)| *at <= due.now).take(due.limit);
            rows.due = found.map(|&(_, id)| id).collect();
            ids.extend(&rows.due);
        }
        self.load_parked(&mut ids, &mut rows);
        self.load_turns(wants, &mut ids, &mut rows);
        ids.retain(|id| self.aside.readable(RowId::Job(*id), &mut rows));
        rows.jobs = ids.iter().filter_map(|id| self.jobs.get(id)).cloned().collect();
        let limit = |key: Name| self.limits.get(&key).map(|row| (key, *row));
        let names = related::limits(&rows.jobs).keys.into_iter().chain(rows.turns.rows.iter().cloned());
        rows.limits = names.filter_map(limit).collect();
        let record = |key: &RecordKey| self.records.get(key).map(|record| (key.clone(), record.clone()));
        rows.records = wants.records.iter().filter_map(record).collect();
        if let Some(due) = wants.due {
            let mut found: Vec<&Record> = self.records_due(due.now).collect();
            found.sort_by_key(|record| record.due_at);
            found.truncate(limits::DUE_RECORDS_MAX);
            rows.records_due = found.iter().map(|record| record.key.clone()).collect();
            rows.records.extend(found.iter().map(|record| (record.key.clone(), Record::clone(record))));
        }
        for id in &wants.clients {
            rows.clients.extend(self.clients.get(id).map(|client| (*id, *client)));
            rows.api_keys.extend(self.api_keys.values().filter(|key| key.client == *id).cloned());
        }
        let count = |name: &Name| (name.clone(), self.counts.get(name).copied().unwrap_or_default());
        rows.counts = wants.counts.iter().map(count).collect();
        let shared = self.counts.iter().filter(|(queue, _)| QueueId::is_shared(queue));
        rows.active = shared.map(|(_, counts)| counts.active()).sum::<i64>().max(0) as u64;
        self.delivery_tables.load(wants, &self.aside, &mut rows)?;
        Ok(rows)
    }

    fn head_of(&self, shelf: &Shelf, limit: usize) -> Vec<JobId> {
        self.shelves.get(shelf).into_iter().flatten().take(limit).map(|&(_, id)| id).collect()
    }

    fn write(&mut self, changes: &Changes, blobs: &BlobShelves) -> Result<(), Error> {
        if let Some((job, _)) = changes.inserted.iter().find(|(job, _)| self.jobs.contains_key(&job.id)) {
            return Err(Error::new(Fault::Rejected, format!("job {} exists already", job.id)));
        }
        if let Some(client) = changes.clients.iter().find(|client| self.clients.contains_key(&client.id)) {
            return Err(Error::new(Fault::Rejected, format!("client {} exists already", client.id)));
        }
        self.delivery_tables.check(changes)?;
        blobs.name(changes.results.iter().filter_map(|result| stored(Some(&result.output.content))))?;
        changes.blobs_held().for_each(|(blob, until)| blobs.hold(blob, until));
        for (job, input) in &changes.inserted {
            self.put(job);
            if !input.is_empty() {
                self.inputs.insert(job.id, Input::clone(input));
            }
        }
        changes.updated.iter().for_each(|job| self.put(job));
        for forgotten in &changes.forgotten {
            self.remove(forgotten.job);
            self.inputs.remove(&forgotten.job);
            self.logs.delete(forgotten.job);
            for execution in &forgotten.executions {
                self.executions.remove(execution);
                self.outcomes.remove(execution);
                let result = self.results.remove(execution);
                blobs.release(result.as_ref().and_then(|kept| stored(kept.content.as_ref())), forgotten.at);
                self.items.remove(execution);
                let tombstone =
                    Tombstone { client: forgotten.client, at: forgotten.at, kept: forgotten.kept };
                self.tombstones.insert(*execution, tombstone);
            }
        }
        self.outcomes.extend(changes.outcomes.iter().map(|outcome| (outcome.execution, outcome.clone())));
        self.results.extend(changes.results.iter().map(|result| (result.execution, kept(result))));
        self.items.extend(changes.items.iter().map(|(id, ends)| (*id, ends.to_vec())));
        self.executions.extend(changes.executions.iter().copied());
        changes.keys_removed.iter().for_each(|key| drop(self.keys.remove(key)));
        self.keys.extend(changes.keys.iter().cloned());
        self.uniques.extend(changes.uniques.iter().map(|(key, job)| (*key, *job)));
        for (key, job) in &changes.uniques_removed {
            if self.uniques.get(key) == Some(job) {
                self.uniques.remove(key);
            }
        }
        self.limits.extend(changes.limits.iter().map(|(key, row)| (key.clone(), *row)));
        for (key, change) in &changes.records {
            match &change.new {
                Some(record) => drop(self.records.insert(key.clone(), record.clone())),
                None => drop(self.records.remove(key)),
            }
        }
        self.clients.extend(changes.clients.iter().map(|client| (client.id, *client)));
        for id in &changes.clients_keyed {
            self.clients.entry(*id).and_modify(|client| client.keyed = true);
        }
        self.api_keys.extend(changes.api_keys.iter().map(|(id, key)| (*id, key.clone())));
        for (queue, counts) in &changes.counts {
            self.counts.entry(queue.clone()).or_default().merge(counts);
        }
        self.counts.retain(|_, counts| !counts.is_zero());
        for (key, activity) in &changes.activity {
            self.activity.entry(key.clone()).or_default().merge(*activity);
        }
        if let Some(at) = changes.journal.iter().map(JournalEntry::at).max() {
            self.journal_end += 1;
            self.journal.insert(self.journal_end, (at, changes.journal.clone()));
        }
        self.delivery_tables.write(changes);
        for aside in &changes.set_aside {
            match aside.row {
                RowId::Job(id) => self.take_away(id),
                RowId::Delivery(id) => self.delivery_tables.take_away(id),
            }
        }
        self.aside.write(changes);
        Ok(())
    }

    fn put(&mut self, job: &Job) {
        self.remove(job.id);
        if let Some(shelf) = job.shelf() {
            self.shelves.entry(shelf).or_default().insert((job.order(), job.id));
        }
        if let Some(due) = job.due_at() {
            self.due.insert((due, job.id));
        }
        if job.head.job_type == WorkflowHead::JOB_TYPE {
            self.workflows.insert(job.id);
        }
        self.jobs.insert(job.id, job.clone());
    }

    fn remove(&mut self, id: JobId) {
        self.take_away(id);
        self.workflows.remove(&id);
        self.jobs.remove(&id);
    }

    /// Takes a job off its shelf and out of what is due.
    fn take_away(&mut self, id: JobId) {
        let Some(job) = self.jobs.get(&id) else { return };
        if let Some(shelf) = job.shelf().and_then(|shelf| self.shelves.get_mut(&shelf)) {
            shelf.remove(&(job.order(), id));
        }
        if let Some(due) = job.due_at() {
            self.due.remove(&(due, id));
        }
    }

    fn read(&self, query: Query) -> Result<Page, Error> {
        Ok(match query {
            Query::Job(id) => {
                self.aside.check(RowId::Job(id))?;
                Page::Job(self.jobs.get(&id).cloned().map(Arc::new))
            }
            Query::Inputs(ids) => Page::Inputs(
                ids.into_iter().filter_map(|id| Some((id, self.inputs.get(&id)?.clone()))).collect(),
            ),
            Query::JobOf(execution) => Page::JobId(self.executions.get(&execution).copied()),
            Query::Outcome(execution) => Page::Outcome(self.outcomes.get(&execution).cloned()),
            Query::Result(execution) => Page::Result(self.results.get(&execution).cloned().map(Box::new)),
            Query::Items(execution) => Page::Items(self.items.get(&execution).cloned()),
            Query::Tombstone(execution) => Page::Tombstone(self.tombstones.get(&execution).copied()),
            Query::Jobs(filter) => Page::JobList(self.list(&filter)),
            Query::Shelf { shelf, after, limit } => {
                let on_shelf = self.shelves.get(&shelf).into_iter().flatten();
                let ids: BTreeSet<JobId> =
                    on_shelf.map(|&(_, id)| id).filter(|&id| Some(id) > after).collect();
                Page::Jobs(ids.iter().take(limit).filter_map(|id| self.readable(id)).cloned().collect())
            }
            Query::Oldest(shelf) => {
                let on_shelf = self.shelves.get(&shelf).into_iter().flatten();
                let oldest = on_shelf.min_by_key(|((_, place), _)| *place);
                Page::Job(oldest.and_then(|(_, id)| self.readable(id)).cloned().map(Arc::new))
            }
            Query::Front { shelf, limit } => {
                let ids = self.head_of(&shelf, limit);
                Page::Jobs(ids.iter().filter_map(|id| self.readable(id)).cloned().collect())
            }
            Query::DeadLetters { limit } => {
                let dead = self.shelves.iter().filter(|(shelf, _)| shelf.lane == Lane::Dead);
                Page::Count(dead.flat_map(|(_, jobs)| jobs).take(limit).count() as u64)
            }
            Query::Ahead { shelf, order, limit } => {
                let is_before = |(other, _): &&(QueueOrder, JobId)| *other < order;
                let on_shelf = self.shelves.get(&shelf).into_iter().flatten();
                let n = on_shelf.take_while(is_before).take(limit).count();
                let waiting = || self.counts.get(&shelf.name).map_or(0, |counts| counts.of(State::Queued));
                Page::Ahead(JobsAhead::counted(n as u64, limit, waiting))
            }
            Query::NextDue => {
                let job = self.due.first().map(|&(at, _)| at);
                let record = self.records.values().filter_map(|record| record.due_at).min();
                Page::Moment(job.into_iter().chain(record).min())
            }
            Query::Queues { prefix } => Page::Queues(self.queue_counts(&prefix)),
            Query::Counts(queue) => Page::Counts(self.counts.get(&queue).copied().unwrap_or_default()),
            Query::Activity { queue, since } => {
                let mut sum = Activity::default();
                let since = self.activity.iter().filter(|((of, minute), _)| *of == queue && *minute >= since);
                since.for_each(|(_, activity)| sum.merge(*activity));
                Page::Activity(sum)
            }
            Query::Limit(key) => Page::Limit(self.limits.get(&key).copied()),
            Query::Limits { prefix, limit } => {
                let of_owner = self.limits.iter().filter(|(key, _)| key.as_str().starts_with(&prefix));
                Page::Limits(of_owner.take(limit).map(|(key, row)| (key.clone(), *row)).collect())
            }
            Query::DeadLettersOf { client, queue, after, limit } => {
                let wanted = |job: &&Job| {
                    job.head.client == client && queue.as_ref().is_none_or(|queue| job.head.queue == *queue)
                };
                let dead = self.shelves.iter().filter(|(shelf, _)| shelf.lane == Lane::Dead);
                let ids: BTreeSet<JobId> = dead
                    .flat_map(|(_, jobs)| jobs)
                    .map(|&(_, id)| id)
                    .filter(|&id| Some(id) > after)
                    .collect();
                let jobs = ids.iter().filter_map(|id| self.jobs.get(id)).filter(wanted);
                Page::Jobs(jobs.take(limit).cloned().collect())
            }
            Query::ShelfNames { lane, after, limit } => {
                let occupied =
                    self.shelves.iter().filter(|(shelf, jobs)| shelf.lane == lane && !jobs.is_empty());
                let names =
                    occupied.map(|(shelf, _)| &shelf.name).filter(|name| name.as_str() > after.as_str());
                Page::Names(names.take(limit).cloned().collect())
            }
            Query::Record(key) => Page::Record(self.records.get(&key).cloned()),
            Query::Records { kind, group, after, limit } => {
                let wanted = |record: &&Record| {
                    record.key.kind == kind
                        && record.key.key > after
                        && group.as_ref().is_none_or(|group| record.group == *group)
                };
                Page::Records(self.records.values().filter(wanted).take(limit).cloned().collect())
            }
            Query::Client(id) => Page::Client(self.clients.get(&id).copied()),
            Query::ApiKey(digest) => {
                Page::ApiKey(self.api_keys.values().find(|key| key.digest == digest).cloned())
            }
            Query::Journal { after, limit } => {
                let rows = self.journal.range(after + 1..).take(limit);
                Page::Journal(
                    rows.map(|(&seq, (_, entries))| JournalRow { seq, entries: entries.clone() }).collect(),
                )
            }
            Query::JournalEnd => Page::Position(self.journal_end),
            Query::JournalBefore(moment) => {
                let first = self.journal.iter().find(|(_, (at, _))| *at >= moment);
                Page::Position(first.map_or(self.journal_end, |(seq, _)| seq - 1))
            }
            Query::JobsById(ids) => {
                Page::Jobs(ids.iter().filter_map(|id| self.readable(id)).cloned().collect())
            }
            Query::Outcomes(executions) => {
                Page::Outcomes(executions.iter().filter_map(|id| self.outcomes.get(id)).cloned().collect())
            }
            Query::Webhook(id) => Page::Webhook(self.delivery_tables.webhook(id).map(Box::new)),
            Query::Webhooks { client, after, limit } => {
                Page::Webhooks(self.delivery_tables.webhooks(client, after, limit))
            }
            Query::Delivery(id) => {
                self.aside.check(RowId::Delivery(id))?;
                Page::Delivery(self.delivery_tables.delivery(id).map(Box::new))
            }
            Query::Deliveries(filter) => Page::DeliveryList(self.delivery_tables.list(&filter, &self.aside)),
            Query::NextDelivery => Page::Moment(self.delivery_tables.next_due()),
            Query::SigningKeys => {
                Page::SigningKeys(self.delivery_tables.signing_keys.values().cloned().collect())
            }
            Query::SetAside { limit } => Page::SetAside(self.aside.list(limit)),
            Query::Operator(query) => self.answer_operator(query),
            Query::Logs(query) => Page::Logs(self.logs.read(&query)),
            Query::LogSummary { job, attempt } => Page::LogSummary(self.logs.summary(job, attempt)),
            Query::LogBytes(client) => Page::Count(self.logs.bytes_of(client)),
        })
    }

    /// The job, if it is there and can be read.
    fn all_readable(&self, ids: &BTreeSet<JobId>) -> Vec<Job> {
        ids.iter().filter_map(|id| self.readable(id)).cloned().collect()
    }

    fn readable(&self, id: &JobId) -> Option<&Job> {
        self.jobs.get(id).filter(|_| !self.aside.is_damaged(RowId::Job(*id)))
    }

    fn list(&self, filter: &Filter) -> ListPage<Job, JobId> {
        let end = filter.before.unwrap_or(JobId::from_u128(u128::MAX));
        let fits = |job: &&Job| {
            (filter.states.is_empty() || filter.states.contains(&job.state))
                && filter.queue.as_ref().is_none_or(|queue| job.head.queue == *queue)
                && filter.job_type.as_ref().is_none_or(|job_type| job.head.job_type == *job_type)
                && filter.dead.is_none_or(|dead| job.dead_lettered_at.is_some() == dead)
                && filter.id_suffix.is_none_or(|suffix| suffix.is_end_of(job.id))
                && filter.fits_inside(job)
        };
        let older: Box<dyn Iterator<Item = &JobId>> = match filter.is_for_workflows() {
            true => Box::new(self.workflows.range(..end).rev()),
            false => Box::new(self.jobs.range(..end).rev().map(|(id, _)| id)),
        };
        let is_own = |id: &&JobId| filter.client.is_none_or(|client| self.jobs[*id].head.client == client);
        let passed = older.filter(is_own).map(|id| (*id, self.readable(id).filter(fits).cloned()));
        listed(passed, filter.limit, filter.look_max)
    }

    fn queue_counts(&self, prefix: &str) -> Vec<QueueCounts> {
        let wanted = self.counts.iter().filter(|(queue, _)| queue.as_str().starts_with(prefix));
        wanted.map(|(queue, counts)| QueueCounts { queue: queue.clone(), counts: *counts }).collect()
    }

    fn records_due(&self, now: Time) -> impl Iterator<Item = &Record> {
        self.records.values().filter(move |record| record.due_at.is_some_and(|at| at <= now))
    }

    fn sweep(&mut self, sweep: &Sweep, blobs: &BlobShelves) -> Swept {
        self.activity.retain(|(_, minute), _| *minute >= sweep.activity_before);
        let read = self.journal.range(..=sweep.journal_until);
        let old_rows = read.filter(|(_, (at, _))| *at < sweep.journal_before);
        let seqs: Vec<i64> = old_rows.map(|(&seq, _)| seq).take(sweep.limit).collect();
        let old_stones = self.tombstones.iter().filter(|(_, stone)| stone.at < sweep.tombstones_before);
        let stones: Vec<ExecutionId> = old_stones.map(|(&id, _)| id).take(sweep.limit).collect();
        self.journal.retain(|seq, _| !seqs.contains(seq));
        self.tombstones.retain(|id, _| !stones.contains(id));
        let old_key = |key: &ApiKey| key.revoked_at.is_some_and(|at| at < sweep.revoked_keys_before);
        let keys: Vec<KeyId> =
            self.api_keys.values().filter(|key| old_key(key)).map(|key| key.id).take(sweep.limit).collect();
        self.api_keys.retain(|id, _| !keys.contains(id));
        Swept {
            journal_rows: seqs.len(),
            tombstones: stones.len(),
            revoked_keys: keys.len(),
            deliveries: self.delivery_tables.sweep(sweep.deliveries_before, sweep.limit),
            results: self.remove_expired(sweep, blobs),
            limits: self.remove_idle_limits(sweep),
            ..Swept::default()
        }
    }

    fn remove_idle_limits(&mut self, sweep: &Sweep) -> usize {
        let is_idle = |limit: &LimitRow| limit.active == 0 && limit.turn_at < sweep.limits_before;
        let idle = self.limits.iter().filter(|(_, limit)| is_idle(limit)).take(sweep.limit);
        let keys: Vec<Name> = idle.map(|(key, _)| key.clone()).collect();
        self.limits.retain(|key, _| !keys.contains(key));
        keys.len()
    }

    fn remove_expired(&mut self, sweep: &Sweep, blobs: &BlobShelves) -> usize {
        let is_due = |kept: &StoredResult| {
            kept.content.is_some() && kept.expires_at.is_some_and(|at| at <= sweep.results_until)
        };
        let due = self.results.values_mut().filter(|kept| is_due(kept)).take(sweep.limit);
        let gone: Vec<Content> = due.filter_map(|kept| kept.content.take()).collect();
        gone.iter().for_each(|content| blobs.release(stored(Some(content)), sweep.results_until));
        gone.len()
    }
}

/// As much of a list as a page may have, and look at.
fn listed<T, Id: Copy>(
    rows: impl Iterator<Item = (Id, Option<T>)>,
    limit: usize,
    look_max: usize,
) -> ListPage<T, Id> {
    let (mut page, mut last) = (Vec::new(), None);
    for (n_seen, (id, passed)) in rows.enumerate() {
        if page.len() >= limit || n_seen >= look_max.max(1) {
            return ListPage { rows: page, next: last };
        }
        page.extend(passed);
        last = Some(id);
    }
    ListPage { rows: page, next: None }
}

fn kept(result: &NewResult) -> StoredResult {
    StoredResult {
        media_type: result.output.media_type.clone(),
        file_name: result.output.file_name.clone(),
        size: result.size,
        expires_at: result.expires_at,
        content: Some(result.output.content.clone()),
    }
}

fn stored(content: Option<&Content>) -> Option<BlobId> {
    match content? {
        Content::Inline(_) => None,
        Content::Stored(blob) => Some(blob.id),
    }
}
