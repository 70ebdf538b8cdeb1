//! All events: a page of the past, or a stream if requested.

use axum::response::Response;

use crate::auth::OperatorRole;
use crate::auth::caller as auth;
use crate::events::{
    journal_page, page as events,
    sse::{self, EventWording},
};
use crate::http::{
    ApiError, accept,
    routing::{
        Answers, Call, Reply, Route,
        operation::{EVENT_CURSOR, LAST_EVENT_ID, LIMIT},
    },
};
use forgerun_wire::forge::{EntryView, EventsView};

pub(super) const ROUTES: &[Route] = &[Route::get("/admin/v1/events", "events", |call| Box::pin(all(call)))
    .role(OperatorRole::Viewer)
    .answers(Answers::BodyOrEvents)
    .operation(
        "adminListEvents",
        "List what happened to all jobs and webhooks of all clients; with `Accept: \
     text/event-stream` as it happens.",
    )
    .query(&[LIMIT, EVENT_CURSOR])
    .headers(&[LAST_EVENT_ID])
    .replies(&[Reply::json::<EventsView<EntryView>>(
        200,
        "What happened to all jobs and webhooks; as a stream, from now on.",
    )])];

/// `GET /admin/v1/events`: the events of all jobs and webhooks; as a stream from now on, or after
/// `Last-Event-ID`.
async fn all(call: Call<'_>) -> Result<Response, ApiError> {
    let query = events::query(call.exchange)?;
    if accept::wants_stream(&call.exchange.headers) {
        return stream(&call).await;
    }
    journal_page::show(call.app, &query, None).await
}

pub(in crate::dialects) async fn stream(call: &Call<'_>) -> Result<Response, ApiError> {
    let caller = auth::as_caller(call.app, call.exchange);
    sse::everything(call.app, call.exchange, &caller, EventWording::forge()).await
}
