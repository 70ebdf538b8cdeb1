//! Workflows: random graphs, and their final checks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{
    Content, Idempotency, NewJob, NewStep, NewWorkflow, Owned, SendSignal, SignalTarget, Submit,
};
use forgerun_core::id::{ClientId, JobId};
use forgerun_core::job::{Head, IdempotencyKey, Input, Job};
use forgerun_core::state::State;
use forgerun_core::workflow::{
    ArgsPiece, ElementState, FailurePolicy, ForEach, ForEachPlan, NestedWorkflow, Signal, SignalWait,
    StepCondition, StepDefinition, StepKind, StepState, StepWork, Wait, Workflow, WorkflowForm, WorkflowHead,
};
use forgerun_core::{Answer, Changes, Command, Refusal};
use forgerun_engine::{Clock, Engine, Error};
use forgerun_store::Store;

use crate::clients;
use crate::run::SimContext;

/// Begins a workflow, repeatedly under the same key while the answer is uncertain.
pub(crate) async fn begin(context: &SimContext, client: ClientId, action: u64) {
    let key = format!("workflow-{}", action / 3);
    let steps = steps(context, client, 0);
    let policy = match context.world.below(4) {
        0 => FailurePolicy::Stop,
        1 => FailurePolicy::Compensate,
        _ => FailurePolicy::Continue,
    };
    let about = WorkflowHead { form: WorkflowForm::Graph, name: key.clone() };
    let mut head = about.own_job(client, steps.len(), context.world.now());
    let key = IdempotencyKey { client, operation: "workflow".into(), key };
    head.idempotency = Some(key.clone());
    for _ in 0..5 {
        let Some(engine) = context.nodes.any() else { return };
        let own = NewJob {
            id: engine.job_id(),
            id_given: false,
            head: Arc::new(head.clone()),
            input: Arc::new(Input::default()),
        };
        let idempotency = Some(Idempotency { key: key.clone(), fingerprint: [2; 32], too_late: false });
        let submit = Submit { jobs: vec![own], idempotency, queue_max: None, refuse_paused: false };
        let new = NewWorkflow { submit, policy, steps: steps.clone() };
        match engine.run(Command::Workflow(Box::new(new))).await {
            Ok(Answer::Submitted { jobs, existing }) => {
                for job in &jobs {
                    context.log.note(|| {
                        format!("client {client} hears of workflow {} (existing: {existing})", job.id)
                    });
                    context.acknowledged.acknowledged(job, Some(&key.key));
                }
                return;
            }
            Ok(answer) => return context.log.broken(format!("a workflow was answered with {answer:?}")),
            Err(Error::Refused(_)) => return,
            Err(_) => context.world.pass(Duration::from_millis(500)).await,
        }
    }
}

/// Steps at this level: jobs, workflows, and jobs per element of what a step before left.
fn steps(context: &SimContext, client: ClientId, level: usize) -> Vec<NewStep> {
    let n_steps = 2 + context.world.below(5) as u32;
    let definition = || {
        let head = Head { unique: None, ..clients::head(context, client) };
        StepDefinition { head: Arc::new(head), input: Arc::new(Input::default()), work: StepWork::Job }
    };
    let step = |index: u32| {
        let waits = context.world.chance(250);
        let StepDefinition { head, input, .. } =
            if waits { waiting(context, client, index) } else { definition() };
        let mut after: Vec<u32> = (0..index).filter(|_| context.world.chance(450)).collect();
        let when = match context.world.below(6) {
            0 => StepCondition::AllEnded,
            1 => StepCondition::AnyFailed,
            _ => StepCondition::AllSucceeded,
        };
        let mut compensation = context.world.chance(400).then(definition);
        let (mut head, mut work) = (head, StepWork::Job);
        match context.world.below(8) {
            _ if waits => {}
            0 if level < LEVELS => {
                let nested = nested(context, client, level + 1);
                let undoable = nested.steps.iter().any(|step| step.compensation.is_some());
                let about = WorkflowHead { form: WorkflowForm::Graph, name: String::new() };
                let own = about.own_job(client, nested.steps.len(), context.world.now());
                head = Arc::new(Head { job_type: WorkflowHead::NESTED_JOB_TYPE.into(), ..own });
                if compensation.is_none() && undoable {
                    let work = StepWork::Undo(None);
                    compensation = Some(StepDefinition { head: head.clone(), input: Arc::default(), work });
                }
                work = StepWork::Workflow(Arc::new(nested));
            }
            1 | 2 if index > 0 => {
                let source = context.world.below(index.into()) as u32;
                if !after.contains(&source) {
                    after.push(source);
                }
                let parallel = 1 + context.world.below(4) as u32;
                let args =
                    vec![ArgsPiece::Text(b"[".to_vec()), ArgsPiece::Item, ArgsPiece::Text(b"]".to_vec())];
                let plan = ForEachPlan { source, pointer: String::new(), parallel, args };
                work = StepWork::ForEach(Arc::new(plan));
            }
            _ => {}
        }
        NewStep { id: index.to_string(), after, when, head, input, compensation, work }
    };
    (0..n_steps).map(step).collect()
}

