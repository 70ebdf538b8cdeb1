//! Begins workflows: one command, however many steps.

use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Idempotency, NewJob, NewStep, NewWorkflow, Submit};
use forgerun_core::job::{Dialect, Head, IdempotencyKey, Input, Job};
use forgerun_core::queue::Owner;
use forgerun_core::workflow::{ForEachPlan, NestedWorkflow, StepDefinition, StepWork, Wait, WorkflowHead};
use forgerun_core::{Answer, Command};
use forgerun_engine::Error;
use forgerun_wire::body::{refused, violation};
use forgerun_wire::ojs::envelope::JobEnvelope;
use forgerun_wire::workflow::{self as wire, ForEachRequest, StepRequest, WorkflowRequest};

use crate::app::App;
use crate::config::PrivateTargets;
use crate::dialects::ojs::submission::{TERMS, from_envelope};
use crate::http::{ApiError, routing::Call};
use crate::schemas;
use crate::submission::{self, Key, SubmissionContext, Violations};

/// An accepted or existing workflow.
pub struct StartedWorkflow {
    pub job: Job,
    /// Whether the request was a repetition.
    pub existing: bool,
}

/// Why a workflow was not begun. The dialect words errors of the engine.
pub enum BeginError {
    Refused(ApiError),
    /// The engine refused it, or failed.
    Engine(Error),
}

impl BeginError {
    /// The error, with the engine's part worded by a dialect.
    pub fn or_else(self, of_engine: impl FnOnce(Error) -> ApiError) -> ApiError {
        match self {
            BeginError::Refused(error) => error,
            BeginError::Engine(error) => of_engine(error),
        }
    }
}

impl From<ApiError> for BeginError {
    fn from(error: ApiError) -> BeginError {
        BeginError::Refused(error)
    }
}

/// Begins a workflow of `owner`.
pub async fn begin(
    call: &Call<'_>,
    owner: &Owner,
    request: WorkflowRequest,
    key: Option<Key<'_>>,
) -> Result<StartedWorkflow, BeginError> {
    let app = call.app;
    if let Err(detail) = key.as_ref().map_or(Ok(()), |key| submission::check_key(key.key)) {
        let wrong = violation("idempotency_key", &detail, "format");
        return Err(BeginError::Refused(refused(Kind::InvalidArgs, vec![wrong], &[]).into()));
    }
    let head = call.head(owner.client, request.correlation_id.as_deref());
    let n_steps = request.steps.len();
    let steps = new_steps(app, owner, request.steps, &head).await?;
    let about = WorkflowHead { form: request.form, name: request.name };
    let deadline = request.deadline.map(|deadline| deadline.moment(head.created_at));
    if deadline.is_some_and(|deadline| deadline <= head.created_at) {
        let wrong = violation("deadline", "lies in the past", "future");
        return Err(BeginError::Refused(refused(Kind::InvalidArgs, vec![wrong], &[]).into()));
    }
    let own = own_head(app, owner, about, n_steps, Head { deadline, ..head });
    let submit = submit(app, own, key);
    let has_key = submit.idempotency.is_some();
    let command = NewWorkflow { submit, policy: request.policy, steps };
    let (mut jobs, existing) = match app.engine.run(Command::Workflow(Box::new(command))).await {
        Ok(Answer::Submitted { jobs, existing }) => (jobs, existing),
        Ok(answer) => unreachable!("a workflow was answered with {answer:?}"),
        Err(error) => return Err(BeginError::Engine(error)),
    };
    if has_key {
        app.metrics.idempotency(existing);
    }
    let job = jobs.pop().expect("a workflow is answered with its own job");
    Ok(StartedWorkflow { job, existing })
}

/// The head of the workflow's own job.
fn own_head(app: &App, owner: &Owner, about: WorkflowHead, n_steps: usize, head: Head) -> Head {
    let own = about.own_job(owner.client, n_steps, head.created_at);
    let mut head = Head {
        tenant: owner.tenant.clone(),
        job_type: own.job_type,
        items: own.items,
        retry: own.retry,
        workflow_head: own.workflow_head,
        queue: own.queue,
        ..head
    };
    submission::complete(app, &mut head);
    head
}

fn submit(app: &App, mut own: Head, key: Option<Key<'_>>) -> Submit {
    let idempotency = key.map(|key| Idempotency {
        key: IdempotencyKey { client: own.client, operation: key.operation.into(), key: key.key.into() },
        fingerprint: key.fingerprint,
        too_late: false,
    });
    own.idempotency = idempotency.as_ref().map(|idempotency| idempotency.key.clone());
    let refuse_paused = own.dialect == Dialect::Ojs && app.config.ojs.strict_catalog;
    let own = NewJob {
        id: app.engine.job_id(),
        id_given: false,
        head: Arc::new(own),
        input: Arc::new(Input::default()),
    };
    Submit { jobs: vec![own], idempotency, queue_max: Some(app.config.limits.queue_size), refuse_paused }
}

