//! Idempotency keys and unique keys: decided in the transaction that writes the job, so that fifty equal requests at
//! once make one.

use std::collections::BTreeSet;

use forgerun_core::command::{Answer, Command, NewJob, Refusal};
use forgerun_core::id::JobId;
use forgerun_core::job::{Conflict, IdempotencyKey, Job};
use forgerun_core::state::State;

use super::Fixture;
use super::harness::{accepted, ask, at_once, done, existing, refused, run, the_one};
use super::make::{
    START, at, cancel, client, execution, fail, forget, id, job, job_with, revive, submit, submit_keyed,
    submit_once, succeed, take, unique,
};
use super::snapshot::snapshot;

/// Fifty equal requests through two nodes: one job, and everybody is told of it.
pub async fn fifty_equal_requests_make_one_job(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let answers = at_once(50, |n| {
        let store = stores[n as usize % 2].clone();
        async move { ask(&store, START, submit_once(job(n + 1, "q"), "key", 1)).await }
    });
    let (mut n_new, mut told) = (0, BTreeSet::new());
    for answer in answers.await {
        match answer {
            Answer::Submitted { jobs, existing } => {
                n_new += usize::from(!existing);
                told.extend(jobs.iter().map(|job| job.id));
                assert_eq!(jobs.len(), 1);
            }
            other => panic!("not answered with a job: {other:?}"),
        }
    }
    let snapshot = snapshot(&stores[0]).await;
    assert_eq!(n_new, 1, "one of the fifty was the first");
    assert_eq!(told, snapshot.jobs.keys().copied().collect());
    assert_eq!((snapshot.jobs.len(), snapshot.inputs.len(), snapshot.journal.len()), (1, 1, 1));
}

/// The same key for something else is refused, now and after the job has ended.
pub async fn a_key_used_for_another_request_is_refused(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_once(job(1, "q"), "key", 1)).await);
    let conflict = Refusal::IdempotencyConflict(id(1));
    assert_eq!(refused(ask(&store, at(1), submit_once(job(2, "q"), "key", 2)).await), conflict);
    let taken = the_one(ask(&store, at(2), take(&["q"], 1)).await);
    let ended = done(ask(&store, at(3), succeed(&taken)).await);
    assert_eq!(refused(ask(&fixture.second(), at(4), submit_once(job(3, "q"), "key", 3)).await), conflict);
    assert_eq!(existing(ask(&fixture.second(), at(5), submit_once(job(4, "q"), "key", 1)).await), [ended]);
    assert_eq!(snapshot(&store).await.jobs.len(), 1);
}

/// Keys meet only where client, operation and key are all the same, to the byte.
pub async fn keys_of_different_clients_and_operations_never_meet(fixture: &dyn Fixture) {
    let store = fixture.store();
    let key = |n, operation: &str, key: &str| IdempotencyKey {
        client: client(n),
        operation: operation.into(),
        key: key.into(),
    };
    let keys = [
        key(1, "submit", "k"),
        key(2, "submit", "k"),
        key(1, "retry", "k"),
        key(1, "submit", "K"),
        key(1, "submit", "k "),
        key(1, "submit", ""),
        key(1, "submitk", ""),
        key(1, "submi", "tk"),
        key(1, "submit", "k\u{301}"),
        key(1, "submit", "'; --"),
    ];
    for (n, key) in (1..).zip(&keys) {
        accepted(ask(&store, START, submit_keyed(of(n, key), key.clone(), 1)).await);
    }
    for (n, key) in (1..).zip(&keys) {
        let again = existing(ask(&store, at(1), submit_keyed(of(100 + n, key), key.clone(), 1)).await);
        assert_eq!(again.iter().map(|job| job.id).collect::<Vec<_>>(), [id(n)], "{key:?}");
    }
    assert_eq!(snapshot(&store).await.jobs.len(), keys.len());
}

fn of(n: u64, key: &IdempotencyKey) -> NewJob {
    job_with(n, "q", |head| head.client = key.client)
}

/// One submission of three jobs under one key, which the first of them carries.
fn three_once(first: u64) -> Command {
    let Command::Submit(mut submit) = submit_once(job(first, "q"), "key", 1) else { unreachable!() };
    submit.jobs.extend([job(first + 1, "p"), job(first + 2, "q")]);
    Command::Submit(submit)
}

/// One key may stand for several jobs; a repetition gets all of them, in order.
pub async fn a_repeated_submission_of_several_jobs_gets_them_all(fixture: &dyn Fixture) {
    let store = fixture.store();
    let born = accepted(ask(&store, START, three_once(1)).await);
    assert_eq!(existing(ask(&fixture.second(), at(1), three_once(11)).await), born);
    assert_eq!(snapshot(&store).await.jobs.len(), 3);
}

