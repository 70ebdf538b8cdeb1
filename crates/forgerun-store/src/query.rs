//! What can be read without locking. [`Store::read`] takes a [`Query`] and gives a [`Page`]; the methods on `dyn Store`
//! below give each query its own type back.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::client_limits::ClientUsage;
use forgerun_core::command::Content;
use forgerun_core::delivery::{Delivery, DeliveryStatus};
#[cfg(any(feature = "sqlite", feature = "postgres"))]
use forgerun_core::history::decode_entries;
use forgerun_core::history::{Event, JournalEntry};
use forgerun_core::id::{ClientId, DeliveryId, ExecutionId, JobId, WebhookId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Input, Job, Lane, Name, QueueOrder, Shelf};
use forgerun_core::log::LogSummary;
use forgerun_core::queue::Owner;
use forgerun_core::record::{Record, RecordKey, RecordKind, Stored};
use forgerun_core::rows::{Activity, Counts, LimitRow, Minute, Outcome};
use forgerun_core::set_aside::SetAside;
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::webhook::{SigningKey, Webhook};
use forgerun_core::workflow::WorkflowHead;

use crate::operator::OperatorQuery;
use crate::{Error, IdSuffix, LogChunk, LogQuery, Store};

/// One question.
#[derive(Clone, Debug)]
pub enum Query {
    Job(JobId),
    Inputs(Vec<JobId>),
    JobOf(ExecutionId),
    Outcome(ExecutionId),
    Result(ExecutionId),
    Items(ExecutionId),
    Tombstone(ExecutionId),
    Jobs(Filter),
    Shelf { shelf: Shelf, after: Option<JobId>, limit: usize },
    Oldest(Shelf),
    Front { shelf: Shelf, limit: usize },
    DeadLetters { limit: usize },
    Ahead { shelf: Shelf, order: QueueOrder, limit: usize },
    NextDue,
    Queues { prefix: String },
    Counts(Name),
    Activity { queue: Name, since: Minute },
    Limit(Name),
    Limits { prefix: String, limit: usize },
    DeadLettersOf { client: ClientId, queue: Option<Name>, after: Option<JobId>, limit: usize },
    ShelfNames { lane: Lane, after: String, limit: usize },
    Record(RecordKey),
    Records { kind: RecordKind, group: Option<String>, after: String, limit: usize },
    Client(ClientId),
    ApiKey([u8; 32]),
    Journal { after: i64, limit: usize },
    JournalEnd,
    JournalBefore(Time),
    JobsById(Vec<JobId>),
    Outcomes(Vec<ExecutionId>),
    Webhook(WebhookId),
    Webhooks { client: ClientId, after: Option<WebhookId>, limit: usize },
    Delivery(DeliveryId),
    Deliveries(DeliveryFilter),
    NextDelivery,
    SigningKeys,
    SetAside { limit: usize },
    Operator(OperatorQuery),
    Logs(LogQuery),
    LogSummary { job: JobId, attempt: Option<u32> },
    LogBytes(ClientId),
}

/// One answer; always the variant that belongs to the question.
#[derive(Clone, Debug)]
pub enum Page {
    Job(Option<Arc<Job>>),
    Jobs(Vec<Job>),
    JobList(ListPage<Job, JobId>),
    Inputs(Vec<(JobId, Input)>),
    JobId(Option<JobId>),
    Outcome(Option<Outcome>),
    Result(Option<Box<StoredResult>>),
    Items(Option<Vec<ItemEnd>>),
    Tombstone(Option<Tombstone>),
    Ahead(JobsAhead),
    Count(u64),
    Moment(Option<Time>),
    Queues(Vec<QueueCounts>),
    Counts(Counts),
    Activity(Activity),
    Limit(Option<LimitRow>),
    Limits(Vec<(Name, LimitRow)>),
    Names(Vec<Name>),
    Record(Option<Record>),
    Records(Vec<Record>),
    Client(Option<Client>),
    ApiKey(Option<ApiKey>),
    Journal(Vec<JournalRow>),
    Position(i64),
    Outcomes(Vec<Outcome>),
    Webhook(Option<Box<Webhook>>),
    Webhooks(Vec<Webhook>),
    Delivery(Option<Box<Delivery>>),
    DeliveryList(ListPage<Delivery, DeliveryId>),
    SigningKeys(Vec<SigningKey>),
    SetAside(Vec<SetAside>),
    ActivityByQueue(Vec<(Name, Activity)>),
    ActivityByMinute(Vec<(Minute, Activity)>),
    Clients(Vec<Client>),
    ApiKeys(Vec<ApiKey>),
    Logs(Vec<LogChunk>),
    LogSummary(LogSummary),
}

