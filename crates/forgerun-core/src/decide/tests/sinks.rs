//! Sinks: who may send, and that the place moves only forward and only by the holder.

use std::time::Duration;

use crate::command::{Answer, Command, Refusal, SinkCommand, SinkReport, SinkTake};
use crate::sink::{SinkCursor, SinkPosition, SinkTotals};
use crate::world::World;
use crate::world::build::*;

const LEASE: Duration = Duration::from_secs(15);

fn take_as(node: &str, begin: i64, at_once: bool) -> Command {
    Command::Sink(SinkCommand::Take(SinkTake {
        sink: name("kafka"),
        kind: "kafka".into(),
        node: name(node),
        lease: LEASE,
        begin: SinkPosition::after(begin),
        at_once,
    }))
}

fn take(node: &str) -> Command {
    take_as(node, 5, false)
}

fn said(fence: u64, row: i64) -> SinkReport {
    SinkReport {
        sink: name("kafka"),
        fence,
        lease: LEASE,
        position: SinkPosition::after(row),
        totals: SinkTotals { sent: row as u64, ..SinkTotals::default() },
        sent_at: None,
        trouble: None,
    }
}

fn report(fence: u64, row: i64) -> Command {
    Command::Sink(SinkCommand::Report(said(fence, row)))
}

fn release(fence: u64, row: i64) -> Command {
    Command::Sink(SinkCommand::Leave(said(fence, row)))
}

fn sink(answer: Answer) -> SinkCursor {
    match answer {
        Answer::Sink(sink) => *sink,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_new_sink_begins_where_its_first_holder_says_and_later_ones_go_on() {
    let mut world = World::new();
    let first = sink(world.ask(take_as("a", 5, false)));
    assert_eq!((first.position, first.fence), (SinkPosition::after(5), 1));
    world.ask(release(1, 7));
    let second = sink(world.ask(take_as("b", 99, false)));
    assert_eq!((second.position, second.fence, second.totals.sent), (SinkPosition::after(7), 2, 7));
}

#[test]
fn a_sink_has_one_holder_until_its_lease_ends() {
    let mut world = World::new();
    sink(world.ask(take("a")));
    assert_eq!(world.ask(take("b")), Answer::Refused(Refusal::SinkHeld));
    world.pass(LEASE - Duration::from_secs(1));
    sink(world.ask(report(1, 6)));
    world.pass(LEASE - Duration::from_secs(1));
    assert_eq!(world.ask(take("b")), Answer::Refused(Refusal::SinkHeld), "a word prolongs the lease");
    world.pass(Duration::from_secs(1));
    assert_eq!(sink(world.ask(take("b"))).fence, 2);
}

#[test]
fn what_an_old_holder_says_is_refused() {
    let mut world = World::new();
    sink(world.ask(take("a")));
    world.pass(LEASE);
    sink(world.ask(take("b")));
    assert_eq!(world.ask(report(1, 9)), Answer::Refused(Refusal::LeaseLost));
    assert_eq!(world.ask(release(1, 9)), Answer::Refused(Refusal::LeaseLost));
    assert_eq!(sink(world.ask(report(2, 6))).position, SinkPosition::after(6));
}

#[test]
fn a_late_holder_goes_on_if_nobody_took_over() {
    let mut world = World::new();
    sink(world.ask(take("a")));
    world.pass(10 * LEASE);
    assert_eq!(sink(world.ask(report(1, 9))).position, SinkPosition::after(9));
    assert_eq!(world.ask(take("b")), Answer::Refused(Refusal::SinkHeld));
}

#[test]
fn a_place_never_moves_back() {
    let mut world = World::new();
    sink(world.ask(take("a")));
    sink(world.ask(report(1, 9)));
    assert_eq!(sink(world.ask(report(1, 8))).position, SinkPosition::after(9));
}

#[test]
fn after_leaving_or_when_the_holder_is_known_to_be_gone_nobody_waits() {
    let mut world = World::new();
    sink(world.ask(take("a")));
    sink(world.ask(release(1, 6)));
    assert_eq!(world.ask(report(1, 7)), Answer::Refused(Refusal::LeaseLost), "it has left");
    assert_eq!(sink(world.ask(take("b"))).fence, 2);
    assert_eq!(sink(world.ask(take_as("c", 0, true))).fence, 3);
    assert_eq!(world.ask(report(2, 7)), Answer::Refused(Refusal::LeaseLost));
}

#[test]
fn trouble_is_kept_until_it_is_over() {
    let mut world = World::new();
    let now = sink(world.ask(take("a"))).seen_at;
    let trouble = Some((now, "x".repeat(100_000)));
    let kept = sink(world.ask(Command::Sink(SinkCommand::Report(SinkReport { trouble, ..said(1, 6) }))));
    let trouble = kept.trouble.expect("there is trouble");
    assert_eq!((trouble.since, trouble.message.len()), (now, crate::limits::TEXT_BYTES_MAX));
    assert_eq!(sink(world.ask(report(1, 7))).trouble, None);
}
