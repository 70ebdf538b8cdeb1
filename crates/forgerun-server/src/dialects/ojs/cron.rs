//! Cron jobs: schedules in OJS's form.

use axum::http::StatusCode;
use axum::http::header::LOCATION;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::{Job, Name};
use forgerun_core::queue::Owner;
use forgerun_core::schedule::{Schedule, ScheduleId};
use forgerun_core::scope::KeyScope;
use forgerun_wire::ojs::cron::{CronMembers, changed_cron, cron_answer, cron_view, read_cron, read_enabled};
use forgerun_wire::ojs::envelope::Rules;
use forgerun_wire::ojs::job::JobView;
use forgerun_wire::ojs::members::Members;
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::time;
use serde::Serialize;
use serde_json::{Value, json};

use super::job_list::JobSearch;
use super::queues::offset;
use super::scope::{CLIENT, PAGE, REFUSALS, Scope};
use super::submission::{TERMS, from_envelope};
use super::{objects, reply};
use crate::app::App;
use crate::config::PrivateTargets;
use crate::http::{
    ApiError, respond,
    routing::{Call, Reply, Route, operation::LIMIT},
};
use crate::limits::{OJS_ENVELOPE_BYTES_MAX, PAGE_MAX};
use crate::schedules;
use crate::submission::{SubmissionContext, Violations};
use crate::traces::RequestSubject;

