//! `forgerun.v1.ResultService`: the outcome of a job. A failure is a gRPC status.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_wire::body::{self, violation};
use forgerun_wire::grpc::forgerun_v1::result_service_server::ResultService;
use forgerun_wire::grpc::forgerun_v1::{GetResultRequest, GetResultResponse};
use forgerun_wire::grpc::{error, moment};
use prost::Message;
use tonic::{Request, Response, Status};

use super::call::{Rpc, needs_job};
use super::{OjsOverGrpc, looks};
use crate::dialects::ojs::scope::Scope;
use crate::http::{ApiError, routing::Call, wait};
use crate::limits::FETCH_TIMEOUT;
use crate::results::{self, ReadyContent, ReadyResult};
use crate::traces::RequestSubject;

pub(super) const GET: &Rpc =
    &looks("/forgerun.v1.ResultService/GetResult", "result").for_operator().within(FETCH_TIMEOUT);

const PROBLEM: &str = "application/problem+json";

#[tonic::async_trait]
impl ResultService for OjsOverGrpc {
    async fn get_result(
        &self,
        request: Request<GetResultRequest>,
    ) -> Result<Response<GetResultResponse>, Status> {
        let subject: fn(&GetResultRequest) -> &str = |message| &message.job_id;
        let size: fn(&Result<GetResultResponse, Status>) -> usize =
            |ended| ended.as_ref().map_or(0, Message::encoded_len);
        let answer =
            self.answered(request, GET, subject, |call, message| Box::pin(get(call, message)), size).await?;
        let (metadata, ended, extensions) = answer.into_parts();
        match ended {
            Ok(result) => Ok(Response::from_parts(metadata, result, extensions)),
            Err(mut failure) => {
                *failure.metadata_mut() = metadata;
                Err(failure)
            }
        }
    }
}

/// The result, or the failure.
async fn get(
    call: Call<'_>,
    message: GetResultRequest,
) -> Result<Result<GetResultResponse, Status>, ApiError> {
    needs_job(&message.job_id)?;
    let (app, scope) = (call.app, Scope::of(&call)?);
    let mut job = scope.job(app, call.job()).await?;
    if let Some(span) = patience(&message, app.bounds.wait_max)? {
        wait::until_ended(app, &job, span).await?;
        job = scope.job(app, call.job()).await?;
    }
    call.exchange.set_subject(RequestSubject::job(&job, false));
    if matches!(job.state, State::Failed | State::Canceled)
        && let Some(outcome) = app.engine.store().outcome(job.execution).await?
    {
        let failure = &outcome.object.bytes;
        return Ok(match error::failure_kind(failure) {
            Kind::BatchPartial => Ok(partly_failed(failure)),
            kind => Err(error::of_failure(kind, failure)),
        });
    }
    Ok(Ok(shown(&app.base, &job, &*results::ready(app, &job).await?)))
}

/// A partly failed batch has the status OK, which has no room for details, so its failure object is
/// the message.
fn partly_failed(failure: &[u8]) -> GetResultResponse {
    GetResultResponse {
        media_type: PROBLEM.to_owned(),
        content: failure.to_vec(),
        size: i64::try_from(failure.len()).unwrap_or(i64::MAX),
        ..Default::default()
    }
}

/// How long the client wants to wait.
fn patience(message: &GetResultRequest, max: Duration) -> Result<Option<Duration>, ApiError> {
    let Some(wait) = &message.wait else { return Ok(None) };
    let span = u64::try_from(moment::millis(wait)).ok().map(Duration::from_millis);
    match span.filter(|span| *span <= max) {
        Some(span) => Ok(Some(span)),
        None => {
            let detail = format!("must be from 0 to {} s", max.as_secs());
            let violations = vec![violation("wait", &detail, "range")];
            Err(body::refused(Kind::MalformedRequest, violations, &[]).into())
        }
    }
}

fn shown(base: &str, job: &Job, result: &ReadyResult) -> GetResultResponse {
    let (content, url) = match &result.content {
        ReadyContent::Inline(bytes) => (bytes.to_vec(), String::new()),
        ReadyContent::Stored(_) => (Vec::new(), format!("{base}/ojs/v1/jobs/{}/result", job.id)),
    };
    GetResultResponse {
        media_type: result.media_type.clone(),
        content,
        file_name: result.file_name.clone().unwrap_or_default(),
        size: i64::try_from(result.size).unwrap_or(i64::MAX),
        url,
    }
}
