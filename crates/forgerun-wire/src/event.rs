//! What happened to a job or a webhook, told to whoever listens: server-sent events today, webhooks and brokers by the same
//! words.
//!
//! A body is a pure function of the event, the job and, for the end of an execution, its stored outcome. It says nothing that
//! changes later, so a delivery that is repeated says the same bytes. Failures *are* the stored outcome, byte for byte.

mod members;

use forgerun_core::catalog::ProcessingStage;
use forgerun_core::history::{Event, EventKind, EventName, RetryStatus};
use forgerun_core::job::Job;
use forgerun_core::rows::Object;
use forgerun_core::state::{Cause, State};
use forgerun_core::webhook::Notice;
use forgerun_problem::{CorrelationId, JobStatus, MEDIA_TYPE_JSON};

use crate::forge::NoticeView;
use crate::{outcome, time, words};
pub(crate) use members::{EventMembers, MemberValue};

/// The media type of a body that is no problem.
pub const JSON: &str = "application/json";

/// What is told of one event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventBody {
    /// Its name on roads that follow the draft for asynchronous jobs.
    pub word: Word,
    /// What the bytes are.
    pub media_type: &'static str,
    /// One line of JSON.
    pub bytes: Vec<u8>,
}

impl EventBody {
    /// What is told of `event` of `job`. `outcome` is the stored one of the event's execution; it is only looked at if the
    /// event ended that execution.
    pub fn new(job: &Job, event: &Event, outcome: Option<&Object>) -> EventBody {
        let word = Word::of(event);
        match outcome.filter(|_| event.ends()) {
            Some(stored) => {
                let media_type = if word.is_failure() { MEDIA_TYPE_JSON } else { JSON };
                EventBody { word, media_type, bytes: stored.bytes.clone() }
            }
            // Of the end of a job of an older store, too, what is known is worth telling.
            None => {
                let bytes = object(job, event).into_canonical();
                EventBody { word, media_type: JSON, bytes }
            }
        }
    }

    /// What is told of a webhook that was disabled. Not where it is: that may be a secret, and others are told.
    pub fn of_notice(notice: &Notice) -> EventBody {
        let bytes = serde_json::to_vec(&NoticeView::new(notice)).expect("texts are JSON");
        EventBody { word: Word::WebhookDisabled, media_type: JSON, bytes }
    }
}

/// The names of events: what [`EventName`] tells apart, and what follows a failure besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Created,
    Queued,
    Assigned,
    Requeued,
    Started,
    Progress,
    Emitted,
    Completed,
    Retrying,
    Failed,
    TimedOut,
    CompletedWithErrors,
    Cancelled,
    WebhookDisabled,
}

impl Word {
    /// Every word: those of jobs in the order of a life, then that of webhooks.
    pub const ALL: [Word; 14] = [
        Word::Created,
        Word::Queued,
        Word::Assigned,
        Word::Requeued,
        Word::Started,
        Word::Progress,
        Word::Emitted,
        Word::Completed,
        Word::Retrying,
        Word::Failed,
        Word::TimedOut,
        Word::CompletedWithErrors,
        Word::Cancelled,
        Word::WebhookDisabled,
    ];

    /// The word for an event.
    pub const fn of(event: &Event) -> Word {
        let retries = matches!(event.kind, EventKind::Moved { retry_status: RetryStatus::WillRetry, .. });
        match event.name() {
            EventName::Created => Word::Created,
            EventName::Queued => Word::Queued,
            EventName::Assigned => Word::Assigned,
            EventName::Requeued => Word::Requeued,
            EventName::Started => Word::Started,
            EventName::Progress => Word::Progress,
            EventName::Emitted => Word::Emitted,
            EventName::Succeeded => Word::Completed,
            EventName::Failed | EventName::TimedOut | EventName::Mixed if retries => Word::Retrying,
            EventName::Failed => Word::Failed,
            EventName::Mixed => Word::CompletedWithErrors,
            EventName::TimedOut => Word::TimedOut,
            EventName::Canceled => Word::Cancelled,
        }
    }

