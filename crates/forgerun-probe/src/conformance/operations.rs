//! Contract `operations`: the async-operations pattern. A submission is accepted with 202, the job is polled at its address until it
//! has ended, the result is fetched, and what is gone is said to be gone.

use forgerun_problem::{MEDIA_TYPE_JSON, Timestamp};
use http::Method;
use serde_json::Value;

use super::ConformanceError;
use super::exam::{Ask, Exam};
use super::follow::{Followed, follow, is_under_way, submit};
use super::rule::{Rule, must, should};
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

pub(super) async fn judge(exam: &mut Exam) -> Result<(), ConformanceError> {
    let bodies = exam.description.operations.clone();
    let first = submit(exam, &bodies.succeeds, &[("X-Correlation-ID", "conformance-1")]).await?;
    if !acceptance(exam, &first) {
        return Ok(());
    }
    exam.check(&CORRELATION, first.accepted.header("x-correlation-id") == "conformance-1", &first.accepted);
    completed(exam, &first).await?;
    let second = submit(exam, &bodies.succeeds, &[]).await?;
    exam.check(&CORRELATION, !second.accepted.header("x-correlation-id").is_empty(), &second.accepted);
    exam.check(&OTHER_JOB, second.id != first.id, &second.accepted);
    failed(exam, &bodies.fails).await?;
    cancelled(exam, &bodies.slow, &bodies.cancel).await?;
    repeated(exam, &bodies.succeeds, &bodies.idempotency_header).await?;
    refused(exam, &bodies.invalid).await?;
    unknown(exam, &bodies.status).await?;
    gone(exam, &first, &bodies.gone).await
}

/// Judges the answer to a submission. Returns whether there is a job to ask for.
fn acceptance(exam: &mut Exam, job: &Followed) -> bool {
    let accepted = &job.accepted;
    if !exam.check(&ACCEPTED, accepted.status() == 202, accepted) {
        return false;
    }
    exam.check(&LOCATION, !accepted.header("location").is_empty(), accepted);
    exam.check(&RETRY_AFTER, is_whole_seconds(accepted.header("retry-after")), accepted);
    let has_all =
        ["jobId", "status", "statusUrl", "submittedAt"].iter().all(|name| !accepted.text(name).is_empty());
    exam.check(&ACCEPTANCE, has_all && Timestamp::parse(accepted.text("submittedAt")).is_ok(), accepted);
    exam.check(&QUEUED_FIRST, accepted.text("status") == "Queued", accepted);
    exam.check(&JSON, accepted.answer.media_type() == "application/json", accepted);
    true
}

/// Follows a job to its end and judges every answer on the way. Returns the last one, if the job ended.
async fn ended(exam: &mut Exam, job: &Followed) -> Result<Option<Exchange>, ConformanceError> {
    let answers = follow(exam, &job.location).await?;
    let mut furthest = 0;
    for answer in &answers {
        exam.check(&JSON, answer.answer.media_type() == "application/json", answer);
        let Some(step) = step_of(answer.text("status")) else {
            exam.check(&WORDS, false, answer);
            continue;
        };
        exam.check(&WORDS, true, answer);
        exam.check(&FLOW, step >= furthest, answer);
        furthest = furthest.max(step);
        on_the_way(exam, answer);
    }
    let last = answers.into_iter().last().expect("a job is asked for at least once");
    if is_under_way(&last) {
        exam.skip(&ENDED, "the job did not end in time; poll.patience says how long");
        return Ok(None);
    }
    exam.check(&ENDED, last.status() == 200, &last);
    Ok(Some(last))
}

fn on_the_way(exam: &mut Exam, answer: &Exchange) {
    let body = match answer.text("status") {
        "Queued" => (&QUEUED_BODY, &["jobId", "status", "submittedAt", "updatedAt"][..]),
        "Running" => (&RUNNING_BODY, &["jobId", "status", "submittedAt", "startedAt", "updatedAt"][..]),
        _ => return,
    };
    let is_right = answer.status() == 202 && is_whole_seconds(answer.header("retry-after"));
    exam.check(&UNDER_WAY, is_right, answer);
    exam.check(body.0, has(answer, body.1), answer);
    if let Some(progress) = answer.object().get("progress").filter(|value| !value.is_null()) {
        exam.check(&PROGRESS, progress.as_u64().is_some_and(|percent| percent <= 100), answer);
    }
}

