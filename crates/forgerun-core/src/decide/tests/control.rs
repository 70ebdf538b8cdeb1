//! Cancel, retry, activate, forget.

use std::vec;
use std::vec::Vec;

use super::events;
use crate::command::{Answer, Command, Refusal, Retry};
use crate::history::{EventKind, EventName};
use crate::id::ExecutionId;
use crate::job::{Cancellation, Conflict, Job, Lane, Unique};
use crate::limits;
use crate::state::{Cause, State};
use crate::world::World;
use crate::world::build::*;

#[test]
fn a_cancel_ends_every_job_that_has_not_ended() {
    for state in [State::Created, State::Queued, State::Assigned, State::Running] {
        let mut world = World::with_job_in(state, |_| {});
        let changes = world.apply(vec![cancel(1)]);
        let job = world.job(1);
        assert_eq!(job.state, State::Canceled);
        assert_eq!(job.cancel, Some(Cancellation { by: "user".into(), reason: "changed my mind".into() }));
        let event = events(&changes.journal)[0];
        let moved = matches!(event.kind, EventKind::Moved { from, cause: Cause::CancelByUser, .. } if from == Some(state));
        assert!(moved && event.name() == EventName::Canceled, "{event:?}");
        assert_eq!(changes.outcomes.len(), 1);
    }
}

#[test]
fn a_cancel_of_an_ended_job_tells_its_state_and_nothing_else_happens() {
    for state in [State::Succeeded, State::Failed, State::Canceled] {
        let mut world = World::with_job_in(state, |_| {});
        let changes = world.apply(vec![cancel(1), cancel(1)]);
        for answer in &changes.answers {
            assert!(matches!(answer, Answer::Unchanged(job) if job.state == state), "{answer:?}");
        }
        assert!(changes.is_empty() && changes.journal.is_empty());
    }
}

#[test]
fn a_cancel_of_an_execution_that_was_retried_leaves_the_newer_one_alone() {
    let mut world = World::with_job_in(State::Failed, |_| {});
    let before = world.job(1).execution;
    world.ask(retry(1, 77));
    let newer = world.job(1).execution;
    assert_ne!(newer, before);
    let cancel_of = |execution| {
        let crate::Command::Cancel(cancel) = cancel(1) else { unreachable!() };
        crate::Command::Cancel(crate::command::Cancel { execution: Some(execution), ..cancel })
    };
    let changes = world.apply(vec![cancel_of(before)]);
    assert!(matches!(&changes.answers[0], Answer::Unchanged(job) if job.execution == newer));
    assert!(changes.is_empty());
    world.ask(cancel_of(newer));
    assert_eq!(world.job(1).state, State::Canceled);
}

#[test]
fn a_worker_of_a_canceled_job_learns_it_from_whatever_it_reports() {
    let mut world = World::with_job_in(State::Running, |_| {});
    world.ask(cancel(1));
    for report in [extend(1, 1, None), succeed(1, 1), fail(1, 1), hand_back(1, 1)] {
        assert_eq!(word(&world.ask(report)), "canceled");
    }
    assert_eq!(world.job(1).state, State::Canceled);
}

#[test]
fn a_cancel_by_the_operator_is_told_as_the_systems() {
    let mut world = World::with_job_in(State::Queued, |_| {});
    let crate::Command::Cancel(mut by_operator) = cancel(1) else { unreachable!() };
    by_operator.owned.client = None;
    let changes = world.apply(vec![crate::Command::Cancel(by_operator)]);
    assert!(matches!(
        events(&changes.journal)[0].kind,
        EventKind::Moved { cause: Cause::CancelBySystem, .. }
    ));
}

#[test]
fn a_retry_opens_a_new_execution_of_the_same_job() {
    let mut world = World::with_job_in(State::Failed, |_| {});
    let changes = world.apply(vec![retry(1, 100)]);
    let job = world.job(1);
    assert_eq!((job.state, job.attempt, job.execution_n()), (State::Queued, 2, 2));
    assert_eq!(job.execution, ExecutionId::from_u128(100));
    assert_eq!(job.executions_past, [id(1).first_execution()]);
    assert_eq!(changes.executions, [(ExecutionId::from_u128(100), id(1))]);
    assert_eq!(job.available_at, Some(world.now + secs(1)), "after the wait of the policy");
    assert_eq!((job.finished_at, job.started_at, job.errors.len()), (None, None, 1));
}

