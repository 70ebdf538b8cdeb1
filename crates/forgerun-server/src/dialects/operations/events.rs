//! `GET /api/v1/jobs/{jobId}/events`: events of an execution, as a page or stream (C-92).

use axum::response::Response;

use crate::auth::ownership;
use crate::events::{page as events, sse::StreamScope};
use crate::http::{
    ApiError,
    routing::{
        Answers, Call, Reply, Route,
        operation::{EVENT_CURSOR, LAST_EVENT_ID, LIMIT, STREAM_ENDED},
    },
};
use crate::traces::RequestSubject;
use forgerun_wire::forge::EventsView;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/api/v1/jobs/{jobId}/events", "events", |call| Box::pin(get(call)))
        .answers(Answers::BodyOrEvents)
        .job_token()
        .operation(
            "listExecutionEvents",
            "List what happened to an execution; with `Accept: text/event-stream` as it happens.",
        )
        .query(&[LIMIT, EVENT_CURSOR])
        .headers(&[LAST_EVENT_ID])
        .replies(&[
            Reply::json::<EventsView>(
                200,
                "The execution's changes of state; as a stream, followed by what happens until it ends.",
            ),
            STREAM_ENDED,
        ])];

/// The events of one execution only, without those of retries.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.execution());
    let query = events::query(exchange)?;
    let found = ownership::execution(app, caller, id).await?;
    exchange.set_subject(RequestSubject::job(&found.job, false));
    let n = found.n_past().unwrap_or_else(|| found.job.execution_n());
    events::show(app, exchange, caller, &query, found.job, StreamScope::Execution(n)).await
}
