//! What passes between the rules and a store: [`Wants`] (what a batch needs to see), [`Rows`] (what was there) and
//! [`Changes`] (what to write).
//!
//! A store that hands out rows holds them until the changes are written: nobody else may change them in between. Counts
//! are the exception: on a store that several nodes share, what other transactions under way will add is not in them yet.
//! Where a bound depends on it, a batch asks for counts that are *exact* ([`Wants::exact`]), or says when it has seen the others
//! that they must be ([`Changes::exact`]).

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::client::{ApiKey, Client};
use crate::command::{Answer, Content, Output};
use crate::delivery::{Chain, Delivery};
use crate::history::JournalEntry;
use crate::id::{BlobId, ClientId, DeliveryId, ExecutionId, JobId, KeyId, SigningKeyId, WebhookId};
use crate::item::ItemEnd;
use crate::job::{IdempotencyKey, Input, Job, Name, Shelf};
use crate::record::{Record, RecordChange, RecordKey};
use crate::set_aside::{RowId, SetAside, Unreadable};
use crate::state::{Facet, State};
use crate::time::Time;
use crate::webhook::{SigningKey, Webhook};

/// What a batch needs to see. A store loads and locks it, and with it the related rows of what it found ([`related`](crate::related)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// These jobs, where they exist. If one of them cannot be read, nothing is loaded: a command names it.
    pub jobs: BTreeSet<JobId>,
    /// These jobs too. One that cannot be read is in [`Rows::unreadable`]: no command names it, so none is to fail because of it.
    pub jobs_sought: BTreeSet<JobId>,
    /// From the head of each shelf, up to so many. A store shared by several nodes skips what another one holds.
    pub shelves: BTreeMap<Shelf, usize>,
    /// Up to `limit` jobs due at `now` or before, the longest due first, and up to [`limits::DUE_RECORDS_MAX`] records. Skips what
    /// another node holds.
    ///
    /// [`limits::DUE_RECORDS_MAX`]: crate::limits::DUE_RECORDS_MAX
    pub due: Option<DueWant>,
    /// These idempotency keys, where they exist.
    pub keys: BTreeSet<IdempotencyKey>,
    /// The holders of these unique keys, where there are any.
    pub uniques: BTreeSet<[u8; 32]>,
    /// The same for the unique keys that these jobs have.
    pub uniques_of: BTreeSet<JobId>,
    /// These records, where they exist. Not locked: what is written of them is refused if they changed meanwhile.
    pub records: BTreeSet<RecordKey>,
    /// These clients, where they exist, with all their keys.
    pub clients: BTreeSet<ClientId>,
    /// How many jobs of these queues stand where; by [`QueueId::key`](crate::queue::QueueId::key).
    pub counts: BTreeSet<Name>,
    /// How many jobs the built-in worker holds, over all queues.
    pub active: bool,
    /// Counts that whoever else asks for them like this may not change before the batch is written.
    pub exact: CountSet,
    /// The webhooks of these clients, to look at.
    pub webhooks_of: BTreeSet<ClientId>,
    /// These webhooks, to change.
    pub webhooks: BTreeSet<WebhookId>,
    /// These deliveries, where they exist.
    pub deliveries: BTreeSet<DeliveryId>,
    /// The first two deliveries of each chain that are not settled.
    pub chains: BTreeSet<Chain>,
    /// Up to `limit` deliveries due at `now` or before, the longest due first. Skips what another node holds.
    pub deliveries_due: Option<DueWant>,
    /// Deliveries to a webhook that were given up. Skips what another node holds.
    pub deliveries_failed: Vec<FailedWant>,
    /// All keys that deliveries are signed with.
    pub signing_keys: bool,
}

/// Some of the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountSet {
    /// Those of these queues.
    pub queues: BTreeSet<Name>,
    /// How many jobs workers hold, over all queues.
    pub active: bool,
}

impl CountSet {
    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && !self.active
    }
}

/// Deliveries to a webhook that were given up, the longest ago first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedWant {
    /// Which webhook.
    pub webhook: WebhookId,
    /// Given up at this moment or later.
    pub since: Time,
    /// At most so many.
    pub limit: usize,
}

/// Jobs due at a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueWant {
    /// Due at this moment or before.
    pub now: Time,
    /// At most so many.
    pub limit: usize,
}

