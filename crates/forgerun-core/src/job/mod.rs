//! A job: the part fixed at submission ([`Head`], [`Input`]) and the part that changes ([`Job`]).
//!
//! It carries what all four contracts need, so that no dialect has to bend it. Payloads stay raw bytes; nothing here
//! parses them. How both parts are laid out in a store is in `layout.rs`.

mod ended;
mod keep;
mod layout;
mod lease;
mod moments;
mod queue;
mod text;
mod timeout;

use alloc::string::String;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Reverse;
use core::fmt;
use core::time::Duration;

use crate::catalog::Kind;
use crate::failure::FailureId;
use crate::history::{Event, History};
use crate::id::{ClientId, ExecutionId, JobId};
use crate::item::{Item, Items, Tally};
use crate::limits;
use crate::queue::{Owner, QueueId};
use crate::retry::RetryPolicy;
use crate::state::{Facet, State};
use crate::time::Time;
use crate::work::Definition;
use crate::workflow::WorkflowHead;

pub use ended::{AttemptError, Cancellation};
pub use keep::{Keep, ResultNote};
pub use lease::Lease;
pub(crate) use moments::earliest;
pub use queue::BadQueueName;
pub(crate) use text::{bounded, cut};
pub use text::{is_json, is_media_type};

pub use crate::workflow::WorkflowStep;

/// The name of a queue, or of a key that limits share: short, printable, cheap to copy.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(Arc<str>);

impl Name {
    /// The name, if it has 1 to 255 bytes and no control characters.
    pub fn new(text: &str) -> Option<Name> {
        let good =
            !text.is_empty() && text.len() <= limits::NAME_BYTES_MAX && !text.chars().any(char::is_control);
        good.then(|| Name(text.into()))
    }

    /// A name made of names, or one as a store kept it: it may be longer than a name that is given.
    pub fn joined(text: &str) -> Name {
        Name(text.into())
    }

    /// The name as text.
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

/// Which contract the job was submitted on. It fixes the wording of its outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Dialect {
    /// ForgeRun's own, `/v1`.
    Forge = 0,
    /// The async-operations pattern, `/api/v1`.
    Operations = 1,
    /// Open Job Spec, `/ojs/v1`.
    Ojs = 2,
}

/// ForgeRun's three forms of a job.
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

/// What was fixed when the job was submitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// Who owns the job.
    pub client: ClientId,
    /// Which contract it came by.
    pub dialect: Dialect,
    /// ForgeRun's form; EXECUTE for the other dialects.
    pub form: JobForm,
    /// What kind of work it is, for workers outside; empty for a job of `/v1` that is simulated.
    pub job_type: String,
    /// The operation it was submitted as, where operations have names: `reports/generate`.
    pub operation: Option<String>,
    /// Which of the client's tenants it belongs to.
    pub tenant: Option<Name>,
    /// Where it waits.
    pub queue: Name,
    /// Higher goes first within its queue.
    pub priority: i16,
    /// Its place in the queue, as an id that was made when it was accepted. `None` if its own id was; an id that a client chose
    /// says nothing about when.
    pub place: Option<JobId>,
    /// What the built-in worker simulates; `None` for real work, and for a batch, whose items say it themselves.
    pub definition: Option<Definition>,
    /// What a batch knows of its items; `None` for a job that is none.
    pub items: Option<Items>,
    /// When it was accepted.
    pub created_at: Time,
    /// Not to begin before this.
    pub execution_at: Option<Time>,
    /// Not to begin after this.
    pub expires_at: Option<Time>,
    /// To have ended by this: a running attempt fails then, and a waiting job is cancelled.
    pub deadline: Option<Time>,
    /// How long a claim lasts without a sign of life; `None` leaves it to the claim.
    pub lease: Option<Duration>,
    /// How long one attempt may run.
    pub timeout: Option<Duration>,
    /// Whether `timeout` is a limit of the server, not the job's own.
    pub timeout_of_server: bool,
    /// What to do about failures.
    pub retry: RetryPolicy,
    /// A limit it shares with other jobs.
    pub limit: Option<Limit>,
    /// Held back until somebody activates it.
    pub hold: bool,
    /// The unique key it holds while it is in one of these states.
    pub unique: Option<Unique>,
    /// The idempotency key it was submitted with; forgotten with the job. Of a list, only the first job carries it,
    /// else the key would be forgotten while others of the list live.
    pub idempotency: Option<IdempotencyKey>,
    /// Where to tell of its changes.
    pub callback: Option<String>,
    /// What the client calls it.
    pub correlation_id: Option<String>,
    /// W3C trace context: the `traceparent` of the submission.
    pub traceparent: Option<String>,
    /// W3C trace context: the `tracestate` of the submission.
    pub tracestate: Option<String>,
    /// The language of its outcome.
    pub language: Option<String>,
    /// Labels for people.
    pub tags: Vec<String>,
    /// The schedule that made it.
    pub schedule: Option<ScheduledRun>,
    /// The workflow it is a step of.
    pub workflow: Option<WorkflowStep>,
    /// What it knows of the workflow that it is; `None` for a job that is none. Its steps are its items.
    pub conducts: Option<WorkflowHead>,
    /// How long it is kept after it ended; `None` means [`limits::RETENTION`].
    pub retention: Option<Duration>,
    /// How long what it leaves is kept; `None` for as long as the job.
    pub keep: Option<Keep>,
}

