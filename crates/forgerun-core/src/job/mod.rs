//! A job: the part fixed at submission ([`Head`], [`Input`]) and the part that changes ([`Job`]).
//!
//! It carries what all four contracts need, so that no dialect has to bend it. Payloads stay raw
//! bytes and are never parsed here. `layout.rs` encodes both parts for stores.

mod ended;
mod layout;
mod lease;
mod moments;
mod queue;
mod retention;
mod shelf;
mod text;
mod timeout;

use alloc::boxed::Box;
use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use core::time::Duration;

use crate::catalog::Kind;
use crate::failure::FailureId;
use crate::fair::Fair;
use crate::history::{Event, History};
use crate::id::{ClientId, ExecutionId, JobId};
use crate::item::{Item, Items, Tally};
use crate::limits;
use crate::queue::{Owner, QueueId};
use crate::retry::RetryPolicy;
use crate::state::{Facet, State};
use crate::time::Time;
use crate::work::Definition;
use crate::workflow::{Wait, WorkflowHead};

pub use ended::{AttemptError, Cancellation};
pub use lease::Lease;
pub(crate) use moments::earliest;
pub use queue::BadQueueName;
pub use retention::{ResultNote, ResultRetention};
pub use shelf::{Lane, QueueOrder, Shelf};
pub(crate) use text::{bounded, cut};
pub use text::{is_json, is_media_type};

pub use crate::workflow::WorkflowStep;

