//! Queues: depth, rates, pause and resume.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::AdminQueue;
use maud::{Markup, html};

use super::access::{action, done, form_of, page};
use super::chart;
use super::layout::{self, Section};
use super::parts::{self, ActionButton, number, rate};
use crate::auth::OperatorRole;
use crate::dialects::admin::queues;
use crate::http::{
    ApiError,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/queues", "queues", |call| Box::pin(list(call))),
    action("/dashboard/queues/{queue}/pause", "pause", OperatorRole::Operator, |call| Box::pin(pause(call))),
    action("/dashboard/queues/{queue}/resume", "resume", OperatorRole::Operator, |call| {
        Box::pin(resume(call))
    }),
];

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = queues::listed(&call).await?;
    let now = call.app.clock.now();
    let most = found.items.iter().map(|queue| queue.waiting).max().unwrap_or(0);
    let main = html! {
        (layout::heading("Queues"))
        section #queues .scroll data-live aria-label="Queues" {
            table .rows {
                thead { tr {
                    th scope="col" { "Queue" } th scope="col" { "Depth" } th .n scope="col" { "Waiting" } th .n scope="col" { "Active" }
                    th .n scope="col" { "Scheduled" } th .n scope="col" { "Failed" } th .n scope="col" { "Oldest" }
                    th .n scope="col" { "In /s" } th .n scope="col" { "Ended /s" } th .n scope="col" { "Failed /s" } th scope="col" { span .visually-hidden { "Actions" } }
                } }
                tbody { @for queue in &found.items { (row(&call, queue, most, now)) } }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
        p .muted { "Rates are those of the last minute; hover for the last hour. Work for workers of your own waits in queues of its owner: all queues of one name are one row." }
    };
    Ok(layout::page(&call, Section::Queues, "Queues", &main))
}

fn row(call: &Call<'_>, queue: &AdminQueue, most: u64, now: Time) -> Markup {
    let hour = |value: f64| format!("{} per second in the last hour", rate(value));
    let (minute, in_hour) = (&queue.last_minute, &queue.last_hour);
    html! {
        tr data-queue=(queue.name) {
            th scope="row" {
                a href={ "/dashboard/jobs?queue=" (queue.name) } { (queue.name) }
                @if let Some(at) = &queue.paused_at { " " (parts::badge("warn", "paused")) " " span .muted { (parts::moment(now, at)) } }
                @if queue.unattended { " " (parts::badge("bad", "unattended")) }
                (bounds(queue))
            }
            td .depth { (chart::bar(queue.waiting, most, "is-queued", &format!("{} waiting", queue.waiting))) }
            td .n data-label="Waiting" { (number(queue.waiting)) }
            td .n data-label="Active" { (number(queue.active)) }
            td .n data-label="Scheduled" { (number(queue.scheduled)) }
            td .n data-label="Failed" { a href={ "/dashboard/jobs?state=FAILED&queue=" (queue.name) } { (number(queue.failed)) } }
            td .n data-label="Oldest" { @match queue.oldest_waiting_s { Some(s) => (parts::span(s as f64)), None => "–" } }
            td .n data-label="In /s" title=(hour(in_hour.submitted_per_s)) { (rate(minute.submitted_per_s)) }
            td .n data-label="Ended /s" title=(hour(in_hour.ended_per_s)) { (rate(minute.ended_per_s)) }
            td .n .bad[minute.failed_per_s > 0.0] data-label="Failed /s" title=(hour(in_hour.failed_per_s)) { (rate(minute.failed_per_s)) }
            td .do { (button(call, queue)) }
        }
    }
}

/// The operator's bounds.
fn bounds(queue: &AdminQueue) -> Markup {
    let limits = &queue.limits;
    html! {
        @if let Some(most) = limits.max_waiting { span .bound { "at most " (number(most)) " waiting" } }
        @if let Some(most) = limits.max_active { span .bound { "at most " (number(most)) " active" } }
        @if let Some(most) = limits.rate_per_s { span .bound { "at most " (most) " /s" } }
    }
}

fn button(call: &Call<'_>, queue: &AdminQueue) -> Markup {
    let (step, label, class) =
        if queue.paused { ("resume", "Resume queue", "primary") } else { ("pause", "Pause queue", "") };
    let path = format!("/dashboard/queues/{}/{step}", queue.name);
    ActionButton { path: &path, label, class, about: Some(&queue.name) }.show(call)
}

async fn pause(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let queue = queues::set_paused(&call, true).await?;
    Ok(done(call.app, "/dashboard/queues", &format!("Queue {} is paused.", queue.name)))
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let queue = queues::set_paused(&call, false).await?;
    Ok(done(call.app, "/dashboard/queues", &format!("Queue {} goes on.", queue.name)))
}
