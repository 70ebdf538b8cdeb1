//! Deletes jobs of a queue that have ended, and queues without other jobs.

use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::command::QueueChange;
use forgerun_core::rows::Activity;
use forgerun_wire::ojs::members::{Members, ViolationList};
use forgerun_wire::ojs::state::StateWord;
use forgerun_wire::problem::RefusedRequest;
use serde_json::json;

use super::bulk::{Action, moment, of_jobs};
use super::job_list::{JobSearch, states_rule};
use super::queues::{self, Found, named};
use super::reply;
use super::scope::Scope;
use crate::http::{ApiError, routing::Call};
use crate::limits::OJS_BULK_JOBS_MAX;

/// The states of jobs that have ended.
const ENDED: [StateWord; 3] = [StateWord::Completed, StateWord::Cancelled, StateWord::Discarded];

/// Which jobs of the queue to delete: all that have ended, if the body does not say.
fn read(call: &Call<'_>, confirmed: bool) -> Result<JobSearch, ApiError> {
    let mut search = JobSearch { words: ENDED.to_vec(), ..JobSearch::default() };
    if call.body.is_empty() && !confirmed {
        return Ok(search);
    }
    let kind = Kind::MalformedRequest;
    let members = Members::of_body(&call.body)?;
    let mut violations = ViolationList::default();
    if confirmed && members.get("confirm").is_none_or(|confirm| confirm.get() != "true") {
        violations.add(kind, "confirm", "must be true: this deletes jobs", "required");
    }
    if let Some(value) = members.get("states") {
        let texts: Vec<String> = serde_json::from_str(value.get()).unwrap_or_default();
        let words: Option<Vec<StateWord>> = texts.iter().map(|text| StateWord::parse(text)).collect();
        match words.filter(|words| !words.is_empty()) {
            None => violations.add_value(kind, "states", value, format!("entries {}", states_rule()), "enum"),
            Some(words) if words.iter().all(|word| ENDED.contains(word)) => search.words = words,
            Some(_) => {
                let detail = "must be of completed, cancelled, discarded: other jobs have not ended";
                violations.add_value(kind, "states", value, detail, "enum");
            }
        }
    }
    let older: Option<String> =
        violations.typed(kind, "older_than", members.get("older_than"), "a time or a duration");
    if let Some(older) = older {
        search.until = moment(&older, call.app.clock.now());
        if search.until.is_none() {
            violations.add(kind, "older_than", "must be RFC 3339, or how long ago, such as 7d", "format");
        }
    }
    Ok(violations.settle(Some(search))?)
}

/// `confirmed`: whether the request must say `"confirm": true`.
pub(super) async fn purge(call: Call<'_>, confirmed: bool) -> Result<Response, ApiError> {
    let (scope, queue) = (Scope::of(&call)?, named(&call)?);
    let search = JobSearch { queue: Some(queue), ..read(&call, confirmed)? };
    let (jobs, next) = search.find(call.app, &scope, None, OJS_BULK_JOBS_MAX).await?;
    of_jobs(&call, Action::Delete, jobs, next.is_some()).await
}

/// Deletes a queue. Jobs that have not ended keep it.
pub(super) async fn delete(call: Call<'_>) -> Result<Response, ApiError> {
    let (app, scope, name) = (call.app, Scope::of(&call)?, named(&call)?);
    let found = Found::read(app, &scope.owner()?, name.clone()).await?;
    let n_open = found.view(Activity::default()).numbers.open();
    if n_open > 0 {
        let detail = format!("The queue has {n_open} jobs that have not ended; cancel them first.");
        return Err(RefusedRequest::new(Kind::IllegalTransition, detail).fact("open_jobs", n_open).into());
    }
    let forget = QueueChange { forget: true, ..QueueChange::default() };
    queues::set(app, &scope, name.clone(), forget).await?;
    let search = JobSearch { queue: Some(name.clone()), words: ENDED.to_vec(), ..JobSearch::default() };
    let (jobs, next) = search.find(app, &scope, None, OJS_BULK_JOBS_MAX).await?;
    let n_jobs = jobs.len();
    of_jobs(&call, Action::Delete, jobs, next.is_some()).await?;
    Ok(reply::ok(&json!({
        "deleted": true,
        "name": name.as_str(),
        "jobs_deleted": n_jobs,
        "has_more": next.is_some(),
    })))
}
