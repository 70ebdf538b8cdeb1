//! Workflows that are undone: when, in which order, and what a retry does afterwards.

use std::string::String;
use std::vec;
use std::vec::Vec;

use crate::command::{Answer, Cancel, Command, NewStep, Refusal, Retry};
use crate::job::Job;
use crate::state::{Cause, State};
use crate::workflow::FailurePolicy::{self, Compensate, Continue, Stop};
use crate::workflow::StepCondition::AnyFailed;
use crate::world::World;
use crate::world::build::*;
use crate::world::flows::*;

const W: u128 = 1000;

fn begun(policy: FailurePolicy, steps: Vec<NewStep>) -> World {
    let mut world = World::new();
    let answer = world.ask(workflow(W, policy, steps));
    assert!(matches!(answer, Answer::Submitted { existing: false, .. }), "{answer:?}");
    world
}

/// Two steps that can be undone, and one behind both. Their compensations are at 3 and 4.
fn two_and_one(policy: FailurePolicy) -> World {
    let steps = vec![undoable(step("a", &[])), undoable(step("b", &[])), step("c", &[0, 1])];
    begun(policy, steps)
}

/// The same, after `c` has failed. `b` succeeded first.
fn failed(policy: FailurePolicy) -> World {
    let mut world = two_and_one(policy);
    for (index, well) in [(1, true), (0, true), (2, false)] {
        world.run_step(W, index, well);
    }
    world
}

fn cancel_now() -> Command {
    match cancel(W) {
        Command::Cancel(cancel) => Command::Cancel(Cancel { compensate: false, ..cancel }),
        _ => unreachable!("it is a cancel"),
    }
}

fn retry_from(step: u32) -> Command {
    match retry(W, 77) {
        Command::Retry(retry) => Command::Retry(Retry { from: Some(step), ..retry }),
        _ => unreachable!("it is a retry"),
    }
}

fn stands(world: &World) -> (String, State) {
    (world.letters(W), world.job(W).state)
}

#[test]
fn what_succeeded_is_undone_one_by_one_and_the_newest_success_first() {
    let mut world = failed(Compensate);
    assert_eq!(stands(&world), ("ssfrw".into(), State::Running));
    let claimed: Vec<Job> = world.start_all();
    assert_eq!(claimed.len(), 1, "one after the other");
    assert_eq!(claimed[0].id, world.step_job(W, 3).id);
    world.run_step(W, 3, true);
    assert_eq!(stands(&world), ("ssfsr".into(), State::Running));
    world.run_step(W, 4, true);
    assert_eq!(stands(&world), ("ssfss".into(), State::Failed));
    let own = world.job(W);
    assert_eq!((own.tally.completed, own.tally.failed), (2, 1), "compensations are no steps");
    assert_eq!(world.items[&own.execution].len(), 3);
}

#[test]
fn only_the_policy_that_says_so_undoes_a_failure() {
    for policy in [Continue, Stop] {
        let world = failed(policy);
        assert_eq!(stands(&world), ("ssf--".into(), State::Failed));
    }
    let mut world = begun(Compensate, vec![undoable(step("a", &[])), step("b", &[0])]);
    world.run_step(W, 0, false);
    assert_eq!(stands(&world), ("f--".into(), State::Failed), "nothing succeeded");
    let mut world = two_and_one(Compensate);
    for index in 0..3 {
        world.run_step(W, index, true);
    }
    assert_eq!(stands(&world), ("sss--".into(), State::Succeeded), "nothing failed");
}

#[test]
fn what_a_worker_holds_ends_before_anything_is_undone_and_what_none_holds_is_cancelled() {
    let steps = vec![undoable(step("a", &[])), undoable(step("b", &[])), step("c", &[1])];
    let mut world = begun(Compensate, steps);
    world.start_all();
    world.run_step(W, 0, false);
    assert_eq!(stands(&world), ("fr---".into(), State::Running));
    world.run_step(W, 1, true);
    assert_eq!(stands(&world), ("fs--r".into(), State::Running));

    let mut world = begun(Compensate, vec![step("a", &[]), step("b", &[])]);
    world.ask(cancel(world.step_job(W, 0).id.as_u128()));
    assert_eq!(stands(&world), ("cc".into(), State::Failed), "nobody had begun it");
}

