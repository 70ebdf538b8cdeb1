//! `Prefer: wait`: holds an answer until the job has ended.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::job::Job;
use forgerun_engine::Error;

use crate::app::App;
use crate::config::Database;
use crate::http::{ApiError, prefer::Prefer};

/// Waits for the end of a job; returns whether it ended, so that it must be loaded again. Refused
/// if no worker would run the job (C-51).
pub(crate) async fn wait_for_end(app: &App, job: &Job, prefer: Prefer) -> Result<bool, ApiError> {
    let Some(wait) = prefer.wait.filter(|_| !job.state.is_final()) else { return Ok(false) };
    if nobody_works(app, job) {
        return Err(ApiError::new(Kind::WorkerUnavailable, "No worker of this server would end the job."));
    }
    until_ended(app, job, wait).await?;
    Ok(true)
}

/// Waits until the job has ended, `span` is over, or the server stops. The caller loads the job
/// afterwards, since it may have changed further. Cancel-safe.
pub(crate) async fn until_ended(app: &App, job: &Job, span: Duration) -> Result<(), Error> {
    if job.state.is_final() {
        return Ok(());
    }
    let waiter = match app.hub.wait_for_end(job.id).await {
        Err(Error::Stopped) => return Ok(()),
        waiter => waiter?,
    };
    let ended = waiter.ended();
    if app.engine.store().job(job.id).await?.is_none_or(|job| job.state.is_final()) {
        return Ok(());
    }
    tokio::select! {
        biased;
        () = ended => {}
        () = app.stopping() => {}
        () = app.clock.sleep(span) => {}
    }
    Ok(())
}

/// Whether the job is simulated and no node runs a built-in worker, so that waiting is pointless.
fn nobody_works(app: &App, job: &Job) -> bool {
    let alone = !matches!(app.config.server.database, Database::Postgres(_));
    app.config.workers.count == 0 && alone && job.head.is_simulated()
}
