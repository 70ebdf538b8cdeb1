//! Why the core does not do what it is asked.

use crate::catalog::Kind;
use crate::id::{JobId, WebhookId};
use crate::job::Name;
use crate::state::State;
use crate::workflow::BadWorkflow;

/// Why the core does not do what it is asked. The caller's affair, never the world's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such job.
    NotFound,
    /// The job is another client's.
    Foreign,
    /// There is no such client.
    ClientNotFound,
    /// There is no such key.
    KeyNotFound,
    /// The client has had a key before: the next one needs it.
    KeyNeeded,
    /// There is no good key to renew.
    NoKeyToRenew,
    /// The key that was shown has expired, and cannot be renewed any more: too long ago, or the client has a good one.
    KeyExpired,
    /// The job is not in a state for this.
    WrongState(State),
    /// The job has ended well or badly.
    AlreadyCompleted(State),
    /// The job was cancelled.
    AlreadyCanceled,
    /// The worker does not hold the job, or no longer.
    LeaseLost,
    /// The job has another number of items; none if it is no batch.
    WrongItems {
        /// How many it has.
        expected: u32,
    },
    /// The job has failed, but is no dead letter.
    NoDeadLetter,
    /// No retry is left.
    RetryLimitReached {
        /// Attempts used.
        attempts: u32,
    },
    /// The idempotency key was used for another request.
    IdempotencyConflict(JobId),
    /// The time that a new job asks for is over.
    TooLate,
    /// One submission has more jobs than it may.
    TooManyJobs,
    /// The id or the unique key is taken.
    Duplicate {
        /// By this job.
        existing: JobId,
        /// Which stands here.
        state: State,
        /// The job of the submission that wants it, by its place, from 0.
        index: usize,
    },
    /// Another job of the same submission has the id or the unique key.
    DuplicateWithin {
        /// The later of the two, by its place, from 0.
        index: usize,
    },
    /// The queue holds as many jobs as it may.
    QueueFull {
        /// Which queue.
        queue: Name,
        /// How many wait in it.
        waiting: u64,
        /// How many may.
        max: u64,
    },
    /// The queue is paused.
    QueuePaused {
        /// Which queue.
        queue: Name,
    },
    /// A redrive of the group is under way: this job.
    RedriveRunning(JobId),
    /// There is no such schedule.
    ScheduleNotFound,
    /// The schedule was changed since the caller looked at it.
    ScheduleChanged,
    /// The client has as many schedules as it may.
    TooManySchedules,
    /// There is no such schema.
    SchemaNotFound,
    /// There is a schema of this type and version, or with this address.
    SchemaExists,
    /// The client has as many schemas as it may.
    TooManySchemas,
    /// The steps make no workflow.
    BadWorkflow(BadWorkflow),
    /// The workflow cannot go on from this step: the steps that it waits for did not end as it needs.
    StepNotReady,
    /// There is no such worker.
    WorkerNotFound,
    /// Another node sends for the sink.
    SinkHeld,
    /// There is no such webhook.
    WebhookNotFound,
    /// The webhook was changed since the caller looked at it.
    WebhookChanged,
    /// The client has a webhook with this URL: this one.
    WebhookExists(WebhookId),
    /// The client has as many webhooks as it may.
    TooManyWebhooks,
    /// Nothing is sent to the webhook while it is disabled.
    WebhookDisabled,
    /// There is no such delivery.
    DeliveryNotFound,
    /// The delivery is another courier's by now.
    DeliveryLost,
}

impl Refusal {
    /// The catalog's word for it.
    pub const fn kind(&self) -> Kind {
        match self {
            Refusal::NotFound | Refusal::SchemaNotFound => Kind::JobNotFound,
            Refusal::Foreign => Kind::ForeignResource,
            Refusal::ClientNotFound => Kind::ClientNotFound,
            Refusal::KeyNotFound => Kind::KeyNotFound,
            Refusal::KeyNeeded => Kind::Unauthenticated,
            Refusal::NoKeyToRenew => Kind::Duplicate,
            Refusal::KeyExpired => Kind::KeyExpired,
            Refusal::WrongState(_) | Refusal::LeaseLost | Refusal::NoDeadLetter | Refusal::StepNotReady => {
                Kind::IllegalTransition
            }
            Refusal::WrongItems { .. } | Refusal::TooManyJobs | Refusal::BadWorkflow(_) => Kind::InvalidArgs,
            Refusal::AlreadyCompleted(_) => Kind::AlreadyCompleted,
            Refusal::AlreadyCanceled => Kind::AlreadyCancelled,
            Refusal::RetryLimitReached { .. } => Kind::RetryLimitReached,
            Refusal::IdempotencyConflict(_) => Kind::IdempotencyConflict,
            Refusal::TooLate => Kind::ScheduleInPast,
            Refusal::Duplicate { .. } | Refusal::DuplicateWithin { .. } | Refusal::RedriveRunning(_) => {
                Kind::Duplicate
            }
            Refusal::QueueFull { .. } => Kind::QueueFull,
            Refusal::QueuePaused { .. } => Kind::QueuePaused,
            Refusal::ScheduleNotFound => Kind::ScheduleNotFound,
            Refusal::WorkerNotFound => Kind::WorkerNotFound,
            Refusal::WebhookNotFound => Kind::WebhookNotFound,
            Refusal::WebhookChanged | Refusal::ScheduleChanged => Kind::PreconditionFailed,
            Refusal::WebhookExists(_)
            | Refusal::TooManyWebhooks
            | Refusal::TooManySchedules
            | Refusal::SchemaExists
            | Refusal::TooManySchemas => Kind::Duplicate,
            Refusal::SinkHeld | Refusal::WebhookDisabled | Refusal::DeliveryLost => Kind::IllegalTransition,
            Refusal::DeliveryNotFound => Kind::DeliveryNotFound,
        }
    }
}
