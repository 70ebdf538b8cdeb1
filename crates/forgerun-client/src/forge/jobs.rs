//! Jobs of `/v1`: looking at them, waiting, cancelling, retrying, and what they left.

use bytes::Bytes;
use forgerun_problem::polling::Schedule;
use forgerun_problem::read::Reader;
use forgerun_problem::{JobStatus, MEDIA_TYPE_JSON, Problem};
use http::Method;
use http::header::ACCEPT;
use serde::Serialize;
use serde_json::Value;

use super::{Canceled, Forge, Job, JobReport, Jobs, Paused, Retried, Signaled};
use crate::client::{Call, read};
use crate::download::Download;
use crate::error::Error;
use crate::limits::ANSWER_BYTES_MAX;
use crate::path::segment;
use crate::stream::EventStream;
use crate::wait::{self, Asked};

/// Which jobs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// In one of these states; all if empty.
    pub states: Vec<String>,
    /// Of this queue.
    pub queue: Option<String>,
    /// Of workflows: with exactly this name.
    pub name: Option<String>,
    /// Whose ids end with these 6 to 35 characters.
    pub id_suffix: Option<String>,
    /// How many at most, 1 to 200; 50 if `None`.
    pub limit: Option<usize>,
    /// Where the page before ended: its `next_cursor`.
    pub cursor: Option<String>,
}

/// The object that reports how a job ended badly.
#[derive(Clone, Debug)]
pub struct Failure {
    /// As understood.
    pub problem: Problem,
    /// As stored: the same bytes on every road.
    pub bytes: Bytes,
}

