//! Jobs of all clients as the operator sees them.

use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::job::{Dialect, Job};
use forgerun_core::state::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::FailedAttemptView;
use crate::forge::EventView;
use crate::shares::FairView;
use crate::{outcome, readable, status, time, words};

/// A job in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminJob {
    /// Which job.
    pub job_id: String,
    /// Whose.
    pub client: String,
    /// What people call that client.
    #[serde(default)]
    pub client_name: Option<String>,
    /// Which of the client's tenants.
    pub tenant: Option<String>,
    /// By which API it came: v1, api or ojs.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DialectName"))]
    pub dialect: String,
    /// What its submitter calls it; under `/v1` its form.
    #[serde(rename = "type")]
    pub job_type: String,
    /// The operation it was submitted as.
    pub operation: Option<String>,
    /// Whether the built-in worker simulates it; false for work of workers outside.
    #[serde(default)]
    pub simulated: bool,
    /// What the built-in worker simulates.
    pub kind: Option<String>,
    /// Where it waits.
    pub queue: String,
    /// Where it stands.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: String,
    /// Whether it is paused: no worker is given it until it is resumed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub paused: bool,
    /// The signal that its handler waits for, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub awaited_signal: Option<String>,
    /// The attempt under way or about to begin, from 1.
    pub attempt: u32,
    /// Percent done, as last reported.
    pub progress: Option<u8>,
    /// When it was accepted.
    pub created_at: String,
    /// When it last changed.
    pub updated_at: String,
    /// When the newest attempt began.
    pub started_at: Option<String>,
    /// When it ended.
    pub finished_at: Option<String>,
    /// The code of what went wrong; of jobs that ended badly.
    pub code: Option<String>,
    /// What went wrong, in words.
    pub error: Option<String>,
    /// The group of failures it is one of.
    pub group: Option<String>,
    /// Whether all attempts are used up and somebody has to look.
    pub dead_letter: bool,
    /// What the client calls it.
    pub correlation_id: Option<String>,
    /// Its labels.
    #[serde(default)]
    pub tags: Vec<String>,
}

impl AdminJob {
    /// The job as it stands.
    pub fn new(job: &Job) -> AdminJob {
        let head = &job.head;
        let ended_badly = matches!(job.state, State::Failed | State::Canceled);
        let wrong = ended_badly.then(|| outcome::what_went_wrong(job));
        AdminJob {
            job_id: job.id.to_string(),
            client: head.client.to_string(),
            client_name: None,
            tenant: head.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            dialect: match head.dialect {
                Dialect::Forge => "v1",
                Dialect::Operations => "api",
                Dialect::Ojs => "ojs",
            }
            .to_owned(),
            job_type: job_type(job).to_owned(),
            operation: head.operation.clone(),
            simulated: head.is_simulated(),
            kind: head.definition.map(|definition| definition.work_kind.as_str().to_owned()),
            queue: head.queue.as_str().to_owned(),
            state: words::forge_state(job.state).to_owned(),
            paused: job.paused,
            awaited_signal: job.awaited_signal.clone(),
            attempt: job.attempt,
            progress: job.progress,
            created_at: time::millis(head.created_at),
            updated_at: time::millis(job.updated_at),
            started_at: job.started_at.map(time::millis),
            finished_at: job.finished_at.map(time::millis),
            code: wrong.as_ref().map(|(kind, _)| status::code(*kind, Dialect::Forge).to_owned()),
            error: wrong.map(|(_, message)| message),
            group: job.failure.map(|failure| failure.to_string()),
            dead_letter: job.dead_lettered_at.is_some(),
            correlation_id: head.correlation_id.clone(),
            tags: head.tags.clone(),
        }
    }
}

/// What its submitter calls a job; under `/v1`, where jobs have no type, its form.
pub fn job_type(job: &Job) -> &str {
    job.head.type_name()
}

