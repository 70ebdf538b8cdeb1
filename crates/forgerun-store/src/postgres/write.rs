//! Writes the changes of a batch: one statement per table, however many rows.
//!
//! First the changes are turned into columns ([`Writes::new`]), then the statements that have something to do are sent, in
//! an order that all nodes share (see `sql.rs`), then the journal, the commit, and a word to the other nodes.

use std::collections::BTreeMap;

use forgerun_core::Changes;
use forgerun_core::history::{JournalEntry, encode_entries};
use forgerun_core::job::{IdempotencyKey, Name};
use forgerun_core::record::{RecordChange, RecordKey};
use forgerun_core::rows::{Forgotten, LimitRow};
use forgerun_core::time::Time;
use tokio_postgres::types::ToSql;

use super::aside::SetAsideColumns;
use super::columns::{Clients, EndedColumns, HeldBlobs, InsertedColumns, PlacedColumns, UpdatedColumns};
use super::connect::Connection;
use super::deliveries::WebhookColumns;
use super::listen;
use super::load::Loaded;
use super::marks::MarkChanges;
use super::pipeline::Pipeline;
use super::plain_queues::PlainColumns;
use super::sql::Sql;
use super::value::Uuid;

/// The changes of a batch as columns.
pub(super) struct Writes<'a> {
    born: InsertedColumns<'a>,
    changed: UpdatedColumns,
    marks: MarkChanges,
    placed: PlacedColumns,
    held: HeldBlobs,
    gone: ForgottenColumns,
    ended: EndedColumns<'a>,
    keys: KeyRows<'a>,
    uniques: Uniques<'a>,
    limits: LimitColumns<'a>,
    records: RecordColumns<'a>,
    clients: Clients<'a>,
    posted: WebhookColumns<'a>,
    aside: SetAsideColumns<'a>,
    conclusion: ConclusionColumns<'a>,
    notice: Option<String>,
}

impl<'a> Writes<'a> {
    pub(super) fn new(changes: &'a Changes, loaded: &Loaded, node: u64, slot: i16) -> Writes<'a> {
        let at = changes.journal.iter().map(JournalEntry::at).max();
        let to_deliver = !changes.deliveries.is_empty();
        let news = at.is_some() || to_deliver || changes.wake_all || !changes.woken.is_empty();
        Writes {
            born: InsertedColumns::new(&changes.inserted),
            marks: MarkChanges::new(changes),
            changed: UpdatedColumns::new(changes.updated.iter().filter(|job| job.head.fair.is_none())),
            placed: PlacedColumns::new(&changes.updated),
            held: HeldBlobs::new(changes),
            gone: ForgottenColumns::new(&changes.forgotten),
            ended: EndedColumns::new(changes),
            keys: KeyRows::new(changes),
            uniques: Uniques::new(changes, loaded),
            limits: LimitColumns::new(&changes.limits),
            records: RecordColumns::new(&changes.records),
            clients: Clients::new(changes),
            posted: WebhookColumns::new(changes),
            aside: SetAsideColumns::new(changes),
            conclusion: ConclusionColumns::new(changes, at, slot),
            notice: news.then(|| listen::payload(node, to_deliver, changes.wake_all, &changes.woken)),
        }
    }

    /// Adds the statements that have something to do, the commit, and the notification behind it. Says how many come before
    /// the commit.
    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) -> usize {
        self.born.push(pipeline);
        self.push_others(pipeline);
        self.conclusion.push(pipeline);
        let n_writes = pipeline.len();
        pipeline.push(Sql::Commit, []);
        self.push_notice(pipeline);
        n_writes
    }

    /// What is written between new jobs and the journal.
    fn push_others<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        self.changed.push(pipeline);
        self.marks.push(pipeline);
        self.placed.push(pipeline);
        self.held.push(pipeline);
        // Before jobs are forgotten, whose deliveries go with them.
        self.posted.push(pipeline);
        self.gone.push(pipeline);
        self.aside.push(pipeline);
        self.ended.push(pipeline);
        self.keys.push(pipeline);
        self.uniques.push(pipeline);
        self.limits.push(pipeline);
        self.records.push(pipeline);
        self.clients.push(pipeline);
    }

    fn push_notice<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if let Some(notice) = &self.notice {
            pipeline.push(Sql::Notify, [notice]);
        }
    }

    /// Whether nothing but new jobs is to be written, and what is counted and told of them.
    pub(super) fn only_brings_jobs(&self, connection: &Connection) -> bool {
        let mut others = Pipeline::new(connection);
        self.push_others(&mut others);
        !self.born.is_empty() && others.is_empty()
    }

    /// Adds the statement that writes new jobs if their queues are plain, and the notification.
    pub(super) fn push_submit<'p>(&'p self, plain: &'p PlainColumns<'_>, pipeline: &mut Pipeline<'p>) {
        let (conclusion, born, plain) = (self.conclusion.values(), self.born.values(), plain.values());
        let mut values = conclusion.into_iter().chain(born).chain(plain).chain(self.born.marks());
        let values: [_; 28] = std::array::from_fn(|_| values.next().expect("as many as that"));
        pipeline.push(Sql::Submit, values);
        self.push_notice(pipeline);
    }
}