/// Name of a queue or limit key: short, printable, cheap to copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// `None` unless the text has 1 to 255 bytes and no control characters.
    pub fn new(text: &str) -> Option<Name> {
        let good =
            !text.is_empty() && text.len() <= limits::NAME_BYTES_MAX && !text.chars().any(char::is_control);
        good.then(|| Name(text.into()))
    }

    /// A name composed of names, or read from a store: it may exceed 255 bytes.
    pub fn joined(text: &str) -> Name {
        Name(text.into())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The contract of the submission. It decides the wording of the outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dialect {
    Forge = 0,
    /// The async-operations pattern, `/api/v1`.
    Operations = 1,
    /// Open Job Spec, `/ojs/v1`.
    Ojs = 2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum JobForm {
    /// Run as soon as possible.
    Execute = 0,
    /// Run at a given time.
    Deferred = 1,
    /// Run and publish one notification.
    EmitEvent = 2,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    pub client: ClientId,
    pub dialect: Dialect,
    /// EXECUTE for dialects other than `/v1`.
    pub form: JobForm,
    /// Job type, for external workers; empty for a simulated job of `/v1`.
    pub job_type: String,
    /// Name of the operation, if the dialect has them: `reports/generate`.
    pub operation: Option<String>,
    /// Tenant of the client.
    pub tenant: Option<Name>,
    pub queue: Name,
    /// Higher goes first within its queue.
    pub priority: i16,
    /// Position in the queue, as an id made at acceptance. `None` if the job's own id was made
    /// then; an id that a client chose says nothing about the time.
    pub place: Option<JobId>,
    /// Simulated work; `None` for real work, and for a batch, whose items have their own.
    pub definition: Option<Definition>,
    /// Set for a batch.
    pub items: Option<Items>,
    pub created_at: Time,
    /// Earliest start.
    pub execution_at: Option<Time>,
    /// Latest start.
    pub expires_at: Option<Time>,
    /// Latest end: then a running attempt fails, and a waiting job is cancelled.
    pub deadline: Option<Time>,
    /// Lease length; `None` uses that of the claim.
    pub lease: Option<Duration>,
    /// Limit of one attempt.
    pub timeout: Option<Duration>,
    /// Whether `timeout` is the server's limit, not the job's own.
    pub timeout_of_server: bool,
    pub retry: RetryPolicy,
    /// All of them must have room: at most [`limits::JOB_LIMITS_MAX`], each with a key of its own.
    pub limits: Vec<Limit>,
    /// Its key and weight, if jobs of its queue take turns.
    pub fair: Option<Fair>,
    /// Not started until a client activates it.
    pub hold: bool,
    /// The unique key, held in certain states.
    pub unique: Option<Unique>,
    /// Whether the digest in `unique` is hidden: so in an encrypted store, never for the rules.
    pub unique_hidden: bool,
    /// The idempotency key of the submission, deleted with the job. Of a list, only the first job
    /// has it: else it would be deleted while others of the list exist.
    pub idempotency: Option<IdempotencyKey>,
    /// Callback URL.
    pub callback: Option<String>,
    /// The client's correlation id.
    pub correlation_id: Option<String>,
    /// W3C trace context of the submission.
    pub traceparent: Option<String>,
    /// W3C trace context of the submission.
    pub tracestate: Option<String>,
    pub language: Option<String>,
    pub tags: Vec<String>,
    pub schedule: Option<ScheduledRun>,
    /// Set if the job is a step of a workflow.
    pub workflow: Option<WorkflowStep>,
    /// Set if this job represents a workflow; its steps are its items.
    pub workflow_head: Option<WorkflowHead>,
    /// Set if the job is a waiting step of a workflow.
    pub wait: Option<Box<Wait>>,
    /// Retention of the ended job; `None` means [`limits::RETENTION`].
    pub retention: Option<Duration>,
    /// Retention of the result; `None` keeps it as long as the job.
    pub result_retention: Option<ResultRetention>,
}

impl Head {
    /// A job with defaults for everything else.
    pub fn new(client: ClientId, queue: Name, created_at: Time) -> Head {
        Head {
            client,
            dialect: Dialect::Forge,
            form: JobForm::Execute,
            job_type: String::new(),
            operation: None,
            tenant: None,
            queue,
            priority: 0,
            place: None,
            definition: None,
            items: None,
            created_at,
            execution_at: None,
            expires_at: None,
            deadline: None,
            lease: None,
            timeout: None,
            timeout_of_server: false,
            retry: RetryPolicy::manual(),
            limits: Vec::new(),
            fair: None,
            hold: false,
            unique: None,
            unique_hidden: false,
            idempotency: None,
            callback: None,
            correlation_id: None,
            traceparent: None,
            tracestate: None,
            language: None,
            tags: Vec::new(),
            schedule: None,
            workflow: None,
            workflow_head: None,
            wait: None,
            retention: None,
            result_retention: None,
        }
    }
}

impl Head {
    pub fn is_simulated(&self) -> bool {
        self.definition.is_some() || self.items.is_some_and(|items| items.simulated)
    }

    /// Whether a worker runs it; not so for a workflow's own job and for a wait.
    pub fn needs_worker(&self) -> bool {
        self.workflow_head.is_none() && self.wait.is_none()
    }

    /// Owner of its queue, if the work is for external workers.
    pub fn owner(&self) -> Owner {
        Owner { client: self.client, tenant: self.tenant.clone() }
    }

    /// Its queue: shared for simulated work, the owner's otherwise.
    pub fn queue_id(&self) -> QueueId {
        let owner = (!self.is_simulated()).then(|| self.owner());
        QueueId { owner, name: self.queue.clone() }
    }

    /// Of its fair key.
    pub(crate) fn fair_weight(&self) -> u8 {
        self.fair.as_ref().map_or(1, |fair| fair.weight)
    }

    /// The shelf on which workers find it once it is claimable.
    pub fn shelf(&self) -> Shelf {
        Shelf { lane: self.lane(), name: self.queue_id().key() }
    }

    fn lane(&self) -> Lane {
        if self.is_simulated() { Lane::BuiltIn } else { Lane::External }
    }
}

/// Raw bytes of the submitter. Written once, sent to workers, never parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Arguments or parameters, as received.
    pub payload: Vec<u8>,
    pub meta: Vec<u8>,
    /// Unknown members, kept verbatim.
    pub extra: Vec<u8>,
    pub items: Vec<Item>,
}

impl Input {
    /// About how many bytes it takes.
    pub fn bytes(&self) -> u64 {
        let items: usize = self.items.iter().map(|item| item.payload.len()).sum();
        (self.payload.len() + self.meta.len() + self.extra.len() + items) as u64
    }

    pub fn is_empty(&self) -> bool {
        self.payload.is_empty() && self.meta.is_empty() && self.extra.is_empty() && self.items.is_empty()
    }
}

/// A limit shared by all jobs with the same key. A job may have several.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    pub key: Name,
    /// How many of them workers may hold at once.
    pub concurrency: Option<u32>,
    /// How many of them may be handed out per period.
    pub rate: Option<Rate>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub count: u32,
    pub per: Duration,
}

