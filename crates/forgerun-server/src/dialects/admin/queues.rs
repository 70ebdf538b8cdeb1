//! Queues, combined by name: depth, rates, pause, resume, bounds.

pub(crate) mod gauges;

use forgerun_wire::request_body;
use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{QueueChange, QueueCommand};
use forgerun_core::job::{Lane, Name, Shelf};
use forgerun_core::pace::QueueRate;
use forgerun_core::queue::{QueueId, QueueSettings};
use forgerun_core::rows::{Activity, Counts, Minute};
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use forgerun_wire::admin::{AdminPage, AdminQueue, OverviewRates, QueueFigures, QueueLimits, read_rate};
use forgerun_wire::body::{self, violation};
use forgerun_wire::hint::nearest;
use forgerun_wire::shares::FairView;
use serde_json::{Map, Value};

use super::audit;
use crate::app::App;
use crate::attendance::AttendedQueues;
use crate::auth::OperatorRole;
use crate::http::{
    ApiError, queue_name, respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, LIMIT},
    },
};
use crate::limits::{OLDEST_LOOKED_AT_MAX, PAGE_MAX};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/queues", "queues", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListQueues", "List the queues by name, those of all owners together.")
        .query(&[LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<AdminQueue>>(200, "A page.")]),
    Route::put("/admin/v1/queues/{queue}", "bound", |call| Box::pin(bound(call)))
        .role(OperatorRole::Operator)
        .operation("adminBoundQueue", "Bound each queue of a name.")
        .body(&BOUNDS)
        .replies(&[Reply::json::<AdminQueue>(200, "The queue as it is set.")]),
    Route::post("/admin/v1/queues/{queue}/pause", "pause", |call| Box::pin(pause(call)))
        .role(OperatorRole::Operator)
        .operation(
            "adminPauseQueue",
            "Stop handing out jobs of all queues of a name, until the operator resumes them.",
        )
        .replies(&[Reply::json::<AdminQueue>(200, "The queue as it is set.")]),
    Route::post("/admin/v1/queues/{queue}/resume", "resume", |call| Box::pin(resume(call)))
        .role(OperatorRole::Operator)
        .operation("adminResumeQueue", "Lift the operator's pause; that of an owner stays.")
        .replies(&[Reply::json::<AdminQueue>(200, "The queue as it is set.")]),
];

request_body! {
    /// Bounds for each queue of a name. What is absent stays, null lifts.
    BOUNDS = "QueueBounds" {
        /// Refuse new jobs while so many wait.
        "max_waiting": maybe(at_least(1)),
        /// Hand out nothing while workers hold so many.
        "max_active": maybe(at_least(1)),
        /// Hand out no more jobs per second; up to the jobs of one second at once.
        "rate_per_s": rate(),
    }
    ; examples {"bound": {"value": {"max_waiting": 500, "max_active": null, "rate_per_s": 20}}}
}

/// An hour in minutes.
const LAST_HOUR: i64 = 60;

/// Keys shown of a queue.
const FAIR_KEYS_SHOWN: usize = 20;

/// `GET /admin/v1/queues`, by name; the cursor is the last name.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &listed(&call).await?))
}

pub(in crate::dialects) async fn listed(call: &Call<'_>) -> Result<AdminPage<AdminQueue>, ApiError> {
    let query = call.query()?;
    let limit = query.limit()?;
    let after = query.get("cursor").unwrap_or_default();
    let mut queues = Queues::read(call.app).await?;
    let mut names = queues.by_name.keys().filter(|name| name.as_str() > after);
    let page: Vec<String> = names.by_ref().take(limit).cloned().collect();
    let next_cursor = names.next().and_then(|_| page.last().cloned());
    let mut items = Vec::with_capacity(page.len());
    for name in page {
        items.push(queues.show(call.app, &name).await?);
    }
    Ok(AdminPage { items, next_cursor })
}

/// The state of all queues.
pub(crate) struct Queues {
    by_name: BTreeMap<String, FoundQueue>,
    /// How many queues were searched for their oldest job.
    n_looked_at: usize,
    /// Loaded when the first queue with long waiting jobs is found.
    attended: Option<AttendedQueues>,
    no_worker_s: u64,
    /// Uptime of this node: at first it does not know which workers ask.
    up_s: u64,
    now: Time,
}

struct FoundQueue {
    view: AdminQueue,
    counts: Counts,
    /// Queues with waiting jobs, and whether workers hold jobs of them.
    waiting: Vec<(QueueId, bool)>,
    minute: Activity,
    hour: Activity,
}

impl FoundQueue {
    fn new(name: &str) -> FoundQueue {
        FoundQueue {
            view: AdminQueue::new(name),
            counts: Counts::default(),
            waiting: Vec::new(),
            minute: Activity::default(),
            hour: Activity::default(),
        }
    }
}