/// Rows that turned out to be needed while a batch was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoreRows {
    /// These jobs, where they exist.
    pub jobs: BTreeSet<JobId>,
    /// These records, where they exist.
    pub records: BTreeSet<RecordKey>,
}

impl MoreRows {
    /// Whether it names none.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.records.is_empty()
    }

    /// Adds others to these.
    pub fn extend(&mut self, more: MoreRows) {
        self.jobs.extend(more.jobs);
        self.records.extend(more.records);
    }
}

impl Wants {
    /// The same, and more.
    pub fn with(&self, more: &MoreRows) -> Wants {
        let mut wants = self.clone();
        wants.jobs_sought.extend(&more.jobs);
        wants.records.extend(more.records.iter().cloned());
        wants
    }
}

/// What was there.
#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// What was loaded because an earlier decision of the same batch asked for it ([`Changes::more`]).
    pub more: MoreRows,
    /// Every job loaded, for whatever reason, once.
    pub jobs: Vec<Job>,
    /// The shelves asked for, and parked shelves of related rows: ids in shelf order.
    pub shelves: BTreeMap<Shelf, Vec<JobId>>,
    /// The due jobs, the longest due first.
    pub due: Vec<JobId>,
    /// The idempotency keys found.
    pub keys: BTreeMap<IdempotencyKey, KeyRow>,
    /// The unique keys found, and who holds them.
    pub uniques: BTreeMap<[u8; 32], JobId>,
    /// The limit rows found.
    pub limits: BTreeMap<Name, LimitRow>,
    /// The records found, those that are due included.
    pub records: BTreeMap<RecordKey, Record>,
    /// The due records, the longest due first.
    pub records_due: Vec<RecordKey>,
    /// The clients found.
    pub clients: BTreeMap<ClientId, Client>,
    /// The keys of the clients found, oldest first.
    pub api_keys: Vec<ApiKey>,
    /// The counts asked for.
    pub counts: BTreeMap<Name, Counts>,
    /// How many jobs the built-in worker holds, if asked.
    pub active: u64,
    /// Counts that others may be about to change. None on a store where transactions come one after the other.
    pub uncertain: CountSet,
    /// Every webhook loaded, for whatever reason, once.
    pub webhooks: Vec<Webhook>,
    /// Every delivery loaded, for whatever reason, once.
    pub deliveries: Vec<Delivery>,
    /// The due deliveries, the longest due first.
    pub deliveries_due: Vec<DeliveryId>,
    /// The keys that deliveries are signed with, if asked, oldest first.
    pub signing_keys: Vec<SigningKey>,
    /// Jobs and deliveries that were met on the way and cannot be read. Their ids stand where they were found (`shelves`,
    /// `due`, `deliveries_due`), so that it is known how far the store looked. What a command names is not among them: it
    /// fails the batch.
    pub unreadable: Vec<Unreadable>,
}

/// What an idempotency key was used for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    /// The digest of the request.
    pub fingerprint: [u8; 32],
    /// The jobs it made, in order.
    pub jobs: Vec<JobId>,
}

/// The state of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// How many of its jobs workers hold.
    pub active: u32,
    /// The theoretical arrival time of the generic cell rate algorithm: when its rate is used up until.
    pub turn_at: Time,
}

impl Default for LimitRow {
    fn default() -> Self {
        LimitRow { active: 0, turn_at: Time::ZERO }
    }
}

/// How many jobs of a queue stand where, by [`Facet`], or by how much that changes. A store sums changes per queue and node,
/// so that two nodes never wait for one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [i64; Facet::ALL.len()]);

impl Counts {
    /// The number for one facet.
    pub const fn at(&self, facet: Facet) -> i64 {
        self.0[facet as usize]
    }

    /// The number for one state.
    pub fn of(&self, state: State) -> i64 {
        Facet::ALL.iter().filter(|facet| facet.state() == state).map(|&facet| self.at(facet)).sum()
    }

    /// Jobs that workers hold.
    pub const fn active(&self) -> i64 {
        self.at(Facet::Assigned) + self.at(Facet::Running)
    }

    /// Counts one job more or less.
    pub const fn add(&mut self, facet: Facet, n: i64) {
        self.0[facet as usize] += n;
    }

