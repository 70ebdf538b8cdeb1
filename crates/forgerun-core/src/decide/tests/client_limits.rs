//! Limits of clients: what they refuse, and that usage is counted for every client.

use std::string::ToString;
use std::sync::Arc;
use std::vec;
use std::vec::Vec;

use crate::client_limits::{ClientLimit, ClientLimits, ClientUsage};
use crate::command::{
    Answer, CheckpointCommand, Command, Content, HeldJob, LeaseProof, NewJob, Output, Refusal, Succeed,
};
use crate::job::Input;
use crate::record::Stored;
use crate::world::World;
use crate::world::build::*;

/// A world in which the client has this limit.
fn limited(limit: ClientLimit, max: u64) -> World {
    let mut world = World::new();
    let mut limits = ClientLimits::none(CLIENT);
    limits.set(limit, Some(max));
    world.records.insert(ClientLimits::record_key(CLIENT.to_string()), limits.to_record(1));
    world
}

fn usage(world: &World) -> ClientUsage {
    ClientUsage::from_counts(&world.counts.get(&ClientUsage::key(CLIENT)).copied().unwrap_or_default())
}

fn with_input(n: u128, bytes: usize) -> NewJob {
    NewJob { input: Arc::new(Input { payload: vec![b'1'; bytes], ..Input::default() }), ..plain(n) }
}

fn over(limit: ClientLimit, used: u64, max: u64) -> Answer {
    Answer::Refused(Refusal::OverLimit { limit, used, max })
}

fn succeed_with(n: u128, bytes: usize) -> Command {
    let held = HeldJob { job: id(n), proof: LeaseProof::Anyone, client: None };
    let output = Output::inline("text/plain", vec![b'1'; bytes]);
    assert!(matches!(output.content, Content::Inline(_)));
    Command::Succeed(Succeed { held, output: Some(Arc::new(output)) })
}

fn save(n: u128, bytes: usize) -> Command {
    let held = HeldJob { job: id(n), proof: LeaseProof::Anyone, client: Some(CLIENT) };
    Command::Checkpoint(CheckpointCommand::Save { held, state: vec![b'1'; bytes], notes: Vec::new() })
}

#[test]
fn no_more_jobs_wait_than_the_client_may_have() {
    let mut world = limited(ClientLimit::MaxWaiting, 2);
    let refused = |used| over(ClientLimit::MaxWaiting, used, 2);
    assert_eq!(world.ask(submit([plain(1), plain(2), plain(3)])), refused(0), "all or nothing");
    world.ask(submit([plain(1)]));
    world.ask(submit([job(2, |head| head.queue = name("other"))]));
    assert_eq!(world.ask(submit([plain(3)])), refused(2));
    let held = job(4, |head| head.hold = true);
    assert!(matches!(world.ask(submit([held])), Answer::Submitted { .. }), "it does not wait for a worker");
    world.ask(claim("q", 1));
    let changes = world.apply(vec![submit([plain(3)]), submit([plain(5)])]);
    assert!(matches!(changes.answers[0], Answer::Submitted { .. }));
    assert_eq!(changes.answers[1], refused(2), "jobs of one batch count");
    assert_eq!(usage(&world), ClientUsage { waiting: 2, active: 1, bytes: 0 });
}

#[test]
fn workers_hold_no_more_real_jobs_than_the_client_may_have() {
    let mut world = limited(ClientLimit::MaxActive, 2);
    world.ask(submit((1..=4).map(plain)));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([1, 2]));
    let changes = world.apply(vec![claim("q", 9)]);
    assert!(matches!(&changes.answers[0], Answer::Claimed { capped: true, .. }), "{:?}", changes.answers);
    assert!(changes.woken.is_empty(), "what it may not have does not wake it");
    world.ask(cancel(1));
    assert_eq!(named(&world.ask(claim("q", 9))), ids([3]));
}

#[test]
fn submissions_and_checkpoints_beyond_the_storage_are_refused_and_results_are_not() {
    let mut world = limited(ClientLimit::StorageBytes, 100);
    let refused = |used| over(ClientLimit::StorageBytes, used, 100);
    assert_eq!(world.ask(submit([with_input(1, 60), with_input(2, 41)])), refused(0));
    world.ask(submit([with_input(1, 60)]));
    assert_eq!(world.ask(submit([with_input(2, 41)])), refused(60));
    world.ask(claim("q", 1));
    world.ask(save(1, 40));
    assert_eq!(usage(&world).bytes, 100);
    assert_eq!(world.ask(save(1, 41)), refused(100));
    world.ask(save(1, 10));
    assert_eq!(usage(&world).bytes, 70);
    world.ask(start(1, 1));
    world.ask(succeed_with(1, 500));
    assert_eq!(usage(&world).bytes, 570);
    assert_eq!(world.ask(submit([with_input(2, 1)])), refused(570));
    assert!(matches!(world.ask(submit([plain(3)])), Answer::Submitted { .. }), "it stores nothing");
    world.ask(forget(1));
    assert_eq!(usage(&world).bytes, 0);
    world.ask(submit([with_input(2, 100)]));
}

#[test]
fn a_client_without_limits_is_counted_and_never_refused() {
    let mut world = World::new();
    world.ask(submit([with_input(1, 1000), plain(2)]));
    assert_eq!(usage(&world), ClientUsage { waiting: 2, active: 0, bytes: 1000 });
}

#[test]
fn limits_of_a_client_that_is_not_registered_are_refused() {
    let mut limits = ClientLimits::none(CLIENT);
    limits.set(ClientLimit::MaxWaiting, Some(1));
    let answer = World::new().ask(Command::LimitClient(limits));
    assert_eq!(answer, Answer::Refused(Refusal::ClientNotFound));
}
