//! Failure groups, and their redrives.

use axum::response::Response;
use forgerun_core::time::Time;
use forgerun_wire::admin::{FailureGroupView, RedrivePreview, read_redrive};
use maud::{Markup, html};
use serde_json::{Map, Value, json};

use super::access::{self, action, done, form_of, page};
use super::layout::{self, Section};
use super::overview::trend;
use super::parts::{self, counted, number};
use crate::auth::OperatorRole;
use crate::dialects::admin::{failures, redrives};
use crate::http::{
    ApiError,
    query::QueryString,
    routing::{Call, Route},
};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/failures", "failures", |call| Box::pin(list(call))),
    page("/dashboard/failures/{group}", "failures", |call| Box::pin(show(call))),
    page("/dashboard/failures/{group}/preview", "preview", |call| Box::pin(preview(call))),
    action("/dashboard/failures/{group}/redrive", "redrive", OperatorRole::Operator, |call| {
        Box::pin(redrive(call))
    }),
];

/// Parameters of a redrive.
const TERMS: &[&str] = &["limit", "rate_per_s", "max_failures"];

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let found = failures::listed(&call).await?;
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Failures"))
        section #failures .scroll data-live aria-label="Groups of failures" {
            @if found.items.is_empty() { div .panel { (parts::empty_page(&found, "Nothing has failed.")) } } @else {
                table .rows {
                    thead { tr {
                        th scope="col" { "Reason" } th scope="col" { "Last 24 hours" } th .n scope="col" { "Count" }
                        th scope="col" { "Queues" } th scope="col" { "First seen" } th scope="col" { "Last seen" }
                    } }
                    tbody { @for group in &found.items { (row(group, now)) } }
                }
            }
            (parts::pager(&call, found.next_cursor.as_deref()))
        }
        p .muted { "Failures with the same problem type, code, operation and message are one group; ids, numbers, addresses and quotations in messages do not count." }
    };
    Ok(layout::page(&call, Section::Failures, "Failures", &main))
}

pub(super) fn subject(group: &FailureGroupView) -> &str {
    if group.operation.is_empty() { &group.title } else { &group.operation }
}

fn row(group: &FailureGroupView, now: Time) -> Markup {
    html! {
        tr data-group=(group.group) {
            th .what scope="row" {
                a href={ "/dashboard/failures/" (group.group) } { (group.message) }
                span .bound { (subject(group)) " · " code { (group.code) } " · " (group.title) }
            }
            td .trend { (trend(group)) }
            td .n data-label="Count" { (number(group.count)) }
            td data-label="Queues" { (group.queues.join(", ")) }
            td data-label="First seen" { (parts::moment(now, &group.first_seen)) }
            td data-label="Last seen" { (parts::moment(now, &group.last_seen)) }
        }
    }
}

async fn show(call: Call<'_>) -> Result<Response, ApiError> {
    let group = failures::shown(&call).await?;
    let main = html! {
        (about(&call, &group))
        (terms(&call, &group.group, &QueryString::of(&call.exchange.uri, TERMS)?))
    };
    Ok(layout::page(&call, Section::Failures, subject(&group), &main))
}

/// The facts about a group.
fn about(call: &Call<'_>, group: &FailureGroupView) -> Markup {
    let now = call.app.clock.now();
    let slug = group.problem_type.rsplit('/').next().unwrap_or_default();
    html! {
        div data-group=(group.group) .group {
            (layout::heading(subject(group)))
            section #group .panel .failure data-live aria-label="Reason" {
                p .detail { (group.message) }
                dl .facts {
                    div { dt { "Count" } dd { (number(group.count)) } }
                    div { dt { "Problem" } dd { (group.title) } }
                    div { dt { "Code" } dd { code { (group.code) } } }
                    div { dt { "First seen" } dd { (parts::moment(now, &group.first_seen)) } }
                    div { dt { "Last seen" } dd { (parts::moment(now, &group.last_seen)) } }
                    div { dt { "Queues" } dd { (group.queues.join(", ")) } }
                    div { dt { "Clients" } dd { @for client in &group.clients { (parts::client_link(client, None)) " " } } }
                    div { dt { "Newest jobs" } dd { @for job in &group.examples { span data-job-id=(job) { (parts::job_link(job)) } " " } } }
                }
                div .trend-wide { (trend(group)) p .muted { "The last 24 hours, the newest on the right." } }
                p {
                    a href={ "/dashboard/jobs?group=" (group.group) } { "Failed jobs of this group" } " · "
                    a href={ "/problems/" (slug) } { "What it means and what to do" }
                }
            }
        }
    }
}

