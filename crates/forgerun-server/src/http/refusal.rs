//! Errors of requests, on their way to `finish`.

use std::error::Error as StdError;

use axum::http::header::{ALLOW, CONTENT_RANGE};
use axum::http::{HeaderName, HeaderValue};
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::workflow::BadWorkflow;
use forgerun_store::Fault;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::words::forge_state;

use crate::auth::caller::scope_missing;
use crate::http::respond::value;
use crate::limits::TROUBLE_AFTER_S;

#[derive(Debug)]
pub struct ApiError(Box<ApiErrorParts>);

#[derive(Debug)]
struct ApiErrorParts {
    refused: RefusedRequest,
    /// An additional header of the answer: allowed methods, or the size of the content.
    header: Option<(HeaderName, HeaderValue)>,
    /// The internal cause: for the log, never for the caller.
    cause: Option<ErrorCause>,
    /// Fault of a failed read; failed writes are counted elsewhere.
    read_fault: Option<Fault>,
}

type ErrorCause = Box<dyn StdError + Send + Sync>;

impl ApiError {
    pub fn new(kind: Kind, detail: impl Into<String>) -> ApiError {
        RefusedRequest::new(kind, detail).into()
    }

    /// The path exists, but not with this method.
    pub fn method(allow: &str) -> ApiError {
        let refused = RefusedRequest::new(Kind::MethodNotAllowed, format!("Allowed here: {allow}."));
        let header = Some((ALLOW, value(allow.to_owned())));
        ApiError(Box::new(ApiErrorParts { refused, header, cause: None, read_fault: None }))
    }

    /// The range begins beyond the end.
    pub fn beyond(size: u64) -> ApiError {
        let detail = format!("The result has {size} bytes, and the range begins beyond them.");
        let refused = RefusedRequest::new(Kind::RangeNotSatisfiable, detail).fact("size", size);
        let header = Some((CONTENT_RANGE, value(format!("bytes */{size}"))));
        ApiError(Box::new(ApiErrorParts { refused, header, cause: None, read_fault: None }))
    }

    /// There is no such path.
    pub fn route() -> ApiError {
        RefusedRequest::new(Kind::RouteNotFound, "There is nothing at this address.").blank().into()
    }

    /// An internal error with its cause.
    pub fn internal(kind: Kind, cause: impl Into<Box<dyn StdError + Send + Sync>>) -> ApiError {
        let refused = RefusedRequest::new(kind, kind.entry().meaning);
        ApiError(Box::new(ApiErrorParts {
            refused,
            header: None,
            cause: Some(cause.into()),
            read_fault: None,
        }))
    }

    pub fn kind(&self) -> Kind {
        self.0.refused.kind
    }

    /// What is wrong, in sentences for people.
    pub(crate) fn explained(&self) -> String {
        let refused = &self.0.refused;
        let wrong = refused.violations.iter().map(|violation| {
            let name = violation.pointer.trim_start_matches("#/");
            if name.is_empty() { violation.detail.clone() } else { format!("{name}: {}", violation.detail) }
        });
        let wrong: Vec<String> = wrong.collect();
        if wrong.is_empty() { refused.detail.clone() } else { wrong.join("; ") }
    }

    /// Fault of the failed read, if that is the reason.
    pub(crate) fn read_fault(&self) -> Option<Fault> {
        self.0.read_fault
    }

    pub(crate) fn into_parts(
        self,
    ) -> (RefusedRequest, Option<(HeaderName, HeaderValue)>, Option<ErrorCause>) {
        let ApiErrorParts { refused, header, cause, read_fault: _ } = *self.0;
        (refused, header, cause)
    }
}

impl From<RefusedRequest> for ApiError {
    fn from(refused: RefusedRequest) -> ApiError {
        ApiError(Box::new(ApiErrorParts { refused, header: None, cause: None, read_fault: None }))
    }
}

impl From<Box<RefusedRequest>> for ApiError {
    fn from(refused: Box<RefusedRequest>) -> ApiError {
        (*refused).into()
    }
}

impl From<forgerun_engine::Error> for ApiError {
    fn from(error: forgerun_engine::Error) -> ApiError {
        match error {
            forgerun_engine::Error::Refused(refusal) => of_rules(&refusal).into(),
            forgerun_engine::Error::Overloaded => {
                let detail = "More requests are waiting to be written than the server takes in.";
                let most = forgerun_engine::Options::COMMANDS_WAITING as u64;
                RefusedRequest::new(Kind::QueueFull, detail).limited(most, "at once", TROUBLE_AFTER_S).into()
            }
            forgerun_engine::Error::Stopped => {
                let detail = "The server is stopping.";
                RefusedRequest::new(Kind::StorageUnavailable, detail).retry_after(TROUBLE_AFTER_S).into()
            }
            forgerun_engine::Error::Store(error) => ApiError::internal(of_fault(error.fault), error),
        }
    }
}

