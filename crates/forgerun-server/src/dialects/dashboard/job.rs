//! One job: facts, timeline, failure, actions.

use axum::response::Response;
use forgerun_core::job::Job;
use forgerun_core::time::Time;
use forgerun_wire::admin::AdminJobDetail;
use forgerun_wire::forge::LogsView;
use maud::{Markup, html};
use serde_json::Value;

use super::access::{action, done, form_of, page};
use super::layout::{self, Section};
use super::parts::{self, ActionButton};
use super::{timeline, webhooks};
use crate::auth::OperatorRole;
use crate::dialects::admin::deliveries::{self, DeliveriesAbout};
use crate::dialects::admin::{self, jobs};
use crate::http::{
    ApiError,
    query::QueryString,
    routing::{Call, Route},
};
use crate::job_logs;
use crate::limits::LOG_LINES_SHOWN;
use crate::results::{self, ResultFormat};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/jobs/{job_id}", "get", |call| Box::pin(show(call))),
    page("/dashboard/jobs/{job_id}/logs", "logs", |call| Box::pin(logs(call)))
        .query(job_logs::FILTERS)
        .contents(),
    page("/dashboard/jobs/{job_id}/result", "result", |call| Box::pin(result(call))).contents(),
    action("/dashboard/jobs/{job_id}/cancel", "cancel", OperatorRole::Operator, |call| {
        Box::pin(cancel(call))
    }),
    action("/dashboard/jobs/{job_id}/retry", "retry", OperatorRole::Operator, |call| Box::pin(retry(call))),
    action("/dashboard/jobs/{job_id}/pause", "pause", OperatorRole::Operator, |call| {
        Box::pin(set_paused(call, true))
    }),
    action("/dashboard/jobs/{job_id}/resume", "resume", OperatorRole::Operator, |call| {
        Box::pin(set_paused(call, false))
    }),
];

async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let found = jobs::found(&call).await?;
    let view = jobs::detail(&call, &found).await?;
    let sees_contents = call.sees_contents();
    let query = QueryString::of(&call.exchange.uri, &[])?;
    let sent = deliveries::listed(&call, DeliveriesAbout::Job, &query).await?;
    let lines = match sees_contents {
        true => Some(job_logs::last(&**call.app.engine.store(), found.id, LOG_LINES_SHOWN).await?),
        false => None,
    };
    let now = call.app.clock.now();
    let main = html! {
        (heading(&call, &view))
        (facts(&view, now))
        @if let Some(failure) = &view.failure { (explained(&view, failure)) }
        (timeline::show(&view, now))
        @match &lines { Some(lines) => (log(&view, lines)), None => (hidden("Log")) }
        div .columns {
            @if sees_contents { (input(&view)) } @else { (hidden("Input")) }
            (left(&view, sees_contents, now))
        }
        section #deliveries .panel .scroll data-live aria-labelledby="deliveries-title" {
            h2 #deliveries-title { "Deliveries" }
            (webhooks::sent(&call, &sent.items, &format!("/dashboard/jobs/{}", view.job.job_id)))
        }
        (events(&view, now))
    };
    Ok(layout::page(&call, Section::Jobs, &format!("Job {}", parts::short_id(&view.job.job_id)), &main))
}

/// The log as a page of JSON, or as the stream that keeps the page up to date.
async fn logs(call: Call<'_>) -> Result<Response, ApiError> {
    admin::logs::show(&call).await
}

async fn result(call: Call<'_>) -> Result<Response, ApiError> {
    let job = jobs::found(&call).await?;
    results::answer(call.app, call.exchange, &job, ResultFormat::File).await
}

async fn cancel(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let job = jobs::found(&call).await?;
    let (job, changed) = jobs::cancel_one(&call, job.id, None, true).await?;
    Ok(acted(&call, &job, if changed { "is cancelled" } else { "had ended before" }))
}

async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let job = jobs::found(&call).await?;
    let (job, changed) = jobs::retry_one(&call, &job).await?;
    Ok(acted(&call, &job, if changed { "is tried again" } else { "is under way already" }))
}

async fn set_paused(call: Call<'_>, paused: bool) -> Result<Response, ApiError> {
    form_of(&call, &[])?;
    let job = jobs::found(&call).await?;
    let (job, _) = jobs::pause_one(&call, job.id, paused).await?;
    Ok(acted(&call, &job, if paused { "is paused" } else { "goes on" }))
}

