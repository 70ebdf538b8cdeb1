//! Jobs: filters in the address, and bulk cancel or retry after a confirmation page.

use axum::response::Response;
use forgerun_core::id::JobId;
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_wire::admin::{AdminJob, AdminPage};
use forgerun_wire::words::forge_state;
use futures_util::future::join_all;
use maud::{Markup, html};

use super::access::{action, done, form_of, page};
use super::layout::{self, Section};
use super::parts::{self, counted};
use crate::auth::OperatorRole;
use crate::dialects::admin::jobs::{self, FILTERS};
use crate::http::{
    ApiError,
    query::QueryString,
    routing::{Call, Route},
};
use crate::limits::{BULK_JOBS_MAX, PAGE_MAX};

pub(super) const ROUTES: &[Route] = &[
    page("/dashboard/jobs", "list", |call| Box::pin(list(call))),
    page("/dashboard/jobs/confirm", "confirm", |call| Box::pin(confirm(call))),
    action("/dashboard/jobs/bulk", "bulk", OperatorRole::Operator, |call| Box::pin(bulk(call))),
];

/// Concurrent commands.
const AT_ONCE: usize = 64;

/// Jobs listed by a confirmation.
const LISTED_MAX: usize = 10;

/// Pages that are read to find all matching jobs; a page may be empty while there is more.
const PAGES_LOOKED_AT_MAX: usize = 50;

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = QueryString::of(&call.exchange.uri, FILTERS)?;
    let found = jobs::search(call.app, &query).await?;
    let picks = call.may(OperatorRole::Operator);
    let now = call.app.clock.now();
    let main = html! {
        (layout::heading("Jobs"))
        (filters(&query))
        form #bulk method="get" action="/dashboard/jobs/confirm" {
            @for (name, value) in kept(&query) { input type="hidden" name=(name) value=(value); }
            section #jobs data-live aria-label="Jobs" {
                (table(&found, picks, now))
                (parts::pager(&call, found.next_cursor.as_deref()))
            }
            @if picks { (bulk_bar(found.items.is_empty())) }
        }
    };
    Ok(layout::page(&call, Section::Jobs, "Jobs", &main))
}

/// The filters of a query, without the cursor.
fn kept(query: &QueryString) -> Vec<(&'static str, String)> {
    let names = FILTERS.iter().copied().filter(|name| !matches!(*name, "limit" | "cursor"));
    let values = names.map(|name| (name, query.all(name).collect::<Vec<_>>().join(",")));
    values.filter(|(_, value)| !value.is_empty()).collect()
}

fn filters(query: &QueryString) -> Markup {
    let value = |name: &str| query.get(name).unwrap_or_default().to_owned();
    let chosen: Vec<&str> = query.all("state").collect();
    let more = ["queue", "client", "type", "kind", "code", "since", "until"];
    let is_open = more.iter().any(|name| query.get(name).is_some());
    html! {
        form .filters method="get" action="/dashboard/jobs" role="search" {
            div .search {
                label .visually-hidden for="q" { "Search" }
                input #q type="search" name="q" value=(value("q")) placeholder="Job id, correlation id or type begins with …" autocomplete="off";
                button .primary type="submit" { "Search" }
                a .button href="/dashboard/jobs" { "Clear" }
            }
            fieldset .chips {
                legend .visually-hidden { "State" }
                @for state in State::ALL.map(forge_state) {
                    label class={ "chip state-" (state.to_ascii_lowercase()) } {
                        input type="checkbox" name="state" value=(state) checked[chosen.iter().any(|word| word.eq_ignore_ascii_case(state))];
                        span { (state) }
                    }
                }
            }
            details open[is_open] {
                summary { "More filters" }
                div .fields {
                    @for (name, label, hint) in [
                        ("queue", "Queue", "default"), ("client", "Client", "id of a client"), ("type", "Type", "email.send"),
                        ("kind", "Kind", "FAIL_AFTER_RETRYABLE"), ("code", "Code", "RFA_…"),
                        ("since", "Since", "2026-05-28T00:00:00Z"), ("until", "Until", "2026-05-29T00:00:00Z"),
                    ] {
                        div { label for={ "filter-" (name) } { (label) } input id={ "filter-" (name) } name=(name) value=(value(name)) placeholder=(hint); }
                    }
                }
            }
        }
    }
}

