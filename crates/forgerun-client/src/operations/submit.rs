//! Submitting by the async-operations pattern.

use http::header::LOCATION;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::Operations;
use crate::client::{raw, read};
use crate::error::Error;
use crate::limits::ANSWER_BYTES_MAX;
use crate::wait;

/// A job to be submitted. Unless an idempotency key is given, every call of [`Operations::submit`] makes one and keeps it
/// however often it has to send the request.
#[derive(Clone, Debug, Serialize)]
#[must_use]
pub struct Submission {
    #[serde(skip)]
    route: String,
    #[serde(rename = "type", skip_serializing_if = "Option::is_none")]
    job_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parameters: Option<Box<RawValue>>,
    #[serde(flatten)]
    more: Map<String, Value>,
    #[serde(skip)]
    key: Option<String>,
}

impl Submission {
    /// A job of this type: real work, for a worker outside.
    pub fn job(job_type: impl Into<String>) -> Submission {
        let job_type = Some(job_type.into());
        Submission { route: "jobs".to_owned(), job_type, parameters: None, more: Map::new(), key: None }
    }

    /// An operation that the server declares, such as `reports/generate`.
    pub fn operation(name: impl Into<String>) -> Submission {
        let route = name.into().trim_matches('/').to_owned();
        Submission { route, job_type: None, parameters: None, more: Map::new(), key: None }
    }

    /// The type that jobs of an operation have, if it is not the operation's name.
    pub fn job_type(mut self, job_type: impl Into<String>) -> Submission {
        self.job_type = Some(job_type.into());
        self
    }

    /// What to do it with: a JSON object.
    pub fn parameters(self, parameters: impl Into<Value>) -> Submission {
        self.raw_parameters(raw(&parameters.into()))
    }

    /// The same, sent as it is written: no number is rounded, whatever a [`Value`] can hold.
    pub fn raw_parameters(mut self, parameters: Box<RawValue>) -> Submission {
        self.parameters = Some(parameters);
        self
    }

    /// Where it waits.
    pub fn queue(self, queue: impl Into<String>) -> Submission {
        self.member("queue", queue.into())
    }

    /// What the built-in worker of ForgeRun simulates.
    pub fn work_kind(self, kind: impl Into<String>) -> Submission {
        self.member("work_kind", kind.into())
    }

    /// Any other member that the server knows.
    pub fn member(mut self, name: &str, value: impl Into<Value>) -> Submission {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// The key of the operation, which you keep: two submissions with the same key are one job.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Submission {
        self.key = Some(key.into());
        self
    }

    /// The same work as a new operation: a job that failed is submitted again with a key of its own, never with the old one.
    pub fn anew(mut self) -> Submission {
        self.key = None;
        self
    }
}

/// A job that was accepted.
#[derive(Clone, Debug, PartialEq)]
pub struct Accepted {
    /// Which job; opaque.
    pub job_id: String,
    /// Where to ask for it.
    pub status_url: String,
    /// The key it was submitted with.
    pub idempotency_key: String,
    /// How long the server wants the first question to wait.
    pub retry_after: Option<std::time::Duration>,
    /// All that the server said.
    pub members: Map<String, Value>,
}

impl Operations<'_> {
    /// Submits a job. Sent again after trouble, it is still one job.
    ///
    /// # Errors
    /// As the server refuses it, or [`Error::Unreachable`].
    pub async fn submit(&self, submission: &Submission) -> Result<Accepted, Error> {
        let key = submission.key.clone().unwrap_or_else(|| self.client.new_key());
        let route = format!("{}/{}", self.prefix, submission.route);
        let call = self.client.post(&route)?.json(submission)?.idempotent(&key)?;
        let answer = self.client.send(&call).await?;
        let retry_after = wait::pause(self.client, &answer);
        let location = answer.header(LOCATION).map(str::to_owned);
        let (_, _, body) = answer.bytes(ANSWER_BYTES_MAX).await?;
        let members: Map<String, Value> = if body.is_empty() { Map::new() } else { read(&body)? };
        let text = |name: &str| members.get(name).and_then(Value::as_str).map(str::to_owned);
        let job_id = text("jobId").or_else(|| text("id")).or_else(|| text("job_id"));
        let last = |url: &String| url.trim_end_matches('/').rsplit('/').next().map(str::to_owned);
        let job_id = job_id.or_else(|| location.as_ref().and_then(last));
        let job_id = job_id.ok_or_else(|| Error::Protocol("the server names no job".to_owned()))?;
        let status_url = text("statusUrl").or(location).unwrap_or_else(|| self.status_url(&job_id));
        Ok(Accepted { job_id, status_url, idempotency_key: key, retry_after, members })
    }
}
