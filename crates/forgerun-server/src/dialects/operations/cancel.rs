//! `DELETE /api/v1/jobs/{jobId}` and `POST /api/v1/jobs/{jobId}/cancel`: the same. On an ended
//! execution they change nothing and report its state (C-22).

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::command::{Cancel, Owned};
use forgerun_core::scope::KeyScope;
use forgerun_wire::operations::{CANCEL, CancelRequest, StatusView, read_cancel};

use super::status;
use crate::auth::ownership::{self, OwnedExecution};
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::delete("/api/v1/jobs/{jobId}", "cancel", |call| Box::pin(cancel(call)))
        .scope(KeyScope::Submit)
        .operation("deleteJob", "Cancel an execution.")
        .optional_body(&CANCEL)
        .replies(&[Reply::json::<StatusView>(200, "Cancelled, or ended before.")]),
    Route::post("/api/v1/jobs/{jobId}/cancel", "cancel", |call| Box::pin(cancel(call)))
        .scope(KeyScope::Submit)
        .operation("cancel", "Cancel an execution.")
        .optional_body(&CANCEL)
        .replies(&[Reply::json::<StatusView>(200, "Cancelled, or ended before.")]),
];

/// The default cancel reason.
const REASON: &str = "User-initiated cancellation";

async fn cancel(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller, id) = (call.app, call.exchange, call.caller(), call.execution());
    let CancelRequest { reason } = read_cancel(&call.body)?;
    let OwnedExecution { job, id } = ownership::execution(app, caller, id).await?;
    let cancel = Cancel {
        owned: Owned { job: job.id, client: Some(caller.client) },
        // The job may be retried at this moment; the new execution must not be cancelled.
        execution: Some(id),
        by: "user".to_owned(),
        reason: reason.unwrap_or_else(|| REASON.to_owned()),
        compensate: true,
    };
    let (job, _) = app.engine.act(Command::Cancel(cancel)).await?;
    exchange.set_subject(RequestSubject::job(&job, false));
    let found = OwnedExecution { job: Arc::new(job), id };
    Ok(status::json(StatusCode::OK, &status::view(app, &found).await?))
}
