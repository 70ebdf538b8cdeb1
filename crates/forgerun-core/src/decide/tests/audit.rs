//! The audit trail: entries come with what they describe, in a chain per node that shows each loss.

use std::string::ToString;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use super::*;
use crate::audit::{AuditAction, AuditActor, AuditChain, AuditCount, AuditEntry, AuditFault, Verifier};
use crate::command::{Audited, AuditedChange};
use crate::limits;
use crate::record::{RecordKind, Stored};

const KEEP: Duration = Duration::from_secs(400 * 24 * 3600);

fn by(node: &str) -> AuditActor {
    AuditActor {
        actor: "operator".into(),
        address: "192.0.2.1".into(),
        request: "r".into(),
        node: node.into(),
        keep: KEEP,
    }
}

fn audited(node: &str, command: Command) -> Command {
    Command::Audited(Audited { by: by(node), change: AuditedChange::Command(command) }.into())
}

fn login(node: &str) -> Command {
    let event = AuditAction::new("login", String::new());
    Command::Audited(Audited { by: by(node), change: AuditedChange::Event(event) }.into())
}

fn records<T: Stored>(world: &World) -> Vec<T> {
    let of_kind = world.records.values().filter(|record| record.key.kind == T::KIND);
    of_kind.map(|record| T::of(record).unwrap()).collect()
}

/// The latest first.
fn entries(world: &World) -> Vec<AuditEntry> {
    records(world)
}

fn faults(world: &World) -> Vec<AuditFault> {
    let count = records::<AuditCount>(world).first().copied().unwrap_or_default();
    let mut verifier = Verifier::new(records(world), count);
    entries(world).iter().for_each(|entry| verifier.see(entry));
    verifier.finish().faults
}

/// Two nodes with three entries each, in turns.
fn two_nodes() -> World {
    let mut world = World::new();
    for _ in 0..3 {
        world.ask(login("a"));
        world.apply(vec![login("b")]);
        world.pass(Duration::from_secs(1));
    }
    assert_eq!(faults(&world), []);
    world
}

fn key_of(world: &World, node: &str, seq: u64) -> crate::record::RecordKey {
    let entry = entries(world).into_iter().find(|entry| entry.by.node == node && entry.seq == seq);
    AuditEntry::record_key(entry.unwrap().key())
}

#[test]
fn an_entry_is_written_with_its_change_and_not_without() {
    let mut world = World::new();
    world.ask(submit([plain(1)]));
    let changes =
        world.apply(vec![audited("a", cancel(1)), audited("a", cancel(9)), audited("a", cancel(1))]);
    assert_eq!(word(&changes.answers[0]), "Canceled");
    assert_eq!(word(&changes.answers[1]), "NotFound");
    assert_eq!(word(&changes.answers[2]), "same");
    let entries = entries(&world);
    assert_eq!(entries.len(), 1, "neither for a refusal nor for nothing: {entries:?}");
    let job = world.job(1).id.to_string();
    assert_eq!((entries[0].what.clone(), entries[0].seq), (AuditAction::new("cancel_job", job), 1));
    assert_eq!(faults(&world), []);
}

#[test]
fn work_itself_leaves_no_entry() {
    let mut world = World::new();
    for command in [submit([plain(1)]), claim("q", 1), start(1, 1), progress(1, 1, 5), succeed(1, 1)] {
        let answer = world.ask(audited("a", command));
        assert!(!matches!(answer, Answer::Refused(_)), "{answer:?}");
    }
    assert!(world.records.values().all(|record| record.key.kind != RecordKind::AuditEntry));
}

#[test]
fn entries_of_a_batch_follow_each_other_in_time_whatever_the_clock_does() {
    let mut world = World::new();
    world.apply(vec![login("a"), login("a"), login("a")]);
    world.now = Time::from_millis(1);
    world.ask(login("a"));
    let seqs: Vec<u64> = entries(&world).iter().map(|entry| entry.seq).collect();
    assert_eq!(seqs, [4, 3, 2, 1]);
    assert_eq!(faults(&world), []);
}

#[test]
fn chains_of_two_nodes_are_apart_and_a_missing_one_is_noticed() {
    let mut world = two_nodes();
    let numbers: Vec<u32> = records::<AuditChain>(&world).iter().map(|chain| chain.number).collect();
    assert_eq!(numbers, [1, 2]);
    world.records.retain(|_, record| AuditEntry::of(record).map_or(true, |entry| entry.by.node != "b"));
    let missing = AuditFault::Missing { node: "b".into(), first: 1, last: 3 };
    assert_eq!(faults(&world), [missing]);
    world.records.remove(&AuditChain::record_key("b".into()));
    assert_eq!(faults(&world), [AuditFault::NoChain { chain: 2 }]);
}

#[test]
fn an_entry_removed_from_the_beginning_the_middle_or_the_end_is_noticed() {
    for seq in 1..=3 {
        let mut world = two_nodes();
        let key = key_of(&world, "a", seq);
        world.records.remove(&key);
        let missing = AuditFault::Missing { node: "a".into(), first: seq, last: seq };
        assert_eq!(faults(&world), [missing]);
    }
}

#[test]
fn a_changed_or_added_entry_is_noticed() {
    for seq in 1..=3 {
        let mut world = two_nodes();
        let key = key_of(&world, "a", seq);
        let record = world.records.get_mut(&key).unwrap();
        let mut entry = AuditEntry::of(record).unwrap();
        entry.what.target = "something else".into();
        record.bytes = entry.encode();
        assert_eq!(faults(&world), [AuditFault::Changed { node: "a".into(), seq }]);
    }
    let mut world = two_nodes();
    let mut entry = entries(&world).remove(0);
    entry.seq += 1;
    entry.at = entry.at + Duration::from_secs(1);
    let added = AuditFault::Foreign { chain: entry.chain, seq: entry.seq };
    world.records.insert(AuditEntry::record_key(entry.key()), entry.to_record(7));
    assert_eq!(faults(&world), [added]);
}

#[test]
fn retention_removes_from_the_beginning_and_leaves_an_anchor() {
    let mut world = two_nodes();
    // The first of each node is over, and the second not quite.
    world.pass(KEEP - Duration::from_secs(2) - Duration::from_millis(500));
    world.due();
    let left: Vec<(String, u64)> =
        entries(&world).iter().map(|entry| (entry.by.node.clone(), entry.seq)).collect();
    assert_eq!(left.len(), 4, "{left:?}");
    assert!(left.iter().all(|(_, seq)| *seq > 1));
    assert!(records::<AuditChain>(&world).iter().all(|chain| chain.anchor.seq == 1));
    assert_eq!(faults(&world), []);
    let key = key_of(&world, "a", 2);
    world.records.remove(&key);
    assert_eq!(faults(&world), [AuditFault::Missing { node: "a".into(), first: 2, last: 2 }]);
    // The gap stays one: what comes after it is kept, for all to see.
    world.pass(KEEP);
    world.due();
    world.pass(limits::AUDIT_REMOVAL_RETRY);
    world.due();
    assert_eq!(entries(&world).len(), 1);
    assert_eq!(faults(&world), [AuditFault::Missing { node: "a".into(), first: 2, last: 2 }]);
    world.ask(login("b"));
    assert_eq!(entries(&world)[0].seq, 4, "a chain goes on after all of it was removed");
}
