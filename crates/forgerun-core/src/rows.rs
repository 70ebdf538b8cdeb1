//! The interface between the rules and a store: [`Wants`] (rows that a batch needs), [`Rows`] (what
//! the store found) and [`Changes`] (what to write).
//!
//! A store locks the rows it returns until the changes are written. Counts are the exception: on a
//! store that several nodes share, they do not include what concurrent transactions add. If a bound
//! depends on a count, the batch asks for an *exact* one ([`Wants::exact`]), or asks for it after
//! it has seen the count ([`Changes::exact`]).

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
use crate::related::RelatedTurns;
use crate::set_aside::{RowId, SetAside, Unreadable};
use crate::state::{Facet, State};
use crate::time::Time;
use crate::webhook::{SigningKey, Webhook};

/// Rows that a batch needs. A store loads and locks them, and the related rows of what it found
/// ([`related`](crate::related)).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wants {
    /// Jobs that commands name. If one of them cannot be read, nothing is loaded.
    pub jobs: BTreeSet<JobId>,
    /// Further jobs. An unreadable one is in [`Rows::unreadable`]: no command names it, so none
    /// fails because of it.
    pub jobs_sought: BTreeSet<JobId>,
    /// Shelves, and how many jobs from the head of each. A shared store skips jobs that another
    /// node has locked.
    pub shelves: BTreeMap<Shelf, usize>,
    /// Up to `limit` jobs due at `now` or before, the longest due first, and up to
    /// [`limits::DUE_RECORDS_MAX`] records. Skips those that another node has locked.
    ///
    /// [`limits::DUE_RECORDS_MAX`]: crate::limits::DUE_RECORDS_MAX
    pub due: Option<DueWant>,
    pub keys: BTreeSet<IdempotencyKey>,
    pub uniques: BTreeSet<[u8; 32]>,
    /// The unique keys of these jobs.
    pub uniques_of: BTreeSet<JobId>,
    /// Records, not locked: a write is refused if the record changed meanwhile.
    pub records: BTreeSet<RecordKey>,
    pub clients: BTreeSet<ClientId>,
    /// Counts of these queues, by [`QueueId::key`](crate::queue::QueueId::key).
    pub counts: BTreeSet<Name>,
    pub active: bool,
    /// Limits of jobs that are not loaded, or not there yet.
    pub limits: BTreeSet<Name>,
    /// Counts to lock: other batches that need exact counts wait until this one is written.
    pub exact: CountSet,
    /// Clients whose webhooks to load, without a lock.
    pub webhooks_of: BTreeSet<ClientId>,
    pub webhooks: BTreeSet<WebhookId>,
    pub deliveries: BTreeSet<DeliveryId>,
    /// The first two open deliveries of each chain.
    pub chains: BTreeSet<Chain>,
    /// Up to `limit` deliveries due at `now` or before, the longest due first. Skips those that
    /// another node has locked.
    pub deliveries_due: Option<DueWant>,
    /// Given up deliveries to a webhook. Skips those that another node has locked.
    pub deliveries_failed: Vec<FailedWant>,
    /// All signing keys.
    pub signing_keys: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountSet {
    pub queues: BTreeSet<Name>,
    /// Queues of which no other batch hands out jobs meanwhile, by their keys.
    pub turns: BTreeSet<Name>,
    /// The number of jobs that workers hold, over all queues.
    pub active: bool,
}

impl CountSet {
    pub fn is_empty(&self) -> bool {
        self.queues.is_empty() && self.turns.is_empty() && !self.active
    }
}

/// Given up deliveries to a webhook, the oldest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FailedWant {
    pub webhook: WebhookId,
    /// Given up at this moment or later.
    pub since: Time,
    pub limit: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueWant {
    pub now: Time,
    pub limit: usize,
}

/// Rows that turned out to be needed while a batch was decided.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MoreRows {
    pub jobs: BTreeSet<JobId>,
    pub records: BTreeSet<RecordKey>,
    /// Keys of counts.
    pub counts: BTreeSet<Name>,
    pub limits: BTreeSet<Name>,
}

impl MoreRows {
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.records.is_empty() && self.counts.is_empty() && self.limits.is_empty()
    }

    pub fn extend(&mut self, more: MoreRows) {
        self.jobs.extend(more.jobs);
        self.records.extend(more.records);
        self.counts.extend(more.counts);
        self.limits.extend(more.limits);
    }
}

impl Wants {
    pub fn with(&self, more: &MoreRows) -> Wants {
        let mut wants = self.clone();
        wants.jobs_sought.extend(&more.jobs);
        wants.records.extend(more.records.iter().cloned());
        wants.counts.extend(more.counts.iter().cloned());
        wants.limits.extend(more.limits.iter().cloned());
        wants
    }
}

