//! The overview: activity, problems, queues.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::{
    AdminWorker, FailureGroupView, NodeView, Overview, OverviewMinute, OverviewQueue,
};
use maud::{Markup, html};

use super::access::page;
use super::chart;
use super::failures;
use super::layout::{self, Section};
use super::parts::{self, counted, number, rate};
use super::see_other;
use super::workers;
use crate::dialects::admin;
use crate::http::{
    ApiError,
    routing::{Answers, Call, Route, RouteAccess},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard", "overview", |call| Box::pin(show(call))),
    page("/dashboard/events", "events", |call| Box::pin(events(call))),
    Route::get("/dashboard/", "overview", |_| Box::pin(async { Ok(see_other("/dashboard")) }))
        .access(RouteAccess::Anyone)
        .answers(Answers::Any),
];

/// Failure groups that are shown.
const GROUPS_SHOWN: usize = 5;

const QUEUES_SHOWN: usize = 8;

/// The stream of all events, as in `/admin/v1/events`; here a browser sends no token.
async fn events(call: Call<'_>) -> Result<Response, ApiError> {
    admin::events::stream(&call).await
}

async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let view = admin::overview::overview(call.app).await?;
    let groups = admin::failures::listed(&call).await?.items;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Overview"))
        (tiles(&view))
        div .columns {
            (throughput(&view))
            (latency(&view))
        }
        div .columns {
            (wrong(&view, &groups, now))
            (queues(&view.queues))
        }
        div .columns {
            (at_work(&view.workers, now))
            (nodes(&view.nodes, now))
            (feed())
        }
    };
    Ok(layout::page(&call, Section::Overview, "Overview", &main))
}

fn tiles(view: &Overview) -> Markup {
    let jobs = |state: &str| view.jobs.get(state).copied().unwrap_or(0);
    let tile = |class: &str, label: &str, n: u64, states: &str| {
        html! {
            a class={ "tile " (class) } href={ "/dashboard/jobs?state=" (states) } {
                span .label { (label) } span .figure { (number(n)) }
            }
        }
    };
    html! {
        section #tiles .tiles data-live aria-label="Jobs by state" {
            (tile("is-running", "Running", jobs("RUNNING") + jobs("ASSIGNED"), "RUNNING,ASSIGNED"))
            (tile("is-queued", "Waiting", jobs("QUEUED"), "QUEUED"))
            (tile("is-created", "Scheduled", jobs("CREATED"), "CREATED"))
            (tile("is-failed", "Failed", jobs("FAILED"), "FAILED"))
            (tile("is-succeeded", "Succeeded", jobs("SUCCEEDED"), "SUCCEEDED"))
            (tile("is-canceled", "Canceled", jobs("CANCELED"), "CANCELED"))
        }
    }
}

fn throughput(view: &Overview) -> Markup {
    let rates = &view.rates.last_minute;
    html! {
        section #throughput .panel data-live aria-labelledby="throughput-title" {
            div .panel-head {
                h2 #throughput-title { "Throughput" span .muted { " last hour" } }
                dl .rates {
                    dt { "in" } dd { (rate(rates.submitted_per_s)) "/s" }
                    dt { "ended" } dd { (rate(rates.ended_per_s)) "/s" }
                    dt { "failed" } dd .bad[rates.failed_per_s > 0.0] { (rate(rates.failed_per_s)) "/s" }
                }
            }
            (chart::throughput(&view.minutes))
            p .legend { span .key .is-succeeded { "succeeded" } span .key .is-failed { "failed" } span .key .is-line { "submitted" } }
        }
    }
}

fn latency(view: &Overview) -> Markup {
    let newest = |of: fn(&OverviewMinute) -> Option<u64>| view.minutes.iter().rev().find_map(of);
    let shown = |ms: Option<u64>| ms.map_or_else(|| "–".to_owned(), |ms| parts::span(ms as f64 / 1000.0));
    html! {
        section #latency .panel data-live aria-labelledby="latency-title" {
            div .panel-head {
                h2 #latency-title { "Latency" span .muted { " last hour, on average" } }
                dl .rates {
                    dt { "waited" } dd { (shown(newest(|minute| minute.waited_ms))) }
                    dt { "ran" } dd { (shown(newest(|minute| minute.ran_ms))) }
                }
            }
            (chart::latency(&view.minutes))
            p .legend { span .key .is-queued { "waited for a worker" } span .key .is-running { "ran" } }
        }
    }
}

fn problem_word(kind: &str) -> &str {
    match kind {
        "queue_unattended" => "unattended",
        "webhook_failing" => "failing",
        "sink_behind" => "behind",
        "schedule_missed" => "missed",
        "node_versions" => "versions",
        other => other,
    }
}

