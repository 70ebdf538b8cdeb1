//! Checkpoints: one per job, counted, and only while the job has not ended.

use std::vec::Vec;

use crate::checkpoint::Checkpoint;
use crate::command::{Answer, CheckpointCommand, Command, Owned, Refusal};
use crate::id::ClientId;
use crate::limits;
use crate::state::State;
use crate::world::World;
use crate::world::build::*;

fn save(n: u128, state: &[u8]) -> Command {
    let (owned, state) = (owned(n), state.to_vec());
    Command::Checkpoint(CheckpointCommand::Save { owned, state, notes: Vec::new() })
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
    let delete = || Command::Checkpoint(CheckpointCommand::Delete(owned(1)));
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
    let stranger = Owned { job: id(1), client: Some(ClientId::from_u128(99)) };
    let theirs = CheckpointCommand::Save { owned: stranger, state: Vec::new(), notes: Vec::new() };
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
