//! Calls of workers: fetch, ack, nack, heartbeat.

use forgerun_core::id::JobId;
use forgerun_core::worker::WorkerState;
use forgerun_wire::grpc::{LEASE_TOKEN, job, moment, request, v1};
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::ojs::worker::{lease_token, read_ack, read_fetch, read_heartbeat, read_nack};

use prost::Message;

use super::call::with_body;
use crate::app::App;
use crate::dialects::ojs::taking::hand_back;
use crate::dialects::ojs::work::AssignedJob;
use crate::dialects::ojs::{fleet, work};
use crate::http::{ApiError, routing::Call};
use crate::limits::{GRPC_FETCH_BYTES_MAX, OJS_ENVELOPE_BYTES_MAX};

pub(super) async fn fetch(call: Call<'_>, message: v1::FetchRequest) -> Result<v1::FetchResponse, ApiError> {
    let call = with_body(call, request::fetch(&message), OJS_ENVELOPE_BYTES_MAX)?;
    let jobs = work::fetch_jobs(&call, &read_fetch(&call.body)?, GRPC_FETCH_BYTES_MAX).await?;
    Ok(v1::FetchResponse { jobs: received(call.app, &jobs) })
}

/// The jobs that fit into one message; the others go back.
fn received(app: &App, jobs: &[AssignedJob]) -> Vec<v1::Job> {
    let messages = within_one_message(jobs.iter().map(handed_out));
    jobs[messages.len()..].iter().for_each(|of| hand_back(app, of.job.id, of.job.fence));
    messages
}

/// The first of these jobs that fit into one message, at least one. Numbers have more bytes than in
/// JSON.
pub(super) fn within_one_message(jobs: impl Iterator<Item = v1::Job>) -> Vec<v1::Job> {
    let (mut messages, mut n_bytes) = (Vec::new(), 0);
    for message in jobs {
        n_bytes += message.encoded_len();
        if n_bytes > GRPC_FETCH_BYTES_MAX && !messages.is_empty() {
            break;
        }
        messages.push(message);
    }
    messages
}

/// A claimed job with its lease token.
pub(super) fn handed_out(of: &AssignedJob) -> v1::Job {
    job::message(&of.view(&lease_token(of.job.id, of.job.fence)))
}

/// The lease token in the metadata.
fn token<'a>(call: &Call<'a>) -> Option<&'a str> {
    call.exchange.headers.get(LEASE_TOKEN).and_then(|value| value.to_str().ok()).map(str::trim)
}

pub(super) async fn ack(call: Call<'_>, message: v1::AckRequest) -> Result<v1::AckResponse, ApiError> {
    let body = request::ack(&message, token(&call))?;
    let call = with_body(call, body, OJS_ENVELOPE_BYTES_MAX)?;
    work::acknowledge(&call, read_ack(&call.body, None)?).await?;
    Ok(v1::AckResponse { acknowledged: true })
}

pub(super) async fn nack(call: Call<'_>, message: v1::NackRequest) -> Result<v1::NackResponse, ApiError> {
    let body = request::nack(&message, token(&call))?;
    let call = with_body(call, body, OJS_ENVELOPE_BYTES_MAX)?;
    let job = work::end_attempt(&call, read_nack(&call.body, None)?).await?;
    let word = StateWord::of(&job);
    let next_attempt_at = job.available_at.filter(|_| word == StateWord::Retryable);
    Ok(v1::NackResponse {
        state: job::state(word).into(),
        next_attempt_at: next_attempt_at.map(moment::timestamp),
    })
}

pub(super) async fn heartbeat(
    call: Call<'_>,
    message: v1::HeartbeatRequest,
) -> Result<v1::HeartbeatResponse, ApiError> {
    let body = request::heartbeat(&message, token(&call));
    let call = with_body(call, body, OJS_ENVELOPE_BYTES_MAX)?;
    let answer = fleet::heartbeat_of(&call, &read_heartbeat(&call.body)?).await?;
    let directed = match answer.told {
        WorkerState::Running => v1::WorkerState::Running,
        WorkerState::Quiet => v1::WorkerState::Quiet,
        WorkerState::Terminate => v1::WorkerState::Terminate,
    };
    let new_deadline = match answer.extended.first() {
        Some(job) => held_until(&call, *job).await?,
        None => None,
    };
    Ok(v1::HeartbeatResponse { directed_state: directed.into(), new_deadline })
}

/// End of the lease.
async fn held_until(call: &Call<'_>, job: JobId) -> Result<Option<prost_types::Timestamp>, ApiError> {
    let job = call.app.engine.store().job(job).await?;
    let lease = job.as_deref().and_then(|job| job.lease.as_ref());
    Ok(lease.map(|lease| moment::timestamp(lease.until)))
}
