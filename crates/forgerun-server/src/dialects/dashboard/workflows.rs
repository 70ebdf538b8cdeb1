//! Workflows: progress, and a picture of the dependencies.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::workflow::{
    AdminWorkflow, AdminWorkflowDetail, CompensationView, StepView, WaitView, WorkflowSummary,
};
use maud::{Markup, html};

use super::access::page;
use super::course::StepSpan;
use super::layout::{self, Section};
use super::parts::{self, ActionButton};
use super::{course, graph};
use crate::dialects::admin::workflows;
use crate::http::{
    ApiError,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/workflows", "list", |call| Box::pin(list(call))),
    page("/dashboard/workflows/{workflow_id}", "get", |call| Box::pin(show(call))),
];

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = workflows::listed(&call).await?;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Workflows"))
        section #workflows .scroll data-live aria-label="Workflows" {
            @if found.items.is_empty() {
                div .panel { (parts::empty_page(&found, "No workflow so far. Workflows are begun under /v1/workflows and /ojs/v1/workflows.")) }
            } @else {
                table .rows {
                    thead { tr {
                        th scope="col" { "Workflow" } th scope="col" { "State" } th scope="col" { "Steps" } th .n scope="col" { "Failed" }
                        th scope="col" { "Client" } th scope="col" { "Accepted" } th scope="col" { "Ended" }
                    } }
                    tbody { @for workflow in &found.items { (row(workflow, now)) } }
                }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
    };
    Ok(layout::page(&call, Section::Workflows, "Workflows", &main))
}

fn row(of: &AdminWorkflow, now: Time) -> Markup {
    let view = &of.workflow;
    html! {
        tr data-row=(view.workflow_id) data-workflow=(view.workflow_id) {
            th scope="row" {
                a href={ "/dashboard/workflows/" (view.workflow_id) } title=(view.workflow_id) { (name(&view.name, &view.workflow_id)) }
                span .bound { (view.form) }
            }
            td data-label="State" { (parts::state(&view.state)) }
            td data-label="Steps" {
                (view.steps_succeeded) " of " (view.steps_total)
                (bar(view))
            }
            td .n .bad[view.steps_failed > 0] data-label="Failed" { (view.steps_failed) }
            td data-label="Client" { (parts::client_link(&of.client, of.client_name.as_deref())) }
            td data-label="Accepted" { (parts::moment(now, &view.created_at)) }
            td data-label="Ended" { (parts::maybe_moment(now, view.finished_at.as_deref())) }
        }
    }
}

/// The name of a workflow, or the end of its id.
fn name<'a>(name: &'a str, id: &'a str) -> &'a str {
    if name.is_empty() { parts::short_id(id) } else { name }
}

async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let view = workflows::shown(&call).await?;
    let now = call.app.clock.now();
    let main = html! {
        (heading(&call, &view))
        section #graph .panel .scroll data-live aria-labelledby="graph-title" {
            h2 #graph-title { "Steps" span .muted { " and who waits for whom" } }
            (graph::show(&view.workflow.steps, now))
        }
        (course::show(&view.workflow.steps, now))
        (steps(&view.workflow.steps, now))
    };
    let title = name(&view.workflow.summary.name, &view.workflow.summary.workflow_id);
    Ok(layout::page(&call, Section::Workflows, &format!("Workflow {title}"), &main))
}

/// Progress counts ended steps; for a failed workflow only successful ones.
fn bar(of: &WorkflowSummary) -> Markup {
    let has_failed = matches!(of.state.as_str(), "FAILED" | "CANCELED");
    let well = u64::from(of.steps_succeeded) * 100 / u64::from(of.steps_total.max(1));
    let shown = if has_failed { well } else { u64::from(of.progress) };
    html! {
        progress .is-failed[has_failed] max="100" value=(shown) aria-label="Progress" { (shown) " %" }
    }
}

