//! Log lines of a job of any client.

use axum::response::Response;
use forgerun_wire::forge::LogsView;

use super::jobs;
use crate::auth::OperatorRole;
use crate::auth::caller as auth;
use crate::http::{
    ApiError,
    routing::{
        Answers, Call, Reply, Route,
        operation::{LAST_EVENT_ID, STREAM_ENDED},
    },
};
use crate::job_logs;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/admin/v1/jobs/{job_id}/logs", "logs", |call| Box::pin(logs(call)))
        .role(OperatorRole::Viewer)
        .contents()
        .answers(Answers::BodyOrEvents)
        .operation(
            "adminListLogs",
            "List the log lines of a job of any client, oldest first; with `Accept: text/event-stream` \
     as they come.",
        )
        .query(job_logs::FILTERS)
        .headers(&[LAST_EVENT_ID])
        .replies(&[
            Reply::json::<LogsView>(200, "A page; as a stream, an event `log` per line until the job ends."),
            STREAM_ENDED,
        ])];

async fn logs(call: Call<'_>) -> Result<Response, ApiError> {
    show(&call).await
}

pub(in crate::dialects) async fn show(call: &Call<'_>) -> Result<Response, ApiError> {
    let job = jobs::found(call).await?;
    let caller = auth::as_caller(call.app, call.exchange);
    job_logs::show(call.app, call.exchange, &caller, job).await
}
