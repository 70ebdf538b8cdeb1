//! Workflows of `/v1`: jobs that wait for each other.

use serde::Serialize;
use serde_json::json;

use super::{Filter, Forge, Workflow, WorkflowSummary, Workflows};
use crate::error::Error;
use crate::path::segment;

impl Forge<'_> {
    /// Begins a workflow as the server's pages describe it: a chain, a group, a batch, or steps with `depends_on`. `key` makes a repetition
    /// harmless; without one the client makes one for this call.
    ///
    /// # Errors
    /// [`Error::Validation`] if the description will not do; it names the place.
    pub async fn submit_workflow(
        &self,
        description: &impl Serialize,
        key: Option<&str>,
    ) -> Result<WorkflowSummary, Error> {
        let made = self.client.new_key();
        let call = self.client.post("v1/workflows")?.json(description)?;
        self.client.fetch(&call.idempotent(key.unwrap_or(&made))?).await
    }

    /// A page of your workflows, newest first. The queue of the filter says nothing about workflows.
    ///
    /// # Errors
    /// [`Error::Validation`] if the filter will not do.
    pub async fn workflows(&self, filter: &Filter) -> Result<Workflows, Error> {
        let mut call = self.client.get("v1/workflows")?;
        {
            let mut query = call.url_mut().query_pairs_mut();
            query.extend_pairs(filter.states.iter().map(|state| ("state", state)));
            query.extend_pairs(filter.limit.iter().map(|limit| ("limit", limit.to_string())));
            query.extend_pairs(filter.cursor.iter().map(|cursor| ("cursor", cursor)));
        }
        self.client.fetch(&call).await
    }

    /// A workflow with its steps.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such workflow.
    pub async fn workflow(&self, workflow_id: &str) -> Result<Workflow, Error> {
        self.client.fetch(&self.client.get(&path(workflow_id, ""))?).await
    }

    /// Cancels what is left of a workflow. Of one that has ended it changes nothing. With `compensate` it runs on until the compensations
    /// of steps that succeeded have run.
    ///
    /// # Errors
    /// [`Error::Resource`] if there is no such workflow.
    pub async fn cancel_workflow(&self, workflow_id: &str, compensate: bool) -> Result<Workflow, Error> {
        let call = self.client.post(&path(workflow_id, "/cancel"))?;
        self.client.fetch(&call.json(&json!({"compensate": compensate}))?.harmless()).await
    }

    /// Tries again what failed of a workflow, and what did not have its turn; all of it if it was compensated. `from` names a step
    /// instead: it and all that depend on it run again, and the others stay.
    ///
    /// # Errors
    /// [`Error::Validation`] (`INVALID_STATE_TRANSITION`) if it has not failed, or cannot go on from that step.
    pub async fn retry_workflow(&self, workflow_id: &str, from: Option<&str>) -> Result<Workflow, Error> {
        let call = self.client.post(&path(workflow_id, "/retry"))?;
        self.client.fetch(&call.json(&json!({"from": from}))?.harmless()).await
    }

    /// Sends a signal to a workflow: the step that waits for it succeeds with `body` as its result. A signal that comes before its turn is
    /// kept; one that repeats the first changes nothing.
    ///
    /// # Errors
    /// [`Error::Resource`] if no step of the workflow waits for it, [`Error::Conflict`] after another signal, [`Error::Validation`] if
    /// the body does not fit the schema of the wait, or the wait is over.
    pub async fn signal(
        &self,
        workflow_id: &str,
        name: &str,
        body: &impl Serialize,
    ) -> Result<Workflow, Error> {
        let call = self.client.post(&path(workflow_id, &format!("/signals/{}", segment(name))))?;
        self.client.fetch(&call.json(body)?.harmless()).await
    }
}

fn path(workflow_id: &str, rest: &str) -> String {
    format!("v1/workflows/{}{rest}", segment(workflow_id))
}