/// The workflow that a job is a step of, or that it is.
fn workflow(job: &Job) -> Option<JobId> {
    let of_step = job.head.workflow.as_ref().map(|step| step.workflow);
    of_step.or(job.head.workflow_head.as_ref().map(|_| job.id))
}

/// Whether a job ended with this code: that of any dialect, or the worker's own.
pub fn has_code(job: &Job, code: &str) -> bool {
    let of_worker =
        job.last_error().filter(|_| job.state == State::Failed).is_some_and(|error| error.code == code);
    let ended_badly = matches!(job.state, State::Failed | State::Canceled);
    let entry = || outcome::what_went_wrong(job).0.entry();
    of_worker || (ended_badly && (entry().rfa == code || entry().ojs == Some(code)))
}

/// A job in full.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminJobDetail {
    /// As in a list.
    #[serde(flatten)]
    pub job: AdminJob,
    /// Higher goes first within its queue.
    pub priority: i16,
    /// What it takes turns by within its queue and priority.
    pub fair: Option<FairView>,
    /// The workflow that it is a step of, or that it is.
    pub workflow_id: Option<String>,
    /// By when it must have ended, if it has a deadline that counts.
    pub deadline: Option<String>,
    /// Attempts allowed in all.
    pub max_attempts: u32,
    /// Who holds it.
    pub worker: Option<String>,
    /// Until when, without a sign of life.
    pub lease_until: Option<String>,
    /// What its worker last said with its progress.
    pub message: Option<String>,
    /// Its executions, oldest first; the last is the one under way, or the newest.
    pub executions: Vec<String>,
    /// Why its attempts failed, oldest first.
    pub errors: Vec<FailedAttemptView<'static>>,
    /// Every change of state, oldest first.
    pub events: Vec<EventView>,
    /// What it works on, as its submitter gave it; null if there is nothing, or if it is too large to be shown.
    pub input: Option<Value>,
    /// How many bytes that has.
    pub input_size: u64,
    /// What it left.
    pub result: Option<AdminResult>,
    /// The last word on its newest execution, if that ended badly: the failure object.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::FailedJob>"))]
    pub failure: Option<Value>,
}

/// What a job left.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminResult {
    /// Its media type.
    pub media_type: String,
    /// How many bytes it has.
    pub size: u64,
    /// When the content goes; null where it stays as long as the job.
    pub expires_at: Option<String>,
}

impl AdminJobDetail {
    /// The job as it stands, with the last word on its newest execution.
    pub fn new(job: &Job, failure: Option<Value>) -> AdminJobDetail {
        let executions = job.executions_past.iter().chain([&job.execution]);
        AdminJobDetail {
            job: AdminJob::new(job),
            priority: job.head.priority,
            fair: job.head.fair.as_ref().map(FairView::new),
            workflow_id: workflow(job).map(|id| id.to_string()),
            deadline: job.deadline().map(time::millis),
            max_attempts: job.head.retry.attempts_max,
            worker: job.lease.as_ref().map(|lease| lease.worker.as_str().to_owned()),
            lease_until: job.lease.as_ref().map(|lease| time::millis(lease.until)),
            message: job.message.clone(),
            executions: executions.map(ExecutionId::to_string).collect(),
            errors: FailedAttemptView::all(job),
            events: EventView::all(job),
            input: None,
            input_size: 0,
            result: job.result.as_ref().map(|result| AdminResult {
                media_type: result.media_type.clone(),
                size: result.size,
                expires_at: result.expires_at.map(time::millis),
            }),
            failure,
        }
    }

    /// The same with what it works on, if that has no more bytes than are shown.
    pub fn with_input(self, payload: &[u8], bytes_max: usize) -> AdminJobDetail {
        let input = if payload.len() <= bytes_max {
            serde_json::from_slice(&readable::mended(payload)).ok()
        } else {
            None
        };
        AdminJobDetail { input, input_size: payload.len() as u64, ..self }
    }
}
