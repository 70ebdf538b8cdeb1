//! Workflows as OJS shows them: within an object and spread over its top level, with the counters of all SDKs (D4).

use std::collections::BTreeMap;

use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::workflow::{StepState, WorkflowForm};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};
use serde_json::{Value, json};

use crate::time;
use crate::workflow::{StepRows, WorkflowRows, step_word};

/// OJS's word for where a workflow stands.
pub const fn workflow_word(state: State) -> &'static str {
    match state {
        State::Created | State::Queued | State::Assigned | State::Running => "running",
        State::Succeeded => "completed",
        State::Failed => "failed",
        State::Canceled => "cancelled",
    }
}

/// OJS's word for how a workflow was described. It has none for a graph; whoever sends one waits for its steps one after the other.
pub const fn form_word(form: WorkflowForm) -> &'static str {
    match form {
        WorkflowForm::Chain | WorkflowForm::Graph => "chain",
        WorkflowForm::Group => "group",
        WorkflowForm::Batch => "batch",
    }
}

/// The members of a workflow, each as text: arguments of steps are never taken apart, and copied as bytes.
pub type WorkflowMembers = BTreeMap<&'static str, Box<RawValue>>;

/// Whether the arguments of steps are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepArgs {
    /// With each step.
    Shown,
    /// Not in lists: those of one workflow may have megabytes.
    LeftOut,
}

fn raw(value: &impl Serialize) -> Box<RawValue> {
    to_raw_value(value).expect("values of ours have names that are text")
}

/// The answer about a workflow, with these facts besides.
pub fn answer(rows: &WorkflowRows, facts: Vec<(&'static str, Value)>) -> WorkflowMembers {
    let mut members = view(rows, StepArgs::Shown);
    members.extend(facts.into_iter().map(|(name, value)| (name, raw(&value))));
    let nested = raw(&members);
    members.insert("workflow", nested);
    members
}

/// The members of a workflow.
pub fn view(rows: &WorkflowRows, args: StepArgs) -> WorkflowMembers {
    let job = &rows.job;
    let form = rows.head().map_or(WorkflowForm::Graph, |head| head.form);
    let name = rows.head().map_or("", |head| &head.name);
    let (counts, total) = (rows.workflow.counts(), rows.workflow.declared().count());
    // What follows the end of a batch is none of its jobs.
    let of_batch = form == WorkflowForm::Batch;
    let leaders: Vec<StepRows<'_>> =
        rows.steps().filter(|of| !of_batch || of.step.after.is_empty()).collect();
    let in_state = |word: &str| leaders.iter().filter(|of| step_word(of.step, of.job) == word).count();
    let mut view = WorkflowMembers::new();
    view.insert("steps", raw(&rows.steps().map(|of| step(rows, &of, args)).collect::<Vec<_>>()));
    let mut say = |name: &'static str, value: Value| drop(view.insert(name, raw(&value)));
    say("id", job.id.to_string().into());
    say("type", form_word(form).into());
    say("name", name.into());
    say("state", workflow_word(job.state).into());
    if rows.workflow.canceling.is_some() {
        say("canceling", true.into());
    }
    say("steps_total", total.into());
    say("steps_completed", counts.succeeded.into());
    say("steps_failed", counts.failed.into());
    say("jobs_total", leaders.len().into());
    say("jobs_completed", in_state("completed").into());
    say("jobs_failed", in_state("failed").into());
    say("created_at", time::millis(job.head.created_at).into());
    let mut metadata = json!({
        "job_count": total,
        "completed_count": counts.succeeded,
        "failed_count": counts.failed,
        "created_at": time::millis(job.head.created_at),
    });
    let completed = job.finished_at.filter(|_| matches!(job.state, State::Succeeded | State::Failed));
    let cancelled = job.finished_at.filter(|_| job.state == State::Canceled);
    for (name, at) in
        [("started_at", job.started_at), ("completed_at", completed), ("cancelled_at", cancelled)]
    {
        if let Some(at) = at {
            say(name, time::millis(at).into());
            metadata[name] = time::millis(at).into();
        }
    }
    say("metadata", metadata);
    view
}

/// A step, with its arguments as they were submitted.
#[derive(Serialize)]
struct StepWithArgs<'a> {
    #[serde(flatten)]
    members: Value,
    #[serde(skip_serializing_if = "Option::is_none")]
    args: Option<&'a RawValue>,
}

fn step<'a>(rows: &WorkflowRows, of: &StepRows<'a>, args: StepArgs) -> StepWithArgs<'a> {
    let submitted = of.definition.and_then(|(_, input)| serde_json::from_slice(&input.payload).ok());
    let args = match args {
        StepArgs::Shown => submitted.or_else(|| serde_json::from_slice(b"[]").ok()),
        StepArgs::LeftOut => None,
    };
    StepWithArgs { members: step_members(rows, of), args }
}

fn step_members(rows: &WorkflowRows, of: &StepRows<'_>) -> Value {
    let head = of.head();
    let mut view = json!({
        "id": of.step.id,
        "index": of.index,
        "type": head.map_or("", |head| super::job::shown_type(head)),
        "state": step_word(of.step, of.job),
        "depends_on": rows.depends_on(of.step),
    });
    if let Some(id) = of.job_id {
        view["job_id"] = id.to_string().into();
    }
    let mut say = |name: &str, at: Option<Time>| {
        if let Some(at) = at {
            view[name] = time::millis(at).into();
        }
    };
    say("started_at", of.job.and_then(|job| job.started_at));
    say("completed_at", of.job.and_then(|job| job.finished_at));
    if let Some(message) = rows.error(of.index) {
        view["error"] = json!({"message": message});
    }
    if let Some(of) = rows.compensation(of) {
        view["compensation"] = compensation(rows, &of);
    }
    view
}

/// What undoes a step: a member of ours.
fn compensation(rows: &WorkflowRows, of: &StepRows<'_>) -> Value {
    let head = of.head();
    let state = match of.step.state {
        StepState::Skipped => "not_run",
        _ => step_word(of.step, of.job),
    };
    let mut view = json!({"type": head.map_or("", |head| super::job::shown_type(head)), "state": state});
    if let Some(id) = of.job_id {
        view["job_id"] = id.to_string().into();
    }
    if let Some(message) = rows.error(of.index) {
        view["error"] = json!({"message": message});
    }
    view
}
