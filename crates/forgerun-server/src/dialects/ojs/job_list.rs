//! Jobs by state, queue, type and time: the list, and what bulk calls work on.

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::job::{BadQueueName, Job, Name};
use forgerun_core::state::{Facet, State};
use forgerun_core::time::Time;
use forgerun_wire::ojs::job::{JobView, shown_type};
use forgerun_wire::ojs::server::Pagination;
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::request;
use forgerun_wire::time;
use serde::Serialize;

use super::queues::offset;
use super::scope::{CLIENT, CLIENT_OR_OPERATOR, PAGE, Scope};
use super::tenants;
use super::work::with_inputs_within;
use super::{objects, reply};
use crate::app::{App, Filter};
use crate::http::{
    ApiError,
    query::QueryString,
    routing::{
        Call, Reply, Route,
        operation::{Parameter, QUEUE, STATE},
    },
};
use crate::limits::{LIST_ROWS_MAX, OFFSET_MAX, PAGE_BYTES_MAX, PAGES_SCANNED_MAX};

pub(super) const ROUTES: &[Route] = &[
    Route::get("/ojs/v1/jobs", "list", |call| Box::pin(list(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsListJobs", "List the jobs of the caller, newest first.")
        .query(SEARCH)
        .replies(&[Reply::object(200, "A page.", &objects::JOBS)]),
    Route::get("/ojs/v1/admin/jobs", "list", |call| Box::pin(list(call)))
        .access(CLIENT_OR_OPERATOR)
        .operation("ojsListJobsAdmin", "List the jobs of the caller, newest first.")
        .query(SEARCH)
        .replies(&[Reply::object(200, "A page.", &objects::JOBS)]),
    Route::get("/ojs/v1/admin/tenants/{tenant}/jobs", "list", |call| Box::pin(list_of_tenant(call)))
        .access(CLIENT)
        .operation("ojsListJobsOfTenant", "List the jobs of a tenant, newest first.")
        .query(SEARCH)
        .replies(&[Reply::object(200, "A page.", &objects::JOBS)]),
];

const SEARCH: &[Parameter] = &[
    STATE,
    QUEUE,
    Parameter::new("type", "Only jobs of this type; with `*` at the end, of all that begin like this."),
    Parameter::new("since", "Accepted at this moment or later.").schema(request::time),
    Parameter::new("until", "Accepted before this moment.").schema(request::time),
    PAGE[0],
    PAGE[1],
    PAGE[2],
    PAGE[3],
    PAGE[4],
];

/// Which jobs are meant.
#[derive(Clone, Default)]
pub(super) struct JobSearch {
    /// In one of these states; empty means all.
    pub(super) words: Vec<StateWord>,
    pub(super) queue: Option<Name>,
    pub(super) job_type: Option<String>,
    pub(super) since: Option<Time>,
    pub(super) until: Option<Time>,
    /// Made by the schedule of this name.
    pub(super) schedule: Option<Name>,
    /// Only jobs with a unique key.
    pub(super) is_unique: bool,
}

impl JobSearch {
    fn of(query: &QueryString) -> Result<JobSearch, ApiError> {
        let word = |text: &str| StateWord::parse(text).ok_or_else(|| query.invalid("state", &states_rule()));
        let moment = |name: &str| match query.get(name) {
            None => Ok(None),
            Some(text) => match time::parse(text) {
                Some(at) => Ok(Some(at)),
                None => Err(query.malformed(name, "must be RFC 3339 with a zone")),
            },
        };
        Ok(JobSearch {
            words: query.all("state").map(word).collect::<Result<_, _>>()?,
            queue: match query.get("queue") {
                Some(name) => {
                    Some(Name::queue(name).map_err(|_| query.invalid("queue", BadQueueName::RULE))?)
                }
                None => None,
            },
            job_type: query.get("type").map(str::to_owned),
            since: moment("since")?,
            until: moment("until")?,
            schedule: None,
            is_unique: false,
        })
    }

    /// The states of jobs that have not ended.
    pub(super) fn open() -> Vec<StateWord> {
        use StateWord::{Active, Available, Pending, Retryable, Scheduled};
        vec![Scheduled, Pending, Available, Retryable, Active]
    }

    /// The stored states of the words; each holds jobs of other words too.
    fn states(&self) -> Vec<State> {
        let of_word = |word: &StateWord| match word {
            StateWord::Scheduled | StateWord::Pending => &[State::Created][..],
            StateWord::Available | StateWord::Retryable => &[State::Queued],
            StateWord::Active => &[State::Assigned, State::Running],
            // Batches of which some items failed.
            StateWord::Completed => &[State::Succeeded, State::Failed],
            StateWord::Discarded => &[State::Failed, State::Canceled],
            StateWord::Cancelled => &[State::Canceled],
        };
        let mut states: Vec<State> = self.words.iter().flat_map(of_word).copied().collect();
        states.sort_unstable_by_key(|state| *state as u8);
        states.dedup();
        states
    }

    /// Own jobs of workflows are no jobs of OJS.
    pub(super) fn fits(&self, scope: &Scope, job: &Job) -> bool {
        let is_type = |wanted: &String| match wanted.strip_suffix('*') {
            Some(beginning) => shown_type(&job.head).starts_with(beginning),
            None => shown_type(&job.head) == wanted,
        };
        let is_run = |wanted: &Name| job.head.schedule.as_ref().is_some_and(|run| run.name == *wanted);
        job.head.workflow_head.is_none()
            && (!self.is_unique || job.head.unique.is_some())
            && self.schedule.as_ref().is_none_or(is_run)
            && (scope.tenant.is_none() || scope.tenant == job.head.tenant)
            && (self.words.is_empty() || self.words.contains(&StateWord::of(job)))
            && self.job_type.as_ref().is_none_or(is_type)
            && self.since.is_none_or(|since| job.head.created_at >= since)
            && self.until.is_none_or(|until| job.head.created_at < until)
    }

    /// The newest jobs that fit, at most `n`, and where to go on. Short if too many rows were
    /// examined.
    pub(super) async fn find(
        &self,
        app: &App,
        scope: &Scope,
        before: Option<JobId>,
        n: usize,
    ) -> Result<(Vec<Job>, Option<JobId>), ApiError> {
        let mut filter = Filter {
            client: scope.client,
            states: self.states(),
            queue: self.queue.clone(),
            before,
            limit: n,
            look_max: LIST_ROWS_MAX,
            ..Filter::default()
        };
        let mut found = Vec::new();
        for _ in 0..PAGES_SCANNED_MAX {
            let page = app.engine.store().list_jobs(filter.clone()).await?;
            filter.before = page.next;
            found.extend(page.rows.into_iter().filter(|job| self.fits(scope, job)));
            if page.next.is_none() || found.len() >= n {
                break;
            }
        }
        let mut next = filter.before;
        if found.len() > n {
            found.truncate(n);
            next = found.last().map(|job| job.id);
        }
        Ok((found, next))
    }

    /// How many jobs fit by the counts of queues; `None` if the counts do not say it.
    async fn count(&self, app: &App, scope: &Scope) -> Result<Option<u64>, ApiError> {
        if self.job_type.is_some() || self.since.is_some() || self.until.is_some() || scope.client.is_none() {
            return Ok(None);
        }
        let owner = scope.owner()?;
        let key = self.queue.as_ref().map(|queue| owner.scoped(queue.as_str()));
        let is_meant =
            |facet: &Facet| self.words.is_empty() || self.words.contains(&StateWord::of_facet(*facet));
        let mut n = 0;
        for queue in app.engine.store().queues_of(&owner).await? {
            if key.as_ref().is_none_or(|key| *key == queue.queue) {
                let facets = Facet::ALL.into_iter().filter(is_meant);
                n += facets.map(|facet| queue.counts.at(facet)).sum::<i64>();
            }
        }
        Ok(u64::try_from(n).ok())
    }
}

/// What a state must be.
pub(super) fn states_rule() -> String {
    format!("must be {}", StateWord::ALL.map(StateWord::as_str).join(", "))
}

#[derive(Serialize)]
struct JobPage<'a> {
    jobs: &'a [JobView<'a>],
    items: &'a [JobView<'a>],
    total: u64,
    pagination: Pagination,
}

