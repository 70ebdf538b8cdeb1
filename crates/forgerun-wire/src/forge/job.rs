//! Jobs as `/v1` shows them. What a job says in words of its own is borrowed: a view is written out and gone.

use std::borrow::Cow;

use forgerun_core::job::Job;
use forgerun_core::state::State;
use serde::{Deserialize, Serialize};

use super::event::EventView;
use crate::error::{ErrorView, FailedAttemptView};
use crate::item::ItemsSummary;
use crate::{outcome, request_body, time, words};

/// A job that was accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Submitted"))]
pub struct SubmittedView {
    /// Which job.
    pub job_id: String,
    /// Where it stands.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: String,
    /// When it was accepted.
    pub created_at: String,
    /// Whether the built-in worker simulates it; false for work of workers outside.
    #[serde(default)]
    pub simulated: bool,
}

impl SubmittedView {
    /// The job as it stands.
    pub fn new(job: &Job) -> SubmittedView {
        SubmittedView {
            job_id: job.id.to_string(),
            state: words::forge_state(job.state).into(),
            created_at: time::millis(job.head.created_at),
            simulated: job.head.is_simulated(),
        }
    }
}

/// The answer to a cancel call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Canceled"))]
pub struct CanceledView {
    /// Which job.
    pub job_id: String,
    /// Where it stands.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: String,
    /// When it last changed.
    pub updated_at: String,
}

impl CanceledView {
    /// The job as it stands.
    pub fn new(job: &Job) -> CanceledView {
        CanceledView {
            job_id: job.id.to_string(),
            state: words::forge_state(job.state).into(),
            updated_at: time::millis(job.updated_at),
        }
    }
}

/// The answer to a retry call.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Retried"))]
pub struct RetriedView {
    /// Which job.
    pub job_id: String,
    /// Where it stands.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: String,
    /// When it last changed.
    pub updated_at: String,
    /// The attempt under way or about to begin.
    pub attempt: u32,
}

impl RetriedView {
    /// The job as it stands.
    pub fn new(job: &Job) -> RetriedView {
        let CanceledView { job_id, state, updated_at } = CanceledView::new(job);
        RetriedView { job_id, state, updated_at, attempt: job.attempt }
    }
}

/// The answer to a signal to the handler of a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Signaled"))]
pub struct SignaledView {
    /// Which job.
    pub job_id: String,
    /// The name of the signal.
    pub signal: String,
    /// Where the job stands now.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: String,
    /// When it last changed.
    pub updated_at: String,
}

impl SignaledView {
    /// The job as it stands.
    pub fn new(job: &Job, signal: &str) -> SignaledView {
        let CanceledView { job_id, state, updated_at } = CanceledView::new(job);
        SignaledView { job_id, signal: signal.to_owned(), state, updated_at }
    }
}

/// The answer to a call that pauses or resumes a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Paused"))]
pub struct PausedView {
    /// Which job.
    pub job_id: String,
    /// Where it stands, which a pause does not change.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: String,
    /// Whether it is paused now.
    pub paused: bool,
    /// When it last changed.
    pub updated_at: String,
}

impl PausedView {
    /// The job as it stands.
    pub fn new(job: &Job) -> PausedView {
        let CanceledView { job_id, state, updated_at } = CanceledView::new(job);
        PausedView { job_id, state, paused: job.paused, updated_at }
    }
}

request_body! {
    /// What may be asked of a retry.
    pub RETRY = "RetryRequest" {
        /// Of a dead letter: begin again with all attempts, at once.
        "revive": or(truth(), false),
    }
    ; examples {"dead_letter": {"value": {"revive": true}}}
}

/// The same as a value.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct RetryRequest {
    /// Of a dead letter: begin again with all attempts, at once.
    #[serde(default)]
    pub revive: bool,
}

/// A job in full.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Job"))]
pub struct JobView<'a> {
    /// Which job.
    pub job_id: String,
    /// EXECUTE, DEFERRED or EMIT_EVENT.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Form"))]
    pub form: Cow<'a, str>,
    /// What kind of work it is, for workers outside.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub job_type: Option<Cow<'a, str>>,
    /// Where it stands.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: Cow<'a, str>,
    /// SUCCESS, FAILED or CANCELED once it has ended.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::Outcome>"))]
    pub outcome: Option<Cow<'a, str>>,
    /// When it was accepted.
    pub created_at: String,
    /// When it is to run, if that was given.
    pub execution_at: Option<String>,
    /// By when it must have ended, if it has a deadline that counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline: Option<String>,
    /// Its labels.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tags: Vec<Cow<'a, str>>,
    /// Whether it is paused: no worker is given it until it is resumed.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub paused: bool,
    /// The signal that its handler waits for, if it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub awaited_signal: Option<Cow<'a, str>>,
    /// When it last changed.
    pub updated_at: String,
    /// The attempt under way or about to begin, from 1.
    pub attempt: u32,
    /// Who is told of its changes.
    pub callback: Option<Cow<'a, str>>,
    /// Where it waits.
    pub queue: Cow<'a, str>,
    /// Whether the built-in worker simulates it; false for work of workers outside.
    #[serde(default)]
    pub simulated: bool,
    /// What the built-in worker simulates.
    pub definition: Option<DefinitionView<'a>>,
    /// The items of a batch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<ItemsSummary>,
    /// Percent done, as last reported.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub progress: Option<u8>,
    /// Why it ended badly.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorView<'a>>,
    /// Why its attempts failed, oldest first, whatever became of it after them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub errors: Vec<FailedAttemptView<'a>>,
    /// When it became a dead letter: the server has tried as often as it may, and somebody has to look.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub dead_lettered_at: Option<String>,
    /// The execution under way.
    #[serde(rename = "jobId")]
    pub execution_id: String,
    /// Its status in the words of the async-job members.
    #[serde(rename = "jobStatus")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::JobStatus"))]
    pub job_status: String,
    /// When it was accepted.
    #[serde(rename = "submittedAt")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::UtcTime"))]
    pub submitted_at: String,
    /// When it ended.
    #[serde(rename = "completedAt", skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::UtcTime"))]
    pub completed_at: Option<String>,
    /// Whether submitting it again is worth it; said of failures.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retryable: Option<bool>,
    /// Seconds to wait before that.
    #[serde(rename = "retryAfter", skip_serializing_if = "Option::is_none", default)]
    pub retry_after: Option<u64>,
    /// How many more attempts a retry of the job can have; said of a failed job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retries_left: Option<u32>,
    /// How far it had come; said of failures.
    #[serde(rename = "processingStage", skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Stage"))]
    pub processing_stage: Option<Cow<'a, str>>,
    /// The schedule that made it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub schedule: Option<ScheduledRunView<'a>>,
    /// What the client calls it.
    #[serde(rename = "correlationId", skip_serializing_if = "Option::is_none", default)]
    pub correlation_id: Option<Cow<'a, str>>,
}

