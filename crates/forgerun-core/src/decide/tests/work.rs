//! What the holder of a job reports: fencing, signs of life, success, failure with its policies,
//! hand-back.

use std::string::String;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use super::events;
use crate::catalog::Kind;
use crate::command::{Answer, Command, Content, Extend, HeldJob, LeaseProof, Note, Snooze, WorkError};
use crate::history::{Event, EventKind, EventName, RetryStatus};
use crate::job::Head;
use crate::limits;
use crate::retry::{Exhaustion, RetryVerdict};
use crate::state::{Cause, State};
use crate::world::World;
use crate::world::build::*;

#[test]
fn a_stale_token_is_refused_whatever_it_reports() {
    let mut world = World::with_job_in(State::Assigned, |_| {});
    world.pass(secs(11)).due();
    world.ask(claim_as("q", 1, |claim| claim.worker = name("second")));
    for running in [false, true] {
        for report in [
            start(1, 1),
            extend(1, 1, Some(secs(99))),
            progress(1, 1, 50),
            succeed(1, 1),
            fail(1, 1),
            hand_back(1, 1),
        ] {
            let changes = world.apply(vec![report.clone()]);
            assert_eq!(word(&changes.answers[0]), "LeaseLost", "{report:?}, running: {running}");
            assert!(changes.is_empty(), "{report:?}");
        }
        world.ask(start(1, 2));
    }
    assert_eq!(word(&world.ask(succeed(1, 2))), "Succeeded");
    assert_eq!(word(&world.ask(succeed(1, 1))), "LeaseLost");
}

#[test]
fn a_holder_is_known_by_token_or_by_name_or_not_at_all() {
    let check = |proof: LeaseProof, expected: &str| {
        let mut world = World::with_job_in(State::Assigned, |_| {});
        assert_eq!(
            word(&world.ask(Command::Start(HeldJob { job: id(1), proof: proof.clone(), client: None }))),
            expected,
            "{proof:?}"
        );
    };
    check(LeaseProof::Token(1), "Running");
    check(LeaseProof::Token(0), "LeaseLost");
    check(LeaseProof::Token(2), "LeaseLost");
    check(LeaseProof::Worker(name("w")), "Running");
    check(LeaseProof::Worker(name("other")), "LeaseLost");
    check(LeaseProof::Anyone, "Running");
}

#[test]
fn a_lease_that_ran_out_still_counts_until_it_is_taken_back() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.pass(secs(3600));
    assert_eq!(word(&world.ask(succeed(1, 1))), "Succeeded");
}

#[test]
fn an_extension_lengthens_a_lease_and_never_shortens_it() {
    let check = |after: u64, lease: Option<Duration>, ends_at: u64| {
        let mut world = World::with_job_in(State::Running, |_| {});
        let end = |world: &World| world.job(1).lease.as_ref().unwrap().until;
        let (begin, first_end) = (world.now, end(&world));
        world.pass(secs(after));
        world.ask(extend(1, 1, lease));
        assert_eq!(end(&world), first_end.max(begin + secs(ends_at)), "{lease:?} after {after} s");
    };
    check(5, None, 15);
    check(5, Some(secs(100)), 105);
    check(5, Some(secs(1)), 0);
    check(0, Some(Duration::ZERO), 0);
}

#[test]
fn progress_is_told_never_falls_and_ends_at_a_hundred() {
    let mut world = World::with_job_in(State::Running, |_| {});
    for (reported, expected) in [(30, 30), (20, 30), (99, 99), (200, 100), (0, 100)] {
        let changes = world.apply(vec![progress(1, 1, reported)]);
        assert_eq!(world.job(1).progress, Some(expected));
        assert_eq!(events(&changes.journal)[0].kind, EventKind::Progress(expected));
    }
    assert_eq!(world.job(1).message.as_deref(), Some("0 done"));
    assert_eq!(world.job(1).history.len(), 4, "progress is no change of state");
}

