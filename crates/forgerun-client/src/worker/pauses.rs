//! Waits of a handler that give up its job, and steps that it adds to its workflow.

use std::time::{Duration, UNIX_EPOCH};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use super::handler::{Context, Failure};
use crate::error::Error;
use crate::limits::{PAUSE_HELD, PAUSE_LONGEST};

impl Context {
    /// Goes on after this time, on any worker, however often workers and servers are restarted meanwhile. `name` tells the sleeps of a job
    /// apart, like the name of a [`step`](Context::step).
    ///
    /// For longer than two seconds the job goes back to its queue, and the handler runs again from its beginning when the time has
    /// come: put what comes before into steps. It counts as no attempt.
    ///
    /// # Errors
    /// A [`Failure`] that the handler must return: the worker gives the job back with it.
    pub async fn sleep(&self, name: &str, span: Duration) -> Result<(), Failure> {
        let rest = self.rest(&format!("sleep:{name}"), span).await?;
        if rest > PAUSE_HELD {
            return Err(Failure::suspended(rest.min(PAUSE_LONGEST), None));
        }
        self.client.clock().sleep(rest).await;
        Ok(())
    }

    /// The body of a signal to this job (`POST /v1/jobs/{id}/signals/{name}`), sent before this call or after it. A job has one signal of
    /// a name.
    ///
    /// Until it arrives the job goes back to its queue, and the handler runs again from its beginning then: put what comes before into
    /// steps. It counts as no attempt.
    ///
    /// # Errors
    /// A [`Failure`] that the handler must return: the worker gives the job back with it. After `timeout` one for good, with the code
    /// `signal_timeout`.
    pub async fn wait_for<T: DeserializeOwned>(
        &self,
        signal: &str,
        timeout: Option<Duration>,
    ) -> Result<T, Failure> {
        let rest = match timeout {
            Some(timeout) => Some(self.rest(&format!("wait:{signal}"), timeout).await?),
            None => None,
        };
        let step = format!("signal:{signal}");
        let mut ended = self.recorded(&step).await?;
        if ended.is_none() && rest == Some(Duration::ZERO) {
            let timed_out = json!({"timed_out": true});
            ended = Some(self.record(&step, timed_out.clone()).await?.unwrap_or(timed_out));
        }
        let Some(ended) = ended else {
            return Err(Failure::suspended(rest.unwrap_or(PAUSE_LONGEST).min(PAUSE_LONGEST), Some(signal)));
        };
        match ended.get("signal") {
            Some(body) => T::deserialize(body).map_err(|error| {
                Failure::new(format!("the body of signal {signal:?}: {error}")).never_again()
            }),
            None => {
                let late = Failure::new(format!("signal {signal:?} did not come in time")).never_again();
                Err(Failure { code: "signal_timeout".to_owned(), ..late })
            }
        }
    }

    /// Adds steps to the workflow that the job is a step of, as its description has them. They may depend on it, and on all others.
    /// A second attempt that adds the same ids is refused: call this in a [`step`](Context::step).
    ///
    /// # Errors
    /// [`Error::Usage`] if the job is no step; otherwise as [`Forge::add_workflow_steps`](crate::forge::Forge::add_workflow_steps).
    pub async fn add_steps(&self, steps: &impl Serialize) -> Result<(), Error> {
        let (Some(workflow), Some(token)) = (&self.job.workflow_id, &self.job.lease_token) else {
            return Err(Error::Usage("the job is no step of a workflow".to_owned()));
        };
        self.client.forge().add_workflow_steps(workflow, token, steps).await.map(drop)
    }

    /// What is left of a time, which begins with the first call.
    async fn rest(&self, step: &str, span: Duration) -> Result<Duration, Failure> {
        let now = self.client.clock().now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let until = now + span;
        let until: u64 =
            self.step(step, async || Ok(u64::try_from(until.as_millis()).unwrap_or(u64::MAX))).await?;
        Ok(Duration::from_millis(until).saturating_sub(now))
    }
}