/// One of several jobs may be forgotten before the others; a repetition gets those that are left.
pub async fn a_repeated_submission_gets_what_is_left_of_its_jobs(fixture: &dyn Fixture) {
    let store = fixture.store();
    let born = accepted(ask(&store, START, three_once(1)).await);
    run(&store, at(1), vec![cancel(2), forget(2)]).await;
    let left = existing(ask(&fixture.second(), at(2), three_once(11)).await);
    assert_eq!(left, [born[0].clone(), born[2].clone()]);
    assert_eq!(snapshot(&store).await.jobs.len(), 2);
}

/// A key that was answered with a job of somebody else's making does not go with that job, but stands for nothing then.
pub async fn a_key_whose_job_is_gone_counts_as_unused(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(rival(1, Conflict::Reject))).await);
    assert_eq!(
        existing(ask(&store, at(1), submit_once(rival(2, Conflict::Ignore), "key", 1)).await)[0].id,
        id(1)
    );
    assert_eq!(existing(ask(&store, at(2), submit_once(job(3, "q"), "key", 1)).await)[0].id, id(1));
    run(&store, at(3), vec![cancel(1)]).await;
    run(&store, at(4), vec![forget(1)]).await;
    assert_eq!(accepted(ask(&store, at(5), submit_once(job(4, "q"), "key", 2)).await)[0].id, id(4));
    assert_eq!(
        existing(ask(&fixture.second(), at(6), submit_once(job(5, "q"), "key", 2)).await)[0].id,
        id(4)
    );
    assert_eq!(snapshot(&store).await.jobs.keys().copied().collect::<Vec<_>>(), [id(4)]);
}

fn rival(n: u64, on_conflict: Conflict) -> NewJob {
    job_with(n, "q", |head| head.unique = Some(unique(1, on_conflict)))
}

/// Fifty jobs with one unique key at once: one is born, the others are refused with its id.
pub async fn fifty_unique_jobs_at_once_leave_one_and_refuse_the_rest(fixture: &dyn Fixture) {
    let answers = fifty_at_once(fixture, Conflict::Reject).await;
    let (born, rest): (Vec<Answer>, Vec<Answer>) =
        answers.into_iter().partition(|answer| matches!(answer, Answer::Submitted { .. }));
    let [born] = born.try_into().expect("exactly one is born");
    let winner = accepted(born)[0].id;
    for answer in rest {
        assert_eq!(refused(answer), Refusal::Duplicate { existing: winner, state: State::Queued, index: 0 });
    }
    let snapshot = snapshot(&fixture.store()).await;
    assert_eq!(snapshot.jobs.keys().copied().collect::<Vec<_>>(), [winner]);
}

/// Fifty jobs with one unique key at once, which do not mind: one is born, the others are answered with it.
pub async fn fifty_unique_jobs_at_once_are_answered_with_the_one(fixture: &dyn Fixture) {
    let answers = fifty_at_once(fixture, Conflict::Ignore).await;
    let told: BTreeSet<JobId> = answers
        .into_iter()
        .map(|answer| match answer {
            Answer::Submitted { jobs, .. } => jobs[0].id,
            other => panic!("not answered with a job: {other:?}"),
        })
        .collect();
    assert_eq!(told, snapshot(&fixture.store()).await.jobs.keys().copied().collect());
    assert_eq!(told.len(), 1);
}

/// Fifty jobs with one unique key at once, each replacing the one before: one is left standing.
pub async fn fifty_unique_jobs_that_replace_each_other_leave_one_standing(fixture: &dyn Fixture) {
    for answer in fifty_at_once(fixture, Conflict::Replace).await {
        accepted(answer);
    }
    let snapshot = snapshot(&fixture.store()).await;
    assert_eq!(snapshot.jobs.len(), 50);
    let standing: Vec<&Job> = snapshot.jobs.values().filter(|job| job.state == State::Queued).collect();
    let [last] = standing[..] else { panic!("one is left standing, not {}", standing.len()) };
    let answer = ask(&fixture.second(), at(1), submit(rival(99, Conflict::Reject))).await;
    assert_eq!(refused(answer), Refusal::Duplicate { existing: last.id, state: State::Queued, index: 0 });
}

async fn fifty_at_once(fixture: &dyn Fixture, on_conflict: Conflict) -> Vec<Answer> {
    let stores = [fixture.store(), fixture.second()];
    let answers = at_once(50, |n| {
        let store = stores[n as usize % 2].clone();
        async move { ask(&store, START, submit(rival(n + 1, on_conflict))).await }
    });
    answers.await
}

