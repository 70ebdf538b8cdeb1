//! The result of a job as a value, or the error that it ended with.

use std::time::Duration;

use forgerun_problem::polling::{Poll, Schedule};
use http::HeaderName;
use serde::de::DeserializeOwned;

use super::{Forge, Job};
use crate::client::read;
use crate::error::{ApiError, Error};
use crate::limits::{ANSWER_BYTES_MAX, STATUS_WAIT};
use crate::wait::pause;

const PREFER: HeaderName = HeaderName::from_static("prefer");
const PREFERENCE_APPLIED: HeaderName = HeaderName::from_static("preference-applied");

/// The `type` of the problem of a job that succeeded and left nothing.
const LEFT_NOTHING: &str = "/problems/result-not-found";

impl Forge<'_> {
    /// Waits for the end of a job, and returns what it left. The server holds the request until then; a server that does not is asked by the
    /// rules of [`Forge::wait`].
    ///
    /// A result that is no JSON, or large, is fetched with [`Forge::result`].
    ///
    /// # Errors
    /// [`Error::Execution`] if the job failed or was cancelled, [`Error::TimedOut`] if it has not ended after `timeout`,
    /// [`Error::Protocol`] if the result is no `T`.
    pub async fn outcome<T: DeserializeOwned>(&self, job_id: &str, timeout: Duration) -> Result<T, Error> {
        let job = self.ended(job_id, timeout).await?;
        if job.state != "SUCCEEDED" {
            let failure = self.failure(job_id).await?;
            let problem = failure.as_ref().map(|failure| &*failure.bytes);
            return Err(ApiError::of_job(&job.state, problem).into_error());
        }
        match self.result(job_id).await {
            Ok(download) => {
                let content_type = download.head().content_type.clone();
                let bytes = download.bytes(ANSWER_BYTES_MAX).await?;
                serde_json::from_slice(&bytes)
                    .map_err(|error| Error::Protocol(format!("the result ({content_type}): {error}")))
            }
            Err(error) if left_nothing(&error) => read(b"null"),
            Err(error) => Err(error),
        }
    }

    /// The job once it has ended.
    async fn ended(&self, job_id: &str, timeout: Duration) -> Result<Job, Error> {
        let (client, began) = (self.client, self.client.clock().now());
        let schedule = Schedule { total: timeout, ..client.schedule() };
        let mut polls = 0;
        loop {
            let waited = client.clock().now().duration_since(began).unwrap_or_default();
            let hold = STATUS_WAIT.min(timeout.saturating_sub(waited)).as_millis().div_ceil(1000);
            let mut call = client.get(&self.path(job_id, ""))?;
            // Of many waits some are held; the others ask again, rather than wait for those to end.
            if client.may_hold() {
                call = call.header(PREFER, &format!("wait={hold}"))?.long(STATUS_WAIT);
            }
            let (held, retry_after) = match client.send(&call).await {
                Ok(answer) => {
                    let held = answer.header(PREFERENCE_APPLIED).is_some();
                    let retry_after = pause(client, &answer);
                    let (_, _, body) = answer.bytes(ANSWER_BYTES_MAX).await?;
                    let job: Job = read(&body)?;
                    if super::jobs::has_ended(&job) {
                        return Ok(job);
                    }
                    (held, retry_after)
                }
                Err(error) if error.is_retryable() => (false, error.api().and_then(|said| said.retry_after)),
                Err(error) => return Err(error),
            };
            let waited = client.clock().now().duration_since(began).unwrap_or_default();
            let timed_out = || Error::TimedOut { job_id: job_id.to_owned(), waited };
            if held {
                if waited >= timeout {
                    return Err(timed_out());
                }
                continue;
            }
            let Poll::After(wait) = schedule.next(polls, waited, retry_after) else {
                return Err(timed_out());
            };
            client.clock().sleep(wait).await;
            polls += 1;
        }
    }
}

fn left_nothing(error: &Error) -> bool {
    error.api().is_some_and(|said| said.problem.type_uri().ends_with(LEFT_NOTHING))
}