impl Head {
    /// A plain job of `client` in `queue`: everything else at its default.
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
            limit: None,
            hold: false,
            unique: None,
            idempotency: None,
            callback: None,
            correlation_id: None,
            traceparent: None,
            tracestate: None,
            language: None,
            tags: Vec::new(),
            schedule: None,
            workflow: None,
            conducts: None,
            retention: None,
            keep: None,
        }
    }
}

impl Head {
    /// Whether the built-in worker does the work.
    pub fn is_simulated(&self) -> bool {
        self.definition.is_some() || self.items.is_some_and(|items| items.simulated)
    }

    /// Whose queues it would wait in, if the work is for workers outside.
    pub fn owner(&self) -> Owner {
        Owner { client: self.client, tenant: self.tenant.clone() }
    }

    /// The queue it waits in: everybody's for simulated work, its owner's for any other.
    pub fn queue_id(&self) -> QueueId {
        let owner = (!self.is_simulated()).then(|| self.owner());
        QueueId { owner, name: self.queue.clone() }
    }

    /// Where workers look for it once it may be claimed.
    pub fn shelf(&self) -> Shelf {
        Shelf { lane: self.lane(), name: self.queue_id().key() }
    }

    fn lane(&self) -> Lane {
        if self.is_simulated() { Lane::BuiltIn } else { Lane::External }
    }
}

/// Raw bytes that belong to the submitter. Written once, handed to workers, never parsed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Input {
    /// Arguments or parameters, as received.
    pub payload: Vec<u8>,
    /// Metadata, as received.
    pub meta: Vec<u8>,
    /// Members this server does not know, kept verbatim.
    pub extra: Vec<u8>,
    /// The items of a batch, in order.
    pub items: Vec<Item>,
}

impl Input {
    /// Whether there is nothing to keep.
    pub fn is_empty(&self) -> bool {
        self.payload.is_empty() && self.meta.is_empty() && self.extra.is_empty() && self.items.is_empty()
    }
}

/// A limit shared by all jobs that name the same key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limit {
    /// What the jobs share.
    pub key: Name,
    /// How many of them may be held by workers at once.
    pub concurrency: Option<u32>,
    /// How many of them may be handed out per span of time.
    pub rate: Option<Rate>,
}

/// So many per span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// How many; at least one.
    pub count: u32,
    /// Per how long.
    pub per: Duration,
}

/// A unique key: while a job holds it, a second one with the same key is refused or takes its place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unique {
    /// The fingerprint of what must be unique.
    pub key: [u8; 32],
    /// Where the holder must stand to block others, as bits by [`Facet`].
    pub facets: u16,
    /// Until when, at the latest.
    pub until: Option<Time>,
    /// What happens to the newcomer.
    pub on_conflict: Conflict,
}

impl Unique {
    /// Wherever a job that has not ended can stand.
    pub const UNFINISHED: u16 = Facet::Scheduled.bit()
        | Facet::Held.bit()
        | Facet::Available.bit()
        | Facet::Waiting.bit()
        | Facet::Assigned.bit()
        | Facet::Running.bit();
}

/// What happens when a unique key is held already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Conflict {
    /// The newcomer is refused.
    Reject = 0,
    /// The newcomer is answered with the job that is there.
    Ignore = 1,
    /// The job that is there is cancelled, unless a worker holds it; then the newcomer is refused.
    Replace = 2,
    /// Likewise, and the newcomer begins when the job that was there would have.
    ReplaceKeepingSchedule = 3,
}

