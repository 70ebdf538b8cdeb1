//! `GET /api/v1/jobs/{jobId}/events`: events of an execution, as a page or stream (C-92).

use axum::response::Response;

use crate::edge::routing::{Answers, Call, Route};
use crate::edge::sse::StreamScope;
use crate::edge::{ApiError, events, ownership};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/api/v1/jobs/{jobId}/events", "events", |call| Box::pin(get(call)))
        .answers(Answers::BodyOrEvents)];

/// The events of one execution only, without those of retries.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.execution());
    let query = events::query(exchange)?;
    let found = ownership::execution(app, caller, id).await?;
    exchange.set_subject(RequestSubject::job(&found.job, false));
    let n = found.n_past().unwrap_or_else(|| found.job.execution_n());
    events::show(app, exchange, caller, &query, found.job, StreamScope::Execution(n)).await
}