impl Queues {
    /// Reads counts alone: without rates and settings.
    async fn count(app: &App) -> Result<Queues, ApiError> {
        let (store, now) = (app.engine.store(), app.clock.now());
        let mut by_name: BTreeMap<String, FoundQueue> = BTreeMap::new();
        found(&mut by_name, &app.default_queue);
        for queue in store.queues().await? {
            let id = QueueId::parse(&queue.queue);
            let entry = found(&mut by_name, &id.name);
            let before = entry.view.waiting;
            entry.view.add(&queue.counts);
            entry.counts.merge(&queue.counts);
            if entry.view.waiting > before {
                entry.waiting.push((id, queue.counts.active() > 0));
            }
        }
        let no_worker_s = app.config.alerts.no_worker.as_secs();
        let up_s = now.since(app.started_at).as_secs();
        Ok(Queues { by_name, n_looked_at: 0, attended: None, no_worker_s, up_s, now })
    }

    pub(crate) async fn read(app: &App) -> Result<Queues, ApiError> {
        let mut queues = Queues::count(app).await?;
        let (store, by_name) = (app.engine.store(), &mut queues.by_name);
        let Minute(minute) = Minute::of(queues.now);
        for (queue, activity) in store.activity_by_queue(Minute(minute - 1)).await? {
            found(by_name, &QueueId::parse(&queue).name).minute.merge(activity);
        }
        for (queue, activity) in store.activity_by_queue(Minute(minute - LAST_HOUR)).await? {
            found(by_name, &QueueId::parse(&queue).name).hour.merge(activity);
        }
        let mut after = String::new();
        loop {
            // The operator's own settings are in the group without an owner.
            let page: Vec<QueueSettings> = store.records(Some(String::new()), after, PAGE_MAX).await?;
            let Some(last) = page.last() else { break };
            after = last.queue.as_str().to_owned();
            for settings in page {
                set(&mut found(by_name, &settings.queue).view, &settings);
            }
        }
        Ok(queues)
    }

    /// The names with most waiting or active jobs.
    pub(crate) fn fullest(&self, max: usize) -> Vec<String> {
        let mut names: Vec<(u64, &String)> =
            self.by_name.iter().map(|(name, found)| (found.view.waiting + found.view.active, name)).collect();
        names.sort_unstable_by_key(|(n, name)| (std::cmp::Reverse(*n), *name));
        names.into_iter().take(max).map(|(_, name)| name.clone()).collect()
    }

    /// Rates over all queues.
    pub(super) fn rates(&self) -> OverviewRates {
        let (mut minute, mut hour) = (Activity::default(), Activity::default());
        for found in self.by_name.values() {
            minute.merge(found.minute);
            hour.merge(found.hour);
        }
        let since_minute = self.since_minute();
        OverviewRates {
            last_minute: QueueFigures::of(&minute, since_minute + 60.0),
            last_hour: QueueFigures::of(&hour, since_minute + 3600.0),
        }
    }

    /// Seconds into the current minute.
    fn since_minute(&self) -> f64 {
        self.now.as_micros().rem_euclid(60_000_000) as f64 / 1e6
    }

    /// One queue, with its rates and its oldest job.
    pub(crate) async fn show(&mut self, app: &App, name: &str) -> Result<AdminQueue, ApiError> {
        let Some(found) = self.by_name.remove(name) else { return Ok(AdminQueue::new(name)) };
        let mut view = found.view;
        let since_minute = self.since_minute();
        view.last_minute = QueueFigures::of(&found.minute, since_minute + 60.0);
        view.last_hour = QueueFigures::of(&found.hour, since_minute + 3600.0);
        if self.n_looked_at + found.waiting.len() <= OLDEST_LOOKED_AT_MAX {
            self.n_looked_at += found.waiting.len();
            for (queue, is_held) in &found.waiting {
                let (waited, keys) = oldest(app, queue, self.now).await?;
                view.fair_keys.extend(keys);
                view.oldest_waiting_s = view.oldest_waiting_s.max(waited);
                view.unattended |=
                    self.is_late(waited) && !is_held && !self.attended(app).await?.contains(queue);
            }
        }
        Ok(view)
    }

    /// Whether workers should have asked for the job by now. Workers that hold jobs of its queue
    /// are alive, and busy.
    fn is_late(&self, waited: Option<u64>) -> bool {
        waited.is_some_and(|waited| waited.min(self.up_s) >= self.no_worker_s)
    }

    async fn attended(&mut self, app: &App) -> Result<&AttendedQueues, ApiError> {
        match &mut self.attended {
            Some(known) => Ok(known),
            unknown => Ok(unknown.insert(AttendedQueues::read(app).await?)),
        }
    }
}

fn found<'a>(by_name: &'a mut BTreeMap<String, FoundQueue>, name: &Name) -> &'a mut FoundQueue {
    by_name.entry(name.as_str().to_owned()).or_insert_with(|| FoundQueue::new(name.as_str()))
}