    /// The `event` field of a server-sent event.
    pub const fn sse(self) -> &'static str {
        match self {
            Word::Created => "job-created",
            Word::Queued => "job-queued",
            Word::Assigned => "job-assigned",
            Word::Requeued => "job-requeued",
            Word::Started => "job-started",
            Word::Progress => "job-progress",
            Word::Emitted => "job-event-emitted",
            Word::Completed => "job-completed",
            Word::Retrying => "job-retrying",
            Word::Failed => "job-failed",
            Word::TimedOut => "job-timed-out",
            Word::CompletedWithErrors => "job-completed-with-errors",
            Word::Cancelled => "job-cancelled",
            Word::WebhookDisabled => "webhook-disabled",
        }
    }

    /// The `type` of a CloudEvent.
    pub const fn cloud_event(self) -> &'static str {
        match self {
            Word::Created => "dev.forgerun.job.created",
            Word::Queued => "dev.forgerun.job.queued",
            Word::Assigned => "dev.forgerun.job.assigned",
            Word::Requeued => "dev.forgerun.job.requeued",
            Word::Started => "dev.forgerun.job.started",
            Word::Progress => "dev.forgerun.job.progress",
            Word::Emitted => "dev.forgerun.job.event-emitted",
            Word::Completed => "dev.forgerun.job.completed",
            Word::Retrying => "dev.forgerun.job.retrying",
            Word::Failed => "dev.forgerun.job.failed",
            Word::TimedOut => "dev.forgerun.job.timed-out",
            Word::CompletedWithErrors => "dev.forgerun.job.completed-with-errors",
            Word::Cancelled => "dev.forgerun.job.cancelled",
            Word::WebhookDisabled => "dev.forgerun.webhook.disabled",
        }
    }

    /// Whether it is told of jobs.
    pub const fn is_of_job(self) -> bool {
        !matches!(self, Word::WebhookDisabled)
    }

    /// Whether it tells that an execution ended, and not well: its body is a problem.
    pub const fn is_failure(self) -> bool {
        match self {
            Word::Failed | Word::TimedOut | Word::CompletedWithErrors | Word::Cancelled => true,
            Word::Created
            | Word::Queued
            | Word::Assigned
            | Word::Requeued
            | Word::Started
            | Word::Progress
            | Word::Emitted
            | Word::Completed
            | Word::Retrying
            | Word::WebhookDisabled => false,
        }
    }
}

/// The async-job members at the moment of the event, and ForgeRun's own.
pub(crate) fn object<'a>(job: &'a Job, event: &Event) -> EventMembers<'a> {
    let mut object = members(job, event);
    if let Some(execution) = job.execution_id(event.execution) {
        object.put("jobId", execution.to_string());
    }
    object.put("jobStatus", status(job, event).as_str().to_owned());
    object.put("submittedAt", time::millis(job.head.created_at));
    if event.ends() {
        object.put("completedAt", time::millis(event.at));
    }
    if let Some(stage) = stage(event) {
        object.put("processingStage", stage.as_str());
    }
    if let EventKind::Moved { cause, retry_status: RetryStatus::WillRetry, .. } = event.kind {
        object.put("retryable", MemberValue::True);
        // Work whose runner is gone or gave it back waits for nothing.
        if !matches!(cause, Cause::RunnerLost | Cause::HandBack) {
            object.put("retryAfter", MemberValue::Number(outcome::wait_s(&job.head.retry, event.attempt)));
        }
    }
    if let Some(id) = job.head.correlation_id.as_deref().and_then(CorrelationId::sanitize) {
        object.put("correlationId", id.as_str().to_owned());
    }
    object
}