/// Clients whose lists are merged to show jobs of all of them that are in rare states. With more, the jobs are walked by id.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) const CLIENTS_MERGED_MAX: usize = 500;

/// Priorities of a shelf that are looked at for its oldest job, the highest first. Hardly any queue has three.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) const PRIORITIES_LOOKED_AT_MAX: usize = 100;

/// Which jobs to list, newest first.
#[derive(Clone, Debug)]
pub struct Filter {
    /// Only jobs of this client; `None` for all clients that are registered.
    pub client: Option<ClientId>,
    /// Only jobs in one of these states; empty means all.
    pub states: Vec<State>,
    /// Only jobs of this queue.
    pub queue: Option<Name>,
    /// Only jobs of this type.
    pub job_type: Option<String>,
    /// Only dead letters, or only what is none.
    pub dead: Option<bool>,
    /// Only jobs whose id ends like this.
    pub id_suffix: Option<IdSuffix>,
    /// Only jobs that have all of these tags.
    pub tags: Vec<String>,
    /// Only jobs that failed and wait for their next attempt.
    pub retrying: bool,
    /// Only workflows with this name.
    pub workflow_name: Option<String>,
    /// Only jobs older than this one: where the last page ended.
    pub before: Option<JobId>,
    /// At most so many.
    pub limit: usize,
    /// Rows that the page may look at. Past that it ends, full or not.
    pub look_max: usize,
}

impl Filter {
    /// Whether a job passes what no column knows.
    pub fn fits_inside(&self, job: &Job) -> bool {
        let has_name = |name: &String| job.head.workflow_head.as_ref().is_some_and(|head| head.name == *name);
        self.tags.iter().all(|tag| job.head.tags.contains(tag))
            && (!self.retrying || job.is_retrying())
            && self.workflow_name.as_ref().is_none_or(has_name)
    }

    /// Whether jobs have to be decoded to see if they pass: marks have an index.
    #[cfg(feature = "postgres")]
    pub(crate) fn looks_inside(&self) -> bool {
        self.workflow_name.is_some()
    }

    /// Whether only workflows pass: these have an index of their own in every store.
    pub(crate) fn is_for_workflows(&self) -> bool {
        self.job_type.as_deref() == Some(WorkflowHead::JOB_TYPE)
    }
}

impl Default for Filter {
    /// All jobs, and none of them: the limit is zero.
    fn default() -> Self {
        Filter {
            client: None,
            states: Vec::new(),
            queue: None,
            job_type: None,
            dead: None,
            id_suffix: None,
            tags: Vec::new(),
            retrying: false,
            workflow_name: None,
            before: None,
            limit: 0,
            look_max: usize::MAX,
        }
    }
}

/// A page of a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListPage<T, Id> {
    /// What passed the filter, newest first; perhaps nothing, although there is more.
    pub rows: Vec<T>,
    /// Where to go on: everything down to this one was looked at. `None` at the end.
    pub next: Option<Id>,
}

