//! What is due, and when something will be.

use forgerun_core::command::{Claim, Command, NewJob};
use forgerun_core::id::JobId;
use forgerun_core::state::State;
use forgerun_core::time::Time;

use super::Fixture;
use super::harness::{accepted, ask, at_once, claimed, done, fold, n_due, run, the_one};
use super::make::{
    START, at, cancel, claim, execution, fail, forget, id, job, job_with, owned, patient, progress, retry,
    revive, secs, submit, submit_all, succeed, take,
};
use super::snapshot::{all_jobs, snapshot};

fn scheduled(n: u64, seconds: u64) -> NewJob {
    job_with(n, "q", |head| head.execution_at = Some(at(seconds)))
}

/// The longest due goes first, equal moments by age, never more than asked for, nothing before its time.
pub async fn what_is_due_happens_in_order_and_in_bites(fixture: &dyn Fixture) {
    let store = fixture.store();
    let jobs = vec![scheduled(1, 30), scheduled(2, 10), scheduled(3, 20), scheduled(4, 10), scheduled(5, 99)];
    accepted(ask(&store, START, submit_all(jobs)).await);
    assert_eq!(n_due(ask(&store, at(9), Command::Due(10)).await), 0);
    for (bite, order) in [(2, vec![2, 4]), (1, vec![3]), (5, vec![1])] {
        let end = store.journal_end().await.unwrap();
        assert_eq!(n_due(ask(&store, at(30), Command::Due(bite)).await), order.len());
        let rows = super::snapshot::all_rows(&store, end).await;
        let told: Vec<JobId> = rows.iter().flat_map(|row| row.job_events()).map(|(job, _)| job).collect();
        assert_eq!(told, order.into_iter().map(id).collect::<Vec<_>>());
    }
    assert_eq!(n_due(ask(&store, at(98), Command::Due(10)).await), 0);
    assert_eq!(store.next_due().await.unwrap(), Some(at(99)));
    snapshot(&store).await;
}

/// A retry wait ends, a lease runs out before and after the start, a job expires, an ended one is forgotten.
pub async fn everything_that_time_does_is_found_when_it_is_due(fixture: &dyn Fixture) {
    let store = fixture.store();
    let jobs = vec![
        job_with(1, "a", |head| head.retry = patient(3, secs(50))),
        job(2, "b"),
        job_with(3, "c", |head| head.retry = patient(3, secs(50))),
        job_with(4, "d", |head| head.expires_at = Some(at(40))),
        job_with(5, "e", |head| head.retention = Some(secs(100))),
        job_with(6, "f", |head| head.timeout = Some(secs(20))),
    ];
    accepted(ask(&store, START, submit_all(jobs)).await);
    let failing = the_one(ask(&store, at(1), take(&["a"], 1)).await);
    run(
        &store,
        at(2),
        vec![fail(&failing), Command::Claim(claim(&["b"], 1)), take(&["c", "f"], 2), cancel(5)],
    )
    .await;
    let states = async |now: Time, due: usize| -> Vec<State> {
        assert_eq!(n_due(ask(&store, now, Command::Due(100)).await), due, "at {now:?}");
        all_jobs(&store).await.values().map(|job| job.state).collect()
    };
    use State::{Assigned, Canceled, Failed, Queued, Running};
    assert_eq!(states(at(21), 0).await, [Queued, Assigned, Running, Queued, Canceled, Running]);
    assert_eq!(states(at(23), 1).await, [Queued, Assigned, Running, Queued, Canceled, Failed]);
    assert_eq!(states(at(33), 2).await, [Queued, Queued, Queued, Queued, Canceled, Failed]);
    assert_eq!(states(at(40), 1).await, [Queued, Queued, Queued, Canceled, Canceled, Failed]);
    assert_eq!(claimed(ask(&store, at(51), take(&["a"], 1)).await), []);
    assert_eq!(states(at(52), 1).await, [Queued, Queued, Queued, Canceled, Canceled, Failed]);
    assert_eq!(claimed(ask(&store, at(52), take(&["a"], 1)).await).len(), 1);
    assert_eq!(states(at(103), 2).await, [Queued, Queued, Queued, Canceled, Failed]);
    snapshot(&store).await;
}

/// The next moment follows every kind of change; the answer of the batch tells it too.
pub async fn the_next_moment_follows_every_change(fixture: &dyn Fixture) {
    let store = fixture.store();
    let ask = async |now: Time, command: Command, next: Option<Time>| {
        let answer = ask(&store, now, command).await;
        assert_eq!(store.next_due().await.unwrap(), next);
        assert_eq!(fixture.second().next_due().await.unwrap(), next);
        answer
    };
    let policy = patient(2, secs(5));
    let plain = job_with(1, "q", |head| head.retry = policy);
    ask(START, submit(plain), None).await;
    ask(START, submit(scheduled(2, 500)), Some(at(500))).await;
    let taken = the_one(ask(at(1), take(&["q"], 1), Some(at(31))).await);
    ask(at(10), progress(&taken, 10), Some(at(40))).await;
    ask(at(11), fail(&taken), Some(at(16))).await;
    ask(at(16), Command::Due(9), Some(at(500))).await;
    let taken = the_one(ask(at(20), take(&["q"], 1), Some(at(50))).await);
    // The failure is added to its group a second later.
    let dead = done(ask(at(21), fail(&taken), Some(at(22))).await);
    assert!(dead.dead_lettered_at.is_some());
    fold(&store, at(22)).await;
    assert_eq!(store.next_due().await.unwrap(), Some(at(500)));
    ask(at(22), cancel(2), dead.forget_at).await;
    let group_over = Some(at(21) + forgerun_core::limits::FAILURE_GROUP_KEEP);
    ask(at(23), revive(1, execution(1)), group_over).await;
    ask(at(24), forget(2), group_over).await;
    snapshot(&store).await;
}