/// The schedule that made a job.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "ScheduledRun"))]
pub struct ScheduledRunView<'a> {
    /// What it is called.
    pub name: Cow<'a, str>,
    /// Which tick the job belongs to; for one that somebody asked for, when that was.
    pub tick: String,
}

/// What the built-in worker simulates.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Definition"))]
pub struct DefinitionView<'a> {
    /// The scenario.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::WorkKind"))]
    pub work_kind: Cow<'a, str>,
    /// How long it runs, before `sim.time_scale`.
    pub duration_ms: u32,
    /// Whether its first attempt fails.
    pub should_fail: bool,
    /// The size of its result, in KB.
    pub payload_size: u16,
}

impl<'a> JobView<'a> {
    /// The job as it stands.
    pub fn new(job: &'a Job) -> JobView<'a> {
        let failed = matches!(job.state, State::Failed | State::Canceled);
        let kind = failed.then(|| outcome::what_went_wrong(job).0);
        let retryable = kind.map(|kind| outcome::retryable(job, kind));
        JobView {
            job_id: job.id.to_string(),
            form: words::forge_type(job.head.form).into(),
            job_type: Some(job.head.job_type.as_str()).filter(|name| !name.is_empty()).map(Into::into),
            state: words::forge_state(job.state).into(),
            outcome: words::forge_outcome(job.state).map(Into::into),
            created_at: time::millis(job.head.created_at),
            execution_at: job.head.execution_at.map(time::millis),
            deadline: job.deadline().map(time::millis),
            tags: job.head.tags.iter().map(|tag| tag.as_str().into()).collect(),
            paused: job.paused,
            awaited_signal: job.awaited_signal.as_deref().map(Into::into),
            updated_at: time::millis(job.updated_at),
            attempt: job.attempt,
            callback: job.head.callback.as_deref().map(Into::into),
            queue: job.head.queue.as_str().into(),
            simulated: job.head.is_simulated(),
            definition: job.head.definition.map(|definition| DefinitionView {
                work_kind: definition.work_kind.as_str().into(),
                duration_ms: definition.duration_ms,
                should_fail: definition.should_fail,
                payload_size: definition.payload_kb,
            }),
            items: ItemsSummary::of(job),
            progress: words::progress(job),
            error: failed.then(|| ErrorView::new(job)),
            errors: FailedAttemptView::all(job),
            dead_lettered_at: job.dead_lettered_at.map(time::millis),
            execution_id: job.execution.to_string(),
            job_status: words::job_status(job).as_str().into(),
            submitted_at: time::millis(job.head.created_at),
            completed_at: job.finished_at.map(time::millis),
            retryable,
            retry_after: (retryable == Some(true)).then(|| outcome::retry_after_s(job)),
            retries_left: job.retries_left(),
            processing_stage: kind.map(|kind| outcome::stage(job, kind).into()),
            schedule: job
                .head
                .schedule
                .as_ref()
                .map(|run| ScheduledRunView { name: run.name.as_str().into(), tick: time::millis(run.tick) }),
            correlation_id: job.head.correlation_id.as_deref().map(Into::into),
        }
    }
}

/// A page of jobs, newest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Jobs"))]
pub struct JobsView<'a> {
    /// The jobs.
    pub jobs: Vec<JobView<'a>>,
    /// Where to go on; null at the end.
    pub next_cursor: Option<String>,
}

/// The report of a job that has ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Report"))]
pub struct ReportView {
    /// Which job.
    pub job_id: String,
    /// How it ended.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Outcome"))]
    pub outcome: String,
    /// All that happened, oldest first.
    pub events: Vec<EventView>,
    /// When the work began; the end, if it never did.
    pub started_at: String,
    /// When it ended.
    pub finished_at: String,
    /// The time between the two.
    pub duration_ms: u64,
    /// Attempts made.
    pub attempts: u32,
}

impl ReportView {
    /// The report, if the job has ended.
    pub fn new(job: &Job) -> Option<ReportView> {
        let finished_at = job.finished_at?;
        let started_at = job.started_at.unwrap_or(finished_at);
        Some(ReportView {
            job_id: job.id.to_string(),
            outcome: words::forge_outcome(job.state)?.into(),
            events: EventView::all(job),
            started_at: time::millis(started_at),
            finished_at: time::millis(finished_at),
            // Of the written moments, so that a reader who subtracts finds the same.
            duration_ms: finished_at.unix_ms().saturating_sub(started_at.unix_ms()),
            attempts: job.attempt_handed,
        })
    }
}
