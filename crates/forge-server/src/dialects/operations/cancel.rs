//! `DELETE /api/v1/jobs/{jobId}` and `POST /api/v1/jobs/{jobId}/cancel`: the same. On an execution that has ended they change
//! nothing and tell how it stands (C-22).

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use forge_core::Command;
use forge_core::command::{Cancel, Owned};
use forge_core::id::ExecutionId;
use forge_wire::operations::{CancelRequest, read_cancel};

use super::status;
use crate::app::App;
use crate::edge::ownership::Execution;
use crate::edge::{ApiError, Caller, Exchange, ownership};
use crate::traces::About;

/// Why, where the client does not say.
const REASON: &str = "User-initiated cancellation";

pub(super) async fn cancel(
    app: &App,
    exchange: &Exchange,
    caller: &Caller,
    id: Option<ExecutionId>,
    bytes: &Bytes,
) -> Result<Response, ApiError> {
    let CancelRequest { reason } = read_cancel(bytes)?;
    let Execution { job, id } = ownership::execution(app, caller, id).await?;
    let cancel = Cancel {
        owned: Owned { job: job.id, client: Some(caller.client) },
        // The job may be retried at this moment; the execution that begins then was not meant.
        execution: Some(id),
        by: "user".to_owned(),
        reason: reason.unwrap_or_else(|| REASON.to_owned()),
    };
    let (job, _) = app.engine.act(Command::Cancel(cancel)).await?;
    exchange.is_about(About::job(&job, false));
    let found = Execution { job: Arc::new(job), id };
    Ok(status::json(StatusCode::OK, &status::view(app, &found).await?))
}
