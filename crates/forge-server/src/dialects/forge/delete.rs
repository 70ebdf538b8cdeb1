//! `DELETE /v1/jobs/{id}`: an ended job goes before its time, for good.

use axum::http::StatusCode;
use axum::response::Response;
use bytes::Bytes;
use forge_core::catalog::Kind;
use forge_core::command::Owned;
use forge_core::id::JobId;
use forge_core::{Command, Refusal};
use forge_engine::Error;
use forge_wire::forge::DeletedView;
use forge_wire::problem::Refused;
use forge_wire::words::forge_state;

use crate::app::App;
use crate::edge::{ApiError, Caller, body, ownership, respond};

/// What is left is what retention leaves: that there was such a job. The owner may, where the operator allows it, and
/// the operator (`None`) always.
pub(super) async fn job(
    app: &App,
    asker: Option<&Caller>,
    id: Option<JobId>,
    bytes: &Bytes,
) -> Result<Response, ApiError> {
    body::expect_object(bytes)?;
    if asker.is_some() && !app.config.retention.allow_delete {
        return Err(ApiError::new(Kind::Forbidden, "Jobs cannot be deleted by their owners on this server."));
    }
    let job = id.ok_or_else(ownership::not_found)?;
    let forget = Command::Forget(Owned { job, client: asker.map(|caller| caller.client) });
    match app.engine.run(forget).await {
        Ok(_) => Ok(respond::json(StatusCode::OK, &DeletedView { deleted: true })),
        // Under /api/v1 the same method cancels, so this is a likely mistake.
        Err(Error::Refused(refusal @ Refusal::WrongState(state))) => {
            let state = forge_state(state);
            let detail = format!("The job is {state}; only an ended job can be deleted, so cancel it first.");
            Err(Refused::new(refusal.kind(), detail).fact("state", state).into())
        }
        Err(error) => Err(error.into()),
    }
}
