//! Redrives: one per group at a time, no execution twice, and nothing by whoever does not hold it.

use std::boxed::Box;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use crate::command::{
    Answer, Cancel, Claim, Command, HeldJob, LeaseProof, NewJob, Owned, RedriveCommand, RedriveStep,
    RedriveTarget, Refusal, Submit, WorkerKind,
};
use crate::failure::FailureId;
use crate::id::{ExecutionId, JobId};
use crate::job::{Head, Input, Name};
use crate::limits;
use crate::queue::Owner;
use crate::redrive::{CLIENT, QUEUE, Redrive, RedriveTerms};
use crate::state::State;
use crate::world::World;
use crate::world::build::*;

const OWN: u128 = 1000;

/// A world with jobs 1 to `n` failed for one reason.
fn failed(n: u128) -> (World, FailureId) {
    let mut world = World::new();
    world.ask(submit((1..=n).map(|n| job(n, |_| {}))));
    world.ask(claim("q", n as usize));
    world.apply((1..=n).map(|n| start(n, 1)).collect());
    world.apply((1..=n).map(|n| fail(n, 1)).collect());
    let reason = world.job(1).failure.unwrap();
    world.pass(core::time::Duration::from_secs(1));
    (world, reason)
}

fn begin(
    world: &mut World,
    own: u128,
    failure: FailureId,
    terms: RedriveTerms,
    before: Option<u128>,
) -> Answer {
    let head = Head::new(CLIENT, Name::new(QUEUE).unwrap(), world.now);
    let new =
        NewJob { id: id(own), id_given: false, head: Arc::new(head), input: Arc::new(Input::default()) };
    let submit = Submit { jobs: vec![new], idempotency: None, queue_max: None, refuse_paused: false };
    world.ask(Command::Redrive(RedriveCommand::Begin {
        redrive: Box::new(Redrive::new(failure, id(own), world.now, terms, 9)),
        submit: Box::new(submit),
        before: before.map(id),
    }))
}

/// Takes the job of the redrive; its token.
fn take(world: &mut World, own: u128) -> u64 {
    world.ask(Command::Claim(Claim {
        worker: Name::new("node").unwrap(),
        worker_kind: WorkerKind::External(Owner::client(CLIENT)),
        queues: vec![Name::new(QUEUE).unwrap()],
        limit: 1,
        lease: None,
        lease_default: limits::LEASE,
        start: true,
        active_max: None,
    }));
    world.job(own).fence
}

fn step(world: &mut World, token: u64, failure: FailureId, targets: &[(u128, u128)]) -> Answer {
    let target = |&(n, next): &(u128, u128)| RedriveTarget {
        job: id(n),
        failed: id(n).first_execution(),
        next: ExecutionId::from_u128(next),
    };
    world.ask(Command::Redrive(RedriveCommand::Step(RedriveStep {
        held: HeldJob { job: id(OWN), proof: LeaseProof::Token(token), client: Some(CLIENT) },
        failure,
        targets: targets.iter().map(target).collect(),
        failed_again: 0,
        watched: Vec::new(),
    })))
}

fn cancel_own() -> Command {
    let owned = Owned { job: id(OWN), client: None };
    Command::Cancel(Cancel {
        owned,
        execution: None,
        by: "operator".into(),
        reason: "enough".into(),
        compensate: true,
    })
}

fn redriven(answer: Answer) -> Redrive {
    match answer {
        Answer::Redriven(redrive) => *redrive,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_step_opens_executions_and_counts_them_in_one_transaction() {
    let (mut world, reason) = failed(3);
    begin(&mut world, OWN, reason, RedriveTerms { limit: Some(2), ..RedriveTerms::default() }, None);
    let token = take(&mut world, OWN);
    let redrive = redriven(step(&mut world, token, reason, &[(1, 101), (2, 102), (3, 103)]));
    assert_eq!((redrive.redriven, redrive.skipped, redrive.watched.len(), redrive.left()), (2, 0, 2, 0));
    assert_eq!([1, 2, 3].map(|n| world.job(n).state), [State::Queued, State::Queued, State::Failed]);
    assert_eq!(world.job(OWN).message.as_deref(), Some("2 of 9 redriven"));
}

#[test]
fn no_execution_is_redriven_twice_and_what_failed_since_is_left_alone() {
    let (mut world, reason) = failed(1);
    begin(&mut world, OWN, reason, RedriveTerms::default(), None);
    let token = take(&mut world, OWN);
    assert_eq!(redriven(step(&mut world, token, reason, &[(1, 101)])).redriven, 1);
    // The same step once more, as after a crash in between.
    let again = redriven(step(&mut world, token, reason, &[(1, 102)]));
    assert_eq!((again.redriven, again.skipped), (1, 1));
    assert_eq!(world.job(1).executions_past.len(), 1);
    world.pass(core::time::Duration::from_secs(1));
    world.ask(claim("q", 1));
    let fence = world.job(1).fence;
    world.apply(vec![start(1, fence), fail(1, fence)]);
    let target =
        RedriveTarget { job: id(1), failed: world.job(1).execution, next: ExecutionId::from_u128(103) };
    let held = HeldJob { job: id(OWN), proof: LeaseProof::Token(token), client: Some(CLIENT) };
    let newer =
        RedriveStep { held, failure: reason, targets: vec![target], failed_again: 1, watched: vec![] };
    let newer = redriven(world.ask(Command::Redrive(RedriveCommand::Step(newer))));
    assert_eq!((newer.redriven, newer.skipped, newer.failed_again), (1, 2, 1));
    assert_eq!(world.job(1).state, State::Failed);
}

#[test]
fn whoever_does_not_hold_the_redrive_takes_no_step() {
    let (mut world, reason) = failed(1);
    begin(&mut world, OWN, reason, RedriveTerms::default(), None);
    let token = take(&mut world, OWN);
    let stale = step(&mut world, token + 1, reason, &[(1, 101)]);
    assert_eq!(stale, Answer::Refused(Refusal::LeaseLost));
    world.ask(cancel_own());
    let late = step(&mut world, token, reason, &[(1, 101)]);
    assert_eq!(late, Answer::Refused(Refusal::AlreadyCanceled));
    assert_eq!(world.job(1).state, State::Failed);
}

#[test]
fn a_group_has_one_redrive_at_a_time() {
    let (mut world, reason) = failed(1);
    begin(&mut world, OWN, reason, RedriveTerms::default(), None);
    for before in [None, Some(OWN), Some(7)] {
        let second = begin(&mut world, OWN + 1, reason, RedriveTerms::default(), before);
        assert_eq!(second, Answer::Refused(Refusal::RedriveRunning(id(OWN))), "{before:?}");
    }
    assert!(!world.jobs.contains_key(&id(OWN + 1)), "a refused one leaves no job");
    world.ask(cancel_own());
    let next = begin(&mut world, OWN + 1, reason, RedriveTerms::default(), Some(OWN));
    assert!(matches!(next, Answer::Submitted { existing: false, .. }), "{next:?}");
    let unseen: JobId = id(OWN + 1);
    let third = begin(&mut world, OWN + 2, reason, RedriveTerms::default(), Some(OWN));
    assert_eq!(
        third,
        Answer::Refused(Refusal::RedriveRunning(unseen)),
        "one that was not seen began meanwhile"
    );
}
