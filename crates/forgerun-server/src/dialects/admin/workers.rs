//! External workers of all clients: heartbeats, held jobs, and the directive to take no more.

use std::collections::HashMap;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::WorkerCommand;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::worker::{Worker, WorkerState};
use forgerun_core::{Command, Refusal};
use forgerun_wire::admin::{AdminPage, AdminWorker};
use forgerun_wire::problem::RefusedRequest;

use super::audit;
use crate::app::App;
use crate::auth::OperatorRole;
use crate::http::{
    ApiError, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT, Parameter, uuid},
    },
};
use crate::limits::{HELD_JOBS_LOOKED_AT_MAX, PAGE_MAX, WORKERS_SEARCHED_MAX};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/workers", "workers", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListWorkers", "List the outside workers of all clients that send heartbeats.")
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<AdminWorker>>(200, "A page.")]),
    Route::post("/admin/v1/workers/{worker_id}/quiet", "direct", |call| Box::pin(quiet(call)))
        .role(OperatorRole::Operator)
        .operation("adminQuietWorker", "Tell a worker to finish what it has and to take no more.")
        .query(&[OWNER])
        .replies(&[Reply::json::<AdminWorker>(200, "The worker with what it is told.")])
        .refuses(&[Kind::Duplicate]),
];

/// Whose worker.
const OWNER: Parameter =
    Parameter::new("client", "Whose worker is meant, where several clients have one of the name.")
        .schema(uuid);

/// `GET /admin/v1/workers`, by client and name; the cursor is the last worker.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<AdminWorker>, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let after = query.get("cursor").unwrap_or_default().to_owned();
    let mut workers: Vec<Worker> = call.app.engine.store().records(None, after, limit + 1).await?;
    let more = workers.len() > limit;
    workers.truncate(limit);
    keep_held(call.app, &mut workers).await?;
    let next_cursor = workers.last().filter(|_| more).map(|worker| worker.id.key());
    let now = call.app.clock.now();
    let mut items: Vec<_> = workers.iter().map(|worker| AdminWorker::new(worker, now)).collect();
    call.app
        .client_names
        .fill(call.app, items.iter_mut().map(|item| (&item.client, &mut item.client_name)))
        .await?;
    Ok(AdminPage { items, next_cursor })
}

/// Keeps only the jobs that the workers still hold. A worker's record has the jobs of its last
/// heartbeat and those it fetched since; some may have ended, or belong to another worker by now.
pub(in crate::dialects) async fn keep_held(app: &App, workers: &mut [Worker]) -> Result<(), ApiError> {
    let ids: Vec<JobId> = workers.iter().flat_map(|worker| worker.jobs.iter().copied()).collect();
    // Too many to read for a list, which then shows the worker's own numbers.
    if ids.is_empty() || ids.len() > HELD_JOBS_LOOKED_AT_MAX {
        return Ok(());
    }
    let jobs = app.engine.store().jobs_by_id(ids).await?;
    let held = jobs.iter().filter_map(|job| Some((job.id, (job.head.client, &job.lease.as_ref()?.worker))));
    let held: HashMap<_, _> = held.collect();
    for worker in workers {
        let of_worker = (worker.id.owner.client, &worker.id.name);
        worker.jobs.retain(|job| held.get(job) == Some(&of_worker));
    }
    Ok(())
}

/// `POST /admin/v1/workers/{id}/quiet`: it finishes its jobs and gets no more. A name that several
/// clients have needs `client` too.
async fn quiet(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let client = match query.get("client").map(str::parse::<ClientId>) {
        None => None,
        Some(Ok(client)) => Some(client),
        Some(Err(_)) => return Err(query.invalid("client", "is no id of a client")),
    };
    Ok(respond::json(StatusCode::OK, &quieten(&call, client).await?))
}

/// Directs the worker in the path to take no more jobs.
pub(in crate::dialects) async fn quieten(
    call: &Call<'_>,
    client: Option<ClientId>,
) -> Result<AdminWorker, ApiError> {
    let mut worker = named(call.app, &call.text("worker_id"), client).await?;
    let to = WorkerState::Quiet;
    let command = WorkerCommand::Direct { worker: worker.id.clone(), to };
    match call.app.engine.run(Command::Worker(command)).await {
        Ok(_) => {}
        Err(forgerun_engine::Error::Refused(Refusal::WorkerNotFound)) => return Err(not_found()),
        Err(error) => return Err(error.into()),
    }
    audit::note(call.exchange, "quiet", &worker.id.key());
    worker.directive = to;
    keep_held(call.app, std::slice::from_mut(&mut worker)).await?;
    Ok(AdminWorker::new(&worker, call.app.clock.now()))
}

/// The only worker of this name.
async fn named(app: &App, name: &str, client: Option<ClientId>) -> Result<Worker, ApiError> {
    let wanted = |worker: &Worker| {
        worker.id.name.as_str() == name && client.is_none_or(|client| client == worker.id.owner.client)
    };
    let mut found: Option<Worker> = None;
    let mut after = String::new();
    for _ in 0..WORKERS_SEARCHED_MAX / PAGE_MAX {
        let page: Vec<Worker> = app.engine.store().records(None, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.id.key();
        for worker in page.into_iter().filter(wanted) {
            if found.replace(worker).is_some() {
                let detail =
                    "Several workers have this name; say whose is meant with the query parameter `client`.";
                return Err(RefusedRequest::new(Kind::Duplicate, detail).fact("field", "client").into());
            }
        }
    }
    found.ok_or_else(not_found)
}

fn not_found() -> ApiError {
    let refused = RefusedRequest::new(Kind::WorkerNotFound, "There is no such worker.");
    refused.fact("resource_type", "worker").into()
}
