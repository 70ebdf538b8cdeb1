//! Deadlines: the moment by which a whole job must have ended.

use std::vec;
use std::vec::Vec;

use super::events;
use crate::catalog::Kind;
use crate::command::Command;
use crate::history::{Event, EventName};
use crate::job::Head;
use crate::retry::Exhaustion;
use crate::state::{Cause, State};
use crate::world::World;
use crate::world::build::*;

type Set = fn(&mut Head);

fn deadline(head: &mut Head) {
    head.deadline = Some(head.created_at + secs(5));
}

fn scheduled(head: &mut Head) {
    deadline(head);
    head.hold = false;
    head.execution_at = Some(head.created_at + secs(60));
}

fn with_retries(head: &mut Head) {
    deadline(head);
    auto(head);
}

/// A job of the given state; what it is at the deadline, and not before.
#[test]
fn a_deadline_fails_a_running_attempt_and_cancels_any_other_job() {
    use State::{Assigned, Canceled, Created, Failed, Queued, Running};
    let table: [(&str, State, Set, State, EventName); 6] = [
        ("held", Created, deadline, Canceled, EventName::Canceled),
        ("scheduled", Created, scheduled, Canceled, EventName::Canceled),
        ("queued", Queued, deadline, Canceled, EventName::Canceled),
        ("assigned", Assigned, deadline, Canceled, EventName::Canceled),
        ("running", Running, deadline, Failed, EventName::TimedOut),
        ("running, with retries left", Running, with_retries, Failed, EventName::TimedOut),
    ];
    for (title, state, set, to, event) in table {
        let mut world = World::with_job_in(state, set);
        let due_at = world.job(1).head.created_at + secs(5);
        assert_eq!(world.job(1).due_at(), Some(due_at), "{title}");
        world.now = due_at - std::time::Duration::from_micros(1);
        assert!(world.apply(vec![Command::Due(9)]).is_empty(), "{title}: not before");
        world.now = due_at;
        let changes = world.apply(vec![Command::Due(9)]);
        let names: Vec<EventName> = events(&changes.journal).iter().map(Event::name).collect();
        assert_eq!((names, world.job(1).state), (vec![event], to), "{title}");
        world.pass(secs(60));
        assert_eq!((world.due(), named(&world.ask(claim("q", 1)))), (0, ids([])), "{title}: it stays so");
        let job = world.job(1);
        let reason = job.cancel.as_ref().map(|cancel| (cancel.by.as_str(), cancel.reason.as_str()));
        assert_eq!(reason, (to == Canceled).then_some(("system", "deadline")), "{title}");
        assert!(!job.expired && job.timed_out() == (to == Failed), "{title}");
        assert_eq!(
            job.dead_lettered_at.is_some(),
            job.head.retry.on_exhaustion != Exhaustion::Discard,
            "{title}"
        );
    }
}

#[test]
fn the_failure_names_the_deadline() {
    let mut world = World::with_job_in(State::Running, |head| {
        deadline(head);
        head.timeout = Some(secs(60));
    });
    world.pass(secs(5)).due();
    let error = world.job(1).last_error().unwrap();
    let message = "the attempt was stopped by the job's `deadline`, 5s after its submission";
    assert_eq!((error.kind, error.message.as_str()), (Kind::HandlerTimeout, message));
}

#[test]
fn extensions_do_not_stretch_a_deadline_and_a_shorter_timeout_comes_first() {
    let mut world = World::with_job_in(State::Running, deadline);
    for _ in 0..4 {
        world.pass(secs(1));
        world.ask(extend(1, 1, None));
    }
    world.pass(secs(1));
    assert_eq!((world.due(), world.job(1).state), (1, State::Failed));
    let mut world = World::with_job_in(State::Running, |head| {
        with_retries(head);
        head.timeout = Some(secs(1));
    });
    world.pass(secs(2)).due();
    assert_eq!(world.job(1).state, State::Queued, "a timeout before the deadline is retried");
}

#[test]
fn a_job_that_waits_for_its_retry_is_cancelled_at_the_deadline() {
    let mut world = World::with_job_in(State::Running, |head| {
        with_retries(head);
        head.retry.initial = secs(60);
    });
    world.ask(fail(1, 1));
    assert_eq!((world.job(1).state, world.job(1).available_at.is_some()), (State::Queued, true));
    world.pass(secs(5)).due();
    let job = world.job(1);
    let reason = job.cancel.as_ref().unwrap().reason.as_str();
    assert_eq!((job.state, reason, job.errors.len()), (State::Canceled, "deadline", 1));
}

#[test]
fn nothing_is_retried_or_handed_out_after_the_deadline_even_before_timers_look() {
    let mut world = World::with_job_in(State::Running, with_retries);
    world.pass(secs(5));
    world.ask(fail(1, 1));
    assert_eq!(world.job(1).state, State::Failed);
    let mut world = World::with_job_in(State::Running, with_retries);
    world.pass(secs(5));
    world.ask(hand_back(1, 1));
    assert_eq!(named(&world.ask(claim("q", 1))), ids([]));
    assert_eq!(world.job(1).state, State::Canceled, "the claim cancels it");
    let mut world = World::with_job_in(State::Running, with_retries);
    world.pass(secs(5));
    world.ask(succeed(1, 1));
    assert_eq!(world.job(1).state, State::Succeeded, "work that is done counts");
}

#[test]
fn the_earlier_of_expiry_and_deadline_counts_for_a_waiting_job() {
    for (expires, ends, cause, reason) in
        [(3, 5, Cause::Expire, "expired"), (5, 3, Cause::CancelBySystem, "deadline")]
    {
        let mut world = World::new();
        let now = world.now;
        world.ask(submit([job(1, |head| {
            head.expires_at = Some(now + secs(expires));
            head.deadline = Some(now + secs(ends));
        })]));
        world.pass(secs(3)).due();
        let job = world.job(1);
        assert_eq!(job.cancel.as_ref().unwrap().reason, reason);
        assert_eq!(job.expired, cause == Cause::Expire);
    }
}

#[test]
fn an_assigned_job_outlives_its_expiry_and_not_its_deadline() {
    let mut world = World::with_job_in(State::Assigned, |head| {
        deadline(head);
        head.expires_at = Some(head.created_at + secs(3));
    });
    world.pass(secs(3));
    assert_eq!(world.due(), 0);
    world.pass(secs(2)).due();
    assert_eq!((world.job(1).state, world.job(1).expired), (State::Canceled, false));
}

#[test]
fn a_deadline_that_had_passed_when_a_client_retried_the_job_does_not_count() {
    for again in [retry, revive] {
        let mut world = World::with_job_in(State::Running, |head| {
            with_retries(head);
            head.retry.attempts_max = 4;
        });
        world.pass(secs(5)).due();
        world.ask(again(1, 100));
        world.pass(secs(3600)).due();
        assert_eq!((world.job(1).state, world.job(1).deadline()), (State::Queued, None));
        world.ask(claim_as("q", 1, |claim| claim.start = true));
        assert_eq!(world.job(1).lease.as_ref().unwrap().timeout_at, None);
        world.ask(fail(1, 2));
        assert_eq!(world.job(1).state, State::Queued, "and it is retried as usual");
    }
    let mut world = World::with_job_in(State::Running, with_retries);
    world.ask(fail_as(1, 1, |error| error.retryable = Some(false)));
    world.pass(secs(1));
    world.ask(revive(1, 100));
    world.pass(secs(4)).due();
    assert_eq!(world.job(1).state, State::Canceled, "one still to come does");
}
