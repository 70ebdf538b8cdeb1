//! What workers say: fetch, ack, nack, heartbeat, progress. In every shape that the documents and the SDKs have for it.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{LeaseProof, WorkError};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::item::{Item, ItemEnd, ItemError};
use forgerun_core::job::Name;
use forgerun_core::limits::{CLAIM_JOBS_MAX, CLAIM_QUEUES_MAX, RETRY_DELAY_MAX};
use forgerun_core::retry::RetryVerdict;
use forgerun_core::worker::{WorkerFacts, WorkerState};
use forgerun_core::workflow::is_signal_name;
use serde_json::Value;
use serde_json::value::RawValue;

use super::duration;
use super::kept;
use super::members::{Members, ViolationList};
use crate::problem::RefusedRequest;
use crate::readable;
use crate::workflow::SIGNAL_NAME;

/// How long a fetch may wait.
pub const WAIT_MS_MAX: u64 = 30_000;

/// Jobs that one heartbeat may list.
pub const BEAT_JOBS_MAX: usize = 1024;

pub(super) const BAD: Kind = Kind::MalformedRequest;

/// A worker wants work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequest {
    /// Where to look, in this order.
    pub queues: Vec<Name>,
    /// How many jobs at most.
    pub count: usize,
    /// Who asks.
    pub worker: Option<Name>,
    /// How long it wants to hold them.
    pub lease: Option<Duration>,
    /// How long to wait for the first.
    pub wait: Duration,
    /// For which client; only the operator may name one.
    pub client: Option<ClientId>,
}

/// Reads a fetch.
pub fn read_fetch(body: &[u8]) -> Result<FetchRequest, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let request = fetch_of(&members, &mut violations);
    violations.settle(Some(request))
}

/// The fetch that these members ask for.
pub(super) fn fetch_of(members: &Members<'_>, violations: &mut ViolationList) -> FetchRequest {
    let queues = queues(members, violations);
    let count: Option<u64> = violations.typed(BAD, "count", members.get("count"), "an integer of at least 1");
    if count.is_some_and(|count| count == 0 || count > CLAIM_JOBS_MAX as u64) {
        violations.add(BAD, "count", format!("must be from 1 to {CLAIM_JOBS_MAX}"), "range");
    }
    let wait: Option<u64> =
        violations.typed(BAD, "wait_ms", members.get("wait_ms"), "an integer of at least 0");
    if wait.is_some_and(|wait| wait > WAIT_MS_MAX) {
        violations.add(BAD, "wait_ms", format!("must be from 0 to {WAIT_MS_MAX}"), "range");
    }
    let client: Option<String> =
        violations.typed(BAD, "client_id", members.get("client_id"), "a client's id");
    let client = client.and_then(|text| match text.parse() {
        Ok(client) => Some(client),
        Err(_) => {
            violations.add(BAD, "client_id", "must be a client's id", "format");
            None
        }
    });
    FetchRequest {
        queues,
        count: count.unwrap_or(1) as usize,
        worker: worker(members, violations),
        lease: lease(members, violations),
        wait: Duration::from_millis(wait.unwrap_or(0)),
        client,
    }
}

/// What is wrong if a member is not there, although another may be that was meant to be it.
fn required(members: &Members<'_>, name: &str, slip: &str) -> String {
    match members.get(slip) {
        Some(_) => format!("is required; `{slip}` is unknown, did you mean `{name}`?"),
        None => "is required".to_owned(),
    }
}

fn queues(members: &Members<'_>, violations: &mut ViolationList) -> Vec<Name> {
    let Some(value) = members.get("queues") else {
        violations.add(BAD, "queues", required(members, "queues", "queue"), "required");
        return Vec::new();
    };
    let names: Option<Vec<String>> = violations.typed(BAD, "queues", Some(value), "a list of queue names");
    let Some(names) = names else { return Vec::new() };
    if names.is_empty() || names.len() > CLAIM_QUEUES_MAX {
        let rule = if names.is_empty() { "minItems" } else { "maxItems" };
        violations.add(BAD, "queues", format!("must name 1 to {CLAIM_QUEUES_MAX} queues"), rule);
        return Vec::new();
    }
    let mut queues = Vec::with_capacity(names.len());
    for name in &names {
        match Name::queue(name) {
            // The second time it is looked at, it is as empty as the first.
            Ok(queue) if queues.contains(&queue) => {}
            Ok(queue) => queues.push(queue),
            Err(_) => {
                violations.add(Kind::InvalidQueue, "queues", format!("{name:?} is no queue name"), "format")
            }
        }
    }
    queues
}