/// Which deliveries to list, newest first.
#[derive(Clone, Copy, Debug)]
pub struct DeliveryFilter {
    /// Whose.
    pub of: DeliveriesOf,
    /// Only those that stand like this.
    pub status: Option<DeliveryStatus>,
    /// Only deliveries older than this one: where the last page ended.
    pub before: Option<DeliveryId>,
    /// At most so many.
    pub limit: usize,
    /// Rows that the page may look at. Past that it ends, full or not.
    pub look_max: usize,
}

/// Whose deliveries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeliveriesOf {
    /// Those to a webhook.
    Webhook(WebhookId),
    /// Those about a job, to whomever.
    Job(JobId),
}

/// One transaction of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalRow {
    /// Its place: a reader that has seen this one has seen all before it.
    pub seq: i64,
    /// What happened, in order.
    pub entries: Vec<JournalEntry>,
}

impl JournalRow {
    /// One that cannot be read has no entries, so that whoever reads on comes past it.
    #[cfg(any(feature = "sqlite", feature = "postgres"))]
    pub(crate) fn decode(seq: i64, entries: &[u8]) -> JournalRow {
        let entries = decode_entries(entries).unwrap_or_else(|error| {
            tracing::error!(row = seq, %error, "journal row unreadable: its events are skipped");
            Vec::new()
        });
        JournalRow { seq, entries }
    }

    /// What happened to jobs, in order.
    pub fn job_events(&self) -> impl Iterator<Item = (JobId, &Event)> {
        self.entries.iter().filter_map(JournalEntry::job_event)
    }
}

/// What an execution left, as far as it is still there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredResult {
    /// The media type, as the worker gave it.
    pub media_type: String,
    /// What the worker calls it, if it is a file.
    pub file_name: Option<String>,
    /// How many bytes it has, or had.
    pub size: u64,
    /// When the content goes; `None` where it stays as long as the job.
    pub expires_at: Option<Time>,
    /// `None` once it was removed, which may be a while after it expired.
    pub content: Option<Content>,
}

/// What is left of a forgotten job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tombstone {
    /// Whose it was.
    pub client: ClientId,
    /// When it was forgotten.
    pub at: Time,
    /// How long it was kept once it had ended; `None` if it was deleted before its time, or by a version that did not say.
    pub kept: Option<Duration>,
}

/// How many jobs stand before another on its shelf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobsAhead {
    /// So many.
    Exactly(u64),
    /// At least as many as were counted. Of the rest only the waiting jobs of the whole queue are known, which this is: those
    /// behind the job are in it, and those of the other kind of worker.
    About(u64),
}

impl JobsAhead {
    /// Where counting stopped: a job before which fewer stand knows its exact place. `waiting` is the number of the queue.
    pub(crate) fn counted(n: u64, limit: usize, waiting: impl FnOnce() -> i64) -> JobsAhead {
        if n < limit as u64 {
            return JobsAhead::Exactly(n);
        }
        // The counts may be behind what was just seen.
        JobsAhead::About(u64::try_from(waiting() - 1).unwrap_or(0).max(n))
    }
}

/// A queue and where its jobs stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueueCounts {
    /// The key of the queue.
    pub queue: Name,
    /// How many of its jobs stand where.
    pub counts: Counts,
}

/// Reads a query whose page has exactly one shape.
macro_rules! page {
    ($store:expr, $query:expr, $page:ident) => {
        match $store.read($query).await? {
            Page::$page(found) => Ok(found),
            other => unreachable!("a store answered {other:?} to a question about something else"),
        }
    };
}

pub(crate) use page;

impl dyn Store {
    /// The job, if it exists.
    pub async fn job(&self, id: JobId) -> Result<Option<Arc<Job>>, Error> {
        page!(self, Query::Job(id), Job)
    }

    /// The inputs of these jobs; a job without input is left out.
    pub async fn inputs(&self, jobs: Vec<JobId>) -> Result<Vec<(JobId, Input)>, Error> {
        page!(self, Query::Inputs(jobs), Inputs)
    }

