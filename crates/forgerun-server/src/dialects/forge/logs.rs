//! `GET /v1/jobs/{id}/logs`: what workers printed. A page by default, a stream if requested.

use axum::response::Response;
use forgerun_wire::forge::LogsView;

use crate::auth::ownership;
use crate::http::{
    ApiError,
    routing::{
        Answers, Call, Reply, Route,
        operation::{LAST_EVENT_ID, STREAM_ENDED},
    },
};
use crate::job_logs;
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/v1/jobs/{job_id}/logs", "logs", |call| Box::pin(logs(call)))
        .answers(Answers::BodyOrEvents)
        .job_token()
        .operation(
            "listLogs",
            "List the log lines of a job, oldest first; with `Accept: text/event-stream` as they come.",
        )
        .query(job_logs::FILTERS)
        .headers(&[LAST_EVENT_ID])
        .replies(&[
            Reply::json::<LogsView>(200, "A page; as a stream, an event `log` per line until the job ends."),
            STREAM_ENDED,
        ])];

async fn logs(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller) = (call.app, call.exchange, call.caller());
    let job = ownership::job(app, caller, call.job()).await?;
    exchange.set_subject(RequestSubject::job(&job, false));
    job_logs::show(app, exchange, caller, job).await
}
