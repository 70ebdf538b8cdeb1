//! Workflows as messages.

use forgerun_core::state::State;

use super::moment::timestamp;
use super::v1;
use crate::ojs::job::{completed_at, shown_type};
use crate::workflow::{StepRows, WorkflowRows, step_word};

/// A workflow as it stands.
pub fn message(rows: &WorkflowRows) -> v1::Workflow {
    let job = &rows.job;
    v1::Workflow {
        id: job.id.to_string(),
        name: rows.head().map(|head| head.name.clone()).unwrap_or_default(),
        state: state(job.state).into(),
        steps: rows.steps().map(|of| step(rows, &of)).collect(),
        created_at: Some(timestamp(job.head.created_at)),
        completed_at: completed_at(job).map(timestamp),
    }
}

const fn state(state: State) -> v1::WorkflowState {
    match state {
        State::Created | State::Queued | State::Assigned | State::Running => v1::WorkflowState::Running,
        State::Succeeded => v1::WorkflowState::Completed,
        State::Failed => v1::WorkflowState::Failed,
        State::Canceled => v1::WorkflowState::Cancelled,
    }
}

fn step(rows: &WorkflowRows, of: &StepRows<'_>) -> v1::WorkflowStepStatus {
    let head = of.job.map(|job| &*job.head).or(of.definition.map(|(head, _)| head));
    let state = match step_word(of.step, of.job) {
        "waiting" => v1::WorkflowStepState::Waiting,
        "pending" => v1::WorkflowStepState::Pending,
        "active" => v1::WorkflowStepState::Active,
        "completed" => v1::WorkflowStepState::Completed,
        "failed" => v1::WorkflowStepState::Failed,
        _ => v1::WorkflowStepState::Cancelled,
    };
    v1::WorkflowStepStatus {
        id: of.step.id.clone(),
        r#type: head.map(|head| shown_type(head).to_owned()).unwrap_or_default(),
        state: state.into(),
        job_id: of.job_id.map(|id| id.to_string()).unwrap_or_default(),
        depends_on: rows.depends_on(of.step),
    }
}