/// The routes of cron jobs. Those with a verb behind the name are ours: OJS can only disable and
/// enable them.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/cron", "list_crons", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListCrons", "List the schedules of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::CRONS)]),
    Route::post("/ojs/v1/cron", "register_cron", |call| Box::pin(register(call)))
        .access(CLIENT)
        .body_max(|_| OJS_ENVELOPE_BYTES_MAX)
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("ojsRegisterCron", "Register a schedule, or change the one of that name.")
        .body(&objects::CRON)
        .replies(&[
            Reply::object(200, "Changed.", &objects::CRON_VIEW),
            Reply::object(201, "Registered.", &objects::CRON_VIEW).headers(&["Location"]),
        ])
        .refuses(REFUSALS),
    Route::get("/ojs/v1/cron/{name}", "get_cron", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetCron", "Get a schedule.")
        .replies(&[Reply::object(200, "The schedule.", &objects::CRON_VIEW)]),
    Route::patch("/ojs/v1/cron/{name}", "change_cron", |call| Box::pin(change(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("ojsChangeCron", "Change a schedule.")
        .body(&objects::CRON_CHANGE)
        .replies(&[Reply::object(200, "The schedule as it is now.", &objects::CRON_VIEW)])
        .refuses(REFUSALS),
    Route::delete("/ojs/v1/cron/{name}", "delete_cron", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsDeleteCron", "Delete a schedule.")
        .replies(&[Reply::object(200, "Deleted.", &objects::CRON_VIEW)]),
    Route::post("/ojs/v1/cron/{name}/pause", "change_cron", |call| Box::pin(pause(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsPauseCron", "Pause a schedule.")
        .replies(&[Reply::object(200, "The schedule as it is now.", &objects::CRON_VIEW)]),
    Route::post("/ojs/v1/cron/{name}/resume", "change_cron", |call| Box::pin(resume(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("ojsResumeCron", "Resume a schedule.")
        .replies(&[Reply::object(200, "The schedule as it is now.", &objects::CRON_VIEW)]),
    Route::post("/ojs/v1/cron/{name}/trigger", "trigger_cron", |call| Box::pin(trigger(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("ojsTriggerCron", "Make a job of a schedule now.")
        .replies(&[
            Reply::object(200, "The job was there before.", &objects::JOB),
            Reply::object(201, "The job is made.", &objects::JOB),
        ])
        .refuses(&[Kind::Duplicate]),
    Route::get("/ojs/v1/cron/{name}/history", "list", |call| Box::pin(history(call)))
        .access(CLIENT)
        .operation("ojsListCronRuns", "List the jobs that a schedule made, newest first.")
        .query(&[LIMIT])
        .replies(&[Reply::object(200, "The jobs.", &objects::FACTS)]),
    Route::get("/ojs/v1/crons", "list_crons", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListCronsOfUi", "List the schedules of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::CRONS)]),
    Route::get("/ojs/v1/crons/{name}", "get_cron", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetCronOfUi", "Get a schedule.")
        .replies(&[Reply::object(200, "The schedule.", &objects::CRON_VIEW)]),
    Route::patch("/ojs/v1/crons/{name}", "change_cron", |call| Box::pin(change(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("ojsChangeCronOfUi", "Change a schedule.")
        .body(&objects::CRON_CHANGE)
        .replies(&[Reply::object(200, "The schedule as it is now.", &objects::CRON_VIEW)])
        .refuses(REFUSALS),
    Route::delete("/ojs/v1/crons/{name}", "delete_cron", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsDeleteCronOfUi", "Delete a schedule.")
        .replies(&[Reply::object(200, "Deleted.", &objects::CRON_VIEW)]),
];

/// The schedule in the path. A malformed name is an unknown one.
fn named(call: &Call<'_>, scope: &Scope) -> Result<ScheduleId, ApiError> {
    id_of(scope.owner()?, &call.text("name"))
}

pub(in crate::dialects) fn id_of(owner: Owner, name: &str) -> Result<ScheduleId, ApiError> {
    match Name::queue(name) {
        Ok(name) => Ok(ScheduleId { owner, name }),
        Err(_) => Err(forgerun_engine::Error::Refused(forgerun_core::Refusal::ScheduleNotFound).into()),
    }
}

fn view(schedule: &Schedule) -> CronMembers {
    cron_view(schedule, &schedules::next_runs(schedule))
}

/// Registers the cron job in the body: returns it, and whether it is new.
pub(in crate::dialects) async fn put(call: &Call<'_>) -> Result<(Schedule, bool), ApiError> {
    put_body(call, &call.body).await
}

async fn put_body(call: &Call<'_>, body: &[u8]) -> Result<(Schedule, bool), ApiError> {
    let (app, owner) = (call.app, Scope::of(call)?.owner()?);
    let rules = Rules {
        now: app.clock.now(),
        tenant: owner.tenant.as_ref().map(Name::as_str),
        strict_catalog: app.config.ojs.strict_catalog,
        test_hooks: app.config.ojs.test_hooks,
    };
    let request = read_cron(body, rules)?;
    let head = call.head(owner.client, None);
    let submission = from_envelope(app, &owner, request.template, head)?;
    let context = SubmissionContext { key: None, bytes: 0, private: PrivateTargets::Deny };
    let checked = submission.check(app, &TERMS, context, Violations::default()).await?;
    schedules::put(app, ScheduleId { owner, name: request.name }, request.terms, checked, request.options)
        .await
}

async fn register(call: Call<'_>) -> Result<Response, ApiError> {
    let scope = Scope::of(&call)?;
    let (schedule, created) = put(&call).await?;
    let status = if created { StatusCode::CREATED } else { StatusCode::OK };
    let mut response = reply::json(status, &cron_answer(view(&schedule), scope.of_sdk, &[]));
    if created {
        let location = format!("{}/ojs/v1/cron/{}", call.app.base, schedule.id.name);
        response.headers_mut().insert(LOCATION, respond::value(location));
    }
    Ok(response)
}

/// Cron jobs of an owner, by name, and their total. Only the page is kept in memory.
pub(in crate::dialects) async fn page(
    app: &App,
    owner: &Owner,
    offset: usize,
    limit: usize,
) -> Result<(Vec<Schedule>, usize), ApiError> {
    let (mut found, mut total, mut after) = (Vec::new(), 0, String::new());
    loop {
        let some: Vec<Schedule> = app.engine.store().records(Some(owner.prefix()), after, PAGE_MAX).await?;
        let Some(last) = some.last() else { return Ok((found, total)) };
        after = last.id.key();
        let (n_some, before) = (some.len(), offset.saturating_sub(total));
        let wanted = limit - found.len();
        found.extend(some.into_iter().skip(before).take(wanted));
        total += n_some;
    }
}

#[derive(Serialize)]
struct CronPage<'a> {
    items: &'a [CronMembers],
    crons: &'a [CronMembers],
    cron_jobs: &'a [CronMembers],
    count: usize,
    pagination: Pagination,
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let offset = offset(&query, limit)?;
    let (crons, total) = page(call.app, &Scope::of(&call)?.owner()?, offset, limit).await?;
    let page = Pagination::new(total as u64, limit, offset);
    let shown: Vec<CronMembers> = crons.iter().map(view).collect();
    Ok(reply::ok(&CronPage {
        items: &shown,
        crons: &shown,
        cron_jobs: &shown,
        count: shown.len(),
        pagination: page,
    }))
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let scope = Scope::of(&call)?;
    let schedule = schedules::find(call.app, &named(&call, &scope)?).await?;
    Ok(reply::ok(&cron_answer(view(&schedule), scope.of_sdk, &[])))
}

/// The jobs that a schedule made, newest first. Those of a schedule of the same name that was
/// deleted are among them.
async fn history(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let limit = call.query()?.limit()?;
    let schedule = schedules::find(app, &named(&call, &scope)?).await?;
    let search = JobSearch {
        queue: Some(schedule.head.queue.clone()),
        since: Some(schedule.created_at),
        schedule: Some(schedule.id.name.clone()),
        ..JobSearch::default()
    };
    let (jobs, next) = search.find(app, &scope, None, limit).await?;
    let run = |job: &Job| {
        let tick = job.head.schedule.as_ref().map(|run| time::millis(run.tick));
        json!({
            "job_id": job.id.to_string(),
            "state": StateWord::of(job).as_str(),
            "scheduled_at": tick,
            "started_at": job.started_at.map(time::millis),
            "completed_at": job.finished_at.map(time::millis),
        })
    };
    let runs: Vec<Value> = jobs.iter().map(run).collect();
    let name = schedule.id.name.as_str();
    Ok(reply::ok(&json!({"name": name, "executions": runs, "items": runs, "has_more": next.is_some()})))
}

/// Pauses or resumes a schedule, or registers it anew with what the body says of it.
async fn change(call: Call<'_>) -> Result<Response, ApiError> {
    let members = Members::of_body(&call.body)?;
    if members.0.iter().all(|(name, _)| name == "enabled") {
        let enabled = read_enabled(&call.body)?;
        return enable(call, enabled).await;
    }
    let scope = Scope::of(&call)?;
    let known = schedules::find(call.app, &named(&call, &scope)?).await?;
    let (schedule, _) = put_body(&call, &changed_cron(&view(&known), &members)).await?;
    Ok(reply::ok(&cron_answer(view(&schedule), scope.of_sdk, &[])))
}

async fn pause(call: Call<'_>) -> Result<Response, ApiError> {
    enable(call, false).await
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    enable(call, true).await
}

async fn enable(call: Call<'_>, enabled: bool) -> Result<Response, ApiError> {
    let scope = Scope::of(&call)?;
    let schedule = schedules::enable(call.app, &named(&call, &scope)?, enabled).await?;
    Ok(reply::ok(&cron_answer(view(&schedule), scope.of_sdk, &[])))
}

#[derive(Serialize)]
struct TriggeredView<'a> {
    job: JobView<'a>,
}

async fn trigger(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, id) = (call.app, named(&call, &Scope::of(&call)?)?);
    let (job, existing) = schedules::trigger(app, &id).await?;
    call.exchange.set_subject(RequestSubject::job(&job, !existing));
    let found = app.engine.store().inputs(vec![job.id]).await?;
    let input = found.into_iter().next().map(|(_, input)| input).unwrap_or_default();
    let status = if existing { StatusCode::OK } else { StatusCode::CREATED };
    Ok(reply::json(status, &TriggeredView { job: JobView::new(&job, &input) }))
}

async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let scope = Scope::of(&call)?;
    let schedule = schedules::delete(call.app, &named(&call, &scope)?).await?;
    let facts = [("deleted", true.into()), ("name", schedule.id.name.as_str().into())];
    Ok(reply::ok(&cron_answer(view(&schedule), scope.of_sdk, &facts)))
}
