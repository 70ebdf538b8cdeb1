//! Named steps of a handler whose results are kept over attempts. Each is recorded by itself; for a server that does not do that, all go into the
//! checkpoint of the job, as one JSON object of results by name.

use http::HeaderName;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use tokio::sync::Mutex;

use super::handler::{Context, Failure};
use crate::client::Call;
use crate::error::Error;
use crate::path::segment;

const LEASE_TOKEN: HeaderName = HeaderName::from_static("lease-token");

/// Recorded steps; `None` until they were asked for.
pub(crate) type StepResults = Mutex<Option<Recorded>>;

#[derive(Default)]
pub(crate) struct Recorded {
    /// Results by name.
    results: Map<String, Value>,
    /// Whether the server records each step by itself.
    one_by_one: bool,
}

#[derive(Deserialize)]
struct Resume {
    #[serde(default)]
    has_checkpoint: bool,
    #[serde(default)]
    state: Value,
    /// `None` from a server that does not record steps one by one.
    steps: Option<Map<String, Value>>,
}

impl Context {
    /// Does a step of the work and records its result under this name; if an earlier attempt of the job has recorded one, returns that
    /// instead. A name stands for one step of the handler.
    ///
    /// A step runs at least once: an attempt that is cut off between the end of the step and its record does it again. So what it does
    /// elsewhere should bear a repetition, for example by a key that is made of the job's id and the step's name.
    ///
    /// # Errors
    /// What the step returns; nothing is recorded then. Or what the server says of the record, such as that the job is no longer ours.
    pub async fn step<T, Doing>(&self, name: &str, step: impl FnOnce() -> Doing) -> Result<T, Failure>
    where
        T: Serialize + DeserializeOwned,
        Doing: Future<Output = Result<T, Failure>>,
    {
        let unreadable =
            |error| Failure::new(format!("the recorded result of step {name:?}: {error}")).never_again();
        if let Some(recorded) = self.recorded(name).await? {
            return T::deserialize(recorded).map_err(unreadable);
        }
        let result = step().await?;
        let value = serde_json::to_value(&result)
            .map_err(|error| Failure::new(format!("the result of step {name:?}: {error}")).never_again())?;
        match self.record(name, value).await? {
            None => Ok(result),
            Some(first) => T::deserialize(first).map_err(unreadable),
        }
    }

    pub(super) async fn recorded(&self, name: &str) -> Result<Option<Value>, Error> {
        let mut results = self.steps.lock().await;
        if results.is_none() {
            let path = format!("ojs/v1/checkpoints/{}/resume", segment(&self.job.id));
            let resume: Resume = self.client.fetch(&self.client.get(&path)?).await?;
            let state = if resume.has_checkpoint { resume.state } else { json!({}) };
            // What a worker without single steps saved counts too.
            let Value::Object(mut recorded) = state else {
                return Err(Error::Usage("the checkpoint of the job is no object of steps".to_owned()));
            };
            let one_by_one = resume.steps.is_some();
            recorded.extend(resume.steps.unwrap_or_default());
            *results = Some(Recorded { results: recorded, one_by_one });
        }
        Ok(results.as_ref().and_then(|recorded| recorded.results.get(name)).cloned())
    }

    /// Records the result of a step. Returns the result that counts if another one was recorded before.
    pub(super) async fn record(&self, name: &str, value: Value) -> Result<Option<Value>, Error> {
        let Err(error) = self.send_step(name, value).await else { return Ok(None) };
        let is_recorded =
            error.api().is_some_and(|said| said.details.get("reason") == Some(&"step_recorded".into()));
        if !is_recorded {
            return Err(error);
        }
        *self.steps.lock().await = None;
        self.recorded(name).await
    }

    async fn send_step(&self, name: &str, value: Value) -> Result<(), Error> {
        // Held while it is sent, so that steps that end at the same time do not write over each other.
        let mut recorded = self.steps.lock().await;
        let Recorded { results, one_by_one } = recorded.get_or_insert_default();
        let (path, body) = match one_by_one {
            true => {
                let path = format!("ojs/v1/jobs/{}/checkpoint/{}", segment(&self.job.id), segment(name));
                (path, json!({"result": value}))
            }
            false => {
                let mut all = results.clone();
                all.insert(name.to_owned(), value.clone());
                (format!("ojs/v1/checkpoints/{}", segment(&self.job.id)), json!({"state": all}))
            }
        };
        let mut call = Call::new(http::Method::PUT, self.client.url(&path)?).json(&body)?.harmless();
        if let Some(token) = &self.job.lease_token {
            call = call.header(LEASE_TOKEN, token)?;
        }
        self.client.send(&call).await?;
        results.insert(name.to_owned(), value);
        Ok(())
    }
}
