//! Workflows: the jobs of steps that follow are made in the transaction that ends the last one before them, on whichever node that is.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::Batch;
use forgerun_core::client::Client;
use forgerun_core::command::{
    Command, NewJob, NewStep, NewWorkflow, Owned, SendSignal, SignalTarget, Submit,
};
use forgerun_core::id::JobId;
use forgerun_core::job::{Input, Job};
use forgerun_core::limits;
use forgerun_core::state::State;
use forgerun_core::workflow::{
    FailurePolicy, Signal, SignalWait, StepCondition, StepState, Wait, Workflow, WorkflowForm, WorkflowHead,
    WorkflowPart,
};

use super::Fixture;
use super::harness::{accepted, ask, at_once, claimed, commit_until_done, done, n_due, run};
use super::make::{START, at, cancel, client, fail, id, job, submit_all, succeed, take};
use super::snapshot::snapshot;
use crate::{Filter, Store};

pub(super) fn step(n: u64, after: &[u32], when: StepCondition) -> NewStep {
    let NewJob { head, input, .. } = job(n, "steps");
    NewStep { id: format!("step-{n}"), after: after.to_vec(), when, head, input, compensation: None }
}

/// So many steps at once, and two that follow: one however they end, one if a step failed.
fn fan_in(own: u64, n_steps: u64) -> Command {
    let mut steps: Vec<NewStep> = (0..n_steps).map(|n| step(n, &[], StepCondition::AllSucceeded)).collect();
    let all: Vec<u32> = (0..n_steps as u32).collect();
    steps.push(step(n_steps, &all, StepCondition::AllEnded));
    steps.push(step(n_steps + 1, &all, StepCondition::AnyFailed));
    workflow(own, steps)
}

pub(super) fn workflow(own: u64, steps: Vec<NewStep>) -> Command {
    let about = WorkflowHead { form: WorkflowForm::Batch, name: "fan in".into() };
    let head = about.own_job(client(1), steps.len(), START);
    let input = Arc::new(Input::default());
    let jobs = vec![NewJob { id: id(own), id_given: false, head: Arc::new(head), input }];
    let submit = Submit { jobs, idempotency: None, queue_max: None, refuse_paused: false };
    Command::Workflow(Box::new(NewWorkflow { submit, policy: FailurePolicy::Continue, steps }))
}

async fn stored(store: &Arc<dyn Store>, own: u64) -> Workflow {
    store.record(id(own).to_string()).await.unwrap().expect("it is there")
}

async fn state(store: &Arc<dyn Store>, job: JobId) -> Option<State> {
    store.job(job).await.unwrap().map(|job| job.state)
}

/// Every job that can be claimed, begun.
async fn take_all(store: &Arc<dyn Store>, seconds: u64) -> Vec<Job> {
    claimed(ask(store, at(seconds), take(&["steps"], limits::CLAIM_JOBS_MAX)).await)
}

/// What follows is made with the end that it waited for, with the input it was given.
pub async fn a_step_is_made_by_the_end_of_the_one_before_it(fixture: &dyn Fixture) {
    let store = fixture.store();
    let chain: Vec<NewStep> = (0..40)
        .map(|n: u64| {
            let before: Vec<u32> = n.checked_sub(1).map(|before| before as u32).into_iter().collect();
            step(n, &before, StepCondition::AllSucceeded)
        })
        .collect();
    accepted(ask(&store, START, workflow(900, chain)).await);
    for n in 0..40 {
        let jobs = take_all(&store, 1).await;
        assert_eq!(jobs.len(), 1, "one after the other");
        let inputs = store.inputs(vec![jobs[0].id]).await.unwrap();
        assert_eq!(inputs[0].1.payload, format!("payload {n}").into_bytes());
        done(ask(&store, at(1), succeed(&jobs[0])).await);
    }
    assert_eq!(state(&store, id(900)).await, Some(State::Succeeded));
    snapshot(&store).await;
}

