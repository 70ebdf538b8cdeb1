//! Waiting for the end of a job by asking again, at the pace that the documents of the async-operations pattern ask for: after 2,
//! 4, 8, 16, 30, 30 … seconds, never sooner than `Retry-After`, five minutes in all.
//!
//! What passes (a rate limit, trouble of the server) is waited out like a job that is not done. Many waits at once share the
//! connections of the client, and none of them holds one while it waits.

use std::time::Duration;

use forgerun_problem::polling::{Poll, Schedule};
use http::header::RETRY_AFTER;

use crate::client::Client;
use crate::error::{Error, parse_retry_after};
use crate::transport::Answer;

/// What one question brought.
pub(crate) enum Asked<T> {
    Ended(T),
    /// Not yet; the server wants this long a pause.
    NotYet(Option<Duration>),
}

/// Asks until the job has ended. `ask` reads one answer of the status resource.
pub(crate) async fn until_ended<T, Asking: Future<Output = Result<Asked<T>, Error>>>(
    client: &Client,
    job_id: &str,
    schedule: Schedule,
    ask: impl Fn() -> Asking,
) -> Result<T, Error> {
    let mut waited = Duration::ZERO;
    let mut retry_after = None;
    let mut polls = 0;
    loop {
        let wait = match schedule.next(polls, waited, retry_after) {
            Poll::After(wait) => wait,
            Poll::TimedOut => return Err(Error::TimedOut { job_id: job_id.to_owned(), waited }),
        };
        client.clock().sleep(wait).await;
        waited += wait;
        polls += 1;
        retry_after = match ask().await {
            Ok(Asked::Ended(end)) => return Ok(end),
            Ok(Asked::NotYet(after)) => after,
            // The request was sent again already, as often as the policy allows. It is the job that matters, so go on.
            Err(error) if error.api().is_some_and(|said| said.retryable) => {
                tracing::debug!(%error, job.id = job_id, "could not ask for a job; asking again later");
                error.api().and_then(|said| said.retry_after)
            }
            Err(error) => return Err(error),
        };
    }
}

/// The pause that a status response asks for.
pub(crate) fn pause(client: &Client, answer: &Answer) -> Option<Duration> {
    answer.header(RETRY_AFTER).and_then(|text| parse_retry_after(text, client.clock().now()))
}