pub(super) fn worker(members: &Members<'_>, violations: &mut ViolationList) -> Option<Name> {
    let text: String = violations.typed(BAD, "worker_id", members.get("worker_id"), "a string")?;
    let name = Name::new(&text);
    if name.is_none() {
        violations.add(BAD, "worker_id", "must have 1 to 255 bytes and no control characters", "format");
    }
    name
}

fn lease(members: &Members<'_>, violations: &mut ViolationList) -> Option<Duration> {
    let name = "visibility_timeout_ms";
    let ms: u64 = violations.typed(BAD, name, members.get(name), "an integer of at least 1")?;
    let lease =
        Some(Duration::from_millis(ms)).filter(|lease| !lease.is_zero() && *lease <= duration::LONGEST);
    if lease.is_none() {
        violations.add(BAD, name, "must be an integer of at least 1", "range");
    }
    lease
}

/// The proof that a worker holds a job. It names the job too, so that a token of one job is none of another.
pub fn lease_token(job: JobId, fence: u64) -> String {
    format!("{:016x}.{fence}", job.as_u128() as u64)
}

/// The fence of a token that is of this job.
pub fn fence_of(token: &str, job: JobId) -> Option<u64> {
    let (of, fence) = token.split_once('.')?;
    let fence: u64 = fence.parse().ok()?;
    (of == format!("{:016x}", job.as_u128() as u64)).then_some(fence)
}

/// Which job, and what the worker gave to prove that it holds it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldJobRef {
    /// The job; `None` for an id that is none, which is an id of nothing.
    pub job: Option<JobId>,
    /// The proof. A token that cannot be read is one that was lost.
    pub proof: LeaseProof,
}

/// No claim has this fence: the first one is 1.
const NO_FENCE: u64 = 0;

pub(super) fn claimed(
    members: &Members<'_>,
    in_path: Option<&str>,
    violations: &mut ViolationList,
) -> HeldJobRef {
    let job_id: Option<String> = match in_path {
        Some(id) => Some(id.to_owned()),
        None if members.get("job_id").is_none() => {
            violations.add(BAD, "job_id", required(members, "job_id", "id"), "required");
            None
        }
        None => violations.typed(BAD, "job_id", members.get("job_id"), "a string"),
    };
    let job: Option<JobId> = job_id.and_then(|text| text.parse().ok());
    let token: Option<String> = violations.typed(BAD, "lease_token", members.get("lease_token"), "a string");
    HeldJobRef { job, proof: lease_proof(job, token.as_deref(), worker(members, violations)) }
}

/// The strongest proof of those given.
pub fn lease_proof(job: Option<JobId>, token: Option<&str>, worker: Option<Name>) -> LeaseProof {
    match (token, worker) {
        (Some(token), _) => LeaseProof::Token(job.and_then(|job| fence_of(token, job)).unwrap_or(NO_FENCE)),
        (None, Some(worker)) => LeaseProof::Worker(worker),
        (None, None) => LeaseProof::Anyone,
    }
}

/// The attempt ended well.
#[derive(Clone, Debug)]
pub struct AckRequest {
    /// Which job, and the proof.
    pub claimed: HeldJobRef,
    /// What came out of it, as received.
    pub result: Option<Box<RawValue>>,
}

/// Reads an ack; `in_path` is the job's id where the path has it.
pub fn read_ack(body: &[u8], in_path: Option<&str>) -> Result<AckRequest, Box<RefusedRequest>> {
    let members = optional(body, in_path)?;
    let mut violations = ViolationList::default();
    let claimed = claimed(&members, in_path, &mut violations);
    let result = members.get("result").map(ToOwned::to_owned);
    violations.settle(Some(AckRequest { claimed, result }))
}

