//! An execution as `/api/v1` shows it. A `jobId` names an execution: once it has ended its answer stays what it is, whatever
//! becomes of the job afterwards (C-14). So what was retried is shown from its stored last word, never from the job.

use std::time::Duration;

use forgerun_core::history::EventKind;
use forgerun_core::id::ExecutionId;
use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_problem::{JobStatus, Problem};
use serde::{Deserialize, Serialize};

use crate::error::ErrorView;
use crate::item::ItemsSummary;
use crate::{outcome, time, words};

/// Where an execution is looked at.
pub fn status_path(execution: ExecutionId) -> String {
    format!("/api/v1/jobs/{execution}")
}

/// Where the result of an execution is. An operation of `reports` leaves a report, and says so.
pub fn result_path(job: &Job, execution: ExecutionId) -> String {
    match job.head.operation.as_deref().and_then(|operation| operation.split('/').next()) {
        Some("reports") => format!("/api/v1/reports/{execution}"),
        Some(_) | None => format!("/api/v1/jobs/{execution}/result"),
    }
}

/// A job that was accepted.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Accepted"))]
pub struct AcceptedView {
    /// Which execution.
    pub job_id: String,
    /// Where it stands.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::OperationStatus"))]
    pub status: String,
    /// Where to look at it.
    pub status_url: String,
    /// When it was accepted.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::UtcTime"))]
    pub submitted_at: String,
    /// How long such work usually takes, in seconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estimated_duration: Option<u64>,
}

impl AcceptedView {
    /// The answer to a submission. `status` is where the execution stands that it began: now, or when it was first made.
    pub fn new(job: &Job, status: &str, context: &StatusContext<'_>) -> AcceptedView {
        let execution = job.id.first_execution();
        AcceptedView {
            job_id: execution.to_string(),
            status: status.into(),
            status_url: format!("{}{}", context.base, status_path(execution)),
            submitted_at: time::millis(job.head.created_at),
            estimated_duration: context.expected.map(|expected| expected.as_secs_f64().ceil() as u64),
        }
    }
}

/// What is known of an execution beside its job.
#[derive(Clone, Copy, Debug)]
pub struct StatusContext<'a> {
    /// The public address of the server, or empty.
    pub base: &'a str,
    /// What time it is.
    pub now: Time,
    /// How long such work takes, where that is known.
    pub expected: Option<Duration>,
    /// Which place it has among those that wait, from 1.
    pub queue_position: Option<u64>,
    /// What it left.
    pub result: Option<ResultNoteView<'a>>,
    /// Whether a job that a worker has taken and not begun is said to be `Preparing` (C-05).
    pub extended: bool,
}

/// What an execution left.
#[derive(Clone, Copy, Debug)]
pub struct ResultNoteView<'a> {
    /// Of which type.
    pub media_type: &'a str,
    /// How many bytes.
    pub size: u64,
}

/// The last word on an execution that was retried.
#[derive(Clone, Copy, Debug)]
pub struct RetriedExecution<'a> {
    /// Which execution.
    pub execution: ExecutionId,
    /// Its place among the executions of the job, from 1.
    pub n: u32,
    /// The execution that came after it.
    pub retried_as: ExecutionId,
    /// What was stored of it.
    pub problem: &'a Problem,
}

/// An execution.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Status"))]
pub struct StatusView {
    /// Which execution.
    pub job_id: String,
    /// Queued, Running, Completed, Failed, Cancelled or PartiallyCompleted.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::OperationStatus"))]
    pub status: String,
    /// What kind of job it is.
    #[serde(rename = "type", skip_serializing_if = "Option::is_none", default)]
    pub job_type: Option<String>,
    /// Whether the built-in worker simulates it; false for work of workers outside.
    #[serde(default)]
    pub simulated: bool,
    /// Percent done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub progress: Option<u8>,
    /// What the worker says about it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub message: Option<String>,
    /// When it was accepted.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::UtcTime"))]
    pub submitted_at: String,
    /// When work on it began.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub started_at: Option<String>,
    /// When it last changed.
    pub updated_at: String,
    /// Which place it has among those that wait, from 1; far from the head an estimate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub queue_position: Option<u64>,
    /// When it will probably be done.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub estimated_completion_at: Option<String>,
    /// When it ended, however it did.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::UtcTime"))]
    pub completed_at: Option<String>,
    /// When it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failed_at: Option<String>,
    /// When it was cancelled.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancelled_at: Option<String>,
    /// Who did that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cancelled_by: Option<String>,
    /// And why.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Seconds from its acceptance to its end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub duration: Option<u64>,
    /// Where its result is.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_url: Option<String>,
    /// What its result is: JSON, PDF, …
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_type: Option<String>,
    /// Bytes of its result.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub result_size: Option<u64>,
    /// The items of a batch.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items: Option<ItemsSummary>,
    /// Where all of them are listed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub items_url: Option<String>,
    /// Why it ended badly.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<ErrorView<'static>>,
    /// Attempts after the first.
    pub retry_count: u32,
    /// How many of them there may be.
    pub max_retries: u32,
    /// When it is forgotten.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub expires_at: Option<String>,
    /// By when it must have ended, if it has a deadline that counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline: Option<String>,
    /// Its labels.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub tags: Vec<String>,
    /// The execution that a retry by hand began after this one failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retried_as: Option<String>,
    /// Its status in the words of the async-job members.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::JobStatus"))]
    pub job_status: String,
    /// Whether submitting it again is worth it; said of failures.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retryable: Option<bool>,
    /// Seconds to wait before that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after: Option<u64>,
    /// How many more attempts a retry of the job can have; said of a failed job.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retries_left: Option<u32>,
    /// How far it had come; said of failures.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Stage"))]
    pub processing_stage: Option<String>,
    /// What the client calls it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub correlation_id: Option<String>,
    /// The job it is an execution of.
    #[serde(rename = "job_id")]
    pub of_job: String,
}