#[test]
fn a_retry_leaves_the_outcome_of_the_execution_before_as_it_was() {
    let mut world = World::with_job_in(State::Failed, |_| {});
    let first = world.outcomes.clone();
    for (execution, attempt) in [(100, 2), (101, 3), (102, 4)] {
        world.ask(retry(1, execution));
        world.pass(secs(60)).due();
        world.fail_once(1, |_| {});
        assert_eq!(world.job(1).attempt, attempt);
    }
    assert_eq!(world.outcomes.len(), 4, "one per execution");
    assert_eq!(first.iter().next(), world.outcomes.iter().next());
}

#[test]
fn manual_retries_wait_longer_each_time() {
    let mut world = World::with_job_in(State::Failed, |_| {});
    let waits: Vec<u64> = [100, 101, 102]
        .into_iter()
        .map(|execution| {
            world.ask(retry(1, execution));
            let wait = world.job(1).available_at.unwrap().since(world.now);
            world.pass(wait).due();
            world.fail_once(1, |_| {});
            wait.as_secs()
        })
        .collect();
    assert_eq!(waits, [1, 2, 4]);
}

#[test]
fn three_retries_are_allowed_and_the_fourth_is_refused_without_an_event() {
    let mut world = World::with_job_in(State::Failed, |_| {});
    for execution in 100..103 {
        world.ask(retry(1, execution));
        world.pass(secs(60)).due();
        world.fail_once(1, |_| {});
    }
    let changes = world.apply(vec![retry(1, 103)]);
    assert!(matches!(changes.answers[0], Answer::Refused(Refusal::RetryLimitReached { attempts: 4 })));
    assert!(changes.is_empty());
    assert_eq!(world.job(1).state, State::Failed);
}

#[test]
fn repeating_a_retry_is_safe_while_its_execution_is_under_way() {
    let mut world = World::with_job_in(State::Failed, |_| {});
    let changes = world.apply(vec![retry(1, 100), retry(1, 101)]);
    assert!(matches!(changes.answers[1], Answer::Unchanged(_)), "in the same batch");
    for step in [None, Some(claim("q", 1)), Some(start(1, 2))] {
        world.pass(secs(1)).due();
        step.map(|step| world.ask(step));
        let changes = world.apply(vec![retry(1, 102)]);
        assert!(
            matches!(&changes.answers[0], Answer::Unchanged(job) if job.attempt == 2),
            "{:?}",
            world.job(1).state
        );
        assert!(changes.is_empty());
    }
    assert_eq!(world.job(1).state, State::Running);
}

#[test]
fn a_job_that_the_server_retries_by_itself_needs_no_retry_call() {
    let mut world = World::with_job_in(State::Running, auto);
    world.ask(fail(1, 1));
    assert!(matches!(world.ask(retry(1, 100)), Answer::Unchanged(_)));
}

#[test]
fn a_dead_letter_is_revived_with_a_full_budget_and_its_history() {
    let mut world = World::new();
    world.ask(submit([job(1, |head| {
        auto(head);
        head.retry.attempts_max = 2;
    })]));
    world.fail_once(1, |_| {});
    world.pass(secs(60)).due();
    world.fail_once(1, |_| {});
    assert_eq!(world.job(1).shelf().map(|shelf| shelf.lane), Some(Lane::Dead));
    assert_eq!(world.job(1).errors.len(), 2, "a dead letter shows its whole story");
    assert!(matches!(world.ask(retry(1, 100)), Answer::Refused(Refusal::RetryLimitReached { .. })));

    world.ask(revive(1, 100));
    let job = world.job(1);
    assert_eq!((job.state, job.attempt, job.dead_lettered_at), (State::Queued, 1, None));
    assert_eq!((job.last_error(), job.available_at), (None, None));
    let history =
        |job: &Job| job.errors.iter().map(|error| (error.execution, error.attempt)).collect::<Vec<_>>();
    assert_eq!(history(job), [(1, 1), (1, 2)], "the failures of the first execution");
    assert!(matches!(world.ask(revive(1, 101)), Answer::Unchanged(_)), "reviving twice is safe");
    world.ask(claim_as("q", 1, |claim| claim.start = true));
    assert_eq!((world.job(1).fence, world.job(1).attempt), (3, 1), "tokens go on where they were");
    assert_eq!(world.job(1).last_error(), None, "nothing has failed since");
    world.ask(fail_as(1, 3, |_| {}));
    assert_eq!(history(world.job(1)), [(1, 1), (1, 2), (2, 1)]);
}

#[test]
fn only_a_dead_letter_is_revived() {
    let only_dead = |n, execution| match revive(n, execution) {
        Command::Retry(retry) => Command::Retry(Retry { dead_letter: true, ..retry }),
        other => other,
    };
    let mut world = World::with_job_in(State::Failed, |_| {});
    assert_eq!(world.job(1).dead_lettered_at, None);
    assert_eq!(world.ask(only_dead(1, 100)), Answer::Refused(Refusal::NoDeadLetter));
    assert_eq!(word(&world.ask(revive(1, 100))), "Queued");
    let mut world = World::with_job_in(State::Running, |head| {
        auto(head);
        head.retry.attempts_max = 1;
    });
    world.ask(fail(1, 1));
    assert!(world.job(1).dead_lettered_at.is_some());
    assert_eq!(word(&world.ask(only_dead(1, 100))), "Queued");
}

