//! Contract `ojs`: the core of Open Job Spec over HTTP. Jobs are pushed, shown, fetched,
//! acknowledged, failed and cancelled, in a queue of their own; and bad requests are refused with
//! the codes of the error catalogue.

use forgerun_problem::Timestamp;
use http::Method;
use serde_json::{Map, Value, json};

use super::ConformanceError;
use super::rule::{Rule, must, should};
use super::run::{Ask, ConformanceRun};
use super::trace::Exchange;

const MANIFEST: Rule = must(
    "OJS-SUB-02",
    "the manifest says what the server implements",
    "serve a manifest with specversion, implementation.name, conformance_level and protocols",
);
const PUSHED: Rule = must(
    "OJS-SUB-02",
    "a job is pushed with 201, Location and its envelope",
    "answer 201 with Location and the job: id, type, queue, args, state, attempt, created_at",
);
const KEPT: Rule =
    must("OJS-SUB-02", "type, args and meta come back as they were sent", "keep the envelope as it was sent");
const TYPED: Rule = should(
    "OJS-SUB-02",
    "answers are application/openjobspec+json and say OJS-Version: 1.0",
    "set Content-Type: application/openjobspec+json and OJS-Version: 1.0",
);
const STATES: Rule = must(
    "OJS-STM-01",
    "states are those of the lifecycle",
    "use scheduled, available, pending, active, completed, retryable, cancelled and discarded",
);
const FETCHED: Rule = must(
    "OJS-STM-01",
    "a fetched job is active, and its attempt is counted",
    "hand out an available job as active with attempt 1, and an empty list where there is none",
);
const COMPLETED: Rule =
    must("OJS-STM-01", "an acknowledged job is completed", "answer an ack with state completed, and keep it");
const ACK_AGAIN: Rule = must(
    "OJS-STM-03",
    "a second ack is refused with 409",
    "answer 409 JOB_ALREADY_COMPLETED to an ack of a completed job",
);
const CANCEL_LATE: Rule = must(
    "OJS-STM-02",
    "an ended job cannot be cancelled",
    "answer 409 INVALID_STATE_TRANSITION to the cancellation of an ended job",
);
const CANCELLED: Rule =
    must("OJS-CAN-01", "a job can be cancelled", "answer DELETE of a job with the state cancelled");
const DISCARDED: Rule = must(
    "OJS-RTY-07",
    "a failure that is not retryable ends the job",
    "discard a job whose nack says retryable: false",
);
const RETRIED: Rule = must(
    "OJS-EXE-01",
    "a failure is retried as the policy says",
    "make a job with attempts left retryable when its worker fails",
);
const HISTORY: Rule = must(
    "OJS-RTY-01",
    "each failure is recorded in errors",
    "append every failure to the job's errors, in the order of attempts",
);
const ENTRY: Rule = must(
    "OJS-RTY-03",
    "an entry of errors has code, message, attempt and occurred_at",
    "add the members that are missing; attempt counts from 1",
);
const ERRORS: Rule = must(
    "OJS-ERR-01",
    "an error has a code and a message",
    "answer errors with a JSON object that has code and message",
);
const MESSAGE: Rule = must("OJS-ERR-02", "a message is not empty", "say in the message what is wrong");
const TRUTH: Rule = must(
    "OJS-ERR-03",
    "errors of the caller are not retryable",
    "say retryable: false, or nothing, for what will fail again",
);
const NO_TYPE: Rule = must(
    "OJS-SUB-01",
    "an envelope without type is refused with 400",
    "answer 400 INVALID_PAYLOAD to an envelope without type",
);
const BAD_ENVELOPE: Rule = must(
    "OJS-COD-03",
    "a bad type or bad args are refused with 400",
    "answer 400 with INVALID_JOB_TYPE or INVALID_ARGS",
);
const BAD_QUEUE: Rule = must(
    "OJS-QWK-01",
    "a bad queue name is refused with 400",
    "answer 400 INVALID_QUEUE to a name with other characters than a-z, 0-9, hyphen and dot",
);
const BAD_POLICY: Rule = must(
    "OJS-RTY-09",
    "a bad retry policy is refused with 400 or 422",
    "answer INVALID_RETRY_POLICY to a negative max_attempts",
);
const UNKNOWN: Rule = must(
    "OJS-COD-07",
    "an unknown job is 404 NOT_FOUND",
    "answer 404 NOT_FOUND for an id that does not exist",
);
const STRANGER: Rule = must(
    "OJS-COD-06",
    "a request without credentials is 401 with WWW-Authenticate",
    "answer 401 UNAUTHENTICATED with WWW-Authenticate",
);

