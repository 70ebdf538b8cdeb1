//! Holding an answer until the job it tells of has ended, as `Prefer: wait` asks.

use forge_core::catalog::Kind;
use forge_core::job::Job;

use super::prefer::Prefer;
use super::refusal::ApiError;
use crate::app::App;
use crate::config::Database;

/// Waits for the end of a job that somebody looks at, and says whether it did: then the job has to be looked at anew. Refused
/// where nobody would end the job (C-51).
pub async fn wait_for_end(app: &App, job: &Job, prefer: Prefer) -> Result<bool, ApiError> {
    let Some(wait) = prefer.wait.filter(|_| !job.state.is_final()) else { return Ok(false) };
    if nobody_works(app, job) {
        return Err(ApiError::new(Kind::WorkerUnavailable, "No worker of this server would end the job."));
    }
    app.completion.wait(app, job, wait).await?;
    Ok(true)
}

/// Whether the job is simulated and nobody here or elsewhere will do it: then waiting for it is pointless.
fn nobody_works(app: &App, job: &Job) -> bool {
    let alone = !matches!(app.config.server.database, Database::Postgres(_));
    app.config.workers.count == 0 && alone && job.head.is_simulated()
}
