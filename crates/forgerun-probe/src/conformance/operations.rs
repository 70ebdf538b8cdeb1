//! Contract `operations`: the async-operations pattern. A submission is accepted with 202, the job
//! is polled at its address to its end, the result is fetched, and deleted jobs answer 410.

use forgerun_problem::{MEDIA_TYPE_JSON, Timestamp};
use http::Method;
use serde_json::Value;

use super::ConformanceError;
use super::follow::{Followed, follow, is_under_way, submit};
use super::rule::{Rule, must, should};
use super::run::{Ask, ConformanceRun};
use super::trace::Exchange;

const ACCEPTED: Rule =
    must("AO-SUB-01", "a submission is accepted with 202", "answer 202 at once, and do the work afterwards");
const LOCATION: Rule = must(
    "AO-SUB-02",
    "the 202 has Location with the job's address",
    "send Location with the address at which the job is polled",
);
const RETRY_AFTER: Rule = must(
    "AO-SUB-03",
    "the 202 has Retry-After in whole seconds",
    "send Retry-After with the suggested polling interval, 1 or more",
);
const CORRELATION: Rule = must(
    "AO-SUB-04",
    "X-Correlation-ID comes back, and is made up where none was sent",
    "echo X-Correlation-ID, and make one up if the request has none",
);
const ACCEPTANCE: Rule = must(
    "AO-SUB-05",
    "the 202 has jobId, status, statusUrl and submittedAt",
    "add the members that are missing; submittedAt is an RFC 3339 time",
);
const QUEUED_FIRST: Rule =
    must("AO-SUB-07", "the first status is Queued", "report the status Queued in the answer to a submission");
const UNDER_WAY: Rule = must(
    "AO-STA-01",
    "a job under way is answered 202 with Retry-After",
    "answer 202 with Retry-After while the status is Queued or Running",
);
const ENDED: Rule =
    must("AO-STA-02", "an ended job is answered 200", "answer 200 once the job has ended, however it ended");
const FAILED_IS_200: Rule = must(
    "AO-STA-03",
    "a failed job is not an error of the request",
    "answer 200 with the status Failed and an error object: asking for the job worked",
);
const QUEUED_BODY: Rule = must(
    "AO-STA-04",
    "a queued job has jobId, status, submittedAt and updatedAt",
    "add the members that are missing",
);
const RUNNING_BODY: Rule = must(
    "AO-STA-05",
    "a running job has jobId, status, submittedAt, startedAt and updatedAt",
    "add the members that are missing",
);
const PROGRESS: Rule = should(
    "AO-STA-06",
    "progress is a whole number from 0 to 100",
    "send progress as an integer from 0 to 100",
);
const COMPLETED_BODY: Rule = must(
    "AO-STA-07",
    "a completed job has submittedAt, startedAt, completedAt, duration, resultUrl and resultType",
    "add the members that are missing",
);
const FAILED_BODY: Rule = must(
    "AO-STA-08",
    "a failed job has failedAt, error with type, message, errorCode and retryable, retryCount and maxRetries",
    "add the members that are missing",
);
const CANCELLED_BODY: Rule = must(
    "AO-STA-09",
    "a cancelled job has cancelledAt, cancelledBy and reason",
    "add the members that are missing",
);
const GONE: Rule = must(
    "AO-STA-10",
    "a job that is gone is answered 410 with jobId and expiredAt",
    "answer 410 with a problem object that has title, jobId and expiredAt",
);
const UNKNOWN: Rule = must(
    "AO-STA-11",
    "an unknown id is answered 404 with a problem that names it",
    "answer 404 with a problem object whose detail names the id",
);
const JSON: Rule =
    must("AO-STA-12", "bodies are application/json", "set Content-Type: application/json; charset=utf-8");
const POLL_AUTH: Rule =
    must("AO-STA-13", "polling needs credentials", "answer 401 to a status request without credentials");
const WORDS: Rule = must(
    "AO-STM-01",
    "the status is one of the defined words",
    "use Queued, Running, Completed, Failed, Cancelled (or Validating, Preparing, Finalizing, PartiallyCompleted)",
);
const FLOW: Rule = must(
    "AO-STM-03",
    "a job goes from Queued to Running to its end, and never back",
    "never report an earlier status after a later one",
);
const RESULT: Rule = must(
    "AO-RES-01",
    "resultUrl leads to the result",
    "serve the result of a completed job at its resultUrl",
);
const RESULT_AUTH: Rule =
    must("AO-RES-05", "results need credentials", "answer 401 to a request for a result without credentials");
const SAME_JOB: Rule = must(
    "AO-IDM-01",
    "a repeated key is answered 202 with the job that exists",
    "keep the key with the job, and answer its repetition with the same jobId",
);
const OTHER_JOB: Rule =
    must("AO-IDM-04", "a submission without a key makes a new job", "give every submission a new jobId");
const REFUSED: Rule = must(
    "AO-SUB-09",
    "a body that will not do is refused with 400 before there is a job",
    "validate first, and answer 400 (or 422) without a jobId",
);
const PROBLEMS: Rule =
    must("AO-ERR-01", "errors of requests are problem details", "answer with application/problem+json");