/// Back to the page of the job, or of the workflow that it is.
fn acted(call: &Call<'_>, job: &Job, what: &str) -> Response {
    let (path, noun) = match job.head.workflow_head {
        Some(_) => ("/dashboard/workflows/", "workflow"),
        None => ("/dashboard/jobs/", "job"),
    };
    done(call.app, &format!("{path}{}", job.id), &format!("The {noun} {what}."))
}

fn heading(call: &Call<'_>, view: &AdminJobDetail) -> Markup {
    let job = &view.job;
    let path = format!("/dashboard/jobs/{}", job.job_id);
    let button = |step: &str, label: &str, class: &str| {
        ActionButton { path: &format!("{path}/{step}"), label, class, about: None }.show(call)
    };
    let noun = if view.workflow_id.as_ref() == Some(&job.job_id) { "workflow" } else { "job" };
    let name = job.operation.as_deref().or(job.kind.as_deref()).unwrap_or(&job.job_type);
    html! {
        div #head data-live data-job-id=(job.job_id) {
            (layout::heading_with(
                &html! { (name) " " (parts::state(&job.state)) @if job.paused { " " span .muted { "paused" } } },
                &html! {
                    @match job.state.as_str() {
                        "CREATED" | "QUEUED" | "ASSIGNED" | "RUNNING" => {
                            @if job.paused { (button("resume", &format!("Resume {noun}"), "primary")) }
                            @else { (button("pause", &format!("Pause {noun}"), "")) }
                            (button("cancel", &format!("Cancel {noun}"), "danger"))
                        },
                        "FAILED" => (button("retry", &format!("Retry {noun}"), "primary")),
                        _ => {}
                    }
                },
            ))
            p .under { code { (job.job_id) } (parts::copy(&job.job_id, "the id of the job")) }
            @if job.state == "RUNNING" {
                @let percent = job.progress.unwrap_or(0);
                div .progress {
                    progress max="100" value=(percent) aria-label="Progress" { (percent) " %" }
                    span { (percent) " %" @if let Some(message) = &view.message { " · " (message) } }
                }
            }
        }
    }
}

fn facts(view: &AdminJobDetail, now: Time) -> Markup {
    let job = &view.job;
    let fact = |name: &str, value: Markup| html! { div { dt { (name) } dd { (value) } } };
    let word = |name: &str, value: Option<&str>| value.map(|value| fact(name, html! { (value) }));
    html! {
        section #facts .panel data-live aria-label="Facts" {
            dl .facts {
                (fact("Queue", html! { a href={ "/dashboard/jobs?queue=" (job.queue) } { (job.queue) } }))
                (fact("Type", html! { (job.job_type) }))
                @if let Some(shown) = word("Kind", job.kind.as_deref()) { (shown) }
                (fact("Client", parts::client_link(&job.client, job.client_name.as_deref())))
                @if let Some(id) = &view.workflow_id {
                    (fact("Workflow", html! { a .id href={ "/dashboard/workflows/" (id) } title=(id) { (parts::short_id(id)) } }))
                }
                @if let Some(shown) = word("Tenant", job.tenant.as_deref()) { (shown) }
                (fact("Came by", html! { "/" (job.dialect) }))
                (fact("Attempt", html! { (job.attempt) " of " (view.max_attempts) }))
                @if view.priority != 0 { (fact("Priority", html! { (view.priority) })) }
                (fact("Accepted", parts::moment(now, &job.created_at)))
                @if let Some(at) = &job.started_at { (fact("Started", parts::moment(now, at))) }
                @if let Some(at) = &job.finished_at { (fact("Ended", parts::moment(now, at))) }
                @if let Some(shown) = word("Worker", view.worker.as_deref()) { (shown) }
                @if let Some(shown) = word("Waits for signal", job.awaited_signal.as_deref()) { (shown) }
                @if let Some(at) = &view.lease_until { (fact("Lease until", parts::moment(now, at))) }
                @if let Some(shown) = word("Correlation id", job.correlation_id.as_deref()) { (shown) }
                @if view.executions.len() > 1 { (fact("Executions", html! { (view.executions.len()) })) }
            }
        }
    }
}