/// Levels of workflows within workflows.
const LEVELS: usize = 3;

fn nested(context: &SimContext, client: ClientId, level: usize) -> NestedWorkflow {
    let policy = match context.world.below(3) {
        0 => FailurePolicy::Stop,
        1 => FailurePolicy::Compensate,
        _ => FailurePolicy::Continue,
    };
    NestedWorkflow { policy, steps: steps(context, client, level) }
}

/// A step that waits for a time or for a signal that is named after it. Nothing waits for long, so
/// every workflow ends.
fn waiting(context: &SimContext, client: ClientId, index: u32) -> StepDefinition {
    let span = context.world.up_to_ms(8000);
    let wait = match context.world.below(3) {
        0 => Wait::For(span),
        1 => Wait::Until(context.world.now() + span),
        _ => Wait::Signal(SignalWait {
            name: signal_name(index.into()),
            timeout: span,
            schema: Vec::new(),
            secret: u128::from(context.world.roll()),
        }),
    };
    let head = wait.job(client, context.world.now());
    StepDefinition { head: Arc::new(head), input: Arc::new(Input::default()), work: StepWork::Job }
}

fn signal_name(index: u64) -> String {
    format!("s{index}")
}

/// Sends a signal to some workflow: too early, in time, too late, twice, or to none at all.
pub(crate) async fn signal(context: &SimContext, engine: &Engine, client: ClientId) {
    let Some(job) = context.acknowledged.some_job_of(client, context.world.roll()) else { return };
    let workflow = Owned { job, client: Some(client) };
    let to = SignalTarget::Named { workflow, name: signal_name(context.world.below(4)) };
    let body = context.world.below(2) as u8;
    let signal = SendSignal { to, body: vec![b'0' + body], digest: [body; 32] };
    let mut received = false;
    for _ in 0..=context.world.below(3) {
        match engine.run(Command::Signal(Box::new(signal.clone()))).await {
            Ok(Answer::Done(_) | Answer::Unchanged(_)) => received = true,
            Ok(answer) => context.log.broken(format!("a signal was answered with {answer:?}")),
            Err(Error::Refused(Refusal::SignalTaken)) if received => {
                // Another client may have retried the workflow and answered its new wait meanwhile.
                context.log.note(|| format!("client {client} repeats a signal to {job}, which is taken"));
            }
            Err(_) => {}
        }
    }
}

/// Which steps got a job in which execution of their workflow.
#[derive(Default)]
pub(crate) struct StepLedger {
    executions: BTreeMap<JobId, u32>,
    made: BTreeSet<(JobId, u32, u32)>,
}

impl StepLedger {
    /// No step gets two jobs in one execution of its workflow.
    pub(crate) fn see(&mut self, changes: &Changes, broken: &mut Vec<String>) {
        let inserted = || changes.inserted.iter().map(|(job, _)| job);
        for own in changes.updated.iter().chain(inserted()).filter(|job| job.head.workflow_head.is_some()) {
            self.executions.insert(own.id, own.execution_n());
        }
        for (job, step) in inserted().filter_map(|job| Some((job, job.head.workflow?))) {
            let execution = self.executions.get(&step.workflow).copied().unwrap_or(0);
            if !self.made.insert((step.workflow, step.index, execution)) {
                broken.push(format!(
                    "step {} of workflow {} was made twice in execution {execution}: job {}",
                    step.index, step.workflow, job.id
                ));
            }
        }
    }
}

/// An ended workflow ran the steps that its rules require, and each step has the state of its job.
pub(crate) async fn reckon(context: &SimContext, store: &dyn Store, own: &Job) {
    let read = store.record::<Workflow>(own.id.to_string()).await.expect("the store is calm");
    let Some(workflow) = read else {
        return context.log.broken(format!("workflow {} has lost its record", own.id));
    };
    for (index, step) in workflow.declared() {
        let before = || step.after.iter().map(|&before| workflow.steps[before as usize].state);
        let well = before().all(|state| state == StepState::Succeeded);
        let had_turn = !matches!(step.state, StepState::Waiting | StepState::Skipped);
        let should = match step.when {
            StepCondition::AllSucceeded => well,
            StepCondition::AllEnded => true,
            StepCondition::AnyFailed => !well,
        };
        // A workflow that was cancelled, or stops at a failure, skips steps that would have run.
        let cut_off = own.state == State::Canceled || workflow.policy != FailurePolicy::Continue;
        if !step.state.is_over() || (had_turn && !should) || (should && !had_turn && !cut_off) {
            context.log.broken(format!("step {index} of workflow {}: {step:?} in {workflow:?}", own.id));
        }
        if had_turn {
            reckon_step(context, store, &workflow, index, step.state).await;
            reckon_within(context, store, workflow.job_of(index)).await;
        }
        if step.signal.is_some() && step.state == StepState::Succeeded {
            reckon_signal(context, store, &workflow, index).await;
        }
    }
    reckon_compensations(context, store, own, &workflow).await;
    let succeeded = workflow.counts().failed == 0;
    if own.state != State::Canceled && succeeded != (own.state == State::Succeeded) {
        context.log.broken(format!("workflow {} is {:?}, its steps: {workflow:?}", own.id, own.state));
    }
}

