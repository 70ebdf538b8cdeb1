//! Workflows in a few words.

use std::boxed::Box;
use std::string::{String, ToString};
use std::sync::Arc;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{
    Answer, Command, Fail, HeldJob, LeaseProof, ListElements, ListRead, NewJob, NewStep, NewWorkflow, Output,
    Owned, SendSignal, SignalTarget, Submit, Succeed, WorkError,
};
use forgerun_core::id::JobId;
use forgerun_core::job::{Head, Job};
use forgerun_core::record::Stored;
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::workflow::{
    ArgsPiece, FailurePolicy, ForEach, ForEachPlan, NestedWorkflow, SignalToken, SignalWait, StepCondition,
    StepDefinition, StepState, StepWork, Wait, Workflow, WorkflowForm, WorkflowHead,
};

use super::World;
use super::build::{CLIENT, claim_as, id, job};

/// A step: a name, and the places of those it waits for.
pub(crate) fn step(name: &str, after: &[u32]) -> NewStep {
    step_when(name, after, StepCondition::AllSucceeded)
}

pub(crate) fn step_when(name: &str, after: &[u32], when: StepCondition) -> NewStep {
    let new = job(0, |_| {});
    let after = after.to_vec();
    NewStep {
        id: name.into(),
        after,
        when,
        head: new.head,
        input: new.input,
        compensation: None,
        work: StepWork::Job,
    }
}

/// A step that is a workflow.
pub(crate) fn nested(name: &str, after: &[u32], policy: FailurePolicy, steps: Vec<NewStep>) -> NewStep {
    let about = WorkflowHead { form: WorkflowForm::Graph, name: name.into() };
    let created_at = forgerun_core::time::Time::from_millis(1_000_000);
    let head = about.own_job(CLIENT, steps.len(), created_at);
    let head = Arc::new(Head { job_type: WorkflowHead::NESTED_JOB_TYPE.into(), ..head });
    NewStep {
        head,
        work: StepWork::Workflow(Arc::new(NestedWorkflow { policy, steps })),
        ..step(name, after)
    }
}

/// A step for each element of what step `source` left, `parallel` at once.
pub(crate) fn for_each(name: &str, source: u32, parallel: u32) -> NewStep {
    let args = vec![
        ArgsPiece::Text(b"[".to_vec()),
        ArgsPiece::Item,
        ArgsPiece::Text(b",".to_vec()),
        ArgsPiece::Index,
        ArgsPiece::Text(b"]".to_vec()),
    ];
    let plan = ForEachPlan { source, pointer: "/list".into(), parallel, args };
    NewStep { work: StepWork::ForEach(Arc::new(plan)), ..step(name, &[source]) }
}

/// Elements `first` to `end` of a list, as the engine reads them.
pub(crate) fn elements(own: JobId, first: u32, end: u32, is_last: bool) -> Command {
    let elements = (first..end).map(|n| n.to_string().into_bytes()).collect();
    let read = ListRead::Elements { elements, is_last };
    Command::ListElements(Box::new(ListElements { id: own, first, read }))
}

/// A step that waits.
pub(crate) fn wait_step(name: &str, after: &[u32], wait: Wait) -> NewStep {
    let head = Arc::new(wait.job(CLIENT, Time::from_millis(1_000_000)));
    NewStep { head, ..step(name, after) }
}

/// A wait of a minute for a signal.
pub(crate) fn wait_for_signal(name: &str) -> Wait {
    let timeout = Duration::from_secs(60);
    Wait::Signal(SignalWait { name: name.into(), timeout, schema: Vec::new(), secret: 77 })
}

/// Sends a signal by its name; `body` is a letter.
pub(crate) fn signal(own: u128, name: &str, body: u8) -> Command {
    let workflow = Owned { job: id(own), client: Some(CLIENT) };
    send(SignalTarget::Named { workflow, name: name.into() }, body)
}