/// A unique key: while a job holds it, a second one with this key is refused or replaces it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    /// Fingerprint of the unique members.
    pub key: [u8; 32],
    /// Facets in which the holder blocks others, as bits of [`Facet`].
    pub facets: u16,
    /// Holds the key until then, at the latest.
    pub until: Option<Time>,
    /// What happens to the new job.
    pub on_conflict: Conflict,
}

impl Unique {
    /// All facets of a job that has not ended.
    pub const UNFINISHED: u16 = Facet::Scheduled.bit()
        | Facet::Held.bit()
        | Facet::Available.bit()
        | Facet::Waiting.bit()
        | Facet::Assigned.bit()
        | Facet::Running.bit();
}

/// What happens if another job holds the unique key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Conflict {
    Reject = 0,
    /// The answer is the existing job.
    Ignore = 1,
    /// The existing job is cancelled, unless a worker holds it; then the new job is refused.
    Replace = 2,
    /// Like `Replace`, and the new job takes over the schedule.
    ReplaceKeepingSchedule = 3,
}

/// Scope and value of an idempotency key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    pub client: ClientId,
    pub operation: String,
    pub key: String,
}

/// The run of a schedule that made a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledRun {
    /// Name of the schedule, of the job's owner.
    pub name: Name,
    /// The tick; for a triggered run, when it was triggered.
    pub tick: Time,
}

/// The current state of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    pub id: JobId,
    pub head: Arc<Head>,
    pub state: State,
    /// The attempt that runs or comes next, from 1.
    pub attempt: u32,
    /// The newest attempt that a worker claimed; 0 before the first claim.
    pub attempt_handed: u32,
    /// Fencing token of the newest claim. Incremented by each; a worker with an older one has lost
    /// its lease.
    pub fence: u64,
    pub execution: ExecutionId,
    /// Executions before the current one, oldest first. Their outcomes never change.
    pub executions_past: Vec<ExecutionId>,
    pub hold: bool,
    /// Queued, but not claimable before this.
    pub available_at: Option<Time>,
    /// The signal that makes it claimable before `available_at`.
    pub awaited_signal: Option<String>,
    /// Waiting for a [`Limit`]; see `decide/claim.rs`. Such a job has an `available_at` too.
    pub parked: Parked,
    /// Which of its limits it waits for, or had its turn in.
    pub parked_for: u8,
    /// Limits in which it had its turn before, as bits.
    pub turns_had: u8,
    /// When its turn begins, in virtual time. Set for the one job of each fair key that stands in
    /// line; see `fair.rs`.
    pub turn: Option<u64>,
    /// Not claimable until it is resumed. Kept by jobs that have not ended only.
    pub paused: bool,
    pub lease: Option<Lease>,
    pub updated_at: Time,
    /// When it last became claimable.
    pub queued_at: Option<Time>,
    pub started_at: Option<Time>,
    pub finished_at: Option<Time>,
    /// Percent, as last reported.
    pub progress: Option<u8>,
    /// The worker's progress message.
    pub message: Option<String>,
    /// Item counts of a batch, as of the newest report.
    pub tally: Tally,
    /// Steps that were added to a workflow while it ran; this is its own job.
    pub steps_added: u32,
    /// Failed attempts of all executions, oldest first; at most [`limits::ERRORS_MAX`].
    pub errors: Vec<AttemptError>,
    /// Who cancelled it and why.
    pub cancel: Option<Cancellation>,
    /// Cancelled because it did not start before `expires_at`.
    pub expired: bool,
    /// A workflow that was stopped at its deadline.
    pub overdue: bool,
    /// When it became a dead letter.
    pub dead_lettered_at: Option<Time>,
    /// Failure group of its last execution, while it is FAILED; `None` too if an older version
    /// ended it.
    pub failure: Option<FailureId>,
    /// Set if it succeeded with a result.
    pub result: Option<ResultNote>,
    /// Bytes of input, results and checkpoint that are counted as its client's; 0 for a job of an
    /// older version.
    pub stored_bytes: u64,
    /// When it is deleted; set once it has ended.
    pub forget_at: Option<Time>,
    pub history: History,
}

