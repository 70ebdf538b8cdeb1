//! Jobs belong to clients, and only their client sees them.

use forge_core::Refusal;
use forge_core::id::JobId;
use forge_core::job::Job;

use super::auth::Caller;
use super::refusal::ApiError;
use crate::app::App;

/// The job, if it is there and the caller's. An id that is none is an id of nothing (C-52).
pub async fn job(app: &App, caller: &Caller, id: Option<JobId>) -> Result<Box<Job>, ApiError> {
    let id = id.ok_or_else(not_found)?;
    match app.engine.store().job(id).await? {
        Some(job) if job.head.client == caller.client => Ok(job),
        Some(_) => Err(forge_engine::Error::Refused(Refusal::Foreign).into()),
        None => Err(not_found()),
    }
}

/// There is no such job.
pub fn not_found() -> ApiError {
    forge_engine::Error::Refused(Refusal::NotFound).into()
}
