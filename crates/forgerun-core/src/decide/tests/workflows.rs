//! Workflows: turns, ends, cancels and retries of steps.

use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use super::events;
use crate::catalog::Kind;
use crate::command::{Answer, Command, Refusal};
use crate::history::{EventName, JournalSubject};
use crate::limits;
use crate::record::RecordKind;
use crate::state::State;
use crate::workflow::StepCondition::{AllEnded, AnyFailed};
use crate::workflow::{BadWorkflow, FailurePolicy};
use crate::world::World;
use crate::world::build::*;
use crate::world::flows::*;

const W: u128 = 1000;

fn begun(steps: Vec<crate::command::NewStep>) -> World {
    let mut world = World::new();
    let answer = world.ask(workflow(W, FailurePolicy::Continue, steps));
    assert!(matches!(answer, Answer::Submitted { existing: false, .. }), "{answer:?}");
    world
}

fn chain() -> World {
    begun(vec![step("a", &[]), step("b", &[0]), step("c", &[1])])
}

/// Two jobs, and what follows their end.
fn batch_of_two() -> World {
    begun(vec![
        step("a", &[]),
        step("b", &[]),
        step_when("on_complete", &[0, 1], AllEnded),
        step("on_success", &[0, 1]),
        step_when("on_failure", &[0, 1], AnyFailed),
    ])
}

#[test]
fn a_chain_runs_one_step_after_the_other_and_succeeds() {
    let mut world = chain();
    assert_eq!(world.job(W).state, State::Running);
    for (n, letters) in [(0, "srw"), (1, "ssr"), (2, "sss")] {
        assert_eq!(world.start_all().len(), 1);
        world.run_step(W, n, true);
        assert_eq!(world.letters(W), letters);
    }
    let own = world.job(W);
    assert_eq!((own.state, own.tally.completed), (State::Succeeded, 3));
    let names: Vec<EventName> = own.history.events().map(|event| event.name()).collect();
    assert_eq!(names.last(), Some(&EventName::Succeeded));
    assert!(world.outcomes.contains_key(&own.execution));
}

#[test]
fn a_chain_stops_at_the_step_that_fails() {
    let mut world = chain();
    world.run_step(W, 0, true);
    world.run_step(W, 1, false);
    assert_eq!(world.letters(W), "sf-");
    assert_eq!(world.start_all(), []);
    let own = world.job(W);
    assert_eq!((own.state, own.is_mixed()), (State::Failed, true));
    let kinds: Vec<_> =
        world.items[&own.execution].iter().map(|end| end.error.as_ref().map(|e| e.kind)).collect();
    assert_eq!(kinds, [None, Some(Kind::HandlerError), Some(Kind::Cancelled)]);
}

#[test]
fn a_callback_has_its_turn_once_after_the_last_end_whatever_the_order() {
    for (first, second, expected, state) in [
        (true, true, "ssrr-", State::Succeeded),
        (true, false, "sfr-r", State::Failed),
        (false, true, "fsr-r", State::Failed),
        (false, false, "ffr-r", State::Failed),
    ] {
        let mut world = batch_of_two();
        world.run_step(W, 0, first);
        assert!(world.letters(W)[2..].starts_with('w'), "nothing follows before the last end");
        world.run_step(W, 1, second);
        assert_eq!(world.letters(W), expected);
        let jobs = world.start_all();
        assert_eq!(jobs.len(), 2);
        world.apply(jobs.iter().map(|job| end_step(job, true)).collect());
        assert_eq!(world.job(W).state, state);
        assert_eq!(world.start_all(), []);
    }
}

#[test]
fn all_steps_that_end_in_one_batch_move_the_workflow_together() {
    let mut world = batch_of_two();
    let jobs = world.start_all();
    let changes = world.apply(jobs.iter().map(|job| end_step(job, true)).collect());
    assert_eq!(world.letters(W), "ssrr-");
    assert_eq!(changes.inserted.len(), 2, "each callback is made once");
    let progress =
        events(&changes.journal).iter().filter(|event| event.name() == EventName::Progress).count();
    assert_eq!(progress, 2);
}

#[test]
fn what_must_stop_is_cancelled_and_what_follows_a_failure_still_runs() {
    let mut world = World::new();
    let steps =
        vec![step("a", &[]), step("b", &[]), step("c", &[1]), step_when("compensate", &[0, 1, 2], AnyFailed)];
    world.ask(workflow(W, FailurePolicy::Stop, steps));
    world.run_step(W, 0, false);
    assert_eq!(world.letters(W), "fc-r");
    assert_eq!(world.step_job(W, 1).state, State::Canceled);
    world.run_step(W, 3, true);
    assert_eq!(world.job(W).state, State::Failed);
}