/// Jobs to delete with all that is theirs.
#[derive(Default)]
struct ForgottenColumns {
    jobs: Vec<Uuid>,
    executions: Vec<Uuid>,
    clients: Vec<Uuid>,
    at: Vec<i64>,
    kept: Vec<Option<i64>>,
}

impl ForgottenColumns {
    fn new(forgotten: &[Forgotten]) -> ForgottenColumns {
        let mut gone = ForgottenColumns::default();
        for job in forgotten {
            gone.jobs.push(job.job.into());
            for &execution in &job.executions {
                gone.executions.push(execution.into());
                gone.clients.push(job.client.into());
                gone.at.push(job.at.as_micros());
                gone.kept.push(job.kept.map(|kept| kept.as_micros() as i64));
            }
        }
        gone
    }

    fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if self.jobs.is_empty() {
            return;
        }
        pipeline.push(Sql::DeleteJobs, [&self.jobs]);
        pipeline.push(Sql::DeleteInputs, [&self.jobs]);
        pipeline.push(Sql::DeleteMarks, [&self.jobs]);
        pipeline.push(Sql::DeleteLogs, [&self.jobs]);
        pipeline.push(Sql::DeleteDeliveriesOf, [&self.jobs]);
        pipeline.push(Sql::DeleteOutcomes, [&self.executions]);
        pipeline.push(Sql::DeleteResults, [&self.executions, &self.at]);
        pipeline.push(Sql::DeleteItems, [&self.executions]);
        pipeline.push(Sql::DeleteExecutions, [&self.executions]);
        pipeline.push(Sql::InsertTombstones, [&self.executions, &self.clients, &self.at, &self.kept]);
    }
}

/// Idempotency keys, in order.
#[derive(Default)]
struct KeyRows<'a> {
    new: KeyColumns<'a>,
    fingerprints: Vec<&'a [u8]>,
    /// The jobs of all keys, one after the other.
    jobs: Vec<Uuid>,
    /// Where the jobs of a key begin and end in the list, from 1, both included.
    first: Vec<i32>,
    last: Vec<i32>,
    removed: KeyColumns<'a>,
}

#[derive(Default)]
struct KeyColumns<'a> {
    clients: Vec<Uuid>,
    operations: Vec<&'a str>,
    keys: Vec<&'a str>,
}

impl<'a> KeyColumns<'a> {
    fn add(&mut self, key: &'a IdempotencyKey) {
        self.clients.push(key.client.into());
        self.operations.push(&key.operation);
        self.keys.push(&key.key);
    }
}

impl<'a> KeyRows<'a> {
    fn new(changes: &'a Changes) -> KeyRows<'a> {
        let mut columns = KeyRows::default();
        let mut new: Vec<_> = changes.keys.iter().collect();
        new.sort_unstable_by_key(|(key, _)| key);
        for (key, row) in new {
            columns.new.add(key);
            columns.fingerprints.push(&row.fingerprint);
            columns.first.push(columns.jobs.len() as i32 + 1);
            columns.jobs.extend(row.jobs.iter().map(|&job| Uuid::from(job)));
            columns.last.push(columns.jobs.len() as i32);
        }
        changes.keys_removed.iter().for_each(|key| columns.removed.add(key));
        columns
    }

    fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        let (new, removed) = (&self.new, &self.removed);
        if !removed.keys.is_empty() {
            pipeline.push(Sql::DeleteKeys, [&removed.clients, &removed.operations, &removed.keys]);
        }
        if !new.keys.is_empty() {
            let (fingerprints, jobs) = (&self.fingerprints, &self.jobs);
            let (first, last) = (&self.first, &self.last);
            pipeline.push(
                Sql::InsertKeys,
                [&new.clients, &new.operations, &new.keys, fingerprints, jobs, first, last],
            );
        }
    }
}