/// The failure object, in readable form first.
fn explained(view: &AdminJobDetail, failure: &Value) -> Markup {
    let text = |name: &str| failure.get(name).and_then(Value::as_str);
    let retryable = failure.get("retryable").and_then(Value::as_bool);
    let page = text("type").map(|address| address.rsplit('/').next().unwrap_or_default().to_owned());
    html! {
        section #failure .panel .failure data-live aria-labelledby="failure-title" {
            h2 #failure-title { (text("title").unwrap_or("The job ended badly")) }
            @if let Some(detail) = text("detail") { p .detail { (detail) } }
            dl .facts {
                @if let Some(code) = &view.job.code { div { dt { "Code" } dd { code { (code) } } } }
                @if let Some(stage) = text("stage") { div { dt { "Stage" } dd { (stage) } } }
                @if let Some(retryable) = retryable {
                    div { dt { "Worth trying again" } dd { @if retryable { "yes" } @else { "not as it is" } } }
                }
                @if view.job.dead_letter { div { dt { "Dead letter" } dd { "given up" } } }
            }
            p {
                @if let Some(group) = &view.job.group {
                    a href={ "/dashboard/failures/" (group) } { "All failures of this kind" } " · "
                }
                @if let Some(page) = page { a href={ "/problems/" (page) } { "What it means and what to do" } }
            }
            details #raw-failure {
                summary { "Raw failure object" }
                (parts::copy(&parts::pretty(failure), "the failure object"))
                pre { code { (parts::pretty(failure)) } }
            }
        }
    }
}

fn input(view: &AdminJobDetail) -> Markup {
    html! {
        section #input .panel aria-labelledby="input-title" {
            h2 #input-title { "Input" @if view.input_size > 0 { span .muted { " " (parts::bytes(view.input_size)) } } }
            @match &view.input {
                Some(input) => { (parts::copy(&parts::pretty(input), "the input")) pre { code { (parts::pretty(input)) } } }
                None if view.input_size > 0 => (parts::nothing("Too large to be shown here.")),
                None => (parts::nothing("The job was submitted without an input.")),
            }
        }
    }
}

/// A part of the page that viewers do not see.
fn hidden(title: &str) -> Markup {
    html! { section .panel { h2 { (title) } (parts::nothing("The role viewer does not show this.")) } }
}

fn left(view: &AdminJobDetail, sees_contents: bool, now: Time) -> Markup {
    html! {
        section #result .panel data-live aria-labelledby="result-title" {
            h2 #result-title { "Result" }
            @match &view.result {
                Some(result) => {
                    dl .facts {
                        div { dt { "Media type" } dd { (result.media_type) } }
                        div { dt { "Size" } dd { (parts::bytes(result.size)) } }
                        @if let Some(at) = &result.expires_at { div { dt { "Kept until" } dd { (parts::moment(now, at)) } } }
                    }
                    @if sees_contents && view.job.state == "SUCCEEDED" {
                        p { a .button href={ "/dashboard/jobs/" (view.job.job_id) "/result" } download { "Download result" } }
                    }
                }
                None => (parts::nothing("None.")),
            }
        }
    }
}

/// The last lines that workers printed.
fn log(view: &AdminJobDetail, log: &LogsView) -> Markup {
    let path = format!("/dashboard/jobs/{}/logs", view.job.job_id);
    let last = log.lines.last().map_or(0, |line| line.seq);
    let first = log.lines.first().map_or(1, |line| line.seq);
    let hidden = (first - 1).saturating_sub(log.dropped);
    html! {
        section #logs .panel data-live data-follow={ (path) "?after=" (last) } aria-labelledby="logs-title" {
            h2 #logs-title { "Log" }
            @if log.lines.is_empty() { (parts::nothing("No lines yet.")) } @else {
                @if log.dropped > 0 { p .muted { (log.dropped) " older lines were deleted: the log was too long." } }
                @if hidden > 0 { p .muted { (hidden) " older lines are not shown here." } }
                pre .log { code {
                    @for line in &log.lines {
                        span .muted title={ (line.at) ", attempt " (line.attempt) } { (line.stream) " " } (line.text) "\n"
                    }
                } }
            }
        }
    }
}

fn events(view: &AdminJobDetail, now: Time) -> Markup {
    html! {
        section #events .panel .scroll data-live aria-labelledby="events-title" {
            h2 #events-title { "Events" }
            table {
                thead { tr { th scope="col" { "When" } th scope="col" { "Event" } th scope="col" { "State" } th .n scope="col" { "Attempt" } th scope="col" { "Cause" } } }
                tbody {
                    @for event in view.events.iter().rev() {
                        tr {
                            td { (parts::moment(now, &event.timestamp)) }
                            td { (event.event_name) }
                            td { (parts::state(&event.next_state)) }
                            td .n { (event.attempt) }
                            td { (event.cause.as_deref().unwrap_or_default()) @if let Some(reason) = &event.reason { span .muted { " " (reason) } } }
                        }
                    }
                }
            }
        }
    }
}
