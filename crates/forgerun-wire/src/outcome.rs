//! The last word on an execution: built once when it ends, stored as canonical bytes, and served as they are on every
//! road. Failures are problem objects with the async-job members; successes are plain JSON.
//!
//! Its `code`, `instance` and language are those of the request that submitted the job (ruling C-96).

use std::borrow::Cow;

use forgerun_core::catalog::Kind;
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{AttemptError, Dialect, Job};
use forgerun_core::retry::{Jitter, RetryPolicy};
use forgerun_core::rows::{Object, Render};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_problem::{CorrelationId, Digest, Problem, Timestamp};
use serde_json::{Value, json};

use crate::event::{EventMembers, MemberValue};
use crate::item::{self, Listing};
use crate::language::{self, Language};
use crate::{event, operations, status, time, words};

/// Builds outcomes for a server at this address.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// The public address without a trailing slash, or empty for references that are relative to the server.
    pub base: String,
    /// What `status` says.
    pub status: ReportStatus,
    /// Failures tell their times in whole seconds, so that they give away less of how long the work took.
    pub coarse_times: bool,
}

/// The `status` of a stored failure (ruling C-09).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReportStatus {
    /// The code that a synchronous answer would have had.
    #[default]
    Equivalent,
    /// The code of the answer that carries the object, which is 200: reading about a failure succeeds.
    Http,
    /// None, for consumers that hold it against the 200 of a poll.
    Omit,
}

impl Render for Outcomes {
    fn outcome(&self, job: &Job, items: &[ItemEnd]) -> Object {
        let bytes = match job.state {
            State::Failed | State::Canceled => self.failure(job, items).to_canonical_json().into_bytes(),
            State::Created | State::Queued | State::Assigned | State::Running | State::Succeeded => {
                self.success(job, items).into_canonical()
            }
        };
        let digest = Digest::of(&bytes).0;
        Object { bytes, digest }
    }
}

impl Outcomes {
    /// The problem object of a job that failed, timed out or was cancelled. `items` tells how the items of a batch ended.
    pub fn failure(&self, job: &Job, items: &[ItemEnd]) -> Problem {
        let (kind, mut message) = what_went_wrong(job);
        let listing = Listing::of(items);
        message.push_str(listing.remark);
        let language = spoken(job, kind, &message, &listing);
        let (entry, dialect) = (kind.entry(), job.head.dialect);
        let mut members = forgerun_problem::Job::builder()
            .id(job.execution.to_string())
            .status(words::job_status(job))
            .submitted_at(self.moment(job.head.created_at))
            .completed_at(self.moment(job.finished_at.unwrap_or(job.updated_at)))
            .retryable(retryable(job, kind))
            .processing_stage(stage(job, kind))
            .correlation_id(job.head.correlation_id.as_deref().and_then(CorrelationId::sanitize));
        if !listing.shown.is_empty() {
            members = members.results(listing.shown.iter().map(|end| item::outcome(end, language)));
        }
        if retryable(job, kind) {
            members = members.retry_after_s(retry_after_s(job));
        }
        let mut builder = Problem::builder(format!("{}/problems/{}", self.base, entry.slug))
            .title(language::words(kind, language).title)
            .detail(language::phrase(kind, &message, language).unwrap_or_else(|| message.clone()))
            .instance(format!("{}{}", self.base, status_path(job)))
            .job(members)
            .extension("code", status::code(kind, dialect))
            .extension("rfa_code", entry.rfa)
            .extension("ojs_code", entry.ojs_or_custom())
            .extension("message", message)
            .extension("details", json!({"attempt": job.attempt}))
            .extension("doc_url", crate::problem::doc_url(kind, &self.base));
        match self.status {
            ReportStatus::Equivalent => builder = builder.status(status::http(kind, dialect)),
            ReportStatus::Http => builder = builder.status(200),
            ReportStatus::Omit => {}
        }
        if job.head.items.is_some() {
            builder = builder.extension("itemsUrl", self.items_url(job));
        }
        if let Some(event) = job.history.events().last() {
            for (name, value) in event::members(job, &event) {
                let value = match name {
                    "timestamp" if self.coarse_times => self.moment(event.at).to_string().into(),
                    _ => Value::from(value),
                };
                builder = builder.extension(name, value);
            }
        }
        builder.build().expect("every member is of our own making; what a worker said is only text")
    }

    fn moment(&self, at: Time) -> Timestamp {
        let moment = time::timestamp(at);
        if self.coarse_times { moment.cut_to_seconds() } else { moment }
    }

    fn success<'a>(&self, job: &'a Job, items: &[ItemEnd]) -> EventMembers<'a> {
        let last = job.history.events().last();
        let mut object = last.map_or_else(EventMembers::default, |event| event::object(job, &event));
        if job.result.is_some() {
            object.put("resultUrl", format!("{}{}", self.base, result_path(job)));
        }
        if job.head.items.is_some() {
            object.put("itemsUrl", self.items_url(job));
            let shown = Listing::of(items).shown;
            let shown =
                shown.into_iter().map(|end| json!({"itemId": end.id, "status": item::status(end).as_str()}));
            object.put("results", MemberValue::Value(shown.collect()));
        }
        object
    }

    /// Where all items of a batch are listed, in the dialect that submitted it.
    fn items_url(&self, job: &Job) -> String {
        let path = match job.head.dialect {
            // One job, several executions: the list that is meant is that of this one, whatever follows.
            Dialect::Forge => format!("/v1/jobs/{}/items?execution={}", job.id, job.execution),
            Dialect::Operations | Dialect::Ojs => format!("/api/v1/jobs/{}/items", job.execution),
        };
        format!("{}{path}", self.base)
    }
}

