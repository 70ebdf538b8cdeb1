//! Waiting steps, signals, and deadlines of workflows.

use std::format;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use crate::catalog::Kind;
use crate::command::{Answer, Command, Content, NewStep, Owned, Refusal, Retry, SignalTarget};
use crate::id::{ClientId, JobId};
use crate::limits;
use crate::record::RecordKind;
use crate::state::State;
use crate::time::Time;
use crate::workflow::StepCondition::AnyFailed;
use crate::workflow::{BadWorkflow, FailurePolicy, Signal, Wait};
use crate::world::World;
use crate::world::build::*;
use crate::world::flows::*;

const W: u128 = 1000;

/// A wait begins a few events after its job was made, each a microsecond later than the last.
const EVENTS: Duration = Duration::from_millis(1);

fn begun(steps: Vec<NewStep>) -> World {
    let mut world = World::new();
    let answer = world.ask(workflow(W, FailurePolicy::Continue, steps));
    assert!(matches!(answer, Answer::Submitted { existing: false, .. }), "{answer:?}");
    world
}

/// A job, a wait for `approved`, and a job behind it.
fn order() -> World {
    begun(vec![step("a", &[]), wait_step("ask", &[0], wait_for_signal("approved")), step("c", &[1])])
}

/// The same, once the wait has begun.
fn asked() -> World {
    let mut world = order();
    world.run_step(W, 0, true);
    assert_eq!(world.letters(W), "srw");
    world
}

fn refused(answer: Answer) -> Refusal {
    match answer {
        Answer::Refused(refusal) => refusal,
        answer => panic!("{answer:?}"),
    }
}

fn result(world: &World, index: u32) -> Vec<u8> {
    match &world.results[&world.step_job(W, index).execution].content {
        Content::Inline(bytes) => bytes.clone(),
        content => panic!("{content:?}"),
    }
}

#[test]
fn a_timer_ends_at_its_moment_and_no_worker_gets_it() {
    let at = World::new().now + secs(90);
    for (wait, span) in [(Wait::For(secs(60)), 60), (Wait::Until(at), 90)] {
        let mut world = begun(vec![wait_step("pause", &[], wait), step("b", &[0])]);
        assert_eq!(world.letters(W), "rw");
        assert_eq!(world.start_all(), []);
        world.pass(secs(span - 1));
        assert_eq!(world.due(), 0);
        world.pass(secs(1) + EVENTS);
        assert_eq!(world.due(), 1);
        assert_eq!(world.letters(W), "sr");
        assert_eq!(world.step_job(W, 0).result, None, "its result is null");
        world.run_step(W, 1, true);
        assert_eq!(world.job(W).state, State::Succeeded);
    }
}

#[test]
fn a_timer_whose_moment_has_passed_ends_at_once() {
    let mut world = begun(vec![wait_step("pause", &[], Wait::Until(Time::ZERO))]);
    assert_eq!(world.due(), 1);
    assert_eq!(world.job(W).state, State::Succeeded);
}

#[test]
fn a_signal_ends_its_wait_and_is_the_result_of_the_step() {
    let mut world = asked();
    assert!(matches!(world.ask(signal(W, "approved", b'1')), Answer::Done(own) if own.id == id(W)));
    assert_eq!(world.letters(W), "ssr");
    assert_eq!(result(&world, 1), b"1");
    assert_eq!(world.step_job(W, 1).state, State::Succeeded);
}

#[test]
fn a_token_sends_the_signal_without_the_workflow() {
    let mut world = asked();
    let token = token(&world.step_job(W, 1));
    world.ask(send(SignalTarget::Token(token), b'1'));
    assert_eq!(world.letters(W), "ssr");
    assert!(matches!(world.ask(send(SignalTarget::Token(token), b'1')), Answer::Unchanged(_)));
    assert_eq!(refused(world.ask(send(SignalTarget::Token(token), b'2'))), Refusal::SignalTaken);
}

