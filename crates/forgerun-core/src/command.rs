//! Commands to the core, and its answers.
//!
//! A command carries everything from the outside world (ids, times, randomness). Deciding it needs
//! nothing else but rows.

mod audit;
mod checkpoint;
mod failure;
mod key;
mod queue;
mod redrive;
mod refusal;
mod schedule;
mod schema;
mod signal;
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
use crate::client_limits::ClientLimits;
use crate::delivery::Delivery;
use crate::failure::FailureId;
use crate::id::{BlobId, ClientId, ExecutionId, JobId};
use crate::item::ItemEnd;
use crate::job::{Head, IdempotencyKey, Input, Job, Lane, Name, Shelf};
use crate::limits;
use crate::memo::StepMemo;
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
use crate::token_key::TokenKey;
use crate::webhook::{SigningKey, Webhook};
pub use audit::{Audited, AuditedChange};
pub use checkpoint::CheckpointCommand;
pub use failure::{FailureCommand, FailuresDue};
pub use key::{KeyCaller, KeyCommand};
pub use queue::{QueueChange, QueueCommand};
pub use redrive::{RedriveCommand, RedriveStep, RedriveTarget};
pub use refusal::Refusal;
pub use schedule::{DueTick, Firing, PutSchedule, ResumeSchedule, ScheduleCommand, Trigger};
pub use schema::SchemaCommand;
pub use signal::{SendSignal, SignalTarget};
pub use sink::{SinkCommand, SinkReport, SinkTake};
pub use webhook::{
    ClaimedDeliveries, DeliveryClaim, DeliveryCommand, OwnedWebhook, SendResult, Settle, SigningCommand,
    WebhookChange, WebhookCommand,
};
pub use worker::{Heartbeat, HeartbeatAnswer, WorkerCommand, WorkerLost};
pub use workflow::{AddSteps, ListElements, ListRead, ListWanted, NewStep, NewWorkflow};

#[derive(Clone, Debug)]
pub enum Command {
    /// New jobs, all or nothing.
    Submit(Submit),
    /// A new workflow. Cancelling, retrying and forgetting it are commands to its own job.
    Workflow(Box<NewWorkflow>),
    /// New steps of a running workflow.
    AddSteps(Box<AddSteps>),
    /// Elements of the list of a `for_each`.
    ListElements(Box<ListElements>),
    /// End the wait of a workflow for a signal, or keep the signal for it.
    Signal(Box<SendSignal>),
    Claim(Claim),
    Start(HeldJob),
    /// A result that arrives before the attempt ends.
    Upload(Upload),
    /// Extends the lease, and may carry progress.
    Extend(Extend),
    Succeed(Succeed),
    Fail(Fail),
    /// Ends the attempt of a batch: its items decide how.
    Conclude(Conclude),
    /// The worker returns the job without an outcome.
    HandBack(HeldJob),
    /// Like `HandBack`, but the job is not claimable before the delay is over.
    Snooze(Snooze),
    Cancel(Cancel),
    Pause(JobPause),
    Retry(Retry),
    /// Release a held job.
    Activate(Owned),
    /// Process what is due, at most this many jobs.
    Due(usize),
    /// Delete an ended job before its retention is over.
    Forget(Owned),
    Register(Client),
    NameClient(ClientName),
    /// Set all limits of a client; without any, it has only those of all clients.
    LimitClient(ClientLimits),
    Key(KeyCommand),
    Queue(QueueCommand),
    /// A heartbeat, directive or loss of an external worker.
    Worker(WorkerCommand),
    /// Acquire, extend or release the right to send for a sink, and report its position.
    Sink(SinkCommand),
    Webhook(WebhookCommand),
    /// Claim, settle or repeat deliveries.
    Delivery(DeliveryCommand),
    Signing(SigningCommand),
    /// Add counted failures to their groups, or forget a group.
    Failure(FailureCommand),
    /// Begin a redrive, or run one step of it.
    Redrive(RedriveCommand),
    /// Register, pause, resume, trigger or delete a schedule, or process its ticks.
    Schedule(ScheduleCommand),
    Checkpoint(CheckpointCommand),
    Schema(SchemaCommand),
    /// A heartbeat of a node.
    Node(Node),
    /// A node reports to the others what its callers spent.
    Tally(Box<NodeTally>),
    /// Add to the total requests of clients.
    Spend(Vec<QuotaCount>),
    EndSession(EndedSession),
    /// A change, and its entry in the audit trail.
    Audited(Box<Audited>),
    /// Store the key of job tokens, unless there is one.
    TokenKey(TokenKey),
    /// Return a row that was set aside to service, if it is readable again.
    Restore(RowId),
}

/// New jobs, all or nothing.
#[derive(Clone, Debug)]
pub struct Submit {
    /// Sorted by id.
    pub jobs: Vec<NewJob>,
    /// Makes a repetition of the same request harmless.
    pub idempotency: Option<Idempotency>,
    /// Refuse if a queue would hold more waiting jobs than this. The queue's own bound may be
    /// lower.
    pub queue_max: Option<u64>,
    /// Refuse if a queue is paused; otherwise its jobs wait.
    pub refuse_paused: bool,
}

