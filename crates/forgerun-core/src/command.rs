//! What can be asked of the core, and what it answers.
//!
//! A command carries everything drawn from the outside world (ids, times, randomness); deciding it needs nothing else
//! but rows.

mod checkpoint;
mod failure;
mod key;
mod queue;
mod redrive;
mod refusal;
mod schedule;
mod schema;
mod sink;
mod webhook;
mod weight;
mod worker;
mod workflow;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;

use crate::catalog::Kind;
use crate::checkpoint::Checkpoint;
use crate::client::{ApiKey, Client, ClientName};
use crate::delivery::Delivery;
use crate::failure::FailureId;
use crate::id::{BlobId, ClientId, ExecutionId, JobId};
use crate::item::ItemEnd;
use crate::job::{Head, IdempotencyKey, Input, Job, Lane, Name, Shelf};
use crate::limits;
use crate::node::Node;
use crate::queue::{Owner, QueueId, QueueSettings};
use crate::quota::QuotaCount;
use crate::redrive::Redrive;
use crate::retry::RetryVerdict;
use crate::schedule::Schedule;
use crate::schema::SchemaEntry;
use crate::session::EndedSession;
use crate::set_aside::RowId;
use crate::sink::SinkCursor;
use crate::tally::NodeTally;
use crate::time::Time;
use crate::webhook::{SigningKey, Webhook};
pub use checkpoint::CheckpointCommand;
pub use failure::{FailureCommand, FailuresDue};
pub use key::KeyCommand;
pub use queue::{QueueChange, QueueCommand};
pub use redrive::{RedriveCommand, RedriveStep, RedriveTarget};
pub use refusal::Refusal;
pub use schedule::{DueTick, Firing, PutSchedule, ResumeSchedule, ScheduleCommand, Trigger};
pub use schema::SchemaCommand;
pub use sink::{SinkCommand, SinkReport, SinkTake};
pub use webhook::{
    ClaimedDeliveries, DeliveryClaim, DeliveryCommand, OwnedWebhook, SendResult, Settle, SigningCommand,
    WebhookChange, WebhookCommand,
};
pub use worker::{Heartbeat, HeartbeatAnswer, WorkerCommand, WorkerLost};
pub use workflow::{NewStep, NewWorkflow};

/// One thing asked of the core.
#[derive(Clone, Debug)]
pub enum Command {
    /// New jobs, all or none.
    Submit(Submit),
    /// A new workflow. It is cancelled, retried and forgotten as its own job.
    Workflow(Box<NewWorkflow>),
    /// A worker wants work.
    Claim(Claim),
    /// The worker has begun.
    Start(HeldJob),
    /// A result, sent before the attempt ends.
    Upload(Upload),
    /// A sign of life, perhaps with news.
    Extend(Extend),
    /// The attempt ended well.
    Succeed(Succeed),
    /// The attempt ended badly.
    Fail(Fail),
    /// The attempt at a batch ended: how, follows from its items.
    Conclude(Conclude),
    /// The worker gives the job back without an outcome.
    HandBack(HeldJob),
    /// The same, and the job is not claimable before the delay is over.
    Snooze(Snooze),
    /// Call a job off.
    Cancel(Cancel),
    /// Open another execution of a failed job.
    Retry(Retry),
    /// Release a job that was held.
    Activate(Owned),
    /// Do what has become due, at most so many jobs.
    Due(usize),
    /// Delete an ended job before its time.
    Forget(Owned),
    /// Register a client.
    Register(Client),
    /// Name a client, or take its name away.
    NameClient(ClientName),
    /// Make, renew or revoke an API key.
    Key(KeyCommand),
    /// Pause or resume a queue, or bound it.
    Queue(QueueCommand),
    /// A worker outside says that it is alive, or is told what to do, or is gone.
    Worker(WorkerCommand),
    /// Take, keep or leave the right to send for a sink, and say how far it is.
    Sink(SinkCommand),
    /// Register, change or delete a webhook.
    Webhook(WebhookCommand),
    /// Take, settle or repeat deliveries.
    Delivery(DeliveryCommand),
    /// Make the keys that deliveries are signed with.
    Signing(SigningCommand),
    /// Add up what failed, or forget a group of failures.
    Failure(FailureCommand),
    /// Begin a redrive, or take a step of one.
    Redrive(RedriveCommand),
    /// Register, pause, resume, trigger or delete a schedule; or deal with its ticks.
    Schedule(ScheduleCommand),
    /// Save or delete the checkpoint of a job.
    Checkpoint(CheckpointCommand),
    /// Register or delete a schema of a client.
    Schema(SchemaCommand),
    /// A node says that it is there.
    Node(Node),
    /// A node tells the others what its callers spent.
    Tally(Box<NodeTally>),
    /// Add to the requests that clients have made in all.
    Spend(Vec<QuotaCount>),
    /// The operator logged out.
    EndSession(EndedSession),
    /// Let a row that was set aside take part again, if it can be read by now.
    Restore(RowId),
}

