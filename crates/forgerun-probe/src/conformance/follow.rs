//! Submits a job and polls it to its end.

use serde_json::Value;

use super::ConformanceError;
use super::run::{Ask, ConformanceRun};
use super::trace::Exchange;
use crate::limits::POLLS_MAX;

pub(super) struct Followed {
    /// The answer to the submission.
    pub(super) accepted: Exchange,
    /// The id from the answer; empty if it has none.
    pub(super) id: String,
    pub(super) location: String,
}

/// Submits a job. The answer may be a refusal.
pub(super) async fn submit(
    run: &ConformanceRun,
    body: &Value,
    headers: &[(&str, &str)],
) -> Result<Followed, ConformanceError> {
    let mut ask = Ask::post(&run.description.operations.submit, body).header("Accept", "application/json");
    for (name, value) in headers {
        ask = ask.header(name, value);
    }
    let accepted = run.send(ask).await?;
    if matches!(accepted.status(), 401 | 403) {
        return Err(ConformanceError::NotAuthorised(accepted.got()));
    }
    let id = accepted.text("jobId").to_owned();
    let location = match (accepted.header("location"), accepted.text("statusUrl")) {
        ("", "") => run.description.operations.status.replace("{id}", &id),
        ("", url) | (url, _) => url.to_owned(),
    };
    Ok(Followed { accepted, id, location })
}

/// Polls a job to its end. Returns all answers in order; the last one has the end, unless the time
/// ran out.
pub(super) async fn follow(run: &ConformanceRun, location: &str) -> Result<Vec<Exchange>, ConformanceError> {
    let mut answers = Vec::new();
    let n_max = run.description.poll.patience.as_millis() / run.description.poll.every.as_millis().max(1);
    let n_max = usize::try_from(n_max).unwrap_or(POLLS_MAX).clamp(1, POLLS_MAX);
    loop {
        let answer = run.send(Ask::get(location).header("Accept", "application/json")).await?;
        let goes_on = is_under_way(&answer);
        answers.push(answer);
        if !goes_on || answers.len() >= n_max {
            return Ok(answers);
        }
        run.sleep(run.description.poll.every).await;
    }
}

/// Whether an answer says that the job has not ended yet. The body counts more than the status
/// code, which may be the fault being checked.
pub(super) fn is_under_way(answer: &Exchange) -> bool {
    match (answer.text("status").to_ascii_lowercase().as_str(), answer.text("jobStatus")) {
        ("queued" | "running" | "validating" | "preparing" | "finalizing", _)
        | (_, "ACCEPTED" | "PROCESSING") => true,
        ("completed" | "failed" | "cancelled" | "partiallycompleted", _)
        | (_, "COMPLETED" | "FAILED" | "CANCELLED" | "TIMED_OUT" | "COMPLETED_WITH_ERRORS") => false,
        _ => answer.status() == 202,
    }
}