    /// The job that an execution opened by a manual retry belongs to. First executions have their job's id and are not
    /// listed.
    pub async fn job_of(&self, execution: ExecutionId) -> Result<Option<JobId>, Error> {
        page!(self, Query::JobOf(execution), JobId)
    }

    /// The outcome of an execution that has ended.
    pub async fn outcome(&self, execution: ExecutionId) -> Result<Option<Outcome>, Error> {
        page!(self, Query::Outcome(execution), Outcome)
    }

    /// What an execution left.
    pub async fn result(&self, execution: ExecutionId) -> Result<Option<Box<StoredResult>>, Error> {
        page!(self, Query::Result(execution), Result)
    }

    /// How the items of a batch ended, as far as an attempt of this execution has said so.
    pub async fn items(&self, execution: ExecutionId) -> Result<Option<Vec<ItemEnd>>, Error> {
        page!(self, Query::Items(execution), Items)
    }

    /// What is left of an execution whose job was forgotten.
    pub async fn tombstone(&self, execution: ExecutionId) -> Result<Option<Tombstone>, Error> {
        page!(self, Query::Tombstone(execution), Tombstone)
    }

    /// A page of jobs, newest first, and where to go on.
    pub async fn list_jobs(&self, filter: Filter) -> Result<ListPage<Job, JobId>, Error> {
        page!(self, Query::Jobs(filter), JobList)
    }

    /// A page of jobs, newest first.
    pub async fn jobs(&self, filter: Filter) -> Result<Vec<Job>, Error> {
        Ok(self.list_jobs(filter).await?.rows)
    }

    /// A page of the jobs on a shelf, oldest first whatever their priority, after the job that ended the last page.
    pub async fn shelf(&self, shelf: Shelf, after: Option<JobId>, limit: usize) -> Result<Vec<Job>, Error> {
        page!(self, Query::Shelf { shelf, after, limit }, Jobs)
    }

    /// The job on a shelf that was accepted first, whatever its priority: one step in an index per priority that occurs, of which
    /// [`PRIORITIES_LOOKED_AT_MAX`] are looked at.
    pub async fn oldest(&self, shelf: Shelf) -> Result<Option<Arc<Job>>, Error> {
        page!(self, Query::Oldest(shelf), Job)
    }

    /// The first jobs of a shelf, in the order in which claims take them.
    pub async fn front(&self, shelf: Shelf, limit: usize) -> Result<Vec<Job>, Error> {
        page!(self, Query::Front { shelf, limit }, Jobs)
    }

    /// How many dead letters there are, over all queues; counting ends at `limit`.
    pub async fn dead_letters(&self, limit: usize) -> Result<u64, Error> {
        page!(self, Query::DeadLetters { limit }, Count)
    }

    /// How many jobs a claim would take before this one: exact below `limit`, an estimate beyond. `None` for a job that stands
    /// on no shelf of claimable work. Costs a walk over `limit` entries of an index at most, however many wait.
    pub async fn ahead(&self, job: &Job, limit: usize) -> Result<Option<JobsAhead>, Error> {
        let claimable = |shelf: &Shelf| match shelf.lane {
            Lane::External | Lane::BuiltIn => true,
            Lane::Parked | Lane::Dead | Lane::Failed | Lane::Behind => false,
        };
        // How soon the turn of a fair key comes depends on the other keys.
        let Some(shelf) = job.shelf().filter(|shelf| claimable(shelf) && job.head.fair.is_none()) else {
            return Ok(None);
        };
        let order = job.order();
        let ahead: Result<JobsAhead, Error> = page!(self, Query::Ahead { shelf, order, limit }, Ahead);
        ahead.map(Some)
    }

    /// The earliest moment at which a job is due.
    pub async fn next_due(&self) -> Result<Option<Time>, Error> {
        page!(self, Query::NextDue, Moment)
    }

