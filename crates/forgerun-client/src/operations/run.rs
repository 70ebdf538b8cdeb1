//! Submitting, waiting, and submitting again where the failure says that it is worth it.

use forgerun_problem::advice::{Advice, Policy, Situation};
use forgerun_problem::{Job, JobStatus, Timestamp};
use forgerun_wire::codes::ojs_retryable;

use super::{Accepted, Operation, OperationStatus, Operations, Submission};
use crate::clock::fraction;
use crate::error::Error;

/// How a piece of work ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The job that came last, as it stands.
    pub operation: Operation,
    /// All jobs that were made for it, in order. The last one is that of `operation`.
    pub attempted: Vec<Attempted>,
}

/// One job of a piece of work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attempted {
    /// Which job.
    pub job_id: String,
    /// Its own key.
    pub idempotency_key: String,
}

impl Operations<'_> {
    /// Submits, waits for the end, and submits the work again as a new job if the failure is worth it: at most
    /// `policy.attempts_max` times, never sooner than the server and the policy ask for. Every job has a key of its own.
    ///
    /// # Errors
    /// As [`Operations::submit`] and [`Operations::wait`]. A job that failed for good is no error: see its status.
    pub async fn run(&self, submission: &Submission, policy: &Policy) -> Result<Ended, Error> {
        let mut attempted = Vec::new();
        let mut next = submission.clone();
        loop {
            let accepted = self.submit(&next).await?;
            let operation = self.wait(&accepted).await?;
            let Accepted { job_id, idempotency_key, .. } = accepted;
            attempted.push(Attempted { job_id, idempotency_key });
            match self.advise(&operation, policy, attempted.len() as u32 - 1) {
                Advice::RetryIn(wait) => self.client.clock().sleep(wait).await,
                Advice::KeepWaiting | Advice::GiveUp(_) => return Ok(Ended { operation, attempted }),
            }
            next = submission.clone().anew();
        }
    }

    fn advise(&self, operation: &Operation, policy: &Policy, retries_made: u32) -> Advice {
        let now = self.client.clock().now();
        let now = now.duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let now = Timestamp::from_unix_millis(now.as_millis() as i64);
        let now = now.or_else(|_| Timestamp::from_unix_seconds(0)).expect("the beginning of time is a time");
        let situation =
            Situation { received_at: now, now, retries_made, random: fraction(self.client.clock().random()) };
        let code = operation.error.as_ref().and_then(|error| error.canonical.as_deref());
        // Where the code is known its own default holds; otherwise silence means no.
        let policy = Policy { retryable_if_absent: code.and_then(ojs_retryable).unwrap_or(false), ..*policy };
        policy.advise(&job(operation), &situation)
    }
}

/// What the advice needs to know of a job, from whatever form the server used.
fn job(operation: &Operation) -> Job {
    let status = match operation.status {
        OperationStatus::Completed => JobStatus::Completed,
        OperationStatus::Cancelled => JobStatus::Cancelled,
        OperationStatus::PartiallyCompleted => JobStatus::CompletedWithErrors,
        OperationStatus::Failed => JobStatus::Failed,
        OperationStatus::Queued | OperationStatus::Running | OperationStatus::Other(_) => {
            JobStatus::Processing
        }
    };
    let terminal = status.is_terminal();
    let mut job = Job::builder().status(status);
    let said = operation.error.as_ref();
    let members = |name: &str| operation.members.get(name);
    let nested = members("error").and_then(|error| error.get("retryable"));
    if let Some(retryable) = members("retryable").or(nested).and_then(serde_json::Value::as_bool) {
        job = job.retryable(retryable);
    }
    if let Some(after) = said.and_then(|error| error.retry_after) {
        job = job.retry_after_s(after.as_secs());
    }
    let completed_at = members("completedAt").and_then(serde_json::Value::as_str);
    if let Some(at) = completed_at.filter(|_| terminal).and_then(|text| Timestamp::parse(text).ok()) {
        job = job.completed_at(at);
    }
    job.build().unwrap_or_default()
}