/// A page of jobs; `picks` is for operators who may cancel and retry them.
fn table(found: &AdminPage<AdminJob>, picks: bool, now: Time) -> Markup {
    if found.items.is_empty() {
        return parts::empty_page(found, "No job matches.");
    }
    html! {
        table .rows .jobs {
            thead { tr {
                @if picks { th .pick scope="col" { input #pick-all type="checkbox" hidden aria-label="Select all on this page"; } }
                th scope="col" { "Job" } th scope="col" { "State" } th scope="col" { "Type" } th scope="col" { "Queue" }
                th scope="col" { "Client" } th .n scope="col" { "Attempt" } th scope="col" { "Accepted" } th .n scope="col" { "Duration" }
            } }
            tbody { @for job in &found.items { (row(job, picks, now)) } }
        }
    }
}

fn row(job: &AdminJob, picks: bool, now: Time) -> Markup {
    let wrong = job.error.as_ref().zip(job.code.as_ref()).filter(|_| job.state == "FAILED");
    html! {
        tr data-job-id=(job.job_id) {
            @if picks { td .pick { input type="checkbox" name="job" value=(job.job_id) aria-label={ "Select job " (job.job_id) }; } }
            th scope="row" { (parts::job_link(&job.job_id)) }
            td { (parts::state(&job.state)) @if job.dead_letter { " " (parts::badge("bad", "dead letter")) }
                @if let Some(progress) = job.progress.filter(|_| job.state == "RUNNING") { progress max="100" value=(progress) { (progress) " %" } } }
            td .what { span { (job.operation.as_deref().or(job.kind.as_deref()).unwrap_or(&job.job_type)) }
                @if let Some((error, code)) = wrong { span .why title=(error) { (code) ": " (error) } } }
            td data-label="Queue" { a href={ "/dashboard/jobs?queue=" (job.queue) } { (job.queue) } }
            td data-label="Client" { (parts::client_link(&job.client, job.client_name.as_deref())) }
            td .n data-label="Attempt" { (job.attempt) }
            td data-label="Accepted" { (parts::moment(now, &job.created_at)) }
            td .n data-label="Duration" { (took(job, now)) }
        }
    }
}

/// Duration of the newest attempt.
fn took(job: &AdminJob, now: Time) -> String {
    let at = |text: &Option<String>| text.as_deref().and_then(forgerun_wire::time::parse);
    match (at(&job.started_at), at(&job.finished_at)) {
        (Some(started), Some(finished)) if finished >= started => {
            parts::span(finished.since(started).as_secs_f64())
        }
        (Some(started), None) if job.state == "RUNNING" => parts::span(now.since(started).as_secs_f64()),
        _ => "–".to_owned(),
    }
}

fn bulk_bar(is_empty: bool) -> Markup {
    html! {
        div .bulk role="group" aria-label="Many jobs at once" {
            span #picked .muted { "Selected jobs:" }
            button type="submit" name="act" value="cancel" disabled[is_empty] { "Cancel selected" }
            button type="submit" name="act" value="retry" disabled[is_empty] { "Retry selected" }
            span .muted { "All that match:" }
            button type="submit" name="act" value="cancel-all" disabled[is_empty] { "Cancel all" }
            button type="submit" name="act" value="retry-all" disabled[is_empty] { "Retry all" }
        }
    }
}

/// An action on many jobs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BulkAction {
    Cancel,
    Retry,
}

impl BulkAction {
    fn of(query: &QueryString) -> Result<BulkAction, ApiError> {
        match query.get("act") {
            Some("cancel" | "cancel-all") => Ok(BulkAction::Cancel),
            Some("retry" | "retry-all") => Ok(BulkAction::Retry),
            _ => Err(query.invalid("act", "must be cancel, retry, cancel-all or retry-all")),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            BulkAction::Cancel => "Cancel",
            BulkAction::Retry => "Retry",
        }
    }

    const fn past(self) -> &'static str {
        match self {
            BulkAction::Cancel => "Cancelled",
            BulkAction::Retry => "Retried",
        }
    }

    /// Whether it would change a job in this state.
    fn suits(self, job: &AdminJob) -> bool {
        match self {
            BulkAction::Cancel => matches!(job.state.as_str(), "CREATED" | "QUEUED" | "ASSIGNED" | "RUNNING"),
            BulkAction::Retry => job.state == "FAILED",
        }
    }
}

const CONFIRM: &[&str] = &["act", "job"];