async fn list(call: Call<'_>) -> Result<Response, ApiError> {
    page(&call, &Scope::of(&call)?).await
}

async fn list_of_tenant(call: Call<'_>) -> Result<Response, ApiError> {
    let scope = Scope { tenant: Some(tenants::named(&call)?), ..Scope::of(&call)? };
    page(&call, &scope).await
}

/// A page of jobs. `cursor` is the last job that was examined.
async fn page(call: &Call<'_>, scope: &Scope) -> Result<Response, ApiError> {
    let (app, query) = (call.app, call.query()?);
    let (search, limit) = (JobSearch::of(&query)?, query.limit()?);
    let before: Option<JobId> = query.get("cursor").and_then(|cursor| cursor.parse().ok());
    let skipped = if before.is_some() { 0 } else { offset(&query, limit)? };
    if skipped > OFFSET_MAX {
        return Err(query.malformed("offset", "is too far; go on with cursor"));
    }
    let (found, mut next) = search.find(app, scope, before, skipped + limit).await?;
    let n_found = found.len();
    let shown: Vec<Job> = found.into_iter().skip(skipped).collect();
    let n_wanted = shown.len();
    let jobs = with_inputs_within(app, shown, PAGE_BYTES_MAX).await?;
    if jobs.len() < n_wanted {
        next = jobs.last().map(|(job, _)| job.id);
    }
    let n_seen = (n_found + usize::from(next.is_some())) as u64;
    let counted = if next.is_some() || before.is_some() { search.count(app, scope).await? } else { None };
    let mut page = Pagination::new(counted.unwrap_or(0).max(n_seen), limit, skipped);
    page.total_is_minimum = counted.is_none() && (next.is_some() || before.is_some());
    page.has_more = next.is_some();
    page.next_cursor = next.map(|id| id.to_string());
    let views: Vec<JobView<'_>> = jobs.iter().map(|(job, input)| JobView::new(job, input)).collect();
    Ok(reply::ok(&JobPage { jobs: &views, items: &views, total: page.total, pagination: page }))
}

/// A job that is not in the list of what may be done to it.
pub(super) const NOT_POSSIBLE: &[Kind] =
    &[Kind::IllegalTransition, Kind::RetryLimitReached, Kind::Duplicate, Kind::AlreadyCancelled];
