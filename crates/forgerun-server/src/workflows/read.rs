//! Reads workflows.

use std::collections::BTreeMap;
use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::limits::WORKFLOW_STEPS_MAX;
use forgerun_core::state::State;
use forgerun_core::workflow::{ForEach, StepKind, Workflow, WorkflowHead, WorkflowPart};
use forgerun_wire::body::{refused, violation};
use forgerun_wire::workflow::WorkflowRows;
use serde_json::Value;

use crate::app::{App, Filter};
use crate::http::ApiError;
use crate::limits::PAGES_SCANNED_MAX;

/// Whether a job represents a workflow.
pub fn is_workflow(job: &Job) -> bool {
    job.head.workflow_head.is_some()
}

/// The workflow with this own job; `None` if its record is deleted or unreadable.
pub async fn read(app: &App, job: Arc<Job>) -> Result<Option<WorkflowRows>, ApiError> {
    let store = app.engine.store();
    let mut for_each: BTreeMap<JobId, ForEach> = BTreeMap::new();
    let workflow = match store.record::<Workflow>(job.id.to_string()).await? {
        Some(workflow) => workflow,
        None => {
            let Some(found) = store.record::<ForEach>(job.id.to_string()).await? else { return Ok(None) };
            for_each.insert(job.id, found);
            Workflow::without_steps(job.id, job.head.client)
        }
    };
    let lists = workflow.declared().filter(|(_, step)| step.kind == StepKind::ForEach);
    for id in lists.filter_map(|(index, _)| workflow.made_job(index)) {
        for_each.extend(store.record::<ForEach>(id.to_string()).await?.map(|found| (id, found)));
    }
    // Every step may have a compensation, and every definition a part of its own.
    let n_parts = 2 * WORKFLOW_STEPS_MAX;
    let parts = store.records::<WorkflowPart>(Some(job.id.to_string()), String::new(), n_parts).await?;
    let jobs = store.jobs_by_id(WorkflowRows::job_ids(&workflow)).await?;
    let jobs: BTreeMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    Ok(Some(WorkflowRows { job: Arc::unwrap_or_clone(job), workflow, parts, jobs, for_each }))
}

/// Position of the step that a retry continues from.
pub async fn step_index(app: &App, own: &Job, id: &str) -> Result<u32, ApiError> {
    let workflow = app.engine.store().record::<Workflow>(own.id.to_string()).await?;
    let found = workflow.iter().flat_map(Workflow::declared).find(|(_, step)| step.id == id);
    let unknown = || {
        let wrong = violation("from", &format!("names no step of this workflow: `{id:.60}`"), "enum");
        refused(Kind::InvalidArgs, vec![wrong], &["from"]).into()
    };
    found.map(|(index, _)| index).ok_or_else(unknown)
}

/// The failure object of a workflow.
pub async fn failure(app: &App, job: &Job) -> Result<Option<Value>, ApiError> {
    if !matches!(job.state, State::Failed | State::Canceled) {
        return Ok(None);
    }
    let outcome = app.engine.store().outcome(job.execution).await?;
    Ok(outcome.and_then(|outcome| serde_json::from_slice(&outcome.object.bytes).ok()))
}

/// A page of the own jobs of workflows, newest first, and where the next begins.
pub async fn list(app: &App, filter: Filter) -> Result<(Vec<Job>, Option<JobId>), ApiError> {
    let limit = filter.limit;
    let mut filter = Filter { job_type: Some(WorkflowHead::JOB_TYPE.into()), limit: limit + 1, ..filter };
    let (mut jobs, mut next): (Vec<Job>, Option<JobId>) = (Vec::new(), None);
    for _ in 0..PAGES_SCANNED_MAX {
        let page = app.engine.store().list_jobs(filter.clone()).await?;
        (next, filter.before) = (page.next, page.next);
        jobs.extend(page.rows.into_iter().filter(is_workflow));
        if next.is_none() || jobs.len() > limit {
            break;
        }
    }
    if jobs.len() > limit {
        jobs.truncate(limit);
        next = jobs.last().map(|job| job.id);
    }
    Ok((jobs, next))
}