const STATE_WORDS: [&str; 8] =
    ["scheduled", "available", "pending", "active", "completed", "retryable", "cancelled", "discarded"];

/// Whether the server has a manifest.
pub(super) async fn is_there(run: &ConformanceRun) -> Result<bool, ConformanceError> {
    let manifest = run.send(Ask::get(&run.description.ojs.manifest)).await?;
    Ok(manifest.status() == 200 && !manifest.object().is_empty())
}

pub(super) async fn judge(run: &mut ConformanceRun) -> Result<(), ConformanceError> {
    manifest(run).await?;
    let site =
        Site { base: run.description.ojs.base.clone(), queue: format!("conformance-{}", run.random_word()) };
    if !work(run, &site).await? {
        return Ok(());
    }
    failures(run, &site).await?;
    cancelling(run, &site).await?;
    refusals(run, &site).await
}

struct Site {
    base: String,
    /// Unique to this run.
    queue: String,
}

impl Site {
    fn path(&self, rest: &str) -> String {
        format!("{}{rest}", self.base)
    }

    fn push(&self, options: Value) -> Ask {
        let mut all = options;
        all["queue"] = self.queue.clone().into();
        let envelope = json!({"type": "conformance.check", "args": [1, "two", {"three": null}], "meta": {"a": "b"}, "options": all});
        Ask::post(&self.path("/jobs"), &envelope)
    }

    fn fetch(&self) -> Ask {
        let body = json!({"queues": [self.queue], "count": 1, "worker_id": "conformance"});
        Ask::post(&self.path("/workers/fetch"), &body)
    }
}

fn job(exchange: &Exchange) -> &Map<String, Value> {
    exchange.object().get("job").and_then(Value::as_object).unwrap_or(exchange.object())
}

fn text<'a>(object: &'a Map<String, Value>, name: &str) -> &'a str {
    object.get(name).and_then(Value::as_str).unwrap_or_default()
}

async fn manifest(run: &mut ConformanceRun) -> Result<(), ConformanceError> {
    let answer = run.send(Ask::get(&run.description.ojs.manifest)).await?;
    let body = answer.object();
    let is_right = answer.status() == 200
        && body.get("specversion").is_some_and(Value::is_string)
        && body.get("implementation").is_some_and(|about| about["name"].is_string())
        && body.contains_key("conformance_level")
        && body.get("protocols").is_some_and(Value::is_array);
    run.check(&MANIFEST, is_right, &answer);
    Ok(())
}

/// Pushes a job. Returns its id, or an empty text.
async fn push(run: &mut ConformanceRun, site: &Site, options: Value) -> Result<String, ConformanceError> {
    let pushed = run.send(site.push(options)).await?;
    if matches!(pushed.status(), 401 | 403) {
        return Err(ConformanceError::NotAuthorised(pushed.got()));
    }
    let job = job(&pushed);
    let members = ["id", "type", "queue", "args", "state", "attempt", "created_at"];
    let has_all = members.iter().all(|name| job.get(*name).is_some_and(|value| !value.is_null()));
    let dated = Timestamp::parse(text(job, "created_at")).is_ok();
    let is_right = pushed.status() == 201 && !pushed.header("location").is_empty() && has_all && dated;
    run.check(&PUSHED, is_right, &pushed);
    let is_typed = pushed.answer.media_type() == "application/openjobspec+json";
    run.check(&TYPED, is_typed && pushed.header("ojs-version") == "1.0", &pushed);
    run.check(&STATES, STATE_WORDS.contains(&text(job, "state")), &pushed);
    Ok(text(job, "id").to_owned())
}

