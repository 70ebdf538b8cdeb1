//! Queues of the caller, and its dead letters.

use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::rows::Activity;
use forgerun_wire::body::{self, violation};
use forgerun_wire::grpc::{job, moment, v1};
use forgerun_wire::ojs::job::JobView;
use std::sync::Arc;

use super::call::needs_job;
use super::jobs::shown;
use super::workers::within_one_message;
use crate::dialects::ojs::dead_letters::{DeadLetterPage, forget, read_page, reopen};
use crate::dialects::ojs::queues::{Found, activity, all, put_paused};
use crate::dialects::ojs::scope::Scope;
use crate::http::{ApiError, queue_name, routing::Call};
use crate::limits::{GRPC_FETCH_BYTES_MAX, PAGE_DEFAULT, PAGE_MAX};

/// Page size; zero is the default.
fn limit(limit: i32) -> Result<usize, ApiError> {
    match usize::try_from(limit) {
        Ok(0) => Ok(PAGE_DEFAULT),
        Ok(limit) if limit <= PAGE_MAX => Ok(limit),
        _ => Err(wrong("limit", &format!("must be from 1 to {PAGE_MAX}"), "range")),
    }
}

fn wrong(field: &str, detail: &str, constraint: &'static str) -> ApiError {
    body::refused(Kind::MalformedRequest, vec![violation(field, detail, constraint)], &[]).into()
}

pub(super) async fn list(
    call: Call<'_>,
    message: v1::ListQueuesRequest,
) -> Result<v1::ListQueuesResponse, ApiError> {
    let limit = limit(message.limit)?;
    let begin: usize = match message.cursor.as_str() {
        "" => 0,
        cursor => cursor.parse().map_err(|_| wrong("cursor", "is no cursor of this list", "format"))?,
    };
    let queues = all(&call).await?;
    let end = begin.saturating_add(limit);
    let next_cursor = if end < queues.len() { end.to_string() } else { String::new() };
    let queues = queues.iter().skip(begin).take(limit).map(info).collect();
    Ok(v1::ListQueuesResponse { queues, next_cursor })
}

fn info(queue: &Found) -> v1::QueueInfo {
    let view = queue.view(Activity::default());
    v1::QueueInfo {
        name: view.name.to_owned(),
        paused: view.paused,
        available_count: view.numbers.available as i64,
        created_at: queue.created_at().map(moment::timestamp),
    }
}

pub(super) async fn stats(
    call: Call<'_>,
    message: v1::QueueStatsRequest,
) -> Result<v1::QueueStatsResponse, ApiError> {
    let (app, owner, name) = (call.app, Scope::of(&call)?.owner()?, queue_name(&message.queue)?);
    let activity = activity(app, owner.scoped(name.as_str())).await?;
    let found = Found::read(app, &owner, name).await?;
    let view = found.view(activity);
    let numbers = &view.numbers;
    let stats = v1::QueueStatistics {
        available: numbers.available as i64,
        active: numbers.active as i64,
        scheduled: numbers.scheduled as i64,
        retryable: numbers.retryable as i64,
        dead: numbers.discarded as i64,
        completed_last_hour: numbers.completed_last_hour as i64,
        failed_last_hour: numbers.failed_last_hour as i64,
        avg_duration_ms: numbers.avg_duration_ms,
        avg_wait_ms: numbers.avg_wait_ms,
        throughput_per_second: numbers.per_second(),
        paused: view.paused,
    };
    Ok(v1::QueueStatsResponse { queue: view.name.to_owned(), stats: Some(stats) })
}

pub(super) async fn pause(
    call: Call<'_>,
    message: v1::PauseQueueRequest,
) -> Result<v1::PauseQueueResponse, ApiError> {
    put_paused(&call, queue_name(&message.queue)?, true).await?;
    Ok(v1::PauseQueueResponse {})
}

pub(super) async fn resume(
    call: Call<'_>,
    message: v1::ResumeQueueRequest,
) -> Result<v1::ResumeQueueResponse, ApiError> {
    put_paused(&call, queue_name(&message.queue)?, false).await?;
    Ok(v1::ResumeQueueResponse {})
}

pub(super) async fn list_dead_letters(
    call: Call<'_>,
    message: v1::ListDeadLetterRequest,
) -> Result<v1::ListDeadLetterResponse, ApiError> {
    let queue = match message.queue.as_str() {
        "" => None,
        name => Some(queue_name(name)?),
    };
    let after: Option<JobId> = match message.cursor.as_str() {
        "" => None,
        cursor => {
            let job = cursor.parse().map_err(|_| wrong("cursor", "is no cursor of this list", "format"))?;
            Some(job)
        }
    };
    let page = DeadLetterPage {
        job_type: None,
        queue,
        after,
        skipped: 0,
        limit: limit(message.limit)?,
        bytes_max: GRPC_FETCH_BYTES_MAX,
    };
    let found = read_page(&call, page).await?;
    let jobs =
        within_one_message(found.jobs.iter().map(|(job, input)| job::message(&JobView::new(job, input))));
    let has_more = found.has_more || jobs.len() < found.jobs.len();
    let last = jobs.last().filter(|_| has_more);
    Ok(v1::ListDeadLetterResponse {
        next_cursor: last.map(|job| job.id.clone()).unwrap_or_default(),
        total_count: found.total as i64,
        jobs,
    })
}

pub(super) async fn retry_dead_letter(
    call: Call<'_>,
    message: v1::RetryDeadLetterRequest,
) -> Result<v1::RetryDeadLetterResponse, ApiError> {
    needs_job(&message.job_id)?;
    let job = reopen(&call).await?;
    Ok(v1::RetryDeadLetterResponse { job: Some(shown(call.app, Arc::new(job)).await?) })
}

pub(super) async fn delete_dead_letter(
    call: Call<'_>,
    message: v1::DeleteDeadLetterRequest,
) -> Result<v1::DeleteDeadLetterResponse, ApiError> {
    needs_job(&message.job_id)?;
    forget(&call).await?;
    Ok(v1::DeleteDeadLetterResponse {})
}
