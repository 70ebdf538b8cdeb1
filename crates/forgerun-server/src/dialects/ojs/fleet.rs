//! External workers: heartbeats, list, directives.

use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Extend, Heartbeat, HeartbeatAnswer, HeldJob, WorkerCommand, WorkerLost};
use forgerun_core::id::JobId;
use forgerun_core::job::Name;
use forgerun_core::record::Stored as _;
use forgerun_core::scope::KeyScope;
use forgerun_core::worker::{self, Worker, WorkerId, WorkerState};
use forgerun_core::{Answer, Refusal};
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::ojs::worker::{HeartbeatRequest, parse_state, read_heartbeat, state_word};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use serde_json::{Value, json};

use super::queues::offset;
use super::scope::{CLIENT, CLIENT_OR_OPERATOR, PAGE, Scope};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::dialects::admin::workers::keep_held;
use crate::http::{
    ApiError,
    routing::{Call, RateCount, Reply, Route},
};
use crate::limits::{PAGE_MAX, WORKERS_SEARCHED_MAX};

/// The routes about workers.
pub(super) const ROUTES: &[Route] = &[
    Route::post("/ojs/v1/workers/heartbeat", "heartbeat", |call| Box::pin(heartbeat(call)))
        .access(CLIENT_OR_OPERATOR)
        .rate(RateCount::WorkerCalls)
        .scope(KeyScope::Work)
        .operation("ojsHeartbeat", "Send a worker's sign of life.")
        .body(&objects::HEARTBEAT)
        .replies(&[Reply::object(200, "What stays with the worker, and what it is told.", &objects::BEAT)]),
    Route::post("/ojs/v1/workers/beat", "heartbeat", |call| Box::pin(heartbeat(call)))
        .access(CLIENT_OR_OPERATOR)
        .rate(RateCount::WorkerCalls)
        .scope(KeyScope::Work)
        .operation("ojsBeat", "Send a worker's sign of life.")
        .body(&objects::HEARTBEAT)
        .replies(&[Reply::object(200, "What stays with the worker, and what it is told.", &objects::BEAT)]),
    Route::get("/ojs/v1/workers", "workers", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListWorkers", "List the workers of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::WORKERS)]),
    Route::get("/ojs/v1/admin/workers", "workers", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListWorkersAdmin", "List the workers of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::WORKERS)]),
    Route::get("/ojs/v1/workers/{worker_id}", "workers", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetWorker", "Get a worker.")
        .replies(&[Reply::object(200, "The worker.", &objects::WORKER)]),
    Route::get("/ojs/v1/workers/{worker_id}/health", "workers", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetWorkerHealth", "Get how a worker is.")
        .replies(&[Reply::object(200, "The worker.", &objects::WORKER)]),
    Route::post("/ojs/v1/workers/{worker_id}/quiet", "direct", |call| Box::pin(quiet(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsQuietWorker", "Tell a worker to finish what it has.")
        .replies(&[Reply::object(200, "What the worker is told.", &objects::WORKER)]),
    Route::post("/ojs/v1/admin/workers/{worker_id}/quiet", "direct", |call| Box::pin(quiet(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsQuietWorkerAdmin", "Tell a worker to finish what it has.")
        .replies(&[Reply::object(200, "What the worker is told.", &objects::WORKER)]),
    Route::post("/ojs/v1/workers/{worker_id}/terminate", "direct", |call| Box::pin(terminate(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsTerminateWorker", "Tell a worker to stop.")
        .replies(&[Reply::object(200, "What the worker is told.", &objects::WORKER)]),
    Route::post("/ojs/v1/admin/workers/{worker_id}/terminate", "direct", |call| Box::pin(terminate(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsTerminateWorkerAdmin", "Tell a worker to stop.")
        .replies(&[Reply::object(200, "What the worker is told.", &objects::WORKER)]),
    Route::get("/ojs/v1/admin/workers/{worker_id}", "workers", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetWorkerAdmin", "Get a worker.")
        .replies(&[Reply::object(200, "The worker.", &objects::WORKER)]),
    Route::delete("/ojs/v1/admin/workers/{worker_id}", "forget", |call| Box::pin(forget(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsDeleteWorker", "Forget a worker that holds no jobs.")
        .replies(&[Reply::object(200, "Forgotten.", &objects::FACTS)])
        .refuses(&[Kind::IllegalTransition]),
    Route::post("/ojs/v1/admin/workers/directive", "direct", |call| Box::pin(direct_all(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsDirectWorkers", "Tell all workers of the caller to finish, or to go on.")
        .body(&objects::DIRECTIVE)
        .replies(&[Reply::object(200, "How many are told.", &objects::FACTS)]),
    Route::post("/ojs/v1/workers/{worker_id}/resume", "direct", |call| Box::pin(resume(call)))
        .access(CLIENT)
        .scope(KeyScope::Work)
        .operation("ojsResumeWorker", "Tell a worker to go on.")
        .replies(&[Reply::object(200, "What the worker is told.", &objects::WORKER)]),
];

/// A heartbeat. It lists the worker's jobs; those that it does not hold are skipped.
pub(in crate::dialects) async fn heartbeat_of(
    call: &Call<'_>,
    request: &HeartbeatRequest,
) -> Result<HeartbeatResult, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let mut answer = match scope.client {
        Some(_) => beat(app, &scope, request).await?,
        None => beat_of_operator(app, request).await,
    };
    if app.is_stopping() && answer.told == WorkerState::Running {
        answer.told = WorkerState::Quiet;
    }
    if app.config.ojs.test_hooks {
        answer.told = hooked(app, &answer.extended).await?.unwrap_or(answer.told);
    }
    Ok(answer)
}

async fn heartbeat(call: Call<'_>) -> Result<Response, ApiError> {
    let request = read_heartbeat(&call.body)?;
    let answer = heartbeat_of(&call, &request).await?;
    let ids = |ids: &[JobId]| -> Vec<String> { ids.iter().map(JobId::to_string).collect() };
    Ok(reply::ok(&json!({
        "acknowledged": true,
        "worker_id": request.worker.as_str(),
        "state": state_word(answer.told),
        "directive": state_word(answer.told),
        "jobs_extended": ids(&answer.extended),
        "cancelled_jobs": ids(&answer.canceled),
        "paused_jobs": ids(&answer.paused),
        "exchange": true,
        "server_time": time::millis(call.app.clock.now()),
    })))
}

/// The answer to a heartbeat.
pub(in crate::dialects) struct HeartbeatResult {
    pub(in crate::dialects) told: WorkerState,
    pub(in crate::dialects) extended: Vec<JobId>,
    pub(super) canceled: Vec<JobId>,
    pub(super) paused: Vec<JobId>,
}

async fn beat(app: &App, scope: &Scope, request: &HeartbeatRequest) -> Result<HeartbeatResult, ApiError> {
    let mut jobs = Vec::with_capacity(request.jobs.len());
    for (job, proof) in &request.jobs {
        if scope.check_tenant(app, *job).await.is_ok() {
            jobs.push((*job, proof.clone()));
        }
    }
    let beat = Heartbeat {
        worker: WorkerId { owner: scope.owner()?, name: request.worker.clone() },
        state: Some(request.state),
        facts: request.facts.clone(),
        jobs,
        lease: request.lease,
    };
    let answer = app.engine.run(Command::Worker(WorkerCommand::Heartbeat(beat))).await;
    match answer.map_err(|error| refusals::of_engine(app, error))? {
        Answer::Heartbeat(answer) => {
            let HeartbeatAnswer { worker, extended, canceled, paused } = *answer;
            Ok(HeartbeatResult { told: worker.directive, extended, canceled, paused })
        }
        answer => unreachable!("a heartbeat was answered with {answer:?}"),
    }
}

/// The operator's worker has no owner, so it is not recorded; its jobs are extended all the same.
async fn beat_of_operator(app: &App, request: &HeartbeatRequest) -> HeartbeatResult {
    let mut told = HeartbeatResult {
        told: WorkerState::Running,
        extended: Vec::new(),
        canceled: Vec::new(),
        paused: Vec::new(),
    };
    for (job, proof) in &request.jobs {
        let held = HeldJob { job: *job, proof: proof.clone(), client: None };
        match app.engine.act(Command::Extend(Extend { held, lease: request.lease, note: None })).await {
            Ok((extended, _)) => {
                told.extended.push(*job);
                told.paused.extend(extended.paused.then_some(*job));
            }
            Err(forgerun_engine::Error::Refused(Refusal::AlreadyCanceled)) => told.canceled.push(*job),
            Err(_) => {}
        }
    }
    told
}

/// A hook of the published suite: a job that the worker holds sets its directive.
async fn hooked(app: &App, jobs: &[JobId]) -> Result<Option<WorkerState>, ApiError> {
    let inputs = app.engine.store().inputs(jobs.to_vec()).await?;
    let directive = |meta: &[u8]| {
        let meta: Value = serde_json::from_slice(meta).ok()?;
        match meta["test_directive"].as_str()? {
            "quiet" => Some(WorkerState::Quiet),
            "terminate" => Some(WorkerState::Terminate),
            _ => None,
        }
    };
    Ok(inputs.iter().find_map(|(_, input)| directive(&input.meta)))
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let owner = scope.owner()?;
    let query = call.query()?;
    let limit = query.limit()?;
    // The cursor is the name of the last worker shown.
    let cursor = query.get("cursor").map(|name| format!("{}{name}", owner.prefix()));
    let skipped = if cursor.is_some() { 0 } else { offset(&query, limit)? };
    let of_tenant = |worker: &Worker| scope.tenant.is_none() || worker.id.owner.tenant == scope.tenant;
    let mut after = cursor.clone().or(scope.tenant.as_ref().map(|_| owner.prefix())).unwrap_or_default();
    let (mut shown, mut n_found, mut is_all): (Vec<Worker>, usize, bool) = (Vec::new(), 0, false);
    for _ in 0..WORKERS_SEARCHED_MAX / PAGE_MAX {
        let group = Some(worker::group(owner.client));
        let page: Vec<Worker> = app.engine.store().records(group, after, PAGE_MAX).await?;
        let Some(last) = page.last() else {
            is_all = true;
            break;
        };
        after = last.key();
        for worker in page.into_iter().filter(of_tenant) {
            n_found += 1;
            if n_found > skipped && shown.len() < limit {
                shown.push(worker);
            }
        }
    }
    keep_held(app, &mut shown).await?;
    let views: Vec<Value> = shown.iter().map(|worker| view(app, worker)).collect();
    let mut page = Pagination::new(n_found as u64, limit, skipped);
    page.total_is_minimum = cursor.is_some() || !is_all;
    page.has_more = n_found > skipped + shown.len();
    page.next_cursor = shown.last().filter(|_| page.has_more).map(|last| last.id.name.to_string());
    let count = |state: &str| views.iter().filter(|view| view["state"] == state).count();
    let summary = json!({
        "total": views.len(),
        "running": count("running"),
        "quiet": count("draining"),
        "draining": count("draining"),
        // A silent worker is taken off the list, and its jobs are taken back.
        "stale": 0,
    });
    Ok(reply::ok(&json!({"workers": views, "items": views, "summary": summary, "pagination": page})))
}

fn view(app: &App, worker: &Worker) -> Value {
    let said = match worker.state {
        WorkerState::Running => "running",
        WorkerState::Quiet => "draining",
        WorkerState::Terminate => "shutting_down",
    };
    let mut view = json!({
        "id": worker.id.name.as_str(),
        "worker_id": worker.id.name.as_str(),
        "state": said,
        "directive": state_word(worker.directive),
        "queues": worker.facts.queues.iter().map(Name::as_str).collect::<Vec<_>>(),
        "active_jobs": worker.jobs.len(),
        "active_job_ids": worker.jobs.iter().map(JobId::to_string).collect::<Vec<_>>(),
        "started_at": time::millis(worker.started_at),
        "last_heartbeat_at": time::millis(worker.seen_at),
        "last_heartbeat": time::millis(worker.seen_at),
        "silent_for_ms": app.clock.now().since(worker.seen_at).as_millis() as u64,
    });
    let facts = &worker.facts;
    for (name, fact) in [
        ("tenant_id", worker.id.owner.tenant.as_ref().map(|tenant| tenant.as_str().into())),
        ("hostname", facts.hostname.as_deref().map(Value::from)),
        ("pid", facts.pid.map(Value::from)),
        ("concurrency", facts.concurrency.map(Value::from)),
    ] {
        if let Some(fact) = fact {
            view[name] = fact;
        }
    }
    view
}

fn named(call: &Call<'_>) -> Result<WorkerId, ApiError> {
    let name = Name::new(&call.text("worker_id")).ok_or_else(|| not_found(call))?;
    Ok(WorkerId { owner: Scope::of(call)?.owner()?, name })
}

fn not_found(call: &Call<'_>) -> ApiError {
    let id = call.text("worker_id");
    let shown: String = id.chars().filter(|c| !c.is_control()).take(64).collect();
    RefusedRequest::new(Kind::WorkerNotFound, "There is no such worker.")
        .fact("resource_type", "worker")
        .fact("resource_id", shown)
        .into()
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let id = named(&call)?;
    let found: Option<Worker> = call.app.engine.store().record(id.key()).await?;
    let worker = found.ok_or_else(|| not_found(&call))?;
    Ok(reply::ok(&view(call.app, &worker)))
}

/// Forgets a worker. One that holds jobs loses them when its leases end, or when it is silent.
async fn forget(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, id) = (call.app, named(&call)?);
    let found: Option<Worker> = app.engine.store().record(id.key()).await?;
    let mut worker = found.ok_or_else(|| not_found(&call))?;
    let known = WorkerLost { worker: id.clone(), jobs: worker.jobs.clone() };
    keep_held(app, std::slice::from_mut(&mut worker)).await?;
    if !worker.jobs.is_empty() {
        let detail = format!("The worker is alive and holds {} jobs; quiet it first.", worker.jobs.len());
        return Err(RefusedRequest::new(Kind::IllegalTransition, detail).into());
    }
    match app.engine.run(Command::Worker(WorkerCommand::Forget(known))).await {
        Ok(_) => Ok(reply::ok(&json!({"deregistered": true, "worker_id": id.name.as_str()}))),
        Err(forgerun_engine::Error::Refused(Refusal::WorkerNotFound)) => Err(not_found(&call)),
        Err(error) => Err(refusals::of_engine(app, error)),
    }
}

/// Sets the directive of all workers of the caller.
async fn direct_all(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let owner = scope.owner()?;
    let members = Members::of_body(&call.body)?;
    let mut violations = ViolationList::default();
    let kind = Kind::MalformedRequest;
    let word: Option<String> = violations.typed(kind, "directive", members.get("directive"), "a string");
    let to = match word.as_deref() {
        Some("resume") => Some(WorkerState::Running),
        Some(word) => parse_state(word),
        None => None,
    };
    if to.is_none() {
        violations.add(kind, "directive", "must be quiet, terminate or resume", "enum");
    }
    let to = violations.settle(to)?;
    let (mut n_told, mut after) = (0, String::new());
    for _ in 0..WORKERS_SEARCHED_MAX / PAGE_MAX {
        let group = Some(worker::group(owner.client));
        let page: Vec<Worker> = app.engine.store().records(group, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.key();
        let of_tenant = |worker: &Worker| scope.tenant.is_none() || worker.id.owner.tenant == scope.tenant;
        let command = |worker: Worker| Command::Worker(WorkerCommand::Direct { worker: worker.id, to });
        let commands = page.into_iter().filter(of_tenant).map(command).collect();
        n_told += app.engine.run_each(commands).await.into_iter().filter(Result::is_ok).count();
    }
    Ok(reply::ok(&json!({"directive": state_word(to), "workers": n_told})))
}

async fn quiet(call: Call<'_>) -> Result<Response, ApiError> {
    direct(call, WorkerState::Quiet).await
}

async fn terminate(call: Call<'_>) -> Result<Response, ApiError> {
    direct(call, WorkerState::Terminate).await
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    direct(call, WorkerState::Running).await
}

/// Sets the worker's directive for its next heartbeat. It gets no more jobs from now on.
async fn direct(call: Call<'_>, to: WorkerState) -> Result<Response, ApiError> {
    let (app, id) = (call.app, named(&call)?);
    let command = WorkerCommand::Direct { worker: id.clone(), to };
    match app.engine.run(Command::Worker(command)).await {
        Ok(_) => Ok(reply::ok(&json!({"worker_id": id.name.as_str(), "directive": state_word(to)}))),
        Err(forgerun_engine::Error::Refused(Refusal::WorkerNotFound)) => Err(not_found(&call)),
        Err(error) => Err(refusals::of_engine(app, error)),
    }
}