/// The steps as the core takes them; `head` has what they have in common.
pub(super) async fn new_steps(
    app: &App,
    owner: &Owner,
    requests: Vec<StepRequest>,
    head: &Head,
) -> Result<Vec<NewStep>, ApiError> {
    let mut steps = Vec::with_capacity(requests.len());
    for (place, request) in requests.into_iter().enumerate() {
        steps.push(new_step(app, owner, request, place, head).await?);
    }
    Ok(steps)
}

async fn new_step(
    app: &App,
    owner: &Owner,
    step: StepRequest,
    place: usize,
    head: &Head,
) -> Result<NewStep, ApiError> {
    let StepDefinition { head: of_step, input, work } = match step.work {
        wire::StepBody::Job(job) => definition(app, owner, *job, head).await?,
        wire::StepBody::ForEach(for_each) => {
            let ForEachRequest { source, pointer, parallel, args, job } = *for_each;
            let plan = ForEachPlan { source, pointer, parallel, args };
            let elements = definition(app, owner, job, head).await?;
            StepDefinition { work: StepWork::ForEach(Arc::new(plan)), ..elements }
        }
        wire::StepBody::Wait(request) => {
            waiting(app, owner, request.into_wait(app.clock.random()), place, head).await?
        }
        wire::StepBody::Workflow(request) => nested(app, owner, *request, head).await?,
    };
    let compensation = match step.compensate {
        Some(job) => Some(definition(app, owner, job, head).await?),
        // What is to be undone within a workflow is undone with it.
        None if can_be_undone(&work) => {
            Some(StepDefinition { head: of_step.clone(), input: Arc::default(), work: StepWork::Undo(None) })
        }
        None => None,
    };
    Ok(NewStep { id: step.id, after: step.after, when: step.when, head: of_step, input, compensation, work })
}

fn can_be_undone(work: &StepWork) -> bool {
    match work {
        StepWork::Workflow(nested) => nested.steps.iter().any(|step| step.compensation.is_some()),
        StepWork::Job | StepWork::ForEach(_) | StepWork::Undo(_) => false,
    }
}

/// A workflow that is a step.
async fn nested(
    app: &App,
    owner: &Owner,
    request: WorkflowRequest,
    head: &Head,
) -> Result<StepDefinition, ApiError> {
    let steps = Box::pin(new_steps(app, owner, request.steps, head)).await?;
    let about = WorkflowHead { form: request.form, name: request.name };
    let deadline = request.deadline.map(|deadline| deadline.moment(head.created_at));
    let own = own_head(app, owner, about, steps.len(), Head { deadline, ..head.clone() });
    let own = Head { job_type: WorkflowHead::NESTED_JOB_TYPE.into(), ..own };
    let work = StepWork::Workflow(Arc::new(NestedWorkflow { policy: request.policy, steps }));
    Ok(StepDefinition { head: Arc::new(own), input: Arc::default(), work })
}

/// The job of a waiting step.
async fn waiting(
    app: &App,
    owner: &Owner,
    wait: Wait,
    place: usize,
    head: &Head,
) -> Result<StepDefinition, ApiError> {
    if let Some(schema) = wait.signal().map(|signal| &signal.schema).filter(|schema| !schema.is_empty()) {
        schemas::check(app, owner.client, schema, &format!("steps/{place}/wait/schema")).await?;
    }
    let own = wait.job(owner.client, head.created_at);
    let mut head = Head {
        job_type: own.job_type,
        queue: own.queue,
        wait: own.wait,
        retry: own.retry,
        tenant: owner.tenant.clone(),
        ..head.clone()
    };
    submission::complete(app, &mut head);
    Ok(StepDefinition { head: Arc::new(head), input: Arc::default(), work: StepWork::Job })
}

async fn definition(
    app: &App,
    owner: &Owner,
    job: JobEnvelope,
    head: &Head,
) -> Result<StepDefinition, ApiError> {
    let submission = from_envelope(app, owner, job, head.clone())?;
    let context = SubmissionContext { key: None, bytes: 0, private: PrivateTargets::Deny };
    let checked = submission.check(app, &TERMS, context, Violations::default()).await?;
    let NewJob { head, input, .. } = checked.into_job(app, None);
    Ok(StepDefinition { head, input, work: StepWork::Job })
}
