//! The job object of OJS: a superset that the published cases and all SDKs read.
//!
//! What has not happened yet is left out rather than null. `attempt` counts the attempts handed out (C-104). A job of another
//! dialect is shown too, under the type it was submitted with; one without a type has a type of ours (C-107).

use std::borrow::Cow;

use forgerun_core::history::{Event, EventKind};
use forgerun_core::id::JobId;
use forgerun_core::item::Item;
use forgerun_core::job::{AttemptError, Dialect, Head, Input, Job};
use forgerun_core::state::{Cause, State};
use forgerun_core::time::Time;
use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Map, Value, json};

use super::envelope::is_known;
use super::kept::{Kept, ObjectWriter};
use super::members::Members;
use super::retry::RetryView;
use super::state::StateWord;
use crate::time::Millis;
use crate::{readable, time, words};

/// The version of OJS that this server speaks.
pub const VERSION: &str = "1.0";

/// The type under which jobs are shown that have none.
pub const FOREIGN_TYPE: &str = "forgerun.execute";

/// A job and what goes with it.
#[derive(Clone, Copy)]
pub struct JobView<'a> {
    /// The job as it stands.
    pub job: &'a Job,
    /// What it works on.
    pub input: &'a Input,
    /// What it left, where that is JSON and small.
    pub result: Option<&'a RawValue>,
    /// Where a result is fetched that does not stand in the object.
    pub result_url: Option<&'a str>,
    /// The holder's proof, told only to who has just taken the job.
    pub lease_token: Option<&'a str>,
    /// What the steps left that it waited for; `None` for a job that is no step of a workflow.
    pub parents: Option<&'a ParentResults>,
}

/// What the steps left that a step waited for, in the order in which it names them.
#[derive(Clone, Debug, Default)]
pub struct ParentResults {
    /// Their names.
    pub steps: Vec<String>,
    /// Their jobs.
    pub jobs: Vec<JobId>,
    /// What each left: `None` where that is nothing, no JSON, or too large to be handed on.
    pub results: Vec<Option<Box<RawValue>>>,
}

impl<'a> JobView<'a> {
    /// The view of a job without result and lease.
    pub fn new(job: &'a Job, input: &'a Input) -> JobView<'a> {
        JobView { job, input, result: None, result_url: None, lease_token: None, parents: None }
    }

    /// The same as text, to be put together with others. No value is made of what clients gave: numbers keep their digits.
    pub fn raw(&self) -> Box<RawValue> {
        to_raw_value(self).expect("our views have text keys")
    }
}

/// The type that OJS shows: as it was submitted, on whichever dialect (C-121).
pub fn shown_type(head: &Head) -> &str {
    if head.job_type.is_empty() { FOREIGN_TYPE } else { &head.job_type }
}

/// The arguments that OJS shows. What another dialect calls its payload is the one argument, unless it is a list (C-121). Those of a
/// batch of real work are its items.
pub fn shown_args<'a>(head: &Head, input: &'a Input) -> Cow<'a, RawValue> {
    if head.items.is_some_and(|items| !items.simulated) && !input.items.is_empty() {
        let items: Vec<ItemArgument<'_>> =
            input.items.iter().map(|item| ItemArgument::new(head, item)).collect();
        return Cow::Owned(to_raw_value(&items).expect("our views have text keys"));
    }
    let given = raw(&input.payload, "[]");
    if args_wrapped(head, input) != Some(true) {
        return Cow::Borrowed(given);
    }
    let list = RawValue::from_string(format!("[{}]", given.get()));
    Cow::Owned(list.expect("a list of one JSON value is JSON"))
}

/// An item of a batch, as its worker gets it.
#[derive(Serialize)]
struct ItemArgument<'a> {
    #[serde(rename = "itemId")]
    item_id: &'a str,
    #[serde(rename = "type")]
    job_type: &'a str,
    payload: &'a RawValue,
}

impl<'a> ItemArgument<'a> {
    fn new(head: &'a Head, item: &'a Item) -> ItemArgument<'a> {
        let job_type = item.job_type.as_deref().unwrap_or(&head.job_type);
        ItemArgument { item_id: &item.id, job_type, payload: raw(&item.payload, "null") }
    }
}

/// Whether the arguments that OJS shows are a list around a payload that was none (`true`), or the list that was the payload (`false`).
/// `None` where there is no payload: in a job of OJS, a step of a workflow, a batch, and a job that was given nothing.
pub fn args_wrapped(head: &Head, input: &Input) -> Option<bool> {
    let has_payload = head.dialect != Dialect::Ojs && head.items.is_none() && !input.payload.is_empty();
    let wrapped = !raw(&input.payload, "[]").get().starts_with('[');
    // Steps are given arguments on every dialect, as OJS has them.
    (has_payload && (wrapped || head.workflow.is_none())).then_some(wrapped)
}

