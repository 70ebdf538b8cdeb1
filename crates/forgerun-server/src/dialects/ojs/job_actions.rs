//! One job, for operators and agents: retry, attempts, priority, pause. The rest is in `jobs.rs`.

use std::sync::Arc;

use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{JobPause, Owned};
use forgerun_core::job::{AttemptError, Job};
use forgerun_core::scope::KeyScope;
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use serde_json::{Value, json};

use super::job_list::{JobSearch, NOT_POSSIBLE};
use super::jobs::{Shown, progress_view};
use super::queues::offset;
use super::scope::{CLIENT, CLIENT_OR_OPERATOR, PAGE, Scope};
use super::{objects, refusals, reply};
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::limits::OFFSET_MAX;
use crate::traces::RequestSubject;
use forgerun_wire::ojs::server::Pagination;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/ojs/v1/admin/jobs/{job_id}/retry", "retry", |call| Box::pin(retry(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsRetryJob", "Retry a discarded job with all its attempts.")
        .replies(&[Reply::object(200, "The job begins again.", &objects::JOB)])
        .refuses(NOT_POSSIBLE),
    Route::get("/ojs/v1/jobs/{job_id}/retries", "get", |call| Box::pin(retries(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsListRetries", "List the attempts of a job that failed.")
        .replies(&[Reply::object(200, "The attempts and the policy.", &objects::FACTS)]),
    Route::patch("/ojs/v1/jobs/{job_id}", "unsupported", |call| Box::pin(change(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsChangeJob", "Change the priority of a job: not supported.")
        .replies(&[])
        .refuses(&[Kind::UnsupportedFeature]),
    Route::patch("/ojs/v1/admin/jobs/{job_id}", "unsupported", |call| Box::pin(change(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsChangeJobAdmin", "Change the priority of a job: not supported.")
        .replies(&[])
        .refuses(&[Kind::UnsupportedFeature]),
    Route::post("/ojs/v1/agents/{job_id}/pause", "pause", |call| Box::pin(set_paused(call, true)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsPauseAgent", "Pause a job; its worker learns of it with its heartbeat.")
        .replies(&[Reply::object(200, "Paused.", &objects::FACTS)])
        .refuses(&[Kind::IllegalTransition]),
    Route::post("/ojs/v1/agents/{job_id}/resume", "resume", |call| Box::pin(set_paused(call, false)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Submit)
        .operation("ojsResumeAgent", "Resume a paused job.")
        .replies(&[Reply::object(200, "Resumed.", &objects::FACTS)]),
    Route::get("/ojs/v1/unique-jobs", "list", |call| Box::pin(unique(call)))
        .access(CLIENT)
        .operation("ojsListUniqueJobs", "List jobs that have not ended and keep others from being accepted.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::ITEMS)]),
];

async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let job = scope.job(app, call.job()).await?;
    let before = StateWord::of(&job);
    if before != StateWord::Discarded {
        return Err(refusals::wrong_state(before.as_str()));
    }
    let owned = Owned { job: job.id, client: scope.client };
    let retried = app.engine.retry(owned, true).await;
    let (job, _) = retried.map_err(|error| refusals::of_engine(app, error))?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    let facts = vec![
        ("previous_state", before.as_str().into()),
        ("re_enqueued_at", time::millis(job.updated_at).into()),
    ];
    Ok(Shown::read(app, Arc::new(job)).await?.both(facts))
}

fn attempt(job: &Job, error: &AttemptError) -> Value {
    let mut view = json!({
        "attempt": error.attempt,
        "state": if error.wait.is_some() { "retryable" } else { "discarded" },
        "error": error.message,
        "code": error.code,
        "failed_at": time::millis(error.at),
    });
    if let Some(wait) = error.wait {
        view["next_retry_at"] = time::millis(error.at + wait).into();
    }
    // When earlier attempts began is not kept.
    let newest = job.last_error().is_some_and(|last| last == error);
    if let Some(started_at) = job.started_at.filter(|at| newest && *at <= error.at) {
        view["started_at"] = time::millis(started_at).into();
    }
    view
}

async fn retries(call: Call<'_>) -> Result<Response, ApiError> {
    let job = Scope::of(&call)?.job(call.app, call.job()).await?;
    let shown = Shown::read(call.app, job.clone()).await?;
    let view = serde_json::to_value(shown.view()).unwrap_or_default();
    let retries: Vec<Value> = job.errors.iter().map(|error| attempt(&job, error)).collect();
    Ok(reply::ok(&json!({
        "job_id": job.id.to_string(),
        "state": StateWord::of(&job).as_str(),
        "attempt": view["attempt"],
        "retries": retries,
        "policy": view["retry"],
    })))
}

/// The place of a job in its queue is fixed with its submission.
async fn change(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    scope.job(app, call.job()).await?;
    let detail =
        "A job keeps the priority it was submitted with; cancel it and submit it again with another.";
    Err(RefusedRequest::new(Kind::UnsupportedFeature, detail).into())
}

/// `paused` and `running` are the words of agents.
async fn set_paused(call: Call<'_>, paused: bool) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let id = scope.job(app, call.job()).await?.id;
    let pause = JobPause { owned: Owned { job: id, client: scope.client }, paused };
    let done = app.engine.act(Command::Pause(pause)).await;
    let (job, _) = done.map_err(|error| refusals::of_engine(app, error))?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    let mut view = progress_view(&job);
    view["job_state"] = view["state"].take();
    view["state"] = if job.paused { "paused" } else { "running" }.into();
    Ok(reply::ok(&view))
}

/// Jobs with a unique key that have not ended, newest first.
async fn unique(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let query = call.query()?;
    let limit = query.limit()?;
    let skipped = offset(&query, limit)?;
    if skipped > OFFSET_MAX {
        return Err(query.malformed("offset", "is too far"));
    }
    let search = JobSearch { is_unique: true, words: JobSearch::open(), ..JobSearch::default() };
    let (jobs, next) = search.find(app, &scope, None, skipped + limit).await?;
    let view = |job: &Job| {
        let unique = job.head.unique.as_ref()?;
        let key: String = unique.key.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut view = json!({
            "key": key,
            "job_id": job.id.to_string(),
            "type": forgerun_wire::ojs::job::shown_type(&job.head),
            "queue": job.head.queue.as_str(),
            "state": StateWord::of(job).as_str(),
        });
        if let Some(until) = unique.until {
            view["locked_until"] = time::millis(until).into();
        }
        Some(view)
    };
    let items: Vec<Value> = jobs.iter().skip(skipped).filter_map(view).collect();
    let mut page = Pagination::new(jobs.len() as u64, limit, skipped);
    (page.has_more, page.total_is_minimum) = (next.is_some(), next.is_some());
    Ok(reply::ok(&json!({"unique_jobs": items, "items": items, "pagination": page})))
}
