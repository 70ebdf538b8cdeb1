//! Contract `async-members`: failure reports have the members of
//! draft-ratnawat-httpapi-async-problem-details-00.
//!
//! Submits and follows a job that fails and one that succeeds. The level is how complete the
//! reports are: none, Basic (any member), Full (`jobId`, `jobStatus` and `submittedAt`).

use forgerun_problem::MEDIA_TYPE_JSON;
use forgerun_problem::check::{Carrier, Finding, Level, inspect_on};
use serde_json::Value;

use super::ConformanceError;
use super::follow::{Followed, follow, is_under_way, submit};
use super::rule::{Rule, must, should};
use super::run::{Ask, ConformanceRun};
use super::trace::Exchange;

const ASSIGNED: Rule = must(
    "AJ-SUB-01",
    "the id of a job is assigned when it is accepted",
    "answer an accepted submission with 202 and the job's id, as jobId and in Location",
);
const SAME_ID: Rule =
    should("AJ-SUB-02", "jobId is the id in Location", "use one id for the job's address and for jobId");
const LINK: Rule = should(
    "AJ-SUB-03",
    "an acceptance links to the status resource",
    "add Link: <the job's address>; rel=\"status\"",
);
const ENDS: Rule = must(
    "AJ-STM-02",
    "a job reaches a terminal state",
    "end the job, or give the tool more patience (poll.patience) or a job that fails sooner (operations.fails)",
);
const SERVED_AS: Rule = should(
    "AJ-STA-01",
    "a failure report is served as application/problem+json where that is accepted",
    "answer Accept: application/problem+json on a failed job with the problem object",
);
const REPORT: Rule = must("AJ-AJM-20", "the members of a failure report are as the draft defines them", "");
const UNDER_WAY: Rule = must("AJ-AJM-20", "the members of a job under way are as the draft defines them", "");
const WELL: Rule =
    must("AJ-AJM-20", "the members of a job that ended well are as the draft defines them", "");
const PRESENT: Rule = should(
    "AJ-AJM-03",
    "failure reports have members for asynchronous jobs",
    "add jobId, jobStatus and submittedAt at the top level of the problem object",
);
const STABLE: Rule = must(
    "AJ-STM-01",
    "a terminal state does not change any more",
    "answer every question about an ended job with the same jobStatus",
);
const RETRY_AFTER: Rule = should(
    "AJ-STA-07",
    "Retry-After agrees with retryAfter",
    "send Retry-After with the value of retryAfter",
);
const CORRELATION: Rule = should(
    "AJ-AJM-14",
    "correlationId echoes the client's identifier",
    "put the X-Correlation-ID of the submission into the report's correlationId",
);
const INSTANCE: Rule = should(
    "AJ-AJM-17",
    "the instance of a report leads to the job",
    "use the address of the job's status resource as instance",
);
const PLAIN: Rule = should(
    "AJ-AJM-24",
    "success is plain JSON",
    "serve the status of a job that ended well as application/json",
);

pub(super) async fn judge(run: &mut ConformanceRun) -> Result<Level, ConformanceError> {
    let word = format!("conformance-{}", run.random_word());
    let job = submit(run, &run.description.operations.fails.clone(), &[("X-Correlation-ID", &word)]).await?;
    if !acceptance(run, &job) {
        return Ok(Level::None);
    }
    let level = failure(run, &job, &word).await?;
    success(run).await?;
    Ok(level)
}

/// Checks the answer to the submission. Returns whether there is a job to follow.
fn acceptance(run: &mut ConformanceRun, job: &Followed) -> bool {
    let accepted = &job.accepted;
    let has_id = !job.id.is_empty() || !accepted.header("location").is_empty();
    if !run.check(&ASSIGNED, accepted.status() == 202 && has_id, accepted) {
        return false;
    }
    let last = job.location.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    if !job.id.is_empty() {
        run.check(&SAME_ID, last == job.id, accepted);
    }
    run.check(&LINK, accepted.header("link").contains("status"), accepted);
    true
}

async fn failure(run: &mut ConformanceRun, job: &Followed, word: &str) -> Result<Level, ConformanceError> {
    let answers = follow(run, &job.location).await?;
    for answer in answers.iter().filter(|answer| is_under_way(answer)) {
        run.findings(&UNDER_WAY, &of_members(answer), answer);
    }
    let last = answers.last().expect("a job is asked for at least once");
    if !run.check(&ENDS, !is_under_way(last), last) {
        return Ok(inspect_on(last.object(), Carrier::Report).level);
    }
    let report = run.send(Ask::get(&job.location).header("Accept", MEDIA_TYPE_JSON)).await?;
    let is_problem = report.answer.media_type() == MEDIA_TYPE_JSON;
    run.check(&SERVED_AS, is_problem, &report);
    let found = inspect_on(report.object(), Carrier::Report);
    let findings = if is_problem { found.findings } else { of_members(&report) };
    run.findings(&REPORT, &findings, &report);
    run.check(&PRESENT, found.level != Level::None, &report);
    around(run, &report, word).await?;
    stability(run, job, &report).await?;
    Ok(found.level)
}

/// Checks what surrounds the report: header fields, links, echoes.
async fn around(run: &mut ConformanceRun, report: &Exchange, word: &str) -> Result<(), ConformanceError> {
    match report.object().get("retryAfter").and_then(Value::as_u64) {
        Some(seconds) => {
            run.check(&RETRY_AFTER, report.header("retry-after") == seconds.to_string(), report);
        }
        None => run.skip(&RETRY_AFTER, "the report has no retryAfter"),
    }
    run.check(&CORRELATION, report.text("correlationId") == word, report);
    let instance = report.text("instance").to_owned();
    match !instance.is_empty() && run.is_own(&instance) {
        true => {
            let found = run.send(Ask::get(&instance)).await?;
            run.check(&INSTANCE, found.status() < 300, &found);
        }
        false => run.skip(&INSTANCE, "the instance does not lead to the server itself"),
    }
    Ok(())
}

async fn stability(
    run: &mut ConformanceRun,
    job: &Followed,
    report: &Exchange,
) -> Result<(), ConformanceError> {
    for _ in 0..3 {
        let again = run.send(Ask::get(&job.location).header("Accept", MEDIA_TYPE_JSON)).await?;
        run.check(&STABLE, again.text("jobStatus") == report.text("jobStatus"), &again);
    }
    Ok(())
}

async fn success(run: &mut ConformanceRun) -> Result<(), ConformanceError> {
    let job = submit(run, &run.description.operations.succeeds.clone(), &[]).await?;
    if job.accepted.status() != 202 {
        return Ok(());
    }
    let answers = follow(run, &job.location).await?;
    let last = answers.last().expect("a job is asked for at least once");
    if is_under_way(last) {
        run.skip(&PLAIN, "the job did not end in time");
        return Ok(());
    }
    run.check(&PLAIN, last.answer.media_type() == "application/json", last);
    run.findings(&WELL, &of_members(last), last);
    Ok(())
}

/// Violations of the members in a plain status. It is not a problem object, so `status` and others
/// may have other meanings, and no member is required, nor retry advice: only present members are
/// checked.
fn of_members(answer: &Exchange) -> Vec<Finding> {
    let of_failures = ["AJ-AJM-03", "AJ-AJM-11", "AJ-AJM-12"];
    let counts = |id: &str| id.starts_with("AJ-") && !of_failures.contains(&id);
    let found = inspect_on(answer.object(), Carrier::Report);
    found.findings.into_iter().filter(|finding| counts(finding.requirement)).collect()
}
