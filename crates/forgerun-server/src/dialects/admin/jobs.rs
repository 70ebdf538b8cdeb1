//! Jobs of all clients: search, show, cancel, retry, pause.

use forgerun_core::catalog::Kind;
use forgerun_wire::request;
use forgerun_wire::request_body;
use std::sync::Arc;
use std::time::Duration;

use axum::http::StatusCode;
use axum::response::Response;
use forgerun_core::command::{Cancel, JobPause, Owned};
use forgerun_core::failure::FailureId;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{BadQueueName, Job, Name};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::{Command, Refusal};
use forgerun_wire::admin::{AdminJob, AdminJobDetail, AdminPage, has_code, job_type};
use forgerun_wire::body::quoted;
use forgerun_wire::words::{forge_state, parse_forge_state, parse_forge_type};

use super::{audit, failures};
use crate::app::{App, Filter};
use crate::auth::OperatorRole;
use crate::dialects::forge::narrow;
use crate::http::{
    ApiError, body,
    query::QueryString,
    respond,
    routing::{
        Call, Reply, Route,
        operation::{CLIENT, CURSOR, ID_SUFFIX, LIMIT, Parameter, QUEUE, RETRYING, STATE, TAG, names},
    },
};
use crate::limits::{INPUT_SHOWN_BYTES_MAX, LIST_ROWS_MAX, PAGES_SCANNED_MAX};
use crate::traces::RequestSubject;

