//! Current problems, for the overview and the dashboard.

use std::collections::BTreeSet;

use forgerun_core::id::WebhookId;
use forgerun_core::node::Node;
use forgerun_core::schedule::Schedule;
use forgerun_core::time::Time;
use forgerun_core::webhook::{DisabledReason, Webhook};
use forgerun_wire::admin::{AdminQueue, AdminSink, OverviewProblem};
use forgerun_wire::time;

use crate::app::App;
use crate::http::ApiError;
use crate::limits::{PAGE_MAX, PROBLEMS_SEARCHED_MAX, SCHEDULE_MISSED_SHOWN};

/// The problems of the whole server. Queues, sinks and nodes were read already.
pub(super) async fn found(
    app: &App,
    unattended: &[AdminQueue],
    sinks: &[AdminSink],
    nodes: &[&Node],
) -> Result<Vec<OverviewProblem>, ApiError> {
    let now = app.clock.now();
    let mut problems: Vec<OverviewProblem> =
        unattended.iter().map(|queue| unattended_queue(app, queue, now)).collect();
    failing_webhooks(app, &mut problems).await?;
    problems.extend(sinks.iter().filter(|sink| sink.state != "ok").map(|sink| sink_behind(app, sink, now)));
    missed_schedules(app, now, &mut problems).await?;
    let versions: BTreeSet<&str> = nodes.iter().map(|node| node.version.as_str()).collect();
    if versions.len() > 1 {
        let versions: Vec<&str> = versions.into_iter().collect();
        let since = nodes.iter().map(|node| node.started_at).max();
        let what = format!("Nodes of different versions work on this store: {}", versions.join(", "));
        problems.push(problem(app, "node_versions", what, since, "/dashboard"));
    }
    Ok(problems)
}

fn problem(app: &App, kind: &str, what: String, since: Option<Time>, path: &str) -> OverviewProblem {
    OverviewProblem {
        kind: kind.to_owned(),
        what,
        since: since.map(time::millis),
        link: [app.base.as_str(), path].concat(),
    }
}

fn unattended_queue(app: &App, queue: &AdminQueue, now: Time) -> OverviewProblem {
    let AdminQueue { name, waiting, oldest_waiting_s, .. } = queue;
    let jobs = if *waiting == 1 { "1 job waits".to_owned() } else { format!("{waiting} jobs wait") };
    let since = oldest_waiting_s.map(|s| Time::from_micros(now.as_micros() - s as i64 * 1_000_000));
    let what = format!("{jobs} in queue {name}, and no worker asks for it");
    problem(app, "queue_unattended", what, since, "/dashboard/queues")
}

fn sink_behind(app: &App, sink: &AdminSink, now: Time) -> OverviewProblem {
    let since = (sink.lag_seconds > 0.0)
        .then(|| Time::from_micros(now.as_micros() - (sink.lag_seconds * 1e6) as i64));
    let why = sink.last_error.as_deref().map(|error| format!(": {error}")).unwrap_or_default();
    let what = format!("Sink {} is {}, {} events wait{why}", sink.name, sink.state, sink.lag_events);
    problem(app, "sink_behind", what, since, "/dashboard/sinks")
}

/// Webhooks that fail, or were disabled because of that.
async fn failing_webhooks(app: &App, problems: &mut Vec<OverviewProblem>) -> Result<(), ApiError> {
    let mut after: Option<WebhookId> = None;
    for _ in 0..PROBLEMS_SEARCHED_MAX / PAGE_MAX {
        let page = app.engine.store().all_webhooks(after, PAGE_MAX).await?;
        problems.extend(page.iter().filter_map(|webhook| failing_webhook(app, webhook)));
        after = page.last().map(|webhook| webhook.id);
        if page.len() < PAGE_MAX {
            break;
        }
    }
    Ok(())
}

fn failing_webhook(app: &App, webhook: &Webhook) -> Option<OverviewProblem> {
    let (url, n) = (&webhook.url, webhook.health.failures);
    let (what, since) = match webhook.disabled {
        Some(disabled) => match disabled.reason {
            DisabledReason::Owner => return None,
            DisabledReason::Gone => {
                (format!("Webhook {url} answered 410 Gone and is disabled"), Some(disabled.at))
            }
            DisabledReason::Failing => {
                (format!("Webhook {url} failed for too long and is disabled"), Some(disabled.at))
            }
        },
        None if n > 0 => {
            let times = if n == 1 { "once".to_owned() } else { format!("{n} times in a row") };
            (format!("Webhook {url} failed {times}"), webhook.health.failing_since)
        }
        None => return None,
    };
    let path = format!("/dashboard/webhooks/{}", webhook.id);
    Some(problem(app, "webhook_failing", what, since, &path))
}

async fn missed_schedules(app: &App, now: Time, problems: &mut Vec<OverviewProblem>) -> Result<(), ApiError> {
    let schedules: Vec<Schedule> =
        app.engine.store().records(None, String::new(), PROBLEMS_SEARCHED_MAX).await?;
    for schedule in schedules {
        let Some(at) = schedule.missed_at.filter(|at| now.since(*at) < SCHEDULE_MISSED_SHOWN) else {
            continue;
        };
        let n = schedule.n_missed;
        let runs = if n == 1 { "1 run".to_owned() } else { format!("{n} runs") };
        let what = format!("Schedule {} missed {runs} so far", schedule.id.name);
        problems.push(problem(app, "schedule_missed", what, Some(at), "/dashboard/schedules"));
    }
    Ok(())
}