    /// Adds another count to this one.
    pub fn merge(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    /// Whether every number is zero.
    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|&n| n == 0)
    }
}

/// A minute, counted from the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(pub i64);

impl Minute {
    /// The minute that a moment is in.
    pub const fn of(time: Time) -> Minute {
        Minute(time.as_micros().div_euclid(60_000_000))
    }
}

/// What happened in a queue within a minute: the figures of the last hour are sums of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Jobs that came in.
    pub submitted: i64,
    /// Attempts that began.
    pub started: i64,
    /// Executions that ended well.
    pub succeeded: i64,
    /// Executions that ended badly.
    pub failed: i64,
    /// How long the attempts that began had waited, in milliseconds.
    pub waited_ms: i64,
    /// How long the executions that ended had run since their last attempt began, in milliseconds.
    pub ran_ms: i64,
}

impl Activity {
    /// The numbers, in the order of the fields: what stores keep.
    pub const fn to_array(self) -> [i64; 6] {
        [self.submitted, self.started, self.succeeded, self.failed, self.waited_ms, self.ran_ms]
    }

    /// Reads what [`Self::to_array`] gave.
    pub const fn from_array(
        [submitted, started, succeeded, failed, waited_ms, ran_ms]: [i64; 6],
    ) -> Activity {
        Activity { submitted, started, succeeded, failed, waited_ms, ran_ms }
    }

    /// Adds other numbers to these.
    pub fn merge(&mut self, other: Activity) {
        let (mut sum, other) = (self.to_array(), other.to_array());
        sum.iter_mut().zip(other).for_each(|(sum, n)| *sum += n);
        *self = Activity::from_array(sum);
    }
}

/// What to write, all or nothing; and what to answer once it is durable.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// One answer per command, in order.
    pub answers: Vec<Answer>,
    /// New jobs.
    pub inserted: Vec<(Job, Arc<Input>)>,
    /// Jobs that changed.
    pub updated: Vec<Job>,
    /// Jobs to delete, with their input, results and outcomes.
    pub forgotten: Vec<Forgotten>,
    /// Outcomes of executions that ended. Never updated.
    pub outcomes: Vec<Outcome>,
    /// Outputs of executions that ended well.
    pub results: Vec<NewResult>,
    /// How the items of a batch ended, by execution; replaces what an earlier attempt of the same execution left.
    pub items: BTreeMap<ExecutionId, Arc<[ItemEnd]>>,
    /// Executions opened by a manual retry, and whose they are. A job's first execution has the job's id and no row.
    pub executions: Vec<(ExecutionId, JobId)>,
    /// Idempotency keys that no row has, once `keys_removed` are gone.
    pub keys: Vec<(IdempotencyKey, KeyRow)>,
    /// Idempotency keys forgotten with their jobs. To be removed before `keys` are written: a batch may forget a key and
    /// use it anew.
    pub keys_removed: Vec<IdempotencyKey>,
    /// Unique keys and their new holders.
    pub uniques: BTreeMap<[u8; 32], JobId>,
    /// Unique keys to let go, where this job is still the holder.
    pub uniques_removed: Vec<([u8; 32], JobId)>,
    /// Limit rows that changed.
    pub limits: BTreeMap<Name, LimitRow>,
    /// Records that changed.
    pub records: BTreeMap<RecordKey, RecordChange>,
    /// New clients.
    pub clients: Vec<Client>,
    /// Clients, new or not, that have had a key from now on.
    pub clients_keyed: BTreeSet<ClientId>,
    /// Keys that are new or changed, by id.
    pub api_keys: BTreeMap<KeyId, ApiKey>,
    /// By how much the counts of a queue change, by its key.
    pub counts: BTreeMap<Name, Counts>,
    /// What happened in a queue, by its key and minute.
    pub activity: BTreeMap<(Name, Minute), Activity>,
    /// What happened, in order: one journal row.
    pub journal: Vec<JournalEntry>,
    /// Shelves on which there is claimable work that no worker of this batch took.
    pub woken: BTreeSet<Shelf>,
    /// Whoever waits for work should look, wherever that is: the operator resumed the queues of all owners.
    pub wake_all: bool,
    /// The earliest moment at which one of the written jobs or records is due.
    pub next_due: Option<Time>,
    /// Webhooks that are new or changed, by id.
    pub webhooks: BTreeMap<WebhookId, Webhook>,
    /// Webhooks to delete. Their deliveries stay until they are settled and swept.
    pub webhooks_removed: Vec<WebhookId>,
    /// New deliveries.
    pub deliveries: Vec<Delivery>,
    /// Deliveries that changed. One whose job is deleted goes with it.
    pub deliveries_changed: Vec<Delivery>,
    /// The earliest moment at which a delivery that was written, or held for a look, is due.
    pub delivery_due: Option<Time>,
    /// Keys to sign with that are new or changed, by id.
    pub signing_keys: BTreeMap<SigningKeyId, SigningKey>,
    /// Keys to sign with that nobody needs any more.
    pub signing_keys_removed: Vec<SigningKeyId>,
    /// Counts that were uncertain and must be exact. Nothing else in here is to be written then: the batch is to be decided
    /// again.
    pub exact: CountSet,
    /// Rows that are needed and were not loaded: what happens at the end of a job may depend on them, and who ends in a batch is not
    /// known before. Nothing else in here is to be written then: the batch is to be decided again, with these rows besides.
    pub more: MoreRows,
    /// Rows to set aside: they leave every shelf, chain and due time, stay as they are otherwise, and are listed.
    pub set_aside: Vec<SetAside>,
    /// Rows that are not to be listed as set aside any more.
    pub restored: Vec<RowId>,
}

