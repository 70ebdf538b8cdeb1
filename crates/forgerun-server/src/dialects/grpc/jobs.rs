//! Jobs: submit, read, cancel, activate.

use std::sync::Arc;

use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_wire::grpc::{job, request, v1};
use forgerun_wire::ojs::job::JobView;

use super::call::{needs_job, with_body};
use crate::app::App;
use crate::dialects::ojs::jobs::{Shown, activate_job, cancel_job};
use crate::dialects::ojs::scope::Scope;
use crate::dialects::ojs::submit::{self, SubmittedJob};
use crate::http::{ApiError, routing::Call};
use crate::limits::{OJS_BATCH_BYTES_MAX, OJS_ENVELOPE_BYTES_MAX};
use crate::traces::RequestSubject;

pub(super) async fn enqueue(
    call: Call<'_>,
    message: v1::EnqueueRequest,
) -> Result<v1::EnqueueResponse, ApiError> {
    let call = with_body(call, request::enqueue(&message)?, OJS_ENVELOPE_BYTES_MAX)?;
    let (taken, _) = submit::take_one(&call).await?;
    Ok(v1::EnqueueResponse { job: Some(taken_job(taken, message.args)) })
}

/// A submitted job. Its arguments are those of the request, unless it existed.
fn taken_job(taken: SubmittedJob, args: Vec<prost_types::Value>) -> v1::Job {
    let view = JobView::new(&taken.job, &taken.input);
    if taken.existing { job::message(&view) } else { job::message_with(&view, args) }
}

pub(super) async fn enqueue_batch(
    call: Call<'_>,
    message: v1::EnqueueBatchRequest,
) -> Result<v1::EnqueueBatchResponse, ApiError> {
    let call = with_body(call, request::batch(&message)?, OJS_BATCH_BYTES_MAX)?;
    let taken = submit::take_batch(&call).await?;
    let jobs: Vec<v1::Job> =
        taken.into_iter().zip(message.jobs).map(|(taken, entry)| taken_job(taken, entry.args)).collect();
    Ok(v1::EnqueueBatchResponse { count: jobs.len() as i32, jobs, errors: Default::default() })
}

/// The complete job; a failed one with its stored failure object.
pub(super) async fn shown(app: &App, job: Arc<Job>) -> Result<v1::Job, ApiError> {
    let failed = matches!(job.state, State::Failed | State::Canceled);
    let failure = if failed { app.engine.store().outcome(job.execution).await? } else { None };
    let shown = Shown::read(app, job).await?;
    let mut message = job::message(&shown.view());
    message.failure = failure.map(|outcome| outcome.object.bytes.clone()).unwrap_or_default();
    Ok(message)
}

pub(super) async fn get(call: Call<'_>, message: v1::GetJobRequest) -> Result<v1::GetJobResponse, ApiError> {
    needs_job(&message.job_id)?;
    let job = Scope::of(&call)?.job(call.app, call.job()).await?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    Ok(v1::GetJobResponse { job: Some(shown(call.app, job).await?) })
}

pub(super) async fn cancel(
    call: Call<'_>,
    message: v1::CancelJobRequest,
) -> Result<v1::CancelJobResponse, ApiError> {
    needs_job(&message.job_id)?;
    let reason = Some(message.reason).filter(|reason| !reason.trim().is_empty());
    let cancelled = cancel_job(&call, reason).await?;
    Ok(v1::CancelJobResponse { job: Some(shown(call.app, Arc::new(cancelled.job)).await?) })
}

pub(super) async fn activate(
    call: Call<'_>,
    message: v1::ActivateJobRequest,
) -> Result<v1::ActivateJobResponse, ApiError> {
    needs_job(&message.job_id)?;
    let activated = activate_job(&call).await?;
    Ok(v1::ActivateJobResponse { job: Some(shown(call.app, Arc::new(activated.job)).await?) })
}