/// Current problems.
fn wrong(view: &Overview, groups: &[FailureGroupView], now: Time) -> Markup {
    let paused: Vec<&OverviewQueue> = view.queues.iter().filter(|queue| queue.paused).collect();
    let silent: Vec<_> = view.workers.iter().filter(|worker| worker.silent_s >= workers::SILENT_S).collect();
    let is_well = groups.is_empty() && paused.is_empty() && view.problems.is_empty() && silent.is_empty();
    html! {
        section #wrong .panel data-live aria-labelledby="wrong-title" {
            h2 #wrong-title { "What is wrong" }
            @if is_well { (parts::nothing("Nothing: no failures, no paused or unattended queues, no failing webhooks, no silent workers.")) }
            ul .notices {
                @for queue in &paused {
                    li { (parts::badge("warn", "paused")) " Queue " a href="/dashboard/queues" { (queue.name) }
                        ", " (counted(queue.waiting, "job")) " waiting" }
                }
                @for problem in &view.problems {
                    li data-problem=(problem.kind) { (parts::badge("bad", problem_word(&problem.kind))) " "
                        a href=(problem.link) { (problem.what) }
                        @if let Some(since) = &problem.since { ", since " (parts::moment(now, since)) } }
                }
                @for worker in &silent {
                    li { (parts::badge("warn", "silent")) " Worker " a href="/dashboard/workers" { (worker.id) }
                        ", last seen " (parts::moment(now, &worker.last_seen_at)) }
                }
            }
            @if !groups.is_empty() {
                ul .groups {
                    @for group in groups.iter().take(GROUPS_SHOWN) {
                        li data-group=(group.group) {
                            a href={ "/dashboard/failures/" (group.group) } {
                                strong { (failures::subject(group)) } span .muted { (group.message) }
                            }
                            (trend(group))
                            span .figure { (number(group.count)) }
                        }
                    }
                }
                p { a href="/dashboard/failures" { "All failures" } }
            }
        }
    }
}

/// Failures per hour.
pub(super) fn trend(group: &FailureGroupView) -> Markup {
    let hours = group.trend.len();
    chart::sparkline(&group.trend, "Failures of the last 24 hours", |place, n| match hours - 1 - place {
        0 => format!("{n} in this hour"),
        ago => format!("{n}, {}", counted(ago as u64, "hour") + " ago"),
    })
}

fn queues(queues: &[OverviewQueue]) -> Markup {
    let most = queues.iter().map(|queue| queue.waiting + queue.active).max().unwrap_or(0);
    html! {
        section #queues .panel data-live aria-labelledby="queues-title" {
            h2 #queues-title { "Queues" }
            table .depths {
                thead { tr { th scope="col" { "Queue" } th scope="col" { "Depth" } th .n scope="col" { "Waiting" } th .n scope="col" { "Active" } th .n scope="col" { "Oldest" } } }
                tbody {
                    @for queue in queues.iter().take(QUEUES_SHOWN) {
                        tr data-queue=(queue.name) {
                            th scope="row" { a href={ "/dashboard/jobs?queue=" (queue.name) } { (queue.name) } @if queue.paused { " " (parts::badge("warn", "paused")) } }
                            td { (chart::bar(queue.waiting, most, "is-queued", &format!("{} waiting in {}", queue.waiting, queue.name))) }
                            td .n { (number(queue.waiting)) }
                            td .n { (number(queue.active)) }
                            td .n { @match queue.oldest_waiting_s { Some(s) => (parts::span(s as f64)), None => span .muted { "–" } } }
                        }
                    }
                }
            }
            @if queues.len() > QUEUES_SHOWN { p { a href="/dashboard/queues" { "All queues" } } }
        }
    }
}

fn at_work(workers: &[AdminWorker], now: Time) -> Markup {
    html! {
        section #workers .panel data-live aria-labelledby="workers-title" {
            h2 #workers-title { "Workers" }
            @if workers.is_empty() {
                (parts::nothing("No workers of your own send heartbeats. The built-in worker runs simulated jobs."))
            } @else {
                table {
                    thead { tr { th scope="col" { "Worker" } th scope="col" { "State" } th .n scope="col" { "Held jobs" } th scope="col" { "Seen" } } }
                    tbody {
                        @for worker in workers.iter().take(QUEUES_SHOWN) {
                            tr {
                                th scope="row" { a href="/dashboard/workers" { (worker.id) } }
                                td { (worker.state) }
                                td .n { (worker.jobs.len()) @if let Some(most) = worker.concurrency { span .muted { " of " (most) } } }
                                td { (parts::moment(now, &worker.last_seen_at)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn nodes(nodes: &[NodeView], now: Time) -> Markup {
    html! {
        section #nodes .panel data-live aria-labelledby="nodes-title" {
            h2 #nodes-title { "Nodes" }
            table {
                thead { tr { th scope="col" { "Node" } th scope="col" { "Version" } th scope="col" { "Started" } } }
                tbody {
                    @for node in nodes {
                        tr { th scope="row" { (node.id) } td { (node.version) } td { (parts::moment(now, &node.started_at)) } }
                    }
                }
            }
        }
    }
}

/// Latest events; filled in by the script.
fn feed() -> Markup {
    html! {
        section #feed .panel hidden aria-labelledby="feed-title" {
            h2 #feed-title { "Just now" }
            ol .plain {}
        }
    }
}
