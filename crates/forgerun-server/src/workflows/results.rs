//! Results of the steps of a workflow, or of the elements of a list, page by page.

use std::collections::BTreeMap;

use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::workflow::{ForEach, GraphStep, Workflow, WorkflowForm};
use forgerun_engine::{StepResult, StepResults};
use forgerun_wire::workflow::{StepResultView, StepResultsView, ended_word, form_word};
use serde_json::value::RawValue;

use crate::app::App;
use crate::http::ApiError;
use crate::limits::PARENT_RESULTS_BYTES_MAX;

/// A step or an element in a page.
struct ResultEntry {
    index: u32,
    id: String,
    state: &'static str,
    job: Option<JobId>,
}

/// A page of the results; `None` if the records are gone.
pub async fn results(
    app: &App,
    own: &Job,
    first: u32,
    limit: usize,
) -> Result<Option<StepResultsView>, ApiError> {
    let Some(mut entries) = entries(app, own, first, limit + 1).await? else { return Ok(None) };
    let next_cursor = (entries.len() > limit).then(|| entries[limit].index.to_string());
    entries.truncate(limit);
    let store = app.engine.store();
    let jobs = store.jobs_by_id(entries.iter().filter_map(|entry| entry.job).collect()).await?;
    let jobs: BTreeMap<JobId, Job> = jobs.into_iter().map(|job| (job.id, job)).collect();
    let reader = StepResults::small(&**store);
    let mut room = PARENT_RESULTS_BYTES_MAX;
    let mut results = Vec::with_capacity(entries.len());
    for ResultEntry { index, id, state, job } in entries {
        let result = match job.and_then(|job| jobs.get(&job)) {
            Some(job) => match reader.of(job, room).await? {
                StepResult::Json(bytes) => {
                    room -= bytes.len().min(room);
                    raw(bytes)
                }
                StepResult::TooLarge => reference(app, job),
                StepResult::Nothing => None,
                StepResult::Other(_) => reference(app, job),
            },
            None => None,
        };
        let job_id = job.map(|job| job.to_string());
        results.push(StepResultView { id, index, state: state.into(), job_id, result });
    }
    let form = own.head.workflow_head.as_ref().map_or(WorkflowForm::Graph, |head| head.form);
    Ok(Some(StepResultsView { form: form_word(form).into(), results, next_cursor }))
}

async fn entries(app: &App, own: &Job, first: u32, n: usize) -> Result<Option<Vec<ResultEntry>>, ApiError> {
    let store = app.engine.store();
    if let Some(workflow) = store.record::<Workflow>(own.id.to_string()).await? {
        let steps = workflow.declared().filter(|(index, _)| *index >= first).take(n);
        let entry = |(index, step): (u32, &GraphStep)| {
            let (state, job) = (ended_word(step.state), workflow.made_job(index));
            ResultEntry { index, id: step.id.clone(), state, job }
        };
        return Ok(Some(steps.map(entry).collect()));
    }
    let Some(for_each) = store.record::<ForEach>(own.id.to_string()).await? else { return Ok(None) };
    let entry = |index: u32| {
        let (state, job) = (ended_word(for_each.step_state(index)), for_each.made_job(index));
        ResultEntry { index, id: index.to_string(), state, job }
    };
    Ok(Some((first..for_each.n()).take(n).map(entry).collect()))
}

pub(super) fn raw(bytes: Vec<u8>) -> Option<Box<RawValue>> {
    RawValue::from_string(String::from_utf8(bytes).ok()?).ok()
}

/// The address of a result that is not handed out with others.
pub(super) fn reference(app: &App, job: &Job) -> Option<Box<RawValue>> {
    let (base, id) = (&app.base, job.id);
    let url = match job.head.workflow_head {
        Some(_) => format!("{base}/v1/workflows/{id}/results"),
        None => format!("{base}/ojs/v1/jobs/{id}/result"),
    };
    serde_json::value::to_raw_value(&serde_json::json!({"$ref": url})).ok()
}
