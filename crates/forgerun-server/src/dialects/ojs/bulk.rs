//! Many jobs at once, by their ids or by a filter: retry, cancel, delete. Each job is changed by a
//! command of its own; one that cannot be changed is skipped and named.

use std::collections::HashSet;

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, Owned, Retry};
use forgerun_core::id::JobId;
use forgerun_core::job::{BadQueueName, Job, Name};
use forgerun_core::scope::KeyScope;
use forgerun_core::time::Time;
use forgerun_core::{Answer, Command};
use forgerun_wire::body::quoted;
use forgerun_wire::ojs::duration;
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::time;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::dead_letters::oldest;
use super::job_list::{JobSearch, states_rule};
use super::scope::{CLIENT, Scope};
use super::{objects, refusals, reply};
use crate::app::App;
use crate::http::{
    ApiError,
    routing::{Call, Reply, Route},
};
use crate::limits::OJS_BULK_JOBS_MAX;

pub(super) const ROUTES: &[Route] = &[
    Route::post("/ojs/v1/jobs/bulk/retry", "retry", |call| Box::pin(run(call, Action::Retry, false)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsRetryJobs", "Retry many discarded jobs.")
        .body(&objects::BULK_CHANGE)
        .replies(ANSWER),
    Route::post("/ojs/v1/jobs/bulk/cancel", "cancel", |call| Box::pin(run(call, Action::Cancel, false)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsCancelJobs", "Cancel many jobs.")
        .body(&objects::BULK_CHANGE)
        .replies(ANSWER),
    Route::post("/ojs/v1/jobs/bulk/delete", "delete", |call| Box::pin(run(call, Action::Delete, false)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsDeleteJobs", "Delete many jobs that have ended.")
        .body(&objects::BULK_CHANGE)
        .replies(ANSWER),
    Route::post("/ojs/v1/admin/jobs/bulk/retry", "retry", |call| Box::pin(run(call, Action::Retry, true)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsRetryBulk", "Retry many dead letters.")
        .body(&objects::BULK_CHANGE)
        .replies(ANSWER),
    Route::post("/ojs/v1/admin/jobs/bulk/cancel", "cancel", |call| Box::pin(run(call, Action::Cancel, true)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsCancelBulk", "Cancel many jobs.")
        .body(&objects::BULK_CHANGE)
        .replies(ANSWER),
    Route::post("/ojs/v1/admin/jobs/bulk/delete", "delete", |call| Box::pin(run(call, Action::Delete, true)))
        .access(CLIENT)
        .scope(KeyScope::Submit)
        .operation("ojsDeleteBulk", "Delete many jobs that have ended.")
        .body(&objects::BULK_CHANGE)
        .replies(ANSWER),
];

/// What became of the jobs.
pub(super) const ANSWER: &[Reply] =
    &[Reply::object(200, "How many were changed, and which were not.", &objects::FACTS)];

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Retry,
    Cancel,
    Delete,
}

impl Action {
    const fn word(self) -> &'static str {
        match self {
            Action::Retry => "retry",
            Action::Cancel => "cancel",
            Action::Delete => "delete",
        }
    }

    /// The name of the number of jobs that were changed.
    const fn done(self) -> &'static str {
        match self {
            Action::Retry => "retried",
            Action::Cancel => "cancelled",
            Action::Delete => "deleted",
        }
    }

    /// The states of jobs that it can change.
    const fn states(self) -> &'static [StateWord] {
        match self {
            Action::Retry => &[StateWord::Discarded],
            Action::Cancel => &[
                StateWord::Scheduled,
                StateWord::Pending,
                StateWord::Available,
                StateWord::Retryable,
                StateWord::Active,
            ],
            Action::Delete => &[StateWord::Completed, StateWord::Cancelled, StateWord::Discarded],
        }
    }

    fn command(self, app: &App, owned: Owned) -> Command {
        match self {
            Action::Retry => Command::Retry(Retry {
                owned,
                execution: app.engine.execution_id(),
                afresh: true,
                dead_letter: false,
                from: None,
            }),
            Action::Cancel => {
                let (by, reason) = ("user".to_owned(), "cancelled in bulk".to_owned());
                Command::Cancel(Cancel { owned, execution: None, by, reason, compensate: true })
            }
            Action::Delete => Command::Forget(owned),
        }
    }
}

/// Which jobs a request means.
enum Selection {
    Ids(Vec<String>),
    Filter(JobSearch),
}

const MEMBERS: [&str; 7] =
    ["job_ids", "filter", "confirm", "atomicity", "idempotency_key", "reason", "dry_run"];

const FILTERS: [&str; 8] =
    ["state", "queue", "type", "since", "until", "older_than", "enqueued_after", "enqueued_before"];

/// Refuses unknown members: an ignored filter would match other jobs.
fn refuse_strangers(members: &Members<'_>, at: &str, known: &[&str], violations: &mut ViolationList) {
    for (name, _) in members.0.iter().filter(|(name, _)| !known.contains(&name.as_ref())) {
        let detail = format!("is unknown; expected {}", known.join(", "));
        violations.add(Kind::MalformedRequest, &format!("{at}{}", quoted(name)), detail, "unknown");
    }
}

/// A moment, or how long ago it was.
pub(super) fn moment(text: &str, now: Time) -> Option<Time> {
    time::parse(text).or_else(|| {
        let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
        let ago = days.map(|days| std::time::Duration::from_secs(days * 86_400));
        Some(now - ago.or_else(|| duration::parse(text))?)
    })
}

struct SelectionReader<'v> {
    action: Action,
    now: Time,
    violations: &'v mut ViolationList,
}

impl SelectionReader<'_> {
    fn ids(&mut self, value: &RawValue) -> Selection {
        let kind = Kind::MalformedRequest;
        let ids: Option<Vec<String>> = self.violations.typed(kind, "job_ids", Some(value), "a list of ids");
        let ids = ids.unwrap_or_default();
        if ids.len() > OJS_BULK_JOBS_MAX {
            let detail = format!("must have at most {OJS_BULK_JOBS_MAX} ids");
            self.violations.add(Kind::JobPayloadTooLarge, "job_ids", detail, "maxItems");
        }
        Selection::Ids(ids)
    }

    fn filter(&mut self, value: &RawValue) -> Selection {
        let kind = Kind::MalformedRequest;
        let filter = Members::of_value(value).unwrap_or_else(|| {
            self.violations.add_value(kind, "filter", value, "must be an object", "type");
            Members::default()
        });
        refuse_strangers(&filter, "filter.", &FILTERS, self.violations);
        if self.violations.is_empty() && FILTERS.iter().all(|name| filter.get(name).is_none()) {
            let detail = format!("must say which jobs: one of {}", FILTERS.join(", "));
            self.violations.add(kind, "filter", detail, "required");
        }
        let queue: Option<String> =
            self.violations.typed(kind, "filter.queue", filter.get("queue"), "a string");
        let queue = queue.map(|name| Name::queue(&name)).transpose().unwrap_or_else(|_| {
            self.violations.add(kind, "filter.queue", BadQueueName::RULE, "pattern");
            None
        });
        let job_type: Option<String> =
            self.violations.typed(kind, "filter.type", filter.get("type"), "a string");
        let words = self.states(&filter);
        let since = self.moment(&filter, &["since", "enqueued_after"]);
        let until = self.moment(&filter, &["until", "enqueued_before", "older_than"]);
        Selection::Filter(JobSearch { words, queue, job_type, since, until, ..JobSearch::default() })
    }

    fn moment(&mut self, filter: &Members<'_>, names: &[&str]) -> Option<Time> {
        let (name, value) = names.iter().find_map(|name| Some((name, filter.get(name)?)))?;
        let path = format!("filter.{name}");
        let text: String =
            self.violations.typed(Kind::MalformedRequest, &path, Some(value), "a time or a duration")?;
        let at = moment(&text, self.now);
        if at.is_none() {
            let detail = "must be RFC 3339 with a zone, or how long ago, such as 7d or PT1H";
            self.violations.add_value(Kind::MalformedRequest, &path, value, detail, "format");
        }
        at
    }

    /// The states of the filter, one or a list; those of the action if it names none.
    fn states(&mut self, filter: &Members<'_>) -> Vec<StateWord> {
        let possible = self.action.states();
        let Some(value) = filter.get("state") else { return possible.to_vec() };
        let one: Option<String> = serde_json::from_str(value.get()).ok();
        let texts: Vec<String> = match one {
            Some(text) => vec![text],
            None => serde_json::from_str(value.get()).unwrap_or_default(),
        };
        let words: Option<Vec<StateWord>> = texts.iter().map(|text| StateWord::parse(text)).collect();
        let words = words.filter(|words| !words.is_empty());
        let kind = Kind::MalformedRequest;
        match words {
            None => self.violations.add_value(kind, "filter.state", value, states_rule(), "enum"),
            Some(words) if words.iter().all(|word| possible.contains(word)) => return words,
            Some(_) => {
                let names: Vec<&str> = possible.iter().map(|word| word.as_str()).collect();
                let detail = format!("must be {}: no other jobs can be changed so", names.join(" or "));
                self.violations.add_value(kind, "filter.state", value, detail, "enum");
            }
        }
        Vec::new()
    }
}

fn read(body: &[u8], action: Action, confirmed: bool, now: Time) -> Result<Selection, ApiError> {
    let kind = Kind::MalformedRequest;
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    if confirmed && members.get("confirm").is_none_or(|confirm| confirm.get() != "true") {
        violations.add(kind, "confirm", "must be true: this changes many jobs", "required");
    }
    refuse_strangers(&members, "", &MEMBERS, &mut violations);
    if members.get("atomicity").is_some_and(|value| value.get() != "\"partial\"") {
        let detail = "must be partial: each job is changed on its own";
        violations.add(Kind::UnsupportedFeature, "atomicity", detail, "unsupported");
    }
    let mut reader = SelectionReader { action, now, violations: &mut violations };
    let selection = match (members.get("job_ids"), members.get("filter")) {
        (Some(ids), None) => Some(reader.ids(ids)),
        (None, Some(filter)) => Some(reader.filter(filter)),
        (Some(_), Some(_)) => {
            violations.add(kind, "filter", "must not be given beside job_ids", "unsupported");
            None
        }
        (None, None) => {
            violations.add(kind, "filter", "is required, or job_ids", "required");
            None
        }
    };
    Ok(violations.settle(selection)?)
}

/// `confirmed`: whether the request must say `"confirm": true`.
async fn run(call: Call<'_>, action: Action, confirmed: bool) -> Result<Response, ApiError> {
    let (app, scope) = (call.app, Scope::of(&call)?);
    match read(&call.body, action, confirmed, app.clock.now())? {
        Selection::Ids(ids) => of_ids(&call, &scope, action, &ids).await,
        Selection::Filter(search) if action == Action::Retry => of_dead(&call, action, &search).await,
        Selection::Filter(search) => {
            let (jobs, next) = search.find(app, &scope, None, OJS_BULK_JOBS_MAX).await?;
            of_jobs(&call, action, jobs, next.is_some()).await
        }
    }
}

/// Retries dead letters by a filter; all of them if the body is empty or has no filter.
pub(super) async fn retry_dead(call: Call<'_>) -> Result<Response, ApiError> {
    let has_filter = |members: &Members<'_>| members.has("filter") || members.has("job_ids");
    if !call.body.is_empty() && has_filter(&Members::of_body(&call.body)?) {
        return run(call, Action::Retry, false).await;
    }
    let search = JobSearch { words: Action::Retry.states().to_vec(), ..JobSearch::default() };
    of_dead(&call, Action::Retry, &search).await
}

/// Deletes dead letters, all or those from before a time.
pub(super) async fn delete_dead(call: Call<'_>, confirmed: bool) -> Result<Response, ApiError> {
    let (query, kind) = (call.query()?, Kind::MalformedRequest);
    let members = match call.body.is_empty() {
        true => Members::default(),
        false => Members::of_body(&call.body)?,
    };
    let mut violations = ViolationList::default();
    if confirmed && members.get("confirm").is_none_or(|confirm| confirm.get() != "true") {
        violations.add(kind, "confirm", "must be true: this deletes jobs", "required");
    }
    let of_body: Option<String> =
        violations.typed(kind, "older_than", members.get("older_than"), "a time or a duration");
    let older = of_body.or_else(|| query.get("older_than").map(str::to_owned));
    let until = older.as_ref().and_then(|text| moment(text, call.app.clock.now()));
    if older.is_some() && until.is_none() {
        violations.add(kind, "older_than", "must be RFC 3339, or how long ago, such as 7d", "format");
    }
    violations.settle(Some(()))?;
    let search = JobSearch { words: vec![StateWord::Discarded], until, ..JobSearch::default() };
    of_dead(&call, Action::Delete, &search).await
}

/// Changes dead letters, the oldest first.
async fn of_dead(call: &Call<'_>, action: Action, search: &JobSearch) -> Result<Response, ApiError> {
    let scope = Scope::of(call)?;
    let mut jobs = oldest(call.app, &scope, search.queue.clone(), None, OJS_BULK_JOBS_MAX + 1).await?;
    let has_more = jobs.len() > OJS_BULK_JOBS_MAX;
    jobs.truncate(OJS_BULK_JOBS_MAX);
    jobs.retain(|job| search.fits(&scope, job));
    of_jobs(call, action, jobs, has_more).await
}

async fn of_ids(
    call: &Call<'_>,
    scope: &Scope,
    action: Action,
    ids: &[String],
) -> Result<Response, ApiError> {
    let app = call.app;
    let known: Vec<JobId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
    let jobs = app.engine.store().jobs_by_id(known).await?;
    let mut changes = BulkChanges::new(action, ids.len());
    let seen: HashSet<JobId> = jobs.iter().filter(|job| scope.sees(job)).map(|job| job.id).collect();
    for (index, id) in ids.iter().enumerate() {
        if id.parse().ok().is_none_or(|id| !seen.contains(&id)) {
            changes.skip(index, id, "There is no such job.");
        }
    }
    let place = |job: &Job| ids.iter().position(|id| id.parse() == Ok(job.id)).unwrap_or(0);
    let mut jobs: Vec<(usize, Job)> =
        jobs.into_iter().filter(|job| seen.contains(&job.id)).map(|job| (place(&job), job)).collect();
    jobs.sort_by_key(|(index, _)| *index);
    changes.apply(call, jobs).await?;
    Ok(reply::ok(&changes.answer(false)))
}

/// Changes these jobs. `has_more`: whether others match that are not among them.
pub(super) async fn of_jobs(
    call: &Call<'_>,
    action: Action,
    jobs: Vec<Job>,
    has_more: bool,
) -> Result<Response, ApiError> {
    let mut changes = BulkChanges::new(action, jobs.len());
    changes.apply(call, jobs.into_iter().enumerate().collect()).await?;
    Ok(reply::ok(&changes.answer(has_more)))
}

/// What becomes of the jobs of one request.
struct BulkChanges {
    action: Action,
    matched: usize,
    items: Vec<(usize, Value)>,
    errors: Vec<Value>,
}

impl BulkChanges {
    fn new(action: Action, matched: usize) -> BulkChanges {
        BulkChanges { action, matched, items: Vec::new(), errors: Vec::new() }
    }

    fn skip(&mut self, index: usize, id: &str, reason: &str) {
        let id: String = id.chars().filter(|c| !c.is_control()).take(64).collect();
        self.errors.push(json!({"job_id": id, "error": reason}));
        let item = json!({"index": index, "job_id": id, "status": "skipped", "reason": reason});
        self.items.push((index, item));
    }

    async fn apply(&mut self, call: &Call<'_>, jobs: Vec<(usize, Job)>) -> Result<(), ApiError> {
        let (app, action) = (call.app, self.action);
        let (possible, others): (Vec<_>, Vec<_>) =
            jobs.into_iter().partition(|(_, job)| action.states().contains(&StateWord::of(job)));
        for (index, job) in others {
            let reason = format!("The job is {}.", StateWord::of(&job).as_str());
            self.skip(index, &job.id.to_string(), &reason);
        }
        let command = |(_, job): &(usize, Job)| {
            action.command(app, Owned { job: job.id, client: Some(job.head.client) })
        };
        let answers = app.engine.run_each(possible.iter().map(command).collect()).await;
        for ((index, job), answer) in possible.into_iter().zip(answers) {
            let id = job.id.to_string();
            let answer = match answer {
                Ok(Answer::Refused(refusal)) => Err(forgerun_engine::Error::Refused(refusal)),
                answer => answer,
            };
            match answer {
                Ok(_) => {
                    let item = json!({"index": index, "job_id": id, "status": action.done()});
                    self.items.push((index, item));
                }
                // Another request changed it meanwhile.
                Err(error @ forgerun_engine::Error::Refused(_)) => {
                    let refused = refusals::of_engine(app, error).into_parts().0;
                    self.skip(index, &id, &refused.detail);
                }
                Err(error) => return Err(refusals::of_engine(app, error)),
            }
        }
        Ok(())
    }

    fn answer(mut self, has_more: bool) -> Value {
        self.items.sort_by_key(|(index, _)| *index);
        let (n_failed, n_items) = (self.errors.len(), self.items.len());
        let items: Vec<Value> = self.items.into_iter().map(|(_, item)| item).collect();
        json!({
            "action": self.action.word(),
            "matched": self.matched,
            "total_matched": self.matched,
            "succeeded": n_items - n_failed,
            self.action.done(): n_items - n_failed,
            "failed": n_failed,
            "skipped": n_failed,
            "errors": self.errors,
            "items": items,
            "has_more": has_more,
        })
    }
}