impl Serialize for JobView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        self.members(&mut map)?;
        map.end()
    }
}

impl JobView<'_> {
    /// Writes the members into an object that may have others.
    pub(super) fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let JobView { job, input, .. } = self;
        let kept = Kept::of(&input.extra);
        let word = StateWord::of(job);
        self.what(map)?;
        map.serialize_entry("state", word.as_str())?;
        map.serialize_entry("attempt", &attempts(job))?;
        map.serialize_entry("simulated", &job.head.is_simulated())?;
        if job.paused {
            map.serialize_entry("paused", &true)?;
        }
        if let Some(signal) = &job.awaited_signal {
            map.serialize_entry("awaited_signal", signal)?;
        }
        self.how(map, &kept)?;
        self.times(map, &kept, word)?;
        self.outcome(map, word)?;
        self.holder(map)?;
        self.place(map)?;
        strangers(map, &kept)
    }

    /// Its place in a workflow.
    fn place<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let Some(step) = self.job.head.workflow else { return Ok(()) };
        map.serialize_entry("workflow_id", &step.workflow.to_string())?;
        map.serialize_entry("workflow_step", &step.index)?;
        if let Some(parents) = self.parents {
            let jobs: Vec<String> = parents.jobs.iter().map(JobId::to_string).collect();
            map.serialize_entry("parent_jobs", &jobs)?;
            map.serialize_entry("parent_steps", &parents.steps)?;
            map.serialize_entry("parent_results", &parents.results)?;
        }
        Ok(())
    }

    /// What is to be done.
    fn what<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let JobView { job, input, .. } = self;
        let head = &job.head;
        map.serialize_entry("specversion", VERSION)?;
        map.serialize_entry("id", &job.id.to_string())?;
        map.serialize_entry("type", shown_type(head))?;
        map.serialize_entry("queue", head.queue.as_str())?;
        map.serialize_entry("args", &*shown_args(head, input))?;
        map.serialize_entry("meta", &*shown_meta(head, input))?;
        map.serialize_entry("priority", &head.priority)
    }

    /// By which rules.
    fn how<M: SerializeMap>(&self, map: &mut M, kept: &Kept<'_>) -> Result<(), M::Error> {
        let head = &self.job.head;
        map.serialize_entry("max_attempts", &head.retry.attempts_max)?;
        map.serialize_entry("tags", &head.tags)?;
        if let Some(definition) = head.definition {
            map.serialize_entry("work_kind", definition.work_kind.as_str())?;
        }
        map.serialize_entry("retry", &RetryView { policy: &head.retry, given: kept.retry })?;
        for (name, given) in [
            ("unique", kept.unique),
            ("rate_limit", kept.rate_limit),
            ("limits", kept.limits),
            ("fair", kept.fair),
            ("schema", kept.schema),
        ] {
            if let Some(given) = given {
                map.serialize_entry(name, given)?;
            }
        }
        for (name, span) in [("timeout_ms", head.timeout), ("visibility_timeout_ms", head.lease)] {
            if let Some(span) = span {
                map.serialize_entry(name, &(span.as_millis() as u64))?;
            }
        }
        Ok(())
    }

    fn times<M: SerializeMap>(&self, map: &mut M, kept: &Kept<'_>, word: StateWord) -> Result<(), M::Error> {
        let job = self.job;
        let mut say = |name: &str, at: Option<Time>| match at {
            Some(at) => map.serialize_entry(name, &Millis(at)),
            None => Ok(()),
        };
        say("created_at", Some(job.head.created_at))?;
        say("enqueued_at", job.queued_at)?;
        say("started_at", job.started_at)?;
        let ended = job.finished_at;
        say("completed_at", completed_at(job))?;
        say("cancelled_at", ended.filter(|_| word == StateWord::Cancelled))?;
        say("discarded_at", ended.filter(|_| word == StateWord::Discarded))?;
        say("dead_lettered_at", job.dead_lettered_at)?;
        say("next_attempt_at", job.available_at.filter(|_| word == StateWord::Retryable))?;
        say_moment(map, "scheduled_at", kept.scheduled_at, job.head.execution_at)?;
        say_moment(map, "expires_at", kept.expires_at, job.expires_at())?;
        say_moment(map, "deadline", None, job.deadline())
    }

    fn outcome<M: SerializeMap>(&self, map: &mut M, word: StateWord) -> Result<(), M::Error> {
        let job = self.job;
        if let Some(delay) = retry_delay_ms(job) {
            map.serialize_entry("retry_delay_ms", &delay)?;
        }
        if let Some(result) = self.result {
            map.serialize_entry("result", result)?;
        }
        if let Some(url) = self.result_url {
            map.serialize_entry("result_url", url)?;
        }
        if let Some(error) = job.last_error().filter(|_| word != StateWord::Completed) {
            map.serialize_entry("error", &error_view(error))?;
        }
        if !job.errors.is_empty() {
            let errors: Vec<Value> = job.errors.iter().map(|error| past_error(job, error)).collect();
            map.serialize_entry("errors", &errors)?;
        }
        if let Some(cancel) = job.cancel.as_ref().filter(|_| word == StateWord::Cancelled) {
            map.serialize_entry("cancel_reason", &cancel.reason)?;
        }
        if job.expired {
            map.serialize_entry("discard_reason", "expired")?;
        }
        Ok(())
    }

    fn holder<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        let job = self.job;
        if let Some(percent) = words::progress(job) {
            map.serialize_entry("progress", &(f64::from(percent) / 100.0))?;
        }
        if let Some(message) = &job.message {
            map.serialize_entry("progress_message", message)?;
        }
        if let Some(lease) = &job.lease {
            map.serialize_entry("worker_id", lease.worker.as_str())?;
            map.serialize_entry("lease_expires_at", &Millis(lease.until))?;
        }
        if let Some(token) = self.lease_token {
            map.serialize_entry("lease_token", token)?;
            // For workers that hand their programs what was submitted.
            if let Some(wrapped) = args_wrapped(&job.head, self.input) {
                map.serialize_entry("args_wrapped", &wrapped)?;
            }
            // Who does the work goes on with the trace of who asked for it.
            for (name, trace) in
                [("traceparent", &job.head.traceparent), ("tracestate", &job.head.tracestate)]
            {
                if let Some(trace) = trace {
                    map.serialize_entry(name, trace)?;
                }
            }
        }
        Ok(())
    }
}

