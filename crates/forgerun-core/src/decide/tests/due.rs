//! What time does: each kind of moment, when it comes and not before.

use std::vec;
use std::vec::Vec;

use super::events;
use crate::catalog::Kind;
use crate::command::{Answer, Command};
use crate::history::{Event, EventKind, EventName};
use crate::id::ClientId;
use crate::job::{Head, Name};
use crate::limits;
use crate::state::{Cause, State};
use crate::time::Time;
use crate::world::World;
use crate::world::build::*;

type Set = fn(&mut Head);

fn expires(head: &mut Head) {
    head.expires_at = Some(head.created_at + secs(5));
}

/// A job in a state, the moment at which something happens to it, and what.
#[test]
fn each_moment_does_its_work_when_it_comes_and_not_before() {
    use State::{Assigned, Canceled, Created, Failed, Queued, Running};
    let scheduled: Set = |head| {
        head.hold = false;
        head.execution_at = Some(head.created_at + secs(5));
    };
    let five: Set = |head| head.lease = Some(secs(5));
    let times_out: Set = |head| head.timeout = Some(secs(5));
    let table = [
        ("schedule", Created, scheduled, Queued, Cause::Due),
        ("expiry while held", Created, expires, Canceled, Cause::Expire),
        ("expiry in the queue", Queued, expires, Canceled, Cause::Expire),
        ("lease before the start", Assigned, five, Queued, Cause::LeaseExpired),
        ("lease while running", Running, five, Failed, Cause::RunnerLost),
        ("timeout", Running, times_out, Failed, Cause::Timeout),
    ];
    for (title, state, set, to, because) in table {
        let mut world = World::with_job_in(state, set);
        let due_at = world.job(1).due_at().unwrap();
        world.now = due_at - std::time::Duration::from_micros(1);
        let changes = world.apply(vec![Command::Due(9)]);
        assert!(changes.is_empty(), "{title}: not before");
        world.now = due_at;
        let changes = world.apply(vec![Command::Due(9)]);
        assert!(matches!(changes.answers[0], Answer::Due { n_jobs: 1, more: false, .. }), "{title}");
        let EventKind::Moved { cause, to: moved_to, .. } = events(&changes.journal)[0].kind else {
            panic!("{title}")
        };
        assert_eq!((moved_to, cause, world.job(1).state), (to, because, to), "{title}");
        assert_eq!(due_at.since(World::new().now).as_secs(), 5, "{title}");
    }
}

#[test]
fn a_job_expires_only_while_it_waits() {
    for state in [State::Assigned, State::Running] {
        let mut world = World::with_job_in(state, expires);
        world.pass(secs(6));
        assert_eq!(world.due(), 0, "a worker has {state:?} in time");
    }
    for state in [State::Succeeded, State::Failed, State::Canceled] {
        let mut world = World::with_job_in(state, expires);
        world.pass(secs(3600));
        assert_eq!((world.due(), world.job(1).state), (0, state));
    }
    let mut world = World::with_job_in(State::Assigned, expires);
    world.pass(secs(60));
    assert_eq!((world.due(), world.job(1).state), (1, State::Queued), "first the lost lease");
    assert_eq!((world.due(), world.job(1).state), (1, State::Canceled), "then the expiry");
}

#[test]
fn an_expired_job_is_canceled_by_the_system_for_that_reason() {
    let mut world = World::with_job_in(State::Queued, expires);
    world.pass(secs(5)).due();
    let cancel = world.job(1).cancel.as_ref().unwrap();
    assert_eq!((cancel.by.as_str(), cancel.reason.as_str()), ("system", "expired"));
}

#[test]
fn an_expiry_that_had_passed_when_somebody_retried_the_job_does_not_count() {
    for again in [retry, revive] {
        let mut world = World::with_job_in(State::Running, |head| {
            expires(head);
            auto(head);
            head.retry.attempts_max = 4;
        });
        world.ask(fail_as(1, 1, |error| error.retryable = Some(false)));
        world.pass(secs(5));
        world.ask(again(1, 100));
        world.pass(secs(3600)).due();
        assert_eq!((world.due(), world.job(1).state), (0, State::Queued), "it waits for a worker");
        world.fail_once(1, |_| {});
        world.pass(secs(3600)).due();
        assert_eq!((world.due(), world.job(1).state), (0, State::Queued), "so does what the server retries");
        assert_eq!(named(&world.ask(claim("q", 1))), ids([1]), "and a worker gets it");
        assert_eq!(world.job(1).expires_at(), None);
    }
}