    /// Every queue that has a job, by its key.
    pub async fn queues(&self) -> Result<Vec<QueueCounts>, Error> {
        let found: Result<Vec<QueueCounts>, Error> =
            page!(self, Query::Queues { prefix: String::new() }, Queues);
        let mut queues = found?;
        queues.retain(|queue| !ClientUsage::is_key(&queue.queue));
        Ok(queues)
    }

    /// The queues of an owner that have a job, by key.
    pub async fn queues_of(&self, owner: &Owner) -> Result<Vec<QueueCounts>, Error> {
        page!(self, Query::Queues { prefix: owner.prefix() }, Queues)
    }

    /// The queues of a client and of all its tenants that have a job, by key.
    pub async fn queues_of_client(&self, client: ClientId) -> Result<Vec<QueueCounts>, Error> {
        let mut prefix = Owner::client(client).prefix();
        // Behind the client stands the tenant.
        prefix.pop();
        page!(self, Query::Queues { prefix }, Queues)
    }

    /// What a client uses of its limits.
    pub async fn client_usage(&self, client: ClientId) -> Result<ClientUsage, Error> {
        Ok(ClientUsage::from_counts(&self.counts(ClientUsage::key(client)).await?))
    }

    /// Where the jobs of a queue stand, by its key.
    pub async fn counts(&self, queue: Name) -> Result<Counts, Error> {
        page!(self, Query::Counts(queue), Counts)
    }

    /// What happened in a queue since a minute, by its key.
    pub async fn activity(&self, queue: Name, since: Minute) -> Result<Activity, Error> {
        page!(self, Query::Activity { queue, since }, Activity)
    }

    /// The state of a limit; `None` if no job with it was ever handed out.
    pub async fn limit(&self, key: Name) -> Result<Option<LimitRow>, Error> {
        page!(self, Query::Limit(key), Limit)
    }

    /// The limits of an owner under which jobs were handed out lately, by key; at most `limit`.
    pub async fn limits_of(&self, owner: &Owner, limit: usize) -> Result<Vec<(Name, LimitRow)>, Error> {
        page!(self, Query::Limits { prefix: owner.prefix(), limit }, Limits)
    }

