//! Refusals: why the core does not carry out a command.

use crate::catalog::Kind;
use crate::client_limits::ClientLimit;
use crate::id::{JobId, WebhookId};
use crate::job::Name;
use crate::scope::KeyScopes;
use crate::state::State;
use crate::workflow::BadWorkflow;

/// Why a command was refused. Always caused by the caller, never by the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    NotFound,
    /// The job belongs to another client.
    Foreign,
    ClientNotFound,
    KeyNotFound,
    /// The client has had a key before; creating the next one needs it.
    KeyNeeded,
    /// There is no valid key to renew.
    NoKeyToRenew,
    /// The key has expired and can no longer be renewed: the grace period is over, or the client
    /// has a valid key.
    KeyExpired,
    /// The key was replaced. It is still valid, but changes no keys.
    KeyReplaced,
    /// The key lacks scopes that the command needs.
    ScopeMissing(KeyScopes),
    TooManyKeys,
    /// The command is not possible in this state.
    WrongState(State),
    /// The job has ended.
    AlreadyCompleted(State),
    AlreadyCanceled,
    /// The worker does not hold the job, or no longer.
    LeaseLost,
    /// The report has the wrong number of items.
    WrongItems {
        expected: u32,
    },
    /// The job has failed, but is not a dead letter.
    NoDeadLetter,
    RetryLimitReached {
        attempts: u32,
    },
    /// The idempotency key was used for a different request.
    IdempotencyConflict(JobId),
    /// The requested time of a new job has passed.
    TooLate,
    TooManyJobs,
    /// Another job has the id or the unique key.
    Duplicate {
        existing: JobId,
        state: State,
        /// Position of the refused job in the submission, from 0.
        index: usize,
    },
    /// Another job of the same submission has the id or the unique key.
    DuplicateWithin {
        /// Position of the later of the two, from 0.
        index: usize,
    },
    QueueFull {
        queue: Name,
        /// How many jobs wait in the queue.
        waiting: u64,
        max: u64,
    },
    QueuePaused {
        queue: Name,
    },
    /// A limit of the client is reached.
    OverLimit {
        limit: ClientLimit,
        used: u64,
        max: u64,
    },
    /// A redrive of the group is running: this job.
    RedriveRunning(JobId),
    ScheduleNotFound,
    /// The schedule was changed since the caller read it.
    ScheduleChanged,
    TooManySchedules,
    SchemaNotFound,
    /// A schema of this type and version, or with this address, exists.
    SchemaExists,
    TooManySchemas,
    /// The steps do not form a valid workflow.
    BadWorkflow(BadWorkflow),
    /// The workflow cannot continue from this step: the steps it depends on did not end as
    /// required.
    StepNotReady,
    /// The job is no step of this workflow, or an element of a `for_each`.
    NotItsStep,
    /// The workflow has a step with the id of this new one, by its position.
    StepExists {
        index: usize,
    },
    /// No wait has this name or token.
    SignalUnknown,
    /// Another signal ended the wait, or is kept for it.
    SignalTaken,
    /// The wait ended without a signal.
    WaitOver,
    /// The step has another recorded result.
    StepRecorded,
    /// The job has as many recorded steps, or bytes of them, as it may have.
    StepsFull,
    WorkerNotFound,
    /// Another node holds the sink.
    SinkHeld,
    WebhookNotFound,
    /// The webhook was changed since the caller read it.
    WebhookChanged,
    /// The client has a webhook with this URL: this one.
    WebhookExists(WebhookId),
    TooManyWebhooks,
    /// The webhook is disabled, so nothing is sent to it.
    WebhookDisabled,
    DeliveryNotFound,
    /// Another courier has claimed the delivery since.
    DeliveryLost,
}

impl Refusal {
    /// The catalog entry for it.
    pub const fn kind(&self) -> Kind {
        match self {
            Refusal::NotFound | Refusal::SchemaNotFound | Refusal::SignalUnknown => Kind::JobNotFound,
            Refusal::Foreign => Kind::ForeignResource,
            Refusal::ClientNotFound => Kind::ClientNotFound,
            Refusal::KeyNotFound => Kind::KeyNotFound,
            Refusal::KeyNeeded => Kind::Unauthenticated,
            Refusal::NoKeyToRenew => Kind::Duplicate,
            Refusal::KeyExpired => Kind::KeyExpired,
            Refusal::KeyReplaced | Refusal::ScopeMissing(_) => Kind::Forbidden,
            Refusal::WrongState(_)
            | Refusal::LeaseLost
            | Refusal::NoDeadLetter
            | Refusal::StepNotReady
            | Refusal::StepRecorded
            | Refusal::WaitOver => Kind::IllegalTransition,
            Refusal::StepsFull => Kind::JobPayloadTooLarge,
            Refusal::SignalTaken => Kind::Duplicate,
            Refusal::WrongItems { .. }
            | Refusal::TooManyJobs
            | Refusal::BadWorkflow(_)
            | Refusal::NotItsStep => Kind::InvalidArgs,
            Refusal::AlreadyCompleted(_) => Kind::AlreadyCompleted,
            Refusal::AlreadyCanceled => Kind::AlreadyCancelled,
            Refusal::RetryLimitReached { .. } => Kind::RetryLimitReached,
            Refusal::IdempotencyConflict(_) => Kind::IdempotencyConflict,
            Refusal::TooLate => Kind::ScheduleInPast,
            Refusal::Duplicate { .. }
            | Refusal::DuplicateWithin { .. }
            | Refusal::RedriveRunning(_)
            | Refusal::StepExists { .. } => Kind::Duplicate,
            Refusal::QueueFull { .. } => Kind::QueueFull,
            Refusal::QueuePaused { .. } => Kind::QueuePaused,
            Refusal::OverLimit { limit: ClientLimit::StorageBytes, .. } => Kind::StorageQuotaExceeded,
            Refusal::OverLimit { .. } => Kind::QuotaExceeded,
            Refusal::ScheduleNotFound => Kind::ScheduleNotFound,
            Refusal::WorkerNotFound => Kind::WorkerNotFound,
            Refusal::WebhookNotFound => Kind::WebhookNotFound,
            Refusal::WebhookChanged | Refusal::ScheduleChanged => Kind::PreconditionFailed,
            Refusal::WebhookExists(_)
            | Refusal::TooManyWebhooks
            | Refusal::TooManySchedules
            | Refusal::SchemaExists
            | Refusal::TooManySchemas
            | Refusal::TooManyKeys => Kind::Duplicate,
            Refusal::SinkHeld | Refusal::WebhookDisabled | Refusal::DeliveryLost => Kind::IllegalTransition,
            Refusal::DeliveryNotFound => Kind::DeliveryNotFound,
        }
    }
}
