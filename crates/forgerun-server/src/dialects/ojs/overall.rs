//! All jobs of a client at once: figures over all queues, and retries of dead letters.

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::Owned;
use forgerun_core::job::{Job, Name};
use forgerun_core::queue::Owner;
use forgerun_core::record::Stored as _;
use forgerun_core::rows::{Activity, Counts, Minute};
use forgerun_core::scope::KeyScope;
use forgerun_core::worker::{self, Worker};
use forgerun_wire::body::quoted;
use forgerun_wire::ojs::members::{Members, ViolationList};
use serde_json::json;

use super::dead_letters::oldest;
use super::queues::numbers;
use super::scope::{CLIENT, Scope};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::limits::{BULK_RETRY_JOBS_MAX, PAGE_MAX};

/// The routes about all jobs.
pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/admin/stats", "queues", |call| Box::pin(stats(call)))
        .access(CLIENT)
        .operation("ojsGetStats", "Get the numbers of all queues of the caller.")
        .replies(&[Reply::object(200, "The numbers.", &objects::FACTS)]),
    Route::post("/ojs/v1/admin/jobs/bulk/retry", "retry", |call| Box::pin(retry(call)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsRetryBulk", "Retry many dead letters.")
        .body(&objects::BULK_RETRY)
        .replies(&[Reply::object(200, "How many begin again.", &objects::FACTS)]),
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
    let of_caller = async |since: i64| {
        let mut sum = Activity::default();
        for (queue, activity) in store.activity_by_queue(Minute(since)).await? {
            if queues.binary_search_by(|known| known.queue.cmp(&queue)).is_ok() {
                sum.merge(activity);
            }
        }
        Ok::<_, ApiError>(sum)
    };
    let (both, this) = (of_caller(now - 1).await?, of_caller(now).await?);
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
    })))
}

async fn n_workers(app: &App, owner: &Owner) -> Result<usize, ApiError> {
    let (mut n, mut after) = (0, String::new());
    loop {
        let group = Some(worker::group(owner.client));
        let page: Vec<Worker> = app.engine.store().records(group, after, PAGE_MAX).await?;
        let Some(last) = page.last() else { return Ok(n) };
        after = last.key();
        n += page.iter().filter(|worker| owner.tenant.is_none() || worker.id.owner == *owner).count();
    }
}

/// Which dead letters to retry.
struct BulkRetry {
    queue: Option<Name>,
}

/// Members of the request.
const MEMBERS: [&str; 2] = ["filter", "confirm"];

/// Members of the filter.
const FILTERS: [&str; 2] = ["state", "queue"];

/// Refuses unknown members: an ignored filter would match all jobs.
fn refuse_strangers(members: &Members<'_>, at: &str, known: &[&str], violations: &mut ViolationList) {
    for (name, _) in members.0.iter().filter(|(name, _)| !known.contains(&name.as_ref())) {
        let detail = format!("is unknown; expected {}", known.join(" or "));
        violations.add(Kind::MalformedRequest, &format!("{at}{}", quoted(name)), detail, "unknown");
    }
}

fn read_retry(body: &[u8]) -> Result<BulkRetry, ApiError> {
    let kind = Kind::MalformedRequest;
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    if members.get("confirm").is_none_or(|confirm| confirm.get() != "true") {
        violations.add(kind, "confirm", "must be true: this tries many jobs again", "required");
    }
    let filter = members.get("filter").map(|value| {
        Members::of_value(value).unwrap_or_else(|| {
            violations.add_value(kind, "filter", value, "must be an object", "type");
            Members::default()
        })
    });
    let filter = filter.unwrap_or_default();
    refuse_strangers(&members, "", &MEMBERS, &mut violations);
    refuse_strangers(&filter, "filter.", &FILTERS, &mut violations);
    if violations.is_empty() && FILTERS.iter().all(|name| filter.get(name).is_none()) {
        let detail = "must say which jobs: their state (discarded), their queue, or both";
        violations.add(kind, "filter", detail, "required");
    }
    if let Some(state) = filter.get("state").filter(|state| state.get() != "\"discarded\"") {
        violations.add_value(
            kind,
            "filter.state",
            state,
            "must be discarded: no other jobs are tried again",
            "enum",
        );
    }
    let queue: Option<String> = violations.typed(kind, "filter.queue", filter.get("queue"), "a string");
    let queue = queue.map(|name| Name::queue(&name)).transpose().unwrap_or_else(|_| {
        violations.add(kind, "filter.queue", "is no queue name", "pattern");
        None
    });
    Ok(violations.settle(Some(BulkRetry { queue }))?)
}

/// Retries dead letters of the caller, the oldest first. One that another request changes meanwhile
/// is skipped.
async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    let asked = read_retry(&call.body)?;
    let (app, scope) = (call.app, Scope::of(&call)?);
    let mut jobs = oldest(app, &scope, asked.queue, None, BULK_RETRY_JOBS_MAX + 1).await?;
    let has_more = jobs.len() > BULK_RETRY_JOBS_MAX;
    jobs.truncate(BULK_RETRY_JOBS_MAX);
    let matched = jobs.len();
    let owned = |job: Job| Owned { job: job.id, client: Some(job.head.client) };
    let mut retried = 0;
    for answered in app.engine.revive_all(jobs.into_iter().map(owned).collect()).await {
        match answered {
            Ok(()) => retried += 1,
            Err(forgerun_engine::Error::Refused(_)) => {}
            Err(error) => return Err(refusals::of_engine(app, error)),
        }
    }
    Ok(reply::ok(&json!({
        "matched": matched,
        "retried": retried,
        "failed": matched - retried,
        "has_more": has_more,
    })))
}
