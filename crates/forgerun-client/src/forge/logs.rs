//! What workers printed while they worked on a job.

use serde_json::Value;

use super::{Forge, Logs};
use crate::client::Call;
use crate::error::Error;
use crate::stream::EventStream;

/// Which lines of a job's log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// Of this attempt.
    pub attempt: Option<u32>,
    /// Of this stream, such as `stderr` or `output`.
    pub stream: Option<String>,
    /// That contain this text.
    pub text: Option<String>,
    /// After the line with this number.
    pub after: Option<u64>,
    /// How many at most, 1 to 1,000; 200 if `None`.
    pub limit: Option<usize>,
}

impl Forge<'_> {
    /// A page of the log of a job.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such job.
    pub async fn logs(&self, job_id: &str, filter: &LogFilter) -> Result<Logs, Error> {
        self.client.fetch(&self.logs_call(job_id, filter)?).await
    }

    /// The same with all that the server says, also what this crate does not know yet.
    ///
    /// # Errors
    /// As [`Forge::logs`].
    pub async fn logs_json(&self, job_id: &str, filter: &LogFilter) -> Result<Value, Error> {
        self.client.fetch(&self.logs_call(job_id, filter)?).await
    }

    /// The log of a job from the first line, and then new lines until the job ends: events `log`, each a line as JSON, `dropped`
    /// with a number where lines are missing, and `end` at the end.
    ///
    /// # Errors
    /// [`Error::Usage`] if the id cannot be in an address.
    pub fn follow_logs(&self, job_id: &str, filter: &LogFilter) -> Result<EventStream, Error> {
        let filter = LogFilter { limit: None, ..filter.clone() };
        let url = self.logs_call(job_id, &filter)?.url_mut().clone();
        Ok(EventStream::new(self.client.clone(), url))
    }

    fn logs_call(&self, job_id: &str, filter: &LogFilter) -> Result<Call, Error> {
        let mut call = self.client.get(&self.path(job_id, "/logs"))?;
        {
            let mut query = call.url_mut().query_pairs_mut();
            query.extend_pairs(filter.attempt.iter().map(|attempt| ("attempt", attempt.to_string())));
            query.extend_pairs(filter.stream.iter().map(|stream| ("stream", stream)));
            query.extend_pairs(filter.text.iter().map(|text| ("q", text)));
            query.extend_pairs(filter.after.iter().map(|after| ("after", after.to_string())));
            query.extend_pairs(filter.limit.iter().map(|limit| ("limit", limit.to_string())));
        }
        if call.url_mut().query() == Some("") {
            call.url_mut().set_query(None);
        }
        Ok(call)
    }
}
