//! Submitting on `/v1`.

use std::borrow::Cow;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forgerun_problem::Timestamp;
use forgerun_wire::forge::SubmittedView;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;

use super::Forge;
use crate::client::raw;
use crate::error::Error;
use crate::limits::OWN_RETRIES;

/// A job to be submitted. The idempotency key is made by the client for every call of [`Forge::submit`] unless one is given, and
/// stays the same however often that call has to send the request.
#[derive(Clone, Debug, Serialize)]
#[must_use]
pub struct Submit {
    #[serde(rename = "type")]
    form: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) work_kind: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) job_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) execution_at: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) queue: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) priority: Option<i16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fair: Option<Box<FairKey>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) callback: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_mode: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) max_retries: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) timeout: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) deadline: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) tags: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) unique_key: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) correlation_id: Option<String>,
    #[serde(skip)]
    delay: Duration,
    #[serde(skip)]
    pub(super) key: Option<String>,
}

/// What a job takes turns by.
#[derive(Clone, Debug, Serialize)]
pub(super) struct FairKey {
    key: String,
    weight: u8,
}

impl Submit {
    /// Work of your own for workers outside, which get the payload as their argument. A failed attempt is retried three times by the
    /// server: see [`Submit::max_retries`].
    pub fn job(job_type: impl Into<String>, payload: impl Into<Value>) -> Submit {
        Submit::execute().job_type(job_type).payload(payload).max_retries(OWN_RETRIES)
    }

    /// Work to be done as soon as there is a worker for it.
    pub fn execute() -> Submit {
        Submit {
            form: "EXECUTE",
            work_kind: None,
            fair: None,
            job_type: None,
            execution_at: None,
            payload: None,
            queue: None,
            priority: None,
            callback: None,
            retry_mode: None,
            max_retries: None,
            timeout: None,
            deadline: None,
            tags: Vec::new(),
            unique_key: None,
            correlation_id: None,
            delay: Duration::ZERO,
            key: None,
        }
    }

    /// Work to be done at a time such as `2030-01-31T12:00:00Z`.
    pub fn deferred(at: impl Into<String>) -> Submit {
        Submit { form: "DEFERRED", execution_at: Some(at.into()), ..Submit::execute() }
    }

    /// The work is done no sooner than at a time such as `2030-01-31T12:00:00Z`.
    pub fn at(mut self, at: impl Into<String>) -> Submit {
        self.form = "DEFERRED";
        self.execution_at = Some(at.into());
        self
    }

    /// The work is done no sooner than so long after the submission, by the clock of this machine.
    pub fn delay(mut self, delay: Duration) -> Submit {
        self.delay = delay;
        self
    }

    /// The submission as it is sent at this moment.
    pub(crate) fn at_moment(&self, now: SystemTime) -> Cow<'_, Submit> {
        if self.delay.is_zero() {
            return Cow::Borrowed(self);
        }
        Cow::Owned(self.clone().at(timestamp(now + self.delay)))
    }

    /// No work but one notification.
    pub fn emit_event() -> Submit {
        Submit { form: "EMIT_EVENT", ..Submit::execute() }
    }

    /// What kind of work it is, for workers outside: the work is real.
    pub fn job_type(mut self, job_type: impl Into<String>) -> Submit {
        self.job_type = Some(job_type.into());
        self
    }

    /// What the built-in worker simulates; without it and a [`Submit::job_type`] the server chooses.
    pub fn work_kind(mut self, kind: impl Into<String>) -> Submit {
        self.work_kind = Some(kind.into());
        self
    }

    /// Any JSON.
    pub fn payload(self, payload: impl Into<Value>) -> Submit {
        self.raw_payload(raw(&payload.into()))
    }

    /// Any JSON, sent as it is written: no number is rounded, whatever a [`Value`] can hold.
    pub fn raw_payload(mut self, payload: Box<RawValue>) -> Submit {
        self.payload = Some(payload);
        self
    }

    /// Where it waits.
    pub fn queue(mut self, queue: impl Into<String>) -> Submit {
        self.queue = Some(queue.into());
        self
    }

    /// Higher goes first; −100 to 100.
    pub fn priority(mut self, priority: i16) -> Submit {
        self.priority = Some(priority);
        self
    }

    /// Takes turns with the jobs of other keys in its queue, by weight from 1 to 100.
    pub fn fair(mut self, key: impl Into<String>, weight: u8) -> Submit {
        self.fair = Some(Box::new(FairKey { key: key.into(), weight }));
        self
    }

    /// A URL that is told of every change.
    pub fn callback(mut self, url: impl Into<String>) -> Submit {
        self.callback = Some(url.into());
        self
    }

    /// The server retries by itself what is worth it.
    pub fn retry_by_server(mut self) -> Submit {
        self.retry_mode = Some("auto");
        self
    }

    /// How often the server retries real work by itself.
    pub fn max_retries(mut self, retries: u32) -> Submit {
        self.max_retries = Some(retries);
        self
    }

    /// How long one attempt may run, such as `1h30m`.
    pub fn timeout(mut self, span: impl Into<String>) -> Submit {
        self.timeout = Some(span.into());
        self
    }

    /// By when the whole job must have ended: so long after its submission, such as `1h30m`, or a time.
    pub fn deadline(mut self, deadline: impl Into<String>) -> Submit {
        self.deadline = Some(deadline.into());
        self
    }

    /// Adds a label.
    pub fn tag(mut self, tag: impl Into<String>) -> Submit {
        self.tags.push(tag.into());
        self
    }

    /// A second job with this key is refused until the first has ended.
    pub fn unique_key(mut self, key: impl Into<String>) -> Submit {
        self.unique_key = Some(key.into());
        self
    }

    /// What you call the job.
    pub fn correlation_id(mut self, id: impl Into<String>) -> Submit {
        self.correlation_id = Some(id.into());
        self
    }

    /// The key of the operation, which you keep: two submissions with the same key are one job.
    pub fn idempotency_key(mut self, key: impl Into<String>) -> Submit {
        self.key = Some(key.into());
        self
    }
}

/// A job that was accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Submitted {
    /// Which job.
    pub job_id: String,
    /// Where it stands.
    pub state: String,
    /// When it was accepted.
    pub created_at: String,
    /// The key it was submitted with.
    pub idempotency_key: String,
}

/// A moment as the server reads it.
fn timestamp(at: SystemTime) -> String {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
    Timestamp::from_unix_millis(millis)
        .map_or_else(|_| "9999-12-31T23:59:59.999Z".to_owned(), |at| at.to_string())
}

impl Forge<'_> {
    /// Submits a job. Sent again after trouble, it is still one job.
    ///
    /// # Errors
    /// As the server refuses it, or [`Error::Unreachable`].
    pub async fn submit(&self, job: &Submit) -> Result<Submitted, Error> {
        let key = job.key.clone().unwrap_or_else(|| self.client.new_key());
        let job = job.at_moment(self.client.clock().now());
        let call = self.client.post("v1/jobs")?.json(&job)?.idempotent(&key)?;
        let SubmittedView { job_id, state, created_at, .. } = self.client.fetch(&call).await?;
        Ok(Submitted { job_id, state, created_at, idempotency_key: key })
    }
}