/// The form of a redrive: preview or start.
fn terms(call: &Call<'_>, group: &str, given: &QueryString) -> Markup {
    let field = |name: &str, label: &str, hint: &str| {
        let value = given.get(name).unwrap_or_default().to_owned();
        html! {
            div { label for={ "redrive-" (name) } { (label) }
                input id={ "redrive-" (name) } name=(name) value=(value) placeholder=(hint) inputmode="decimal"; }
        }
    };
    let path = format!("/dashboard/failures/{group}");
    let token = call.app.sessions.form_token(access::session(call.app, call.exchange));
    if !call.may(OperatorRole::Operator) {
        return html! {};
    }
    html! {
        section #redrive .panel aria-labelledby="redrive-title" {
            h2 #redrive-title { "Try them again" }
            p .muted { "Once the reason is mended: all jobs that stand failed for it begin another execution, the oldest first, as a job of its own that can be watched and cancelled." }
            form method="get" action={ (path) "/preview" } {
                div .fields {
                    (field("limit", "At most", "all"))
                    (field("rate_per_s", "Per second", "as fast as possible"))
                    (field("max_failures", "Stop after so many fail again", "10"))
                }
                div .actions {
                    button type="submit" { "Preview redrive" }
                    // The button submits the token, so that it is not in the address of a preview.
                    button .primary type="submit" name="csrf" value=(token) formmethod="post" formaction={ (path) "/redrive" } { "Redrive" }
                }
            }
        }
    }
}

async fn preview(call: Call<'_>) -> Result<Response, ApiError> {
    let query = QueryString::of(&call.exchange.uri, TERMS)?;
    let request = read_redrive(body(&query).as_bytes())?;
    let view = redrives::preview(&call, &request.terms).await?;
    let group = failures::shown(&call).await?;
    let main = html! {
        (about(&call, &group))
        (foreseen(&view))
        (terms(&call, &group.group, &query))
    };
    Ok(layout::page(&call, Section::Failures, "Preview of a redrive", &main))
}

/// What a redrive would do.
fn foreseen(view: &RedrivePreview) -> Markup {
    html! {
        section #preview .panel aria-labelledby="preview-title" {
            h2 #preview-title { "A redrive would try " (counted(view.would_redrive, "job")) " again" }
            p { (counted(view.matched, "job")) @if view.matched == 1 { " stands" } @else { " stand" } " failed for this reason."
                @if let Some(s) = view.takes_s { " At this rate it takes about " (parts::span(s as f64)) "." } }
            @if !view.jobs.is_empty() {
                p { "It begins with "
                    @for job in &view.jobs { span data-job-id=(job) { (parts::job_link(job)) } " " } }
            }
        }
    }
}

/// The form fields as a body for the operator's API.
fn body(fields: &QueryString) -> String {
    let number =
        |text: &str| text.parse::<u64>().map(Value::from).or_else(|_| text.parse::<f64>().map(Value::from));
    let mut members = Map::new();
    for name in TERMS {
        if let Some(text) = fields.get(name) {
            members.insert((*name).to_owned(), number(text.trim()).unwrap_or_else(|_| json!(text)));
        }
    }
    Value::Object(members).to_string()
}

async fn redrive(call: Call<'_>) -> Result<Response, ApiError> {
    let form = form_of(&call, TERMS)?;
    let request = read_redrive(body(&form).as_bytes())?;
    match redrives::start(&call, request.terms).await? {
        Some(started) => {
            let jobs = counted(started.will_redrive, "job");
            let note = format!(
                "The redrive of {jobs} has begun. This is its own job: it has succeeded once all of them were begun again, however they end."
            );
            Ok(done(call.app, &format!("/dashboard/jobs/{}", started.job_id), &note))
        }
        None => {
            let path = format!("/dashboard/failures/{}", call.text("group"));
            Ok(done(call.app, &path, "No failed job is left in this group."))
        }
    }
}