#[test]
fn an_expiry_still_to_come_counts_for_a_job_that_was_retried() {
    for (title, ends_by_itself) in [("waiting", true), ("begun before, failed after", false)] {
        let mut world = World::with_job_in(State::Running, |head| {
            expires(head);
            auto(head);
        });
        world.ask(fail_as(1, 1, |error| error.retryable = Some(false)));
        world.pass(secs(1));
        world.ask(revive(1, 100));
        if ends_by_itself {
            world.pass(secs(4)).due();
        } else {
            world.ask(claim_as("q", 1, |claim| claim.start = true));
            world.pass(secs(5));
            world.ask(fail(1, 2));
            world.due();
        }
        assert_eq!((world.job(1).state, world.job(1).expired), (State::Canceled, true), "{title}");
    }
}

#[test]
fn a_retry_of_the_servers_own_is_too_late_after_the_expiry() {
    let mut world = World::with_job_in(State::Running, |head| {
        expires(head);
        auto(head);
    });
    world.pass(secs(6));
    world.ask(fail(1, 1));
    assert_eq!((world.due(), world.job(1).state), (1, State::Canceled));
    assert_eq!(world.job(1).errors.len(), 1, "why it was tried again stays to be read");
}

#[test]
fn moments_missed_during_downtime_are_done_on_return() {
    let mut world = World::new();
    let start_at = world.now + secs(60);
    world.ask(submit((1..=9).map(|n| job(n, |head| head.execution_at = Some(start_at)))));
    world.pass(secs(86_400));
    assert_eq!(world.due(), 9);
    assert_eq!(named(&world.ask(claim("q", 99))), ids(1..=9));
}

#[test]
fn a_scheduled_job_is_not_handed_out_before_its_time() {
    let mut world = World::new();
    let start_at = world.now + secs(60);
    world.ask(submit([job(1, |head| head.execution_at = Some(start_at))]));
    for _ in 0..60 {
        assert_eq!(world.due(), 0);
        assert_eq!(named(&world.ask(claim("q", 1))), ids([]));
        world.pass(secs(1));
    }
    world.due();
    assert_eq!(named(&world.ask(claim_as("q", 1, |claim| claim.start = true))), ids([1]));
    assert!(world.job(1).started_at >= Some(start_at));
}

#[test]
fn a_lost_runner_fails_the_job_for_a_client_to_retry() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.pass(secs(11)).due();
    let error = world.job(1).last_error().unwrap();
    assert_eq!(
        (world.job(1).state, error.kind, error.code.as_str()),
        (State::Failed, Kind::RunnerLost, "HANDLER_PANIC")
    );
    assert_eq!(word(&world.ask(succeed(1, 1))), "completed", "whoever comes back is too late");
    assert_eq!(word(&world.ask(retry(1, 100))), "Queued");
}

#[test]
fn a_lost_runner_is_replaced_at_once_in_automatic_mode() {
    let mut world = World::with_job_in(State::Running, auto);
    world.pass(secs(11));
    let changes = world.apply(vec![Command::Due(9)]);
    let names: Vec<EventName> = events(&changes.journal).iter().map(Event::name).collect();
    assert_eq!(names, [EventName::Failed, EventName::Queued], "never straight from RUNNING to QUEUED");
    assert_eq!((world.job(1).attempt, world.job(1).available_at), (2, None));
    assert_eq!(named(&world.ask(claim("q", 1))), ids([1]));
}

#[test]
fn a_timeout_waits_its_time_in_automatic_mode_and_is_told_as_a_timeout() {
    let mut world = World::with_job_in(State::Running, |head| {
        auto(head);
        head.timeout = Some(secs(5));
        head.retry.attempts_max = 2;
    });
    world.pass(secs(6)).due();
    assert_eq!((world.job(1).state, world.job(1).timed_out()), (State::Queued, false));
    assert_eq!(world.job(1).available_at, Some(world.now + secs(2)));
    world.pass(secs(2)).due();
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    world.pass(secs(6)).due();
    assert!(world.job(1).timed_out());
    assert_eq!(events(&world.journal).last().unwrap().name(), EventName::TimedOut);
    assert_eq!(world.job(1).last_error().unwrap().code, "HANDLER_TIMEOUT");
}

#[test]
fn extensions_keep_a_runner_but_do_not_stretch_its_timeout() {
    let mut world = World::with_job_in(State::Running, |head| head.timeout = Some(secs(25)));
    for _ in 0..4 {
        world.pass(secs(6));
        assert_eq!(world.due(), 0);
        world.ask(extend(1, 1, None));
    }
    world.pass(secs(6)).due();
    assert!(world.job(1).timed_out());
}

#[test]
fn a_lease_that_is_never_begun_comes_back_for_ever_without_costing_an_attempt() {
    let mut world = World::with_job_in(State::Queued, |_| {});
    for token in 1..=600 {
        world.ask(claim("q", 1));
        assert_eq!((world.job(1).fence, world.job(1).attempt), (token, 1));
        world.pass(secs(11)).due();
    }
    assert!(world.job(1).history.len() <= limits::EVENTS_MAX);
}