    /// A page of the dead letters of a client, oldest first, after the job that ended the last page.
    pub async fn dead_letters_of(
        &self,
        client: ClientId,
        queue: Option<Name>,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, Error> {
        page!(self, Query::DeadLettersOf { client, queue, after, limit }, Jobs)
    }

    /// The names of the shelves of a lane on which a job stands, after this one.
    pub async fn shelf_names(&self, lane: Lane, after: String, limit: usize) -> Result<Vec<Name>, Error> {
        page!(self, Query::ShelfNames { lane, after, limit }, Names)
    }

    /// The record with this key, if it exists and can be read.
    pub async fn record<T: Stored>(&self, key: String) -> Result<Option<T>, Error> {
        let record: Result<Option<Record>, Error> = page!(self, Query::Record(T::record_key(key)), Record);
        Ok(record?.and_then(|record| T::of(&record).ok()))
    }

    /// A page of records of one type, by key, after this one: those of a group, or all. One that cannot be read is left out.
    pub async fn records<T: Stored>(
        &self,
        group: Option<String>,
        after: String,
        limit: usize,
    ) -> Result<Vec<T>, Error> {
        let query = Query::Records { kind: T::KIND, group, after, limit };
        let records: Result<Vec<Record>, Error> = page!(self, query, Records);
        Ok(records?.iter().filter_map(|record| T::of(record).ok()).collect())
    }

    /// The client, if it is registered.
    pub async fn client(&self, id: ClientId) -> Result<Option<Client>, Error> {
        page!(self, Query::Client(id), Client)
    }

    /// The API key whose secret has this digest, good or not.
    pub async fn api_key(&self, digest: [u8; 32]) -> Result<Option<ApiKey>, Error> {
        page!(self, Query::ApiKey(digest), ApiKey)
    }

    /// The journal rows after a place, oldest first. A reader that goes on from the last `seq` it saw misses nothing: rows
    /// become visible in the order of their numbers. One that cannot be read has no entries.
    pub async fn journal(&self, after: i64, limit: usize) -> Result<Vec<JournalRow>, Error> {
        page!(self, Query::Journal { after, limit }, Journal)
    }

    /// The place of the newest journal row; zero when there is none.
    pub async fn journal_end(&self) -> Result<i64, Error> {
        page!(self, Query::JournalEnd, Position)
    }

    /// A place from which no event of this moment or later is missed: before the first row that holds one, or at the end.
    /// What was already there and is older may follow too, where clocks disagreed.
    pub async fn journal_before(&self, at: Time) -> Result<i64, Error> {
        page!(self, Query::JournalBefore(at), Position)
    }

    /// Those of these jobs that exist, in no order.
    pub async fn jobs_by_id(&self, ids: Vec<JobId>) -> Result<Vec<Job>, Error> {
        page!(self, Query::JobsById(ids), Jobs)
    }

    /// The outcomes of those of these executions that have ended, in no order.
    pub async fn outcomes(&self, executions: Vec<ExecutionId>) -> Result<Vec<Outcome>, Error> {
        page!(self, Query::Outcomes(executions), Outcomes)
    }

    /// The webhook, if it is registered.
    pub async fn webhook(&self, id: WebhookId) -> Result<Option<Box<Webhook>>, Error> {
        page!(self, Query::Webhook(id), Webhook)
    }

    /// A page of the webhooks of a client, oldest first, after the one that ended the last page.
    pub async fn webhooks(
        &self,
        client: ClientId,
        after: Option<WebhookId>,
        limit: usize,
    ) -> Result<Vec<Webhook>, Error> {
        page!(self, Query::Webhooks { client, after, limit }, Webhooks)
    }

    /// The delivery, if it is kept.
    pub async fn delivery(&self, id: DeliveryId) -> Result<Option<Box<Delivery>>, Error> {
        page!(self, Query::Delivery(id), Delivery)
    }

    /// A page of deliveries, newest first, and where to go on.
    pub async fn list_deliveries(
        &self,
        filter: DeliveryFilter,
    ) -> Result<ListPage<Delivery, DeliveryId>, Error> {
        page!(self, Query::Deliveries(filter), DeliveryList)
    }

    /// A page of deliveries, newest first.
    pub async fn deliveries(&self, filter: DeliveryFilter) -> Result<Vec<Delivery>, Error> {
        Ok(self.list_deliveries(filter).await?.rows)
    }

    /// The earliest moment at which a delivery is due.
    pub async fn next_delivery(&self) -> Result<Option<Time>, Error> {
        page!(self, Query::NextDelivery, Moment)
    }

    /// The keys that deliveries are signed with, oldest first.
    pub async fn signing_keys(&self) -> Result<Vec<SigningKey>, Error> {
        page!(self, Query::SigningKeys, SigningKeys)
    }

    /// Chunks of a job's log, oldest first.
    pub async fn logs(&self, query: LogQuery) -> Result<Vec<LogChunk>, Error> {
        page!(self, Query::Logs(query), Logs)
    }

    /// How much there is of the log of a job, or of one attempt.
    pub async fn log_summary(&self, job: JobId, attempt: Option<u32>) -> Result<LogSummary, Error> {
        page!(self, Query::LogSummary { job, attempt }, LogSummary)
    }

    /// Bytes of all logs of a client.
    pub async fn log_bytes(&self, client: ClientId) -> Result<u64, Error> {
        page!(self, Query::LogBytes(client), Count)
    }

    /// Rows that are set aside, jobs first: nobody could read them, or the rules broke on them.
    pub async fn set_aside(&self, limit: usize) -> Result<Vec<SetAside>, Error> {
        page!(self, Query::SetAside { limit }, SetAside)
    }
}
