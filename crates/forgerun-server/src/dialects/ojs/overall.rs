//! All jobs of a client at once: figures over all queues, now and over time.

use std::collections::HashMap;

use axum::response::Response;
use forgerun_core::job::Name;
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::record::Stored as _;
use forgerun_core::rows::{Activity, Counts, Minute};
use forgerun_core::state::Facet;
use forgerun_core::time::Time;
use forgerun_core::worker::{self, Worker};
use forgerun_store::QueueCounts;
use forgerun_wire::time;
use serde_json::json;

use super::queues::numbers;
use super::scope::{CLIENT, Scope};
use super::{bulk, objects, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{
        Call, Reply, Route,
        operation::{Parameter, QUEUE},
    },
};
use crate::limits::PAGE_MAX;

/// The routes about all jobs.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/admin/stats", "queues", |call| Box::pin(stats(call)))
        .access(CLIENT)
        .operation("ojsGetStats", "Get the numbers of all queues of the caller.")
        .replies(&[Reply::object(200, "The numbers.", &objects::FACTS)]),
    Route::get("/ojs/v1/admin/stats/history", "queues", |call| Box::pin(history(call)))
        .access(CLIENT)
        .operation("ojsGetStatsHistory", "Get the numbers of the caller over time.")
        .query(&[PERIOD, SINCE, UNTIL, QUEUE])
        .replies(&[Reply::object(200, "The numbers.", &objects::FACTS)]),
    Route::get("/ojs/v1/admin/scheduling/stats", "queues", |call| Box::pin(scheduling(call)))
        .access(CLIENT)
        .operation("ojsGetSchedulingStats", "Get how many jobs of each queue were handed out.")
        .replies(&[Reply::object(200, "The numbers of the last hour.", &objects::FACTS)]),
];

/// Figures over all queues of the caller; rates are those of the last full minute.
async fn stats(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, owner) = (call.app, Scope::of(&call)?.owner()?);
    let store = app.engine.store();
    let Minute(now) = Minute::of(app.clock.now());
    let queues = store.queues_of(&owner).await?;
    let mut total = Counts::default();
    queues.iter().for_each(|queue| total.merge(&queue.counts));
    // Two queries, however many queues the caller has.
    let (both, this) =
        (activity_since(app, &queues, now - 1).await?, activity_since(app, &queues, now).await?);
    let processed = (both.succeeded - this.succeeded).max(0);
    let failed = (both.failed - this.failed).max(0);
    let jobs = numbers(&total, Activity::default());
    Ok(reply::ok(&json!({
        "queues": queues.len(),
        "workers": n_workers(app, &owner).await?,
        "jobs": {
            "available": jobs.available,
            "active": jobs.active,
            "scheduled": jobs.scheduled,
            "pending": jobs.pending,
            "retryable": jobs.retryable,
            "completed": jobs.completed,
            "cancelled": jobs.cancelled,
            "discarded": jobs.discarded,
        },
        "throughput": {"processed_per_minute": processed, "failed_per_minute": failed},
        "uptime_seconds": app.clock.now().since(app.started_at).as_secs(),
    })))
}

/// What happened in these queues since a minute.
pub(super) async fn activity_since(
    app: &App,
    queues: &[QueueCounts],
    since: i64,
) -> Result<Activity, ApiError> {
    let mut sum = Activity::default();
    for (queue, activity) in app.engine.store().activity_by_queue(Minute(since)).await? {
        if queues.binary_search_by(|known| known.queue.cmp(&queue)).is_ok() {
            sum.merge(activity);
        }
    }
    Ok(sum)
}