#[test]
fn a_wrong_token_opens_nothing() {
    let mut world = asked();
    let right = format!("{}", token(&world.step_job(W, 1)));
    let last = if right.ends_with('0') { '1' } else { '0' };
    let wrong = format!("{}{last}", &right[..63]).parse().unwrap();
    assert_eq!(refused(world.ask(send(SignalTarget::Token(wrong), b'1'))), Refusal::SignalUnknown);
    let of_work = format!("{:032x}{:032x}", world.step_job(W, 0).id.as_u128(), 77).parse().unwrap();
    assert_eq!(refused(world.ask(send(SignalTarget::Token(of_work), b'1'))), Refusal::SignalUnknown);
    assert_eq!(world.letters(W), "srw");
}

#[test]
fn a_signal_that_repeats_the_first_changes_nothing_and_another_is_refused() {
    let mut world = asked();
    world.ask(signal(W, "approved", b'1'));
    for _ in 0..2 {
        assert!(matches!(world.ask(signal(W, "approved", b'1')), Answer::Unchanged(_)));
        assert_eq!(refused(world.ask(signal(W, "approved", b'2'))), Refusal::SignalTaken);
    }
    world.run_step(W, 2, true);
    assert_eq!(world.job(W).state, State::Succeeded);
    assert!(matches!(world.ask(signal(W, "approved", b'1')), Answer::Unchanged(_)), "after the end, too");
    assert_eq!(result(&world, 1), b"1");
}

#[test]
fn signals_of_one_batch_end_their_wait_once() {
    let mut world = asked();
    let changes = world.apply(vec![
        signal(W, "approved", b'1'),
        signal(W, "approved", b'1'),
        signal(W, "approved", b'2'),
        cancel(world.step_job(W, 1).id.as_u128()),
    ]);
    assert!(matches!(changes.answers[0], Answer::Done(_)));
    assert!(matches!(changes.answers[1], Answer::Unchanged(_)));
    assert_eq!(changes.answers[2], Answer::Refused(Refusal::SignalTaken));
    assert!(matches!(&changes.answers[3], Answer::Unchanged(job) if job.state == State::Succeeded));
    assert_eq!(changes.inserted.len(), 1, "the step behind it");
}

#[test]
fn an_early_signal_is_kept_until_its_wait_begins() {
    let mut world = order();
    assert!(matches!(world.ask(signal(W, "approved", b'1')), Answer::Done(_)));
    assert_eq!(world.letters(W), "rww");
    assert!(matches!(world.ask(signal(W, "approved", b'1')), Answer::Unchanged(_)));
    assert_eq!(refused(world.ask(signal(W, "approved", b'2'))), Refusal::SignalTaken);
    world.run_step(W, 0, true);
    assert_eq!(world.letters(W), "ssr");
    assert_eq!(result(&world, 1), b"1");
    assert!(matches!(world.ask(signal(W, "approved", b'1')), Answer::Unchanged(_)));
}

#[test]
fn hundreds_of_waits_with_early_signals_end_at_once_with_little_stack() {
    let run = || {
        let waits = (1..300).map(|n| {
            let name = format!("s{n}");
            wait_step(&name, &[n - 1], wait_for_signal(&name))
        });
        let mut world = begun([step("a", &[])].into_iter().chain(waits).collect());
        world.apply((1..300).map(|n| signal(W, &format!("s{n}"), b'1')).collect());
        world.run_step(W, 0, true);
        assert_eq!(world.job(W).state, State::Succeeded);
    };
    let thread = std::thread::Builder::new().stack_size(256 * 1024).spawn(run).unwrap();
    thread.join().unwrap();
}

#[test]
fn a_signal_of_an_unknown_name_or_of_another_client_is_refused() {
    let mut world = asked();
    assert_eq!(refused(world.ask(signal(W, "denied", b'1'))), Refusal::SignalUnknown);
    assert_eq!(refused(world.ask(signal(W + 1, "approved", b'1'))), Refusal::NotFound);
    let no_workflow = world.step_job(W, 0).id.as_u128();
    assert_eq!(refused(world.ask(signal(no_workflow, "approved", b'1'))), Refusal::NotFound);
    let workflow = Owned { job: id(W), client: Some(ClientId::from_u128(99)) };
    let foreign = send(SignalTarget::Named { workflow, name: "approved".into() }, b'1');
    assert_eq!(refused(world.ask(foreign)), Refusal::Foreign);
    assert_eq!(world.letters(W), "srw");
}

