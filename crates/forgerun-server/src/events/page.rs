//! The events of one job or execution, for every dialect: a page by default, a stream if requested.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::job::Job;
use forgerun_wire::forge::{EventView, EventsView};

use crate::app::App;
use crate::auth::{Caller, TOKEN_PARAMETER};
use crate::events::sse::{self, EventWording, StreamScope};
use crate::http::{ApiError, Exchange, accept, query::QueryString, respond};

/// Parses the query. A stream has no parameters.
pub(crate) fn query(exchange: &Exchange) -> Result<QueryString, ApiError> {
    match accept::wants_stream(&exchange.headers) {
        true if exchange.operation.job_token => QueryString::of(&exchange.uri, &[TOKEN_PARAMETER]),
        true => QueryString::of(&exchange.uri, &[]),
        false => QueryString::of_route(exchange),
    }
}

/// Answers with the changes of state, oldest first; a stream continues with new events. The cursor
/// of a page is the last event shown.
pub(crate) async fn show(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    query: &QueryString,
    job: Arc<Job>,
    scope: StreamScope,
) -> Result<Response, ApiError> {
    if accept::wants_stream(&exchange.headers) {
        return sse::job(app, exchange, caller, job, scope, EventWording::forge()).await;
    }
    let limit = query.limit()?;
    let in_scope = job.history.events().filter(|event| scope.has(event));
    let mut events: Vec<EventView> =
        in_scope.map(|event| EventView::new(job.id, Some(&job), &event)).collect();
    if let Some(cursor) = query.get("cursor") {
        let seen = events.iter().position(|event| event.event_id == cursor);
        let Some(seen) = seen else { return Err(query.malformed("cursor", "is no cursor of this list")) };
        events.drain(..=seen);
    }
    let more = events.len() > limit;
    events.truncate(limit);
    let next_cursor = events.last().filter(|_| more).map(|last| last.event_id.clone());
    Ok(respond::json(StatusCode::OK, &EventsView { events, next_cursor }))
}
