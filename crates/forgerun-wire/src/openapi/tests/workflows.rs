//! Workflows, held against what the document says of them.

use std::collections::BTreeMap;
use std::sync::Arc;

use forgerun_core::command::NewStep;
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{Head, Input, Name};
use forgerun_core::time::Time;
use forgerun_core::workflow::{
    FailurePolicy, StepCondition, StepDefinition, Workflow, WorkflowForm, WorkflowHead, WorkflowPart,
};
use serde_json::json;

use super::check;
use crate::admin::AdminPage;
use crate::example::ExampleJob;
use crate::outcome::Outcomes;
use crate::workflow::{
    AdminWorkflow, AdminWorkflowDetail, WorkflowRows, WorkflowSummary, WorkflowView, WorkflowsView,
};

fn rows() -> WorkflowRows {
    let client = ClientId::from_u128(7);
    let step = |n: u32, after: &[u32]| NewStep {
        id: format!("step-{n}"),
        after: after.to_vec(),
        when: StepCondition::AllSucceeded,
        head: Arc::new(Head::new(client, Name::new("default").unwrap(), Time::ZERO)),
        input: Arc::new(Input::default()),
        compensation: (n == 1).then(|| StepDefinition {
            head: Arc::new(Head::new(client, Name::new("default").unwrap(), Time::ZERO)),
            input: Arc::new(Input::default()),
        }),
    };
    let steps = [step(0, &[]), step(1, &[0])];
    let about = WorkflowHead { form: WorkflowForm::Chain, name: "order".into() };
    let own = about.own_job(client, steps.len(), Time::ZERO);
    let job = ExampleJob::begin(Outcomes::default(), |head| *head = own).told()[0].job.clone();
    let mut workflow = Workflow::new(job.id, client, FailurePolicy::Continue, &steps).unwrap();
    let parts = WorkflowPart::divide(job.id, &steps);
    workflow.parts = parts.iter().map(|part| part.first).collect();
    WorkflowRows { job, workflow, parts, jobs: BTreeMap::<JobId, _>::new() }
}

#[test]
fn every_view_of_a_workflow_has_exactly_the_documented_members() {
    let rows = rows();
    let summary = WorkflowSummary::new(&rows.job);
    check("WorkflowSummary", &summary, &summary);
    let page = WorkflowsView { workflows: vec![summary], next_cursor: None };
    check("Workflows", &page, &page);
    let bare = WorkflowView::new(&rows, None);
    check("Workflow", &WorkflowView::new(&rows, Some(json!({}))), &bare);
    check("WorkflowStep", &bare.steps[1], &bare.steps[0]);
    let compensation = bare.steps[1].compensation.as_ref().unwrap();
    check("WorkflowCompensation", compensation, compensation);
    let item = AdminWorkflow::new(&rows.job);
    check("AdminWorkflow", &item, &item);
    let page = AdminPage { items: vec![item], next_cursor: None };
    check("AdminWorkflows", &page, &page);
    let bare = AdminWorkflowDetail::new(&rows, None);
    check("AdminWorkflowDetail", &AdminWorkflowDetail::new(&rows, Some(json!({}))), &bare);
    check("WorkflowEdge", &bare.edges[0], &bare.edges[0]);
}
