//! Failures: grouped, counted, forgotten.

use std::vec;
use std::vec::Vec;

use crate::catalog::Kind;
use crate::command::{Answer, Command, Fail, FailureCommand, FailuresDue, WorkError};
use crate::failure::{FailureBatch, FailureGroup, FailureId, FailureIndex};
use crate::job::Lane;
use crate::limits;
use crate::record::{RecordKind, Stored};
use crate::world::World;
use crate::world::build::*;

/// Submits, takes and fails job `n`, saying this.
fn fail_saying(world: &mut World, n: u128, message: &str) {
    world.ask(submit([job(n, |_| {})]));
    world.ask(claim("q", 1));
    let token = world.job(n).fence;
    world.ask(start(n, token));
    world.ask(failing(n, token, message));
}

fn failing(n: u128, token: u64, message: &str) -> Command {
    let Command::Fail(fail) = fail(n, token) else { unreachable!() };
    Command::Fail(Fail { error: WorkError::new(Kind::HandlerError, message), ..fail })
}

/// Lets a moment pass, and adds up what failed.
fn fold(world: &mut World) -> Vec<FailureId> {
    world.pass(limits::FAILURES_FOLDED_AFTER);
    let Answer::Due { failures, .. } = world.ask(Command::Due(100)) else { panic!("not due") };
    match world.ask(Command::Failure(FailureCommand::Fold(failures))) {
        Answer::Folded { surplus } => surplus,
        other => panic!("{other:?}"),
    }
}

fn of_kind<T: Stored>(world: &World, kind: RecordKind) -> Vec<T> {
    world
        .records
        .values()
        .filter(|record| record.key.kind == kind)
        .map(|record| T::of(record).unwrap())
        .collect()
}

fn groups(world: &World) -> Vec<FailureGroup> {
    of_kind(world, RecordKind::FailureGroup)
}

fn batches(world: &World) -> Vec<FailureBatch> {
    of_kind(world, RecordKind::FailureBatch)
}

#[test]
fn failures_with_one_reason_are_one_group_and_others_are_others() {
    let mut world = World::new();
    for (n, message) in ["disk 1 is full", "disk 2 is full", "disk 2 is gone"].into_iter().enumerate() {
        fail_saying(&mut world, n as u128 + 1, message);
    }
    assert_eq!((batches(&world).len(), groups(&world).len()), (3, 0));
    assert_eq!(fold(&mut world), []);
    let mut found: Vec<_> = groups(&world).into_iter().map(|group| (group.message, group.count)).collect();
    found.sort();
    assert_eq!(found, [("disk <n> is full".into(), 2), ("disk <n> is gone".into(), 1)]);
    assert_eq!(batches(&world), []);
    assert_eq!(world.job(1).failure, world.job(2).failure);
    assert_ne!(world.job(1).failure, world.job(3).failure);
}

#[test]
fn a_batch_writes_one_record_however_many_fail_and_none_if_nobody_does() {
    let mut world = World::new();
    world.ask(submit((1..=5).map(|n| job(n, |_| {}))));
    world.ask(claim("q", 5));
    world.apply((1..=5).map(|n| start(n, 1)).collect());
    let changes = world.apply(vec![succeed(1, 1), succeed(2, 1)]);
    assert!(changes.records.is_empty(), "a success costs nothing");
    let changes = world.apply((3..=5).map(|n| failing(n, 1, "no")).collect());
    assert_eq!(changes.records.len(), 1);
    let [batch] = &batches(&world)[..] else { panic!("one record") };
    let [group] = &batch.groups[..] else { panic!("one group") };
    assert_eq!((group.count, group.examples.len()), (3, 3));
}

#[test]
fn a_batch_is_added_once_whoever_asks_how_often() {
    let mut world = World::new();
    fail_saying(&mut world, 1, "no");
    world.pass(limits::FAILURES_FOLDED_AFTER);
    let Answer::Due { failures, .. } = world.ask(Command::Due(100)) else { panic!("not due") };
    let fold = Command::Failure(FailureCommand::Fold(failures));
    world.ask(fold.clone());
    let again = world.apply(vec![fold]);
    assert!(again.is_empty(), "{again:?}");
    assert_eq!(groups(&world)[0].count, 1);
}

#[test]
fn a_failed_job_stands_on_the_shelf_of_its_reason_until_it_is_retried() {
    let mut world = World::new();
    fail_saying(&mut world, 1, "no");
    let reason = world.job(1).failure.unwrap();
    let shelf = world.job(1).shelf().unwrap();
    assert!(reason.shelves().contains(&shelf) && shelf.lane == Lane::Failed, "{shelf:?}");
    world.ask(retry(1, 100));
    assert_eq!(world.job(1).failure, None);
}

#[test]
fn a_group_that_was_not_seen_for_long_is_forgotten() {
    let mut world = World::new();
    fail_saying(&mut world, 1, "no");
    fold(&mut world);
    let id = groups(&world)[0].id;
    let forget = Command::Failure(FailureCommand::Forget(vec![id]));
    assert!(world.apply(vec![forget.clone()]).is_empty(), "its time has not come");
    world.now = world.now + limits::FAILURE_GROUP_KEEP;
    let changes = world.decide(vec![Command::Due(100)]);
    let Answer::Due { failures, .. } = &changes.answers[0] else { panic!("not due") };
    assert_eq!(failures.over, [id]);
    let changes = world.decide(vec![forget]);
    assert_eq!(changes.records.values().filter(|change| change.new.is_none()).count(), 1);
    let index =
        changes.records.values().filter_map(|change| FailureIndex::of(change.new.as_ref()?).ok()).next();
    assert!(index.unwrap().seen_at.is_empty());
}

#[test]
fn beyond_the_bound_the_group_that_was_not_seen_for_the_longest_makes_room() {
    let mut world = World::new();
    let mut index = FailureIndex::default();
    for n in 0..limits::FAILURE_GROUPS_MAX as u64 {
        index.seen_at.insert(FailureId(n), world.now - core::time::Duration::from_secs(10_000 - n));
    }
    let record = index.to_record(1);
    world.records.insert(record.key.clone(), record);
    fail_saying(&mut world, 1, "no");
    let surplus = fold(&mut world);
    assert_eq!(surplus, [FailureId(0)]);
    world.ask(Command::Failure(FailureCommand::Forget(surplus)));
    let index: FailureIndex = of_kind(&world, RecordKind::FailureIndex).remove(0);
    assert_eq!(index.seen_at.len(), limits::FAILURE_GROUPS_MAX);
    assert_eq!(index.surplus(), []);
}

#[test]
fn a_record_that_cannot_be_read_is_not_due_for_ever() {
    let mut world = World::new();
    fail_saying(&mut world, 1, "no");
    world.pass(limits::FAILURES_FOLDED_AFTER);
    let key = batches(&world)[0].to_record(1).key;
    world.records.get_mut(&key).unwrap().bytes = vec![2, 9];
    let changes = world.decide(vec![Command::Due(100)]);
    assert_eq!(changes.records.get(&key).map(|change| change.new.is_none()), Some(true));
    let Answer::Due { failures, .. } = &changes.answers[0] else { panic!("not due") };
    assert_eq!(failures, &FailuresDue::default());
}