/// Fetches one job, and checks that it is this one, active for the first time.
async fn fetch(run: &mut ConformanceRun, site: &Site, id: &str) -> Result<(), ConformanceError> {
    let fetched = run.send(site.fetch()).await?;
    let first = &fetched.object().get("jobs").map_or(&Value::Null, |jobs| &jobs[0]);
    let is_right = first["id"] == id && first["state"] == "active" && first["attempt"] == 1;
    run.check(&FETCHED, fetched.status() == 200 && is_right, &fetched);
    Ok(())
}

async fn show(run: &mut ConformanceRun, site: &Site, id: &str) -> Result<Exchange, ConformanceError> {
    let shown = run.send(Ask::get(&site.path(&format!("/jobs/{id}")))).await?;
    run.check(&STATES, STATE_WORDS.contains(&text(job(&shown), "state")), &shown);
    Ok(shown)
}

/// Pushes, shows, fetches and acknowledges a job. Returns whether pushing works.
async fn work(run: &mut ConformanceRun, site: &Site) -> Result<bool, ConformanceError> {
    let id = push(run, site, json!({})).await?;
    if id.is_empty() {
        return Ok(false);
    }
    let shown = show(run, site, &id).await?;
    let sent = (json!("conformance.check"), json!([1, "two", {"three": null}]), json!({"a": "b"}));
    let kept = (&job(&shown)["type"], &job(&shown)["args"], &job(&shown)["meta"]);
    run.check(&KEPT, kept == (&sent.0, &sent.1, &sent.2), &shown);
    fetch(run, site, &id).await?;
    let empty = run.send(site.fetch()).await?;
    let none = empty.object().get("jobs").and_then(Value::as_array).is_some_and(Vec::is_empty);
    run.check(&FETCHED, empty.status() == 200 && none, &empty);
    let ack = Ask::post(&site.path("/workers/ack"), &json!({"job_id": id, "result": {"done": true}}));
    let acknowledged = run.send(ack.clone()).await?;
    let shown = show(run, site, &id).await?;
    let is_completed = text(job(&shown), "state") == "completed";
    run.check(&COMPLETED, acknowledged.status() == 200 && is_completed, &acknowledged);
    let again = run.send(ack).await?;
    refusal(run, &ACK_AGAIN, &again, &[409]);
    let late = run.send(Ask::new(Method::DELETE, &site.path(&format!("/jobs/{id}")))).await?;
    refusal(run, &CANCEL_LATE, &late, &[409]);
    Ok(true)
}

async fn failures(run: &mut ConformanceRun, site: &Site) -> Result<(), ConformanceError> {
    let id = push(
        run,
        site,
        json!({"retry": {"max_attempts": 3, "initial_interval": "PT1H", "max_interval": "PT1H"}}),
    )
    .await?;
    fetch(run, site, &id).await?;
    fail(run, site, &id, true).await?;
    let shown = show(run, site, &id).await?;
    run.check(&RETRIED, text(job(&shown), "state") == "retryable", &shown);
    let errors = job(&shown).get("errors").and_then(Value::as_array);
    run.check(&HISTORY, errors.is_some_and(|errors| errors.len() == 1), &shown);
    let entry = errors.and_then(|errors| errors.first()).cloned().unwrap_or_default();
    let is_entry = entry["code"].is_string()
        && entry["message"].is_string()
        && entry["attempt"] == 1
        && entry["occurred_at"].as_str().is_some_and(|time| Timestamp::parse(time).is_ok());
    run.check(&ENTRY, is_entry, &shown);
    let id = push(run, site, json!({})).await?;
    fetch(run, site, &id).await?;
    fail(run, site, &id, false).await?;
    let shown = show(run, site, &id).await?;
    run.check(&DISCARDED, text(job(&shown), "state") == "discarded", &shown);
    Ok(())
}