/// How the items of a batch ended, by the result of its worker: `{"items": [{"itemId", "error": {"message", "retryable"}}]}`. An item
/// without an error, or that the result does not name, succeeded.
pub fn item_ends(items: &[Item], result: Option<&RawValue>) -> Result<Vec<ItemEnd>, Box<RefusedRequest>> {
    let result: Value = result.and_then(|result| serde_json::from_str(result.get()).ok()).unwrap_or_default();
    let said = result["items"].as_array().map_or(&[][..], Vec::as_slice);
    let mut violations = ViolationList::default();
    for (place, end) in said.iter().enumerate() {
        if !items.iter().any(|item| end["itemId"] == item.id.as_str()) {
            let path = format!("result.items.{place}.itemId");
            violations.add(Kind::InvalidArgs, &path, "is no item of this batch", "unknown");
        }
    }
    let end = |item: &Item| {
        let said = said.iter().find(|end| end["itemId"] == item.id.as_str());
        let error = said.map(|end| &end["error"]).filter(|error| !error.is_null());
        let error = error.map(|error| ItemError {
            kind: Kind::HandlerError,
            message: error["message"].as_str().unwrap_or_default().to_owned(),
            retryable: error["retryable"].as_bool().unwrap_or(Kind::HandlerError.entry().retryable),
        });
        ItemEnd { id: item.id.clone(), error }
    };
    violations.settle(Some(items.iter().map(end).collect()))
}

/// A body that may be left out where the path says what is meant.
fn optional<'a>(body: &'a [u8], in_path: Option<&str>) -> Result<Members<'a>, Box<RefusedRequest>> {
    if body.is_empty() && in_path.is_some() { Ok(Members::default()) } else { Members::of_body(body) }
}

/// The attempt ended badly, or not at all.
#[derive(Clone, Debug)]
pub struct NackRequest {
    /// Which job, and the proof.
    pub claimed: HeldJobRef,
    /// What is to be done.
    pub answer: Nack,
}

/// What a worker asks for in a nack.
#[derive(Clone, Debug)]
pub enum Nack {
    /// The job goes back without an outcome, to be claimed no sooner than after this delay, or when
    /// the signal arrives.
    Requeue { delay: Duration, until_signal: Option<String> },
    /// The handler says ACK: it went well after all.
    Succeed,
    /// The attempt failed.
    Fail(Box<WorkError>),
}

/// Reads a nack; `in_path` is the job's id where the path has it.
pub fn read_nack(body: &[u8], in_path: Option<&str>) -> Result<NackRequest, Box<RefusedRequest>> {
    // A failure is told to whoever asks, even if not every character of it can be.
    let body = readable::mended(body);
    let members = Members::of_body(&body)?;
    let mut violations = ViolationList::default();
    let claimed = claimed(&members, in_path, &mut violations);
    let answer = nack_of(&members, &mut violations);
    violations.settle(answer.map(|answer| NackRequest { claimed, answer }))
}

/// What a worker asks for with these members of a nack.
pub(super) fn nack_of(members: &Members<'_>, violations: &mut ViolationList) -> Option<Nack> {
    let requeue: Option<bool> = violations.typed(BAD, "requeue", members.get("requeue"), "true or false");
    let delay_ms: Option<u64> =
        violations.typed(BAD, "delay_ms", members.get("delay_ms"), "a whole number from 0 on");
    let delay = delay_ms.map(Duration::from_millis);
    let until_signal = members.get("until_signal");
    let until_signal: Option<String> = violations.typed(BAD, "until_signal", until_signal, "a string");
    if until_signal.as_deref().is_some_and(|name| !is_signal_name(name)) {
        violations.add(BAD, "until_signal", SIGNAL_NAME, "pattern");
    }
    match (requeue, members.get("error")) {
        (Some(true), _) => {
            let longest = if until_signal.is_some() { RETRY_DELAY_MAX } else { Duration::ZERO };
            Some(Nack::Requeue { delay: delay.unwrap_or(longest), until_signal })
        }
        (_, None) => {
            violations.add(BAD, "error", "is required, unless the job is requeued", "required");
            None
        }
        (_, Some(value)) => match error(value, violations)? {
            Nack::Fail(error) => Some(Nack::Fail(Box::new(WorkError { delay, ..*error }))),
            answer => Some(answer),
        },
    }
}