#[test]
fn a_retry_is_refused_while_another_job_has_its_unique_key() {
    let unique = |head: &mut crate::job::Head| {
        let facets = Unique::UNFINISHED;
        head.unique = Some(Unique { key: [7; 32], facets, until: None, on_conflict: Conflict::Replace });
    };
    for again in [retry as fn(u128, u128) -> crate::Command, revive] {
        let mut world = World::with_job_in(State::Failed, unique);
        world.ask(submit([job(2, unique)]));
        let changes = world.apply(vec![again(1, 100)]);
        let taken = Refusal::Duplicate { existing: id(2), state: State::Queued, index: 0 };
        assert_eq!(changes.answers, [Answer::Refused(taken)], "it is not replaced, whatever the policy");
        assert!(changes.is_empty());
        world.ask(cancel(2));
        let changes = world.apply(vec![again(1, 100), submit([job(3, unique)])]);
        assert_eq!(word(&changes.answers[0]), "Queued");
        assert_eq!(changes.uniques.get(&[7; 32]), Some(&id(3)), "a newcomer replaces it as any other");
        assert_eq!(world.job(1).state, State::Canceled);
    }
    let mut alone = World::with_job_in(State::Failed, unique);
    let changes = alone.apply(vec![retry(1, 100)]);
    assert_eq!(
        (word(&changes.answers[0]).as_str(), changes.uniques.len()),
        ("Queued", 0),
        "it still holds it"
    );
}

#[test]
fn executions_are_bounded_and_the_last_failure_says_so() {
    let mut world = World::with_job_in(State::Failed, |head| head.retry.attempts_max = 1000);
    for execution in 0..limits::EXECUTIONS_MAX as u128 - 1 {
        assert_eq!(word(&world.ask(retry(1, 100 + execution))), "Queued");
        world.pass(secs(60)).due();
        world.fail_once(1, |_| {});
    }
    let last = events(&world.journal).last().unwrap().kind;
    assert!(
        matches!(last, EventKind::Moved { retry_status: crate::history::RetryStatus::Final, .. }),
        "{last:?}"
    );
    assert!(matches!(world.ask(retry(1, 999)), Answer::Refused(Refusal::RetryLimitReached { .. })));
    assert!(matches!(world.ask(revive(1, 999)), Answer::Refused(Refusal::RetryLimitReached { .. })));
}

#[test]
fn a_held_job_is_activated_now_or_at_its_time() {
    let mut world = World::new();
    let later = world.now + secs(60);
    world.ask(submit([
        job(1, |head| head.hold = true),
        job(2, |head| {
            head.hold = true;
            head.execution_at = Some(later);
        }),
    ]));
    world.pass(secs(30));
    assert_eq!(world.due(), 0, "a held job is not due");
    assert_eq!([1, 2].map(|n| word(&world.ask(activate(n)))), ["Queued", "Created"]);
    assert_eq!(word(&world.ask(activate(2))), "wrong state", "it is not held any more");
    world.pass(secs(30));
    assert_eq!(world.due(), 1);
    assert_eq!(world.job(2).state, State::Queued);
}

#[test]
fn a_forgotten_job_leaves_a_tombstone_per_execution_and_nothing_else() {
    let mut world = World::with_job_in(State::Failed, |_| {});
    world.ask(retry(1, 100));
    world.pass(secs(60)).due();
    world.fail_once(1, |_| {});
    world.ask(forget(1));
    assert!(world.jobs.is_empty() && world.outcomes.is_empty() && world.executions.is_empty());
    assert_eq!(world.tombstones, [id(1).first_execution(), ExecutionId::from_u128(100)].into());
    assert_eq!(word(&world.ask(cancel(1))), "NotFound");
}

#[test]
fn what_ends_and_is_forgotten_in_one_batch_leaves_no_outcome_behind() {
    let mut world = World::with_job_in(State::Running, |_| {});
    let changes = world.apply(vec![succeed(1, 1), forget(1), cancel(1)]);
    assert_eq!(word(&changes.answers[2]), "NotFound");
    assert!(world.outcomes.is_empty() && world.results.is_empty());
    world.apply(vec![submit([plain(2)]), cancel(2), forget(2)]);
    assert!(world.jobs.is_empty() && world.outcomes.is_empty());
}