#[test]
fn a_thousand_steps_stop_at_once_with_little_stack_and_are_told_of_once() {
    let stop = || {
        let mut world = World::new();
        let steps = (0..limits::WORKFLOW_STEPS_MAX).map(|n| step(&std::format!("{n}"), &[])).collect();
        world.ask(workflow(W, FailurePolicy::Stop, steps));
        let jobs = world.start_all();
        let changes = world.apply(vec![end_step(&jobs[0], false)]);
        assert_eq!(world.job(W).state, State::Failed);
        assert!(world.jobs.values().all(|job| job.state.is_final()));
        let counts = world.workflow(id(W)).counts();
        assert_eq!(counts.failed as usize, limits::WORKFLOW_STEPS_MAX);
        let of_workflow = changes
            .journal
            .iter()
            .filter(|entry| matches!(entry.about, JournalSubject::Job { job, .. } if job == id(W)))
            .count();
        assert_eq!(of_workflow, 1, "that it failed");
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(stop).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_cancelled_workflow_leaves_nothing_to_do() {
    let mut world =
        begun(vec![step("a", &[]), step("b", &[]), step("c", &[0]), step_when("d", &[1], AllEnded)]);
    world.run_step(W, 0, true);
    world.ask(cancel(W));
    assert_eq!(world.letters(W), "scc-");
    assert_eq!(world.job(W).state, State::Canceled);
    assert_eq!(world.start_all(), []);
    let again = world.apply(vec![cancel(W)]);
    assert!(matches!(again.answers[0], Answer::Unchanged(_)) && again.is_empty());
}

#[test]
fn a_step_that_is_cancelled_by_itself_counts_as_failed() {
    let mut world = chain();
    let first = world.step_job(W, 0).id;
    world.ask(cancel(first.as_u128()));
    assert_eq!(world.letters(W), "c--");
    assert_eq!(world.job(W).state, State::Failed);
}

#[test]
fn a_retry_runs_what_failed_and_what_was_skipped_and_nothing_else() {
    let mut world = batch_of_two();
    world.run_step(W, 0, true);
    world.run_step(W, 1, false);
    world.run_step(W, 2, true);
    world.run_step(W, 4, true);
    assert_eq!((world.letters(W).as_str(), world.job(W).state), ("sfs-s", State::Failed));
    let before = world.job(W).execution;
    let failed = world.step_job(W, 1);
    assert!(matches!(world.ask(retry(W, 77)), Answer::Done(_)));
    assert_eq!(world.letters(W), "srwww");
    assert_eq!(world.step_job(W, 1).id, failed.id, "the same job is tried again");
    world.run_step(W, 1, true);
    assert_eq!(world.letters(W), "ssrr-");
    world.run_step(W, 2, true);
    world.run_step(W, 3, true);
    let own = world.job(W);
    assert_eq!(own.state, State::Succeeded);
    assert!(world.outcomes.contains_key(&before) && world.outcomes.contains_key(&own.execution));
}

#[test]
fn a_step_whose_job_was_cancelled_gets_another_job() {
    let mut world = chain();
    let first = world.step_job(W, 0).id;
    world.ask(cancel(first.as_u128()));
    world.ask(retry(W, 77));
    assert_eq!(world.letters(W), "rww");
    assert_ne!(world.step_job(W, 0).id, first);
    for n in 0..3 {
        world.run_step(W, n, true);
    }
    assert_eq!(world.job(W).state, State::Succeeded);
}

#[test]
fn who_retries_a_workflow_asks_for_steps_that_came_too_late() {
    let in_time = |name: &str, after: &[u32]| {
        let mut step = step(name, after);
        let head = Arc::make_mut(&mut step.head);
        head.expires_at = Some(head.created_at + secs(5));
        step
    };
    let mut world = begun(vec![in_time("a", &[]), in_time("b", &[0])]);
    world.pass(secs(5)).due();
    assert_eq!((world.letters(W).as_str(), world.job(W).state), ("c-", State::Failed));
    world.ask(retry(W, 77));
    for n in [0, 1] {
        world.pass(secs(60)).due();
        world.run_step(W, n, true);
    }
    assert_eq!(world.job(W).state, State::Succeeded);
}

#[test]
fn a_failed_step_that_is_retried_by_itself_is_waited_for_again() {
    let mut world = begun(vec![step("a", &[]), step("b", &[0]), step("c", &[])]);
    world.run_step(W, 0, false);
    assert_eq!(world.letters(W), "f-r");
    let step = world.step_job(W, 0).id;
    world.ask(revive_any(step.as_u128(), 78));
    assert_eq!(world.letters(W), "rwr");
    for n in [0, 1, 2] {
        world.run_step(W, n, true);
    }
    assert_eq!(world.job(W).state, State::Succeeded);
}

#[test]
fn what_an_ended_step_keeps_from_running_does_not_wait_for_a_step_before_it_that_is_retried() {
    let long = step("long", &[]);
    let mut world = begun(vec![step("a", &[]), step_when("p", &[0], AllEnded), step("e", &[1]), long]);
    world.run_step(W, 0, false);
    world.run_step(W, 1, false);
    assert_eq!(world.letters(W), "ff-r");
    world.ask(revive_any(world.step_job(W, 0).id.as_u128(), 78));
    assert_eq!(world.letters(W), "rf-r");
    world.run_step(W, 0, true);
    world.run_step(W, 3, true);
    assert_eq!((world.letters(W).as_str(), world.job(W).state), ("sf-s", State::Failed));
}

#[test]
fn a_workflow_with_all_steps_and_edges_it_may_have_is_retried() {
    // Ten layers of a hundred steps, each of which waits for ten of the layer before.
    let n_steps = limits::WORKFLOW_STEPS_MAX as u32;
    let after = |n: u32| (0..10).filter_map(|k| (n - n % 10 + k).checked_sub(100)).collect::<Vec<u32>>();
    let mut world =
        begun((0..n_steps).map(|n| step_when(&std::format!("{n}"), &after(n), AllEnded)).collect());
    while world.job(W).state == State::Running {
        let jobs = world.start_all();
        world.apply(jobs.iter().map(|job| end_step(job, false)).collect());
    }
    assert_eq!(world.workflow(id(W)).counts().failed, n_steps);
    world.ask(retry(W, 77));
    assert_eq!(world.workflow(id(W)).counts().over(), 0);
    assert_eq!(world.start_all().len(), 100);
}

#[test]
fn no_worker_can_speak_for_a_workflow() {
    let mut world = chain();
    for command in
        [start(W, 1), succeed(W, 1), fail(W, 1), hand_back(W, 1), extend(W, 1, None), conclude(W, 1, "ccc")]
    {
        assert_eq!(world.ask(command), Answer::Refused(Refusal::LeaseLost));
    }
}

#[test]
fn a_workflow_that_is_none_is_refused_and_leaves_nothing() {
    let many = |n: usize| (0..n).map(|n| step(&std::format!("{n}"), &[])).collect::<Vec<_>>();
    let unique = || {
        let mut new = step("a", &[]);
        let head = std::sync::Arc::make_mut(&mut new.head);
        head.unique = Some(crate::job::Unique {
            key: [1; 32],
            facets: crate::job::Unique::UNFINISHED,
            until: None,
            on_conflict: crate::job::Conflict::Reject,
        });
        new
    };
    for (steps, why) in [
        (vec![], BadWorkflow::Empty),
        (many(limits::WORKFLOW_STEPS_MAX + 1), BadWorkflow::TooManySteps),
        (vec![step("a", &[1])], BadWorkflow::BadEdge(0)),
        (vec![step("a", &[]), step("b", &[0, 0])], BadWorkflow::BadEdge(1)),
        (vec![step("a", &[0])], BadWorkflow::Cycle(0)),
        (vec![step("x", &[]), step("a", &[2]), step("b", &[1])], BadWorkflow::Cycle(1)),
        (vec![unique()], BadWorkflow::UniqueStep(0)),
    ] {
        let mut world = World::new();
        let changes = world.apply(vec![workflow(W, FailurePolicy::Continue, steps)]);
        assert_eq!(changes.answers, [Answer::Refused(Refusal::BadWorkflow(why))]);
        assert!(changes.is_empty());
    }
}

#[test]
fn the_bound_of_a_queue_counts_for_what_begins_at_once() {
    let bounded = |steps| {
        let mut command = workflow(W, FailurePolicy::Continue, steps);
        if let Command::Workflow(new) = &mut command {
            new.submit.queue_max = Some(2);
        }
        World::new().apply(vec![command])
    };
    let wide = bounded(vec![step("a", &[]), step("b", &[]), step("c", &[])]);
    assert!(matches!(wide.answers[0], Answer::Refused(Refusal::QueueFull { max: 2, .. })));
    assert!(wide.is_empty());
    let long = bounded(vec![step("a", &[]), step("b", &[0]), step("c", &[1])]);
    assert!(matches!(long.answers[0], Answer::Submitted { .. }));
}

#[test]
fn a_thousand_steps_are_one_command_and_their_end_is_found_at_once() {
    let mut steps: Vec<_> =
        (0..limits::WORKFLOW_STEPS_MAX as u32 - 1).map(|n| step(&std::format!("{n}"), &[])).collect();
    let all: Vec<u32> = (0..steps.len() as u32).collect();
    steps.push(step_when("last", &all, AllEnded));
    let mut world = begun(steps);
    let jobs = world.start_all();
    assert_eq!(jobs.len(), 999);
    world.apply(jobs.iter().map(|job| end_step(job, true)).collect());
    world.run_step(W, 999, true);
    assert_eq!(world.job(W).state, State::Succeeded);
}

#[test]
fn jobs_of_steps_stay_while_the_workflow_runs_and_everything_goes_with_it() {
    let mut second = step("b", &[]);
    std::sync::Arc::make_mut(&mut second.head).hold = true;
    let mut world = begun(vec![step("a", &[]), second]);
    world.run_step(W, 0, true);
    world.pass(limits::RETENTION + secs(1)).due();
    assert_eq!(world.step_job(W, 0).state, State::Succeeded, "it is needed as long as the workflow runs");
    world.ask(activate(world.step_job(W, 1).id.as_u128()));
    world.run_step(W, 1, true);
    world.pass(limits::RETENTION + secs(1));
    while world.due() > 0 {}
    assert!(world.jobs.is_empty());
    let left = |kind: &RecordKind| matches!(kind, RecordKind::Workflow | RecordKind::WorkflowPart);
    assert!(!world.records.keys().any(|key| left(&key.kind)));
}
