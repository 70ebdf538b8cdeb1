//! The caller's queues: list, figures, pause, bounds. What deletes jobs of theirs is in
//! `queue_jobs.rs`.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{QueueChange, QueueCommand};
use forgerun_core::job::{Lane, Name, Shelf};
use forgerun_core::queue::{Owner, QueueId, QueueSettings};
use forgerun_core::rows::{Activity, Counts, Minute};
use forgerun_core::scope::KeyScope;
use forgerun_core::state::Facet;
#[cfg(feature = "grpc")]
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command, workflow};
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::ojs::server::{Pagination, QueueNumbers, QueueView};
use forgerun_wire::time;
use serde_json::{Value, json};

use super::queue_jobs::{delete, purge};
use super::scope::{CLIENT, CLIENT_OR_OPERATOR, PAGE, Scope};
use super::{bulk, objects, refusals, reply};
use crate::app::App;
use crate::attendance::AttendedQueues;
use crate::http::{
    ApiError,
    query::QueryString,
    queue_name,
    routing::{Call, Reply, Route},
};
use crate::limits::{LIST_ROWS_MAX, PAGE_MAX};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/queues", "queues", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListQueues", "List the queues of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::QUEUES)]),
    Route::get("/ojs/v1/admin/queues", "queues", |call| Box::pin(list(call)))
        .access(CLIENT)
        .operation("ojsListQueuesAdmin", "List the queues of the caller.")
        .query(PAGE)
        .replies(&[Reply::object(200, "A page.", &objects::QUEUES)]),
    Route::get("/ojs/v1/queues/{queue}", "queues", |call| Box::pin(get(call)))
        .access(CLIENT)
        .operation("ojsGetQueue", "Get a queue.")
        .replies(&[Reply::object(200, "The queue.", &objects::QUEUE)]),
    Route::get("/ojs/v1/queues/{queue}/stats", "queues", |call| Box::pin(stats(call)))
        .access(CLIENT)
        .operation("ojsGetQueueStats", "Get the numbers of a queue.")
        .replies(&[Reply::object(200, "The numbers.", &objects::QUEUE).headers(&[
            "X-OJS-Queue-Depth?",
            "X-OJS-Queue-Bound?",
            "X-OJS-Queue-Pressure?",
        ])]),
    Route::post("/ojs/v1/queues/{queue}/pause", "pause", |call| Box::pin(pause(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Manage)
        .operation("ojsPauseQueue", "Stop handing out jobs of a queue.")
        .replies(&[Reply::object(200, "The queue as it is now.", &objects::QUEUE)]),
    Route::post("/ojs/v1/queues/{queue}/resume", "resume", |call| Box::pin(resume(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Manage)
        .operation("ojsResumeQueue", "Hand out jobs of a queue again.")
        .replies(&[Reply::object(200, "The queue as it is now.", &objects::QUEUE)]),
    Route::post("/ojs/v1/admin/queues/{queue}/pause", "pause", |call| Box::pin(pause(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Manage)
        .operation("ojsPauseQueueAdmin", "Stop handing out jobs of a queue.")
        .replies(&[Reply::object(200, "The queue as it is now.", &objects::QUEUE)]),
    Route::post("/ojs/v1/admin/queues/{queue}/resume", "resume", |call| Box::pin(resume(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Manage)
        .operation("ojsResumeQueueAdmin", "Hand out jobs of a queue again.")
        .replies(&[Reply::object(200, "The queue as it is now.", &objects::QUEUE)]),
    Route::put("/ojs/v1/admin/queues/{queue}/config", "bound", |call| Box::pin(bound(call)))
        .access(CLIENT_OR_OPERATOR)
        .scope(KeyScope::Manage)
        .operation("ojsConfigureQueue", "Bound a queue.")
        .body(&objects::QUEUE_CONFIG)
        .replies(&[Reply::object(200, "The bounds as they are now.", &objects::QUEUE)]),
    Route::post("/ojs/v1/queues", "create_queue", |call| Box::pin(create(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .operation("ojsCreateQueue", "Set up a queue. A queue without settings needs none of this.")
        .body(&objects::QUEUE_CONFIG)
        .replies(&[
            Reply::object(200, "The queue was set up before.", &objects::QUEUE),
            Reply::object(201, "The queue.", &objects::QUEUE),
        ])
        .refuses(&[Kind::InvalidQueue, Kind::QueueNameTooLong]),
    Route::delete("/ojs/v1/queues/{queue}", "delete_queue", |call| Box::pin(delete(call)))
        .access(CLIENT)
        .scope(KeyScope::Manage)
        .and_scope(KeyScope::Submit)
        .operation("ojsDeleteQueue", "Delete a queue: its settings, and its jobs that have ended.")
        .replies(&[Reply::object(200, "Deleted.", &objects::FACTS)])
        .refuses(&[Kind::IllegalTransition]),
    Route::post("/ojs/v1/queues/{queue}/purge", "delete", |call| Box::pin(purge(call, false)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsPurgeQueue", "Delete jobs of a queue that have ended.")
        .optional_body(&objects::PURGE)
        .replies(bulk::ANSWER),
    Route::delete("/ojs/v1/admin/queues/{queue}/jobs", "delete", |call| Box::pin(purge(call, true)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsPurgeQueueAdmin", "Delete jobs of a queue that have ended.")
        .body(&objects::PURGE)
        .replies(bulk::ANSWER),
    Route::get("/ojs/v1/admin/queues/{queue}", "queues", |call| Box::pin(detail(call)))
        .access(CLIENT)
        .operation("ojsGetQueueAdmin", "Get a queue with its settings.")
        .replies(&[Reply::object(200, "The queue.", &objects::QUEUE)]),
    Route::get("/ojs/v1/queues/{queue}/priority-stats", "queues", |call| Box::pin(priorities(call)))
        .access(CLIENT)
        .operation("ojsGetPriorityStats", "Count the jobs of a queue that wait, by priority.")
        .replies(&[Reply::object(200, "The numbers.", &objects::FACTS)]),
];

/// An hour in minutes.
const LAST_HOUR: i64 = 60;

pub(super) fn named(call: &Call<'_>) -> Result<Name, ApiError> {
    queue_name(&call.text("queue"))
}

/// The state of one queue.
pub(in crate::dialects) struct Found {
    name: Name,
    counts: Counts,
    own: Option<QueueSettings>,
    of_operator: Option<QueueSettings>,
}

impl Found {
    pub(in crate::dialects) async fn read(app: &App, owner: &Owner, name: Name) -> Result<Found, ApiError> {
        let store = app.engine.store();
        let key = owner.scoped(name.as_str());
        Ok(Found {
            counts: store.counts(key.clone()).await?,
            own: store.record(key.as_str().to_owned()).await?,
            of_operator: store.record(name.as_str().to_owned()).await?,
            name,
        })
    }

    /// First use, if known.
    #[cfg(feature = "grpc")]
    pub(in crate::dialects) fn created_at(&self) -> Option<Time> {
        self.own.as_ref().map(|settings| settings.created_at)
    }

    fn settings(&self) -> impl Iterator<Item = &QueueSettings> {
        self.own.iter().chain(&self.of_operator)
    }

    pub(in crate::dialects) fn view(&self, activity: Activity) -> QueueView<'_> {
        QueueView {
            name: self.name.as_str(),
            paused: self.settings().any(|settings| settings.paused_at.is_some()),
            created_at: self.own.as_ref().map(|settings| time::millis(settings.created_at)),
            max_depth: self.settings().filter_map(|settings| settings.waiting_max).min(),
            numbers: numbers(&self.counts, activity),
        }
    }
}

/// Job counts by state.
pub(super) fn numbers(counts: &Counts, activity: Activity) -> QueueNumbers {
    let at = |facets: &[Facet]| facets.iter().map(|facet| counts.at(*facet)).sum::<i64>().max(0) as u64;
    let mean = |sum: i64, n: i64| if n > 0 { sum as f64 / n as f64 } else { 0.0 };
    QueueNumbers {
        available: at(&[Facet::Available]),
        active: at(&[Facet::Assigned, Facet::Running]),
        scheduled: at(&[Facet::Scheduled]),
        pending: at(&[Facet::Held]),
        retryable: at(&[Facet::Waiting]),
        completed: at(&[Facet::Succeeded]),
        cancelled: at(&[Facet::Canceled]),
        discarded: at(&[Facet::Failed, Facet::Expired]),
        completed_last_hour: activity.succeeded.max(0) as u64,
        failed_last_hour: activity.failed.max(0) as u64,
        avg_duration_ms: mean(activity.ran_ms, activity.succeeded + activity.failed),
        avg_wait_ms: mean(activity.waited_ms, activity.started),
    }
}

/// Activity of a queue within the last hour.
pub(in crate::dialects) async fn activity(app: &App, key: Name) -> Result<Activity, ApiError> {
    let Minute(now) = Minute::of(app.clock.now());
    Ok(app.engine.store().activity(key, Minute(now - LAST_HOUR)).await?)
}

/// All queues of the caller, by name.
pub(in crate::dialects) async fn all(call: &Call<'_>) -> Result<Vec<Found>, ApiError> {
    let (app, owner) = (call.app, Scope::of(call)?.owner()?);
    let store = app.engine.store();
    let mut queues: BTreeMap<Name, (Counts, Option<QueueSettings>)> = BTreeMap::new();
    queues.insert(app.default_queue.clone(), (Counts::default(), None));
    for queue in store.queues_of(&owner).await? {
        queues.entry(QueueId::parse(&queue.queue).name).or_default().0 = queue.counts;
    }
    // Workflows themselves wait for no worker.
    queues.retain(|name, _| name.as_str() != workflow::QUEUE);
    let mut after = String::new();
    loop {
        let page: Vec<QueueSettings> = store.records(Some(owner.prefix()), after, PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.queue.as_str().to_owned();
        for settings in page {
            let name = QueueId::parse(&settings.queue).name;
            queues.entry(name).or_default().1 = Some(settings);
        }
    }
    let mut of_operator: BTreeMap<Name, QueueSettings> = BTreeMap::new();
    let mut after = String::new();
    loop {
        let page: Vec<QueueSettings> = store.records(Some(String::new()), after, PAGE_MAX).await?;
        let Some(last) = page.last() else { break };
        after = last.queue.as_str().to_owned();
        of_operator.extend(page.into_iter().map(|settings| (settings.queue.clone(), settings)));
    }
    let found = |(name, (counts, own))| {
        let of_operator = of_operator.remove(&name);
        Found { name, counts, own, of_operator }
    };
    Ok(queues.into_iter().map(found).collect())
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let offset = offset(&query, limit)?;
    let queues = all(&call).await?;
    let page = Pagination::new(queues.len() as u64, limit, offset);
    let shown = queues.iter().skip(offset).take(limit);
    let shown: Vec<Value> = shown.map(|queue| queue.view(Activity::default()).summary()).collect();
    Ok(reply::ok(&json!({"queues": shown, "items": shown, "pagination": page})))
}

/// The start of a page, given in one of three ways.
pub(super) fn offset(query: &QueryString, limit: usize) -> Result<usize, ApiError> {
    let number = |name: &str| match query.get(name) {
        None => Ok(None),
        Some(text) => match text.parse::<u32>() {
            Ok(number) => Ok(Some(number as usize)),
            Err(_) => Err(query.malformed(name, "must be a whole number")),
        },
    };
    let (offset, cursor, page) = (number("offset")?, number("cursor")?, number("page")?);
    Ok(offset.or(cursor).or(page.map(|page| page.saturating_sub(1).saturating_mul(limit))).unwrap_or(0))
}

async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let found = Found::read(app, &scope.owner()?, named(&call)?).await?;
    Ok(reply::ok(&found.view(Activity::default()).alone(scope.of_sdk, &[])))
}

async fn stats(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let (owner, name) = (scope.owner()?, named(&call)?);
    let activity = activity(app, owner.scoped(name.as_str())).await?;
    let queue = QueueId { owner: Some(owner.clone()), name: name.clone() };
    let found = Found::read(app, &owner, name).await?;
    let view = found.view(activity);
    let attended = view.numbers.active > 0 || AttendedQueues::read(app).await?.contains(&queue);
    let mut response = reply::ok(&view.stats(scope.of_sdk, attended, &time::millis(app.clock.now())));
    if let Some(bound) = view.max_depth {
        refusals::add_pressure(response.headers_mut(), view.numbers.depth(), bound);
    }
    Ok(response)
}

async fn pause(call: Call<'_>) -> Result<Response, ApiError> {
    set_paused(call, true).await
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    set_paused(call, false).await
}

/// Pauses or resumes. The operator's pause applies to all queues of the name, and clients cannot
/// lift it.
pub(in crate::dialects) async fn put_paused(
    call: &Call<'_>,
    name: Name,
    paused: bool,
) -> Result<QueueSettings, ApiError> {
    let change = QueueChange { paused: Some(paused), ..QueueChange::default() };
    set(call.app, &Scope::of(call)?, name, change).await
}

async fn set_paused(call: Call<'_>, paused: bool) -> Result<Response, ApiError> {
    let (app, scope, name) = (call.app, Scope::of(&call)?, named(&call)?);
    let settings = put_paused(&call, name.clone(), paused).await?;
    let found = match scope.client {
        Some(_) => Found::read(app, &scope.owner()?, name).await?,
        None => Found { name, counts: Counts::default(), own: None, of_operator: Some(settings) },
    };
    let now = json!(time::millis(app.clock.now()));
    let moment = if paused { "paused_at" } else { "resumed_at" };
    Ok(reply::ok(&found.view(Activity::default()).alone(scope.of_sdk, &[(moment, now)])))
}

pub(super) async fn set(
    app: &App,
    scope: &Scope,
    name: Name,
    change: QueueChange,
) -> Result<QueueSettings, ApiError> {
    let owner = match scope.client {
        Some(_) => Some(scope.owner()?),
        None => None,
    };
    let command = Command::Queue(QueueCommand { queue: QueueId { owner, name }, change });
    match app.engine.run(command).await.map_err(|error| refusals::of_engine(app, error))? {
        Answer::Queue(settings) => Ok(*settings),
        answer => unreachable!("a command about a queue was answered with {answer:?}"),
    }
}

/// Sets bounds on waiting (back-pressure) and active jobs.
async fn bound(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope, name) = (call.app, Scope::of(&call)?, named(&call)?);
    let change = bounds(&call.body)?;
    let settings = set(app, &scope, name.clone(), change).await?;
    let backpressure = json!({"max_depth": settings.waiting_max, "strategy": "reject"});
    Ok(reply::ok(&json!({
        "queue": name.as_str(),
        "name": name.as_str(),
        "config": {"backpressure": backpressure, "max_active": settings.active_max},
        "backpressure": backpressure,
    })))
}

fn bounds(body: &[u8]) -> Result<QueueChange, ApiError> {
    let kind = Kind::MalformedRequest;
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let change = bounds_of(&members, &mut violations);
    if change == QueueChange::default() {
        let detail = "or max_size, concurrency or max_active must be given; other settings are not supported";
        violations.add(kind, "backpressure", detail, "required");
    }
    Ok(violations.settle(Some(change))?)
}

/// Bounds under their names in the extension for back-pressure and in the command line of OJS.
fn bounds_of(members: &Members<'_>, violations: &mut ViolationList) -> QueueChange {
    let kind = Kind::MalformedRequest;
    let mut change = QueueChange::default();
    if let Some(value) = members.get("backpressure") {
        let inner = Members::of_value(value).unwrap_or_else(|| {
            violations.add_value(kind, "backpressure", value, "must be an object", "type");
            Members::default()
        });
        if let Some(strategy) = inner.get("strategy").filter(|strategy| strategy.get() != "\"reject\"") {
            let detail = "must be reject; block and drop_oldest are not supported";
            violations.add_value(
                Kind::UnsupportedFeature,
                "backpressure.strategy",
                strategy,
                detail,
                "unsupported",
            );
        }
        change.waiting_max = number(&inner, "max_depth", "backpressure.max_depth", violations);
    }
    change.waiting_max = change.waiting_max.or(number(members, "max_size", "max_size", violations));
    let active = ["max_active", "concurrency"].into_iter().find(|name| members.has(name));
    change.active_max = active.and_then(|name| number(members, name, name, violations));
    change
}

/// Sets up a queue with the bounds of the body.
async fn create(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    let members = Members::of_body(&call.body)?;
    let mut violations = ViolationList::default();
    let change = bounds_of(&members, &mut violations);
    let kind = Kind::MalformedRequest;
    let name: Option<String> = violations.typed(kind, "name", members.get("name"), "a string");
    if members.get("name").is_none() {
        violations.add(kind, "name", "is required", "required");
    }
    let name = queue_name(&violations.settle(name)?)?;
    let owner = scope.owner()?;
    let is_known = Found::read(app, &owner, name.clone()).await?.own.is_some();
    set(app, &scope, name.clone(), change).await?;
    let found = Found::read(app, &owner, name).await?;
    let status = if is_known { StatusCode::OK } else { StatusCode::CREATED };
    Ok(reply::json(status, &found.view(Activity::default()).alone(scope.of_sdk, &[])))
}

/// A queue with its settings and its oldest waiting job.
async fn detail(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope, name) = (call.app, Scope::of(&call)?, named(&call)?);
    let owner = scope.owner()?;
    let key = owner.scoped(name.as_str());
    let activity = activity(app, key.clone()).await?;
    let oldest = app.engine.store().oldest(Shelf { lane: Lane::External, name: key }).await?;
    let found = Found::read(app, &owner, name).await?;
    let active_max = found.settings().filter_map(|settings| settings.active_max).min();
    let waiting_max = found.settings().filter_map(|settings| settings.waiting_max).min();
    let hour = 60.0;
    let facts = [
        (
            "configuration",
            json!({
                "concurrency": active_max,
                "backpressure": {"enabled": waiting_max.is_some(), "strategy": "reject", "threshold": waiting_max},
            }),
        ),
        ("oldest_available_at", json!(oldest.and_then(|job| job.queued_at).map(time::millis))),
        (
            "throughput",
            json!({
                "processed_per_minute": activity.succeeded.max(0) as f64 / hour,
                "failed_per_minute": activity.failed.max(0) as f64 / hour,
            }),
        ),
    ];
    Ok(reply::ok(&found.view(activity).alone(scope.of_sdk, &facts)))
}

/// How many jobs of a queue wait, by priority; of the first thousand.
async fn priorities(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, owner, name) = (call.app, Scope::of(&call)?.owner()?, named(&call)?);
    let shelf = Shelf { lane: Lane::External, name: owner.scoped(name.as_str()) };
    let jobs = app.engine.store().shelf(shelf, None, LIST_ROWS_MAX).await?;
    let mut counts: BTreeMap<i16, usize> = BTreeMap::new();
    for job in &jobs {
        *counts.entry(job.head.priority).or_default() += 1;
    }
    let entry = |(priority, count): (&i16, &usize)| json!({"priority": priority, "count": count});
    let distribution: Vec<Value> = counts.iter().rev().map(entry).collect();
    let is_all = jobs.len() < LIST_ROWS_MAX;
    Ok(reply::ok(&json!({"queue": name.as_str(), "distribution": distribution, "is_complete": is_all})))
}

/// A bound above zero; null removes it.
fn number(
    members: &Members<'_>,
    name: &str,
    path: &str,
    violations: &mut ViolationList,
) -> Option<Option<u64>> {
    if !members.has(name) {
        return None;
    }
    let Some(value) = members.get(name) else { return Some(None) };
    let number: Option<u64> = serde_json::from_str(value.get()).ok().filter(|number| *number > 0);
    if number.is_none() {
        let detail = "must be an integer of at least 1, or null";
        violations.add_value(Kind::MalformedRequest, path, value, detail, "minimum");
    }
    Some(number)
}