pub(super) const ROUTES: &[Route] = &[
    Route::get("/admin/v1/jobs", "list", |call| Box::pin(list(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListJobs", "Search the jobs of all clients.")
        .query(SEARCH)
        .replies(&[Reply::json::<AdminPage<AdminJob>>(200, "A page.")]),
    Route::get("/admin/v1/jobs/{job_id}", "get", |call| Box::pin(get(call)))
        .role(OperatorRole::Viewer)
        .operation("adminGetJob", "Get a job of any client in full.")
        .replies(&[Reply::json::<AdminJobDetail>(200, "The job.")]),
    Route::post("/admin/v1/jobs/{job_id}/cancel", "cancel", |call| Box::pin(cancel(call)))
        .role(OperatorRole::Operator)
        .operation("adminCancelJob", "Cancel a job of any client.")
        .optional_body(&CANCEL)
        .replies(&[Reply::json::<AdminJobDetail>(200, "Cancelled, or ended before.")]),
    Route::post("/admin/v1/jobs/{job_id}/retry", "retry", |call| Box::pin(retry(call)))
        .role(OperatorRole::Operator)
        .operation("adminRetryJob", "Retry a failed job of any client, also a dead letter.")
        .replies(&[Reply::json::<AdminJobDetail>(200, "Waiting for its next attempt.")])
        .refuses(&[Kind::IllegalTransition, Kind::RetryLimitReached, Kind::Duplicate]),
    Route::post("/admin/v1/jobs/{job_id}/pause", "pause", |call| Box::pin(set_paused(call, true)))
        .role(OperatorRole::Operator)
        .operation("adminPauseJob", "Keep a job of any client from workers until it is resumed.")
        .replies(&[Reply::json::<AdminJobDetail>(200, "Paused, or paused before.")])
        .refuses(&[Kind::IllegalTransition]),
    Route::post("/admin/v1/jobs/{job_id}/resume", "resume", |call| Box::pin(set_paused(call, false)))
        .role(OperatorRole::Operator)
        .operation("adminResumeJob", "Hand out a paused job of any client again.")
        .replies(&[Reply::json::<AdminJobDetail>(200, "Resumed, or not paused before.")]),
    Route::get("/admin/v1/dead-letters", "dead_letters", |call| Box::pin(dead_letters(call)))
        .role(OperatorRole::Viewer)
        .operation("adminListDeadLetters", "List the dead letters of all clients, newest first.")
        .query(&[QUEUE, CLIENT, LIMIT, CURSOR])
        .replies(&[Reply::json::<AdminPage<AdminJob>>(200, "A page.")]),
];

/// The parameters of a search for jobs.
const SEARCH: &[Parameter; 15] = &[
    STATE,
    Parameter::new("queue", "Of this queue, of any owner."),
    CLIENT,
    Parameter::new("type", "Of this type; under `/v1`, of this form."),
    Parameter::new("kind", "That simulate this kind of work."),
    Parameter::new("code", "That ended with this code."),
    Parameter::new("group", "That failed for the reason of this group of failures; listed oldest first."),
    Parameter::new("since", "Accepted at this moment or later.").schema(request::time),
    Parameter::new("until", "Accepted before this moment.").schema(request::time),
    Parameter::new("q", "Whose id, correlation id or type begins like this."),
    TAG,
    RETRYING,
    ID_SUFFIX,
    LIMIT,
    CURSOR,
];

/// Their names.
pub(in crate::dialects) const FILTERS: &[&str] = &names(SEARCH);

request_body! {
    /// Why a job is cancelled.
    CANCEL = "AdminCancelRequest" {
        /// In words.
        "reason": maybe(text()),
        /// Of a workflow: whether the compensations of steps that succeeded run; `true` by default.
        "compensate": maybe(truth()),
    }
    ; examples {"reason": {"value": {"reason": "submitted by mistake"}}}
}

/// Ids begin with the moment they were made, by the clock of their maker.
const CLOCKS_DIFFER: Duration = Duration::from_secs(3600);

/// Minimum hexadecimal digits for a search by id.
const ID_DIGITS_MIN: usize = 8;

/// `GET /admin/v1/jobs`: newest first. The cursor is the last job that was examined.
async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    Ok(respond::json(StatusCode::OK, &search(call.app, &query).await?))
}

/// A page of the jobs that match a query.
pub(in crate::dialects) async fn search(
    app: &App,
    query: &QueryString,
) -> Result<AdminPage<AdminJob>, ApiError> {
    let search = Search::of(query)?;
    if let Some(group) = query.get("group") {
        let group = group.parse().map_err(|_| query.invalid("group", "is no id of a group of failures"))?;
        return of_group(app, group, &search).await;
    }
    let mut narrow = search.clone();
    if narrow.narrow() {
        let page = page(app, narrow).await?;
        if !page.items.is_empty() {
            return Ok(page);
        }
        // No id begins like this, but a client's correlation id may.
    }
    page(app, search).await
}

/// `GET /admin/v1/dead-letters`: failed jobs without attempts left, newest first.
async fn dead_letters(call: Call<'_>) -> Result<Response, ApiError> {
    let query = call.query()?;
    let mut search = Search::of(&query)?;
    search.filter.states = vec![State::Failed];
    search.filter.dead = Some(true);
    Ok(respond::json(StatusCode::OK, &page(call.app, search).await?))
}

/// A search: the filter of the store, and what is filtered here.
#[derive(Clone)]
struct Search {
    filter: Filter,
    limit: usize,
    oldest: Option<JobId>,
    job_type: Option<String>,
    kind: Option<String>,
    code: Option<String>,
    since: Option<Time>,
    until: Option<Time>,
    beginning: Option<String>,
}

impl Search {
    fn of(query: &QueryString) -> Result<Search, ApiError> {
        let no_state = |word: &str| {
            let states = State::ALL.map(forge_state).join(", ");
            query.invalid("state", &format!("must be {states}, not `{}`", quoted(word)))
        };
        let states = query.all("state").map(|word| parse_forge_state(word).ok_or_else(|| no_state(word)));
        let states: Vec<State> = states.collect::<Result<_, _>>()?;
        let queue = match query.get("queue") {
            Some(name) => Some(Name::queue(name).map_err(|_| query.invalid("queue", BadQueueName::RULE))?),
            None => None,
        };
        let client = match query.get("client").map(str::parse::<ClientId>) {
            Some(Ok(client)) => Some(client),
            Some(Err(_)) => return Err(query.invalid("client", "is no id of a client")),
            None => None,
        };
        let cursor = match query.get("cursor").map(str::parse::<JobId>) {
            Some(Ok(cursor)) => Some(cursor),
            Some(Err(_)) => return Err(query.malformed("cursor", "is no cursor of this list")),
            None => None,
        };
        let (since, until) = (failures::moment(query, "since")?, failures::moment(query, "until")?);
        let text = |name: &str| query.get(name).map(str::to_owned);
        let (job_type, beginning) = (text("type"), text("q"));
        let newest = until.map(|until| JobId::v7((until + CLOCKS_DIFFER).unix_ms(), u128::MAX));
        let mut search = Search {
            limit: query.limit()?,
            oldest: since.map(|since| JobId::v7((since - CLOCKS_DIFFER).unix_ms(), 0)),
            kind: text("kind").map(|kind| kind.to_ascii_uppercase()),
            code: text("code"),
            since,
            until,
            beginning,
            filter: Filter {
                client,
                states,
                queue,
                // The form is not in the store's column of types.
                job_type: job_type.clone().filter(|word| parse_forge_type(word).is_none()),
                before: cursor.into_iter().chain(newest).min(),
                look_max: LIST_ROWS_MAX,
                ..Filter::default()
            },
            job_type,
        };
        search.filter.limit = search.limit;
        narrow(query, &mut search.filter)?;
        search.limit = search.filter.limit;
        Ok(search)
    }

    /// Restricts the search to ids with this beginning; returns false if there are none.
    fn narrow(&mut self) -> bool {
        let Some((first, last)) = self.beginning.as_deref().and_then(ids_from) else { return false };
        let end = JobId::from_u128(last.as_u128().saturating_add(1));
        self.filter.before = Some(self.filter.before.map_or(end, |before| before.min(end)));
        self.oldest = Some(self.oldest.map_or(first, |oldest| oldest.max(first)));
        true
    }

    fn fits(&self, job: &Job) -> bool {
        let kind = || job.head.definition.map(|definition| definition.work_kind.as_str());
        let begins = |beginning: &String| {
            let correlation = job.head.correlation_id.as_deref().unwrap_or_default();
            job.id.to_string().starts_with(&beginning.to_ascii_lowercase())
                || correlation.starts_with(beginning.as_str())
                || job_type(job).starts_with(beginning.as_str())
        };
        let created_at = job.head.created_at;
        self.job_type.as_deref().is_none_or(|wanted| job_type(job).eq_ignore_ascii_case(wanted))
            && self.kind.as_deref().is_none_or(|wanted| kind() == Some(wanted))
            && self.code.as_deref().is_none_or(|code| has_code(job, code))
            && self.since.is_none_or(|since| created_at >= since)
            && self.until.is_none_or(|until| created_at < until)
            && self.beginning.as_ref().is_none_or(begins)
    }
}

/// The range of ids with this beginning, if it is long enough and valid.
fn ids_from(beginning: &str) -> Option<(JobId, JobId)> {
    let digits: String = beginning.chars().filter(|c| *c != '-').collect();
    let is_id = (ID_DIGITS_MIN..=32).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
    if !is_id {
        return None;
    }
    let bound = |fill: char| {
        let rest: String = std::iter::repeat_n(fill, 32 - digits.len()).collect();
        u128::from_str_radix(&format!("{digits}{rest}"), 16).ok().map(JobId::from_u128)
    };
    Some((bound('0')?, bound('f')?))
}

async fn page(app: &App, search: Search) -> Result<AdminPage<AdminJob>, ApiError> {
    let (mut filter, limit) = (search.filter.clone(), search.limit);
    let (mut found, mut next): (Vec<Job>, Option<JobId>) = (Vec::new(), None);
    for _ in 0..PAGES_SCANNED_MAX {
        let page = app.engine.store().list_jobs(filter.clone()).await?;
        next = page.next.filter(|next| search.oldest.is_none_or(|oldest| *next >= oldest));
        filter.before = next;
        for job in page.rows {
            if search.oldest.is_some_and(|oldest| job.id < oldest) {
                next = None;
            } else if search.fits(&job) {
                found.push(job);
            }
        }
        // A search by the end of an id reads one page at most.
        if next.is_none() || found.len() >= limit || filter.id_suffix.is_some() {
            break;
        }
    }
    if found.len() > limit {
        found.truncate(limit);
        next = found.last().map(|job| job.id);
    }
    let items = shown(app, &found).await?;
    let next_cursor = next.map(|id| id.to_string());
    Ok(AdminPage { items, next_cursor })
}

/// A page of the failed jobs of a failure group, oldest first. The cursor is the last job that was
/// examined.
async fn of_group(app: &App, group: FailureId, search: &Search) -> Result<AdminPage<AdminJob>, ApiError> {
    let Search { filter, limit, .. } = search;
    let mut jobs = app.engine.store().failed_jobs(group, filter.before, limit + 1).await?;
    let has_more = jobs.len() > *limit;
    jobs.truncate(*limit);
    let next_cursor = jobs.last().filter(|_| has_more).map(|job| job.id.to_string());
    jobs.retain(|job| {
        search.fits(job)
            && filter.fits_inside(job)
            && filter.id_suffix.is_none_or(|suffix| suffix.is_end_of(job.id))
            && (filter.states.is_empty() || filter.states.contains(&job.state))
            && filter.client.is_none_or(|client| job.head.client == client)
            && filter.queue.as_ref().is_none_or(|queue| job.head.queue == *queue)
    });
    Ok(AdminPage { items: shown(app, &jobs).await?, next_cursor })
}

async fn shown(app: &App, jobs: &[Job]) -> Result<Vec<AdminJob>, ApiError> {
    let mut items: Vec<AdminJob> = jobs.iter().map(AdminJob::new).collect();
    app.client_names.fill(app, items.iter_mut().map(|item| (&item.client, &mut item.client_name))).await?;
    Ok(items)
}

/// The job in the path.
pub(in crate::dialects) async fn found(call: &Call<'_>) -> Result<Arc<Job>, ApiError> {
    let job = by_id(call.app, call.job()).await?;
    call.exchange.set_subject(RequestSubject::job(&job, false));
    Ok(job)
}

/// The job with an id; a malformed id is an unknown one (C-52).
pub(in crate::dialects) async fn by_id(app: &App, id: Option<JobId>) -> Result<Arc<Job>, ApiError> {
    let refused = || ApiError::from(forgerun_engine::Error::Refused(Refusal::NotFound));
    app.engine.store().job(id.ok_or_else(refused)?).await?.ok_or_else(refused)
}

/// `GET /admin/v1/jobs/{id}`.
async fn get(call: Call<'_>) -> Result<Response, ApiError> {
    let job = found(&call).await?;
    Ok(respond::json(StatusCode::OK, &detail(&call, &job).await?))
}

/// A job in full, with its input for operators who see contents.
pub(in crate::dialects) async fn detail(call: &Call<'_>, job: &Job) -> Result<AdminJobDetail, ApiError> {
    let app = call.app;
    let failure = match job.state {
        State::Failed | State::Canceled => app.engine.store().outcome(job.execution).await?,
        State::Created | State::Queued | State::Assigned | State::Running | State::Succeeded => None,
    };
    let failure = failure.and_then(|outcome| serde_json::from_slice(&outcome.object.bytes).ok());
    let inputs = app.engine.store().inputs(vec![job.id]).await?;
    let payload = inputs.first().map(|(_, input)| input.payload.as_slice()).unwrap_or_default();
    let shown_max = if call.sees_contents() { INPUT_SHOWN_BYTES_MAX } else { 0 };
    let mut detail = AdminJobDetail::new(job, failure).with_input(payload, shown_max);
    detail.job.client_name = app.client_names.get(app, job.head.client).await?;
    Ok(detail)
}

/// `POST /admin/v1/jobs/{id}/cancel`. An ended job stays as it is.
async fn cancel(call: Call<'_>) -> Result<Response, ApiError> {
    let reason: Option<String> = body::member(&call.body, "reason", "a string")?;
    let compensate: Option<bool> = body::member(&call.body, "compensate", "true or false")?;
    let job = found(&call).await?;
    let (job, _) = cancel_one(&call, job.id, reason, compensate.unwrap_or(true)).await?;
    Ok(respond::json(StatusCode::OK, &detail(&call, &job).await?))
}

/// Cancels a job: returns the job, and whether it changed. `compensate` is for workflows.
pub(in crate::dialects) async fn cancel_one(
    call: &Call<'_>,
    job: JobId,
    reason: Option<String>,
    compensate: bool,
) -> Result<(Job, bool), ApiError> {
    let cancel = Cancel {
        owned: Owned { job, client: None },
        execution: None,
        by: "operator".into(),
        reason: reason.unwrap_or_else(|| "cancelled by the operator".into()),
        compensate,
    };
    let (job, changed) = call.app.engine.act(Command::Cancel(cancel)).await?;
    if changed {
        audit::note(call.exchange, "cancel", &job.id.to_string());
    }
    Ok((job, changed))
}

/// `POST /admin/v1/jobs/{id}/retry`. A job without attempts left gets all of them again.
async fn retry(call: Call<'_>) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let job = found(&call).await?;
    let (job, _) = retry_one(&call, &job).await?;
    Ok(respond::json(StatusCode::OK, &detail(&call, &job).await?))
}

/// Retries a failed job: returns the job, and whether it changed.
pub(in crate::dialects) async fn retry_one(call: &Call<'_>, job: &Job) -> Result<(Job, bool), ApiError> {
    if matches!(job.state, State::Succeeded) {
        return Err(ApiError::from(forgerun_engine::Error::Refused(Refusal::WrongState(job.state))));
    }
    let afresh = job.retries_left() == Some(0);
    let owned = Owned { job: job.id, client: None };
    let (job, changed) = call.app.engine.retry(owned, afresh).await?;
    if changed {
        audit::note(call.exchange, "retry", &job.id.to_string());
    }
    Ok((job, changed))
}

/// `POST /admin/v1/jobs/{id}/pause` and `…/resume`: a workflow with all its steps.
async fn set_paused(call: Call<'_>, paused: bool) -> Result<Response, ApiError> {
    body::expect_object(&call.body)?;
    let job = found(&call).await?;
    let (job, _) = pause_one(&call, job.id, paused).await?;
    Ok(respond::json(StatusCode::OK, &detail(&call, &job).await?))
}

/// Pauses or resumes a job: returns the job, and whether it changed.
pub(in crate::dialects) async fn pause_one(
    call: &Call<'_>,
    job: JobId,
    paused: bool,
) -> Result<(Job, bool), ApiError> {
    let pause = JobPause { owned: Owned { job, client: None }, paused };
    let (job, changed) = call.app.engine.act(Command::Pause(pause)).await?;
    if changed {
        audit::note(call.exchange, if paused { "pause" } else { "resume" }, &job.id.to_string());
    }
    Ok((job, changed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_beginning_of_an_id_is_a_range_of_ids() {
        let (first, last) = ids_from("01890A5D-ac96").unwrap();
        assert_eq!(first.to_string(), "01890a5d-ac96-0000-0000-000000000000");
        assert_eq!(last.to_string(), "01890a5d-ac96-ffff-ffff-ffffffffffff");
        let whole = ids_from("01890a5d-ac96-774b-bcce-b302099a8057").unwrap();
        assert_eq!(whole.0, whole.1);
        for text in ["", "0189", "mail.send", "zzzzzzzzzz", "01890a5d-ac96-774b-bcce-b302099a80570"] {
            assert!(ids_from(text).is_none(), "{text}");
        }
    }
}
