//! Adds steps to a running workflow, for the worker that holds one of its steps.

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{AddSteps, HeldJob, LeaseProof, Refusal};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::workflow::{StepKind, Workflow};
use forgerun_engine::Error;
use forgerun_wire::ojs::envelope::Rules;
use forgerun_wire::ojs::worker::fence_of;
use forgerun_wire::workflow::read_added;

use super::begin::new_steps;
use crate::http::{ApiError, routing::Call};

/// Adds the steps in the body to the workflow whose own job this is, and returns that job.
pub async fn add_steps(call: &Call<'_>, own: &Job) -> Result<Job, ApiError> {
    let app = call.app;
    let Some(workflow) = app.engine.store().record::<Workflow>(own.id.to_string()).await? else {
        return Err(Error::Refused(Refusal::NotItsStep).into());
    };
    let owner = own.head.owner();
    let rules = Rules {
        now: app.clock.now(),
        tenant: owner.tenant.as_ref().map(forgerun_core::job::Name::as_str),
        strict_catalog: false,
        test_hooks: false,
    };
    let known = workflow.declared().map(|(index, step)| (step.id.clone(), index)).collect();
    let n_known = workflow.steps.len() as u32;
    let added = read_added(&call.body, rules, workflow.policy, known, n_known)?;
    let Some((job, fence)) = holder(&workflow, &added.lease_token) else {
        return Err(Error::Refused(Refusal::LeaseLost).into());
    };
    let head = call.head(owner.client, own.head.correlation_id.as_deref());
    let ids: Vec<String> = added.steps.iter().map(|step| step.id.clone()).collect();
    let steps = new_steps(app, &owner, added.steps, &head).await?;
    let held = HeldJob { job, proof: LeaseProof::Token(fence), client: Some(call.caller().client) };
    let add = AddSteps { workflow: own.id, held, n_known, steps };
    match app.engine.act(Command::AddSteps(Box::new(add))).await {
        Ok((job, _)) => Ok(job),
        Err(Error::Refused(Refusal::StepExists { index })) => {
            let id = ids.get(index).map_or("", String::as_str);
            Err(ApiError::new(Kind::Duplicate, format!("The workflow has a step `{id:.60}` already.")))
        }
        Err(error) => Err(error.into()),
    }
}

/// The step under way whose job the token is of: a token names its job by half of its id.
fn holder(workflow: &Workflow, token: &str) -> Option<(JobId, u64)> {
    let jobs = workflow.under_way().filter(|&index| workflow.steps[index as usize].kind == StepKind::Job);
    jobs.map(|index| workflow.job_of(index)).find_map(|job| Some((job, fence_of(token, job)?)))
}