/// Figures over time, for one queue or all. The store adds up from a minute on, so each period is
/// the difference of two sums.
async fn history(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, owner) = (call.app, Scope::of(&call)?.owner()?);
    let query = call.query()?;
    let period = query.get("period").unwrap_or("5m");
    let minutes = match period {
        "1m" => 1,
        "5m" => 5,
        "1h" => 60,
        "1d" => 24 * 60,
        _ => return Err(query.invalid("period", "must be 1m, 5m, 1h or 1d")),
    };
    let moment = |name: &str| match query.get(name) {
        None => Ok(None),
        Some(text) => match bulk::moment(text, app.clock.now()) {
            Some(at) => Ok(Some(Minute::of(at).0)),
            None => Err(query.malformed(name, "must be RFC 3339, or how long ago, such as 24h")),
        },
    };
    let now = Minute::of(app.clock.now()).0;
    let until = moment("until")?.unwrap_or(now).min(now);
    let since = moment("since")?.unwrap_or(until - 60.max(minutes));
    // The newest periods, if there are too many.
    let since = since.max(until - (HISTORY_PERIODS_MAX - 1) * minutes);
    let first = since.div_euclid(minutes) * minutes;
    let queues = match query.get("queue") {
        None => app.engine.store().queues_of(&owner).await?,
        Some(name) => vec![QueueCounts { queue: owner.scoped(name), counts: Counts::default() }],
    };
    let starts: Vec<i64> = (0..).map(|n| first + n * minutes).take_while(|start| *start <= until).collect();
    let mut sums = Vec::with_capacity(starts.len() + 1);
    for start in starts.iter().chain([&(first + starts.len() as i64 * minutes)]) {
        sums.push(activity_since(app, &queues, *start).await?);
    }
    let data: Vec<_> = starts
        .iter()
        .zip(sums.windows(2))
        .map(|(start, sums)| {
            let n = |of: fn(&Activity) -> i64| (of(&sums[0]) - of(&sums[1])).max(0);
            json!({
                "timestamp": time::millis(Time::from_millis(start * 60_000)),
                "enqueued": n(|activity| activity.submitted),
                "processed": n(|activity| activity.succeeded),
                "failed": n(|activity| activity.failed),
            })
        })
        .collect();
    Ok(reply::ok(&json!({"period": period, "data": data, "history": data})))
}

/// What was handed out of each queue in the last hour. Queues are served in the order that the
/// worker names them, and jobs by priority.
async fn scheduling(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, owner) = (call.app, Scope::of(&call)?.owner()?);
    let queues = app.engine.store().queues_of(&owner).await?;
    let Minute(now) = Minute::of(app.clock.now());
    let activity: HashMap<Name, Activity> =
        app.engine.store().activity_by_queue(Minute(now - 60)).await?.into_iter().collect();
    let view = |queue: &QueueCounts| {
        let dispatched = activity.get(&queue.queue).map_or(0, |activity| activity.started.max(0));
        let waiting = queue.counts.at(Facet::Available).max(0);
        json!({
            "name": QueueId::parse(&queue.queue).name.as_str(),
            "dispatched": dispatched,
            "waiting": waiting,
            "starved": waiting > 0 && dispatched == 0,
        })
    };
    let views: Vec<_> = queues.iter().map(view).collect();
    let stats = json!({"strategy": "priority", "queues": views});
    Ok(reply::ok(&json!({"strategy": "priority", "queues": views, "stats": stats})))
}

/// Periods of one answer; each is a query.
const HISTORY_PERIODS_MAX: i64 = 100;

const PERIOD: Parameter = Parameter::new("period", "`1m`, `5m` (default), `1h` or `1d`.");
const SINCE: Parameter = Parameter::new("since", "From this time on, or from so long ago; the last hour.");
const UNTIL: Parameter = Parameter::new("until", "Up to this time; now.");

pub(super) async fn n_workers(app: &App, owner: &Owner) -> Result<usize, ApiError> {
    let (mut n, mut after) = (0, String::new());
    loop {
        let group = Some(worker::group(owner.client));
        let page: Vec<Worker> = app.engine.store().records(group, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(n) };
        after = last.key();
        n += page.iter().filter(|worker| owner.tenant.is_none() || worker.id.owner == *owner).count();
    }
}
