//! Results of executions. Before the end, and after a failure, there is none (C-69).

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::state::State;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::words;

use crate::auth::ownership::{self, OwnedExecution};
use crate::http::{
    ApiError,
    routing::{
        Answers, Call, Route,
        operation::{OF_RESULT, RESULT, RESULT_PARTS},
    },
};
use crate::results::{self, ResultFormat};
use crate::traces::RequestSubject;

/// The routes of results. A result has a media type of its own.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/api/v1/jobs/{jobId}/result", "result", |call| Box::pin(get(call)))
        .answers(Answers::Any)
        .job_token()
        .operation("getResultOfJob", "Download the result of a completed execution.")
        .headers(RESULT_PARTS)
        .replies(RESULT)
        .refuses(OF_RESULT),
    Route::get("/api/v1/results/{jobId}", "result", |call| Box::pin(get(call)))
        .answers(Answers::Any)
        .operation("getResultById", "Download the result.")
        .headers(RESULT_PARTS)
        .replies(RESULT)
        .refuses(OF_RESULT),
    Route::get("/api/v1/reports/{jobId}", "result", |call| Box::pin(get(call)))
        .answers(Answers::Any)
        .operation("getReportOfJob", "Download the result, by the name that reports have.")
        .headers(RESULT_PARTS)
        .replies(RESULT)
        .refuses(OF_RESULT),
    Route::get("/api/v1/reports/{jobId}/download", "result", |call| Box::pin(download(call)))
        .answers(Answers::Any)
        .operation("downloadReport", "Download the result as a file.")
        .headers(RESULT_PARTS)
        .replies(RESULT)
        .refuses(OF_RESULT),
];

/// `GET /api/v1/jobs/{jobId}/result`, `…/reports/{jobId}`, `…/results/{jobId}`.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let found = ready(&call).await?;
    results::answer(call.app, call.exchange, &found.job, ResultFormat::AsAsked).await
}

/// `GET /api/v1/reports/{jobId}/download`: the same as a file.
async fn download(call: Call<'_>) -> Result<Response, ApiError> {
    let found = ready(&call).await?;
    results::answer(call.app, call.exchange, &found.job, ResultFormat::File).await
}

/// The execution, if it succeeded.
async fn ready(call: &Call<'_>) -> Result<OwnedExecution, ApiError> {
    let found = ownership::execution(call.app, call.caller(), call.execution()).await?;
    call.exchange.set_subject(RequestSubject::job(&found.job, false));
    if found.is_under_way() && found.job.state == State::Succeeded {
        return Ok(found);
    }
    let status = match found.is_under_way() {
        true => words::operation_status(&words::job_status(&found.job)),
        false => "Failed",
    };
    let detail = format!("The job is {status}; only a job that is Completed has a result.");
    let refused = RefusedRequest::new(Kind::ResultNotReady, detail).fact("status", status);
    let is_over = !found.is_under_way() || found.job.state.is_final();
    let pause_s = call.app.config.asyncops.retry_after.as_secs();
    Err(if is_over { refused } else { refused.early(pause_s) }.into())
}
