//! Pause and resume of jobs and workflows.

use std::vec;

use crate::command::{Answer, Command, Heartbeat, HeartbeatAnswer, LeaseProof, Refusal, WorkerCommand};
use crate::job::Parked;
use crate::queue::Owner;
use crate::state::State;
use crate::worker::{WorkerFacts, WorkerId};
use crate::workflow::FailurePolicy;
use crate::world::World;
use crate::world::build::*;
use crate::world::flows::*;

const W: u128 = 1000;

#[test]
fn a_paused_job_is_not_handed_out_until_it_is_resumed() {
    let mut world = World::with_job_in(State::Queued, |_| {});
    world.ask(hold_back(1, true));
    let job = world.job(1);
    assert_eq!((job.state, job.paused, job.shelf()), (State::Queued, true, None));
    assert!(named(&world.ask(claim("q", 9))).is_empty());
    let changes = world.apply(vec![hold_back(1, false)]);
    assert!(changes.journal.is_empty(), "the state is as it was");
    assert_eq!(changes.woken.len(), 1, "workers are woken");
    assert_eq!(named(&world.ask(claim("q", 9))).len(), 1);
    world.check();
}

#[test]
fn a_scheduled_job_that_is_paused_becomes_due_and_waits_on() {
    let mut world = World::new();
    let later = world.now + secs(5);
    world.ask(submit([job(1, |head| head.execution_at = Some(later))]));
    world.ask(hold_back(1, true));
    world.pass(secs(6)).due();
    assert_eq!((world.job(1).state, world.job(1).shelf()), (State::Queued, None));
    world.ask(hold_back(1, false));
    assert!(world.job(1).shelf().is_some());
}

#[test]
fn a_retry_of_a_paused_attempt_waits_for_its_resume() {
    let mut world = World::with_job_in(State::Running, auto);
    world.ask(hold_back(1, true));
    assert_eq!(world.job(1).state, State::Running, "its worker goes on");
    world.ask(fail(1, 1));
    world.pass(secs(3600)).due();
    let job = world.job(1);
    assert_eq!((job.state, job.available_at, job.shelf()), (State::Queued, None, None));
    world.ask(hold_back(1, false));
    assert!(world.job(1).shelf().is_some());
}

#[test]
fn deadlines_and_leases_of_a_paused_job_run_on() {
    let mut world = World::new();
    let deadline = world.now + secs(60);
    world.ask(submit([job(1, |head| head.deadline = Some(deadline))]));
    world.ask(hold_back(1, true));
    world.pass(secs(61)).due();
    let canceled = world.job(1);
    assert_eq!((canceled.state, canceled.paused), (State::Canceled, false));

    let mut world = World::with_job_in(State::Running, auto);
    world.ask(hold_back(1, true));
    world.pass(secs(3600)).due();
    assert_eq!((world.job(1).state, world.job(1).paused), (State::Queued, true), "its lease ran out");
}

#[test]
fn the_holder_of_a_paused_job_learns_it_with_its_next_heartbeat() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let beat = |world: &mut World| -> HeartbeatAnswer {
        let worker = WorkerId { owner: Owner::client(CLIENT), name: name("w") };
        let jobs = vec![(id(1), LeaseProof::Token(1))];
        let facts = WorkerFacts::default();
        let beat = Heartbeat { worker, state: None, facts, jobs, lease: None };
        match world.ask(Command::Worker(WorkerCommand::Heartbeat(beat))) {
            Answer::Heartbeat(answer) => *answer,
            answer => panic!("{answer:?}"),
        }
    };
    assert_eq!(beat(&mut world).paused, []);
    world.ask(hold_back(1, true));
    let answer = beat(&mut world);
    assert_eq!((answer.extended, answer.paused), (vec![id(1)], vec![id(1)]));
    world.ask(succeed(1, 1));
    assert_eq!((world.job(1).state, world.job(1).paused), (State::Succeeded, false));
}

#[test]
fn a_paused_job_leaves_its_limit_to_others_and_asks_again_when_it_is_resumed() {
    let mut world = World::new();
    world.ask(submit((1..=3).map(|n| job(n, |head| head.limits = vec![limit(Some(1))]))));
    assert_eq!(named(&world.ask(claim("q", 9))).len(), 1);
    assert_eq!(world.job(2).parked, Parked::ForPlace);
    world.ask(hold_back(2, true));
    world.ask(start(1, 1));
    world.ask(succeed(1, 1));
    assert_eq!((world.job(2).shelf(), world.job(3).parked), (None, Parked::No), "the place is for job 3");
    world.ask(hold_back(2, false));
    assert_eq!((world.job(2).parked, world.job(2).available_at), (Parked::No, None));
    world.check();
}

#[test]
fn an_ended_job_cannot_be_paused() {
    for state in [State::Succeeded, State::Failed, State::Canceled] {
        let mut world = World::with_job_in(state, |_| {});
        assert_eq!(world.ask(hold_back(1, true)), Answer::Refused(Refusal::WrongState(state)));
        assert!(matches!(world.ask(hold_back(1, false)), Answer::Unchanged(_)));
    }
}

#[test]
fn a_paused_workflow_starts_no_step_and_goes_on_when_it_is_resumed() {
    let mut world = World::new();
    world.ask(workflow(W, FailurePolicy::Continue, vec![step("a", &[]), step("b", &[]), step("c", &[0])]));
    let started = world.start_all();
    assert_eq!(started.len(), 2);
    world.ask(hold_back(W, true));
    assert!(started.iter().all(|job| world.jobs[&job.id].paused), "its workers learn of it");
    world.run_step(W, 0, true);
    assert_eq!((world.letters(W).as_str(), world.job(W).state), ("srw", State::Running));
    world.run_step(W, 1, true);
    world.ask(hold_back(W, false));
    assert_eq!(world.letters(W), "ssr");
    world.start_all();
    world.run_step(W, 2, true);
    assert_eq!(world.job(W).state, State::Succeeded);
    world.check();
}

#[test]
fn a_paused_workflow_without_anything_to_start_ends() {
    let mut world = World::new();
    world.ask(workflow(W, FailurePolicy::Continue, vec![step("a", &[]), step("b", &[0])]));
    world.start_all();
    world.ask(hold_back(W, true));
    world.run_step(W, 0, false);
    assert_eq!((world.letters(W).as_str(), world.job(W).state), ("f-", State::Failed));
}

#[test]
fn a_cancel_lifts_the_pause_of_a_workflow() {
    let mut world = World::new();
    world.ask(workflow(W, FailurePolicy::Continue, vec![step("a", &[]), step("b", &[0])]));
    world.ask(hold_back(W, true));
    world.ask(cancel(W));
    assert_eq!((world.job(W).state, world.job(W).paused), (State::Canceled, false));
    world.check();
}