#[test]
fn a_wait_without_its_signal_fails_the_step_and_its_condition_decides_what_follows() {
    let mut world = begun(vec![
        wait_step("ask", &[], wait_for_signal("approved")),
        step("granted", &[0]),
        step_when("denied", &[0], AnyFailed),
    ]);
    world.pass(secs(60) + EVENTS);
    assert_eq!(world.due(), 1);
    assert_eq!(world.letters(W), "f-r");
    let job = world.step_job(W, 0);
    let error = job.last_error().unwrap();
    assert_eq!((error.kind, &*error.message), (Kind::HandlerTimeout, "no signal `approved` came within 60s"));
    assert_eq!(refused(world.ask(signal(W, "approved", b'1'))), Refusal::WaitOver);
    assert_eq!(refused(world.ask(send(SignalTarget::Token(token(&job)), b'1'))), Refusal::WaitOver);
}

#[test]
fn of_a_signal_and_a_timeout_that_meet_the_first_counts() {
    for signal_first in [true, false] {
        let mut world = asked();
        world.pass(secs(60) + EVENTS);
        let (signal, due) = (signal(W, "approved", b'1'), Command::Due(9));
        let commands = if signal_first { vec![signal, due] } else { vec![due, signal] };
        world.apply(commands);
        assert_eq!(world.letters(W), if signal_first { "ssr" } else { "sf-" });
    }
}

#[test]
fn a_cancelled_workflow_ends_its_waits_and_takes_no_signal() {
    let mut world = asked();
    world.ask(cancel(W));
    assert_eq!(world.letters(W), "sc-");
    assert_eq!(world.step_job(W, 1).state, State::Canceled);
    assert_eq!(refused(world.ask(signal(W, "approved", b'1'))), Refusal::WaitOver);
    world.pass(secs(60) + EVENTS);
    assert_eq!(world.due(), 0, "nothing is left to wake it");
}

#[test]
fn a_failure_ends_the_waits_of_a_workflow_that_stops_or_compensates() {
    for policy in [FailurePolicy::Stop, FailurePolicy::Compensate] {
        let mut world = World::new();
        let waits =
            [wait_step("ask", &[], wait_for_signal("approved")), wait_step("nap", &[], Wait::For(secs(9)))];
        let steps = [step("a", &[])].into_iter().chain(waits).collect();
        world.ask(workflow(W, policy, steps));
        world.run_step(W, 0, false);
        assert_eq!((&*world.letters(W), world.job(W).state), ("fcc", State::Failed), "{policy:?}");
    }
}

#[test]
fn a_worker_cannot_end_a_wait_and_a_client_cannot_retry_it_alone() {
    let mut world = asked();
    let wait = world.step_job(W, 1);
    for well in [true, false] {
        assert_eq!(refused(world.ask(end_step(&wait, well))), Refusal::LeaseLost);
    }
    world.pass(secs(60) + EVENTS);
    world.due();
    let n = wait.id.as_u128();
    assert_eq!(refused(world.ask(revive_any(n, 50))), Refusal::WrongState(State::Failed));
    assert_eq!(refused(world.ask(retry(n, 51))), Refusal::WrongState(State::Failed));
}

#[test]
fn a_retried_workflow_waits_anew_under_a_new_token() {
    let mut world = asked();
    let before = world.step_job(W, 1);
    world.pass(secs(60) + EVENTS);
    world.due();
    assert_eq!(world.letters(W), "sf-");
    world.ask(retry(W, 5));
    assert_eq!(world.letters(W), "srw");
    let after = world.step_job(W, 1);
    assert_ne!(after.id, before.id);
    assert_eq!(refused(world.ask(send(SignalTarget::Token(token(&before)), b'1'))), Refusal::WaitOver);
    world.ask(send(SignalTarget::Token(token(&after)), b'1'));
    assert_eq!(world.letters(W), "ssr");
}