/// A key that makes a repeated request harmless: one client, one kind of request, one key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey {
    /// Keys of different clients never meet.
    pub client: ClientId,
    /// Keys of different operations never meet.
    pub operation: String,
    /// What the client sent.
    pub key: String,
}

/// Which run of a schedule a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledRun {
    /// The name of the schedule, of the job's owner.
    pub name: Name,
    /// The tick; for one that somebody asked for, when that was.
    pub tick: Time,
}

/// A job as it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its identity.
    pub id: JobId,
    /// What was fixed at submission.
    pub head: Arc<Head>,
    /// Where it stands.
    pub state: State,
    /// The attempt under way or about to begin, from 1.
    pub attempt: u32,
    /// The newest attempt that was handed to a worker; 0 before the first claim.
    pub attempt_handed: u32,
    /// The fencing token of the newest claim. Grows with each; a worker with an older one has lost its lease.
    pub fence: u64,
    /// The execution under way.
    pub execution: ExecutionId,
    /// Executions that a manual retry has closed, oldest first. Their outcomes stay as they are.
    pub executions_past: Vec<ExecutionId>,
    /// Held back until activated.
    pub hold: bool,
    /// Queued, but not to be claimed before this.
    pub available_at: Option<Time>,
    /// Waiting for its [`Limit`]; see `decide/claim.rs`. A job that waits for it has an `available_at` too.
    pub parked: Parked,
    /// Who holds it, and until when.
    pub lease: Option<Lease>,
    /// When it last changed.
    pub updated_at: Time,
    /// When it last became claimable.
    pub queued_at: Option<Time>,
    /// When the newest attempt began.
    pub started_at: Option<Time>,
    /// When it ended.
    pub finished_at: Option<Time>,
    /// Percent done, as last reported.
    pub progress: Option<u8>,
    /// What the worker said with it.
    pub message: Option<String>,
    /// How the items of a batch stand, as of the newest attempt that said so.
    pub tally: Tally,
    /// Why attempts failed, of all executions, oldest first; bounded by [`limits::ERRORS_MAX`].
    pub errors: Vec<AttemptError>,
    /// Who cancelled it and why.
    pub cancel: Option<Cancellation>,
    /// It was cancelled because it did not begin before `expires_at`.
    pub expired: bool,
    /// When it became a dead letter.
    pub dead_lettered_at: Option<Time>,
    /// The group of failures that its last execution is one of, while it is FAILED; `None` too if a version ended it that did not group.
    pub failure: Option<FailureId>,
    /// What it left, if it succeeded and left anything.
    pub result: Option<ResultNote>,
    /// When it is forgotten; known once it has ended.
    pub forget_at: Option<Time>,
    /// Every change of state.
    pub history: History,
}

/// Why a queued job is not claimable although its time has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Parked {
    /// It is claimable.
    #[default]
    No = 0,
    /// It waits until another job with its limit key ends, or until its `available_at`, to be looked at again.
    ForPlace = 1,
    /// It has a reserved moment in the rate of its limit key, which is its `available_at`.
    ForTurn = 2,
    /// Its reserved moment has come: the next claim does not count it again.
    TurnCame = 3,
}

/// Where a job stands among those of its shelf: by priority, then by place.
pub type QueueOrder = (Reverse<i16>, JobId);

/// Why somebody would look for a job without knowing its id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Lane {
    /// Claimable by workers outside: real work.
    External = 1,
    /// Claimable by the built-in worker: simulated work.
    BuiltIn = 2,
    /// Waiting for a place in its limit.
    Parked = 3,
    /// Dead letter.
    Dead = 4,
    /// Failed, and no dead letter: found by the reason.
    Failed = 5,
}

/// Where a store finds jobs of one lane, by priority (highest first), then by id: the key of the queue, for [`Lane::Parked`]
/// the limit's key, and for [`Lane::Dead`] and [`Lane::Failed`] the group of failures (for dead letters that have none, the key of the queue as
/// its owner's). A job stands on one shelf at most.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shelf {
    /// Why one looks.
    pub lane: Lane,
    /// Where one looks.
    pub name: Name,
}