pub(crate) fn send(to: SignalTarget, body: u8) -> Command {
    Command::Signal(Box::new(SendSignal { to, body: vec![body], digest: [body; 32] }))
}

/// The token of a job that waits for a signal.
pub(crate) fn token(job: &Job) -> SignalToken {
    let wait = job.head.wait.as_deref().and_then(Wait::signal);
    SignalToken::new(job.id, wait.expect("it waits for a signal"))
}

/// The same step, with a compensation.
pub(crate) fn undoable(step: NewStep) -> NewStep {
    let new = job(0, |_| {});
    NewStep {
        compensation: Some(StepDefinition { head: new.head, input: new.input, work: StepWork::Job }),
        ..step
    }
}

/// A workflow whose own job is number `own`.
pub(crate) fn workflow(own: u128, policy: FailurePolicy, steps: Vec<NewStep>) -> Command {
    workflow_as(own, policy, steps, |_| {})
}

pub(crate) fn workflow_as(
    own: u128,
    policy: FailurePolicy,
    steps: Vec<NewStep>,
    set: impl FnOnce(&mut Head),
) -> Command {
    let about = WorkflowHead { form: WorkflowForm::Graph, name: String::from("test") };
    let mut head = about.own_job(CLIENT, steps.len(), Time::from_millis(1_000_000));
    set(&mut head);
    let own = NewJob { id: id(own), id_given: false, head: Arc::new(head), input: Arc::default() };
    let submit = Submit { jobs: vec![own], idempotency: None, queue_max: None, refuse_paused: false };
    Command::Workflow(Box::new(NewWorkflow { submit, policy, steps }))
}

/// Ends the job of a step that runs.
pub(crate) fn end_step(job: &Job, well: bool) -> Command {
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
    if well {
        let output = Output::inline("text/plain", job.id.to_bytes());
        Command::Succeed(Succeed { held, output: Some(Arc::new(output)) })
    } else {
        Command::Fail(Fail { held, error: WorkError::new(Kind::HandlerError, "it broke") })
    }
}

impl World {
    /// The record of a workflow.
    pub(crate) fn workflow(&self, own: JobId) -> Workflow {
        Workflow::of(&self.records[&Workflow::key_of(own)]).unwrap()
    }

    /// The record of a `for_each`.
    pub(crate) fn for_each(&self, own: JobId) -> ForEach {
        ForEach::of(&self.records[&ForEach::key_of(own)]).unwrap()
    }

    /// Where the steps of a workflow and behind them its compensations stand, a letter each:
    /// `w`aiting, `r`eleased, `s`ucceeded, `f`ailed, `c`ancelled, `-` skipped.
    pub(crate) fn letters(&self, own: u128) -> String {
        let letter = |state| match state {
            StepState::Waiting => 'w',
            StepState::Released => 'r',
            StepState::Succeeded => 's',
            StepState::Failed => 'f',
            StepState::Canceled => 'c',
            StepState::Skipped => '-',
        };
        self.workflow(id(own)).steps.iter().map(|step| letter(step.state)).collect()
    }

    /// The job of a step.
    pub(crate) fn step_job(&self, own: u128, index: u32) -> Job {
        let job = self.workflow(id(own)).job_of(index);
        self.jobs.get(&job).cloned().unwrap_or_else(|| panic!("step {index} has no job"))
    }

    /// Claims and starts every job that can be claimed.
    pub(crate) fn start_all(&mut self) -> Vec<Job> {
        match self.ask(claim_as("q", 1000, |claim| claim.start = true)) {
            Answer::Claimed { jobs, .. } => jobs,
            answer => panic!("{answer:?}"),
        }
    }

    /// Runs a step to its end; it must have been claimed or be claimable.
    pub(crate) fn run_step(&mut self, own: u128, index: u32, well: bool) {
        self.start_all();
        let job = self.step_job(own, index);
        assert_eq!(job.state, State::Running, "step {index} can be run");
        self.ask(end_step(&job, well));
    }
}
