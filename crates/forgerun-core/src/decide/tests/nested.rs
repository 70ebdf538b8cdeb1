//! Workflows that are steps of others.

use std::format;
use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::command::{AddSteps, Answer, Cancel, Command, HeldJob, LeaseProof, NewStep, Refusal, Retry};
use crate::id::JobId;
use crate::job::Job;
use crate::limits;
use crate::record::RecordKind;
use crate::state::State;
use crate::workflow::BadWorkflow;
use crate::workflow::FailurePolicy::{Compensate, Continue, Stop};
use crate::world::World;
use crate::world::build::*;
use crate::world::flows::*;

const W: u128 = 1000;

fn begun(policy: crate::workflow::FailurePolicy, steps: Vec<NewStep>) -> World {
    let mut world = World::new();
    let answer = world.ask(workflow(W, policy, steps));
    assert!(matches!(answer, Answer::Submitted { existing: false, .. }), "{answer:?}");
    world
}

/// The id of the workflow that is a step of another.
fn inner(world: &World, own: u128, index: u32) -> u128 {
    world.step_job(own, index).id.as_u128()
}

/// `a`, then a workflow of `b` and `c` one after the other, then `d`.
fn around(policy: crate::workflow::FailurePolicy) -> World {
    let within = vec![undoable(step("b", &[])), undoable(step("c", &[0]))];
    let steps = vec![undoable(step("a", &[])), nested("n", &[0], policy, within), step("d", &[1])];
    let mut world = begun(policy, steps);
    world.run_step(W, 0, true);
    world
}

#[test]
fn a_workflow_that_is_a_step_runs_in_its_turn_and_its_end_moves_the_one_around_it() {
    let mut world = around(Continue);
    let n = inner(&world, W, 1);
    assert_eq!((world.letters(W), world.letters(n)), ("srw-".into(), "rw--".into()));
    assert_eq!(world.job(n).state, State::Running);
    world.run_step(n, 0, true);
    world.run_step(n, 1, true);
    assert_eq!((world.job(n).state, world.letters(W)), (State::Succeeded, "ssr-".into()));
    world.run_step(W, 2, true);
    assert_eq!(world.job(W).state, State::Succeeded);
}

#[test]
fn a_failure_within_fails_the_step_and_a_retry_of_the_whole_retries_what_failed_within() {
    let mut world = around(Continue);
    let n = inner(&world, W, 1);
    world.run_step(n, 0, true);
    world.run_step(n, 1, false);
    assert_eq!((world.job(n).state, world.job(W).state), (State::Failed, State::Failed));
    assert_eq!(world.letters(W), "sf--");
    world.ask(retry(W, 70));
    assert_eq!((world.letters(W), world.letters(n)), ("srw-".into(), "sr--".into()));
    world.run_step(n, 1, true);
    world.run_step(W, 2, true);
    assert_eq!((world.job(n).state, world.job(W).state), (State::Succeeded, State::Succeeded));
}

#[test]
fn a_retry_of_the_inner_workflow_is_waited_for_by_the_one_around_it() {
    let steps = vec![nested("n", &[], Continue, vec![step("a", &[])]), step("long", &[]), step("c", &[0])];
    let mut world = begun(Continue, steps);
    let n = inner(&world, W, 0);
    world.run_step(n, 0, false);
    assert_eq!(world.letters(W), "fr-");
    world.ask(retry(n, 71));
    assert_eq!((world.letters(W), world.letters(n)), ("rrw".into(), "r".into()));
    world.run_step(n, 0, true);
    assert_eq!(world.letters(W), "srr");
}

#[test]
fn a_cancel_that_undoes_nothing_ends_every_level_at_once() {
    let deep = nested("n3", &[], Continue, vec![step("x", &[])]);
    let deep = nested("n2", &[], Continue, vec![deep]);
    let mut world = begun(Continue, vec![nested("n1", &[], Continue, vec![deep]), step("b", &[0])]);
    world.start_all();
    world.ask(cancel(W));
    assert!(world.jobs.values().all(|job| job.state == State::Canceled), "{:?}", world.jobs);
    assert_eq!(world.letters(W), "c-");
}

#[test]
fn a_cancel_undoes_what_succeeded_within_before_what_is_around_it() {
    let mut world = around(Continue);
    let n = inner(&world, W, 1);
    world.run_step(n, 0, true);
    world.ask(cancel(W));
    assert_eq!((world.job(W).state, world.job(n).state), (State::Running, State::Running));
    assert_eq!(world.letters(n), "scr-", "the compensation of b runs");
    assert_eq!(world.letters(W), "sr-w", "that of a waits for it");
    world.run_step(n, 2, true);
    assert_eq!((world.job(n).state, world.letters(W)), (State::Canceled, "sc-r".into()));
    world.run_step(W, 3, true);
    assert_eq!((world.job(W).state, world.letters(W)), (State::Canceled, "sc-s".into()));
}