impl Job {
    /// A job to which nothing has happened, not even its birth: what both a submission and a stored row begin with.
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
            parked: Parked::No,
            lease: None,
            updated_at: head.created_at,
            head,
            queued_at: None,
            started_at: None,
            finished_at: None,
            progress: None,
            message: None,
            tally: Tally::default(),
            errors: Vec::new(),
            cancel: None,
            expired: false,
            dead_lettered_at: None,
            failure: None,
            result: None,
            forget_at: None,
            history: History::default(),
        }
    }

    /// Where it stands among the jobs of its shelf, first the one that is handed out first: by priority, then in the order of acceptance.
    pub fn order(&self) -> QueueOrder {
        (Reverse(self.head.priority), self.head.place.unwrap_or(self.id))
    }

    /// The shelf the job stands on. Always follows from the rest of the job.
    pub fn shelf(&self) -> Option<Shelf> {
        self.shelf_of(|| self.head.shelf())
    }

    /// The same if the key of its queue is known, which is not made anew then.
    pub(crate) fn shelf_in(&self, queue: &Name) -> Option<Shelf> {
        self.shelf_of(|| Shelf { lane: self.head.lane(), name: queue.clone() })
    }

    fn shelf_of(&self, claimable: impl FnOnce() -> Shelf) -> Option<Shelf> {
        match (self.state, &self.head.limit) {
            (State::Queued, Some(limit)) if self.parked == Parked::ForPlace => {
                Some(Shelf { lane: Lane::Parked, name: limit.key.clone() })
            }
            (State::Queued, _) if self.available_at.is_none() => Some(claimable()),
            (State::Failed, _) => self.failed_shelf(),
            _ => None,
        }
    }

    fn failed_shelf(&self) -> Option<Shelf> {
        let lane = if self.dead_lettered_at.is_some() { Lane::Dead } else { Lane::Failed };
        match (lane, self.failure) {
            (_, Some(failure)) => Some(Shelf { lane, name: failure.shelf_name() }),
            (Lane::Dead, None) => {
                Some(Shelf { lane, name: self.head.owner().scoped(self.head.queue.as_str()) })
            }
            (_, None) => None,
        }
    }

    /// Where it stands, more exactly than its state tells.
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

    /// The number of the execution under way, from 1.
    pub fn execution_n(&self) -> u32 {
        self.executions_past.len() as u32 + 1
    }

    /// The id of the `n`th execution, from 1, if there was one.
    pub fn execution_id(&self, n: u32) -> Option<ExecutionId> {
        let past = self.executions_past.get((n as usize).checked_sub(1)?).copied();
        past.or_else(|| (n == self.execution_n()).then_some(self.execution))
    }

    /// The execution whose end an event of this job tells of, if it does.
    pub fn execution_ended(&self, event: &Event) -> Option<ExecutionId> {
        if event.ends() { self.execution_id(event.execution) } else { None }
    }

    /// Whether the job may have another execution at all.
    pub(crate) fn can_reopen(&self) -> bool {
        self.executions_past.len() + 1 < limits::EXECUTIONS_MAX
    }

    /// Whether a client may retry the job once it has failed.
    pub(crate) fn can_retry(&self) -> bool {
        self.attempt < self.head.retry.attempts_max && self.can_reopen()
    }

    /// Whether its last attempt failed and the next one is still to begin.
    pub fn is_retrying(&self) -> bool {
        self.state == State::Queued && self.last_error().is_some_and(|error| error.wait.is_some())
    }

    /// How many more attempts a retry can have; `None` unless the job has failed.
    pub fn retries_left(&self) -> Option<u32> {
        let left = self.head.retry.attempts_max.saturating_sub(self.attempt);
        (self.state == State::Failed).then_some(if self.can_reopen() { left } else { 0 })
    }

    /// How long the record is kept once the job has ended, however it did (C-110).
    pub(crate) fn record_kept(&self) -> Duration {
        self.head.retention.unwrap_or(limits::RETENTION)
    }

    /// The newest failure since the job was last begun anew.
    pub fn last_error(&self) -> Option<&AttemptError> {
        let is_of_now = |execution| execution == 0 || execution == self.execution_n();
        self.errors.last().filter(|error| is_of_now(error.execution) || error.attempt < self.attempt)
    }

    /// Whether the job is a batch of which some items ended well and some did not.
    pub fn is_mixed(&self) -> bool {
        self.state == State::Failed && self.last_error().is_some_and(|error| error.kind == Kind::BatchPartial)
    }

    /// Whether the job ended because an attempt ran too long.
    pub fn timed_out(&self) -> bool {
        self.state == State::Failed
            && self.last_error().is_some_and(|error| error.kind == Kind::HandlerTimeout)
    }
}