impl StatusView {
    /// The execution of `job` that is or was under way last.
    pub fn new(job: &Job, context: &StatusContext<'_>) -> StatusView {
        let job_status = words::job_status(job);
        let view = StatusView::blank(job, job.execution, job.execution_n(), &job_status);
        let items = ItemsSummary::of(job);
        let view = StatusView {
            retry_count: job.attempt.saturating_sub(1),
            items,
            items_url: items.map(|_| format!("{}{}/items", context.base, status_path(job.execution))),
            ..view
        };
        match job.state {
            State::Created | State::Queued | State::Assigned | State::Running => {
                view.alive(job, &job_status, context)
            }
            State::Succeeded => view.completed(job, context),
            State::Failed | State::Canceled => view.ended_badly(job),
        }
    }

    /// An execution that was retried by hand, by what was said when it ended.
    pub fn retried(job: &Job, last_word: &RetriedExecution<'_>) -> StatusView {
        let problem = last_word.problem;
        let members = problem.job();
        let job_status = members.status().cloned().unwrap_or(JobStatus::Failed);
        let completed_at = members.completed_at().map(|at| at.to_string());
        let attempt = problem.extensions().get("details").and_then(|details| details["attempt"].as_u64());
        let ended = members.completed_at().map(|at| Time::from_micros(at.unix_micros()));
        let view = StatusView::blank(job, last_word.execution, last_word.n, &job_status);
        StatusView {
            updated_at: completed_at.clone().unwrap_or_else(|| view.updated_at.clone()),
            retry_count: attempt.map_or(0, |attempt| attempt.saturating_sub(1) as u32),
            duration: ended.map(|ended| seconds(job.head.created_at, ended)),
            failed_at: completed_at.clone(),
            completed_at,
            error: Some(ErrorView::from_last_word(problem)),
            retried_as: Some(last_word.retried_as.to_string()),
            retryable: members.retryable(),
            retry_after: members.retry_after_s(),
            // As they were at its end: what is said of an ended execution does not change.
            retries_left: attempt
                .map(|attempt| u64::from(job.head.retry.attempts_max).saturating_sub(attempt) as u32),
            processing_stage: members.processing_stage().map(Into::into),
            ..view
        }
    }

    /// What every status has.
    fn blank(job: &Job, execution: ExecutionId, n: u32, job_status: &JobStatus) -> StatusView {
        let head = &job.head;
        StatusView {
            job_id: execution.to_string(),
            status: words::operation_status(job_status).into(),
            job_type: Some(head.job_type.clone()).filter(|job_type| !job_type.is_empty()),
            simulated: head.is_simulated(),
            submitted_at: time::millis(head.created_at),
            started_at: started_at(job, n).map(time::millis),
            updated_at: time::millis(job.updated_at),
            retry_count: 0,
            max_retries: head.retry.attempts_max.saturating_sub(1),
            expires_at: job.forget_at.map(time::millis),
            deadline: job.deadline().map(time::millis),
            tags: head.tags.clone(),
            job_status: job_status.as_str().into(),
            correlation_id: head.correlation_id.clone(),
            of_job: job.id.to_string(),
            progress: None,
            message: None,
            queue_position: None,
            estimated_completion_at: None,
            completed_at: None,
            failed_at: None,
            cancelled_at: None,
            cancelled_by: None,
            reason: None,
            duration: None,
            result_url: None,
            result_type: None,
            result_size: None,
            items: None,
            items_url: None,
            error: None,
            retried_as: None,
            retryable: None,
            retry_after: None,
            retries_left: None,
            processing_stage: None,
        }
    }

    fn alive(self, job: &Job, job_status: &JobStatus, context: &StatusContext<'_>) -> StatusView {
        let running = *job_status == JobStatus::Processing;
        let estimated = estimated_end(job, context).filter(|_| running);
        StatusView {
            status: live_status(job, context.extended).into(),
            progress: job.progress.filter(|_| running),
            message: message(job).filter(|_| running),
            queue_position: context.queue_position.filter(|_| !running),
            estimated_completion_at: estimated.map(time::millis),
            ..self
        }
    }

