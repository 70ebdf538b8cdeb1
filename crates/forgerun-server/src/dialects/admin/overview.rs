//! The whole server at a glance.

use std::collections::BTreeMap;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::node::Node;
use forgerun_core::rows::{Activity, Minute};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::worker::Worker;
use forgerun_wire::admin::{AdminQueue, AdminWorker, NodeView, Overview, OverviewMinute, OverviewQueue};
use forgerun_wire::time;
use forgerun_wire::words::forge_state;

use super::queues::Queues;
use super::{problems, workers};
use crate::app::App;
use crate::auth::OperatorRole;
use crate::http::{
    ApiError, respond,
    routing::{Call, Reply, Route},
};
use crate::limits::PAGE_MAX;

pub(super) const ROUTES: &[Route] =
    &[Route::get("/admin/v1/overview", "overview", |call| Box::pin(get(call)))
        .role(OperatorRole::Viewer)
        .operation("adminGetOverview", "Get the whole server at a glance.")
        .replies(&[Reply::json::<Overview>(200, "The whole server.")])];

/// `GET /admin/v1/overview`.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    call.query()?;
    Ok(respond::json(StatusCode::OK, &overview(call.app).await?))
}

pub(in crate::dialects) async fn overview(app: &App) -> Result<Overview, ApiError> {
    let store = app.engine.store();
    let mut jobs: BTreeMap<String, u64> = State::ALL.map(|state| (forge_state(state).to_owned(), 0)).into();
    for queue in store.queues().await? {
        for state in State::ALL {
            let n = queue.counts.of(state).max(0) as u64;
            *jobs.entry(forge_state(state).to_owned()).or_default() += n;
        }
    }
    let mut queues = Queues::read(app).await?;
    let rates = queues.rates();
    let (mut shown, mut unattended): (Vec<OverviewQueue>, Vec<AdminQueue>) = Default::default();
    for name in queues.fullest(PAGE_MAX) {
        let queue = queues.show(app, &name).await?;
        unattended.extend(queue.unattended.then(|| queue.clone()));
        shown.push(queue.into());
    }
    let now = app.clock.now();
    let mut workers: Vec<Worker> = store.records(None, String::new(), PAGE_MAX).await?;
    workers::keep_held(app, &mut workers).await?;
    let nodes: Vec<Node> = store.records(None, String::new(), PAGE_MAX).await?;
    let node = |node: &Node| NodeView {
        id: node.id.clone(),
        version: node.version.clone(),
        started_at: time::millis(node.started_at),
    };
    let nodes: Vec<&Node> = nodes.iter().filter(|node| !node.is_gone(now)).collect();
    let sinks = app.sinks.look(app).await?;
    let problems = problems::found(app, &unattended, &sinks, &nodes).await?;
    Ok(Overview {
        jobs,
        queues: shown,
        rates,
        minutes: minutes(app).await?,
        workers: workers.iter().map(|worker| AdminWorker::new(worker, now)).collect(),
        sinks,
        nodes: nodes.into_iter().map(node).collect(),
        problems,
    })
}

/// Minutes listed individually.
const MINUTES: i64 = 60;

/// The figures of each of the last minutes, including empty ones.
async fn minutes(app: &App) -> Result<Vec<OverviewMinute>, ApiError> {
    let Minute(last) = Minute::of(app.clock.now());
    let first = last - MINUTES + 1;
    let known: BTreeMap<i64, Activity> = app
        .engine
        .store()
        .activity_by_minute(Minute(first))
        .await?
        .into_iter()
        .map(|(Minute(minute), activity)| (minute, activity))
        .collect();
    let minute = |minute: i64| {
        let activity = known.get(&minute).copied().unwrap_or_default();
        OverviewMinute::new(Time::from_millis(minute * 60_000), &activity)
    };
    Ok((first..=last).map(minute).collect())
}
