//! The async-operations pattern: submit and get 202, ask where the job stands, fetch what it left. Works with ForgeRun's
//! `/api/v1` and with any server of the pattern: links of the server are followed, members that it leaves out are done
//! without, words that it adds are kept.

mod run;
mod status;
mod submit;

pub use run::{Attempted, Ended};
pub use status::{Operation, OperationStatus};
pub use submit::{Accepted, Submission};

use forgerun_problem::polling::Schedule;
use http::header::ACCEPT;

use crate::client::Client;
use crate::download::Download;
use crate::error::Error;
use crate::limits::ANSWER_BYTES_MAX;
use crate::path::segment;
use crate::stream::EventStream;
use crate::wait::{self, Asked};

/// The calls of the pattern.
#[derive(Clone, Copy, Debug)]
pub struct Operations<'a> {
    pub(crate) client: &'a Client,
    pub(crate) prefix: &'a str,
}

impl<'a> Operations<'a> {
    /// The same below another path than `api/v1`.
    #[must_use]
    pub fn below(self, prefix: &'a str) -> Operations<'a> {
        Operations { prefix: prefix.trim_matches('/'), ..self }
    }

    /// Where a job stands.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such job, or none any more (410).
    pub async fn get(&self, job_id: &str) -> Result<Operation, Error> {
        Ok(self.look(&self.status_url(job_id)).await?.0)
    }

    /// Waits for the end of a job, as long as the client is patient. Give it what [`Operations::submit`] returned.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if it does not end in time. A job that failed is no error: see its status.
    pub async fn wait(&self, accepted: &Accepted) -> Result<Operation, Error> {
        self.wait_by(accepted, self.client.schedule()).await
    }

    /// The same, with a schedule of its own.
    ///
    /// # Errors
    /// As [`Operations::wait`].
    pub async fn wait_by(&self, accepted: &Accepted, schedule: Schedule) -> Result<Operation, Error> {
        wait::until_ended(self.client, &accepted.job_id, schedule, || async move {
            let (operation, pause) = self.look(&accepted.status_url).await?;
            Ok(if operation.status.is_terminal() { Asked::Ended(operation) } else { Asked::NotYet(pause) })
        })
        .await
    }

    /// What a job left: from where its status says, or from where the pattern puts it.
    ///
    /// # Errors
    /// [`Error::Validation`] or [`Error::Resource`] if there is none.
    pub async fn result(&self, operation: &Operation) -> Result<Download, Error> {
        let usual = format!("{}/result", self.status_url(&operation.job_id));
        let url = self.client.url(operation.result_url.as_deref().unwrap_or(&usual))?;
        Download::open(self.client, url).await
    }

    /// Calls a job off. Of a job that has ended it changes nothing.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such job.
    pub async fn cancel(&self, job_id: &str) -> Result<Operation, Error> {
        let call = self.client.post(&format!("{}/cancel", self.status_url(job_id)))?.harmless();
        let (_, _, body) = self.client.send(&call).await?.bytes(ANSWER_BYTES_MAX).await?;
        Operation::read(&body)
    }

    /// The events of a job until it ends. Not every server of the pattern has them.
    ///
    /// # Errors
    /// [`Error::Usage`] if the id cannot be in an address.
    pub fn events(&self, job_id: &str) -> Result<EventStream, Error> {
        let url = self.client.url(&format!("{}/events", self.status_url(job_id)))?;
        Ok(EventStream::new(self.client.clone(), url))
    }

    fn status_url(&self, job_id: &str) -> String {
        format!("{}/jobs/{}", self.prefix, segment(job_id))
    }

    /// One look, and the pause that the server wants before the next.
    async fn look(&self, url: &str) -> Result<(Operation, Option<std::time::Duration>), Error> {
        let call =
            self.client.get(url)?.header(ACCEPT, "application/json, application/problem+json;q=0.9")?;
        let answer = self.client.send(&call).await?;
        let pause = wait::pause(self.client, &answer);
        let location = answer.header(http::header::LOCATION).map(str::to_owned);
        let (status, _, body) = answer.bytes(ANSWER_BYTES_MAX).await?;
        // Some servers lead from the status of a job that is done to what it left.
        let mut operation = match (status.as_u16(), Operation::read(&body)) {
            (303 | 302, read) => {
                let read = read.unwrap_or_default();
                Operation { status: OperationStatus::Completed, result_url: location, ..read }
            }
            (_, read) => read?,
        };
        if operation.job_id.is_empty() {
            operation.job_id = url.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned();
        }
        Ok((operation, pause))
    }
}
