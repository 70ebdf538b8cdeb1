//! Batches: how their items decide, and what another attempt leaves alone.

use std::vec;

use super::events;
use crate::catalog::Kind;
use crate::history::{EventName, RetryStatus};
use crate::item::Tally;
use crate::limits;
use crate::state::State;
use crate::world::World;
use crate::world::build::*;

#[test]
fn a_batch_is_what_its_items_are() {
    for (letters, state, name, kind, retryable) in [
        ("ccc", State::Succeeded, EventName::Succeeded, None, None),
        ("cfc", State::Failed, EventName::Mixed, Some(Kind::BatchPartial), Some(false)),
        ("crf", State::Failed, EventName::Mixed, Some(Kind::BatchPartial), Some(true)),
        ("fff", State::Failed, EventName::Failed, Some(Kind::HandlerError), Some(false)),
        ("frf", State::Failed, EventName::Failed, Some(Kind::HandlerTransient), Some(true)),
        ("ttt", State::Failed, EventName::TimedOut, Some(Kind::HandlerTimeout), Some(true)),
        ("tct", State::Failed, EventName::Mixed, Some(Kind::BatchPartial), Some(true)),
    ] {
        let mut world = World::with_job_in(State::Running, batch(3));
        let changes = world.apply(vec![conclude(1, 1, letters)]);
        let job = world.job(1);
        assert_eq!(job.state, state, "{letters}");
        assert_eq!(events(&changes.journal).last().unwrap().name(), name, "{letters}");
        assert_eq!(job.last_error().map(|error| error.kind), kind, "{letters}");
        assert_eq!(job.last_error().map(|error| error.retryable), retryable, "{letters}");
        assert_eq!(job.is_mixed(), name == EventName::Mixed);
        let completed = letters.matches('c').count() as u32;
        assert_eq!(job.tally, Tally { completed, failed: 3 - completed });
        assert_eq!(world.items[&job.execution].len(), 3);
        assert!(world.outcomes.contains_key(&job.execution));
    }
}

#[test]
fn a_list_that_does_not_fit_the_batch_is_refused_and_changes_nothing() {
    for (set, letters, expected) in [(3, "cc", 3), (3, "cccc", 3), (3, "", 3)] {
        let mut world = World::with_job_in(State::Running, batch(set));
        let changes = world.apply(vec![conclude(1, 1, letters)]);
        assert_eq!(word(&changes.answers[0]), std::format!("WrongItems {{ expected: {expected} }}"));
        assert!(changes.is_empty());
    }
    let mut plain = World::with_job_in(State::Running, |_| {});
    assert_eq!(word(&plain.ask(conclude(1, 1, "c"))), "WrongItems { expected: 0 }");
    let mut whole = World::with_job_in(State::Running, batch(2));
    assert_eq!(
        word(&whole.ask(succeed(1, 1))),
        "WrongItems { expected: 2 }",
        "a batch ends as its items did"
    );
    let mut early = World::with_job_in(State::Assigned, batch(1));
    assert_eq!(word(&early.ask(conclude(1, 1, "c"))), "wrong state");
    let mut stale = World::with_job_in(State::Running, batch(1));
    assert_eq!(word(&stale.ask(conclude(1, 7, "c"))), "LeaseLost");
}

#[test]
fn an_automatic_retry_stays_within_the_execution_and_keeps_the_newest_list() {
    let mut world = World::with_job_in(State::Running, |head| {
        auto(head);
        batch(2)(head);
    });
    let changes = world.apply(vec![conclude(1, 1, "cr")]);
    assert!(changes.outcomes.is_empty(), "the execution goes on");
    let job = world.job(1);
    assert_eq!((job.state, job.attempt), (State::Queued, 2));
    assert_eq!(world.items[&job.execution].iter().filter(|end| end.error.is_some()).count(), 1);
    world.pass(secs(5)).due();
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    world.ask(conclude(1, 2, "cc"));
    let job = world.job(1);
    assert_eq!(job.state, State::Succeeded);
    assert!(world.items[&job.execution].iter().all(|end| end.error.is_none()));
}

#[test]
fn what_is_not_worth_another_try_ends_a_batch_of_the_automatic_policy() {
    let mut world = World::with_job_in(State::Running, |head| {
        auto(head);
        batch(2)(head);
    });
    let changes = world.apply(vec![conclude(1, 1, "cf")]);
    assert_eq!(world.job(1).state, State::Failed);
    let crate::history::EventKind::Moved { retry_status, .. } = events(&changes.journal).last().unwrap().kind
    else {
        panic!()
    };
    assert_eq!(retry_status, RetryStatus::Open);
}

#[test]
fn a_manual_retry_leaves_the_list_of_the_execution_before_as_it_was() {
    let mut world = World::with_job_in(State::Running, batch(2));
    world.ask(conclude(1, 1, "cf"));
    let first = world.job(1).execution;
    let list = world.items[&first].clone();
    world.ask(retry(1, 100));
    assert_eq!(world.job(1).tally, Tally::default());
    world.pass(secs(5)).due();
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    world.ask(conclude(1, 2, "cc"));
    assert_eq!(world.items[&first], list);
    assert_ne!(world.items[&world.job(1).execution], list);
    world.ask(forget(1));
    assert!(world.items.is_empty(), "forgotten with the job");
}

#[test]
fn a_batch_that_is_simulated_waits_for_the_built_in_worker() {
    use crate::item::Items;
    use crate::job::Lane;
    let world = World::with_job_in(State::Queued, |head| head.items = Some(Items { n: 1, simulated: true }));
    assert_eq!(world.job(1).shelf().unwrap().lane, Lane::BuiltIn);
    let world = World::with_job_in(State::Queued, batch(1));
    assert_eq!(world.job(1).shelf().unwrap().lane, Lane::External);
}

#[test]
fn what_is_said_of_an_item_is_bounded() {
    let mut world = World::with_job_in(State::Running, batch(3));
    let crate::Command::Conclude(mut told) = conclude(1, 1, "cff") else { unreachable!() };
    let mut ends = told.ends.to_vec();
    let long = "é".repeat(limits::ITEM_MESSAGE_BYTES_MAX);
    ends[1].error.as_mut().unwrap().message = std::format!("a{long}");
    told.ends = ends.into();
    world.ask(crate::Command::Conclude(told));
    let kept = &world.items[&world.job(1).execution];
    let lengths: vec::Vec<_> =
        kept.iter().map(|end| end.error.as_ref().map(|error| error.message.len())).collect();
    assert_eq!(lengths[1], Some(limits::ITEM_MESSAGE_BYTES_MAX - 1), "cut between characters");
    assert!(lengths[0].is_none() && lengths[2].is_some_and(|length| length < 100));
}