#[test]
fn progress_begins_anew_with_each_attempt_and_before_it_there_is_none() {
    let mut world = World::with_job_in(State::Assigned, auto);
    world.ask(progress(1, 1, 30));
    assert_eq!(world.job(1).progress, None);
    world.ask(start(1, 1));
    world.ask(progress(1, 1, 80));
    world.ask(fail(1, 1));
    world.pass(secs(2)).due();
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    assert_eq!(world.job(1).progress, None);
}

#[test]
fn a_notification_is_told_without_a_change_of_state() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let held = HeldJob { job: id(1), proof: LeaseProof::Token(1), client: None };
    let changes = world.apply(vec![Command::Extend(Extend { held, lease: None, note: Some(Note::Emitted) })]);
    assert_eq!(events(&changes.journal)[0].name(), EventName::Emitted);
    assert_eq!(world.job(1).state, State::Running);
}

#[test]
fn a_success_ends_the_execution_with_outcome_and_output() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let changes = world.apply(vec![succeed(1, 1)]);
    let job = world.job(1);
    assert_eq!((job.finished_at, job.lease.is_none()), (Some(job.updated_at), true));
    assert_eq!(changes.outcomes[0].execution, job.execution);
    assert_eq!(changes.results[0].output.content, Content::Inline(b"done".to_vec()));
}

/// What a failed attempt leads to: mode, attempt of four, and what the worker said → state, outlook, dead letter.
#[test]
fn a_failure_goes_on_as_mode_verdict_kind_and_budget_say() {
    use RetryStatus::{Final, Open, WillRetry};
    use State::{Failed, Queued};
    let manual: fn(&mut Head) = |_| {};
    let auto: fn(&mut Head) = auto;
    let nothing: fn(&mut WorkError) = |_| {};
    let hopeless: fn(&mut WorkError) = |error| error.kind = Kind::HandlerError;
    let told_hopeless: fn(&mut WorkError) = |error| error.retryable = Some(false);
    let retry: fn(&mut WorkError) = |error| {
        error.kind = Kind::HandlerError;
        error.verdict = Some(RetryVerdict::Retry);
    };
    let discard: fn(&mut WorkError) = |error| error.verdict = Some(RetryVerdict::Discard);
    let dead_letter: fn(&mut WorkError) = |error| error.verdict = Some(RetryVerdict::DeadLetter);
    let table = [
        ("manual", manual, 1, nothing, Failed, Open, false),
        ("manual, asked to retry", manual, 1, retry, Failed, Open, false),
        ("manual, discarded", manual, 1, discard, Failed, Open, false),
        ("manual, dead letter", manual, 1, dead_letter, Failed, Open, true),
        ("auto", auto, 1, nothing, Queued, WillRetry, false),
        ("auto, third", auto, 3, nothing, Queued, WillRetry, false),
        ("auto, last", auto, 4, nothing, Failed, Final, true),
        ("auto, not worth it", auto, 1, hopeless, Failed, Open, false),
        ("auto, told not worth it", auto, 1, told_hopeless, Failed, Open, false),
        ("auto, asked to retry", auto, 1, retry, Queued, WillRetry, false),
        ("auto, asked to retry, last", auto, 4, retry, Failed, Final, true),
        ("auto, discarded", auto, 1, discard, Failed, Open, false),
        ("auto, discarded, last", auto, 4, discard, Failed, Final, false),
        ("auto, dead letter", auto, 1, dead_letter, Failed, Open, true),
    ];
    for (title, policy, attempt, said, state, retry_status, dead) in table {
        let mut world = World::with_job_in(State::Running, policy);
        for token in 1..attempt {
            world.ask(fail(1, token));
            world.pass(secs(60)).due();
            world.ask(claim_as("q", 1, |claim| claim.start = true));
        }
        let changes = world.apply(vec![fail_as(1, attempt, said)]);
        let EventKind::Moved { retry_status: told, cause, .. } = events(&changes.journal)[0].kind else {
            panic!("{title}")
        };
        let job = world.job(1);
        assert_eq!((job.state, told, cause), (state, retry_status, Cause::Fail), "{title}");
        assert_eq!(job.dead_lettered_at, dead.then_some(job.updated_at), "{title}");
        assert_eq!(
            changes.outcomes.len(),
            usize::from(state == Failed),
            "{title}: only the end has an outcome"
        );
        assert_eq!(job.attempt, attempt as u32 + u32::from(state == Queued), "{title}");
    }
}