#[derive(Clone, Debug)]
pub struct NewJob {
    /// Generated by the server, or chosen by the client.
    pub id: JobId,
    /// Whether the client chose the id, so that it may be in use already.
    pub id_given: bool,
    pub head: Arc<Head>,
    pub input: Arc<Input>,
}

impl NewJob {
    /// Whether the job waits for a worker only.
    pub fn starts_by(&self, now: Time) -> bool {
        !self.head.hold && self.head.execution_at.is_none_or(|at| at <= now)
    }

    /// Where a claim in the same batch finds the job, if anywhere. A job held up by a limit is
    /// checked only after it is stored.
    pub fn shelf_at(&self, now: Time) -> Option<Shelf> {
        (self.starts_by(now) && self.head.limits.is_empty()).then(|| self.head.shelf())
    }
}

/// An idempotency key and the fingerprint of its request.
#[derive(Clone, Debug)]
pub struct Idempotency {
    pub key: IdempotencyKey,
    /// Digest of the request; the same key with another digest is refused.
    pub fingerprint: [u8; 32],
    /// The requested time has passed: the request may repeat one that was in time, but makes no new
    /// job.
    pub too_late: bool,
}

#[derive(Clone, Debug)]
pub struct Claim {
    pub worker: Name,
    /// Real work of one owner, or simulated work.
    pub worker_kind: WorkerKind,
    /// Queues to search, in this order; within a queue by priority, then by age.
    pub queues: Vec<Name>,
    /// At most this many jobs.
    pub limit: usize,
    /// Lease the worker asks for; `None` uses the job's own.
    pub lease: Option<Duration>,
    /// Lease if neither the worker nor the job sets one.
    pub lease_default: Duration,
    /// Whether the worker starts at once, which saves a [`Command::Start`].
    pub start: bool,
    /// Hand out no job that would bring the number held by the built-in worker above this.
    pub active_max: Option<u64>,
}

impl Claim {
    pub fn queue_ids(&self) -> impl Iterator<Item = QueueId> + '_ {
        let owner = match &self.worker_kind {
            WorkerKind::External(owner) => Some(owner),
            WorkerKind::BuiltIn => None,
        };
        let queues = self.queues.iter().take(limits::CLAIM_QUEUES_MAX);
        queues.map(move |name| QueueId { owner: owner.cloned(), name: name.clone() })
    }

    pub fn shelves(&self) -> impl Iterator<Item = Shelf> + '_ {
        let lane = self.worker_kind.lane();
        self.queue_ids().map(move |queue| Shelf { lane, name: queue.key() })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WorkerKind {
    /// External workers, with real work of this owner.
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
    /// By the worker name of its claim.
    Worker(Name),
    /// No proof. Accepted from OJS workers.
    Anyone,
}

/// A job, and the proof that the worker holds it.
#[derive(Clone, Debug)]
pub struct HeldJob {
    pub job: JobId,
    pub proof: LeaseProof,
    /// Client of the worker; `None` for the built-in worker and the operator's.
    pub client: Option<ClientId>,
}

/// A job, and the caller.
#[derive(Clone, Debug)]
pub struct Owned {
    pub job: JobId,
    /// `None` for the operator.
    pub client: Option<ClientId>,
}

#[derive(Clone, Debug)]
pub struct Extend {
    pub held: HeldJob,
    /// New lease, counted from now; `None` uses that of the claim.
    pub lease: Option<Duration>,
    pub note: Option<Note>,
}

/// Progress or a notification: an event without a change of state.
#[derive(Clone, Debug)]
pub enum Note {
    Progress {
        /// 0 to 100; higher counts as 100.
        percent: u8,
        message: Option<String>,
    },
    /// The notification of an EMIT_EVENT job.
    Emitted,
}

#[derive(Clone, Debug)]
pub struct Succeed {
    pub held: HeldJob,
    pub output: Option<Arc<Output>>,
}

/// A result that arrives before the attempt ends. It counts if the attempt then succeeds without
/// another one; a second upload replaces it.
#[derive(Clone, Debug)]
pub struct Upload {
    pub held: HeldJob,
    pub output: Arc<Output>,
}

/// The output of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Output {
    /// The media type of the content.
    pub media_type: String,
    /// The worker's file name.
    pub file_name: Option<String>,
    pub content: Content,
}

impl Output {
    /// A small output without a name.
    pub fn inline(media_type: &str, bytes: impl Into<Vec<u8>>) -> Output {
        Output { media_type: media_type.into(), file_name: None, content: Content::Inline(bytes.into()) }
    }
}

/// The content of an output: a small one in the row, any other in a blob, so that rows stay small.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    /// Up to about [`limits::INLINE_RESULT_BYTES_MAX`].
    Inline(Vec<u8>),
    /// Written before the end is reported.
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
    pub id: BlobId,
    pub size: u64,
    /// Their SHA-256.
    pub digest: [u8; 32],
}