#[test]
fn a_cancel_without_compensation_stops_what_is_being_undone_within() {
    let mut world = around(Continue);
    let n = inner(&world, W, 1);
    world.run_step(n, 0, true);
    world.ask(cancel(W));
    let Command::Cancel(now) = cancel(W) else { unreachable!("it is a cancel") };
    world.ask(Command::Cancel(Cancel { compensate: false, ..now }));
    assert_eq!((world.job(W).state, world.job(n).state), (State::Canceled, State::Canceled));
    assert!(world.jobs.values().all(|job| job.state.is_final()), "{:?}", world.jobs);
}

#[test]
fn a_workflow_that_succeeded_is_undone_as_a_whole_the_newest_success_first() {
    let within = vec![undoable(step("b", &[])), undoable(step("c", &[0])), undoable(step("e", &[]))];
    let mut undo = nested("n", &[], Compensate, within);
    undo.compensation = Some(crate::workflow::StepDefinition {
        head: step("undo", &[]).head,
        input: std::sync::Arc::default(),
        work: crate::workflow::StepWork::Undo(None),
    });
    let mut world = begun(Compensate, vec![undo, step("d", &[0])]);
    let n = inner(&world, W, 0);
    for index in [0, 2, 1] {
        world.run_step(n, index, true);
    }
    world.run_step(W, 1, false);
    assert_eq!((world.letters(W), world.job(W).state), ("sfr".into(), State::Running));
    let undoing = inner(&world, W, 2);
    let names: Vec<String> = world.workflow(id(undoing)).steps.iter().map(|step| step.id.clone()).collect();
    assert_eq!(names, ["c", "e", "b"]);
    for index in 0..3 {
        assert_eq!(world.start_all().len(), 1, "one after the other");
        world.run_step(undoing, index, true);
    }
    assert_eq!((world.letters(W), world.job(W).state), ("sfs".into(), State::Failed));
}

#[test]
fn a_failure_that_stops_the_workflow_cancels_what_runs_within_its_steps() {
    let steps = vec![step("a", &[]), nested("n", &[], Stop, vec![step("b", &[]), step("c", &[0])])];
    let mut world = begun(Stop, steps);
    let n = inner(&world, W, 1);
    world.run_step(W, 0, false);
    assert_eq!((world.letters(W), world.letters(n)), ("fc".into(), "c-".into()));
    assert!(world.jobs.values().all(|job| job.state.is_final()));
}

#[test]
fn levels_and_totals_have_bounds() {
    let level = |depth: usize| {
        (0..depth).fold(step("x", &[]), |within, n| nested(&format!("{n}"), &[], Continue, vec![within]))
    };
    let refused = |steps: Vec<NewStep>| {
        let mut world = World::new();
        let changes = world.apply(vec![workflow(W, Continue, steps)]);
        match &changes.answers[0] {
            Answer::Refused(Refusal::BadWorkflow(why)) => Some(*why),
            _ => None,
        }
    };
    assert_eq!(refused(vec![level(limits::WORKFLOW_DEPTH_MAX)]), None);
    assert_eq!(refused(vec![level(limits::WORKFLOW_DEPTH_MAX + 1)]), Some(BadWorkflow::TooDeep));
    assert_eq!(refused(vec![nested("n", &[], Continue, vec![])]), Some(BadWorkflow::Empty));
    let hundred = |n: u32| (0..n).map(|n| step(&format!("{n}"), &[])).collect::<Vec<_>>();
    let many = (0..11).map(|n| nested(&format!("n{n}"), &[], Continue, hundred(1000))).collect();
    assert_eq!(refused(many), Some(BadWorkflow::TooManySteps));
    let no_dependency = NewStep { after: vec![], ..for_each("f", 0, 5) };
    assert_eq!(refused(vec![step("a", &[]), no_dependency]), Some(BadWorkflow::BadSource(1)));
    let wide = for_each("f", 0, limits::PARALLEL_MAX + 1);
    assert_eq!(refused(vec![step("a", &[]), wide]), Some(BadWorkflow::TooParallel));
}