    fn completed(self, job: &Job, context: &StatusContext<'_>) -> StatusView {
        let ended = job.finished_at.unwrap_or(job.updated_at);
        let url = || format!("{}{}", context.base, result_path(job, job.execution));
        StatusView {
            progress: Some(100),
            completed_at: Some(time::millis(ended)),
            duration: Some(seconds(job.head.created_at, ended)),
            result_url: context.result.map(|_| url()),
            result_type: context.result.map(|result| result_type(result.media_type)),
            result_size: context.result.map(|result| result.size),
            ..self
        }
    }

    fn ended_badly(self, job: &Job) -> StatusView {
        let ended = job.finished_at.unwrap_or(job.updated_at);
        let at = Some(time::millis(ended));
        let (kind, _) = outcome::what_went_wrong(job);
        let retryable = outcome::retryable(job, kind);
        let cancelled = job.state == State::Canceled;
        let cancel = job.cancel.as_ref().filter(|_| cancelled);
        StatusView {
            completed_at: at.clone(),
            failed_at: at.clone().filter(|_| !cancelled),
            cancelled_at: at.filter(|_| cancelled),
            cancelled_by: cancel.map(|cancel| cancel.by.clone()),
            reason: cancel.map(|cancel| cancel.reason.clone()),
            duration: Some(seconds(job.head.created_at, ended)),
            error: Some(ErrorView::new(job)),
            retryable: Some(retryable),
            retry_after: retryable.then(|| outcome::retry_after_s(job)),
            retries_left: job.retries_left(),
            processing_stage: Some(outcome::stage(job, kind).into()),
            ..self
        }
    }
}

/// The status of a job under way or at its end. With the extended words, one that a worker has taken and not begun is being
/// prepared.
pub fn live_status(job: &Job, extended: bool) -> &'static str {
    let status = words::job_status(job);
    if extended && job.state == State::Assigned && status == JobStatus::Accepted {
        return "Preparing";
    }
    words::operation_status(&status)
}

/// When work on an execution began: its first attempt, as far as the job remembers.
fn started_at(job: &Job, n: u32) -> Option<Time> {
    let began = job.history.events().find(|event| {
        event.execution == n && matches!(event.kind, EventKind::Moved { to: State::Running, .. })
    });
    began.map(|event| event.at).or(job.started_at.filter(|_| n == job.execution_n()))
}

/// Between two attempts nobody works, which is worth a word.
fn message(job: &Job) -> Option<String> {
    match job.state {
        State::Running => job.message.clone(),
        State::Created | State::Queued | State::Assigned => {
            let (done, max) = (job.attempt.saturating_sub(1), job.head.retry.attempts_max);
            (done > 0).then(|| format!("Attempt {done} of {max} failed; the next one follows."))
        }
        State::Succeeded | State::Failed | State::Canceled => None,
    }
}

/// From what such work usually takes; failing that, from how far it has come. Never in the past.
fn estimated_end(job: &Job, context: &StatusContext<'_>) -> Option<Time> {
    let began = job.started_at.filter(|_| job.state == State::Running)?;
    let by_progress = || {
        let percent = job.progress.filter(|percent| (1..100).contains(percent))?;
        Some(began + context.now.since(began) * 100 / u32::from(percent))
    };
    let estimated = context.expected.map(|expected| began + expected).or_else(by_progress)?;
    (estimated > context.now).then_some(estimated)
}

/// Of the written moments, so that a reader who subtracts finds the same.
fn seconds(from: Time, to: Time) -> u64 {
    (to.unix_ms().saturating_sub(from.unix_ms()) + 500) / 1000
}

/// What people call the type: the part behind the slash, without what is only there to be unique.
fn result_type(media_type: &str) -> String {
    let essence = media_type.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    match essence.as_str() {
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet" => "XLSX".into(),
        "text/plain" => "TEXT".into(),
        "application/octet-stream" => "FILE".into(),
        other => {
            let name = other.rsplit('/').next().unwrap_or_default();
            name.rsplit('+').next().unwrap_or_default().trim_start_matches("x-").to_ascii_uppercase()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_type_of_a_result_is_what_people_call_it() {
        for (media_type, expected) in [
            ("application/json; charset=utf-8", "JSON"),
            ("application/pdf", "PDF"),
            ("application/problem+xml", "XML"),
            ("application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", "XLSX"),
            ("text/csv", "CSV"),
            ("application/x-tar", "TAR"),
            ("Application/Octet-Stream", "FILE"),
        ] {
            assert_eq!(result_type(media_type), expected, "{media_type}");
        }
    }

    #[test]
    fn durations_are_rounded_to_whole_seconds() {
        let at = Time::from_millis;
        assert_eq!(seconds(at(0), at(35_000)), 35);
        assert_eq!(seconds(at(0), at(499)), 0);
        assert_eq!(seconds(at(0), at(500)), 1);
        assert_eq!(seconds(at(9), at(0)), 0, "clocks go back");
    }
}
