//! Checkpoints: one per job, counted, and only while the job has not ended.

use std::vec;
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

fn save_step(n: u128, step: &str, result: &[u8], token: u64) -> Command {
    let (held, step) = (held_as(n, LeaseProof::Token(token)), step.into());
    Command::Checkpoint(CheckpointCommand::SaveStep { held, step, result: result.to_vec() })
}

fn recorded(answer: Answer) -> bool {
    match answer {
        Answer::Step { created, .. } => created,
        answer => panic!("{answer:?}"),
    }
}

#[test]
fn the_first_result_of_a_step_counts_for_all_attempts() {
    let mut world = World::with_job_in(State::Running, auto);
    assert!(recorded(world.ask(save_step(1, "a", b"1", 1))));
    assert!(!recorded(world.ask(save_step(1, "a", b"1", 1))), "a repetition");
    assert_eq!(world.ask(save_step(1, "a", b"2", 1)), Answer::Refused(Refusal::StepRecorded));
    assert!(recorded(world.ask(save_step(1, "b", b"2", 1))));
    world.ask(fail(1, 1));
    assert_eq!(world.ask(save_step(1, "c", b"3", 1)), Answer::Refused(Refusal::WrongState(State::Queued)));
    world.pass(secs(60)).due();
    world.ask(claim("q", 1));
    assert_eq!(world.ask(save_step(1, "c", b"3", 1)), Answer::Refused(Refusal::LeaseLost));
    assert_eq!(world.ask(save_step(1, "a", b"2", 2)), Answer::Refused(Refusal::StepRecorded));
    assert!(recorded(world.ask(save_step(1, "c", b"3", 2))));
}

#[test]
fn two_results_of_one_step_in_one_batch_leave_the_first() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let changes = world.apply(vec![save_step(1, "a", b"1", 1), save_step(1, "a", b"2", 1)]);
    assert!(recorded(changes.answers[0].clone()));
    assert_eq!(changes.answers[1], Answer::Refused(Refusal::StepRecorded));
}

#[test]
fn recorded_steps_are_bounded_in_number_and_bytes() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let large = std::vec![b'1'; limits::CHECKPOINT_BYTES_MAX];
    for n in 0..3 {
        assert!(recorded(world.ask(save_step(1, &std::format!("large {n}"), &large, 1))));
    }
    assert_eq!(world.ask(save_step(1, "large 3", &large, 1)), Answer::Refused(Refusal::StepsFull));
    for n in 3..limits::STEPS_MAX {
        assert!(recorded(world.ask(save_step(1, &std::format!("{n}"), b"1", 1))));
    }
    assert_eq!(world.ask(save_step(1, "one more", b"1", 1)), Answer::Refused(Refusal::StepsFull));
    assert!(!recorded(world.ask(save_step(1, "3", b"1", 1))), "a repetition needs no room");
}

#[test]
fn recorded_steps_go_with_their_checkpoint_and_their_job() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.ask(save_step(1, "a", b"1", 1));
    world.ask(save_step(1, "b", b"1", 1));
    world.ask(delete_as(1, LeaseProof::Token(1)));
    assert!(world.records.is_empty());
    world.ask(save_step(1, "a", b"2", 1));
    world.ask(cancel(1));
    assert_eq!(world.ask(forget(1)), Answer::Settled);
    assert!(world.records.is_empty());
}

#[test]
fn recorded_steps_expire_by_themselves() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.ask(save_step(1, "a", b"1", 1));
    world.ask(succeed(1, 1));
    world.pass(limits::RETENTION * 2).due();
    assert!(world.records.is_empty());
}
