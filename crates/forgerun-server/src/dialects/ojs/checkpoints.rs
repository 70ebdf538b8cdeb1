//! Checkpoints: state that a worker saves for the next attempt.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::checkpoint::Checkpoint;
use forgerun_core::command::{CheckpointCommand, HeldJob, LeaseProof, Owned};
use forgerun_core::id::JobId;
use forgerun_core::limits::{CHECKPOINT_BYTES_MAX, NAME_BYTES_MAX, STEPS_MAX};
use forgerun_core::memo::StepMemo;
use forgerun_core::scope::KeyScope;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use forgerun_wire::ojs::kept::ObjectWriter;
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::ojs::worker::lease_proof;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::{request_body, time};
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
    Route::put("/ojs/v1/jobs/{job_id}/checkpoint/{step}", "save_step", |call| Box::pin(save_step(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsPutStep", "Record the result of a named step of a job, once.")
        .body(&STEP)
        .replies(&[
            Reply::object(201, "Recorded.", &STEP_VIEW),
            Reply::object(200, "Recorded before, with the same bytes.", &STEP_VIEW),
        ])
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

request_body! {
    /// The result of a named step.
    STEP = "OjsStepRequest" {
        /// Any JSON.
        "result": json!({}),
        /// What proves that the worker holds the job, unless the header `Lease-Token` has it.
        "lease_token": text(),
    }
    ; required &["result"]
    ; examples {"total": {"value": {"result": {"total": 7}}}}
}

request_body! {
    /// A recorded step.
    STEP_VIEW = "OjsStep" {
        /// Of which job.
        "job_id": text(),
        /// Its name.
        "step": text(),
        /// The attempt that recorded it.
        "attempt": at_least(1),
        /// When it was recorded.
        "created_at": text(),
        /// Whether this request recorded it.
        "created": truth(),
    }
    ; required &["job_id", "step", "created"]
}

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
    steps: &'a BTreeMap<&'a str, &'a RawValue>,
}

#[derive(Serialize)]
struct CheckpointAnswer<'a> {
    #[serde(flatten)]
    of: &'a CheckpointView<'a>,
    has_checkpoint: bool,
    checkpoint: &'a CheckpointView<'a>,
}

/// What a worker saved of a job.
struct SavedWork {
    job: JobId,
    /// `None` if only steps were recorded.
    checkpoint: Option<Checkpoint>,
    /// The recorded steps, by name.
    steps: Vec<StepMemo>,
}

impl SavedWork {
    fn is_empty(&self) -> bool {
        self.checkpoint.is_none() && self.steps.is_empty()
    }

    /// Without a checkpoint, the state is the object of the steps: the form in which workers that
    /// do not know steps save them.
    fn shown(&self) -> Response {
        let value = |bytes| serde_json::from_slice(bytes).unwrap_or(RawValue::NULL);
        let steps: BTreeMap<&str, &RawValue> =
            self.steps.iter().map(|memo| (&*memo.step, value(&memo.result))).collect();
        let of_steps = serde_json::value::to_raw_value(&steps).expect("names are texts");
        let last = self.steps.iter().map(|memo| memo.saved_at).max().unwrap_or(Time::ZERO);
        let view = match &self.checkpoint {
            Some(checkpoint) => CheckpointView {
                notes: serde_json::from_slice(&checkpoint.notes).unwrap_or_default(),
                job_id: self.job.to_string(),
                state: value(&checkpoint.state),
                sequence: checkpoint.sequence,
                created_at: time::millis(checkpoint.saved_at),
                steps: &steps,
            },
            None => CheckpointView {
                notes: BTreeMap::new(),
                job_id: self.job.to_string(),
                state: &of_steps,
                sequence: self.steps.len() as u64,
                created_at: time::millis(last),
                steps: &steps,
            },
        };
        reply::ok(&CheckpointAnswer { of: &view, has_checkpoint: true, checkpoint: &view })
    }
}

async fn known(call: &Call<'_>) -> Result<SavedWork, ApiError> {
    let job = Scope::of(call)?.job(call.app, call.job()).await?;
    let store = call.app.engine.store();
    let checkpoint: Option<Checkpoint> = store.record(job.id.to_string()).await?;
    let group = Some(StepMemo::group_of(job.id));
    let mut steps: Vec<StepMemo> = store.records(group, String::new(), STEPS_MAX).await?;
    steps.retain(|memo| memo.is_of(&job));
    Ok(SavedWork { job: job.id, checkpoint: checkpoint.filter(|known| known.is_of(&job)), steps })
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let saved = known(&call).await?;
    if saved.is_empty() {
        let refused = RefusedRequest::new(Kind::JobNotFound, "The job has no checkpoint.");
        return Err(refused.fact("resource_type", "checkpoint").into());
    }
    Ok(saved.shown())
}

/// Loads the checkpoint for an attempt. A job without one starts from the beginning, which is no
/// error.
async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    let saved = known(&call).await?;
    match saved.is_empty() {
        true => Ok(reply::ok(&json!({"has_checkpoint": false, "steps": {}}))),
        false => Ok(saved.shown()),
    }
}