/// Wait of the oldest claimable job of a queue, and its keys that take turns. Of such a queue, the
/// oldest of the jobs that are next.
async fn oldest(app: &App, queue: &QueueId, now: Time) -> Result<(Option<u64>, Vec<FairView>), ApiError> {
    let lane = if queue.owner.is_some() { Lane::External } else { Lane::BuiltIn };
    let shelf = Shelf { lane, name: queue.key() };
    let oldest = app.engine.store().oldest(shelf.clone()).await?;
    let mut since = oldest.iter().map(|job| job.queued_at.unwrap_or(job.head.created_at)).min();
    let mut keys = Vec::new();
    if oldest.is_some_and(|job| job.turn.is_some()) {
        let next = app.engine.store().front(shelf, FAIR_KEYS_SHOWN).await?;
        since = since.into_iter().chain(next.iter().filter_map(|job| job.queued_at)).min();
        keys = next.iter().filter_map(|job| job.head.fair.as_ref()).map(FairView::new).collect();
    }
    Ok((since.map(|since| now.since(since).as_secs()), keys))
}

fn set(view: &mut AdminQueue, settings: &QueueSettings) {
    view.set_paused_at(settings.paused_at);
    view.limits = QueueLimits {
        max_waiting: settings.waiting_max,
        max_active: settings.active_max,
        rate_per_s: settings.rate.map(|rate| f64::from(rate.get()) / 1000.0),
    };
}

async fn pause(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &set_paused(&call, true).await?))
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    Ok(respond::json(StatusCode::OK, &set_paused(&call, false).await?))
}

/// Pauses or resumes the queues in the path.
pub(in crate::dialects) async fn set_paused(call: &Call<'_>, paused: bool) -> Result<AdminQueue, ApiError> {
    let action = if paused { "pause" } else { "resume" };
    check_known(call.app, &named(call)?).await?;
    change(call, action, QueueChange { paused: Some(paused), ..QueueChange::default() }).await
}

/// Refuses the name of an unknown queue: one without jobs, settings and workers is most likely
/// misspelled.
async fn check_known(app: &App, name: &Name) -> Result<(), ApiError> {
    let mut queues = Queues::read(app).await?;
    if queues.by_name.contains_key(name.as_str()) || queues.attended(app).await?.contains_name(name) {
        return Ok(());
    }
    let meant = nearest(name.as_str(), queues.by_name.keys().map(String::as_str));
    let meant = meant.map(|meant| format!("; did you mean `{meant}`?")).unwrap_or(".".to_owned());
    let detail = format!("No queue `{name}` has jobs, settings or workers{meant}");
    Err(ApiError::new(Kind::JobNotFound, &detail))
}

/// `PUT /admin/v1/queues/{name}`: bounds for each queue of the name. Missing members keep a bound,
/// null removes it.
async fn bound(call: Call<'_>) -> Result<Response, ApiError> {
    let change_of_bounds = bounds(&call.body)?;
    Ok(respond::json(StatusCode::OK, &change(&call, "bound", change_of_bounds).await?))
}

fn bounds(bytes: &[u8]) -> Result<QueueChange, ApiError> {
    let members = if bytes.is_empty() { Map::new() } else { body::object(bytes)? };
    let mut wrong = Vec::new();
    let mut number = |name: &str| match members.get(name) {
        None => None,
        Some(Value::Null) => Some(None),
        Some(value) => match value.as_u64().filter(|number| *number > 0) {
            Some(number) => Some(Some(number)),
            None => {
                wrong.push(violation(name, "must be an integer of at least 1, or null", "minimum"));
                None
            }
        },
    };
    let (waiting_max, active_max) = (number("max_waiting"), number("max_active"));
    let rate = read_rate(&members, &mut wrong).map(|rate| rate.map(QueueRate::per_1000_s));
    let change = QueueChange { waiting_max, active_max, rate, ..QueueChange::default() };
    if wrong.is_empty() && change == QueueChange::default() {
        wrong.push(violation("max_waiting", "or max_active or rate_per_s must be given", "required"));
    }
    if wrong.is_empty() {
        Ok(change)
    } else {
        Err(body::refused(Kind::InvalidArgs, wrong, BOUNDS.members).into())
    }
}

async fn change(call: &Call<'_>, action: &'static str, change: QueueChange) -> Result<AdminQueue, ApiError> {
    let app = call.app;
    let name = named(call)?;
    let command = QueueCommand { queue: QueueId::shared(name.clone()), change };
    let Answer::Queue(settings) = app.engine.run(Command::Queue(command)).await? else {
        return Err(ApiError::internal(Kind::Internal, "a command about a queue was answered without one"));
    };
    audit::note(call.exchange, action, name.as_str());
    let mut view = Queues::read(app).await?.show(app, name.as_str()).await?;
    // The new settings, whatever the rest was read from.
    set(&mut view, &settings);
    Ok(view)
}

fn named(call: &Call<'_>) -> Result<Name, ApiError> {
    queue_name(&call.text("queue"))
}
