//! Jobs are visible to their client only.

use std::sync::Arc;

use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::job::Job;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;

use crate::app::App;
use crate::auth::Caller;
use crate::http::ApiError;

/// The job, if it is the caller's. A malformed id is an unknown one (C-52).
pub(crate) async fn job(app: &App, caller: &Caller, id: Option<JobId>) -> Result<Arc<Job>, ApiError> {
    let id = id.ok_or_else(not_found)?;
    match app.engine.store().job(id).await? {
        Some(job) if job.head.client == caller.client => Ok(job),
        Some(_) => Err(foreign()),
        None => Err(not_found()),
    }
}

/// An execution and its job (C-14).
pub(crate) struct OwnedExecution {
    pub job: Arc<Job>,
    pub id: ExecutionId,
}

impl OwnedExecution {
    /// Whether it is the current or last execution of the job.
    pub(crate) fn is_under_way(&self) -> bool {
        self.job.execution == self.id
    }

    /// Its number, from 1, if it was retried manually.
    pub(crate) fn n_past(&self) -> Option<u32> {
        let place = self.job.executions_past.iter().position(|past| *past == self.id)?;
        Some(place as u32 + 1)
    }

    /// The next execution.
    pub(crate) fn retried_as(&self) -> Option<ExecutionId> {
        let place = self.job.executions_past.iter().position(|past| *past == self.id)?;
        Some(self.job.executions_past.get(place + 1).copied().unwrap_or(self.job.execution))
    }
}

/// The execution, if it is the caller's; a deleted one is answered as gone (C-46).
pub(crate) async fn execution(
    app: &App,
    caller: &Caller,
    id: Option<ExecutionId>,
) -> Result<OwnedExecution, ApiError> {
    let id = id.ok_or_else(not_found)?;
    let store = app.engine.store();
    // The first execution of a job has its id, and nearly all requests are for first ones.
    let mut job = store.job(JobId::from_u128(id.as_u128())).await?;
    if job.is_none()
        && let Some(of) = store.job_of(id).await?
    {
        job = store.job(of).await?;
    }
    match job {
        Some(job) if job.head.client == caller.client => Ok(OwnedExecution { job, id }),
        Some(_) => Err(foreign()),
        None => Err(gone(app, caller, id).await?),
    }
}

pub(crate) fn not_found() -> ApiError {
    forgerun_engine::Error::Refused(Refusal::NotFound).into()
}

fn foreign() -> ApiError {
    forgerun_engine::Error::Refused(Refusal::Foreign).into()
}

/// The answer about a missing execution.
async fn gone(app: &App, caller: &Caller, id: ExecutionId) -> Result<ApiError, ApiError> {
    let Some(stone) = app.engine.store().tombstone(id).await? else { return Ok(not_found()) };
    if stone.client != caller.client {
        return Ok(foreign());
    }
    let detail = match stone.kept {
        Some(kept) => {
            let days = kept.as_secs() / (24 * 3600);
            format!("This job is no longer available. It was kept for {days} days after its end.")
        }
        None => "This job is no longer available.".to_owned(),
    };
    let refused = RefusedRequest::new(Kind::Expired, detail).execution(id);
    Ok(refused.member("expiredAt", time::millis(stone.at)).into())
}