#[derive(Clone, Debug, Default)]
pub struct Rows {
    /// Rows loaded because an earlier decision of the same batch asked for them
    /// ([`Changes::more`]).
    pub more: MoreRows,
    /// Every loaded job, once.
    pub jobs: Vec<Job>,
    /// The requested shelves, and parked shelves of related rows: ids in shelf order.
    pub shelves: BTreeMap<Shelf, Vec<JobId>>,
    /// What was loaded for the turns of fair keys; a row of a limit that is missing is a new one.
    pub turns: RelatedTurns,
    /// Jobs without a fair key that stand behind the loaded ones of their shelf and priority.
    pub behind_turns: BTreeMap<(Shelf, i16), Vec<JobId>>,
    /// The longest due first.
    pub due: Vec<JobId>,
    pub keys: BTreeMap<IdempotencyKey, KeyRow>,
    /// Unique keys and their holders.
    pub uniques: BTreeMap<[u8; 32], JobId>,
    pub limits: BTreeMap<Name, LimitRow>,
    pub records: BTreeMap<RecordKey, Record>,
    /// The longest due first.
    pub records_due: Vec<RecordKey>,
    pub clients: BTreeMap<ClientId, Client>,
    /// Keys of the requested clients, oldest first.
    pub api_keys: Vec<ApiKey>,
    pub counts: BTreeMap<Name, Counts>,
    pub active: u64,
    /// Counts that concurrent batches may change. Empty if the store serialises transactions.
    pub uncertain: CountSet,
    /// Every loaded webhook, once.
    pub webhooks: Vec<Webhook>,
    /// Every loaded delivery, once.
    pub deliveries: Vec<Delivery>,
    /// The longest due first.
    pub deliveries_due: Vec<DeliveryId>,
    pub signing_keys: Vec<SigningKey>,
    /// Unreadable jobs and deliveries. Their ids stay where they were found (`shelves`, `due`,
    /// `deliveries_due`), so that the depth of the read is known. A row that a command names is not
    /// among them: it fails the batch.
    pub unreadable: Vec<Unreadable>,
}

/// The request of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyRow {
    pub fingerprint: [u8; 32],
    /// The jobs it made, in order.
    pub jobs: Vec<JobId>,
}

/// The state of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LimitRow {
    /// How many of its jobs workers hold.
    pub active: u32,
    /// Theoretical arrival time of the generic cell rate algorithm: the rate is used up until then.
    pub turn_at: Time,
}

impl Default for LimitRow {
    fn default() -> Self {
        LimitRow { active: 0, turn_at: Time::ZERO }
    }
}

/// Jobs of a queue by [`Facet`], or the change of these counts. A store sums changes per queue and
/// node, so that two nodes never wait for one counter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts(pub [i64; Facet::ALL.len()]);

impl Counts {
    pub const fn at(&self, facet: Facet) -> i64 {
        self.0[facet as usize]
    }

    pub fn of(&self, state: State) -> i64 {
        Facet::ALL.iter().filter(|facet| facet.state() == state).map(|&facet| self.at(facet)).sum()
    }

    pub const fn active(&self) -> i64 {
        self.at(Facet::Assigned) + self.at(Facet::Running)
    }

    /// Adds `n` jobs.
    pub const fn add(&mut self, facet: Facet, n: i64) {
        self.0[facet as usize] += n;
    }

    pub fn merge(&mut self, other: &Counts) {
        self.0.iter_mut().zip(other.0).for_each(|(sum, n)| *sum += n);
    }

    pub fn is_zero(&self) -> bool {
        self.0.iter().all(|&n| n == 0)
    }
}

/// Minutes since the epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Minute(pub i64);

impl Minute {
    pub const fn of(time: Time) -> Minute {
        Minute(time.as_micros().div_euclid(60_000_000))
    }
}

/// Events of a queue within a minute; summed for the figures of the last hour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    pub submitted: i64,
    pub started: i64,
    pub succeeded: i64,
    pub failed: i64,
    /// Total wait of the attempts that began, in milliseconds.
    pub waited_ms: i64,
    /// Total duration of the last attempts of the executions that ended, in milliseconds.
    pub ran_ms: i64,
}

impl Activity {
    pub const fn to_array(self) -> [i64; 6] {
        [self.submitted, self.started, self.succeeded, self.failed, self.waited_ms, self.ran_ms]
    }

    /// The inverse of [`Self::to_array`].
    pub const fn from_array(
        [submitted, started, succeeded, failed, waited_ms, ran_ms]: [i64; 6],
    ) -> Activity {
        Activity { submitted, started, succeeded, failed, waited_ms, ran_ms }
    }

    pub fn merge(&mut self, other: Activity) {
        let (mut sum, other) = (self.to_array(), other.to_array());
        sum.iter_mut().zip(other).for_each(|(sum, n)| *sum += n);
        *self = Activity::from_array(sum);
    }
}

