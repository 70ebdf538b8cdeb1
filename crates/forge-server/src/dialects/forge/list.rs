//! `GET /v1/jobs`: the caller's jobs, newest first, a page at a time.

use axum::http::StatusCode;
use axum::response::Response;
use forge_core::id::JobId;
use forge_core::job::{BadQueueName, Job, JobForm, Name};
use forge_core::state::State;
use forge_wire::body::quoted;
use forge_wire::forge::{JobView, JobsView};
use forge_wire::words::{forge_state, parse_forge_state, parse_forge_type};

use crate::app::Filter;
use crate::edge::query::QueryString;
use crate::edge::routing::{Call, Route};
use crate::edge::{ApiError, Caller, respond};
use crate::limits::{LIST_ROWS_MAX, PAGES_SCANNED_MAX};

/// The route of the list.
pub(super) const ROUTES: &[Route] = &[Route::get("/v1/jobs", "list", |call| Box::pin(jobs(call)))];

/// `GET /v1/jobs?state=…&queue=…&type=…&dead_letter=…&limit=…&cursor=…`. The cursor is the last job that was seen.
async fn jobs(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, exchange, caller) = (call.app, call.exchange, call.caller());
    let query =
        QueryString::of(&exchange.uri, &["state", "queue", "type", "dead_letter", "limit", "cursor"])?;
    let form = form(&query)?;
    let fits = |job: &Job| form.is_none_or(|form| job.head.form == form);
    let mut filter = filter(&query, caller)?;
    let limit = filter.limit;
    // One more than is shown tells whether there are more.
    filter.limit += 1;
    let mut jobs: Vec<Job> = Vec::new();
    let mut next = None;
    for _ in 0..PAGES_SCANNED_MAX {
        let page = app.engine.store().list_jobs(filter.clone()).await?;
        // A page that is not full has ended because it looked at as much as it may.
        let is_full = page.rows.len() == filter.limit;
        (next, filter.before) = (page.next, page.next);
        jobs.extend(page.rows.into_iter().filter(fits));
        if next.is_none() || !is_full || jobs.len() > limit {
            break;
        }
    }
    let next_cursor = match jobs.len() > limit {
        true => jobs.get(limit - 1).map(|job| job.id),
        // Not found enough, and not looked at everything: the client may go on from here.
        false => next,
    };
    jobs.truncate(limit);
    let jobs = jobs.iter().map(JobView::new).collect();
    let next_cursor = next_cursor.map(|id| id.to_string());
    Ok(respond::json(StatusCode::OK, &JobsView { jobs, next_cursor }))
}

/// What is wrong with a word that names no state.
fn no_state(word: &str) -> String {
    let states = State::ALL.map(forge_state);
    format!("must be {}, not `{}`", states.join(", "), quoted(word))
}

fn filter(query: &QueryString, caller: &Caller) -> Result<Filter, ApiError> {
    let state = |word| parse_forge_state(word).ok_or_else(|| query.invalid("state", &no_state(word)));
    let queue = match query.get("queue") {
        Some(name) => Some(Name::queue(name).map_err(|_| query.invalid("queue", BadQueueName::RULE))?),
        None => None,
    };
    let before = match query.get("cursor") {
        Some(cursor) => Some(
            cursor.parse::<JobId>().map_err(|_| query.malformed("cursor", "is no cursor of this list"))?,
        ),
        None => None,
    };
    let mut states: Vec<State> = query.all("state").map(state).collect::<Result<_, _>>()?;
    let dead = dead_letter(query)?;
    if dead == Some(true) && states.is_empty() {
        // No other job is a dead letter, and failed ones are found by themselves.
        states.push(State::Failed);
    }
    Ok(Filter {
        client: Some(caller.client),
        states,
        queue,
        job_type: None,
        dead,
        before,
        limit: query.limit()?,
        look_max: LIST_ROWS_MAX,
    })
}

fn form(query: &QueryString) -> Result<Option<JobForm>, ApiError> {
    let Some(word) = query.get("type") else { return Ok(None) };
    match parse_forge_type(word) {
        Some(form) => Ok(Some(form)),
        None => Err(query.invalid("type", "must be EXECUTE, DEFERRED or EMIT_EVENT")),
    }
}

fn dead_letter(query: &QueryString) -> Result<Option<bool>, ApiError> {
    match query.get("dead_letter") {
        None => Ok(None),
        Some("true") => Ok(Some(true)),
        Some("false") => Ok(Some(false)),
        Some(_) => Err(query.malformed("dead_letter", "must be true or false")),
    }
}