/// Members that OJS does not know, as they were given. A name of ours stands in the object once, whatever is stored.
fn strangers<M: SerializeMap>(map: &mut M, kept: &Kept<'_>) -> Result<(), M::Error> {
    kept.unknown
        .0
        .iter()
        .filter(|(name, _)| !is_known(name))
        .try_for_each(|(name, value)| map.serialize_entry(name, value))
}

/// A job as somebody could submit it again, with the attempt that failed: what messages of brokers carry. Nothing in it changes
/// afterwards, whatever becomes of the job.
pub struct FailedEnvelope<'a> {
    /// The job.
    pub job: JobView<'a>,
    /// Why the attempt failed.
    pub error: &'a AttemptError,
}

impl Serialize for FailedEnvelope<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let view = &self.job;
        let kept = Kept::of(&view.input.extra);
        let mut map = to.serialize_map(None)?;
        view.what(&mut map)?;
        map.serialize_entry("attempt", &self.error.attempt)?;
        view.how(&mut map, &kept)?;
        map.serialize_entry("created_at", &time::millis(view.job.head.created_at))?;
        let head = &view.job.head;
        say_moment(&mut map, "scheduled_at", kept.scheduled_at, head.execution_at)?;
        // As it was submitted: a retry may come after the message.
        say_moment(&mut map, "expires_at", kept.expires_at, head.expires_at)?;
        say_moment(&mut map, "deadline", None, head.deadline)?;
        map.serialize_entry("error", &error_view(self.error))?;
        strangers(&mut map, &kept)?;
        map.end()
    }
}

/// A job within an object and spread over its top level (D3). Both are needed: published cases and the SDKs for Python, JavaScript and Go
/// read `job` (`level-0-core/operations/info-readonly.json`), the SDK for Rust and the captures of `ext-durable` the top level.
pub struct BothView<'a> {
    /// The job.
    pub job: JobView<'a>,
    /// What else the answer says, in both places.
    pub facts: Vec<(&'static str, Value)>,
}

impl BothView<'_> {
    fn members<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        self.job.members(map)?;
        for (name, value) in &self.facts {
            debug_assert!(is_known(name), "clients could submit {name}");
            map.serialize_entry(name, value)?;
        }
        Ok(())
    }
}

/// The job with the facts about it.
struct Nested<'a, 'b>(&'b BothView<'a>);

impl Serialize for Nested<'_, '_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        self.0.members(&mut map)?;
        map.end()
    }
}

impl Serialize for BothView<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("job", &Nested(self))?;
        self.members(&mut map)?;
        map.end()
    }
}