#[test]
fn everything_goes_with_its_workflow_and_nothing_before() {
    let mut held = step("held", &[]);
    std::sync::Arc::make_mut(&mut held.head).hold = true;
    let mut world = begun(Continue, vec![nested("n", &[], Continue, vec![step("a", &[])]), held]);
    let n = inner(&world, W, 0);
    world.run_step(n, 0, true);
    world.pass(limits::RETENTION + secs(1)).due();
    assert_eq!(world.step_job(n, 0).state, State::Succeeded, "the workflow around it may need its result");
    world.ask(activate(world.step_job(W, 1).id.as_u128()));
    world.run_step(W, 1, true);
    world.pass(limits::RETENTION + secs(3600));
    while world.due() > 0 {}
    world.pass(limits::RETENTION + secs(3600));
    while world.due() > 0 {}
    assert!(world.jobs.is_empty());
    let left = |kind: &RecordKind| matches!(kind, RecordKind::Workflow | RecordKind::WorkflowPart);
    assert!(!world.records.keys().any(|key| left(&key.kind)));
}

fn add(job: &Job, own: JobId, n_known: u32, steps: Vec<NewStep>) -> Command {
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: Some(CLIENT) };
    Command::AddSteps(std::boxed::Box::new(AddSteps { workflow: own, held, n_known, steps }))
}

#[test]
fn a_running_step_adds_steps_that_may_depend_on_it() {
    let mut world = begun(Continue, vec![undoable(step("a", &[])), step("b", &[0])]);
    world.start_all();
    let a = world.step_job(W, 0);
    // Position 3 is the first that the workflow does not have: 2 is a compensation.
    let steps = vec![step("c", &[0]), undoable(step("d", &[3])), step("now", &[])];
    let answer = world.ask(add(&a, id(W), 3, steps));
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    assert_eq!(world.letters(W), "rw-wwr-");
    assert_eq!(world.job(W).steps_added, 3);
    world.run_step(W, 0, true);
    assert_eq!(world.letters(W), "sr-rwr-");
    for index in [1, 3, 5, 4] {
        world.run_step(W, index, true);
    }
    assert_eq!((world.letters(W), world.job(W).state), ("ss-sss-".into(), State::Succeeded));
    assert_eq!(world.items[&world.job(W).execution].len(), 5);
}

#[test]
fn steps_are_added_by_the_holder_of_a_step_and_under_new_names_only() {
    let mut world = begun(Continue, vec![step("a", &[]), step("b", &[])]);
    world.start_all();
    let (a, b) = (world.step_job(W, 0), world.step_job(W, 1));
    let other = begun(Continue, vec![step("x", &[])]);
    let stranger = Job { id: other.step_job(W, 0).id, ..a.clone() };
    let stale = Job { fence: a.fence + 1, ..a.clone() };
    let refusal =
        |world: &mut World, job: &Job, own: u128, steps| match world.ask(add(job, id(own), 2, steps)) {
            Answer::Refused(refusal) => refusal,
            answer => panic!("{answer:?}"),
        };
    let one = |name: &str| vec![step(name, &[])];
    assert_eq!(refusal(&mut world, &stale, W, one("c")), Refusal::LeaseLost);
    assert_eq!(refusal(&mut world, &a, 999, one("c")), Refusal::NotItsStep);
    assert_eq!(
        refusal(&mut world, &a, W, vec![step("c", &[]), step("b", &[])]),
        Refusal::StepExists { index: 1 }
    );
    assert_eq!(
        refusal(&mut world, &a, W, vec![step("c", &[]), step("c", &[])]),
        Refusal::StepExists { index: 1 }
    );
    let bad = refusal(&mut world, &a, W, vec![step("c", &[9])]);
    assert!(matches!(bad, Refusal::BadWorkflow(BadWorkflow::BadEdge(_))), "{bad:?}");
    let many = (0..999).map(|n| step(&format!("{n}"), &[])).collect();
    assert_eq!(refusal(&mut world, &a, W, many), Refusal::BadWorkflow(BadWorkflow::TooManySteps));
    assert_eq!(world.letters(W), "rr", "nothing was added");
    world.run_step(W, 0, true);
    assert_eq!(refusal(&mut world, &a, W, one("c")), Refusal::AlreadyCompleted(State::Succeeded));
    let answer = world.ask(add(&b, id(W), 2, one("c")));
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    // A position of a caller that read the workflow before `c` was added.
    world.ask(add(&b, id(W), 2, vec![step("d", &[]), step("e", &[2])]));
    assert_eq!(world.workflow(id(W)).steps[4].after, [3]);
    drop(stranger);
}

#[test]
fn a_retry_from_a_step_within_begins_there() {
    let mut world = around(Continue);
    let n = inner(&world, W, 1);
    world.run_step(n, 0, true);
    world.run_step(n, 1, false);
    let Command::Retry(whole) = retry(n, 72) else { unreachable!("it is a retry") };
    let answer = world.ask(Command::Retry(Retry { from: Some(0), ..whole }));
    assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
    assert_eq!(world.letters(n), "rw--");
}
