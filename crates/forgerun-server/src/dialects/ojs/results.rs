//! `jobs/{id}/result`: a large result is uploaded before the ack, and fetched like any other.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName};
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{HeldJob, Output, Upload};
use forgerun_core::job::is_media_type;
use forgerun_core::scope::KeyScope;
use forgerun_engine::{Intake, IntakeError};
use forgerun_wire::ojs::worker::lease_proof;
use forgerun_wire::problem::RefusedRequest;
use http_body_util::BodyExt;
use serde_json::json;

use super::scope::{CLIENT_OR_OPERATOR, Scope};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{
        Answers, Call, RateCount, Reply, Route, Verb,
        operation::{OF_RESULT, RESULT, RESULT_PARTS},
    },
};
use crate::limits::UPLOAD_TIMEOUT;
use crate::results::{self, ResultFormat, UploadPlace, disposition};

const LEASE_TOKEN: HeaderName = HeaderName::from_static("lease-token");

pub(super) const ROUTES: &[Route] = &[
    Route::streaming(Verb::Put, "/ojs/v1/jobs/{job_id}/result", "upload", UPLOAD_TIMEOUT, |call, body| {
        Box::pin(put(call, body))
    })
    .access(CLIENT_OR_OPERATOR)
    .rate(RateCount::WorkerCalls)
    .scope(KeyScope::Work)
    .operation("ojsPutResult", "Upload the result of a job before its ack.")
    .replies(&[Reply::object(200, "Stored.", &objects::FACTS)])
    .refuses(&[
        Kind::IllegalTransition,
        Kind::AlreadyCompleted,
        Kind::AlreadyCancelled,
        Kind::ChecksumMismatch,
        Kind::JobPayloadTooLarge,
    ]),
    Route::get("/ojs/v1/jobs/{job_id}/result", "result", |call| Box::pin(get(call)))
        .access(CLIENT_OR_OPERATOR)
        .answers(Answers::Any)
        .job_token()
        .operation("ojsGetResult", "Download a job's result.")
        .headers(RESULT_PARTS)
        .replies(RESULT)
        .refuses(OF_RESULT),
];

/// Timeout between pieces of a body.
const PIECE_TIMEOUT: Duration = Duration::from_secs(30);

/// Receives a result. The lease is checked before the first byte and with the last.
async fn put(call: Call<'_>, body: Body) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let job = scope.job(app, call.job()).await?;
    let token = token(&call.exchange.headers)?;
    let held =
        HeldJob { job: job.id, proof: lease_proof(Some(job.id), Some(token), None), client: scope.client };
    still_held(&job, &held, app)?;
    let place = app.uploads.take(job.id, job.head.client)?;
    let upload = intake(app, &call.exchange.headers)?;
    // A task of its own, which ends by itself when its client disconnects: the received bytes are
    // then deleted.
    let receiving = tokio::spawn(async move { (receive(upload, body, &place).await, place) });
    let (received, _place) = receiving.await.map_err(|error| ApiError::internal(Kind::Internal, error))?;
    let output = Arc::new(received?);
    let (size, media_type) = (output.content.size(), output.media_type.clone());
    let kept = app.engine.act(Command::Upload(Upload { held, output })).await;
    kept.map_err(|error| refusals::of_engine(app, error))?;
    if let Some(replaced) = job.lease.as_ref().and_then(|lease| lease.upload.as_ref())
        && let Err(error) = app.engine.discard(replaced).await
    {
        tracing::warn!(%error, "replaced upload not deleted: left to the sweep");
    }
    Ok(reply::ok(&json!({"job_id": job.id.to_string(), "size": size, "media_type": media_type})))
}

/// The lease token, which is required.
fn token(headers: &HeaderMap) -> Result<&str, ApiError> {
    lease_token(headers).ok_or_else(|| {
        RefusedRequest::new(
            Kind::MalformedRequest,
            "The Lease-Token header is needed: the lease_token of the fetched job.",
        )
        .fact("field", "Lease-Token")
        .fact("constraint", "required")
        .into()
    })
}

/// The lease token, if the request has one.
pub(super) fn lease_token(headers: &HeaderMap) -> Option<&str> {
    let token = headers.get(LEASE_TOKEN).and_then(|value| value.to_str().ok()).map(str::trim);
    token.filter(|token| !token.is_empty())
}

/// Refuses early, so that no gigabytes are sent in vain.
fn still_held(job: &forgerun_core::job::Job, held: &HeldJob, app: &App) -> Result<(), ApiError> {
    use forgerun_core::command::LeaseProof;
    let refuse = |refusal| Err(refusals::of_engine(app, forgerun_engine::Error::Refused(refusal)));
    match &held.proof {
        _ if job.state.is_final() => refuse(forgerun_core::Refusal::AlreadyCompleted(job.state)),
        LeaseProof::Token(fence) if job.state.is_active() && *fence == job.fence => Ok(()),
        LeaseProof::Token(_) | LeaseProof::Worker(_) | LeaseProof::Anyone => {
            refuse(forgerun_core::Refusal::LeaseLost)
        }
    }
}

/// The intake of an upload. Refuses a malformed `Content-Type`, because browsers guess what it
/// means.
fn intake(app: &App, headers: &HeaderMap) -> Result<Intake, ApiError> {
    let text = |name: HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default().trim());
    let media_type = text(CONTENT_TYPE).unwrap_or("application/octet-stream");
    if !is_media_type(media_type) {
        let detail = "The Content-Type is not a media type, such as text/plain; charset=utf-8.";
        let refused = RefusedRequest::new(Kind::MalformedRequest, detail).fact("field", "Content-Type");
        return Err(refused.fact("constraint", "format").into());
    }
    let file_name = text(CONTENT_DISPOSITION).and_then(disposition::file_name);
    Ok(app.engine.begin_result(media_type, file_name))
}

/// Receives a body; an incomplete one is deleted.
async fn receive(mut intake: Intake, body: Body, place: &UploadPlace) -> Result<Output, ApiError> {
    match write_all(&mut intake, body, place).await {
        Ok(()) => intake.finish().await.map_err(of_intake),
        Err(error) => {
            if let Err(error) = intake.discard().await {
                tracing::warn!(%error, "incomplete upload not deleted: left to the sweep");
            }
            Err(error)
        }
    }
}

async fn write_all(intake: &mut Intake, mut body: Body, place: &UploadPlace) -> Result<(), ApiError> {
    loop {
        let piece = tokio::time::timeout(PIECE_TIMEOUT, body.frame()).await;
        let frame = match piece {
            Ok(None) => return Ok(()),
            Ok(Some(Ok(frame))) => frame,
            Ok(Some(Err(_))) | Err(_) => {
                let detail = "The connection closed before the whole body arrived.";
                return Err(ApiError::new(Kind::MalformedRequest, detail));
            }
        };
        if let Ok(bytes) = frame.into_data() {
            place.grow(bytes.len())?;
            intake.write(bytes).await.map_err(of_intake)?;
        }
    }
}

pub(super) fn of_intake(error: IntakeError) -> ApiError {
    match error {
        IntakeError::TooLarge { max } => {
            let detail = format!("The result is larger than {max} bytes.");
            RefusedRequest::new(Kind::BodyTooLarge, detail).fact("limit_bytes", max).into()
        }
        IntakeError::Broken => ApiError::internal(Kind::StorageError, error),
        IntakeError::Store(error) => error.into(),
    }
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let job = Scope::of(&call)?.job(call.app, call.job()).await?;
    results::answer(call.app, call.exchange, &job, ResultFormat::AsAsked).await
}
