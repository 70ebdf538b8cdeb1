//! External workers: heartbeats and held jobs.

use axum::response::Response;
use forgerun_core::id::ClientId;
use forgerun_core::time::Time;
use forgerun_wire::admin::AdminWorker;
use maud::{Markup, html};

use super::access::{action, done, form_of, page};
use super::layout::{self, Section};
use super::parts;
use crate::auth::OperatorRole;
use crate::dialects::admin::workers;
use crate::http::{
    ApiError,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/workers", "workers", |call| Box::pin(list(call))),
    action("/dashboard/workers/{worker_id}/quiet", "direct", OperatorRole::Operator, |call| {
        Box::pin(quiet(call))
    }),
];

/// Jobs shown per worker.
const JOBS_SHOWN: usize = 8;

/// Silence after which a worker is highlighted.
pub(super) const SILENT_S: u64 = 60;

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = workers::listed(&call).await?;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Workers"))
        section #workers .scroll data-live aria-label="Workers" {
            @if found.items.is_empty() {
                div .panel { (parts::empty_page(&found, "No workers of your own send heartbeats. Simulated jobs are run by the built-in worker of each node.")) }
            } @else {
                table .rows {
                    thead { tr {
                        th scope="col" { "Worker" } th scope="col" { "State" } th scope="col" { "Queues" } th scope="col" { "Held jobs" }
                        th scope="col" { "Client" } th scope="col" { "Since" } th scope="col" { "Last seen" } th scope="col" { span .visually-hidden { "Actions" } }
                    } }
                    tbody { @for worker in &found.items { (row(&call, worker, now)) } }
                }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&call, Section::Workers, "Workers", &main))
}

fn row(call: &Call<'_>, worker: &AdminWorker, now: Time) -> Markup {
    let host = [worker.hostname.clone(), worker.pid.map(|pid| format!("process {pid}"))];
    let host: Vec<String> = host.into_iter().flatten().collect();
    let is_silent = worker.silent_s >= SILENT_S;
    html! {
        tr data-row=(worker.id) {
            th scope="row" { (worker.id) @if !host.is_empty() { span .bound { (host.join(", ")) } } }
            td data-label="State" {
                @if is_silent { (parts::badge("bad", "silent")) } @else { (parts::badge(if worker.state == "running" { "ok" } else { "warn" }, &worker.state)) }
                @if worker.directive != worker.state { " " span .muted { "told: " (worker.directive) } }
            }
            td data-label="Queues" { (worker.queues.join(", ")) }
            td data-label="Held jobs" {
                (worker.jobs.len()) @if let Some(most) = worker.concurrency { span .muted { " of " (most) } }
                @for job in worker.jobs.iter().take(JOBS_SHOWN) { " " (parts::job_link(job)) }
                @if worker.jobs.len() > JOBS_SHOWN { " …" }
            }
            td data-label="Client" { (parts::client_link(&worker.client, worker.client_name.as_deref())) }
            td data-label="Since" { (parts::moment(now, &worker.started_at)) }
            td data-label="Last seen" { (parts::moment(now, &worker.last_seen_at)) }
            td .do { @if call.may(OperatorRole::Operator) && worker.directive == "running" { (quiet_button(call, worker)) } }
        }
    }
}

fn quiet_button(call: &Call<'_>, worker: &AdminWorker) -> Markup {
    let path = format!("/dashboard/workers/{}/quiet", parts::encoded(&worker.id));
    html! {
        form .inline method="post" action=(path) {
            (parts::csrf(call.app, call.exchange))
            input type="hidden" name="client" value=(worker.client);
            button type="submit" title="It finishes what it has and is given no more." { "Quiet worker" }
        }
    }
}

async fn quiet(call: Call<'_>) -> Result<Response, ApiError> {
    let form = form_of(&call, &["client"])?;
    let client = match form.get("client").map(str::parse::<ClientId>) {
        None => None,
        Some(Ok(client)) => Some(client),
        Some(Err(_)) => return Err(form.invalid("client", "is no id of a client")),
    };
    let worker = workers::quieten(&call, client).await?;
    Ok(done(call.app, "/dashboard/workers", &format!("Worker {} takes no more jobs.", worker.id)))
}