#[test]
fn the_last_manual_attempt_is_told_as_final() {
    let mut world = World::with_job_in(State::Failed, |head| head.retry.attempts_max = 2);
    world.ask(retry(1, 100));
    world.pass(secs(60)).due();
    world.fail_once(1, |_| {});
    let last = *events(&world.journal).last().unwrap();
    assert!(matches!(last.kind, EventKind::Moved { retry_status: RetryStatus::Final, .. }));
    assert_eq!((last.attempt, last.execution), (2, 2));
}

#[test]
fn automatic_retries_wait_longer_each_time_within_one_execution() {
    let mut world = World::new();
    world.ask(submit([job(1, auto)]));
    for (attempt, wait) in [(1, 2), (2, 4), (3, 8)] {
        world.fail_once(1, |_| {});
        assert_eq!(world.job(1).attempt, attempt + 1);
        assert_eq!(world.job(1).available_at, Some(world.now + secs(wait)));
        assert_eq!(named(&world.ask(claim("q", 1))), ids([]), "not before its time");
        world.pass(secs(wait)).due();
    }
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    world.ask(succeed(1, 4));
    assert_eq!((world.outcomes.len(), world.job(1).errors.len()), (1, 3));
}

#[test]
fn an_error_is_kept_with_attempt_time_code_and_class() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.ask(fail_as(1, 1, |error| {
        error.code = "card.declined".into();
        error.class = Some("Declined".into());
        error.details = b"{}".to_vec();
    }));
    let job = world.job(1);
    let error = job.last_error().unwrap();
    assert_eq!((error.attempt, error.at), (1, job.finished_at.unwrap()));
    assert_eq!((error.code.as_str(), error.class.as_deref()), ("card.declined", Some("Declined")));
    assert_eq!(
        (error.message.as_str(), error.kind, error.retryable),
        ("it broke", Kind::HandlerTransient, true)
    );
    assert_eq!(error.details, b"{}");
}

#[test]
fn the_newest_errors_are_kept_in_order() {
    let mut world = World::new();
    world.ask(submit([job(1, |head| {
        auto(head);
        head.retry.attempts_max = 100;
    })]));
    for _ in 0..20 {
        world.fail_once(1, |_| {});
        world.pass(secs(60)).due();
    }
    let attempts: Vec<u32> = world.job(1).errors.iter().map(|error| error.attempt).collect();
    assert_eq!(attempts, (20 - limits::ERRORS_MAX as u32 + 1..=20).collect::<Vec<_>>());
    const { assert!(limits::ERRORS_MAX >= 10, "OJS asks for ten") };
}

#[test]
fn long_texts_are_cut_between_characters() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.ask(fail_as(1, 1, |error| error.message = "ä".repeat(limits::TEXT_BYTES_MAX)));
    assert_eq!(world.job(1).errors[0].message.len(), limits::TEXT_BYTES_MAX);
}

