//! Log lines from workers.

use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::limits::LOG_CLIENT_BYTES_MAX;
use forgerun_core::log::LogBatch;
use forgerun_engine::{Appended, Error};
use forgerun_wire::ojs::log::{LOGS, LogsRequest, read_logs};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::request_body;
use serde_json::json;

use super::scope::{OF_LEASE, Scope};
use super::work::of_worker;
use super::{refusals, reply};
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::limits::{LOG_BODY_BYTES_MAX, LOG_FULL_AFTER_S};

pub(super) const ROUTES: &[Route] =
    &[of_worker("/ojs/v1/workers/logs", "logs", |call| Box::pin(append(call)))
        .body_max(|_| LOG_BODY_BYTES_MAX)
        .operation("ojsAppendLogs", "Append lines to the log of a job.")
        .body(&LOGS)
        .replies(&[Reply::object(200, "Stored.", &LOGGED)])
        .refuses(OF_LEASE)];

request_body! {
    /// Log lines that were stored.
    LOGGED = "OjsLogged" {
        /// Of which job.
        "job_id": text(),
        /// How many lines.
        "lines": integer(1, 1000),
    }
    ; required &["job_id", "lines"]
}

/// `POST /ojs/v1/workers/logs`. Lines of a request that is repeated are there twice.
async fn append(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let LogsRequest { job, proof, lines } = read_logs(&call.body, app.clock.now())?;
    let job = scope.job(app, job).await?;
    let refused = |refusal| refusals::of_engine(app, Error::Refused(refusal));
    job.check_holder(&proof).map_err(refused)?;
    let batch = LogBatch::new(job.id, job.head.client, job.attempt, &lines);
    match app.engine.append_log(batch).await? {
        Appended::Lines => Ok(reply::ok(&json!({"job_id": job.id.to_string(), "lines": lines.len()}))),
        Appended::JobGone => Err(refused(Refusal::NotFound)),
        Appended::ClientFull => {
            let detail = "The logs of the client's jobs are full; they are deleted with their jobs.";
            let refused = RefusedRequest::new(Kind::RateLimited, detail);
            Err(refused
                .limited(LOG_CLIENT_BYTES_MAX, "in all", LOG_FULL_AFTER_S)
                .fact("limit_name", "log_bytes_per_client")
                .into())
        }
    }
}
