//! Schedules: next runs, last job; pause, resume, trigger.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::AdminSchedule;
use maud::{Markup, html};

use super::access::{action, done, form_of, page};
use super::layout::{self, Section};
use super::parts::{self, ActionButton, number};
use crate::auth::OperatorRole;
use crate::dialects::admin::crons;
use crate::http::{
    ApiError,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/schedules", "list_schedules", |call| Box::pin(list(call))),
    action("/dashboard/schedules/{name}/pause", "change_schedule", OperatorRole::Operator, |call| {
        Box::pin(pause(call))
    }),
    action("/dashboard/schedules/{name}/resume", "change_schedule", OperatorRole::Operator, |call| {
        Box::pin(resume(call))
    }),
    action("/dashboard/schedules/{name}/trigger", "trigger_schedule", OperatorRole::Operator, |call| {
        Box::pin(trigger(call))
    }),
];

/// Next runs shown per row.
const RUNS_SHOWN: usize = 3;

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = crons::listed(&call).await?;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Schedules"))
        section #schedules .scroll data-live aria-label="Schedules" {
            @if found.items.is_empty() {
                div .panel { (parts::empty_page(&found, "No client has a schedule. Cron jobs are made under /ojs/v1/cron and /v1.")) }
            } @else {
                table .rows {
                    thead { tr {
                        th scope="col" { "Schedule" } th scope="col" { "Cron" } th scope="col" { "Next runs" } th scope="col" { "Last run" }
                        th .n scope="col" { "Runs" } th .n scope="col" { "Skipped" } th .n scope="col" { "Missed" } th scope="col" { "Client" }
                        th scope="col" { span .visually-hidden { "Actions" } }
                    } }
                    tbody { @for schedule in &found.items { (row(&call, schedule, now)) } }
                }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&call, Section::Schedules, "Schedules", &main))
}

fn row(call: &Call<'_>, of: &AdminSchedule, now: Time) -> Markup {
    let view = &of.schedule;
    let job = &view.job;
    let what = job.job_type.as_deref().or(job.work_kind.as_deref()).unwrap_or(&job.form);
    html! {
        tr data-row={ (of.client) "/" (view.name) } data-schedule=(view.name) {
            th scope="row" {
                (view.name) @if !view.enabled { " " (parts::badge("warn", "paused")) }
                span .bound { (what) " in " a href={ "/dashboard/jobs?queue=" (job.queue) } { (job.queue) } }
                @if let Some(text) = &view.description { span .bound { (text) } }
            }
            td data-label="Cron" { code { (view.cron) } span .bound { (view.timezone) } }
            td data-label="Next runs" {
                @if view.next_runs.is_empty() || !view.enabled { "–" } @else {
                    ol .plain { @for at in view.next_runs.iter().take(RUNS_SHOWN) { li { (parts::moment(now, at)) } } }
                }
            }
            td data-label="Last run" {
                (parts::maybe_moment(now, view.last_run_at.as_deref()))
                @if let Some(job) = &view.last_job_id { " " (parts::job_link(job)) }
                @if let Some(skip) = &view.last_skip { span .bound { "skipped " (parts::moment(now, &skip.at)) ": " (skip.reason) } }
            }
            td .n data-label="Runs" { (number(view.run_count)) }
            td .n data-label="Skipped" { (number(view.skip_count)) }
            td .n data-label="Missed" { (number(view.missed_count)) }
            td data-label="Client" { (parts::client_link(&of.client, of.client_name.as_deref())) }
            td .do { (buttons(call, of)) }
        }
    }
}

fn buttons(call: &Call<'_>, of: &AdminSchedule) -> Markup {
    let tenant =
        of.tenant.as_deref().map(|tenant| format!("&tenant={}", parts::encoded(tenant))).unwrap_or_default();
    let name = &of.schedule.name;
    let button = |step: &str, label: &str, class: &str| {
        let path =
            format!("/dashboard/schedules/{}/{step}?client={}{tenant}", parts::encoded(name), of.client);
        ActionButton { path: &path, label, class, about: Some(name) }.show(call)
    };
    html! {
        (button("trigger", "Run now", "")) " "
        @if of.schedule.enabled { (button("pause", "Pause schedule", "")) } @else { (button("resume", "Resume schedule", "primary")) }
    }
}

async fn pause(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let schedule = crons::set_enabled(&call, false).await?.schedule;
    Ok(done(call.app, "/dashboard/schedules", &format!("Schedule {} is paused.", schedule.name)))
}

async fn resume(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let schedule = crons::set_enabled(&call, true).await?.schedule;
    Ok(done(call.app, "/dashboard/schedules", &format!("Schedule {} goes on.", schedule.name)))
}

async fn trigger(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let schedule = crons::run_now(&call).await?.schedule;
    Ok(done(call.app, "/dashboard/schedules", &format!("Schedule {} made a job.", schedule.name)))
}