#[test]
fn an_ended_job_is_forgotten_after_its_retention() {
    for (retention, kept) in [(None, limits::RETENTION), (Some(secs(60)), secs(60))] {
        for state in [State::Succeeded, State::Failed, State::Canceled] {
            let mut world = World::with_job_in(state, |head| head.retention = retention);
            world.now = world.job(1).finished_at.unwrap() + kept - std::time::Duration::from_micros(1);
            assert_eq!(world.due(), 0);
            world.pass(std::time::Duration::from_micros(1)).due();
            assert!(world.jobs.is_empty());
        }
    }
}

#[test]
fn a_retried_job_is_not_forgotten_at_the_old_moment() {
    let mut world = World::with_job_in(State::Failed, |head| head.retention = Some(secs(60)));
    world.ask(retry(1, 100));
    world.pass(secs(3600)).due();
    assert_eq!(world.job(1).state, State::Queued);
}

#[test]
fn a_due_job_that_its_batch_changed_before_is_left_alone() {
    let check = |state: State, earlier: Command, expected: State| {
        let mut world = World::with_job_in(state, |_| {});
        world.pass(secs(11));
        let changes = world.apply(vec![earlier.clone(), Command::Due(9)]);
        assert!(matches!(changes.answers[1], Answer::Due { n_jobs: 0, .. }), "{earlier:?}");
        assert_eq!(world.job(1).state, expected);
    };
    check(State::Running, succeed(1, 1), State::Succeeded);
    check(State::Running, extend(1, 1, None), State::Running);
    check(State::Assigned, hand_back(1, 1), State::Queued);
    check(State::Assigned, cancel(1), State::Canceled);
    let mut world = World::with_job_in(State::Failed, |head| head.retention = Some(secs(60)));
    world.pass(secs(60));
    world.apply(vec![forget(1), Command::Due(9)]);
    assert!(world.jobs.is_empty());
}

#[test]
fn a_bite_is_bounded_and_says_whether_there_is_more() {
    let mut world = World::new();
    let start_at = world.now + secs(60);
    world.ask(submit((1..=600).map(|n| job(n, |head| head.execution_at = Some(start_at)))));
    world.pass(secs(60));
    let mut bites = |limit| match world.ask(Command::Due(limit)) {
        Answer::Due { n_jobs, more, .. } => (n_jobs, more),
        other => panic!("{other:?}"),
    };
    let most = limits::DUE_JOBS_MAX;
    assert_eq!(bites(10), (10, true));
    assert_eq!(bites(usize::MAX), (most, true));
    assert_eq!(bites(usize::MAX), (most, true));
    assert_eq!(bites(usize::MAX), (590 - 2 * most, false));
}

#[test]
fn two_bites_in_one_batch_share_the_work() {
    let mut world = World::new();
    let start_at = world.now + secs(60);
    world.ask(submit((1..=3).map(|n| job(n, |head| head.execution_at = Some(start_at)))));
    world.pass(secs(60));
    let changes = world.apply(vec![Command::Due(2), Command::Due(9)]);
    assert!(matches!(changes.answers[0], Answer::Due { n_jobs: 2, more: true, .. }));
    assert!(matches!(changes.answers[1], Answer::Due { n_jobs: 1, more: false, .. }));
}

#[test]
fn a_timeout_names_the_limit_its_value_and_where_it_was_set() {
    let own: Set = |head| head.timeout = Some(secs(5));
    let of_server: Set = |head| head.cap_timeout(secs(5));
    let simulated: Set = |head| {
        head.definition = Some(crate::work::Definition::of(crate::work::WorkKind::SuccessFast, 5_000));
        head.cap_timeout(secs(5));
    };
    for (set, place) in [
        (own, "the job's own `timeout`"),
        (of_server, "`exec.real_max_runtime_ms` of the server"),
        (simulated, "`exec.max_runtime_ms` of the server"),
    ] {
        let mut head = Head::new(ClientId::from_u128(1), Name::new("q").unwrap(), Time::ZERO);
        set(&mut head);
        let message = head.timeout_message(head.timeout.unwrap());
        assert_eq!(message, std::format!("the attempt ran longer than 5s, which is {place}"));
    }
    let mut short = Head::new(ClientId::from_u128(1), Name::new("q").unwrap(), Time::ZERO);
    short.timeout = Some(secs(2));
    short.cap_timeout(secs(5));
    assert_eq!((short.timeout, short.timeout_of_server), (Some(secs(2)), false), "the job's own is shorter");
}
