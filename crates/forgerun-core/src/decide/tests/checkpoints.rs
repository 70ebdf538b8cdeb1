//! Checkpoints: one per job, counted, and only while the job has not ended.

use std::vec::Vec;

use crate::checkpoint::Checkpoint;
use crate::command::{Answer, CheckpointCommand, Command, HeldJob, LeaseProof, Refusal};
use crate::id::ClientId;
use crate::limits;
use crate::state::State;
use crate::world::World;
use crate::world::build::*;

fn save(n: u128, state: &[u8]) -> Command {
    save_as(n, state, LeaseProof::Anyone)
}

fn save_as(n: u128, state: &[u8], proof: LeaseProof) -> Command {
    let (held, state) = (held_as(n, proof), state.to_vec());
    Command::Checkpoint(CheckpointCommand::Save { held, state, notes: Vec::new() })
}

fn delete_as(n: u128, proof: LeaseProof) -> Command {
    Command::Checkpoint(CheckpointCommand::Delete(held_as(n, proof)))
}

fn held_as(n: u128, proof: LeaseProof) -> HeldJob {
    HeldJob { job: id(n), proof, client: Some(CLIENT) }
}

fn saved(answer: Answer) -> Checkpoint {
    match answer {
        Answer::Checkpoint(checkpoint) => *checkpoint,
        answer => panic!("{answer:?}"),
    }
}

#[test]
fn each_checkpoint_replaces_the_one_before_and_counts_up() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    assert_eq!(saved(world.ask(save(1, b"a"))).sequence, 1);
    let second = saved(world.ask(save(1, b"b")));
    assert_eq!((second.sequence, second.state), (2, b"b".to_vec()));
    let delete = || delete_as(1, LeaseProof::Anyone);
    assert_eq!((world.ask(delete()), world.ask(delete())), (Answer::Settled, Answer::Settled));
    assert_eq!(saved(world.ask(save(1, b"c"))).sequence, 1);
}

#[test]
fn a_deleted_job_takes_its_checkpoint_along() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    world.ask(save(1, b"a"));
    world.ask(cancel(1));
    assert_eq!(world.ask(forget(1)), Answer::Settled);
    assert!(world.records.is_empty());
}

#[test]
fn a_checkpoint_from_before_the_job_is_of_another_job() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    let left = saved(world.ask(save(1, b"secret")));
    world.pass(secs(1));
    let mut world = World { records: world.records.clone(), now: world.now, ..World::new() };
    let born = world.now;
    world.ask(submit([job(1, |head| head.created_at = born)]));
    assert!(!left.is_of(world.job(1)));
    let first = saved(world.ask(save(1, b"a")));
    assert_eq!(first.sequence, 1);
    assert!(first.is_of(world.job(1)));
}

#[test]
fn a_job_that_has_ended_and_one_of_others_take_none() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    let stranger = HeldJob { client: Some(ClientId::from_u128(99)), ..held_as(1, LeaseProof::Anyone) };
    let theirs = CheckpointCommand::Save { held: stranger, state: Vec::new(), notes: Vec::new() };
    let theirs = Command::Checkpoint(theirs);
    assert_eq!(world.ask(theirs), Answer::Refused(Refusal::Foreign));
    world.ask(save(1, b"a"));
    world.ask(cancel(1));
    assert_eq!(world.ask(save(1, b"b")), Answer::Refused(Refusal::WrongState(State::Canceled)));
    assert_eq!(world.records.len(), 1, "what was saved stays readable");
    world.pass(limits::RETENTION);
    world.due();
    assert!(world.records.is_empty());
}

#[test]
fn a_worker_that_lost_its_lease_cannot_touch_the_checkpoint_of_the_next_one() {
    let mut world = World::with_job_in(State::Running, auto);
    let (old, new) = (|| LeaseProof::Token(1), || LeaseProof::Token(2));
    assert_eq!(saved(world.ask(save_as(1, b"a", old()))).sequence, 1);
    world.ask(fail(1, 1));
    let waits = Answer::Refused(Refusal::WrongState(State::Queued));
    assert_eq!(world.ask(save_as(1, b"b", old())), waits, "the attempt is over");
    world.pass(secs(60)).due();
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    let lost = Answer::Refused(Refusal::LeaseLost);
    assert_eq!((world.ask(save_as(1, b"b", old())), world.ask(delete_as(1, old()))), (lost.clone(), lost));
    assert_eq!(saved(world.ask(save_as(1, b"c", new()))).sequence, 2);
    assert_eq!(saved(world.ask(save(1, b"d"))).sequence, 3, "OJS knows no proof");
    world.ask(succeed(1, 2));
    assert!(matches!(world.ask(save_as(1, b"e", new())), Answer::Refused(Refusal::AlreadyCompleted(_))));
    assert_eq!(world.ask(delete_as(1, new())), Answer::Settled, "who did the work may tidy up");
}