fn heading(call: &Call<'_>, view: &AdminWorkflowDetail) -> Markup {
    let summary = &view.workflow.summary;
    let now = call.app.clock.now();
    // A workflow is cancelled and retried as its own job.
    let job = format!("/dashboard/jobs/{}", summary.workflow_id);
    let button = |step: &str, label: &str, class: &str| {
        ActionButton { path: &format!("{job}/{step}"), label, class, about: None }.show(call)
    };
    html! {
        div #head data-live data-workflow=(summary.workflow_id) {
            (layout::heading_with(
                &html! { (name(&summary.name, &summary.workflow_id)) " " (parts::state(&summary.state)) @if summary.paused { " " span .muted { "paused" } } },
                &html! {
                    @match summary.state.as_str() {
                        "CREATED" | "QUEUED" | "ASSIGNED" | "RUNNING" => {
                            @if summary.paused { (button("resume", "Resume workflow", "primary")) } @else { (button("pause", "Pause workflow", "")) }
                            (button("cancel", "Cancel workflow", "danger"))
                        },
                        "FAILED" => (button("retry", "Retry workflow", "primary")),
                        _ => {}
                    }
                },
            ))
            p .under { code { (summary.workflow_id) } (parts::copy(&summary.workflow_id, "the id of the workflow")) }
            section .panel aria-label="Facts" {
                dl .facts {
                    div { dt { "Submitted as" } dd { (summary.form) } }
                    div { dt { "Steps" } dd { (summary.steps_succeeded) " of " (summary.steps_total) } }
                    div { dt { "If a step fails" } dd { (view.workflow.failure_policy) } }
                    @if view.workflow.canceling { div { dt { "Cancelled" } dd { "once what it did is undone" } } }
                    div { dt { "Client" } dd { (parts::client_link(&view.client, view.client_name.as_deref())) } }
                    div { dt { "Accepted" } dd { (parts::moment(now, &summary.created_at)) } }
                    @if let Some(at) = &summary.deadline { div { dt { "Deadline" } dd { (parts::moment(now, at)) } } }
                    @if let Some(at) = &summary.finished_at { div { dt { "Ended" } dd { (parts::moment(now, at)) } } }
                    @if let Some(outer) = &summary.parent_workflow_id {
                        div { dt { "Step of" } dd { a .id href={ "/dashboard/workflows/" (outer) } title=(outer) { (parts::short_id(outer)) } } }
                    }
                    div { dt { "Its own job" } dd { (parts::job_link(&summary.workflow_id)) } }
                }
                (bar(summary))
            }
        }
    }
}

/// What a step waits for, until when, and the page for the person who answers. Answers come from
/// the owner of the workflow, and from people with this address.
fn waiting(wait: &WaitView, now: Time) -> Markup {
    html! {
        span .bound { "waits " (parts::awaited(wait)) }
        @if let Some(at) = &wait.due_at { span .bound { "until " (parts::moment(now, at)) } }
        @if let Some(url) = &wait.url {
            a href=(url) { "Answer" } (parts::copy(url, "the address for an answer"))
            span .bound { "by the client of the workflow, or a person with this address" }
        }
    }
}

/// The compensation of a step, and its state.
fn compensation(of: &CompensationView) -> Markup {
    html! {
        span .bound { "undone by " (of.job_type.as_deref().unwrap_or_default()) }
        @if of.state != "NOT_RUN" {
            (parts::state(&of.state)) @if let Some(job) = &of.job_id { (parts::job_link(job)) }
        }
        @if let Some(error) = &of.error { span .why { (error) } }
    }
}

/// The type of a step's job, or what it is instead; of a list how many elements stand where.
fn what(step: &StepView) -> String {
    match &step.elements {
        Some(of) => format!(
            "for each: {} of {} succeeded, {} failed, {} active, {} waiting",
            of.succeeded, of.total, of.failed, of.active, of.waiting
        ),
        None if step.kind == "for_each" => "for each element of a list".into(),
        None if step.kind == "workflow" => "workflow".into(),
        None => step.job_type.clone().unwrap_or_default(),
    }
}

fn steps(steps: &[StepView], now: Time) -> Markup {
    html! {
        section #steps .scroll data-live aria-label="Steps" {
            table .rows {
                thead { tr {
                    th scope="col" { "Step" } th scope="col" { "State" } th scope="col" { "Depends on" } th scope="col" { "Job" }
                    th .n scope="col" { "Attempt" } th .n scope="col" { "Took" } th scope="col" { "Ended" }
                } }
                tbody { @for step in steps { tr data-row=(step.id) {
                    th .what scope="row" { span { (step.id) } span .bound { (what(step)) }
                        @if let Some(wait) = &step.wait { (waiting(wait, now)) }
                        @if let Some(error) = &step.error { span .why { (error) } }
                        @if let Some(of) = &step.compensation { (compensation(of)) } }
                    td data-label="State" { (parts::state(&step.state)) }
                    td data-label="Depends on" { (step.depends_on.join(", ")) @if step.when != "all_succeeded" { span .bound { (step.when) } } }
                    td data-label="Job" { @match &step.job_id { Some(job) if step.kind != "job" => a .id href={ (graph::address(step)) (job) } title=(job) { (parts::short_id(job)) }, Some(job) => (parts::job_link(job)), None => "–" } }
                    td .n data-label="Attempt" { @match step.attempt { Some(n) => (n), None => "–" } }
                    td .n data-label="Took" { @match StepSpan::of(step, now) { Some(span) => (parts::span(span.seconds())), None => "–" } }
                    td data-label="Ended" { (parts::maybe_moment(now, step.finished_at.as_deref())) }
                } } }
            }
        }
    }
}