impl From<forgerun_store::Error> for ApiError {
    fn from(error: forgerun_store::Error) -> ApiError {
        let fault = error.fault;
        let mut error = ApiError::internal(of_fault(fault), error);
        error.0.read_fault = Some(fault);
        error
    }
}

const fn of_fault(fault: Fault) -> Kind {
    match fault {
        Fault::Unavailable | Fault::TooNew | Fault::Full => Kind::StorageUnavailable,
        Fault::Timeout | Fault::Busy => Kind::StorageTimeout,
        Fault::Sealed => Kind::ContentUnreadable,
        Fault::Corrupt | Fault::Rejected | Fault::Unknown => Kind::StorageError,
    }
}

/// The wording of a core refusal.
fn of_rules(refusal: &Refusal) -> RefusedRequest {
    let refused = |detail: &str| RefusedRequest::new(refusal.kind(), detail);
    match refusal {
        Refusal::NotFound => refused("There is no such job."),
        // The same for every job of others: no state, no times, no owner (C-43).
        Refusal::Foreign => refused("The job belongs to another client."),
        Refusal::ClientNotFound => refused("There is no such client."),
        Refusal::KeyNotFound => refused("The client has no such key."),
        Refusal::KeyNeeded => {
            refused("The client has had a key before; a valid key of the client is needed now.")
        }
        Refusal::KeyExpired => refused("The API key has expired; ask the operator for another."),
        Refusal::NoKeyToRenew => refused("The client has no valid key that could be renewed."),
        Refusal::KeyReplaced => refused("The API key was replaced; use the new one to change keys.")
            .fact("reason", "key_replaced"),
        Refusal::ScopeMissing(missing) => scope_missing(*missing),
        Refusal::TooManyKeys => {
            let most = forgerun_core::limits::NAMED_KEYS_MAX;
            refused(&format!("The client has {most} named keys, and may have no more.")).fact("max", most)
        }
        Refusal::WrongState(state) => {
            let state = forge_state(*state);
            refused(&format!("The job is {state}, and this cannot be done to it now.")).fact("state", state)
        }
        Refusal::AlreadyCompleted(state) => {
            let state = forge_state(*state);
            refused(&format!("The job has ended and is {state}.")).fact("state", state)
        }
        Refusal::AlreadyCanceled => refused("The job was cancelled.").fact("state", "CANCELED"),
        Refusal::LeaseLost => refused("The worker does not hold the job, or no longer."),
        Refusal::WrongItems { expected } => {
            refused(&format!("The job has {expected} items, and each must be told once."))
        }
        Refusal::NoDeadLetter => {
            refused("The job is no dead letter, so it cannot be revived; it can be retried only while it has retries left.")
                .fact("state", "FAILED")
        }
        Refusal::RetryLimitReached { attempts } => {
            let detail = format!("No retry is left after {attempts} attempts.");
            refused(&detail).fact("state", "FAILED").fact("attempts", *attempts)
        }
        Refusal::IdempotencyConflict(job) => {
            let detail = "The idempotency key was used for a request with another content.";
            refused(detail).fact("existing_job_id", job.to_string())
        }
        Refusal::TooManyJobs => {
            let most = forgerun_core::limits::SUBMISSION_JOBS_MAX;
            refused(&format!("One submission may have {most} jobs at most.")).fact("max", most)
        }
        Refusal::TooLate => refused("The time that the job was to begin at is over."),
        Refusal::Duplicate { existing, state, index: _ } => refused("There is such a job already.")
            .fact("existing_job_id", existing.to_string())
            .fact("existing_state", forge_state(*state)),
        Refusal::DuplicateWithin { index } => {
            refused("Two jobs of the submission have the same id or unique key.").fact("index", *index)
        }
        Refusal::QueueFull { queue, waiting, max } => {
            let detail = format!("The queue {queue} holds as many jobs as it may.");
            refused(&detail)
                .fact("queue", queue.as_str())
                .fact("waiting", *waiting)
                .fact("max", *max)
                .limited(*max, "at once", TROUBLE_AFTER_S)
        }
        Refusal::QueuePaused { queue } => {
            let detail = format!("The queue {queue} is paused; send the job again once it is resumed.");
            refused(&detail).fact("queue", queue.as_str()).retry_after(TROUBLE_AFTER_S)
        }
        Refusal::OverLimit { limit, used, max } => {
            let detail = format!("The client's limit `{}` is {max}, and {used} are used.", limit.word());
            refused(&detail).fact("limit", limit.word()).fact("used", *used).fact("max", *max)
        }
        Refusal::RedriveRunning(job) => {
            let detail = format!("A redrive of this group is under way: job {job}.");
            refused(&detail).fact("existing_job_id", job.to_string())
        }
        Refusal::BadWorkflow(why) => refused(bad_workflow(*why)),
        Refusal::StepNotReady => refused(
            "The workflow cannot go on from this step: the steps that it waits for did not end as it needs.",
        ),
        Refusal::NotItsStep => refused("The job is no step of this workflow, so it adds no steps to it."),
        Refusal::StepExists { index } => {
            refused("The workflow has a step with this id already.").fact("index", *index)
        }
        Refusal::SignalUnknown => refused("No step waits for this signal.").fact("resource_type", "signal"),
        Refusal::SignalTaken => refused("Another signal has ended this wait, or is kept for it."),
        Refusal::WaitOver => refused("The wait has ended without a signal."),
        Refusal::StepRecorded => {
            refused("The step has another recorded result, which counts.").fact("reason", "step_recorded")
        }
        Refusal::StepsFull => {
            let (steps, bytes) = (forgerun_core::limits::STEPS_MAX, forgerun_core::limits::STEPS_BYTES_MAX);
            let detail = format!("A job may have {steps} recorded steps of {} KB in all.", bytes / 1024);
            refused(&detail).fact("max", steps).fact("bytes_max", bytes)
        }
        Refusal::WorkerNotFound => refused("There is no such worker."),
        Refusal::WebhookNotFound => refused("There is no such webhook."),
        Refusal::WebhookChanged => refused("The webhook was changed since; its ETag is another one now."),
        Refusal::WebhookExists(webhook) => refused("The client has a webhook with this URL already.")
            .fact("existing_webhook_id", webhook.to_string()),
        Refusal::TooManyWebhooks => {
            let most = forgerun_core::limits::WEBHOOKS_MAX;
            refused(&format!("The client has {most} webhooks, and may have no more.")).fact("max", most)
        }
        Refusal::WebhookDisabled => {
            refused("The webhook is disabled; nothing is sent to it until it is enabled again.")
        }
        Refusal::DeliveryNotFound => refused("There is no such delivery, or no longer."),
        Refusal::DeliveryLost => refused("The delivery is another sender's by now."),
        Refusal::SinkHeld => refused("Another node sends for the sink."),
        Refusal::ScheduleNotFound => refused("There is no such schedule.").fact("resource_type", "schedule"),
        Refusal::TooManySchedules => {
            let most = forgerun_core::limits::SCHEDULES_MAX;
            refused(&format!("The client has {most} schedules, and may have no more.")).fact("max", most)
        }
        Refusal::SchemaNotFound => refused("There is no such schema.").fact("resource_type", "schema"),
        Refusal::SchemaExists => {
            refused("There is a schema of this type and version, or with this address, already.")
                .fact("resource_type", "schema")
        }
        Refusal::TooManySchemas => {
            let most = forgerun_core::limits::SCHEMAS_MAX;
            refused(&format!("The client has {most} schemas, and may have no more.")).fact("max", most)
        }
        Refusal::ScheduleChanged => refused("The schedule was changed at the same time; try again."),
    }
}

/// Why a workflow is invalid. The dialects' readers report it earlier, with the position.
const fn bad_workflow(why: BadWorkflow) -> &'static str {
    match why {
        BadWorkflow::Empty => "A workflow needs a step.",
        BadWorkflow::TooManySteps => "The workflow has more steps than it may.",
        BadWorkflow::TooManyEdges => "The steps of the workflow wait for too many others.",
        BadWorkflow::BadEdge(_) => "A step waits for one that is not there, or twice for the same.",
        BadWorkflow::Cycle(_) => "Steps of the workflow wait for each other in a circle.",
        BadWorkflow::TooDeep => "Workflows are nested deeper than eight levels.",
        BadWorkflow::TooParallel => {
            "All for_each of the workflow together run more elements at once than they may: lower `parallel`."
        }
        BadWorkflow::BadSource(_) => "A for_each takes its list from a step that it does not depend on.",
        BadWorkflow::SameSignal(_) => "Two steps of the workflow wait for the same signal.",
        BadWorkflow::UniqueStep(_) => "A step of a workflow takes no unique key.",
    }
}
