//! Checkpoints: state that a worker saves for the next attempt.

use std::collections::BTreeMap;

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::checkpoint::Checkpoint;
use forgerun_core::command::{CheckpointCommand, HeldJob, Owned};
use forgerun_core::limits::CHECKPOINT_BYTES_MAX;
use forgerun_core::scope::KeyScope;
use forgerun_core::{Answer, Command};
use forgerun_wire::ojs::kept::ObjectWriter;
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::ojs::worker::lease_proof;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use serde::Serialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::scope::{CLIENT, OF_LEASE, Scope};
use super::{objects, refusals, reply, results};
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};

/// The routes of checkpoints. SDKs use those with `checkpoints`; some repeat the prefix (D31).
pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/jobs/{job_id}/checkpoint", "get_checkpoint", |call| Box::pin(get(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsGetCheckpointOfJob", "Get what a worker saved of a job.")
        .replies(&[Reply::object(200, "The checkpoint.", &objects::CHECKPOINT_VIEW)]),
    Route::put("/ojs/v1/jobs/{job_id}/checkpoint", "save_checkpoint", |call| Box::pin(save(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsPutCheckpointOfJob", "Save how far the work on a job is, to go on from there.")
        .body(&objects::CHECKPOINT)
        .replies(&[Reply::object(200, "Saved.", &objects::CHECKPOINT_VIEW)])
        .refuses(OF_LEASE),
    Route::post("/ojs/v1/jobs/{job_id}/checkpoint", "save_checkpoint", |call| Box::pin(save(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsPostCheckpointOfJob", "Save how far the work on a job is, to go on from there.")
        .body(&objects::CHECKPOINT)
        .replies(&[Reply::object(200, "Saved.", &objects::CHECKPOINT_VIEW)])
        .refuses(OF_LEASE),
    Route::delete("/ojs/v1/jobs/{job_id}/checkpoint", "delete_checkpoint", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsDeleteCheckpointOfJob", "Delete what a worker saved of a job.")
        .replies(&[Reply::object(200, "Deleted.", &objects::FACTS)])
        .refuses(OF_LEASE),
    Route::get("/ojs/v1/checkpoints/{job_id}/resume", "get_checkpoint", |call| Box::pin(resume(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsResumeCheckpoint", "Get what a worker saved of a job, if anything.")
        .replies(&[Reply::object(200, "The checkpoint, or that there is none.", &objects::CHECKPOINT_VIEW)]),
    Route::get("/ojs/v1/checkpoints/{job_id}", "get_checkpoint", |call| Box::pin(get(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsGetCheckpoint", "Get what a worker saved of a job.")
        .replies(&[Reply::object(200, "The checkpoint.", &objects::CHECKPOINT_VIEW)]),
    Route::put("/ojs/v1/checkpoints/{job_id}", "save_checkpoint", |call| Box::pin(save(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsPutCheckpoint", "Save how far the work on a job is, to go on from there.")
        .body(&objects::CHECKPOINT)
        .replies(&[Reply::object(200, "Saved.", &objects::CHECKPOINT_VIEW)])
        .refuses(OF_LEASE),
    Route::post("/ojs/v1/checkpoints/{job_id}", "save_checkpoint", |call| Box::pin(save(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsPostCheckpoint", "Save how far the work on a job is, to go on from there.")
        .body(&objects::CHECKPOINT)
        .replies(&[Reply::object(200, "Saved.", &objects::CHECKPOINT_VIEW)])
        .refuses(OF_LEASE),
    Route::delete("/ojs/v1/checkpoints/{job_id}", "delete_checkpoint", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsDeleteCheckpoint", "Delete what a worker saved of a job.")
        .replies(&[Reply::object(200, "Deleted.", &objects::FACTS)])
        .refuses(OF_LEASE),
    Route::get("/ojs/v1/ojs/v1/checkpoints/{job_id}/resume", "get_checkpoint", |call| Box::pin(resume(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsResumeCheckpointNested", "Get what a worker saved of a job, if anything.")
        .replies(&[Reply::object(200, "The checkpoint, or that there is none.", &objects::CHECKPOINT_VIEW)]),
    Route::put("/ojs/v1/ojs/v1/checkpoints/{job_id}", "save_checkpoint", |call| Box::pin(save(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsPutCheckpointNested", "Save how far the work on a job is, to go on from there.")
        .body(&objects::CHECKPOINT)
        .replies(&[Reply::object(200, "Saved.", &objects::CHECKPOINT_VIEW)])
        .refuses(OF_LEASE),
    Route::post("/ojs/v1/ojs/v1/checkpoints/{job_id}", "save_checkpoint", |call| Box::pin(save(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsPostCheckpointNested", "Save how far the work on a job is, to go on from there.")
        .body(&objects::CHECKPOINT)
        .replies(&[Reply::object(200, "Saved.", &objects::CHECKPOINT_VIEW)])
        .refuses(OF_LEASE),
    Route::delete("/ojs/v1/ojs/v1/checkpoints/{job_id}", "delete_checkpoint", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsDeleteCheckpointNested", "Delete what a worker saved of a job.")
        .replies(&[Reply::object(200, "Deleted.", &objects::FACTS)])
        .refuses(OF_LEASE),
];

/// The job, if the caller may see it.
async fn owned(call: &Call<'_>) -> Result<Owned, ApiError> {
    let scope = Scope::of(call)?;
    let job = scope.job(call.app, call.job()).await?;
    Ok(Owned { job: job.id, client: scope.client })
}

/// The job with the proof, if any: the token in the header, or in the body as in other calls of
/// workers.
fn held(call: &Call<'_>, owned: &Owned, in_body: Option<&str>) -> HeldJob {
    let token = results::lease_token(&call.exchange.headers).or(in_body);
    HeldJob { job: owned.job, proof: lease_proof(Some(owned.job), token, None), client: owned.client }
}

/// A checkpoint with its notes. The state is shown as it was saved.
#[derive(Serialize)]
struct CheckpointView<'a> {
    #[serde(flatten)]
    notes: BTreeMap<&'a str, &'a RawValue>,
    job_id: String,
    state: &'a RawValue,
    sequence: u64,
    created_at: String,
}

#[derive(Serialize)]
struct CheckpointAnswer<'a> {
    #[serde(flatten)]
    of: &'a CheckpointView<'a>,
    has_checkpoint: bool,
    checkpoint: &'a CheckpointView<'a>,
}

fn shown(checkpoint: &Checkpoint) -> Response {
    let view = CheckpointView {
        notes: serde_json::from_slice(&checkpoint.notes).unwrap_or_default(),
        job_id: checkpoint.job.to_string(),
        state: serde_json::from_slice(&checkpoint.state).unwrap_or(RawValue::NULL),
        sequence: checkpoint.sequence,
        created_at: time::millis(checkpoint.saved_at),
    };
    reply::ok(&CheckpointAnswer { of: &view, has_checkpoint: true, checkpoint: &view })
}

async fn known(call: &Call<'_>) -> Result<Option<Checkpoint>, ApiError> {
    let job = Scope::of(call)?.job(call.app, call.job()).await?;
    let found: Option<Checkpoint> = call.app.engine.store().record(job.id.to_string()).await?;
    Ok(found.filter(|checkpoint| checkpoint.is_of(&job)))
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    match known(&call).await? {
        Some(checkpoint) => Ok(shown(&checkpoint)),
        None => Err(RefusedRequest::new(Kind::JobNotFound, "The job has no checkpoint.")
            .fact("resource_type", "checkpoint")
            .into()),
    }
}

/// Loads the checkpoint for an attempt. A job without one starts from the beginning, which is no
/// error.
async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    match known(&call).await? {
        Some(checkpoint) => Ok(shown(&checkpoint)),
        None => Ok(reply::ok(&json!({"has_checkpoint": false}))),
    }
}

async fn save(call: Call<'_>) -> Result<Response, ApiError> {
    let owned = owned(&call).await?;
    let SaveRequest { state, notes, token } = read(&call.body)?;
    let held = held(&call, &owned, token.as_deref());
    let command = Command::Checkpoint(CheckpointCommand::Save { held, state, notes });
    match call.app.engine.run(command).await.map_err(|error| refusals::of_engine(call.app, error))? {
        Answer::Checkpoint(checkpoint) => Ok(shown(&checkpoint)),
        answer => unreachable!("a checkpoint was answered with {answer:?}"),
    }
}

/// Members with notes about a checkpoint.
const NOTES: [&str; 2] = ["step_index", "metadata"];

struct SaveRequest {
    state: Vec<u8>,
    /// The notes, as JSON.
    notes: Vec<u8>,
    /// The lease token.
    token: Option<String>,
}

fn read(body: &[u8]) -> Result<SaveRequest, ApiError> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let token = members.get("lease_token");
    let token = violations.typed(Kind::MalformedRequest, "lease_token", token, "a string");
    // `null` is a valid state.
    let state = members.0.iter().find(|(name, _)| name == "state").map(|(_, value)| value.get());
    let mut notes = ObjectWriter::default();
    for name in NOTES {
        if let Some(value) = members.get(name) {
            notes.put(name, value.get());
        }
    }
    let notes = if notes.is_empty() { Vec::new() } else { notes.finish() };
    match state {
        None => violations.add(Kind::MalformedRequest, "state", "is required", "required"),
        Some(state) if state.len() + notes.len() > CHECKPOINT_BYTES_MAX => {
            let detail = format!("and metadata must have at most {} KB", CHECKPOINT_BYTES_MAX / 1024);
            violations.add(Kind::JobPayloadTooLarge, "state", detail, "maxLength");
        }
        Some(_) => {}
    }
    Ok(SaveRequest { state: violations.settle(state)?.as_bytes().to_vec(), notes, token })
}

/// Deletes it. Idempotent.
async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let owned = owned(&call).await?;
    let command = Command::Checkpoint(CheckpointCommand::Delete(held(&call, &owned, None)));
    call.app.engine.run(command).await.map_err(|error| refusals::of_engine(call.app, error))?;
    Ok(reply::ok(&json!({"deleted": true, "job_id": owned.job.to_string()})))
}