/// Two nodes end the steps of one workflow at once: every end is noted, and what follows is made once.
pub async fn two_nodes_that_end_the_steps_of_a_workflow_make_what_follows_once(fixture: &dyn Fixture) {
    const N: u64 = 24;
    let nodes = [fixture.store(), fixture.second()];
    for (round, failing) in [(0, false), (1, true)] {
        let own = 900 + round;
        accepted(ask(&nodes[0], START, fan_in(own, N)).await);
        let jobs = take_all(&nodes[0], 1).await;
        assert_eq!(jobs.len() as u64, N);
        at_once(N, |n| {
            let (store, job) = (nodes[(n % 2) as usize].clone(), jobs[n as usize].clone());
            let command = if failing && n == 5 { fail(&job) } else { succeed(&job) };
            async move {
                let batch = Batch { now: at(2), seed: round * 100 + n + 1, commands: vec![command] };
                commit_until_done(&store, batch).await
            }
        })
        .await;
        let workflow = stored(&nodes[1], own).await;
        assert_eq!(workflow.counts().over(), if failing { N as u32 } else { N as u32 + 1 });
        let follow = take_all(&nodes[1], 3).await;
        let expected = if failing { 2 } else { 1 };
        assert_eq!(follow.len(), expected, "what follows is there once");
        for job in &follow {
            done(ask(&nodes[0], at(4), succeed(job)).await);
        }
        let expected = if failing { State::Failed } else { State::Succeeded };
        assert_eq!(state(&nodes[1], id(own)).await, Some(expected));
        assert_eq!(take_all(&nodes[0], 5).await, []);
    }
    snapshot(&nodes[0]).await;
}

/// A cancel and the end of a step meet: whoever comes second sees what the first did.
pub async fn a_workflow_that_is_cancelled_while_its_steps_end_leaves_nothing(fixture: &dyn Fixture) {
    let nodes = [fixture.store(), fixture.second()];
    for round in 0..6 {
        let own = 900 + round;
        accepted(ask(&nodes[0], START, fan_in(own, 4)).await);
        let jobs = take_all(&nodes[0], 1).await;
        at_once(5, |n| {
            let store = nodes[(n % 2) as usize].clone();
            let command = match jobs.get(n as usize) {
                Some(job) => succeed(job),
                None => cancel(own),
            };
            async move {
                let batch = Batch { now: at(2), seed: round * 100 + n + 1, commands: vec![command] };
                commit_until_done(&store, batch).await
            }
        })
        .await;
        let workflow = stored(&nodes[0], own).await;
        let mut open: BTreeMap<u32, State> = BTreeMap::new();
        for index in 0..workflow.steps.len() as u32 {
            let found = state(&nodes[1], workflow.job_of(index)).await;
            open.extend(found.filter(|state| !state.is_final()).map(|state| (index, state)));
        }
        assert_eq!(state(&nodes[0], id(own)).await, Some(State::Canceled));
        assert_eq!(open, BTreeMap::new());
        assert!(workflow.steps.iter().all(|step| step.state != StepState::Waiting));
    }
}

/// A step that waits for a signal for a minute, and one behind it.
fn asking(own: u64) -> Command {
    let timeout = Duration::from_secs(60);
    let wait = Wait::Signal(SignalWait { name: "ok".into(), timeout, schema: Vec::new(), secret: 7 });
    let ask =
        NewStep { head: Arc::new(wait.job(client(1), START)), ..step(0, &[], StepCondition::AllSucceeded) };
    workflow(own, vec![ask, step(1, &[0], StepCondition::AllSucceeded)])
}

fn signal(own: u64, body: u8) -> Command {
    let workflow = Owned { job: id(own), client: Some(client(1)) };
    let to = SignalTarget::Named { workflow, name: "ok".into() };
    Command::Signal(Box::new(SendSignal { to, body: vec![body], digest: [body; 32] }))
}

/// Of signals and a timeout that meet on two nodes one ends the wait, and the step behind it is made once.
pub async fn a_wait_ends_once_whichever_node_ends_it(fixture: &dyn Fixture) {
    let nodes = [fixture.store(), fixture.second()];
    for round in 0..4 {
        let own = 900 + round;
        accepted(ask(&nodes[0], START, asking(own)).await);
        assert_eq!(take_all(&nodes[0], 1).await, [], "no worker gets a wait");
        at_once(6, |n| {
            let store = nodes[(n % 2) as usize].clone();
            let command = if n == 5 { Command::Due(10) } else { signal(own, n as u8 % 2) };
            async move {
                let batch = Batch { now: at(61), seed: round * 100 + n + 1, commands: vec![command] };
                commit_until_done(&store, batch).await
            }
        })
        .await;
        let workflow = stored(&nodes[1], own).await;
        let jobs = take_all(&nodes[1], 62).await;
        let expected = match workflow.steps[0].state {
            StepState::Succeeded => 1,
            StepState::Failed => 0,
            other => panic!("{other:?}"),
        };
        assert_eq!(jobs.len(), expected, "what follows is there once");
        let wait = nodes[0].job(workflow.job_of(0)).await.unwrap().unwrap();
        let result = nodes[0].result(wait.execution).await.unwrap();
        assert_eq!(result.is_some(), expected == 1, "the body of the signal");
        for job in &jobs {
            done(ask(&nodes[0], at(63), succeed(job)).await);
        }
        assert!(state(&nodes[1], id(own)).await.unwrap().is_final());
    }
    snapshot(&nodes[0]).await;
}