#[test]
fn steps_that_follow_a_failure_have_their_turn_before_anything_is_undone() {
    let steps = vec![undoable(step("a", &[])), step("b", &[0]), step_when("clean", &[1], AnyFailed)];
    let mut world = begun(Compensate, steps);
    world.run_step(W, 0, true);
    world.run_step(W, 1, false);
    assert_eq!(stands(&world), ("sfr-".into(), State::Running));
    world.run_step(W, 2, true);
    assert_eq!(stands(&world), ("sfsr".into(), State::Running));
    world.run_step(W, 3, true);
    assert_eq!(stands(&world), ("sfss".into(), State::Failed));
}

#[test]
fn a_compensation_that_fails_is_named_and_the_others_still_run() {
    let mut world = failed(Compensate);
    world.run_step(W, 3, false);
    assert_eq!(stands(&world), ("ssffr".into(), State::Running));
    world.run_step(W, 4, true);
    assert_eq!(stands(&world), ("ssffs".into(), State::Failed));
    let message = &world.job(W).last_error().unwrap().message;
    assert!(message.ends_with("Compensation failed for: a."), "{message}");
}

#[test]
fn the_outcome_names_ten_of_the_compensations_that_failed() {
    let mut steps: Vec<NewStep> = (0..12).map(|n| undoable(step(&std::format!("s{n}"), &[]))).collect();
    steps.push(step("bad", &(0..12).collect::<Vec<u32>>()));
    let mut world = begun(Compensate, steps);
    for index in 0..12 {
        world.run_step(W, index, true);
    }
    world.run_step(W, 12, false);
    while world.job(W).state == State::Running {
        let jobs = world.start_all();
        world.apply(jobs.iter().map(|job| end_step(job, false)).collect());
    }
    let message = &world.job(W).last_error().unwrap().message;
    assert!(message.contains("s0, s1,") && message.ends_with("s9 and 2 more."), "{message}");
}

#[test]
fn a_failed_compensation_that_is_retried_by_itself_is_waited_for_again() {
    let mut world = failed(Compensate);
    world.run_step(W, 3, false);
    world.ask(revive_any(world.step_job(W, 3).id.as_u128(), 78));
    assert_eq!(stands(&world), ("ssfrr".into(), State::Running));
    world.run_step(W, 4, true);
    world.run_step(W, 3, true);
    assert_eq!(stands(&world), ("ssfss".into(), State::Failed));
    assert!(!world.job(W).last_error().unwrap().message.contains("Compensation"));
}

#[test]
fn a_failed_step_that_is_retried_by_itself_does_not_run_on_while_others_are_undone() {
    let mut world = failed(Compensate);
    world.ask(revive_any(world.step_job(W, 2).id.as_u128(), 78));
    assert_eq!(world.letters(W), "ssfrw");
    world.run_step(W, 2, true);
    assert_eq!(stands(&world), ("ssfrw".into(), State::Running));
}

#[test]
fn a_cancelled_workflow_is_undone_first_whatever_its_policy() {
    for policy in [Continue, Stop, Compensate] {
        let mut world = two_and_one(policy);
        world.run_step(W, 0, true);
        let answer = world.ask(cancel(W));
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
        assert_eq!(stands(&world), ("sc-r-".into(), State::Running), "{policy:?}");
        let again = world.apply(vec![cancel(W)]);
        assert!(matches!(again.answers[0], Answer::Unchanged(_)) && again.is_empty());
        world.run_step(W, 3, true);
        assert_eq!(stands(&world), ("sc-s-".into(), State::Canceled));
        let own = world.job(W);
        assert_eq!(own.cancel.as_ref().unwrap().reason, "changed my mind");
        let moved = own.history.events().last().unwrap();
        assert!(std::format!("{:?}", moved.kind).contains(&std::format!("{:?}", Cause::CancelByUser)));
        assert!(world.outcomes.contains_key(&own.execution));
        assert_eq!(world.start_all(), []);
    }
}

#[test]
fn a_cancel_that_cannot_undo_everything_says_so() {
    let mut world = two_and_one(Continue);
    world.run_step(W, 0, true);
    world.ask(cancel(W));
    world.run_step(W, 3, false);
    assert_eq!(stands(&world), ("sc-f-".into(), State::Canceled));
    let reason = &world.job(W).cancel.as_ref().unwrap().reason;
    assert_eq!(reason, "changed my mind. Compensation failed for: a.");
}