/// What to write, all or nothing; and the answers to send once it is durable.
#[derive(Clone, Debug, Default)]
pub struct Changes {
    /// One answer per command, in order.
    pub answers: Vec<Answer>,
    pub inserted: Vec<(Job, Arc<Input>)>,
    pub updated: Vec<Job>,
    /// Jobs to delete, with their input, results and outcomes.
    pub forgotten: Vec<Forgotten>,
    /// Outcomes of ended executions. Never updated.
    pub outcomes: Vec<Outcome>,
    /// Outputs of successful executions.
    pub results: Vec<NewResult>,
    /// Ends of batch items, by execution; replace those of an earlier attempt.
    pub items: BTreeMap<ExecutionId, Arc<[ItemEnd]>>,
    /// Executions opened by a manual retry, and their jobs. A job's first execution has the job's
    /// id and no row.
    pub executions: Vec<(ExecutionId, JobId)>,
    /// New idempotency keys. Written after `keys_removed` are deleted.
    pub keys: Vec<(IdempotencyKey, KeyRow)>,
    /// Idempotency keys to delete with their jobs, before `keys` are written: a batch may delete a
    /// key and use it anew.
    pub keys_removed: Vec<IdempotencyKey>,
    /// Unique keys and their new holders.
    pub uniques: BTreeMap<[u8; 32], JobId>,
    /// Unique keys to release, if this job still is the holder.
    pub uniques_removed: Vec<([u8; 32], JobId)>,
    pub limits: BTreeMap<Name, LimitRow>,
    pub records: BTreeMap<RecordKey, RecordChange>,
    pub clients: Vec<Client>,
    /// Clients, new or not, that have had a key from now on.
    pub clients_keyed: BTreeSet<ClientId>,
    /// New or changed keys, by id.
    pub api_keys: BTreeMap<KeyId, ApiKey>,
    /// Changes of the counts of a queue, by its key.
    pub counts: BTreeMap<Name, Counts>,
    /// Activity of a queue, by its key and minute.
    pub activity: BTreeMap<(Name, Minute), Activity>,
    /// Events in order: one journal row.
    pub journal: Vec<JournalEntry>,
    /// Shelves with claimable jobs that no worker of this batch claimed.
    pub woken: BTreeSet<Shelf>,
    /// Wake all waiting workers: the operator resumed the queues of all owners.
    pub wake_all: bool,
    /// The earliest due moment of the written jobs and records.
    pub next_due: Option<Time>,
    /// New or changed webhooks, by id.
    pub webhooks: BTreeMap<WebhookId, Webhook>,
    /// Webhooks to delete. Their deliveries stay until they are settled and swept.
    pub webhooks_removed: Vec<WebhookId>,
    pub deliveries: Vec<Delivery>,
    /// Changed deliveries. They are deleted with their job.
    pub deliveries_changed: Vec<Delivery>,
    /// The earliest due moment of a written or locked delivery.
    pub delivery_due: Option<Time>,
    /// New or changed signing keys, by id.
    pub signing_keys: BTreeMap<SigningKeyId, SigningKey>,
    /// Signing keys to delete.
    pub signing_keys_removed: Vec<SigningKeyId>,
    /// Counts that were uncertain and must be exact. If set, nothing is written: the batch is
    /// decided again.
    pub exact: CountSet,
    /// Rows that are needed and were not loaded: the end of a job may depend on them, and which
    /// jobs end is known only after the decision. If set, nothing is written: the batch is decided
    /// again, with these rows.
    pub more: MoreRows,
    /// Rows to set aside: they leave every shelf, chain and due index, keep their bytes, and are
    /// listed.
    pub set_aside: Vec<SetAside>,
    /// Rows that are no longer set aside.
    pub restored: Vec<RowId>,
}

impl Changes {
    /// Whether there is nothing to write. Such a batch costs no transaction.
    pub fn is_empty(&self) -> bool {
        // All other changes come with a changed job. A key may come alone, if its job existed.
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

    /// Blobs that a worker has uploaded and not reported yet, with the end of its lease: they are
    /// not loose before.
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

/// The outcome of one execution: built once, the same bytes on every channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    pub execution: ExecutionId,
    pub job: JobId,
    pub object: Object,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewResult {
    pub execution: ExecutionId,
    /// Bytes of the content, however it is stored.
    pub size: u64,
    /// The result. A stored blob belongs to it from now on.
    pub output: Arc<Output>,
    /// When the content is deleted; `None` if with the job.
    pub expires_at: Option<Time>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    pub bytes: Vec<u8>,
    pub digest: [u8; 32],
}

/// A job to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forgotten {
    pub job: JobId,
    /// Its executions, each of which leaves a tombstone.
    pub executions: Vec<ExecutionId>,
    pub client: ClientId,
    pub at: Time,
    /// How long it was kept after its end; `None` if a client deleted it earlier.
    pub kept: Option<Duration>,
}

/// Builds the outcome object of an execution that has just ended. A pure function of the job. Words
/// and URLs depend on the dialect, so the caller passes it in.
pub trait Render: Send + Sync {
    /// The outcome object of the current execution of `job`, whose state is final. `items` are the
    /// ends of a batch's items; empty for other jobs, and for a batch that its worker did not end.
    fn outcome(&self, job: &Job, items: &[ItemEnd]) -> Object;
}
