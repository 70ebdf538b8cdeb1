//! What a handler gets, and what it gives back.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::watch;

use super::log::JobLog;
use super::steps::StepResults;
use crate::client::Client;
use crate::error::Error;
use crate::ojs::{ClaimedJob, HeldJob, Ojs};

/// Does the work of a job. Every `Fn(ClaimedJob, Context) -> impl Future<Output = Result<Output, Failure>>` is one.
pub trait Handler: Send + Sync + 'static {
    /// Does it.
    fn run(
        &self,
        job: ClaimedJob,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send>>;
}

impl<F, Fut> Handler for F
where
    F: Fn(ClaimedJob, Context) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<Output, Failure>> + Send + 'static,
{
    fn run(
        &self,
        job: ClaimedJob,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send>> {
        Box::pin(self(job, context))
    }
}

/// What came out of a job.
#[derive(Debug)]
pub enum Output {
    /// Nothing.
    Nothing,
    /// A JSON value, small.
    Json(Box<RawValue>),
    /// Bytes of any type.
    Bytes {
        /// Of which type.
        content_type: String,
        /// Under which name it is saved.
        file_name: Option<String>,
        /// The bytes.
        bytes: Bytes,
    },
    /// A file of any size. It is sent piece by piece.
    File {
        /// Of which type.
        content_type: String,
        /// Under which name it is saved.
        file_name: Option<String>,
        /// Where it is.
        path: PathBuf,
        /// Whether it is removed once it was sent, or cannot be.
        remove: bool,
    },
}

impl Output {
    /// Anything that can be written as JSON.
    ///
    /// # Errors
    /// A [`Failure`] for good if it cannot.
    pub fn json(value: &impl Serialize) -> Result<Output, Failure> {
        serde_json::value::to_raw_value(value)
            .map(Output::Json)
            .map_err(|error| Failure::new(format!("the result: {error}")).never_again())
    }
}

/// Whether a failed job is worth another try.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RetryAdvice {
    /// As the retry policy of the job says.
    #[default]
    Policy,
    /// Please.
    Retry,
    /// Never: the same input fails in the same way.
    Never,
}

/// Why a job failed.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// What happened, in a sentence.
    pub message: String,
    /// The code of the error: `handler_error`.
    pub code: String,
    /// The class of the error, which a retry policy may name.
    pub class: Option<String>,
    /// Whether it is worth another try.
    pub retry: RetryAdvice,
    /// How long to wait before that; `None` leaves it to the retry policy of the job.
    pub retry_after: Option<Duration>,
    /// Facts.
    pub details: Box<Map<String, Value>>,
    /// Set if the handler has not failed but waits: the job goes back meanwhile, and no attempt is counted.
    pub suspension: Option<Box<Suspension>>,
}

/// A wait of a handler, which gives up its job meanwhile. See [`Context::sleep`] and [`Context::wait_for`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suspension {
    /// How long the job goes back at most.
    pub delay: Duration,
    /// The signal that ends the wait before.
    pub until_signal: Option<String>,
}

impl Failure {
    /// A failure that the retry policy of the job decides about.
    pub fn new(message: impl Into<String>) -> Failure {
        Failure {
            message: message.into(),
            code: "handler_error".to_owned(),
            class: None,
            retry: RetryAdvice::Policy,
            retry_after: None,
            details: Box::default(),
            suspension: None,
        }
    }

    /// No failure: the job goes back, and the handler runs again after the wait.
    pub(super) fn suspended(delay: Duration, until_signal: Option<&str>) -> Failure {
        let suspension = Suspension { delay, until_signal: until_signal.map(str::to_owned) };
        Failure { suspension: Some(suspension.into()), ..Failure::new("the handler waits") }
    }

    /// The same input would fail in the same way.
    #[must_use]
    pub fn never_again(mut self) -> Failure {
        self.retry = RetryAdvice::Never;
        self
    }

    /// Another try may succeed.
    #[must_use]
    pub fn retry(mut self) -> Failure {
        self.retry = RetryAdvice::Retry;
        self
    }

    /// A retry, if there is one, comes after this long.
    #[must_use]
    pub fn retry_after(mut self, wait: Duration) -> Failure {
        self.retry_after = Some(wait);
        self
    }

    /// The class of the error.
    #[must_use]
    pub fn class(mut self, class: impl Into<String>) -> Failure {
        self.class = Some(class.into());
        self
    }

    /// A fact.
    #[must_use]
    pub fn detail(mut self, name: &str, value: impl Into<Value>) -> Failure {
        self.details.insert(name.to_owned(), value.into());
        self
    }

    pub(crate) fn to_json(&self) -> Value {
        let mut error = json!({"code": self.code, "message": self.message});
        if let Some(class) = &self.class {
            error["type"] = class.as_str().into();
        }
        match self.retry {
            RetryAdvice::Policy => {}
            RetryAdvice::Retry => error["retryable"] = true.into(),
            RetryAdvice::Never => error["retryable"] = false.into(),
        }
        if !self.details.is_empty() {
            error["details"] = Value::Object(Map::clone(&self.details));
        }
        error
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure::new(error.to_string())
    }
}

/// Why a handler should stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Canceled {
    /// The job was cancelled, ran out of time, or was given to somebody else. Nothing the handler says counts any more.
    ByServer,
    /// The worker stops, and its patience is over. The job goes back.
    ByStop,
}

/// What a handler can do beside its work.
#[derive(Clone)]
pub struct Context {
    pub(crate) client: Client,
    pub(crate) worker: std::sync::Arc<str>,
    pub(crate) job: std::sync::Arc<ClaimedJob>,
    pub(crate) canceled: watch::Receiver<Option<Canceled>>,
    pub(crate) steps: std::sync::Arc<StepResults>,
    pub(crate) logs: std::sync::Arc<JobLog>,
}

impl Context {
    /// Tells how far the work is, in percent.
    ///
    /// # Errors
    /// As the server refuses it. Progress that is lost is no reason to fail.
    pub async fn progress(&self, percent: u8, text: Option<&str>) -> Result<(), Error> {
        let held = HeldJob { worker: &self.worker, job: &self.job };
        Ojs { client: &self.client }.progress(held, percent.min(100), text).await
    }

    /// The results of the steps that the job waited for, whatever their size: those that the server names by an address are fetched.
    ///
    /// # Errors
    /// As the server refuses to hand one out.
    pub async fn parents(&self) -> Result<BTreeMap<String, Option<Box<RawValue>>>, Error> {
        let mut parents = BTreeMap::new();
        for (step, result) in self.job.parents() {
            let result = match result {
                Some(result) => Some(crate::reference::whole(&self.client, result).await?),
                None => None,
            };
            parents.insert(step.to_owned(), result);
        }
        Ok(parents)
    }

    /// Ends when the handler should stop, and says why.
    pub async fn canceled(&self) -> Canceled {
        let mut canceled = self.canceled.clone();
        match canceled.wait_for(Option::is_some).await {
            Ok(reason) => reason.unwrap_or(Canceled::ByStop),
            // The worker is gone without a word.
            Err(_) => Canceled::ByStop,
        }
    }

    /// Whether the handler should stop.
    pub fn is_canceled(&self) -> bool {
        self.canceled.borrow().is_some()
    }

    /// A client for calls that belong to the job: they carry its trace.
    pub fn client(&self) -> Client {
        let trace = self.job.traceparent();
        trace
            .and_then(|trace| self.client.with_trace(trace, None).ok())
            .unwrap_or_else(|| self.client.clone())
    }
}