/// Unique keys, in order. A key that had no row is inserted, so that two nodes cannot both take it; one that had is
/// updated, which the lock on its holder allows.
#[derive(Default)]
struct Uniques<'a> {
    inserted: (Vec<&'a [u8]>, Vec<Uuid>),
    updated: (Vec<&'a [u8]>, Vec<Uuid>),
    removed: (Vec<&'a [u8]>, Vec<Uuid>),
}

impl<'a> Uniques<'a> {
    fn new(changes: &'a Changes, loaded: &Loaded) -> Uniques<'a> {
        let mut columns = Uniques::default();
        for (key, &job) in &changes.uniques {
            let known = loaded.uniques.contains(key);
            let (keys, jobs) = if known { &mut columns.updated } else { &mut columns.inserted };
            keys.push(key);
            jobs.push(job.into());
        }
        for (key, job) in &changes.uniques_removed {
            columns.removed.0.push(key);
            columns.removed.1.push((*job).into());
        }
        columns
    }

    fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        // Removal comes last and names the holder: a key that has just passed to another job stays.
        for (sql, (keys, jobs)) in [
            (Sql::UpdateUniques, &self.updated),
            (Sql::InsertUniques, &self.inserted),
            (Sql::DeleteUniques, &self.removed),
        ] {
            if !keys.is_empty() {
                pipeline.push(sql, [keys, jobs]);
            }
        }
    }
}

/// Limits; all of them have rows, because loading creates them.
struct LimitColumns<'a> {
    keys: Vec<&'a str>,
    active: Vec<i64>,
    turn_at: Vec<i64>,
}

impl<'a> LimitColumns<'a> {
    fn new(limits: &'a BTreeMap<Name, LimitRow>) -> LimitColumns<'a> {
        LimitColumns {
            keys: limits.keys().map(Name::as_str).collect(),
            active: limits.values().map(|row| i64::from(row.active)).collect(),
            turn_at: limits.values().map(|row| row.turn_at.as_micros()).collect(),
        }
    }

    fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.keys.is_empty() {
            pipeline.push(Sql::UpdateLimits, [&self.keys, &self.active, &self.turn_at]);
        }
    }
}

/// Records, in the order of their keys: what was seen goes, what is new comes.
#[derive(Default)]
struct RecordColumns<'a> {
    seen: (Vec<i16>, Vec<&'a str>, Vec<i64>),
    kinds: Vec<i16>,
    keys: Vec<&'a str>,
    groups: Vec<&'a str>,
    due_at: Vec<Option<i64>>,
    versions: Vec<i64>,
    bytes: Vec<&'a [u8]>,
}

impl<'a> RecordColumns<'a> {
    fn new(records: &'a BTreeMap<RecordKey, RecordChange>) -> RecordColumns<'a> {
        let mut columns = RecordColumns::default();
        for (key, change) in records {
            if let Some(version) = change.seen {
                columns.seen.0.push(key.kind as i16);
                columns.seen.1.push(&key.key);
                columns.seen.2.push(version.cast_signed());
            }
            if let Some(record) = &change.new {
                columns.kinds.push(key.kind as i16);
                columns.keys.push(&key.key);
                columns.groups.push(&record.group);
                columns.due_at.push(record.due_at.map(Time::as_micros));
                columns.versions.push(record.version.cast_signed());
                columns.bytes.push(&record.bytes);
            }
        }
        columns
    }

    fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        let (kinds, keys, versions) = &self.seen;
        if !keys.is_empty() {
            pipeline.push(Sql::DeleteRecords, [kinds, keys, versions]);
        }
        if !self.keys.is_empty() {
            pipeline.push(
                Sql::InsertRecords,
                [&self.kinds, &self.keys, &self.groups, &self.due_at, &self.versions, &self.bytes],
            );
        }
    }
}

/// By how much counts change, what happened in queues, and the journal.
struct ConclusionColumns<'a> {
    slot: i16,
    queues: Vec<&'a str>,
    /// The numbers of the queues, one after the other.
    counts: Vec<i64>,
    active_queues: Vec<&'a str>,
    /// Likewise, each with its minute first.
    activity: Vec<i64>,
    /// When the last of the entries happened; without it there are none.
    at: Option<i64>,
    entries: Vec<u8>,
}

impl<'a> ConclusionColumns<'a> {
    fn new(changes: &'a Changes, at: Option<Time>, slot: i16) -> ConclusionColumns<'a> {
        let activity = changes.activity.iter();
        ConclusionColumns {
            slot,
            queues: changes.counts.keys().map(Name::as_str).collect(),
            counts: changes.counts.values().flat_map(|counts| counts.0).collect(),
            active_queues: changes.activity.keys().map(|(queue, _)| queue.as_str()).collect(),
            activity: activity
                .flat_map(|((_, minute), activity)| [minute.0].into_iter().chain(activity.to_array()))
                .collect(),
            at: at.map(Time::as_micros),
            entries: encode_entries(&changes.journal),
        }
    }

    /// What the statement takes, in its order.
    fn values(&self) -> [&(dyn ToSql + Sync); 7] {
        let ConclusionColumns { slot, queues, counts, active_queues, activity, at, entries } = self;
        [at, entries, slot, queues, counts, active_queues, activity]
    }

    fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !(self.queues.is_empty() && self.active_queues.is_empty() && self.at.is_none()) {
            pipeline.push(Sql::Conclude, self.values());
        }
    }
}