async fn completed(exam: &mut Exam, job: &Followed) -> Result<(), ConformanceError> {
    let Some(last) = ended(exam, job).await? else {
        return Ok(());
    };
    let members = ["jobId", "submittedAt", "startedAt", "completedAt", "duration", "resultUrl", "resultType"];
    exam.check(&COMPLETED_BODY, last.text("status") == "Completed" && has(&last, &members), &last);
    let url = last.text("resultUrl").to_owned();
    if url.is_empty() {
        return Ok(());
    }
    let result = exam.send(Ask::get(&url)).await?;
    exam.check(&RESULT, result.status() == 200, &result);
    if exam.has_key() {
        let stranger = exam.send(Ask::get(&job.location).without_key()).await?;
        exam.check(&POLL_AUTH, stranger.status() == 401, &stranger);
        let stranger = exam.send(Ask::get(&url).without_key()).await?;
        exam.check(&RESULT_AUTH, stranger.status() == 401, &stranger);
    } else {
        exam.skip(&POLL_AUTH, "no key was given, so the server may be open to all");
        exam.skip(&RESULT_AUTH, "no key was given, so the server may be open to all");
    }
    Ok(())
}

async fn failed(exam: &mut Exam, body: &Value) -> Result<(), ConformanceError> {
    let job = submit(exam, body, &[]).await?;
    if !exam.check(&ACCEPTED, job.accepted.status() == 202, &job.accepted) {
        return Ok(());
    }
    let Some(last) = ended(exam, &job).await? else {
        return Ok(());
    };
    exam.check(&FAILED_IS_200, last.status() < 400, &last);
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
    exam.check(&FAILED_BODY, is_failed && explains && has(&last, &members), &last);
    Ok(())
}

async fn cancelled(exam: &mut Exam, body: &Value, cancel: &str) -> Result<(), ConformanceError> {
    let Some((method, path)) = method_and_path(cancel) else {
        exam.skip(&CANCELLED_BODY, "the description does not say how a job is cancelled");
        return Ok(());
    };
    let job = submit(exam, body, &[]).await?;
    exam.send(Ask::new(method, &path.replace("{id}", &job.id))).await?;
    let Some(last) = ended(exam, &job).await? else {
        return Ok(());
    };
    if last.text("status") != "Cancelled" {
        exam.skip(&CANCELLED_BODY, "the job ended before it could be cancelled");
        return Ok(());
    }
    exam.check(
        &CANCELLED_BODY,
        has(&last, &["jobId", "submittedAt", "cancelledAt", "cancelledBy", "reason"]),
        &last,
    );
    Ok(())
}

async fn repeated(exam: &mut Exam, body: &Value, header: &str) -> Result<(), ConformanceError> {
    if header.is_empty() {
        exam.skip(&SAME_JOB, "the description names no idempotency_header");
        return Ok(());
    }
    let key = format!("conformance-{}", exam.random_word());
    let first = submit(exam, body, &[(header, &key)]).await?;
    let again = submit(exam, body, &[(header, &key)]).await?;
    let same = again.accepted.status() == 202 && !first.id.is_empty() && again.id == first.id;
    exam.check(&SAME_JOB, same, &again.accepted);
    Ok(())
}

async fn refused(exam: &mut Exam, body: &Value) -> Result<(), ConformanceError> {
    let refusal = exam.send(Ask::post(&exam.description.operations.submit, body)).await?;
    let is_right = matches!(refusal.status(), 400 | 422) && refusal.text("jobId").is_empty();
    exam.check(&REFUSED, is_right, &refusal);
    exam.check(&PROBLEMS, refusal.answer.media_type() == MEDIA_TYPE_JSON, &refusal);
    Ok(())
}

async fn unknown(exam: &mut Exam, status: &str) -> Result<(), ConformanceError> {
    let id = exam.unknown_id();
    let answer = exam.send(Ask::get(&status.replace("{id}", &id))).await?;
    exam.check(&UNKNOWN, answer.status() == 404 && answer.text("detail").contains(&id), &answer);
    exam.check(&PROBLEMS, answer.answer.media_type() == MEDIA_TYPE_JSON, &answer);
    Ok(())
}

/// Deletes a job of ours, or looks at one that is gone already.
async fn gone(exam: &mut Exam, job: &Followed, how: &str) -> Result<(), ConformanceError> {
    let Some((method, path)) = method_and_path(how) else {
        exam.skip(&GONE, "the description does not say how a job is made to be gone");
        return Ok(());
    };
    let answer = match method {
        Method::GET => exam.send(Ask::get(path)).await?,
        method => {
            exam.send(Ask::new(method, &path.replace("{id}", &job.id))).await?;
            exam.send(Ask::get(&job.location)).await?
        }
    };
    let is_right = answer.status() == 410
        && answer.answer.media_type() == MEDIA_TYPE_JSON
        && has(&answer, &["title", "jobId", "expiredAt"]);
    exam.check(&GONE, is_right, &answer);
    Ok(())
}

/// `POST /path` as two.
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

/// How far a job is; `None` for a word that is not defined.
fn step_of(status: &str) -> Option<u8> {
    match status {
        "Queued" => Some(0),
        "Validating" | "Preparing" | "Running" | "Finalizing" => Some(1),
        "Completed" | "Failed" | "Cancelled" | "PartiallyCompleted" => Some(2),
        _ => None,
    }
}