impl Forge<'_> {
    /// A job as it stands.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such job.
    pub async fn get(&self, job_id: &str) -> Result<Job, Error> {
        self.client.fetch(&self.client.get(&self.path(job_id, ""))?).await
    }

    /// The same with all that the server says, also what this crate does not know yet.
    ///
    /// # Errors
    /// As [`Forge::get`].
    pub async fn get_json(&self, job_id: &str) -> Result<Value, Error> {
        self.client.fetch(&self.client.get(&self.path(job_id, ""))?).await
    }

    /// A page of your jobs, newest first. Only a missing `next_cursor` means the end.
    ///
    /// # Errors
    /// [`Error::Validation`] if the filter will not do.
    pub async fn list(&self, filter: &Filter) -> Result<Jobs, Error> {
        self.client.fetch(&self.list_call(filter)?).await
    }

    /// The same with all that the server says, also what this crate does not know yet.
    ///
    /// # Errors
    /// As [`Forge::list`].
    pub async fn list_json(&self, filter: &Filter) -> Result<Value, Error> {
        self.client.fetch(&self.list_call(filter)?).await
    }

    fn list_call(&self, filter: &Filter) -> Result<Call, Error> {
        let mut call = self.client.get("v1/jobs")?;
        {
            let mut query = call.url_mut().query_pairs_mut();
            query.extend_pairs(filter.states.iter().map(|state| ("state", state)));
            query.extend_pairs(filter.queue.iter().map(|queue| ("queue", queue)));
            query.extend_pairs(filter.id_suffix.iter().map(|end| ("id_suffix", end)));
            query.extend_pairs(filter.limit.iter().map(|limit| ("limit", limit.to_string())));
            query.extend_pairs(filter.cursor.iter().map(|cursor| ("cursor", cursor)));
        }
        if call.url_mut().query() == Some("") {
            call.url_mut().set_query(None);
        }
        Ok(call)
    }

    /// Waits for the end of a job, as long as the client is patient.
    ///
    /// # Errors
    /// [`Error::TimedOut`] if it does not end in time. A job that failed is no error: see its `state`.
    pub async fn wait(&self, job_id: &str) -> Result<Job, Error> {
        self.wait_by(job_id, self.client.schedule()).await
    }

    /// The same, with a schedule of its own.
    ///
    /// # Errors
    /// As [`Forge::wait`].
    pub async fn wait_by(&self, job_id: &str, schedule: Schedule) -> Result<Job, Error> {
        let (client, call) = (self.client, &self.client.get(&self.path(job_id, ""))?);
        wait::until_ended(client, job_id, schedule, || async move {
            let answer = client.send(call).await?;
            let pause = wait::pause(client, &answer);
            let (_, _, body) = answer.bytes(ANSWER_BYTES_MAX).await?;
            let job: Job = read(&body)?;
            Ok(if has_ended(&job) { Asked::Ended(job) } else { Asked::NotYet(pause) })
        })
        .await
    }

    /// The object that reports how a job ended badly; `None` if it did not, or not yet.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such job.
    pub async fn failure(&self, job_id: &str) -> Result<Option<Failure>, Error> {
        let call = self.client.get(&self.path(job_id, ""))?.header(ACCEPT, MEDIA_TYPE_JSON)?;
        let answer = self.client.send(&call).await?;
        let (status, headers, bytes) = answer.bytes(ANSWER_BYTES_MAX).await?;
        let content_type = headers.get(http::header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let read = Reader::new().response(status.as_u16(), content_type.unwrap_or_default(), &bytes);
        let read = read.map_err(|error| Error::Protocol(error.to_string()))?;
        Ok(read.map(|read| Failure { problem: read.reading.problem, bytes }))
    }

    /// Calls a job off. Of a job that has ended it changes nothing.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such job.
    pub async fn cancel(&self, job_id: &str) -> Result<Canceled, Error> {
        // A repetition answers with the state the job has, so it is harmless.
        self.client.fetch(&self.client.post(&self.path(job_id, "/cancel"))?.harmless()).await
    }

    /// Keeps a job from workers until it is resumed. Its state stays, and deadlines run on.
    ///
    /// # Errors
    /// [`Error::Validation`] (`INVALID_STATE_TRANSITION`) if it has ended.
    pub async fn pause(&self, job_id: &str) -> Result<Paused, Error> {
        self.client.fetch(&self.client.post(&self.path(job_id, "/pause"))?.harmless()).await
    }

    /// Hands a paused job out again. A job that is not paused stays as it is.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such job.
    pub async fn resume(&self, job_id: &str) -> Result<Paused, Error> {
        self.client.fetch(&self.client.post(&self.path(job_id, "/resume"))?.harmless()).await
    }

    /// Sends a signal to the handler of a job, which receives `body` where it waits for it: now, or later. The same signal again changes
    /// nothing.
    ///
    /// # Errors
    /// [`Error::Conflict`] after another signal of this name, [`Error::Validation`] (`INVALID_STATE_TRANSITION`) if the wait is over or
    /// the job has ended.
    pub async fn signal_job(
        &self,
        job_id: &str,
        name: &str,
        body: &impl Serialize,
    ) -> Result<Signaled, Error> {
        let call = self.client.post(&self.path(job_id, &format!("/signals/{}", segment(name))))?;
        self.client.fetch(&call.json(body)?.harmless()).await
    }

    /// Begins a failed job again.
    ///
    /// # Errors
    /// [`Error::Validation`] (`INVALID_STATE_TRANSITION`) if it has not failed, or has no retry left.
    pub async fn retry(&self, job_id: &str) -> Result<Retried, Error> {
        self.client.fetch(&self.client.post(&self.path(job_id, "/retry"))?.harmless()).await
    }

    /// Forgets a job that has ended, with all it left.
    ///
    /// # Errors
    /// [`Error::Validation`] if it has not ended.
    pub async fn delete(&self, job_id: &str) -> Result<(), Error> {
        let url = self.client.url(&self.path(job_id, ""))?;
        self.client.send(&Call::new(Method::DELETE, url)).await?;
        Ok(())
    }

    /// How a job went, once it has ended.
    ///
    /// # Errors
    /// [`Error::Resource`] before.
    pub async fn report(&self, job_id: &str) -> Result<JobReport, Error> {
        self.client.fetch(&self.client.get(&self.path(job_id, "/report"))?).await
    }

    /// What a job left.
    ///
    /// # Errors
    /// [`Error::Validation`] (`INVALID_STATE_TRANSITION`) before it has succeeded.
    pub async fn result(&self, job_id: &str) -> Result<Download, Error> {
        Download::open(self.client, self.client.url(&self.path(job_id, "/result"))?).await
    }

    /// The events of a job from the first, and then whatever happens, until it ends.
    ///
    /// # Errors
    /// [`Error::Usage`] if the id cannot be in an address.
    pub fn events(&self, job_id: &str) -> Result<EventStream, Error> {
        Ok(EventStream::new(self.client.clone(), self.client.url(&self.path(job_id, "/events"))?))
    }

    /// All that happens to your jobs and webhooks from now on. Never ends by itself.
    ///
    /// # Errors
    /// None that the caller can cause.
    pub fn all_events(&self) -> Result<EventStream, Error> {
        Ok(EventStream::new(self.client.clone(), self.client.url("v1/events")?).endless())
    }

    pub(super) fn path(&self, job_id: &str, rest: &str) -> String {
        format!("v1/jobs/{}{rest}", segment(job_id))
    }
}

/// Whether a job will not go on by itself.
pub(super) fn has_ended(job: &Job) -> bool {
    JobStatus::new(&job.job_status).is_terminal()
}
