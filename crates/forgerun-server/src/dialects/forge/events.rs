//! Events of one job, or of all jobs and webhooks of the caller. A page by default, a stream if
//! requested.

use axum::response::Response;

use crate::auth::ownership;
use crate::events::{
    journal_page, page as events,
    sse::{self, EventWording, StreamScope},
};
use crate::http::{
    ApiError, accept,
    routing::{
        Answers, Call, Reply, Route,
        operation::{EVENT_CURSOR, LAST_EVENT_ID, LIMIT, STREAM_ENDED},
    },
};
use forgerun_wire::forge::{EntryView, EventsView};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/v1/jobs/{job_id}/events", "events", |call| Box::pin(of_job(call)))
        .answers(Answers::BodyOrEvents)
        .job_token()
        .operation(
            "listEvents",
            "List what happened to a job, oldest first; with `Accept: text/event-stream` as it \
     happens.",
        )
        .query(&[LIMIT, EVENT_CURSOR])
        .headers(&[LAST_EVENT_ID])
        .replies(&[
            Reply::json::<EventsView>(
                200,
                "The job's changes of state; as a stream, followed by what happens until the job ends.",
            ),
            STREAM_ENDED,
        ]),
    Route::get("/v1/events", "events", |call| Box::pin(of_client(call)))
        .answers(Answers::BodyOrEvents)
        .operation(
            "listAllEvents",
            "List what happened to all jobs and webhooks of the caller, oldest first; with `Accept: \
     text/event-stream` as it happens.",
        )
        .query(&[LIMIT, EVENT_CURSOR])
        .headers(&[LAST_EVENT_ID])
        .replies(&[Reply::json::<EventsView<EntryView>>(
            200,
            "What happened to the caller's jobs and webhooks; as a stream, from now on.",
        )]),
];

/// `GET /v1/jobs/{id}/events`: the changes of state, oldest first. The cursor of a page is the last
/// event shown.
async fn of_job(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.job());
    let query = events::query(exchange)?;
    let job = ownership::job(app, caller, id).await?;
    events::show(app, exchange, caller, &query, job, StreamScope::Job).await
}

/// `GET /v1/events`: all events of the caller's webhooks and existing jobs, oldest first, as far as
/// the journal goes back.
async fn of_client(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller) = (call.app, call.exchange, call.caller());
    let query = events::query(exchange)?;
    if accept::wants_stream(&exchange.headers) {
        return sse::client(app, exchange, caller, EventWording::forge()).await;
    }
    journal_page::show(app, &query, Some(caller.client)).await
}