/// New jobs, all or none.
#[derive(Clone, Debug)]
pub struct Submit {
    /// The jobs, in the order of their ids.
    pub jobs: Vec<NewJob>,
    /// Makes a repetition of the same request harmless.
    pub idempotency: Option<Idempotency>,
    /// Refuse when a queue would hold more waiting jobs than this; less may be set for the queue itself.
    pub queue_max: Option<u64>,
    /// Refuse when a queue is paused; otherwise its jobs wait.
    pub refuse_paused: bool,
}

/// A job about to be born.
#[derive(Clone, Debug)]
pub struct NewJob {
    /// Drawn by the server, or given by the client.
    pub id: JobId,
    /// Whether the client chose the id, so that it may be taken already.
    pub id_given: bool,
    /// All that is fixed from now on.
    pub head: Arc<Head>,
    /// The raw bytes that go with it.
    pub input: Arc<Input>,
}

impl NewJob {
    /// Whether it waits for nothing but a worker.
    pub fn starts_by(&self, now: Time) -> bool {
        !self.head.hold && self.head.execution_at.is_none_or(|at| at <= now)
    }

    /// Where a claim of the batch that bears it would find it, if anywhere. What a limit holds up is looked at only once it is stored.
    pub fn shelf_at(&self, now: Time) -> Option<Shelf> {
        (self.starts_by(now) && self.head.limit.is_none()).then(|| self.head.shelf())
    }
}

/// A key, and what the request behind it was.
#[derive(Clone, Debug)]
pub struct Idempotency {
    /// The key.
    pub key: IdempotencyKey,
    /// The digest of the request; the same key with another digest is refused.
    pub fingerprint: [u8; 32],
    /// The time that the request asks for is over: it may repeat one that was in time, but makes no new job.
    pub too_late: bool,
}

/// A worker wants work.
#[derive(Clone, Debug)]
pub struct Claim {
    /// Who asks.
    pub worker: Name,
    /// Real work of one owner, or simulated work.
    pub worker_kind: WorkerKind,
    /// Where to look, in this order; within a queue by priority, then by age.
    pub queues: Vec<Name>,
    /// At most so many jobs.
    pub limit: usize,
    /// How long the worker wants to hold them; `None` leaves it to the job.
    pub lease: Option<Duration>,
    /// How long where neither says.
    pub lease_default: Duration,
    /// Whether the worker begins at once, which saves it a [`Command::Start`].
    pub start: bool,
    /// Hand out nothing that would bring the number of jobs held by the built-in worker above this.
    pub active_max: Option<u64>,
}

impl Claim {
    /// The queues it looks at, in order.
    pub fn queue_ids(&self) -> impl Iterator<Item = QueueId> + '_ {
        let owner = match &self.worker_kind {
            WorkerKind::External(owner) => Some(owner),
            WorkerKind::BuiltIn => None,
        };
        let queues = self.queues.iter().take(limits::CLAIM_QUEUES_MAX);
        queues.map(move |name| QueueId { owner: owner.cloned(), name: name.clone() })
    }

    /// The shelves it looks at, in order.
    pub fn shelves(&self) -> impl Iterator<Item = Shelf> + '_ {
        let lane = self.worker_kind.lane();
        self.queue_ids().map(move |queue| Shelf { lane, name: queue.key() })
    }
}

/// Who does the work.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkerKind {
    /// Workers outside, with real work of this owner.
    External(Owner),
    /// The built-in worker, with simulated work.
    BuiltIn,
}

impl WorkerKind {
    /// Where these workers look for work.
    pub const fn lane(&self) -> Lane {
        match self {
            WorkerKind::External(_) => Lane::External,
            WorkerKind::BuiltIn => Lane::BuiltIn,
        }
    }
}

/// How a worker proves that it holds the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LeaseProof {
    /// By the fencing token of its claim.
    Token(u64),
    /// By its name, as the claim gave it.
    Worker(Name),
    /// Not at all; OJS workers may.
    Anyone,
}

