//! `GET /v1/jobs`: the caller's jobs, newest first, a page at a time.

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::id::JobId;
use forgerun_core::job::{BadQueueName, Job, JobForm, Name};
use forgerun_core::state::State;
use forgerun_wire::body::quoted;
use forgerun_wire::forge::{JobView, JobsView};
use forgerun_wire::request;
use forgerun_wire::words::{forge_state, parse_forge_state, parse_forge_type};

use crate::app::{Filter, IdSuffix};
use crate::auth::Caller;
use crate::http::{
    ApiError,
    query::QueryString,
    respond,
    routing::{
        Call, Reply, Route,
        operation::{CURSOR, ID_SUFFIX, LIMIT, Parameter, QUEUE, RETRYING, STATE, TAG},
    },
};
use crate::limits::{LIST_ROWS_MAX, PAGES_SCANNED_MAX, SUFFIX_HITS_MAX, SUFFIX_ROWS_MAX};

/// The route of the list.
pub(super) const ROUTES: &[Route] = &[Route::get("/v1/jobs", "list", |call| Box::pin(jobs(call)))
    .operation("listJobs", "List the caller's jobs, newest first.")
    .query(FILTERS)
    .replies(&[Reply::json::<JobsView<'static>>(200, "A page.")])];

/// The parameters of the list.
const FILTERS: &[Parameter] = &[
    STATE,
    QUEUE,
    Parameter::new("type", "Only jobs of this type.").schema(request::form),
    Parameter::new("dead_letter", "Only dead letters, or only other jobs.").schema(request::truth),
    TAG,
    RETRYING,
    ID_SUFFIX,
    LIMIT,
    CURSOR,
];

/// `GET /v1/jobs`. The cursor is the last job shown.
async fn jobs(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, caller) = (call.app, call.caller());
    let query = call.query()?;
    let form = form(&query)?;
    let fits = |job: &Job| form.is_none_or(|form| job.head.form == form);
    let mut filter = filter(&query, caller)?;
    let limit = filter.limit;
    // One more than is shown indicates whether there are more.
    filter.limit += 1;
    let mut jobs: Vec<Job> = Vec::new();
    let mut next = None;
    for _ in 0..PAGES_SCANNED_MAX {
        let page = app.engine.store().list_jobs(filter.clone()).await?;
        // A page that is not full reached its bound of examined jobs.
        let is_full = page.rows.len() == filter.limit;
        (next, filter.before) = (page.next, page.next);
        jobs.extend(page.rows.into_iter().filter(fits));
        if next.is_none() || !is_full || jobs.len() > limit {
            break;
        }
    }
    let next_cursor = match jobs.len() > limit {
        true => jobs.get(limit - 1).map(|job| job.id),
        // Page not full, but not everything was examined: the client may continue from here.
        false => next,
    };
    jobs.truncate(limit);
    let jobs = jobs.iter().map(JobView::new).collect();
    let next_cursor = next_cursor.map(|id| id.to_string());
    Ok(respond::json(StatusCode::OK, &JobsView { jobs, next_cursor }))
}

/// The error for an unknown state.
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
    let dead = query.flag("dead_letter")?;
    if dead == Some(true) && states.is_empty() {
        // Only failed jobs are dead letters, and the store finds those by state.
        states.push(State::Failed);
    }
    let mut filter = Filter {
        client: Some(caller.client),
        states,
        queue,
        dead,
        before,
        limit: query.limit()?,
        look_max: LIST_ROWS_MAX,
        ..Filter::default()
    };
    narrow(query, &mut filter)?;
    Ok(filter)
}

/// Adds the filters that lists of clients and of the operator share: `tag`, `retrying`,
/// `id_suffix`.
pub(in crate::dialects) fn narrow(query: &QueryString, filter: &mut Filter) -> Result<(), ApiError> {
    filter.tags = query.all("tag").map(str::to_owned).collect();
    match query.flag("retrying")? {
        Some(true) => {
            filter.retrying = true;
            if filter.states.is_empty() {
                // Only waiting jobs are retried, and the store finds those by state.
                filter.states.push(State::Queued);
            }
        }
        Some(false) => return Err(query.invalid("retrying", "must be true, or left out")),
        None => {}
    }
    if let Some(text) = query.get("id_suffix") {
        let suffix = IdSuffix::parse(text).ok_or_else(|| query.invalid("id_suffix", IdSuffix::RULE))?;
        filter.id_suffix = Some(suffix);
        filter.limit = filter.limit.min(SUFFIX_HITS_MAX);
        filter.look_max = SUFFIX_ROWS_MAX;
    }
    Ok(())
}

fn form(query: &QueryString) -> Result<Option<JobForm>, ApiError> {
    let Some(word) = query.get("type") else { return Ok(None) };
    match parse_forge_type(word) {
        Some(form) => Ok(Some(form)),
        None => Err(query.invalid("type", "must be EXECUTE, DEFERRED or EMIT_EVENT")),
    }
}