#[test]
fn a_signal_that_ended_a_wait_does_not_end_the_wait_of_a_retry() {
    let mut world = asked();
    world.ask(signal(W, "approved", b'1'));
    world.run_step(W, 2, false);
    let Command::Retry(again) = retry(W, 5) else { unreachable!("it is a retry") };
    world.ask(Command::Retry(Retry { from: Some(1), ..again }));
    assert_eq!(world.letters(W), "srw", "it is asked again");
    world.ask(signal(W, "approved", b'2'));
    assert_eq!(result(&world, 1), b"2");
}

#[test]
fn two_waits_for_one_signal_are_refused() {
    let mut world = World::new();
    let steps = ["a", "b"].map(|name| wait_step(name, &[], wait_for_signal("approved")));
    let answer = world.ask(workflow(W, FailurePolicy::Continue, steps.to_vec()));
    assert_eq!(refused(answer), Refusal::BadWorkflow(BadWorkflow::SameSignal(1)));
}

#[test]
fn a_deleted_workflow_leaves_no_signal() {
    let mut world = order();
    world.ask(signal(W, "approved", b'1'));
    assert!(world.records.contains_key(&Signal::key_of(id(W), "approved")));
    world.ask(cancel(W));
    world.pass(limits::RETENTION * 2);
    while world.due() > 0 {}
    assert!(!world.records.keys().any(|key| key.kind == RecordKind::Signal));
}

#[test]
fn a_workflow_fails_at_its_deadline_with_all_that_is_left_of_it() {
    let mut world = World::new();
    let steps = vec![step("a", &[]), wait_step("ask", &[0], wait_for_signal("approved")), step("c", &[1])];
    let deadline = world.now + secs(30);
    world.ask(workflow_as(W, FailurePolicy::Continue, steps, |head| head.deadline = Some(deadline)));
    world.run_step(W, 0, true);
    world.pass(secs(29));
    assert_eq!(world.due(), 0);
    world.pass(secs(1));
    assert_eq!(world.due(), 1);
    assert_eq!(world.letters(W), "sc-");
    let own = world.job(W);
    assert!(own.state == State::Failed && own.timed_out(), "{own:?}");
    let message = &own.last_error().unwrap().message;
    assert_eq!(message, "the workflow was stopped by its `deadline`, 30s after its submission");
    assert_eq!(world.due(), 0);
    world.ask(retry(W, 5));
    assert_eq!(world.letters(W), "srw", "a retry has no deadline");
    assert_eq!(world.due(), 0);
}

#[test]
fn a_workflow_is_undone_after_its_deadline_if_its_policy_says_so() {
    let mut world = World::new();
    let steps = vec![undoable(step("a", &[])), wait_step("nap", &[0], Wait::For(secs(99)))];
    let deadline = world.now + secs(30);
    world.ask(workflow_as(W, FailurePolicy::Compensate, steps, |head| head.deadline = Some(deadline)));
    world.run_step(W, 0, true);
    world.pass(secs(30));
    assert_eq!(world.due(), 1);
    assert_eq!((&*world.letters(W), world.job(W).state), ("scr", State::Running));
    assert_eq!(world.due(), 0, "it is due once");
    world.run_step(W, 2, true);
    assert!(world.job(W).timed_out());
}

#[test]
fn ids_of_repeated_waits_differ() {
    let mut world = asked();
    let mut seen: Vec<JobId> = vec![world.step_job(W, 1).id];
    for n in 0..3 {
        world.pass(secs(60) + EVENTS);
        world.due();
        world.ask(retry(W, 5 + n));
        let job = world.step_job(W, 1).id;
        assert!(!seen.contains(&job));
        seen.push(job);
    }
}