/// Counts the affected jobs, and asks.
async fn confirm(call: Call<'_>) -> Result<Response, ApiError> {
    let known: Vec<&str> = FILTERS.iter().chain(CONFIRM).copied().collect();
    let query = QueryString::of(&call.exchange.uri, &known)?;
    let act = BulkAction::of(&query)?;
    let is_all = query.get("act").is_some_and(|word| word.ends_with("-all"));
    let (chosen, is_whole) = match is_all {
        true => all(&call, &query).await?,
        false => (picked(&call, &query).await?, true),
    };
    let (suited, others): (Vec<_>, Vec<_>) = chosen.into_iter().partition(|job| act.suits(job));
    let main = html! {
        (layout::heading(&format!("{} {}?", act.word(), counted(suited.len() as u64, "job"))))
        div .panel #confirm {
            @if !is_whole { p { "These are the newest that match; there are more, or more to look at. Repeat it for the rest." } }
            @if !others.is_empty() {
                p { (counted(others.len() as u64, "job")) " of those chosen cannot be: "
                    @if act == BulkAction::Cancel { "they have ended." } @else { "only jobs that failed are tried again." } }
            }
            @if suited.is_empty() {
                p { "There is nothing to do." }
            } @else {
                ul .plain { @for job in suited.iter().take(LISTED_MAX) {
                    li data-job-id=(job.job_id) { (parts::job_link(&job.job_id)) " " (parts::state(&job.state)) " " (job.job_type) }
                } }
                @if suited.len() > LISTED_MAX { p .muted { "and " (counted((suited.len() - LISTED_MAX) as u64, "more job")) } }
                @if call.may(OperatorRole::Operator) { form method="post" action="/dashboard/jobs/bulk" {
                    (parts::csrf(call.app, call.exchange))
                    input type="hidden" name="act" value=(act.word().to_ascii_lowercase());
                    @for job in &suited { input type="hidden" name="job" value=(job.job_id); }
                    button .danger[act == BulkAction::Cancel] .primary[act == BulkAction::Retry] type="submit" {
                        (act.word()) " " (counted(suited.len() as u64, "job"))
                    }
                } }
            }
            p { a href="/dashboard/jobs" { "Back to the jobs" } }
        }
    };
    Ok(layout::page(&call, Section::Jobs, "Confirm", &main))
}

fn ids(query: &QueryString) -> Result<Vec<JobId>, ApiError> {
    let parsed = query.all("job").map(str::parse::<JobId>);
    let ids = parsed.collect::<Result<Vec<_>, _>>().map_err(|_| query.invalid("job", "is no id of a job"))?;
    if ids.len() > BULK_JOBS_MAX {
        return Err(query.invalid("job", &format!("can be given {BULK_JOBS_MAX} times at most")));
    }
    Ok(ids)
}

async fn picked(call: &Call<'_>, query: &QueryString) -> Result<Vec<AdminJob>, ApiError> {
    let mut found = Vec::new();
    for id in ids(query)? {
        found.push(AdminJob::new(&*jobs::by_id(call.app, Some(id)).await?));
    }
    Ok(found)
}

/// All jobs that match the filters, up to the bound, and whether these are all.
async fn all(call: &Call<'_>, query: &QueryString) -> Result<(Vec<AdminJob>, bool), ApiError> {
    let filters: String =
        kept(query).iter().map(|(name, value)| format!("{name}={}&", parts::encoded(value))).collect();
    let (mut found, mut cursor): (Vec<AdminJob>, Option<String>) = (Vec::new(), None);
    for _ in 0..PAGES_LOOKED_AT_MAX {
        let place = cursor.map(|cursor| format!("&cursor={}", parts::encoded(&cursor))).unwrap_or_default();
        let text = format!("{filters}limit={PAGE_MAX}{place}");
        let page = jobs::search(call.app, &QueryString::read(&text, FILTERS)?).await?;
        found.extend(page.items);
        cursor = page.next_cursor;
        if cursor.is_none() || found.len() >= BULK_JOBS_MAX {
            break;
        }
    }
    let is_whole = cursor.is_none() && found.len() <= BULK_JOBS_MAX;
    found.truncate(BULK_JOBS_MAX);
    Ok((found, is_whole))
}

/// Runs the action job by job, each as a command of its own.
async fn bulk(call: Call<'_>) -> Result<Response, ApiError> {
    let form = form_of(&call, CONFIRM)?;
    let act = BulkAction::of(&form)?;
    let ids = ids(&form)?;
    let (mut n_done, n_all) = (0, ids.len() as u64);
    for some in ids.chunks(AT_ONCE) {
        let results = join_all(some.iter().map(|id| one(&call, act, *id))).await;
        n_done += results.into_iter().filter(|done| matches!(done, Ok(true))).count() as u64;
    }
    let mut note = format!("{} {}.", act.past(), counted(n_done, "job"));
    if n_done < n_all {
        note += &format!(" {} stood otherwise by then.", counted(n_all - n_done, "job"));
    }
    Ok(done(call.app, "/dashboard/jobs", &note))
}

/// Whether it changed the job.
async fn one(call: &Call<'_>, act: BulkAction, id: JobId) -> Result<bool, ApiError> {
    match act {
        BulkAction::Cancel => jobs::cancel_one(call, id, None, true).await.map(|(_, changed)| changed),
        BulkAction::Retry => {
            let job = jobs::by_id(call.app, Some(id)).await?;
            jobs::retry_one(call, &job).await.map(|(_, changed)| changed)
        }
    }
}
