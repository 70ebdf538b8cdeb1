//! A store as small as it can be, for the tests of the rules: maps that answer `Wants` by looking
//! at every job, and take `Changes` as they come. It means the same as the memory store of
//! `forgerun-store`, which these tests cannot use.
//!
//! After every batch it checks all that must hold ([`World::check`]), so each test of the rules
//! proves that too. Shared by the unit tests of `decide` and by `properties.rs`; neither needs all
//! of it.
#![allow(dead_code, reason = "two test binaries share this module and neither uses all of it")]

pub(crate) mod build;
mod check;
pub(crate) mod flows;
pub(crate) mod hooks;
mod post;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use forgerun_core::command::{Answer, Command, Output};
use forgerun_core::delivery::Delivery;
use forgerun_core::history::JournalEntry;
use forgerun_core::id::{DeliveryId, ExecutionId, JobId, SigningKeyId, WebhookId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{IdempotencyKey, Job, Name, Shelf};
use forgerun_core::record::{Record, RecordKey};
use forgerun_core::rows::{Counts, KeyRow, LimitRow, MoreRows, Object, Outcome, Render};
use forgerun_core::time::Time;
use forgerun_core::webhook::{SigningKey, Webhook};
use forgerun_core::{Batch, Changes, Rows, Wants, decide, limits, related, wants};

/// Everything there is, and what time it is.
#[derive(Clone)]
pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) seed: u64,
    pub(crate) jobs: BTreeMap<JobId, Job>,
    pub(crate) executions: BTreeMap<ExecutionId, JobId>,
    pub(crate) outcomes: BTreeMap<ExecutionId, Outcome>,
    pub(crate) results: BTreeMap<ExecutionId, Arc<Output>>,
    pub(crate) items: BTreeMap<ExecutionId, Arc<[ItemEnd]>>,
    pub(crate) tombstones: BTreeSet<ExecutionId>,
    pub(crate) keys: BTreeMap<IdempotencyKey, KeyRow>,
    pub(crate) uniques: BTreeMap<[u8; 32], JobId>,
    pub(crate) limits: BTreeMap<Name, LimitRow>,
    pub(crate) records: BTreeMap<RecordKey, Record>,
    pub(crate) counts: BTreeMap<Name, Counts>,
    pub(crate) journal: Vec<JournalEntry>,
    pub(crate) webhooks: BTreeMap<WebhookId, Webhook>,
    pub(crate) deliveries: BTreeMap<DeliveryId, Delivery>,
    pub(crate) signing_keys: BTreeMap<SigningKeyId, SigningKey>,
}

impl World {
    /// An empty world, a thousand seconds after the epoch.
    pub(crate) fn new() -> World {
        World {
            now: Time::from_millis(1_000_000),
            seed: 7,
            jobs: BTreeMap::new(),
            executions: BTreeMap::new(),
            outcomes: BTreeMap::new(),
            results: BTreeMap::new(),
            items: BTreeMap::new(),
            tombstones: BTreeSet::new(),
            keys: BTreeMap::new(),
            uniques: BTreeMap::new(),
            limits: BTreeMap::new(),
            records: BTreeMap::new(),
            counts: BTreeMap::new(),
            journal: Vec::new(),
            webhooks: BTreeMap::new(),
            deliveries: BTreeMap::new(),
            signing_keys: BTreeMap::new(),
        }
    }

    /// One command in a batch of its own.
    pub(crate) fn ask(&mut self, command: Command) -> Answer {
        self.apply(vec![command]).answers.remove(0)
    }

    /// One batch: loaded, decided, written, checked.
    pub(crate) fn apply(&mut self, commands: Vec<Command>) -> Changes {
        let changes = self.decide(commands);
        self.write(&changes);
        self.seed += 1;
        self.check();
        changes
    }

    /// What a batch would change.
    pub(crate) fn decide(&self, commands: Vec<Command>) -> Changes {
        let batch = Batch { now: self.now, seed: self.seed, commands };
        let n_commands = batch.commands.len();
        let wants = wants(&batch);
        let mut changes = decide(&batch, self.load(&wants), &Plain);
        let mut more = MoreRows::default();
        while !changes.more.is_empty() {
            more.extend(changes.more);
            let rows = Rows { more: more.clone(), ..self.load(&wants.with(&more)) };
            changes = decide(&batch, rows, &Plain);
        }
        assert_eq!(changes.answers.len(), n_commands, "every command has its answer");
        changes
    }