/// A moment that counts, in the words of who asked for it (C-106). It may be another than they asked for: a job can keep the schedule
/// of the one whose place it takes.
fn say_moment<M: SerializeMap>(
    map: &mut M,
    name: &str,
    given: Option<&RawValue>,
    counts: Option<Time>,
) -> Result<(), M::Error> {
    let Some(at) = counts else { return Ok(()) };
    let read = |given: &RawValue| time::parse(&serde_json::from_str::<String>(given.get()).ok()?);
    match given.filter(|given| read(given) == Some(at)) {
        Some(given) => map.serialize_entry(name, given),
        None => map.serialize_entry(name, &Millis(at)),
    }
}

/// When a job was completed. One that was cancelled, or expired before it began, has completed nothing (C-98).
pub fn completed_at(job: &Job) -> Option<Time> {
    job.finished_at.filter(|_| matches!(job.state, State::Succeeded | State::Failed))
}

/// The attempts handed out so far; one that was handed back without an outcome does not count (C-104).
pub fn attempts(job: &Job) -> u32 {
    match job.state {
        State::Created | State::Queued => job.attempt.saturating_sub(1),
        State::Assigned | State::Running | State::Succeeded | State::Failed => job.attempt_handed,
        // Its last event tells whether a worker had it.
        State::Canceled => {
            job.history.events().last().map_or(job.attempt_handed, |event| attempts_at(&event))
        }
    }
}

/// The attempts handed out by the time of an event, counted likewise.
pub fn attempts_at(event: &Event) -> u32 {
    let waits = match event.kind {
        EventKind::Moved { from, to: State::Canceled, .. } => !from.is_some_and(State::is_active),
        EventKind::Moved { to, cause, .. } => {
            matches!(to, State::Created | State::Queued) || cause == Cause::HandBack
        }
        EventKind::Progress(_) | EventKind::Emitted => false,
    };
    event.attempt.saturating_sub(u32::from(waits))
}

/// How long the server chose to wait before the next attempt, from the newest failure on.
pub fn retry_delay_ms(job: &Job) -> Option<u64> {
    job.last_error()?.wait.map(|wait| wait.as_millis() as u64)
}

/// An entry of the history: of which execution it is, too, because attempts are counted anew when a job is begun anew.
fn past_error(job: &Job, error: &AttemptError) -> Value {
    let mut view = error_view(error);
    if let Some(execution) = job.execution_id(error.execution) {
        view["execution"] = execution.to_string().into();
    }
    view
}

/// An entry of the error history: the worker's own words, and the canonical code beside them.
pub fn error_view(error: &AttemptError) -> Value {
    let said: Map<String, Value> =
        serde_json::from_slice(&readable::mended(&error.details)).unwrap_or_default();
    let details = said.get("details").filter(|details| details.is_object());
    let class_of_details = details.and_then(|details| details["error_class"].as_str());
    let class = error.class.as_deref().or(class_of_details).unwrap_or(&error.code);
    let message = if error.message.is_empty() { error.kind.entry().meaning } else { &error.message };
    let mut view = json!({
        "code": error.code,
        "type": class,
        "message": message,
        "attempt": error.attempt,
        "occurred_at": time::millis(error.at),
        "timestamp": time::millis(error.at),
        "retryable": error.retryable,
        "canonical_code": error.kind.entry().ojs_or_custom(),
    });
    if let Some(details) = said.get("details") {
        view["details"] = details.clone();
    }
    // OJS has a list of lines; some workers send one text.
    match said.get("backtrace") {
        Some(Value::String(text)) => view["backtrace"] = text.lines().collect(),
        Some(lines) => view["backtrace"] = lines.clone(),
        None => {}
    }
    view
}

/// The metadata of a job. A schedule adds what it is called, and which tick the job belongs to.
pub fn shown_meta<'a>(head: &Head, input: &'a Input) -> Cow<'a, RawValue> {
    let given = raw(&input.meta, "{}");
    let Some(run) = &head.schedule else { return Cow::Borrowed(given) };
    let members = Members::of_value(given).unwrap_or_default();
    let mut all = ObjectWriter::default();
    members.0.iter().for_each(|(name, value)| all.put(name, value.get()));
    all.put("cron_name", &Value::from(run.name.as_str()).to_string());
    all.put("cron_triggered_at", &Value::from(time::millis(run.tick)).to_string());
    let text = String::from_utf8(all.finish()).expect("made of texts");
    RawValue::from_string(text).map_or(Cow::Borrowed(given), Cow::Owned)
}

/// Bytes that were JSON when they came in; what another dialect left out is shown as `absent`.
pub(super) fn raw<'a>(bytes: &'a [u8], absent: &'static str) -> &'a RawValue {
    let absent = || serde_json::from_str(absent).expect("the replacement is JSON");
    serde_json::from_slice(bytes).unwrap_or_else(|_| absent())
}

#[cfg(test)]
mod tests;
