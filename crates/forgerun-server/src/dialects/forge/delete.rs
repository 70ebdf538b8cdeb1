//! `DELETE /v1/jobs/{id}`: deletes an ended job before its retention is over.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::Owned;
use forgerun_core::scope::KeyScope;
use forgerun_core::{Command, Refusal};
use forgerun_engine::Error;
use forgerun_wire::forge::DeletedView;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::words::forge_state;

use crate::auth::ownership;
use crate::http::{
    ApiError, body, respond,
    routing::{Call, Reply, Route, RouteAccess},
};

pub(super) const ROUTES: &[Route] =
    &[Route::delete("/v1/jobs/{job_id}", "delete", |call| Box::pin(delete(call)))
        .access(RouteAccess::ClientOrOperator)
        .scope(KeyScope::Submit)
        .operation("deleteEndedJob", "Delete an ended job with its events, report, result and deliveries.")
        .replies(&[Reply::json::<DeletedView>(200, "The job is deleted.")])
        .refuses(&[Kind::Forbidden, Kind::IllegalTransition])];

/// A tombstone remains, as after retention. The owner may delete, if the operator allows it, and
/// the operator (`None`) always.
async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, asker) = (call.app, call.client());
    body::expect_object(&call.body)?;
    if asker.is_some() && !app.config.retention.allow_delete {
        return Err(ApiError::new(Kind::Forbidden, "Jobs cannot be deleted by their owners on this server."));
    }
    let job = call.job().ok_or_else(ownership::not_found)?;
    let forget = Command::Forget(Owned { job, client: asker.map(|caller| caller.client) });
    match app.engine.run(forget).await {
        Ok(_) => Ok(respond::json(StatusCode::OK, &DeletedView { deleted: true })),
        // Under /api/v1 the same method cancels, so this is a likely mistake.
        Err(Error::Refused(refusal @ Refusal::WrongState(state))) => {
            let state = forge_state(state);
            let detail = format!("The job is {state}; only an ended job can be deleted, so cancel it first.");
            Err(RefusedRequest::new(refusal.kind(), detail).fact("state", state).into())
        }
        Err(error) => Err(error.into()),
    }
}