    /// What a store loads for these wants.
    pub(crate) fn load(&self, wants: &Wants) -> Rows {
        let mut rows = Rows::default();
        let mut ids: BTreeSet<JobId> = wants.jobs.union(&wants.jobs_sought).copied().collect();
        for (key, row) in self.keys.iter().filter(|(key, _)| wants.keys.contains(key)) {
            ids.extend(&row.jobs);
            rows.keys.insert(key.clone(), row.clone());
        }
        let again = related::uniques(wants, &self.found(&wants.uniques_of));
        let wanted = |key: &[u8; 32]| wants.uniques.contains(key) || again.contains(key);
        for (key, holder) in self.uniques.iter().filter(|(key, _)| wanted(key)) {
            ids.insert(*holder);
            rows.uniques.insert(*key, *holder);
        }
        for (shelf, &limit) in &wants.shelves {
            let found = self.head_of(shelf, limit);
            ids.extend(&found);
            rows.shelves.insert(shelf.clone(), found);
        }
        if let Some(due) = wants.due {
            let moments = self.jobs.values().filter_map(|job| Some((job.due_at()?, job.id)));
            let come: BTreeSet<_> = moments.filter(|(at, _)| *at <= due.now).collect();
            rows.due = come.into_iter().take(due.limit).map(|(_, id)| id).collect();
            ids.extend(&rows.due);
        }
        for shelf in related::limits(&self.found(&ids)).parked {
            let found = self.head_of(&shelf, limits::UNPARK_MAX);
            ids.extend(&found);
            rows.shelves.insert(shelf, found);
        }
        rows.turns = related::turns(wants, &rows.shelves, &self.found(&ids));
        for (shelf, &limit) in &rows.turns.behind {
            let found = self.head_of(shelf, limit);
            ids.extend(&found);
            rows.shelves.insert(shelf.clone(), found);
        }
        for ((shelf, priority), &limit) in &rows.turns.without_key {
            let of_priority =
                |id: &JobId| self.jobs[id].head.priority == *priority && self.jobs[id].turn.is_none();
            let found: Vec<JobId> =
                self.head_of(shelf, usize::MAX).into_iter().filter(of_priority).take(limit).collect();
            ids.extend(&found);
            rows.behind_turns.insert((shelf.clone(), *priority), found);
        }
        rows.jobs = self.found(&ids);
        let limit = |key: Name| self.limits.get(&key).map(|row| (key, *row));
        let names = related::limits(&rows.jobs).keys.into_iter().chain(rows.turns.rows.iter().cloned());
        rows.limits = names.filter_map(limit).collect();
        let record = |key: &RecordKey| Some((key.clone(), self.records.get(key)?.clone()));
        rows.records = wants.records.iter().filter_map(record).collect();
        if let Some(due) = wants.due {
            let is_due = |record: &&Record| record.due_at.is_some_and(|at| at <= due.now);
            let found: Vec<&Record> = self.records.values().filter(is_due).collect();
            rows.records_due = found.iter().map(|record| record.key.clone()).collect();
            rows.records.extend(found.into_iter().map(|record| (record.key.clone(), record.clone())));
        }
        let count = |name: &Name| (name.clone(), self.counts.get(name).copied().unwrap_or_default());
        rows.counts = wants.counts.iter().map(count).collect();
        // Garbage where nobody asked, so that nobody relies on it.
        rows.active = if wants.active { self.n_active() } else { u64::MAX / 2 };
        self.load_post(wants, &mut rows);
        rows
    }

    fn found(&self, ids: &BTreeSet<JobId>) -> Vec<Job> {
        ids.iter().filter_map(|id| self.jobs.get(id)).cloned().collect()
    }

    /// How many jobs the built-in worker holds.
    pub(crate) fn n_active(&self) -> u64 {
        let of_built_in = |job: &&Job| job.state.is_active() && job.head.is_simulated();
        self.jobs.values().filter(of_built_in).count() as u64
    }

    fn head_of(&self, shelf: &Shelf, limit: usize) -> Vec<JobId> {
        let on_shelf = self.jobs.values().filter(|job| job.shelf().as_ref() == Some(shelf));
        let order: BTreeSet<_> = on_shelf.map(|job| (job.order(), job.id)).collect();
        order.into_iter().take(limit).map(|(_, id)| id).collect()
    }

    fn write(&mut self, changes: &Changes) {
        self.write_post(changes);
        for (job, _) in &changes.inserted {
            assert!(self.jobs.insert(job.id, job.clone()).is_none(), "job {} exists already", job.id);
        }
        for job in &changes.updated {
            assert!(self.jobs.insert(job.id, job.clone()).is_some(), "job {} does not exist", job.id);
        }
        for forgotten in &changes.forgotten {
            self.jobs.remove(&forgotten.job);
            for execution in &forgotten.executions {
                self.executions.remove(execution);
                self.outcomes.remove(execution);
                self.results.remove(execution);
                self.items.remove(execution);
                self.tombstones.insert(*execution);
            }
        }
        for outcome in &changes.outcomes {
            let before = self.outcomes.insert(outcome.execution, outcome.clone());
            assert_eq!(before, None, "an execution has one outcome");
        }
        self.results.extend(changes.results.iter().map(|result| (result.execution, result.output.clone())));
        for (execution, ends) in &changes.items {
            let ended = self.outcomes.contains_key(execution)
                && !changes.outcomes.iter().any(|outcome| outcome.execution == *execution);
            assert!(!ended, "the items of an ended execution do not change");
            self.items.insert(*execution, ends.clone());
        }
        self.executions.extend(changes.executions.iter().copied());
        changes.keys_removed.iter().for_each(|key| drop(self.keys.remove(key)));
        for (key, row) in &changes.keys {
            assert_eq!(self.keys.insert(key.clone(), row.clone()), None, "{key:?} is used once");
        }
        self.uniques.extend(changes.uniques.iter().map(|(key, job)| (*key, *job)));
        for (key, job) in &changes.uniques_removed {
            if self.uniques.get(key) == Some(job) {
                self.uniques.remove(key);
            }
        }
        self.limits.extend(changes.limits.iter().map(|(key, row)| (key.clone(), *row)));
        for (key, change) in &changes.records {
            let before = match &change.new {
                Some(record) => self.records.insert(key.clone(), record.clone()),
                None => self.records.remove(key),
            };
            assert_eq!(before.map(|record| record.version), change.seen, "{key:?} is as it was seen");
        }
        for (queue, counts) in &changes.counts {
            self.counts.entry(queue.clone()).or_default().merge(counts);
        }
        self.journal.extend(&changes.journal);
    }
}

/// Outcomes that show what they were made of.
pub(crate) struct Plain;

impl Render for Plain {
    fn outcome(&self, job: &Job, _: &[ItemEnd]) -> Object {
        let bytes = std::format!("{} {:?} {:?}", job.execution, job.state, job.finished_at).into_bytes();
        Object { bytes, digest: [0; 32] }
    }
}