/// A job, and who claims to hold it.
#[derive(Clone, Debug)]
pub struct HeldJob {
    /// Which job.
    pub job: JobId,
    /// The proof.
    pub proof: LeaseProof,
    /// The client that the worker works for; `None` for our own worker and for the operator's.
    pub client: Option<ClientId>,
}

/// A job, and who asks.
#[derive(Clone, Debug)]
pub struct Owned {
    /// Which job.
    pub job: JobId,
    /// The asking client; `None` for the operator.
    pub client: Option<ClientId>,
}

/// A sign of life.
#[derive(Clone, Debug)]
pub struct Extend {
    /// Which job, and the proof.
    pub held: HeldJob,
    /// Hold it for this long from now; `None` for as long as the claim said.
    pub lease: Option<Duration>,
    /// News that is no change of state.
    pub note: Option<Note>,
}

/// News that is no change of state.
#[derive(Clone, Debug)]
pub enum Note {
    /// How far the work is.
    Progress {
        /// 0 to 100; higher counts as 100.
        percent: u8,
        /// What the worker says about it.
        message: Option<String>,
    },
    /// The notification of an EMIT_EVENT job.
    Emitted,
}

/// The attempt ended well.
#[derive(Clone, Debug)]
pub struct Succeed {
    /// Which job, and the proof.
    pub held: HeldJob,
    /// What came out of it.
    pub output: Option<Arc<Output>>,
}

/// A result, sent before the attempt ends. It counts if the attempt then succeeds without another; a second one takes its place.
#[derive(Clone, Debug)]
pub struct Upload {
    /// Which job, and the proof.
    pub held: HeldJob,
    /// The result.
    pub output: Arc<Output>,
}

/// What came out of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The media type of the content.
    pub media_type: String,
    /// What the worker calls it, if it is a file.
    pub file_name: Option<String>,
    /// The content, as received.
    pub content: Content,
}

impl Output {
    /// A small output without a name.
    pub fn inline(media_type: &str, bytes: impl Into<Vec<u8>>) -> Output {
        Output { media_type: media_type.into(), file_name: None, content: Content::Inline(bytes.into()) }
    }
}

/// The content of an output: in the row itself while it is small, so that it costs nothing extra; beside the rows
/// otherwise, so that rows stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Up to about [`limits::INLINE_RESULT_BYTES_MAX`](crate::limits::INLINE_RESULT_BYTES_MAX).
    Inline(Vec<u8>),
    /// Written before the outcome is reported.
    Stored(Blob),
}

impl Content {
    /// How many bytes it has.
    pub const fn size(&self) -> u64 {
        match self {
            Content::Inline(bytes) => bytes.len() as u64,
            Content::Stored(blob) => blob.size,
        }
    }
}

/// Bytes that a store keeps beside its rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blob {
    /// Where they are.
    pub id: BlobId,
    /// How many.
    pub size: u64,
    /// Their SHA-256.
    pub digest: [u8; 32],
}

/// The worker hands a job back for a while. No attempt is counted.
#[derive(Clone, Debug)]
pub struct Snooze {
    /// Which job, and the proof.
    pub held: HeldJob,
    /// How long nobody may claim it; at most [`limits::RETRY_DELAY_MAX`].
    pub delay: Duration,
}

/// The attempt ended badly.
#[derive(Clone, Debug)]
pub struct Fail {
    /// Which job, and the proof.
    pub held: HeldJob,
    /// What went wrong.
    pub error: WorkError,
}

/// The attempt at a batch ended.
#[derive(Clone, Debug)]
pub struct Conclude {
    /// Which job, and the proof.
    pub held: HeldJob,
    /// How every item ended, in order, whether in this attempt or in one before.
    pub ends: Arc<[ItemEnd]>,
}

/// What went wrong, as the worker tells it.
#[derive(Clone, Debug)]
pub struct WorkError {
    /// The kind of failure, from the catalog.
    pub kind: Kind,
    /// The worker's own code; empty for the catalog's.
    pub code: String,
    /// In English.
    pub message: String,
    /// The worker's error class.
    pub class: Option<String>,
    /// Whether the worker thinks another try is worth it; `None` leaves it to the kind.
    pub retryable: Option<bool>,
    /// What the worker wants done, before any policy.
    pub verdict: Option<RetryVerdict>,
    /// Whatever else it sent.
    pub details: Vec<u8>,
    /// How long to wait before the retry; `None` leaves it to the policy.
    pub delay: Option<Duration>,
}

