//! Dead letters: jobs without attempts left whose policy keeps them.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::Owned;
use forgerun_core::id::JobId;
use forgerun_core::job::{Input, Job, Name};
use forgerun_core::scope::KeyScope;
use forgerun_wire::ojs::job::{JobView, shown_type};
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::time;
use serde::Serialize;
use serde_json::json;

use super::jobs::Shown;
use super::queues::offset;
use super::scope::{CLIENT, PAGE, Scope};
use super::work::with_inputs_within;
use super::{bulk, objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{
        Call, Reply, Route,
        operation::{Parameter, QUEUE},
    },
};
use crate::limits::{DEAD_LETTER_TOTAL_MAX, DEAD_LETTERS_COUNTED_MAX, PAGE_BYTES_MAX};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/dead-letter", "dead_letters", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListDeadLetters", "List the dead letters of the caller.")
        .query(OF_QUEUE)
        .replies(&[Reply::object(200, "A page.", &objects::JOBS)]),
    Route::get("/ojs/v1/admin/dead-letter", "dead_letters", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListDeadLettersAdmin", "List the dead letters of the caller.")
        .query(OF_QUEUE)
        .replies(&[Reply::object(200, "A page.", &objects::JOBS)]),
    Route::get("/ojs/v1/dead-letter/stats", "dead_letters", |call| Box::pin(stats(call)))
        .access(CLIENT)
        .operation("ojsCountDeadLetters", "Count the dead letters of the caller.")
        .replies(&[Reply::object(200, "How many there are.", &objects::FACTS)]),
    Route::get("/ojs/v1/admin/dead-letter/stats", "dead_letters", |call| Box::pin(stats(call)))
        .access(CLIENT)
        .operation("ojsCountDeadLettersAdmin", "Count the dead letters of the caller.")
        .replies(&[Reply::object(200, "How many there are.", &objects::FACTS)]),
    Route::post("/ojs/v1/dead-letter/{job_id}/retry", "retry", |call| Box::pin(retry(call)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsRetryDeadLetter", "Retry a dead letter.")
        .replies(&[Reply::object(200, "The job begins again.", &objects::JOB)])
        .refuses(&[Kind::IllegalTransition, Kind::RetryLimitReached, Kind::Duplicate]),
    Route::post("/ojs/v1/admin/dead-letter/{job_id}/retry", "retry", |call| Box::pin(retry(call)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsRetryDeadLetterAdmin", "Retry a dead letter.")
        .replies(&[Reply::object(200, "The job begins again.", &objects::JOB)])
        .refuses(&[Kind::IllegalTransition, Kind::RetryLimitReached, Kind::Duplicate]),
    Route::delete("/ojs/v1/dead-letter/{job_id}", "delete", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsDeleteDeadLetter", "Delete a dead letter.")
        .replies(&[Reply::object(200, "Deleted.", &objects::FACTS)]),
    Route::delete("/ojs/v1/admin/dead-letter/{job_id}", "delete", |call| Box::pin(delete_silently(call)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsDeleteDeadLetterAdmin", "Delete a dead letter.")
        .replies(&[Reply::empty(204, "Deleted.", &[])]),
    Route::get("/ojs/v1/dead-letter/{job_id}", "get", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetDeadLetter", "Get a dead letter.")
        .replies(&[Reply::object(200, "The job.", &objects::JOB)]),
    Route::get("/ojs/v1/admin/dead-letter/{job_id}", "get", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetDeadLetterAdmin", "Get a dead letter.")
        .replies(&[Reply::object(200, "The job.", &objects::JOB)]),
    Route::post("/ojs/v1/dead-letter/retry", "retry", |call| Box::pin(bulk::retry_dead(call)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsRetryDeadLetters", "Retry many dead letters.")
        .optional_body(&objects::BULK_CHANGE)
        .replies(bulk::ANSWER),
    Route::post("/ojs/v1/admin/dead-letter/retry", "retry", |call| Box::pin(bulk::retry_dead(call)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsRetryDeadLettersAdmin", "Retry many dead letters.")
        .optional_body(&objects::BULK_CHANGE)
        .replies(bulk::ANSWER),
    Route::delete("/ojs/v1/dead-letter", "delete", |call| Box::pin(bulk::delete_dead(call, true)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsDeleteDeadLetters", "Delete many dead letters.")
        .body(&objects::PURGE)
        .replies(bulk::ANSWER),
    Route::delete("/ojs/v1/admin/dead-letter", "delete", |call| Box::pin(bulk::delete_dead(call, true)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsDeleteDeadLettersAdmin", "Delete many dead letters.")
        .body(&objects::PURGE)
        .replies(bulk::ANSWER),
    Route::post("/ojs/v1/dead-letter/purge", "delete", |call| Box::pin(bulk::delete_dead(call, false)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsPurgeDeadLetters", "Delete many dead letters.")
        .query(&[OLDER_THAN])
        .optional_body(&objects::PURGE)
        .replies(bulk::ANSWER),
];

/// The age of dead letters to delete.
pub(super) const OLDER_THAN: Parameter =
    Parameter::new("older_than", "Only those from before this time, or from longer ago than this.");

/// Dead letters of a queue, and of a type.
const OF_QUEUE: &[Parameter] = &[
    QUEUE,
    Parameter::new("type", "Only of jobs of this type."),
    PAGE[0],
    PAGE[1],
    PAGE[2],
    PAGE[3],
    PAGE[4],
];

/// Some of the dead letters of the caller, oldest first, each with what it worked on.
pub(in crate::dialects) struct DeadLetters {
    pub(in crate::dialects) jobs: Vec<(Job, Input)>,
    /// Total, before and after this page included.
    pub(in crate::dialects) total: u64,
    /// Whether the total is a lower bound: counting is bounded.
    pub(in crate::dialects) total_is_minimum: bool,
    pub(in crate::dialects) has_more: bool,
}

/// A page: of a queue, after a cursor or from an offset.
pub(in crate::dialects) struct DeadLetterPage {
    pub(in crate::dialects) queue: Option<Name>,
    pub(in crate::dialects) job_type: Option<String>,
    pub(in crate::dialects) after: Option<JobId>,
    pub(in crate::dialects) skipped: usize,
    pub(in crate::dialects) limit: usize,
    /// Bytes of inputs; the page ends before they are exceeded.
    pub(in crate::dialects) bytes_max: usize,
}

/// Reads a page of the caller's dead letters.
pub(in crate::dialects) async fn read_page(
    call: &Call<'_>,
    page: DeadLetterPage,
) -> Result<DeadLetters, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let DeadLetterPage { queue, job_type, after, skipped, limit, bytes_max } = page;
    let oldest = async |after, n| {
        oldest_of(app, &scope, queue.clone(), after, n, |job| {
            job_type.as_ref().is_none_or(|wanted| shown_type(&job.head) == wanted)
        })
        .await
    };
    let found = oldest(after, skipped + limit + 1).await?;
    let n_found = found.len();
    let is_all = after.is_none() && n_found <= skipped + limit;
    let n_all = match is_all {
        true => n_found,
        false => n_found.max(oldest(None, DEAD_LETTER_TOTAL_MAX).await?.len()),
    };
    let shown: Vec<Job> = found.into_iter().skip(skipped).take(limit).collect();
    let jobs = with_inputs_within(app, shown, bytes_max).await?;
    let has_more = n_found > skipped + jobs.len();
    let total_is_minimum = !is_all && n_all >= DEAD_LETTER_TOTAL_MAX;
    Ok(DeadLetters { jobs, total: n_all as u64, total_is_minimum, has_more })
}

/// The caller's oldest dead letters after `after`, at most `n`. Those of other tenants are skipped,
/// up to a bound.
pub(super) async fn oldest(
    app: &App,
    scope: &Scope,
    queue: Option<Name>,
    after: Option<JobId>,
    n: usize,
) -> Result<Vec<Job>, ApiError> {
    oldest_of(app, scope, queue, after, n, |_| true).await
}

/// The same, of jobs that pass the filter.
async fn oldest_of(
    app: &App,
    scope: &Scope,
    queue: Option<Name>,
    mut after: Option<JobId>,
    n: usize,
    passes: impl Fn(&Job) -> bool,
) -> Result<Vec<Job>, ApiError> {
    let client = scope.owner()?.client;
    let (mut found, mut n_seen) = (Vec::new(), 0);
    while found.len() < n && n_seen < DEAD_LETTERS_COUNTED_MAX {
        let page = app.engine.store().dead_letters_of(client, queue.clone(), after, n).await?;
        let is_last = page.len() < n;
        n_seen += page.len();
        after = page.last().map(|job| job.id);
        let of_tenant = |job: &Job| scope.tenant.is_none() || scope.tenant == job.head.tenant;
        found.extend(page.into_iter().filter(|job| of_tenant(job) && passes(job)));
        if is_last {
            break;
        }
    }
    found.truncate(n);
    Ok(found)
}

#[derive(Serialize)]
struct DeadLetterList<'a> {
    jobs: &'a [JobView<'a>],
    items: &'a [JobView<'a>],
    total: u64,
    pagination: Pagination,
}

/// The caller's dead letters, oldest first; `cursor` is the last job shown.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let queue = match query.get("queue") {
        None => None,
        Some(name) => Some(Name::queue(name).map_err(|_| query.malformed("queue", "is no queue name"))?),
    };
    let job_type = query.get("type").map(str::to_owned);
    let after: Option<JobId> = query.get("cursor").and_then(|cursor| cursor.parse().ok());
    let skipped = if after.is_some() { 0 } else { offset(&query, limit)? };
    if skipped > DEAD_LETTERS_COUNTED_MAX {
        return Err(query.malformed("offset", "is too far; go on with cursor"));
    }
    let found = read_page(
        &call,
        DeadLetterPage { queue, job_type, after, skipped, limit, bytes_max: PAGE_BYTES_MAX },
    )
    .await?;
    let views: Vec<JobView<'_>> = found.jobs.iter().map(|(job, input)| JobView::new(job, input)).collect();
    let mut page = Pagination::new(found.total, limit, skipped);
    (page.total_is_minimum, page.has_more) = (found.total_is_minimum, found.has_more);
    page.next_cursor = found.jobs.last().filter(|_| found.has_more).map(|(last, _)| last.id.to_string());
    Ok(reply::ok(&DeadLetterList { jobs: &views, items: &views, total: page.total, pagination: page }))
}

async fn stats(call: Call<'_>) -> Result<Response, ApiError> {
    let jobs = oldest(call.app, &Scope::of(&call)?, None, None, DEAD_LETTERS_COUNTED_MAX).await?;
    let count = |of: fn(&Job) -> String| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for job in &jobs {
            *counts.entry(of(job)).or_default() += 1;
        }
        counts
    };
    let class = |job: &Job| job.last_error().map_or_else(String::new, |error| error.code.clone());
    let moment = |job: Option<&Job>| job.and_then(|job| job.dead_lettered_at).map(time::millis);
    Ok(reply::ok(&json!({
        "total": jobs.len(),
        "by_queue": count(|job| job.head.queue.to_string()),
        "by_type": count(|job| shown_type(&job.head).to_owned()),
        "by_error_type": count(class),
        "oldest_at": moment(jobs.iter().min_by_key(|job| job.dead_lettered_at)),
        "newest_at": moment(jobs.iter().max_by_key(|job| job.dead_lettered_at)),
    })))
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let job = found(&call, &Scope::of(&call)?).await?;
    Ok(Shown::read(call.app, job).await?.both(Vec::new()))
}

/// The dead letter in the path.
async fn found(call: &Call<'_>, scope: &Scope) -> Result<Arc<Job>, ApiError> {
    let job = scope.job(call.app, call.job()).await?;
    if job.dead_lettered_at.is_some() {
        return Ok(job);
    }
    let detail = "The job is no dead letter.";
    Err(RefusedRequest::new(Kind::JobNotFound, detail).fact("resource_type", "dead_letter").blank().into())
}

/// Retries the job with a full budget and no errors.
pub(in crate::dialects) async fn reopen(call: &Call<'_>) -> Result<Job, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let job = found(call, &scope).await?;
    let retried = app.engine.revive(Owned { job: job.id, client: scope.client }).await;
    let (job, _) = retried.map_err(|error| refusals::of_engine(app, error))?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    Ok(job)
}

async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    let job = reopen(&call).await?;
    let at = time::millis(job.updated_at);
    Ok(Shown::read(call.app, Arc::new(job)).await?.both(vec![("re_enqueued_at", at.into())]))
}

async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let id = forget(&call).await?;
    Ok(reply::ok(&json!({"deleted": true, "job_id": id.to_string()})))
}

async fn delete_silently(call: Call<'_>) -> Result<Response, ApiError> {
    forget(&call).await?;
    let mut response = Response::default();
    *response.status_mut() = StatusCode::NO_CONTENT;
    Ok(response)
}

/// Deletes a dead letter and its job.
pub(in crate::dialects) async fn forget(call: &Call<'_>) -> Result<JobId, ApiError> {
    let (app, scope) = (call.app, Scope::of(call)?);
    let job = found(call, &scope).await?;
    let owned = Owned { job: job.id, client: scope.client };
    app.engine.run(Command::Forget(owned)).await.map_err(|error| refusals::of_engine(app, error))?;
    Ok(job.id)
}