fn error(value: &RawValue, violations: &mut ViolationList) -> Option<Nack> {
    let Some(members) = Members::of_value(value) else {
        violations.add_value(BAD, "error", value, "must be an object", "type");
        return None;
    };
    let mut text = |name: &str| -> Option<String> {
        violations.typed(BAD, &format!("error.{name}"), members.get(name), "a string")
    };
    let (code, message, class) = (text("code"), text("message"), text("type"));
    let retryable: Option<bool> =
        violations.typed(BAD, "error.retryable", members.get("retryable"), "true or false");
    let details = members.get("details");
    let code = code.unwrap_or_else(|| "handler_error".into());
    let verdict = match code.as_str() {
        "ACK" => return Some(Nack::Succeed),
        "RETRY" => Some(RetryVerdict::Retry),
        "DISCARD" | "FAIL" => Some(RetryVerdict::Discard),
        "DEAD_LETTER" => Some(RetryVerdict::DeadLetter),
        _ => None,
    };
    let kind = failure_kind(&code);
    let mut said = kept::ObjectWriter::default();
    for name in ["details", "backtrace"] {
        if let Some(value) = members.get(name) {
            said.put(name, value.get());
        }
    }
    let class_of_details = || {
        let details: Value = serde_json::from_str(details?.get()).ok()?;
        details["error_class"].as_str().map(str::to_owned)
    };
    Some(Nack::Fail(Box::new(WorkError {
        kind,
        message: message.unwrap_or_default(),
        class: class.or_else(class_of_details),
        // Unsaid means yes, until the policy says no (C-102).
        retryable: Some(retryable.unwrap_or(kind != Kind::NonRetryable)),
        verdict,
        // A verdict is no error code.
        code: if verdict.is_some() { String::new() } else { code },
        details: if said.is_empty() { Vec::new() } else { said.finish() },
        delay: None,
    })))
}

/// The catalogue's kind for a code that a worker sent.
fn failure_kind(code: &str) -> Kind {
    match code {
        "timeout" | "handler_timeout" | "HANDLER_TIMEOUT" => Kind::HandlerTimeout,
        "panic" | "handler_panic" | "HANDLER_PANIC" => Kind::RunnerLost,
        "non_retryable_error" | "NON_RETRYABLE_ERROR" => Kind::NonRetryable,
        _ => Kind::HandlerError,
    }
}

/// A sign of life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatRequest {
    /// Whose.
    pub worker: Name,
    /// What it holds, and with which proof. Ids that are none are left out.
    pub jobs: Vec<(JobId, LeaseProof)>,
    /// How many jobs it says it holds, where it gives a number.
    pub active: Option<u64>,
    /// What it is about to do.
    pub state: WorkerState,
    /// How long it wants to hold its jobs from now.
    pub lease: Option<Duration>,
    /// What it says of itself.
    pub facts: WorkerFacts,
}

/// OJS's word for what a worker does, or shall do.
pub const fn state_word(state: WorkerState) -> &'static str {
    match state {
        WorkerState::Running => "running",
        WorkerState::Quiet => "quiet",
        WorkerState::Terminate => "terminate",
    }
}

/// Reads a word, those of the extensions included.
pub fn parse_state(word: &str) -> Option<WorkerState> {
    match word {
        "running" | "active" | "idle" | "busy" | "starting" => Some(WorkerState::Running),
        "quiet" | "drain" | "draining" => Some(WorkerState::Quiet),
        "terminate" | "terminating" | "shutdown" | "shutting_down" | "stopping" | "stopped" => {
            Some(WorkerState::Terminate)
        }
        _ => None,
    }
}

/// Reads a heartbeat in either dialect: a list of ids, or a number and a list.
pub fn read_heartbeat(body: &[u8]) -> Result<HeartbeatRequest, Box<RefusedRequest>> {
    // What a worker says of itself is no reason to take its jobs away.
    let body = readable::mended(body);
    let members = Members::of_body(&body)?;
    let mut violations = ViolationList::default();
    if members.get("worker_id").is_none() {
        violations.add(BAD, "worker_id", "is required", "required");
    }
    let worker = worker(&members, &mut violations);
    let tokens = members.get("lease_tokens").and_then(|value| {
        let tokens: Option<serde_json::Map<String, Value>> =
            violations.typed(BAD, "lease_tokens", Some(value), "an object of job ids and tokens");
        tokens
    });
    let (ids, active) = listed(&members, &mut violations);
    let jobs = ids.iter().filter_map(|id| {
        let job: JobId = id.parse().ok()?;
        let token = tokens.as_ref().and_then(|tokens| tokens.get(id)?.as_str());
        Some((job, lease_proof(Some(job), token, worker.clone())))
    });
    let jobs = jobs.collect();
    let request =
        worker.clone().and_then(|worker| heartbeat_of(&members, worker, jobs, active, &mut violations));
    violations.settle(request)
}