/// `PUT /ojs/v1/jobs/{id}/checkpoint/{step}`: the first result of a step counts.
async fn save_step(call: Call<'_>) -> Result<Response, ApiError> {
    let owned = owned(&call).await?;
    let step = call.text("step").into_owned();
    if step.is_empty() || step.len() > NAME_BYTES_MAX || step.chars().any(char::is_control) {
        let detail = format!("The name of a step has 1 to {NAME_BYTES_MAX} bytes and no control characters.");
        return Err(RefusedRequest::new(Kind::MalformedRequest, detail).fact("field", "step").into());
    }
    let (result, token) = read_step(&call.body)?;
    let held = held(&call, &owned, token.as_deref());
    if held.proof == LeaseProof::Anyone {
        let detail = "A step is recorded with the lease token, as header Lease-Token or member lease_token.";
        return Err(RefusedRequest::new(Kind::MalformedRequest, detail).fact("field", "lease_token").into());
    }
    let command = Command::Checkpoint(CheckpointCommand::SaveStep { held, step, result });
    match call.app.engine.run(command).await.map_err(|error| refusals::of_engine(call.app, error))? {
        Answer::Step { memo, created } => {
            let view = json!({
                "job_id": memo.job.to_string(),
                "step": memo.step,
                "attempt": memo.attempt,
                "created_at": time::millis(memo.saved_at),
                "created": created,
            });
            let mut response = reply::ok(&view);
            if created {
                *response.status_mut() = StatusCode::CREATED;
            }
            Ok(response)
        }
        answer => unreachable!("a step was answered with {answer:?}"),
    }
}

/// The result, as it was written, and the lease token if the body has it.
fn read_step(body: &[u8]) -> Result<(Vec<u8>, Option<String>), ApiError> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let token = members.get("lease_token");
    let token = violations.typed(Kind::MalformedRequest, "lease_token", token, "a string");
    // `null` is a valid result.
    let result = members.raw("result").map(RawValue::get);
    match result {
        None => violations.add(Kind::MalformedRequest, "result", "is required", "required"),
        Some(result) if result.len() > CHECKPOINT_BYTES_MAX => {
            let detail = format!("must have at most {} KB", CHECKPOINT_BYTES_MAX / 1024);
            violations.add(Kind::JobPayloadTooLarge, "result", detail, "maxLength");
        }
        Some(_) => {}
    }
    Ok((violations.settle(result)?.as_bytes().to_vec(), token))
}

async fn save(call: Call<'_>) -> Result<Response, ApiError> {
    let owned = owned(&call).await?;
    let SaveRequest { state, notes, token } = read(&call.body)?;
    let held = held(&call, &owned, token.as_deref());
    let command = Command::Checkpoint(CheckpointCommand::Save { held, state, notes });
    match call.app.engine.run(command).await.map_err(|error| refusals::of_engine(call.app, error))? {
        Answer::Checkpoint(checkpoint) => {
            let saved = SavedWork { job: owned.job, checkpoint: Some(*checkpoint), steps: Vec::new() };
            Ok(saved.shown())
        }
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