pub(super) async fn judge(run: &mut ConformanceRun) -> Result<(), ConformanceError> {
    let bodies = run.description.operations.clone();
    let first = submit(run, &bodies.succeeds, &[("X-Correlation-ID", "conformance-1")]).await?;
    if !acceptance(run, &first) {
        return Ok(());
    }
    run.check(&CORRELATION, first.accepted.header("x-correlation-id") == "conformance-1", &first.accepted);
    completed(run, &first).await?;
    let second = submit(run, &bodies.succeeds, &[]).await?;
    run.check(&CORRELATION, !second.accepted.header("x-correlation-id").is_empty(), &second.accepted);
    run.check(&OTHER_JOB, second.id != first.id, &second.accepted);
    failed(run, &bodies.fails).await?;
    cancelled(run, &bodies.slow, &bodies.cancel).await?;
    repeated(run, &bodies.succeeds, &bodies.idempotency_header).await?;
    refused(run, &bodies.invalid).await?;
    unknown(run, &bodies.status).await?;
    gone(run, &first, &bodies.gone).await
}

/// Checks the answer to a submission. Returns whether there is a job to poll.
fn acceptance(run: &mut ConformanceRun, job: &Followed) -> bool {
    let accepted = &job.accepted;
    if !run.check(&ACCEPTED, accepted.status() == 202, accepted) {
        return false;
    }
    run.check(&LOCATION, !accepted.header("location").is_empty(), accepted);
    run.check(&RETRY_AFTER, is_whole_seconds(accepted.header("retry-after")), accepted);
    let has_all =
        ["jobId", "status", "statusUrl", "submittedAt"].iter().all(|name| !accepted.text(name).is_empty());
    run.check(&ACCEPTANCE, has_all && Timestamp::parse(accepted.text("submittedAt")).is_ok(), accepted);
    run.check(&QUEUED_FIRST, accepted.text("status") == "Queued", accepted);
    run.check(&JSON, accepted.answer.media_type() == "application/json", accepted);
    true
}

/// Follows a job to its end and checks every answer. Returns the last one, if the job ended.
async fn ended(run: &mut ConformanceRun, job: &Followed) -> Result<Option<Exchange>, ConformanceError> {
    let answers = follow(run, &job.location).await?;
    let mut furthest = 0;
    for answer in &answers {
        run.check(&JSON, answer.answer.media_type() == "application/json", answer);
        let Some(step) = step_of(answer.text("status")) else {
            run.check(&WORDS, false, answer);
            continue;
        };
        run.check(&WORDS, true, answer);
        run.check(&FLOW, step >= furthest, answer);
        furthest = furthest.max(step);
        on_the_way(run, answer);
    }
    let last = answers.into_iter().last().expect("a job is asked for at least once");
    if is_under_way(&last) {
        run.skip(&ENDED, "the job did not end in time; poll.patience says how long");
        return Ok(None);
    }
    run.check(&ENDED, last.status() == 200, &last);
    Ok(Some(last))
}

fn on_the_way(run: &mut ConformanceRun, answer: &Exchange) {
    let body = match answer.text("status") {
        "Queued" => (&QUEUED_BODY, &["jobId", "status", "submittedAt", "updatedAt"][..]),
        "Running" => (&RUNNING_BODY, &["jobId", "status", "submittedAt", "startedAt", "updatedAt"][..]),
        _ => return,
    };
    let is_right = answer.status() == 202 && is_whole_seconds(answer.header("retry-after"));
    run.check(&UNDER_WAY, is_right, answer);
    run.check(body.0, has(answer, body.1), answer);
    if let Some(progress) = answer.object().get("progress").filter(|value| !value.is_null()) {
        run.check(&PROGRESS, progress.as_u64().is_some_and(|percent| percent <= 100), answer);
    }
}

async fn completed(run: &mut ConformanceRun, job: &Followed) -> Result<(), ConformanceError> {
    let Some(last) = ended(run, job).await? else {
        return Ok(());
    };
    let members = ["jobId", "submittedAt", "startedAt", "completedAt", "duration", "resultUrl", "resultType"];
    run.check(&COMPLETED_BODY, last.text("status") == "Completed" && has(&last, &members), &last);
    let url = last.text("resultUrl").to_owned();
    if url.is_empty() {
        return Ok(());
    }
    let result = run.send(Ask::get(&url)).await?;
    run.check(&RESULT, result.status() == 200, &result);
    if run.has_key() {
        let stranger = run.send(Ask::get(&job.location).without_key()).await?;
        run.check(&POLL_AUTH, stranger.status() == 401, &stranger);
        let stranger = run.send(Ask::get(&url).without_key()).await?;
        run.check(&RESULT_AUTH, stranger.status() == 401, &stranger);
    } else {
        run.skip(&POLL_AUTH, "no key was given, so the server may be open to all");
        run.skip(&RESULT_AUTH, "no key was given, so the server may be open to all");
    }
    Ok(())
}