/// The worker returns a job for a while. No attempt is counted.
#[derive(Clone, Debug)]
pub struct Snooze {
    pub held: HeldJob,
    /// How long it is not claimable; at most [`limits::RETRY_DELAY_MAX`].
    pub delay: Duration,
    /// Name of a signal that ends the delay; none remains if the signal has arrived.
    pub until_signal: Option<String>,
}

#[derive(Clone, Debug)]
pub struct Fail {
    pub held: HeldJob,
    pub error: WorkError,
}

#[derive(Clone, Debug)]
pub struct Conclude {
    pub held: HeldJob,
    /// The ends of all items, in order, of this attempt or an earlier one.
    pub ends: Arc<[ItemEnd]>,
}

/// A failure as the worker reports it.
#[derive(Clone, Debug)]
pub struct WorkError {
    pub kind: Kind,
    /// The worker's code; empty for the catalog's.
    pub code: String,
    pub message: String,
    pub class: Option<String>,
    /// Whether a retry is worthwhile; `None` uses the kind's default.
    pub retryable: Option<bool>,
    /// An explicit request of the worker; it overrides the policy.
    pub verdict: Option<RetryVerdict>,
    /// Other members, as received.
    pub details: Vec<u8>,
    /// Wait before the retry; `None` uses the policy.
    pub delay: Option<Duration>,
}

impl WorkError {
    /// A failure with the defaults of its kind.
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

#[derive(Clone, Debug)]
pub struct Cancel {
    pub owned: Owned,
    /// Only if this is the current execution; `None` for any.
    pub execution: Option<ExecutionId>,
    /// `user`, or the name of the system component.
    pub by: String,
    pub reason: String,
    /// For a workflow: run the compensations of its steps first. `false` stops them if they run.
    pub compensate: bool,
}

/// Keeps a job from workers until it is resumed, or resumes it. A worker that holds it learns of
/// that with its next heartbeat.
#[derive(Clone, Debug)]
pub struct JobPause {
    pub owned: Owned,
    pub paused: bool,
}

/// Opens another execution of a failed job.
#[derive(Clone, Debug)]
pub struct Retry {
    pub owned: Owned,
    /// Id of the new execution.
    pub execution: ExecutionId,
    /// Start at once with a full budget and an empty error history: revives a dead letter.
    pub afresh: bool,
    /// Only if it is a dead letter.
    pub dead_letter: bool,
    /// For a workflow: run this step and its dependents again, and keep the others. `None`
    /// continues from the failed steps, or begins anew if the workflow was compensated.
    pub from: Option<u32>,
}

/// The answer to a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    Submitted {
        jobs: Vec<Job>,
        /// They existed: the request was a repetition, or a job holds the unique key and the policy
        /// is to return it.
        existing: bool,
    },
    /// The claimed jobs, each with its fencing token.
    Claimed {
        jobs: Vec<Job>,
        /// More jobs may be claimable: claim again at once.
        more: bool,
        /// The bound on active jobs is reached: no more jobs until one of them ends.
        capped: bool,
    },
    /// Done; the job in its new state.
    Done(Job),
    /// Nothing to do; the unchanged job.
    Unchanged(Job),
    /// What was due.
    Due {
        /// Processed jobs, without unreadable ones.
        n_jobs: usize,
        n_records: usize,
        more: bool,
        /// Lost workers and their jobs, to be taken back by [`WorkerCommand::Lost`].
        workers_lost: Vec<WorkerLost>,
        /// Failures that are not added to their groups yet, and expired groups.
        failures: FailuresDue,
        /// Schedules with due ticks, to be processed by [`ScheduleCommand::Fire`].
        schedules: Vec<Schedule>,
        /// Lists to be read, for [`Command::ListElements`].
        lists: Vec<ListWanted>,
    },
    /// The schedule, or its last state before it was deleted.
    Schedule {
        schedule: Box<Schedule>,
        /// Whether this command registered it.
        created: bool,
    },
    Checkpoint(Box<Checkpoint>),
    Step {
        memo: Box<StepMemo>,
        /// Whether this command recorded it.
        created: bool,
    },
    Schema(Box<SchemaEntry>),
    /// The redrive after its step.
    Redriven(Box<Redrive>),
    /// Failures were added to their groups.
    Folded {
        /// Groups beyond the bound, to be deleted by [`FailureCommand::Forget`].
        surplus: Vec<FailureId>,
    },
    Queue(Box<QueueSettings>),
    Heartbeat(Box<HeartbeatAnswer>),
    Sink(Box<SinkCursor>),
    Key {
        key: ApiKey,
        /// Whether this command created it.
        created: bool,
    },
    Webhook(Box<Webhook>),
    Delivery(Box<Delivery>),
    Taken(ClaimedDeliveries),
    /// Deliveries to be sent again.
    Redelivered {
        n_deliveries: usize,
        more: bool,
    },
    /// New totals of the clients, in the order of the command.
    Spent(Vec<QuotaCount>),
    /// Oldest first.
    SigningKeys(Vec<SigningKey>),
    /// Done, with nothing to return.
    Settled,
    Refused(Refusal),
}