/// A held job is due only when it expires; once released, when its time comes.
pub async fn a_held_job_is_not_due_before_it_is_activated(fixture: &dyn Fixture) {
    let store = fixture.store();
    let new = job_with(1, "q", |head| {
        head.hold = true;
        head.execution_at = Some(at(10));
        head.expires_at = Some(at(90));
    });
    accepted(ask(&store, START, submit(new)).await);
    assert_eq!(store.next_due().await.unwrap(), Some(at(90)));
    assert_eq!(n_due(ask(&store, at(50), Command::Due(9)).await), 0);
    done(ask(&store, at(5), Command::Activate(owned(1))).await);
    assert_eq!(store.next_due().await.unwrap(), Some(at(10)));
    assert_eq!(n_due(ask(&store, at(10), Command::Due(9)).await), 1);
    assert_eq!(store.job(id(1)).await.unwrap().expect("it exists").state, State::Queued);
    snapshot(&store).await;
}

/// Two nodes with timers of their own: everything happens once.
pub async fn two_nodes_do_what_is_due_exactly_once(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let n_jobs = 120;
    accepted(ask(&stores[0], START, submit_all((1..=n_jobs).map(|n| scheduled(n, n)).collect())).await);
    let counted = at_once(8, |task| {
        let store = stores[task as usize % 2].clone();
        async move {
            let (mut n_happened, mut empty) = (0, 0);
            while empty < 50 {
                let n_jobs = n_due(ask(&store, at(n_jobs), Command::Due(7)).await);
                empty = if n_jobs == 0 { empty + 1 } else { 0 };
                n_happened += n_jobs;
                tokio::task::yield_now().await;
            }
            n_happened
        }
    });
    assert_eq!(counted.await.into_iter().sum::<usize>() as u64, n_jobs);
    let snapshot = snapshot(&stores[0]).await;
    assert!(snapshot.jobs.values().all(|job| job.state == State::Queued && job.history.len() == 2));
}

/// A claim may end while the timer takes the job back: the worker is refused or the job is done, never both.
pub async fn a_lease_is_lost_or_its_work_is_done_never_both(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let n_jobs = 40;
    accepted(ask(&stores[0], START, submit_all((1..=n_jobs).map(|n| job(n, "q")).collect())).await);
    let short = Claim { lease: Some(secs(1)), start: true, ..claim(&["q"], n_jobs as usize) };
    let taken = claimed(ask(&stores[0], START, Command::Claim(short)).await);
    let succeeded = at_once(n_jobs + 4, |task| {
        let store = stores[task as usize % 2].clone();
        let job = taken.get(task as usize).cloned();
        async move {
            let Some(job) = job else {
                run(&store, at(2), vec![Command::Due(15)]).await;
                return None;
            };
            let answer = ask(&store, at(2), succeed(&job)).await;
            matches!(answer, forgerun_core::Answer::Done(_)).then_some(job.id)
        }
    });
    let mut succeeded: Vec<JobId> = succeeded.await.into_iter().flatten().collect();
    succeeded.sort();
    let snapshot = snapshot(&stores[0]).await;
    let ended_well = snapshot.jobs.values().filter(|job| job.state == State::Succeeded);
    assert_eq!(succeeded, ended_well.map(|job| job.id).collect::<Vec<_>>());
}

/// A manual retry with a wait is scheduled; nobody gets it before.
pub async fn a_manual_retry_waits_its_turn(fixture: &dyn Fixture) {
    let store = fixture.store();
    let policy = forgerun_core::retry::RetryPolicy {
        mode: forgerun_core::retry::Mode::Manual,
        ..patient(3, secs(60))
    };
    accepted(ask(&store, START, submit(job_with(1, "q", |head| head.retry = policy))).await);
    let taken = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    assert_eq!(done(ask(&store, at(2), fail(&taken)).await).state, State::Failed);
    done(ask(&store, at(3), retry(1, execution(1))).await);
    fold(&store, at(3)).await;
    assert_eq!(claimed(ask(&store, at(62), take(&["q"], 1)).await), []);
    assert_eq!(store.next_due().await.unwrap(), Some(at(63)));
    assert_eq!(n_due(ask(&store, at(63), Command::Due(1)).await), 1);
    assert_eq!(the_one(ask(&store, at(64), take(&["q"], 1)).await).attempt, 2);
    snapshot(&store).await;
}