async fn failed(run: &mut ConformanceRun, body: &Value) -> Result<(), ConformanceError> {
    let job = submit(run, body, &[]).await?;
    if !run.check(&ACCEPTED, job.accepted.status() == 202, &job.accepted) {
        return Ok(());
    }
    let Some(last) = ended(run, &job).await? else {
        return Ok(());
    };
    run.check(&FAILED_IS_200, last.status() < 400, &last);
    let error = last.object().get("error").and_then(Value::as_object);
    let explains = error.is_some_and(|error| {
        let text = |name: &str| error.get(name).is_some_and(Value::is_string);
        text("type")
            && text("message")
            && text("errorCode")
            && error.get("retryable").is_some_and(Value::is_boolean)
    });
    let members = ["jobId", "submittedAt", "failedAt", "retryCount", "maxRetries"];
    let is_failed = last.text("status") == "Failed";
    run.check(&FAILED_BODY, is_failed && explains && has(&last, &members), &last);
    Ok(())
}

async fn cancelled(run: &mut ConformanceRun, body: &Value, cancel: &str) -> Result<(), ConformanceError> {
    let Some((method, path)) = method_and_path(cancel) else {
        run.skip(&CANCELLED_BODY, "the description does not say how a job is cancelled");
        return Ok(());
    };
    let job = submit(run, body, &[]).await?;
    run.send(Ask::new(method, &path.replace("{id}", &job.id))).await?;
    let Some(last) = ended(run, &job).await? else {
        return Ok(());
    };
    if last.text("status") != "Cancelled" {
        run.skip(&CANCELLED_BODY, "the job ended before it could be cancelled");
        return Ok(());
    }
    run.check(
        &CANCELLED_BODY,
        has(&last, &["jobId", "submittedAt", "cancelledAt", "cancelledBy", "reason"]),
        &last,
    );
    Ok(())
}

async fn repeated(run: &mut ConformanceRun, body: &Value, header: &str) -> Result<(), ConformanceError> {
    if header.is_empty() {
        run.skip(&SAME_JOB, "the description names no idempotency_header");
        return Ok(());
    }
    let key = format!("conformance-{}", run.random_word());
    let first = submit(run, body, &[(header, &key)]).await?;
    let again = submit(run, body, &[(header, &key)]).await?;
    let same = again.accepted.status() == 202 && !first.id.is_empty() && again.id == first.id;
    run.check(&SAME_JOB, same, &again.accepted);
    Ok(())
}

async fn refused(run: &mut ConformanceRun, body: &Value) -> Result<(), ConformanceError> {
    let refusal = run.send(Ask::post(&run.description.operations.submit, body)).await?;
    let is_right = matches!(refusal.status(), 400 | 422) && refusal.text("jobId").is_empty();
    run.check(&REFUSED, is_right, &refusal);
    run.check(&PROBLEMS, refusal.answer.media_type() == MEDIA_TYPE_JSON, &refusal);
    Ok(())
}

async fn unknown(run: &mut ConformanceRun, status: &str) -> Result<(), ConformanceError> {
    let id = run.unknown_id();
    let answer = run.send(Ask::get(&status.replace("{id}", &id))).await?;
    run.check(&UNKNOWN, answer.status() == 404 && answer.text("detail").contains(&id), &answer);
    run.check(&PROBLEMS, answer.answer.media_type() == MEDIA_TYPE_JSON, &answer);
    Ok(())
}

/// Deletes a job of this run, or fetches a deleted one.
async fn gone(run: &mut ConformanceRun, job: &Followed, how: &str) -> Result<(), ConformanceError> {
    let Some((method, path)) = method_and_path(how) else {
        run.skip(&GONE, "the description does not say how a job is made to be gone");
        return Ok(());
    };
    let answer = match method {
        Method::GET => run.send(Ask::get(path)).await?,
        method => {
            run.send(Ask::new(method, &path.replace("{id}", &job.id))).await?;
            run.send(Ask::get(&job.location)).await?
        }
    };
    let is_right = answer.status() == 410
        && answer.answer.media_type() == MEDIA_TYPE_JSON
        && has(&answer, &["title", "jobId", "expiredAt"]);
    run.check(&GONE, is_right, &answer);
    Ok(())
}

/// Splits `POST /path`.
fn method_and_path(text: &str) -> Option<(Method, &str)> {
    let (method, path) = text.split_once(' ')?;
    Some((method.parse().ok()?, path.trim()))
}

fn has(answer: &Exchange, members: &[&str]) -> bool {
    members.iter().all(|name| answer.object().get(*name).is_some_and(|value| !value.is_null()))
}

fn is_whole_seconds(text: &str) -> bool {
    text.parse::<u32>().is_ok_and(|seconds| seconds >= 1)
}

/// Order of a status; `None` if it is not defined.
fn step_of(status: &str) -> Option<u8> {
    match status {
        "Queued" => Some(0),
        "Validating" | "Preparing" | "Running" | "Finalizing" => Some(1),
        "Completed" | "Failed" | "Cancelled" | "PartiallyCompleted" => Some(2),
        _ => None,
    }
}