/// An early signal is kept over the step before its wait, and goes with the workflow.
pub async fn an_early_signal_is_kept_and_forgotten_with_its_workflow(fixture: &dyn Fixture) {
    let store = fixture.store();
    let Command::Workflow(mut new) = asking(900) else { unreachable!("the command that begins one") };
    new.steps.insert(0, step(2, &[], StepCondition::AllSucceeded));
    (new.steps[1].after, new.steps[2].after) = (vec![0], vec![1]);
    accepted(ask(&store, START, Command::Workflow(new)).await);
    done(ask(&store, at(1), signal(900, 3)).await);
    let signals = || store.records::<Signal>(None, String::new(), 10);
    assert_eq!(signals().await.unwrap()[0].body, [3]);
    done(ask(&store, at(2), succeed(&take_all(&store, 2).await[0])).await);
    assert_eq!(stored(&store, 900).await.steps[1].state, StepState::Succeeded);
    done(ask(&store, at(3), succeed(&take_all(&store, 3).await[0])).await);
    snapshot(&store).await;
    let later = at(4) + limits::RETENTION * 2;
    while n_due(ask(&store, later, Command::Due(100)).await) > 0 {}
    assert_eq!(signals().await.unwrap(), []);
}

/// A workflow goes with its own job, and leaves no record.
pub async fn a_forgotten_workflow_leaves_no_record(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, fan_in(900, 70)).await);
    ask(&store, at(1), cancel(900)).await;
    let parts = || store.records::<WorkflowPart>(None, String::new(), 100);
    assert_eq!(parts().await.unwrap().len(), 3);
    let later = at(2) + limits::RETENTION * 2;
    while n_due(ask(&store, later, Command::Due(100)).await) > 0 {}
    assert_eq!(parts().await.unwrap().len(), 0);
    assert!(store.record::<Workflow>(id(900).to_string()).await.unwrap().is_none());
}

/// A page of workflows looks at workflows alone: newer jobs, however many, do not use up what it may look at.
pub async fn workflows_are_listed_whatever_else_there_is(fixture: &dyn Fixture) {
    let store = fixture.store();
    let own = |n: u64, of: u128| {
        let Command::Workflow(mut new) = workflow(n, vec![step(n, &[], StepCondition::AllSucceeded)]) else {
            unreachable!("the command that begins one")
        };
        let begun = &mut new.submit.jobs[0];
        Arc::make_mut(&mut begun.head).client = client(of);
        Command::Workflow(new)
    };
    run(&store, START, [1, 2].map(|n| Command::Register(Client::new(client(n), START))).to_vec()).await;
    for (n, of) in [(1, 1), (11, 2), (21, 1)] {
        accepted(ask(&store, START, own(n, of)).await);
    }
    accepted(ask(&store, START, submit_all((100..160).map(|n| job(n, "q")).collect())).await);
    run(&store, at(1), (100..140).map(cancel).chain([cancel(21)]).collect()).await;
    let all =
        Filter { job_type: Some(WorkflowHead::JOB_TYPE.into()), limit: 4, look_max: 5, ..Filter::default() };
    for (filter, expected) in [
        (all.clone(), vec![21, 11, 1]),
        (Filter { limit: 2, ..all.clone() }, vec![21, 11]),
        (Filter { before: Some(id(11)), ..all.clone() }, vec![1]),
        (Filter { client: Some(client(1)), ..all.clone() }, vec![21, 1]),
        (Filter { client: Some(client(2)), ..all.clone() }, vec![11]),
        (Filter { states: vec![State::Canceled], ..all.clone() }, vec![21]),
        (Filter { client: Some(client(1)), states: vec![State::Canceled], ..all.clone() }, vec![21]),
        (Filter { client: Some(client(1)), states: vec![State::Running], ..all.clone() }, vec![1]),
    ] {
        let page = fixture.second().list_jobs(filter.clone()).await.unwrap();
        let found: Vec<JobId> = page.rows.iter().map(|job| job.id).collect();
        assert_eq!(found, expected.into_iter().map(id).collect::<Vec<_>>(), "{filter:?}");
        if filter.limit == 4 {
            assert_eq!(page.next, None, "all were looked at: {filter:?}");
        }
    }
    let later = at(2) + limits::RETENTION * 2;
    while n_due(ask(&store, later, Command::Due(100)).await) > 0 {}
    let left = store.jobs(Filter { limit: 9, ..all }).await.unwrap();
    assert_eq!(left.iter().map(|job| job.id).collect::<Vec<_>>(), [id(11), id(1)], "one was forgotten");
}