impl WorkError {
    /// A failure of this kind, with nothing of its own to say.
    pub fn new(kind: Kind, message: &str) -> WorkError {
        WorkError {
            kind,
            code: String::new(),
            message: message.into(),
            class: None,
            retryable: None,
            verdict: None,
            details: Vec::new(),
            delay: None,
        }
    }
}

/// Call a job off.
#[derive(Clone, Debug)]
pub struct Cancel {
    /// Which job, and who asks.
    pub owned: Owned,
    /// Only if this execution is under way; `None` for whichever is.
    pub execution: Option<ExecutionId>,
    /// `user`, or what the system calls itself.
    pub by: String,
    /// In English.
    pub reason: String,
    /// Of a workflow: undo first what its steps did, as far as they declare how. If that is under way, `false` stops it.
    pub compensate: bool,
}

/// Open another execution of a failed job.
#[derive(Clone, Debug)]
pub struct Retry {
    /// Which job, and who asks.
    pub owned: Owned,
    /// The id of the new execution.
    pub execution: ExecutionId,
    /// Begin with a full budget and an empty error history, at once: how a dead letter is revived.
    pub afresh: bool,
    /// Only if it is a dead letter.
    pub dead_letter: bool,
    /// Of a workflow: run this step again and all that depend on it, and leave the others as they are. `None` goes on from what
    /// failed, or begins anew if it was compensated.
    pub from: Option<u32>,
}

/// What became of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The jobs as they stand.
    Submitted {
        /// In the order of the request.
        jobs: Vec<Job>,
        /// They were there before: the request repeated one, or met a unique job and asked to ignore it.
        existing: bool,
    },
    /// The jobs the worker now holds; each carries its fencing token.
    Claimed {
        /// In the order of the claim.
        jobs: Vec<Job>,
        /// There may be more: asking again at once is worth it.
        more: bool,
        /// Nothing more is handed out until a job that a worker holds has ended.
        capped: bool,
    },
    /// Done; the job as it stands.
    Done(Job),
    /// There was nothing to do, and nothing changed; the job as it stands.
    Unchanged(Job),
    /// So many jobs and records were due.
    Due {
        /// How many jobs were dealt with. What cannot be read is not among them.
        n_jobs: usize,
        /// How many records.
        n_records: usize,
        /// There may be more.
        more: bool,
        /// Workers that are gone, and what they held: to be taken back by [`WorkerCommand::Lost`].
        workers_lost: Vec<WorkerLost>,
        /// Failures that are not added to their groups yet, and groups whose time is over.
        failures: FailuresDue,
        /// Schedules with ticks that are due: to be dealt with by [`ScheduleCommand::Fire`].
        schedules: Vec<Schedule>,
    },
    /// The schedule as it stands, or as it was before it was deleted.
    Schedule {
        /// The schedule.
        schedule: Box<Schedule>,
        /// It was registered by this command; otherwise it was there before.
        created: bool,
    },
    /// The checkpoint that was saved.
    Checkpoint(Box<Checkpoint>),
    /// The schema that was registered or deleted.
    Schema(Box<SchemaEntry>),
    /// The redrive after its step.
    Redriven(Box<Redrive>),
    /// What failed is added up.
    Folded {
        /// Groups beyond the bound, to be forgotten by [`FailureCommand::Forget`].
        surplus: Vec<FailureId>,
    },
    /// The queue as it is set.
    Queue(Box<QueueSettings>),
    /// What became of a heartbeat.
    Heartbeat(Box<HeartbeatAnswer>),
    /// The sink as it stands.
    Sink(Box<SinkCursor>),
    /// A key of the client.
    Key {
        /// As it stands.
        key: ApiKey,
        /// It was made by this command; otherwise it was there before.
        created: bool,
    },
    /// The webhook as it stands.
    Webhook(Box<Webhook>),
    /// The delivery as it stands.
    Delivery(Box<Delivery>),
    /// What a courier got.
    Taken(ClaimedDeliveries),
    /// So many deliveries will be sent again.
    Redelivered {
        /// How many.
        n_deliveries: usize,
        /// There may be more.
        more: bool,
    },
    /// What the clients have spent by now, in the order of the command.
    Spent(Vec<QuotaCount>),
    /// The keys that deliveries are signed with, oldest first.
    SigningKeys(Vec<SigningKey>),
    /// The job is gone, the queue is set, the client is registered, the key is revoked, the webhook is deleted, the row takes
    /// part again.
    Settled,
    /// Not done, and nothing changed.
    Refused(Refusal),
}