async fn fail(run: &ConformanceRun, site: &Site, id: &str, retryable: bool) -> Result<(), ConformanceError> {
    let error = json!({"code": "handler_error", "message": "a failure of the conformance check", "retryable": retryable});
    run.send(Ask::post(&site.path("/workers/nack"), &json!({"job_id": id, "error": error}))).await?;
    Ok(())
}

async fn cancelling(run: &mut ConformanceRun, site: &Site) -> Result<(), ConformanceError> {
    let id = push(run, site, json!({})).await?;
    let cancel = Ask::new(Method::DELETE, &site.path(&format!("/jobs/{id}")));
    let cancelled = run.send(cancel.clone()).await?;
    let is_cancelled = text(job(&cancelled), "state") == "cancelled";
    run.check(&CANCELLED, cancelled.status() == 200 && is_cancelled, &cancelled);
    let again = run.send(cancel).await?;
    refusal(run, &CANCEL_LATE, &again, &[409]);
    Ok(())
}

async fn refusals(run: &mut ConformanceRun, site: &Site) -> Result<(), ConformanceError> {
    let jobs = site.path("/jobs");
    let bad = [
        (&NO_TYPE, json!({"args": []}), &[400][..]),
        (&BAD_ENVELOPE, json!({"type": "Not A Type!", "args": []}), &[400]),
        (&BAD_ENVELOPE, json!({"type": "conformance.check", "args": "text"}), &[400]),
        (
            &BAD_QUEUE,
            json!({"type": "conformance.check", "args": [], "options": {"queue": "no queue!"}}),
            &[400],
        ),
        (
            &BAD_POLICY,
            json!({"type": "conformance.check", "args": [], "options": {"queue": site.queue, "retry": {"max_attempts": -1}}}),
            &[400, 422],
        ),
    ];
    for (rule, envelope, statuses) in bad {
        let answer = run.send(Ask::post(&jobs, &envelope)).await?;
        refusal(run, rule, &answer, statuses);
    }
    let answer = run.send(Ask::get(&format!("{jobs}/{}", run.unknown_id()))).await?;
    refusal(run, &UNKNOWN, &answer, &[404]);
    let is_named = codes(&answer).any(|code| code.eq_ignore_ascii_case("NOT_FOUND"));
    run.check(&UNKNOWN, is_named, &answer);
    if !run.has_key() {
        run.skip(&STRANGER, "no key was given, so the server may be open to all");
        return Ok(());
    }
    let answer = run.send(site.push(json!({})).without_key()).await?;
    refusal(run, &STRANGER, &answer, &[401]);
    run.check(&STRANGER, !answer.header("www-authenticate").is_empty(), &answer);
    Ok(())
}

/// Checks a refusal: its status, and that its body is an error.
fn refusal(run: &mut ConformanceRun, rule: &Rule, answer: &Exchange, statuses: &[u16]) {
    if !run.check(rule, statuses.contains(&answer.status()), answer) {
        return;
    }
    run.check(&ERRORS, codes(answer).next().is_some() && messages(answer).next().is_some(), answer);
    run.check(&MESSAGE, messages(answer).all(|message| !message.trim().is_empty()), answer);
    let mut says = objects(answer).filter_map(|object| object.get("retryable")?.as_bool());
    let all_final = says.all(|retryable| !retryable);
    run.check(&TRUTH, all_final, answer);
}

/// The error object: flat as in the catalogue, or nested as in the HTTP binding.
fn objects(answer: &Exchange) -> impl Iterator<Item = &Map<String, Value>> {
    let nested = answer.object().get("error").and_then(Value::as_object);
    std::iter::once(answer.object()).chain(nested)
}

fn codes(answer: &Exchange) -> impl Iterator<Item = &str> {
    objects(answer).filter_map(|object| object.get("code")?.as_str())
}

fn messages(answer: &Exchange) -> impl Iterator<Item = &str> {
    objects(answer).filter_map(|object| object.get("message")?.as_str())
}