/// An id that the client chose, fifty times at once.
pub async fn fifty_jobs_with_one_given_id_make_one(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let answers = at_once(50, |n| {
        let store = stores[n as usize % 2].clone();
        let given = NewJob { id_given: true, ..job(1, "q") };
        async move { ask(&store, START, submit(given)).await }
    });
    let taken = Refusal::Duplicate { existing: id(1), state: State::Queued, index: 0 };
    let (born, rest): (Vec<Answer>, Vec<Answer>) =
        answers.await.into_iter().partition(|answer| matches!(answer, Answer::Submitted { .. }));
    assert_eq!(born.len(), 1);
    assert!(rest.into_iter().all(|answer| refused(answer) == taken));
    snapshot(&stores[0]).await;
}

/// An ended holder no longer blocks, and a newcomer takes the key over.
pub async fn a_unique_key_passes_to_the_next_once_its_holder_has_ended(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    accepted(ask(&store, START, submit(rival(1, Conflict::Reject))).await);
    run(&store, at(1), vec![cancel(1)]).await;
    accepted(ask(&second, at(2), submit(rival(2, Conflict::Reject))).await);
    let answer = ask(&store, at(3), submit(rival(3, Conflict::Reject))).await;
    assert_eq!(refused(answer), Refusal::Duplicate { existing: id(2), state: State::Queued, index: 0 });
    snapshot(&store).await;
}

/// A failed job that is retried holds its key again, unless another holds it by then: also of two that are retried at once.
pub async fn a_retry_asks_for_the_unique_key_again(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let store = &stores[0];
    for n in [1, 2] {
        accepted(ask(store, START, submit(rival(n, Conflict::Reject))).await);
        let taken = the_one(ask(store, at(n), take(&["q"], 1)).await);
        assert_eq!(done(ask(store, at(n), fail(&taken)).await).state, State::Failed);
    }
    let answers = at_once(2, |n| {
        let store = stores[n as usize].clone();
        async move { ask(&store, at(5), revive(n + 1, execution(n + 1))).await }
    });
    let (back, refusals): (Vec<Answer>, Vec<Answer>) =
        answers.await.into_iter().partition(|answer| matches!(answer, Answer::Done(_)));
    assert_eq!((back.len(), refusals.len()), (1, 1), "{back:?} {refusals:?}");
    let winner = back.into_iter().map(done).next().unwrap().id;
    let taken = || Refusal::Duplicate { existing: winner, state: State::Queued, index: 0 };
    assert_eq!(refusals.into_iter().map(refused).next().unwrap(), taken());
    assert_eq!(refused(ask(store, at(6), submit(rival(3, Conflict::Reject))).await), taken());
    snapshot(store).await;
}

/// Forgetting a former holder does not release the key of the present one; forgetting the present one does.
pub async fn a_unique_key_is_released_only_by_its_holder(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(rival(1, Conflict::Reject))).await);
    run(&store, at(1), vec![cancel(1), submit(rival(2, Conflict::Reject)), forget(1)]).await;
    let answer = ask(&store, at(2), submit(rival(3, Conflict::Reject))).await;
    assert_eq!(refused(answer), Refusal::Duplicate { existing: id(2), state: State::Queued, index: 0 });
    run(&store, at(3), vec![cancel(2)]).await;
    run(&store, at(4), vec![forget(2)]).await;
    accepted(ask(&store, at(5), submit(rival(4, Conflict::Reject))).await);
    assert_eq!(snapshot(&store).await.jobs.keys().copied().collect::<Vec<_>>(), [id(4)]);
}

/// A forgotten job takes its idempotency key with it, and the key can be used again, even in the same batch.
pub async fn a_key_is_usable_again_once_its_job_is_forgotten(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_once(job(1, "q"), "key", 1)).await);
    run(&store, at(1), vec![cancel(1)]).await;
    run(&store, at(2), vec![forget(1)]).await;
    accepted(ask(&store, at(3), submit_once(job(2, "q"), "key", 2)).await);
    let commands = vec![cancel(2), forget(2), submit_once(job(3, "q"), "key", 3)];
    let again = run(&store, at(4), commands).await.pop().expect("three answers");
    assert_eq!(accepted(again)[0].id, id(3));
    let repeated = existing(ask(&fixture.second(), at(5), submit_once(job(4, "q"), "key", 3)).await);
    assert_eq!(repeated[0].id, id(3), "the key stands for the newest job");
    assert_eq!(snapshot(&store).await.jobs.keys().copied().collect::<Vec<_>>(), [id(3)]);
}