/// ForgeRun's members of an event. They stand in outcomes too, for the event that ended the execution.
pub(crate) fn members<'a>(job: &'a Job, event: &Event) -> EventMembers<'a> {
    let mut members = EventMembers::default();
    members.put("job_id", job.id.to_string());
    if !job.head.job_type.is_empty() {
        members.put("job_type", job.head.job_type.as_str());
    }
    if let Some(definition) = &job.head.definition {
        members.put("scenario", definition.work_kind.as_str());
    }
    members.put("event_id", event.id(job.id).to_string());
    members.put("event_name", words::event_name(event));
    members.put("timestamp", time::micros(event.at));
    members.put("attempt", MemberValue::Number(event.attempt.into()));
    if event.name() == EventName::Mixed {
        members.put("partial", MemberValue::True);
    }
    match event.kind {
        EventKind::Moved { from, to, cause, retry_status } => {
            members.put("prev_state", from.map_or(MemberValue::Null, |from| words::forge_state(from).into()));
            members.put("next_state", words::forge_state(to));
            members.put("cause", words::cause(cause));
            if let Some(reason) = reason(Some(job), cause) {
                members.put("reason", reason);
            }
            match retry_status {
                RetryStatus::Open => {}
                RetryStatus::WillRetry => members.put("will_retry", MemberValue::True),
                RetryStatus::Final => members.put("final", MemberValue::True),
            }
        }
        EventKind::Progress(percent) => {
            unmoved(&mut members);
            members.put("progress", MemberValue::Number(percent.into()));
        }
        EventKind::Emitted => unmoved(&mut members),
    }
    members
}

/// Only a running job tells more than its changes of state.
fn unmoved(members: &mut EventMembers<'_>) {
    for name in ["prev_state", "next_state"] {
        members.put(name, words::forge_state(State::Running));
    }
}

/// Why, in the words of the documents, where there is something to say beside the cause. Of a cancelled job it is known for
/// ever, since nothing can follow.
pub(crate) fn reason(job: Option<&Job>, cause: Cause) -> Option<&str> {
    match cause {
        Cause::LeaseExpired => Some("lease_expired"),
        Cause::RunnerLost => Some("runner_lost"),
        Cause::HandBack => Some("handed_back"),
        Cause::CancelByUser | Cause::CancelBySystem | Cause::Expire | Cause::Replace => {
            job?.cancel.as_ref().map(|cancel| cancel.reason.as_str())
        }
        Cause::Submit
        | Cause::Due
        | Cause::Activate
        | Cause::Claim
        | Cause::Start
        | Cause::Finish
        | Cause::Fail
        | Cause::Timeout
        | Cause::Mixed
        | Cause::RetryByUser
        | Cause::RetryByPolicy => None,
    }
}

/// The `jobStatus` of the event's execution right after it. Never goes back from PROCESSING to ACCEPTED.
fn status(job: &Job, event: &Event) -> JobStatus {
    let EventKind::Moved { to, retry_status, .. } = event.kind else { return JobStatus::Processing };
    match to {
        State::Created | State::Queued | State::Assigned if had_begun(job, event) => JobStatus::Processing,
        State::Created | State::Queued | State::Assigned => JobStatus::Accepted,
        State::Running => JobStatus::Processing,
        State::Succeeded => JobStatus::Completed,
        State::Failed if retry_status == RetryStatus::WillRetry => JobStatus::Processing,
        State::Failed if event.name() == EventName::TimedOut => JobStatus::TimedOut,
        State::Failed if event.name() == EventName::Mixed => JobStatus::CompletedWithErrors,
        State::Failed => JobStatus::Failed,
        State::Canceled => JobStatus::Cancelled,
    }
}

/// Whether work on the event's execution had begun before it.
fn had_begun(job: &Job, event: &Event) -> bool {
    let mut before = job.history.events().take_while(|before| before.n < event.n);
    before.any(|before| before.execution == event.execution && before.name() == EventName::Started)
}

/// How far the job is. One that went well is through with all stages.
const fn stage(event: &Event) -> Option<ProcessingStage> {
    match event.name() {
        EventName::Created | EventName::Queued | EventName::Assigned | EventName::Requeued => {
            Some(ProcessingStage::Queuing)
        }
        EventName::Started
        | EventName::Progress
        | EventName::Emitted
        | EventName::Failed
        | EventName::TimedOut => Some(ProcessingStage::Processing),
        // A batch of which some items failed has no stage at which it did.
        EventName::Succeeded | EventName::Mixed | EventName::Canceled => None,
    }
}