/// Why a queued job is not claimable yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Parked {
    #[default]
    No = 0,
    /// Waits until another job with its limit key ends, or until `available_at`, when it is
    /// rechecked.
    ForPlace = 1,
    /// Waits for its reserved moment in the rate of its limit key, which is `available_at`.
    ForTurn = 2,
    /// The reserved moment has come: the next claim does not count it again.
    TurnCame = 3,
}

impl Job {
    /// A job before its first event: the start of a submission and of decoding.
    pub(crate) fn blank(id: JobId, head: Arc<Head>) -> Job {
        Job {
            id,
            state: State::Created,
            attempt: 0,
            attempt_handed: 0,
            fence: 0,
            execution: id.first_execution(),
            executions_past: Vec::new(),
            hold: false,
            available_at: None,
            awaited_signal: None,
            parked: Parked::No,
            parked_for: 0,
            turns_had: 0,
            turn: None,
            paused: false,
            lease: None,
            updated_at: head.created_at,
            head,
            queued_at: None,
            started_at: None,
            finished_at: None,
            progress: None,
            message: None,
            tally: Tally::default(),
            steps_added: 0,
            errors: Vec::new(),
            cancel: None,
            expired: false,
            overdue: false,
            dead_lettered_at: None,
            stored_bytes: 0,
            failure: None,
            result: None,
            forget_at: None,
            history: History::default(),
        }
    }

    /// Its facet, which is finer than its state.
    pub fn facet(&self) -> Facet {
        match self.state {
            State::Created if self.hold => Facet::Held,
            State::Created => Facet::Scheduled,
            State::Queued if self.available_at.is_some() && self.parked == Parked::No => Facet::Waiting,
            State::Queued => Facet::Available,
            State::Assigned => Facet::Assigned,
            State::Running => Facet::Running,
            State::Succeeded => Facet::Succeeded,
            State::Failed => Facet::Failed,
            State::Canceled if self.expired => Facet::Expired,
            State::Canceled => Facet::Canceled,
        }
    }

    /// Number of the current execution, from 1.
    pub fn execution_n(&self) -> u32 {
        self.executions_past.len() as u32 + 1
    }

    /// Id of the `n`th execution, from 1.
    pub fn execution_id(&self, n: u32) -> Option<ExecutionId> {
        let past = self.executions_past.get((n as usize).checked_sub(1)?).copied();
        past.or_else(|| (n == self.execution_n()).then_some(self.execution))
    }

    /// The execution that the event ended, if it did.
    pub fn execution_ended(&self, event: &Event) -> Option<ExecutionId> {
        if event.ends() { self.execution_id(event.execution) } else { None }
    }

    /// Whether the job may have another execution at all.
    pub(crate) fn can_reopen(&self) -> bool {
        self.executions_past.len() + 1 < limits::EXECUTIONS_MAX
    }

    /// Whether a client may retry the job after a failure.
    pub(crate) fn can_retry(&self) -> bool {
        self.attempt < self.head.retry.attempts_max && self.can_reopen()
    }

    /// Whether its last attempt failed and the next one has not started.
    pub fn is_retrying(&self) -> bool {
        self.state == State::Queued && self.last_error().is_some_and(|error| error.wait.is_some())
    }

    /// Attempts left for retries; `None` unless the job has failed.
    pub fn retries_left(&self) -> Option<u32> {
        let left = self.head.retry.attempts_max.saturating_sub(self.attempt);
        (self.state == State::Failed).then_some(if self.can_reopen() { left } else { 0 })
    }

    /// Retention of the record after the job's end (C-110).
    pub(crate) fn record_kept(&self) -> Duration {
        self.head.retention.unwrap_or(limits::RETENTION)
    }

    /// The newest failure since the last manual retry.
    pub fn last_error(&self) -> Option<&AttemptError> {
        let is_of_now = |execution| execution == 0 || execution == self.execution_n();
        self.errors.last().filter(|error| is_of_now(error.execution) || error.attempt < self.attempt)
    }

    /// Whether the job is a batch of which some items succeeded and some failed.
    pub fn is_mixed(&self) -> bool {
        self.state == State::Failed && self.last_error().is_some_and(|error| error.kind == Kind::BatchPartial)
    }

    /// Whether the job ended by a timeout.
    pub fn timed_out(&self) -> bool {
        self.state == State::Failed
            && self.last_error().is_some_and(|error| error.kind == Kind::HandlerTimeout)
    }
}
