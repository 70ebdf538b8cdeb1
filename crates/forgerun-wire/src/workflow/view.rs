//! Workflows in the words of `/v1` and `/admin/v1`.

use std::borrow::Cow;

use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_core::workflow::{FailurePolicy, StepCondition, StepState, WorkflowForm, WorkflowHead};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::rows::{StepRows, WorkflowRows};
use super::wait::WaitView;
use crate::{time, words};

/// A workflow in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WorkflowSummary {
    /// Which workflow. Its own job has the same id.
    pub workflow_id: String,
    /// chain, group, batch or graph.
    #[serde(rename = "type")]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::WorkflowForm"))]
    pub form: String,
    /// What the client calls it; may be empty.
    pub name: String,
    /// RUNNING, SUCCEEDED, FAILED or CANCELED.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::ForgeState"))]
    pub state: String,
    /// Percent of its steps that are over.
    pub progress: u8,
    /// How many steps it has.
    pub steps_total: u32,
    /// How many succeeded.
    pub steps_succeeded: u32,
    /// How many failed, were cancelled, or never had their turn because of that.
    pub steps_failed: u32,
    /// When it was accepted.
    pub created_at: String,
    /// By when it must have ended, if it has a deadline that counts.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub deadline: Option<String>,
    /// When it last changed.
    pub updated_at: String,
    /// When it ended.
    pub finished_at: Option<String>,
    /// The execution under way, or the last.
    pub execution_id: String,
}

impl WorkflowSummary {
    /// The workflow whose own job this is.
    pub fn new(job: &Job) -> WorkflowSummary {
        let nameless = WorkflowHead { form: WorkflowForm::Graph, name: String::new() };
        let head = job.head.workflow_head.as_ref().unwrap_or(&nameless);
        let progress = match job.state {
            State::Succeeded => 100,
            _ => job.progress.unwrap_or(0),
        };
        WorkflowSummary {
            workflow_id: job.id.to_string(),
            form: form_word(head.form).into(),
            name: head.name.clone(),
            state: words::forge_state(job.state).into(),
            progress,
            steps_total: job.head.items.map_or(0, |items| items.n),
            steps_succeeded: job.tally.completed,
            steps_failed: job.tally.failed,
            created_at: time::millis(job.head.created_at),
            deadline: job.deadline().map(time::millis),
            updated_at: time::millis(job.updated_at),
            finished_at: job.finished_at.map(time::millis),
            execution_id: job.execution.to_string(),
        }
    }
}

/// A page of workflows, newest first.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Workflows"))]
pub struct WorkflowsView {
    /// The workflows.
    pub workflows: Vec<WorkflowSummary>,
    /// Where to go on; null at the end.
    pub next_cursor: Option<String>,
}

/// A workflow in full.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Workflow"))]
pub struct WorkflowView {
    /// As in a list.
    #[serde(flatten)]
    pub summary: WorkflowSummary,
    /// What the failure of a step means for the others: continue, stop or compensate.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::FailurePolicy"))]
    pub failure_policy: String,
    /// It was cancelled, and ends so once what it did is undone.
    pub canceling: bool,
    /// Its steps, in order.
    pub steps: Vec<StepView>,
    /// The last word on its newest execution, if that ended badly: the failure object, with a result per step.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::FailedJob"))]
    pub failure: Option<Value>,
}

/// A step of a workflow.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WorkflowStep"))]
pub struct StepView {
    /// What the client calls it, or its place.
    pub id: String,
    /// Its place, from 0.
    pub index: u32,
    /// What kind of job it is.
    pub job_type: Option<String>,
    /// Where its job waits.
    pub queue: Option<String>,
    /// WAITING for other steps, or for what `wait` names; then a state of its job, or SKIPPED if its
    /// turn never comes.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::StepState"))]
    pub state: Cow<'static, str>,
    /// The steps it waits for.
    pub depends_on: Vec<String>,
    /// When it has its turn: all_succeeded, all_ended or any_failed.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::StepCondition"))]
    pub when: Cow<'static, str>,
    /// Its job, once it was made.
    pub job_id: Option<String>,
    /// The attempt under way or about to begin, from 1.
    pub attempt: Option<u32>,
    /// When its newest attempt began.
    pub started_at: Option<String>,
    /// When its job ended.
    pub finished_at: Option<String>,
    /// Why it did not succeed.
    pub error: Option<String>,
    /// What it waits for, if it is a wait.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub wait: Option<WaitView>,
    /// What undoes it, if it declares that.
    pub compensation: Option<CompensationView>,
}

/// What undoes a step.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WorkflowCompensation"))]
pub struct CompensationView {
    /// What kind of job it is.
    pub job_type: Option<String>,
    /// NOT_RUN while nothing is to be undone, WAITING for others, then a state of its job.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::CompensationState"))]
    pub state: Cow<'static, str>,
    /// Its job, once it was made.
    pub job_id: Option<String>,
    /// Why it did not succeed.
    pub error: Option<String>,
}

impl WorkflowView {
    /// The workflow as it stands, with the last word on it.
    pub fn new(rows: &WorkflowRows, failure: Option<Value>) -> WorkflowView {
        let counts = rows.workflow.counts();
        WorkflowView {
            summary: WorkflowSummary {
                progress: rows.workflow.percent_over(),
                steps_succeeded: counts.succeeded,
                steps_failed: counts.failed,
                ..WorkflowSummary::new(&rows.job)
            },
            failure_policy: match rows.workflow.policy {
                FailurePolicy::Continue => "continue",
                FailurePolicy::Stop => "stop",
                FailurePolicy::Compensate => "compensate",
            }
            .into(),
            canceling: rows.workflow.canceling.is_some(),
            steps: rows.steps().map(|step| StepView::new(rows, &step)).collect(),
            failure,
        }
    }
}