/// The same for a workflow or a list that is a step.
async fn reckon_within(context: &SimContext, store: &dyn Store, id: JobId) {
    let Some(own) = store.job(id).await.expect("the store is calm") else { return };
    match own.head.workflow_head.as_ref().map(|head| head.form) {
        None => {}
        Some(WorkflowForm::ForEach) => reckon_elements(context, store, &own).await,
        Some(_) => Box::pin(reckon(context, store, &own)).await,
    }
}

/// A list that has ended ran its elements as they stand, and none is left.
async fn reckon_elements(context: &SimContext, store: &dyn Store, own: &Job) {
    let read = store.record::<ForEach>(own.id.to_string()).await.expect("the store is calm");
    let Some(for_each) = read else {
        return context.log.broken(format!("for_each {} has lost its record", own.id));
    };
    let succeeded = for_each.count(ElementState::Succeeded);
    let is_good = match own.state {
        State::Succeeded => for_each.is_whole && succeeded == for_each.n(),
        state => state.is_final() && for_each.count(ElementState::Released) == 0,
    };
    if !is_good {
        context.log.broken(format!("for_each {} is {:?}: {for_each:?}", own.id, own.state));
    }
    for index in 0..for_each.n_begun {
        let id = for_each.job_of(index);
        let Some(job) = store.job(id).await.expect("the store is calm") else { continue };
        let fits = match for_each.states[index as usize] {
            ElementState::Succeeded => job.state == State::Succeeded,
            ElementState::Failed => matches!(job.state, State::Failed | State::Canceled),
            // A retry that never came to it.
            ElementState::Waiting => job.state.is_final(),
            ElementState::Released => false,
        };
        if !fits {
            let state = for_each.states[index as usize];
            context
                .log
                .broken(format!("element {index} of {} is {state:?}, its job {:?}", own.id, job.state));
        }
    }
}

/// Successful steps were undone if the workflow failed with that policy, or was cancelled with
/// compensation; no others were.
async fn reckon_compensations(context: &SimContext, store: &dyn Store, own: &Job, workflow: &Workflow) {
    let fails_so = own.state == State::Failed && workflow.policy == FailurePolicy::Compensate;
    for (index, undone, step) in workflow.compensations() {
        let succeeded = workflow.steps[undone as usize].state == StepState::Succeeded;
        let had_turn = step.state != StepState::Skipped;
        let may = succeeded && (fails_so || own.state == State::Canceled);
        if !step.state.is_over() || (had_turn && !may) || (fails_so && succeeded && !had_turn) {
            context.log.broken(format!("compensation {index} of workflow {}: {workflow:?}", own.id));
        }
        if had_turn {
            reckon_step(context, store, workflow, index, step.state).await;
        }
    }
}

/// A wait that a signal ended has the body of that signal as its result, and the signal is
/// recorded.
async fn reckon_signal(context: &SimContext, store: &dyn Store, workflow: &Workflow, index: u32) {
    let id = workflow.job_of(index);
    let Some(job) = store.job(id).await.expect("the store is calm") else { return };
    let name = signal_name(index.into());
    let key = Signal::key_of(workflow.id, &name).key;
    let signal: Option<Signal> = store.record(key).await.expect("the store is calm");
    let result = store.result(job.execution).await.expect("the store is calm");
    let body = result.and_then(|kept| match kept.content {
        Some(Content::Inline(bytes)) => Some(bytes),
        Some(Content::Stored(_)) | None => None,
    });
    let recorded = signal.as_ref().filter(|signal| signal.ended == Some(id)).map(|signal| signal.digest[0]);
    if body != recorded.map(|body| vec![b'0' + body]) {
        context.log.broken(format!("step {index} of workflow {}: {signal:?}, result {body:?}", workflow.id));
    }
}

async fn reckon_step(
    context: &SimContext,
    store: &dyn Store,
    workflow: &Workflow,
    index: u32,
    state: StepState,
) {
    let id = workflow.job_of(index);
    let job = store.job(id).await.expect("the store is calm");
    let step = &workflow.steps[index as usize];
    if job.is_none() && step.undoes.is_some() && step.kind == StepKind::Workflow {
        // A workflow in which nothing was to be undone.
        return;
    }
    let gone = store.tombstone(id.first_execution()).await.expect("the store is calm").is_some();
    let expected = match state {
        StepState::Succeeded => State::Succeeded,
        StepState::Canceled => State::Canceled,
        StepState::Failed | StepState::Waiting | StepState::Released | StepState::Skipped => State::Failed,
    };
    if job.as_ref().map(|job| job.state) != Some(expected) && !(job.is_none() && gone) {
        let found = job.map(|job| job.state);
        context
            .log
            .broken(format!("step {index} of workflow {} is {state:?}, its job {id} {found:?}", workflow.id));
    }
}