#[test]
fn a_cancel_ends_at_once_if_nothing_is_to_be_undone_or_it_says_so() {
    let mut world = two_and_one(Continue);
    world.ask(cancel(W));
    assert_eq!(stands(&world), ("cc---".into(), State::Canceled), "nothing succeeded");

    let mut world = two_and_one(Continue);
    world.run_step(W, 0, true);
    world.ask(cancel_now());
    assert_eq!(stands(&world), ("sc---".into(), State::Canceled));

    let mut world = failed(Compensate);
    world.ask(cancel(W));
    assert_eq!(stands(&world), ("ssfrw".into(), State::Running), "what is being undone goes on");
    world.ask(cancel_now());
    assert_eq!(stands(&world), ("ssfc-".into(), State::Canceled), "until somebody stops it");
    assert_eq!(world.step_job(W, 3).state, State::Canceled);
    assert_eq!(world.start_all(), []);
}

#[test]
fn a_cancel_of_a_workflow_that_is_being_undone_ends_it_as_cancelled() {
    let mut world = failed(Compensate);
    assert!(matches!(world.ask(cancel(W)), Answer::Done(_)));
    world.run_step(W, 3, true);
    world.run_step(W, 4, true);
    assert_eq!(stands(&world), ("ssfss".into(), State::Canceled));
}

#[test]
fn a_retry_begins_anew_after_compensation_and_goes_on_without() {
    let mut world = failed(Stop);
    world.ask(retry(W, 77));
    assert_eq!(world.letters(W), "ssr--");

    let mut world = failed(Compensate);
    world.run_step(W, 3, true);
    world.run_step(W, 4, false);
    let before: Vec<_> = (0..5).map(|index| world.step_job(W, index).id).collect();
    world.ask(retry(W, 77));
    assert_eq!(stands(&world), ("rrw--".into(), State::Running));
    for (index, well) in [(0, true), (1, true), (2, false), (4, true), (3, true)] {
        world.run_step(W, index, well);
        assert_ne!(world.step_job(W, index).id, before[index as usize], "another job");
    }
    assert_eq!(stands(&world), ("ssfss".into(), State::Failed));
    assert!(!world.job(W).last_error().unwrap().message.contains("Compensation"));
}

#[test]
fn a_retry_from_a_step_runs_it_and_what_depends_on_it_and_nothing_else() {
    // a ─► b ─► c, and d beside them.
    let graph = || vec![step("a", &[]), step("b", &[0]), step("c", &[1]), step("d", &[])];
    let ended = |ends: [bool; 4]| {
        let mut world = begun(Continue, graph());
        for (index, well) in (0..).zip(ends) {
            world.run_step(W, index, well);
        }
        world
    };
    for (ends, from, expected) in [
        ([true, true, true, false], 0, "rwwf"),
        ([true, true, true, false], 1, "srwf"),
        ([true, true, true, false], 2, "ssrf"),
        ([true, true, true, false], 3, "sssr"),
        ([true, true, false, true], 1, "srws"),
        ([true, true, false, true], 2, "ssrs"),
    ] {
        let mut world = ended(ends);
        let answer = world.ask(retry_from(from));
        assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
        assert_eq!(world.letters(W), expected, "{ends:?} from {from}");
    }
    let mut world = ended([true, true, true, false]);
    world.ask(retry_from(1));
    world.run_step(W, 1, true);
    world.run_step(W, 2, true);
    assert_eq!(stands(&world), ("sssf".into(), State::Failed), "what failed beside it stays");
    assert_eq!(world.items[&world.job(W).execution].iter().filter(|end| end.error.is_some()).count(), 1);
}

#[test]
fn a_retry_from_a_step_that_cannot_run_is_refused_and_changes_nothing() {
    let mut world =
        begun(Continue, vec![undoable(step("a", &[])), step("b", &[0]), step_when("c", &[1], AnyFailed)]);
    world.run_step(W, 0, false);
    world.run_step(W, 2, true);
    for step in [1, 3, 9] {
        let changes = world.apply(vec![retry_from(step)]);
        assert_eq!(changes.answers, [Answer::Refused(Refusal::StepNotReady)], "{step}");
        assert!(changes.is_empty());
    }
    assert_eq!(stands(&world), ("f-s-".into(), State::Failed));
}

#[test]
fn what_a_retry_from_a_step_leaves_undone_is_not_undone_twice() {
    let mut world = failed(Compensate);
    world.run_step(W, 3, true);
    world.run_step(W, 4, false);
    world.ask(retry_from(2));
    assert_eq!(world.letters(W), "ssrs-", "one was undone, the other was not");
    world.run_step(W, 2, false);
    assert_eq!(world.letters(W), "ssfsr");
    world.run_step(W, 4, true);
    assert_eq!(stands(&world), ("ssfss".into(), State::Failed));
}