/// The heartbeat of a worker with these jobs; the rest is what its members say.
pub(super) fn heartbeat_of(
    members: &Members<'_>,
    worker: Name,
    jobs: Vec<(JobId, LeaseProof)>,
    active: Option<u64>,
    violations: &mut ViolationList,
) -> Option<HeartbeatRequest> {
    let word: Option<String> = violations.typed(BAD, "state", members.get("state"), "a string");
    let state = word.as_deref().map_or(Some(WorkerState::Running), parse_state);
    if state.is_none() {
        violations.add(BAD, "state", "must be running, quiet, drain or terminate", "enum");
    }
    let lease = lease(members, violations);
    Some(HeartbeatRequest { worker, jobs, active, state: state?, lease, facts: facts(members) })
}

/// What a worker says of itself. It decides nothing, so what cannot be read is passed over.
fn facts(members: &Members<'_>) -> WorkerFacts {
    fn read<T: serde::de::DeserializeOwned>(members: &Members<'_>, name: &str) -> Option<T> {
        serde_json::from_str(members.get(name)?.get()).ok()
    }
    let queues: Vec<String> = read(members, "queues").unwrap_or_default();
    WorkerFacts {
        hostname: read(members, "hostname"),
        pid: read(members, "pid"),
        queues: queues.iter().filter_map(|queue| Name::queue(queue).ok()).collect(),
        concurrency: read(members, "concurrency"),
    }
}

fn listed(members: &Members<'_>, violations: &mut ViolationList) -> (Vec<String>, Option<u64>) {
    let mut ids: Vec<String> = Vec::new();
    let mut active = None;
    for name in ["active_jobs", "active_job_ids"] {
        let Some(value) = members.get(name) else { continue };
        if name == "active_jobs"
            && let Ok(number) = serde_json::from_str(value.get())
        {
            active = Some(number);
            continue;
        }
        let list: Option<Vec<String>> = violations.typed(BAD, name, Some(value), "a list of job ids");
        ids.extend(list.unwrap_or_default());
    }
    if ids.len() > BEAT_JOBS_MAX {
        violations.add(BAD, "active_jobs", format!("must list at most {BEAT_JOBS_MAX} jobs"), "maxItems");
        ids.clear();
    }
    ids.sort_unstable();
    ids.dedup();
    (ids, active)
}

/// How far the work is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgressRequest {
    /// Which job, and the proof.
    pub claimed: HeldJobRef,
    /// In percent.
    pub percent: u8,
    /// What the worker says about it.
    pub message: Option<String>,
}

/// A percentage in whole numbers; `None` if it is out of range.
pub(super) fn percent_of(percent: f64) -> Option<u8> {
    (0.0..=100.0).contains(&percent).then(|| percent.round() as u8)
}

/// Reads progress: a share from 0 to 1, or a percentage.
pub fn read_progress(body: &[u8], in_path: Option<&str>) -> Result<ProgressRequest, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let claimed = claimed(&members, in_path, &mut violations);
    let mut number =
        |name: &str| -> Option<f64> { violations.typed(BAD, name, members.get(name), "a number") };
    let (share, percentage) = (number("progress"), number("percentage"));
    let percent = match (share, percentage) {
        (Some(share), _) => share * 100.0,
        (None, Some(percent)) => percent,
        (None, None) => {
            violations.add(BAD, "progress", "is required", "required");
            0.0
        }
    };
    // A worker that counted wrong is no reason to refuse its report.
    let percent = percent.clamp(0.0, 100.0);
    let message: Option<String> = violations.typed(BAD, "message", members.get("message"), "a string");
    violations.settle(Some(ProgressRequest { claimed, percent: percent.round() as u8, message }))
}

#[cfg(test)]
mod tests;