impl WorkflowView {
    /// The same with the tokens of signals that are waited for, for callers that may send them.
    /// `signals_at` is the address of `/v1/signals`.
    #[must_use]
    pub fn with_tokens(mut self, rows: &WorkflowRows, signals_at: &str) -> WorkflowView {
        for (view, of) in self.steps.iter_mut().zip(rows.steps()) {
            view.wait = WaitView::new(&of, Some(signals_at));
        }
        self
    }
}

impl StepView {
    fn new(rows: &WorkflowRows, of: &StepRows<'_>) -> StepView {
        StepView {
            id: of.step.id.clone(),
            index: of.index,
            job_type: job_type(of),
            queue: of.head().map(|head| head.queue.as_str().to_owned()),
            state: state_word(of).into(),
            depends_on: rows.depends_on(of.step),
            when: match of.step.when {
                StepCondition::AllSucceeded => "all_succeeded",
                StepCondition::AllEnded => "all_ended",
                StepCondition::AnyFailed => "any_failed",
            }
            .into(),
            job_id: of.job_id.map(|id| id.to_string()),
            attempt: of.job.map(|job| job.attempt),
            started_at: of.job.and_then(|job| job.started_at).map(time::millis),
            finished_at: of.job.and_then(|job| job.finished_at).map(time::millis),
            error: rows.error(of.index).map(str::to_owned),
            wait: WaitView::new(of, None),
            compensation: rows.compensation(of).map(|of| CompensationView::new(rows, &of)),
        }
    }
}

impl CompensationView {
    fn new(rows: &WorkflowRows, of: &StepRows<'_>) -> CompensationView {
        CompensationView {
            job_type: job_type(of),
            state: if of.step.state == StepState::Skipped { "NOT_RUN" } else { state_word(of) }.into(),
            job_id: of.job_id.map(|id| id.to_string()),
            error: rows.error(of.index).map(str::to_owned),
        }
    }
}

fn job_type(of: &StepRows<'_>) -> Option<String> {
    of.head().map(|head| head.job_type.clone()).filter(|name| !name.is_empty())
}

/// Where a step stands: a word of its own while it has no job, and the state of its job then.
fn state_word(of: &StepRows<'_>) -> &'static str {
    match of.step.state {
        StepState::Waiting => "WAITING",
        StepState::Released if of.is_waiting() => "WAITING",
        StepState::Released => words::forge_state(of.job.map_or(State::Queued, |job| job.state)),
        StepState::Succeeded => words::forge_state(State::Succeeded),
        StepState::Failed => words::forge_state(State::Failed),
        StepState::Canceled => words::forge_state(State::Canceled),
        StepState::Skipped => "SKIPPED",
    }
}

/// How a workflow was described.
pub(crate) const fn form_word(form: WorkflowForm) -> &'static str {
    match form {
        WorkflowForm::Chain => "chain",
        WorkflowForm::Group => "group",
        WorkflowForm::Batch => "batch",
        WorkflowForm::Graph => "graph",
    }
}

/// A workflow of any client, in a list.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminWorkflow {
    /// Whose.
    pub client: String,
    /// What people call that client.
    #[serde(default)]
    pub client_name: Option<String>,
    /// Which of the client's tenants.
    pub tenant: Option<String>,
    /// As its client sees it.
    #[serde(flatten)]
    pub workflow: WorkflowSummary,
}

impl AdminWorkflow {
    /// The workflow whose own job this is.
    pub fn new(job: &Job) -> AdminWorkflow {
        AdminWorkflow {
            client: job.head.client.to_string(),
            client_name: None,
            tenant: job.head.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            workflow: WorkflowSummary::new(job),
        }
    }
}

/// A workflow of any client, in full.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminWorkflowDetail {
    /// Whose.
    pub client: String,
    /// What people call that client.
    #[serde(default)]
    pub client_name: Option<String>,
    /// Which of the client's tenants.
    pub tenant: Option<String>,
    /// As its client sees it.
    #[serde(flatten)]
    pub workflow: WorkflowView,
    /// Who waits for whom, for a drawing.
    pub edges: Vec<EdgeView>,
}

/// One step waits for another.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WorkflowEdge"))]
pub struct EdgeView {
    /// The step that comes first.
    pub from: String,
    /// The step that waits for it.
    pub to: String,
    /// When that one has its turn.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::StepCondition"))]
    pub when: Cow<'static, str>,
}

impl AdminWorkflowDetail {
    /// The workflow as it stands, with the last word on it.
    pub fn new(rows: &WorkflowRows, failure: Option<Value>) -> AdminWorkflowDetail {
        let AdminWorkflow { client, tenant, .. } = AdminWorkflow::new(&rows.job);
        let workflow = WorkflowView::new(rows, failure);
        let edges = workflow.steps.iter().flat_map(|step| {
            step.depends_on.iter().map(|from| EdgeView {
                from: from.clone(),
                to: step.id.clone(),
                when: step.when.clone(),
            })
        });
        let edges = edges.collect();
        AdminWorkflowDetail { client, client_name: None, tenant, workflow, edges }
    }
}