impl Changes {
    /// Whether there is nothing to write. Such a batch costs no transaction.
    pub fn is_empty(&self) -> bool {
        // Whatever else is written comes with a job that changed. A key may come alone, where its job was met, not made.
        self.inserted.is_empty()
            && self.updated.is_empty()
            && self.forgotten.is_empty()
            && self.records.is_empty()
            && self.keys.is_empty()
            && self.clients.is_empty()
            && self.api_keys.is_empty()
            && self.journal.is_empty()
            && self.webhooks.is_empty()
            && self.webhooks_removed.is_empty()
            && self.deliveries.is_empty()
            && self.deliveries_changed.is_empty()
            && self.signing_keys.is_empty()
            && self.set_aside.is_empty()
            && self.restored.is_empty()
    }

    /// Blobs that a worker has uploaded and not reported yet, with the end of its lease: they do not count as loose before.
    pub fn blobs_held(&self) -> impl Iterator<Item = (BlobId, Time)> {
        self.updated.iter().filter_map(|job| {
            let lease = job.lease.as_ref()?;
            match &lease.upload.as_ref()?.content {
                Content::Stored(blob) => Some((blob.id, lease.until)),
                Content::Inline(_) => None,
            }
        })
    }
}

/// The last word on one execution: built once, the same bytes on every road.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Which execution.
    pub execution: ExecutionId,
    /// Of which job.
    pub job: JobId,
    /// The object.
    pub object: Object,
}

/// What an execution left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewResult {
    /// Which execution.
    pub execution: ExecutionId,
    /// What it left. Bytes beside the rows belong to the result from now on.
    pub output: Arc<Output>,
    /// When the content goes; `None` where it stays as long as the job.
    pub expires_at: Option<Time>,
}

/// Bytes and their digest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// The serialised object.
    pub bytes: Vec<u8>,
    /// SHA-256 of the bytes.
    pub digest: [u8; 32],
}

/// A job to delete, and what remains of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    /// Which job.
    pub job: JobId,
    /// Its executions, each of which leaves a tombstone.
    pub executions: Vec<ExecutionId>,
    /// Whose it was.
    pub client: ClientId,
    /// When it was forgotten.
    pub at: Time,
    /// How long it was kept once it had ended; `None` where somebody had it deleted before its time.
    pub kept: Option<Duration>,
}

/// Builds the outcome object of an execution that has just ended. A pure function of the job; the words and URLs in it
/// are a dialect's business, which is why it is handed in.
pub trait Render: Send + Sync {
    /// The object for the execution under way of `job`, whose state is final. `items` tells how the items of a batch ended;
    /// empty for what is none, or was not ended by its worker.
    fn outcome(&self, job: &Job, items: &[ItemEnd]) -> Object;
}
