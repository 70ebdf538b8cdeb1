//! Results of steps, handed out with the jobs of their dependents.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use forgerun_core::command::Content;
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, is_json};
use forgerun_core::workflow::Workflow;
use forgerun_wire::ojs::job::ParentResults;
use serde_json::value::RawValue;

use crate::app::App;
use crate::http::ApiError;
use crate::limits::PARENT_RESULTS_BYTES_MAX;

/// For each job the results of the steps it depends on; `None` for a job that is not a step.
pub async fn parents_of(app: &App, jobs: &[&Job]) -> Result<Vec<Option<ParentResults>>, ApiError> {
    let mut workflows: BTreeMap<JobId, Option<Workflow>> = BTreeMap::new();
    let mut found = Vec::with_capacity(jobs.len());
    for job in jobs {
        let Some(step) = job.head.workflow else {
            found.push(None);
            continue;
        };
        let workflow = match workflows.entry(step.workflow) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => {
                unknown.insert(app.engine.store().record(step.workflow.to_string()).await?)
            }
        };
        found.push(match workflow {
            Some(workflow) => Some(of_step(app, workflow, step.index).await?),
            None => Some(ParentResults::default()),
        });
    }
    Ok(found)
}

async fn of_step(app: &App, workflow: &Workflow, index: u32) -> Result<ParentResults, ApiError> {
    let store = app.engine.store();
    let after = workflow.steps.get(index as usize).map_or(&[][..], |step| &step.after);
    let ids: Vec<JobId> = after.iter().map(|&before| workflow.job_of(before)).collect();
    let jobs = store.jobs_by_id(ids.clone()).await?;
    let jobs: BTreeMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    let mut room = PARENT_RESULTS_BYTES_MAX;
    let mut results = Vec::with_capacity(ids.len());
    for id in &ids {
        let left = jobs.get(id).filter(|job| job.result.is_some());
        let result = match left {
            Some(job) => store.result(job.execution).await?,
            None => None,
        };
        let bytes = result.and_then(|kept| match kept.content {
            Some(Content::Inline(bytes)) if is_json(&kept.media_type) && bytes.len() <= room => Some(bytes),
            Some(_) | None => None,
        });
        room -= bytes.as_ref().map_or(0, Vec::len);
        let text = bytes.and_then(|bytes| String::from_utf8(bytes).ok());
        results.push(text.and_then(|text| RawValue::from_string(text).ok()));
    }
    let steps = after.iter().filter_map(|&before| workflow.steps.get(before as usize));
    Ok(ParentResults { steps: steps.map(|step| step.id.clone()).collect(), jobs: ids, results })
}