/// What the policy lists, and what the worker or the server said → whether the list ended the job, and the kind kept.
#[test]
fn errors_that_the_policy_lists_are_not_retried() {
    let check = |listed: &str, said: fn(&mut WorkError), state: State, kind: Kind| {
        let mut world = World::with_job_in(State::Running, |head| {
            auto(head);
            head.retry.non_retryable = vec![String::from(listed)];
        });
        world.ask(fail_as(1, 1, said));
        let job = world.job(1);
        let error = job.last_error().unwrap();
        assert_eq!((job.state, error.kind), (state, kind), "{listed}");
        assert_eq!(error.retryable, state == State::Queued, "{listed}");
        assert_eq!(job.attempt, if state == State::Queued { 2 } else { 1 });
    };
    let gone: fn(&mut WorkError) = |error| error.class = Some("Gone".into());
    let nothing: fn(&mut WorkError) = |_| {};
    check("Gone", gone, State::Failed, Kind::NonRetryable);
    check("Away", gone, State::Queued, Kind::HandlerTransient);
    check("HANDLER_ERROR", nothing, State::Failed, Kind::NonRetryable);
    check("HANDLER_TIMEOUT", |error| error.kind = Kind::HandlerTimeout, State::Failed, Kind::HandlerTimeout);
    check("Gone", |error| error.verdict = Some(RetryVerdict::Discard), State::Failed, Kind::NonRetryable);
    check("Gone", |error| error.verdict = Some(RetryVerdict::DeadLetter), State::Failed, Kind::NonRetryable);
    check(
        "HANDLER_ERROR",
        |error| error.verdict = Some(RetryVerdict::Retry),
        State::Queued,
        Kind::HandlerTransient,
    );
}

#[test]
fn a_discarded_exhaustion_leaves_no_dead_letter() {
    let mut world = World::with_job_in(State::Running, |head| {
        auto(head);
        head.retry.attempts_max = 1;
        head.retry.on_exhaustion = Exhaustion::Discard;
    });
    world.ask(fail(1, 1));
    assert_eq!((world.job(1).state, world.job(1).dead_lettered_at), (State::Failed, None));
}

#[test]
fn a_timeout_that_the_worker_reports_is_told_as_one() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let changes = world.apply(vec![fail_as(1, 1, |error| error.kind = Kind::HandlerTimeout)]);
    assert_eq!(events(&changes.journal)[0].name(), EventName::TimedOut);
    assert!(world.job(1).timed_out());
}

#[test]
fn handing_back_costs_no_attempt_and_no_time() {
    for state in [State::Assigned, State::Running] {
        let mut world = World::with_job_in(state, |_| {});
        let changes = world.apply(vec![hand_back(1, 1)]);
        let job = world.job(1);
        assert_eq!((job.state, job.attempt, job.available_at), (State::Queued, 1, None));
        assert!(job.errors.is_empty() && changes.outcomes.is_empty());
        let names: Vec<EventName> = events(&changes.journal).iter().map(Event::name).collect();
        let expected: &[EventName] = if state == State::Running {
            &[EventName::Failed, EventName::Queued]
        } else {
            &[EventName::Requeued]
        };
        assert_eq!(names, expected);
        assert_eq!(named(&world.ask(claim("q", 1))), ids([1]), "another worker has it at once");
    }
}

#[test]
fn a_snoozed_job_comes_back_after_its_delay_and_costs_no_attempt() {
    for state in [State::Assigned, State::Running] {
        let mut world = World::with_job_in(state, |_| {});
        let Command::HandBack(held) = hand_back(1, 1) else { panic!() };
        world.ask(Command::Snooze(Snooze { held, delay: Duration::from_secs(60), until_signal: None }));
        let job = world.job(1);
        assert_eq!((job.state, job.attempt), (State::Queued, 1));
        assert_eq!(job.due_at(), Some(world.now + Duration::from_secs(60)), "{state:?}");
        assert_eq!(named(&world.ask(claim("q", 1))), ids([]), "{state:?}");
        world.pass(secs(60)).due();
        assert_eq!(named(&world.ask(claim("q", 1))), ids([1]), "{state:?}");
    }
}

#[test]
fn of_a_cancel_and_a_success_only_the_first_wins() {
    let ends = [cancel(1), succeed(1, 1), fail(1, 1)];
    for first in &ends {
        for second in &ends {
            let mut world = World::with_job_in(State::Running, |_| {});
            let changes = world.apply(vec![first.clone(), second.clone()]);
            assert!(matches!(changes.answers[0], Answer::Done(_)));
            assert!(!matches!(changes.answers[1], Answer::Done(_)));
            assert_eq!(
                (changes.journal.len(), changes.outcomes.len()),
                (1, 1),
                "one end, one event, one outcome"
            );
        }
    }
}