/// Where the job's status is read in the dialect that submitted it.
pub fn status_path(job: &Job) -> String {
    match job.head.dialect {
        Dialect::Forge => format!("/v1/jobs/{}", job.id),
        Dialect::Operations => format!("/api/v1/jobs/{}", job.execution),
        Dialect::Ojs => format!("/ojs/v1/jobs/{}", job.id),
    }
}

/// Where the result of the job's execution is, in the dialect that submitted it.
fn result_path(job: &Job) -> String {
    match job.head.dialect {
        Dialect::Forge => format!("/v1/jobs/{}/result", job.id),
        Dialect::Operations => operations::result_path(job, job.execution),
        Dialect::Ojs => format!("/ojs/v1/jobs/{}/result", job.id),
    }
}

/// The language of the submission, if everything there is to say can be said in it. What a worker says in its own words is
/// not translated, and then the object is English: it is in one language.
fn spoken(job: &Job, kind: Kind, message: &str, listing: &Listing<'_>) -> Language {
    let wanted = job.head.language.as_deref().and_then(Language::parse).unwrap_or_default();
    let can_say = |kind, message: &str| language::phrase(kind, message, wanted).is_some();
    let mut of_items = listing.shown.iter().filter_map(|end| end.error.as_ref());
    let all = can_say(kind, message) && of_items.all(|error| can_say(error.kind, item::said(error)));
    if all { wanted } else { Language::English }
}

/// The language a stored object is written in: `Content-Language` on every road. Its title tells.
pub fn language(object: &[u8]) -> Language {
    #[derive(serde::Deserialize)]
    struct Titled<'a> {
        #[serde(borrow)]
        title: Option<Cow<'a, str>>,
    }
    let titled: Option<Titled<'_>> = serde_json::from_slice(object).ok();
    titled.and_then(|object| object.title).map_or(Language::English, |title| language::of_title(&title))
}

/// The kind of failure, and an English sentence about it. What a worker outside says of its own failure is for the job's owner; what
/// the server says comes from the catalog and names nothing internal.
pub fn what_went_wrong(job: &Job) -> (Kind, String) {
    match (job.state, &job.cancel, job.last_error()) {
        (State::Canceled, _, _) if job.expired => {
            (Kind::Cancelled, "The job was cancelled by system: not begun before it expired.".into())
        }
        (State::Canceled, Some(cancel), _) if cancel.by == "system" && cancel.reason == "deadline" => {
            (Kind::Cancelled, "The job was cancelled by system: not ended before its deadline.".into())
        }
        (State::Canceled, Some(cancel), _) => (
            Kind::Cancelled,
            format!("The job was cancelled by {}: {}.", cancel.by, cancel.reason.trim_end_matches('.')),
        ),
        (_, _, Some(error)) => (error.kind, said(error)),
        (_, _, None) => (Kind::HandlerError, Kind::HandlerError.entry().meaning.into()),
    }
}

/// What is said about a failed attempt: the worker's words, or else the catalog's.
pub(crate) fn said(error: &AttemptError) -> String {
    if error.message.is_empty() { error.kind.entry().meaning.into() } else { error.message.clone() }
}

/// Whether submitting the same work again is worth it.
pub fn retryable(job: &Job, kind: Kind) -> bool {
    kind != Kind::Cancelled && job.last_error().is_some_and(|error| error.retryable)
}

/// How long to wait before doing so: the next wait of the policy, without chance.
pub fn retry_after_s(job: &Job) -> u64 {
    wait_s(&job.head.retry, job.attempt)
}

/// How long a policy waits after this attempt, without chance, in whole seconds.
pub(crate) fn wait_s(policy: &RetryPolicy, attempt: u32) -> u64 {
    let policy = RetryPolicy { jitter: Jitter::None, ..policy.clone() };
    policy.delay(attempt, 0).as_secs_f64().ceil().max(1.0) as u64
}

/// The stage a failed job had reached.
pub fn stage(job: &Job, kind: Kind) -> &'static str {
    match kind.entry().stage {
        Some(stage) => stage.as_str(),
        None if job.started_at.is_some() => "processing",
        None => "queuing",
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use forgerun_core::Command;
    use forgerun_core::command::{Output, Succeed};
    use forgerun_core::job::Head;

    use super::*;
    use crate::example::ExampleJob;

    #[test]
    fn a_success_links_its_result_in_the_dialect_that_submitted_it() {
        let ended = |head: fn(&mut Head), output: Option<Output>| {
            let outcomes = Outcomes { base: "https://forge.example".into(), ..Outcomes::default() };
            let story = ExampleJob::begin(outcomes, head).begins();
            let succeed = Succeed { held: story.held(), output: output.map(Arc::new) };
            let story = story.then(Command::Succeed(succeed));
            let outcome = story.told().last().and_then(|told| told.outcome.clone()).unwrap();
            let object: Value = serde_json::from_slice(&outcome.bytes).unwrap();
            (object["resultUrl"].clone(), story.job().clone())
        };
        let output = || Some(Output::inline("application/json", "7"));
        let (url, job) = ended(|head| head.dialect = Dialect::Forge, output());
        assert_eq!(url, format!("https://forge.example/v1/jobs/{}/result", job.id));
        let (url, job) = ended(|head| head.dialect = Dialect::Operations, output());
        assert_eq!(url, format!("https://forge.example/api/v1/jobs/{}/result", job.execution));
        let (url, job) = ended(|head| head.dialect = Dialect::Ojs, output());
        assert_eq!(url, format!("https://forge.example/ojs/v1/jobs/{}/result", job.id));
        assert_eq!(ended(|_| {}, None).0, Value::Null, "it left none");
    }
}
