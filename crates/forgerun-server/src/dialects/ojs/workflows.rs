//! `workflows`: begin, read, cancel, retry.

use std::sync::Arc;

use axum::http::header::LOCATION;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, Owned};
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, Name};
use forgerun_core::scope::KeyScope;
use forgerun_core::workflow::StepState;
use forgerun_wire::fingerprint::fingerprint;
use forgerun_wire::ojs::envelope::Rules;
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::ojs::workflow::{StepArgs, WorkflowMembers, answer, view, workflow_word};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use forgerun_wire::workflow::{self as wire, StepRows, WorkflowRows, step_word};
use serde_json::{Value, json};

use super::jobs::reason;
use super::queues::offset;
use super::scope::{CLIENT, CLIENT_OR_OPERATOR, ENDED, PAGE, REFUSALS, Scope};
use super::{objects, refusals, reply};
use crate::app::Filter;
use crate::http::{
    ApiError,
    accepted::{self, REPLAYED},
    body, respond,
    routing::{
        Call, Reply, Route,
        operation::{Parameter, SUBMITTING},
    },
};
use crate::limits::{LIST_ROWS_MAX, OFFSET_MAX, OJS_BATCH_BYTES_MAX};
use crate::submission::Key;
use crate::traces::RequestSubject;
use crate::workflows::{self, StartedWorkflow};
use forgerun_wire::request::truth;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/ojs/v1/workflows", "submit_workflow", |call| Box::pin(create(call)))
        .access(CLIENT)
        .body_max(|_| OJS_BATCH_BYTES_MAX)
        .scope(KeyScope::Submit)
        .operation("ojsCreateWorkflow", "Create a workflow.")
        .headers(SUBMITTING)
        .body(&objects::WORKFLOW)
        .replies(&[
            Reply::object(200, "The workflow was there before.", &objects::WORKFLOW_VIEW)
                .headers(&["Location"]),
            Reply::object(201, "Created.", &objects::WORKFLOW_VIEW).headers(&["Location"]),
        ])
        .refuses(REFUSALS),
    Route::get("/ojs/v1/workflows", "list", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListWorkflows", "List the workflows of the caller, newest first.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::WORKFLOWS)]),
    Route::get("/ojs/v1/workflows/{job_id}", "get", |call| Box::pin(get(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsGetWorkflow", "Get a workflow.")
        .replies(&[Reply::object(200, "The workflow.", &objects::WORKFLOW_VIEW)]),
    Route::delete("/ojs/v1/workflows/{job_id}", "cancel", |call| Box::pin(cancel(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsCancelWorkflow", "Cancel a workflow.")
        .query(&[COMPENSATE])
        .optional_body(&objects::CANCEL)
        .replies(&[Reply::object(200, "The workflow as it is now.", &objects::WORKFLOW_VIEW)])
        .refuses(ENDED),
    Route::post("/ojs/v1/workflows/{job_id}/cancel", "cancel", |call| Box::pin(cancel(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsCancelWorkflowByPost", "Cancel a workflow.")
        .query(&[COMPENSATE])
        .optional_body(&objects::CANCEL)
        .replies(&[Reply::object(200, "The workflow as it is now.", &objects::WORKFLOW_VIEW)])
        .refuses(ENDED),
    Route::get("/ojs/v1/workflows/{job_id}/progress", "get", |call| Box::pin(progress(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsGetWorkflowProgress", "Get how far a workflow and its steps are.")
        .replies(&[Reply::object(200, "How far they are.", &objects::FACTS)]),
    Route::post("/ojs/v1/workflows/{job_id}/retry", "retry", |call| Box::pin(retry(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsRetryWorkflow", "Retry the steps of a workflow that failed.")
        .optional_body(&objects::WORKFLOW_RETRY)
        .replies(&[Reply::object(200, "The workflow runs again.", &objects::WORKFLOW_VIEW)])
        .refuses(&[Kind::IllegalTransition, Kind::RetryLimitReached]),
];

/// Whether to undo what was done.
const COMPENSATE: Parameter =
    Parameter::new("compensate", "Whether the compensations of steps that succeeded run.").schema(truth);

/// Keys of one operation meet no keys of others, whichever way a request comes.
const CREATE: &str = "POST /ojs/v1/workflows";

/// Begins the workflow in the body.
pub(in crate::dialects) async fn take(call: &Call<'_>) -> Result<(WorkflowRows, bool), ApiError> {
    let app = call.app;
    let owner = Scope::of(call)?.owner()?;
    let rules = Rules {
        now: app.clock.now(),
        tenant: owner.tenant.as_ref().map(Name::as_str),
        strict_catalog: app.config.ojs.strict_catalog,
        test_hooks: app.config.ojs.test_hooks,
    };
    let request = wire::read(&call.body, rules, false)?;
    let of_body = request.idempotency_key.clone();
    let key = accepted::header_key(&call.exchange.headers)?.or(of_body.as_deref());
    let key = match key {
        Some(key) => Some(Key { operation: CREATE, key, fingerprint: fingerprint(&call.body)? }),
        None => None,
    };
    let begun = workflows::begin(call, &owner, request, key).await;
    let StartedWorkflow { job, existing } =
        begun.map_err(|error| error.or_else(|error| refusals::of_engine(app, error)))?;
    call.exchange.set_subject(RequestSubject::job(&job, !existing));
    Ok((rows(call, Arc::new(job)).await?, existing))
}

async fn create(call: Call<'_>) -> Result<Response, ApiError> {
    let (rows, existing) = take(&call).await?;
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    let mut response = reply::json(status, &answer(&rows, Vec::new()));
    let location = format!("{}/ojs/v1/workflows/{}", call.app.base, rows.job.id);
    response.headers_mut().insert(LOCATION, respond::value(location));
    if existing {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    Ok(response)
}

fn not_found() -> ApiError {
    RefusedRequest::new(Kind::JobNotFound, "There is no such workflow.")
        .fact("resource_type", "workflow")
        .into()
}

/// The workflow with this own job.
async fn rows(call: &Call<'_>, job: Arc<Job>) -> Result<WorkflowRows, ApiError> {
    workflows::read(call.app, job).await?.ok_or_else(not_found)
}

/// The own job of the workflow in the path.
pub(in crate::dialects) async fn own_job(call: &Call<'_>) -> Result<Arc<Job>, ApiError> {
    let job = Scope::of(call)?.job(call.app, call.job()).await.map_err(|error| match error.kind() {
        Kind::JobNotFound => not_found(),
        _ => error,
    })?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    if workflows::is_workflow(&job) { Ok(job) } else { Err(not_found()) }
}

/// The workflow in the path.
pub(in crate::dialects) async fn shown(call: &Call<'_>) -> Result<WorkflowRows, ApiError> {
    rows(call, own_job(call).await?).await
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(reply::ok(&answer(&shown(&call).await?, Vec::new())))
}

/// Cancels a workflow and its open steps; with `compensate` its compensations run first.
pub(in crate::dialects) async fn cancel_all(
    call: &Call<'_>,
    reason: Option<String>,
    compensate: bool,
) -> Result<WorkflowRows, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let own = own_job(call).await?;
    let cancel = Cancel {
        owned: Owned { job: own.id, client: scope.client },
        execution: None,
        by: if scope.client.is_some() { "user" } else { "operator" }.to_owned(),
        reason: reason.unwrap_or_else(|| "cancelled by the client".to_owned()),
        compensate,
    };
    let cancelled = app.engine.act(Command::Cancel(cancel)).await;
    let (job, changed) = cancelled.map_err(|error| refusals::of_engine(app, error))?;
    if !changed {
        return Err(no_cancel(job.id, workflow_word(job.state)));
    }
    rows(call, Arc::new(job)).await
}

/// The workflow has ended, or its compensations are running.
fn no_cancel(id: JobId, state: &str) -> ApiError {
    let (kind, detail) = match state {
        "running" => (Kind::AlreadyCancelled, "The workflow was cancelled and is being undone.".to_owned()),
        "cancelled" => (Kind::AlreadyCancelled, format!("The workflow has ended and is {state}.")),
        _ => (Kind::IllegalTransition, format!("The workflow has ended and is {state}.")),
    };
    RefusedRequest::new(kind, detail).fact("workflow_id", id.to_string()).fact("current_state", state).into()
}

async fn cancel(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let in_body: Option<bool> = body::member(&call.body, "compensate", "true or false")?;
    let compensate = match (in_body, query.get("compensate")) {
        (Some(compensate), _) => compensate,
        (None, None | Some("true")) => true,
        (None, Some("false")) => false,
        (None, Some(_)) => return Err(query.malformed("compensate", "must be true or false")),
    };
    let rows = cancel_all(&call, reason(&call)?, compensate).await?;
    let counts = rows.workflow.counts();
    let done = Value::from(counts.succeeded);
    let facts = vec![
        ("cancelled_at", rows.job.finished_at.map(time::millis).into()),
        ("steps_cancelled", (counts.failed + counts.skipped).into()),
        ("steps_already_completed", done.clone()),
        ("steps_already_complete", done),
    ];
    Ok(reply::ok(&answer(&rows, facts)))
}

/// How far a workflow is: the share of its steps that have ended.
async fn progress(call: Call<'_>) -> Result<Response, ApiError> {
    let own = own_job(&call).await?;
    let rows = rows(&call, own).await?;
    let share = |percent: u8| f64::from(percent) / 100.0;
    let step = |of: StepRows<'_>| {
        let is_done = of.step.state == StepState::Succeeded;
        let percent = if is_done { 100 } else { of.job.and_then(|job| job.progress).unwrap_or(0) };
        json!({"id": of.step.id, "state": step_word(of.step, of.job), "progress": share(percent)})
    };
    let steps: Vec<Value> = rows.steps().map(step).collect();
    Ok(reply::ok(&json!({
        "workflow_id": rows.job.id.to_string(),
        "state": workflow_word(rows.job.state),
        "progress": rows.job.progress.map(share),
        "steps": steps,
        "updated_at": time::millis(rows.job.updated_at),
    })))
}

/// Retries the failed steps of a workflow, or all of it if it was compensated. `from` names a step
/// to continue from.
async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let from: Option<String> = body::member(&call.body, "from", "the id of a step")?;
    let own = own_job(&call).await?;
    let from = match from {
        Some(id) => Some(workflows::step_index(app, &own, &id).await?),
        None => None,
    };
    let owned = Owned { job: own.id, client: scope.client };
    let retried = app.engine.retry_workflow(owned, from).await;
    let (job, _) = retried.map_err(|error| refusals::of_engine(app, error))?;
    Ok(reply::ok(&answer(&rows(&call, Arc::new(job)).await?, Vec::new())))
}

/// The caller's workflows, newest first. `cursor` is the last one shown.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let scope = Scope::of(&call)?;
    let owner = scope.owner()?;
    let query = call.query()?;
    let before = match query.get("cursor").map(str::parse::<JobId>) {
        Some(Ok(id)) => Some(id),
        Some(Err(_)) => return Err(query.malformed("cursor", "is no cursor of this list")),
        None => None,
    };
    let limit = query.limit()?;
    let skipped = if before.is_some() { 0 } else { offset(&query, limit)? };
    if skipped > OFFSET_MAX {
        return Err(query.malformed("offset", "is too far; go on with cursor"));
    }
    let filter = Filter {
        client: Some(owner.client),
        before,
        limit: skipped + limit,
        look_max: LIST_ROWS_MAX,
        ..Filter::default()
    };
    let (jobs, next) = workflows::list(call.app, filter).await?;
    let of_tenant = |job: &Job| scope.tenant.is_none() || job.head.tenant == scope.tenant;
    let jobs: Vec<Job> = jobs.into_iter().filter(of_tenant).collect();
    let mut page = Pagination::new(jobs.len() as u64, limit, skipped);
    // The total before the cursor is unknown.
    page.total_is_minimum = before.is_some();
    let mut found: Vec<WorkflowMembers> = Vec::with_capacity(limit);
    for job in jobs.into_iter().skip(skipped) {
        if let Some(rows) = workflows::read(call.app, Arc::new(job)).await? {
            found.push(view(&rows, StepArgs::LeftOut));
        }
    }
    if let Some(next) = next {
        page = page.and_more(next.to_string());
    }
    Ok(reply::ok(&json!({"workflows": found, "items": found, "pagination": page})))
}
