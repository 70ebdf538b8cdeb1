//! Results of steps, handed out with the jobs of their dependents.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use forgerun_core::id::JobId;
use forgerun_core::job::{Job, WorkflowStep};
use forgerun_core::limits::WORKFLOW_DEPTH_MAX;
use forgerun_core::workflow::{ForEach, Workflow};
use forgerun_engine::{StepResult, StepResults};
use forgerun_wire::ojs::job::ParentResults;
use serde_json::value::RawValue;

use super::results::{raw, reference};
use crate::app::App;
use crate::http::ApiError;
use crate::limits::PARENT_RESULTS_BYTES_MAX;

/// For each job the results of the steps it depends on; `None` for a job that is not a step.
pub async fn parents_of(app: &App, jobs: &[&Job]) -> Result<Vec<Option<ParentResults>>, ApiError> {
    let mut known = Known { app, records: BTreeMap::new(), results: BTreeMap::new() };
    let mut found = Vec::with_capacity(jobs.len());
    for job in jobs {
        found.push(match job.head.workflow {
            Some(step) => Some(known.of(step).await?),
            None => None,
        });
    }
    Ok(found)
}

/// What was read for the jobs before: those of one fetch often belong to one workflow.
struct Known<'a> {
    app: &'a App,
    records: BTreeMap<JobId, Conductor>,
    /// By the jobs that the results are of.
    results: BTreeMap<Vec<JobId>, ParentResults>,
}

/// What a step belongs to.
enum Conductor {
    Workflow(Box<Workflow>),
    ForEach(Box<ForEach>),
    Gone,
}

impl Known<'_> {
    async fn of(&mut self, step: WorkflowStep) -> Result<ParentResults, ApiError> {
        let parents = self.parents(step).await?;
        let jobs: Vec<JobId> = parents.iter().map(|(_, job)| *job).collect();
        if let Some(results) = self.results.get(&jobs) {
            return Ok(results.clone());
        }
        let results = results(self.app, parents).await?;
        self.results.insert(jobs, results.clone());
        Ok(results)
    }

    /// Names and jobs of the steps that a step depends on. The first steps of a nested workflow
    /// depend on what the workflow depends on, and so do the elements of a list, which have their
    /// element instead of the list.
    async fn parents(&mut self, mut step: WorkflowStep) -> Result<Vec<(String, JobId)>, ApiError> {
        let mut without: Option<JobId> = None;
        // A damaged row must not keep this going for ever.
        for _ in 0..=2 * WORKFLOW_DEPTH_MAX {
            match self.conductor(step.workflow).await? {
                Conductor::Gone => break,
                Conductor::ForEach(for_each) => {
                    without = Some(for_each.source);
                    step = for_each.outer;
                }
                Conductor::Workflow(workflow) => {
                    let after = workflow.steps.get(step.index as usize).map_or(&[][..], |step| &step.after);
                    if let (true, Some(outer)) = (after.is_empty(), workflow.outer) {
                        step = outer;
                        continue;
                    }
                    let parents = after.iter().filter_map(|&before| {
                        let name = workflow.steps.get(before as usize)?.id.clone();
                        Some((name, workflow.job_of(before)))
                    });
                    return Ok(parents.filter(|(_, job)| Some(*job) != without).collect());
                }
            }
        }
        Ok(Vec::new())
    }

    async fn conductor(&mut self, id: JobId) -> Result<&Conductor, ApiError> {
        let store = self.app.engine.store();
        match self.records.entry(id) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(unknown) => {
                let found = match store.record::<Workflow>(id.to_string()).await? {
                    Some(workflow) => Conductor::Workflow(Box::new(workflow)),
                    None => match store.record::<ForEach>(id.to_string()).await? {
                        Some(for_each) => Conductor::ForEach(Box::new(for_each)),
                        None => Conductor::Gone,
                    },
                };
                Ok(unknown.insert(found))
            }
        }
    }
}

/// The results of jobs. One that is too large is named by its address.
async fn results(app: &App, parents: Vec<(String, JobId)>) -> Result<ParentResults, ApiError> {
    let store = app.engine.store();
    let (steps, jobs): (Vec<String>, Vec<JobId>) = parents.into_iter().unzip();
    let found = if jobs.is_empty() { Vec::new() } else { store.jobs_by_id(jobs.clone()).await? };
    let found: BTreeMap<JobId, Job> = found.into_iter().map(|job| (job.id, job)).collect();
    let reader = StepResults::small(&**store);
    let mut room = PARENT_RESULTS_BYTES_MAX;
    let mut results: Vec<Option<Box<RawValue>>> = Vec::with_capacity(jobs.len());
    for id in &jobs {
        let result = match found.get(id) {
            Some(job) => match reader.of(job, room).await? {
                StepResult::Json(bytes) => {
                    room -= bytes.len().min(room);
                    raw(bytes)
                }
                StepResult::TooLarge => reference(app, job),
                StepResult::Nothing | StepResult::Other(_) => None,
            },
            None => None,
        };
        results.push(result);
    }
    Ok(ParentResults { steps, jobs, results })
}
