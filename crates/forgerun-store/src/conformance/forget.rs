//! Forgetting: what goes, what is left, and how the leftovers are swept.

use forgerun_core::command::{Answer, Command};
use forgerun_core::job::Conflict;
use forgerun_core::time::Time;

use super::Fixture;
use super::harness::{accepted, ask, done, n_due, run, the_one};
use super::make::{
    START, at, cancel, client, execution, fail, forget, id, job, job_with, patient, revive, secs, submit,
    submit_all, submit_once, succeed_with, take, unique,
};
use super::snapshot::{all_rows, snapshot};
use crate::{Sweep, Tombstone};

/// Job, input, outcomes, results, executions: all gone; a tombstone for each execution remains.
pub async fn a_forgotten_job_leaves_only_tombstones(fixture: &dyn Fixture) {
    let store = fixture.store();
    let new = job_with(1, "q", |head| {
        head.retry = patient(1, secs(1));
        head.unique = Some(unique(1, Conflict::Reject));
    });
    accepted(ask(&store, START, submit_once(new, "key", 1)).await);
    let first = the_one(ask(&store, at(1), take(&["q"], 1)).await);
    run(&store, at(2), vec![fail(&first), revive(1, execution(1))]).await;
    let second = the_one(ask(&store, at(3), take(&["q"], 1)).await);
    done(ask(&store, at(4), succeed_with(&second, "text/plain", b"x")).await);
    assert!(matches!(ask(&fixture.second(), at(5), forget(1)).await, Answer::Settled));

    let store = fixture.reopen().await;
    let stone = Tombstone { client: client(1), at: at(5), kept: None };
    for gone in [first.execution, execution(1)] {
        assert_eq!(store.tombstone(gone).await.unwrap(), Some(stone));
        assert_eq!(store.outcome(gone).await.unwrap(), None);
        assert_eq!(store.result(gone).await.unwrap(), None);
        assert_eq!(store.job_of(gone).await.unwrap(), None);
    }
    assert_eq!(store.job(id(1)).await.unwrap(), None);
    assert_eq!(store.inputs(vec![id(1)]).await.unwrap(), []);
    let snapshot = snapshot(&store).await;
    assert!(snapshot.jobs.is_empty(), "what is due next is about failures, not about jobs");
    assert_eq!(snapshot.queues, [], "a queue without jobs leaves nothing");
}

/// A job that ends and is forgotten in one batch leaves no outcome behind.
pub async fn a_job_that_ends_and_is_forgotten_in_one_batch_leaves_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(job(1, "q"))).await);
    run(&store, at(1), vec![cancel(1), forget(1)]).await;
    run(&store, at(2), vec![submit_once(job(2, "q"), "key", 1), cancel(2), forget(2)]).await;
    for n in [1, 2] {
        let execution = id(n).first_execution();
        assert_eq!(store.outcome(execution).await.unwrap(), None);
        assert!(store.tombstone(execution).await.unwrap().is_some());
        assert_eq!(store.job(id(n)).await.unwrap(), None);
        assert_eq!(store.inputs(vec![id(n)]).await.unwrap(), []);
    }
    accepted(ask(&store, at(3), submit_once(job(3, "q"), "key", 2)).await);
    snapshot(&store).await;
}

/// Ended jobs go when their time is over, in bites, the longest due first; their tombstones tell how long that was.
pub async fn retention_forgets_in_bites(fixture: &dyn Fixture) {
    let store = fixture.store();
    let keep = |n| job_with(n, "q", |head| head.retention = Some(secs(100 - n)));
    accepted(ask(&store, START, submit_all((1..=5).map(keep).collect())).await);
    run(&store, at(1), (1..=5).map(cancel).collect()).await;
    for (bite, left) in [(2, vec![id(1), id(2), id(3)]), (2, vec![id(1)]), (2, vec![])] {
        n_due(ask(&store, at(200), Command::Due(bite)).await);
        assert_eq!(snapshot(&store).await.jobs.keys().copied().collect::<Vec<_>>(), left);
    }
    for n in 1..=5 {
        let stone = Tombstone { client: client(1), at: at(200), kept: Some(secs(100 - n)) };
        assert_eq!(store.tombstone(id(n).first_execution()).await.unwrap(), Some(stone));
    }
}

fn sweep(journal_before: Time, tombstones_before: Time, limit: usize) -> Sweep {
    Sweep { journal_before, tombstones_before, ..Sweep::nothing(limit) }
}

async fn tombstones_left(store: &std::sync::Arc<dyn crate::Store>, n_jobs: u64) -> Vec<u64> {
    let mut left = Vec::new();
    for n in 1..=n_jobs {
        if store.tombstone(id(n).first_execution()).await.unwrap().is_some() {
            left.push(n);
        }
    }
    left
}

/// A sweep takes old rows only, at most so many of each kind, and says how many.
pub async fn a_sweep_is_bounded_and_leaves_what_is_young(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 1..=5 {
        run(&store, at(10 * n), vec![submit(job(n, "q")), cancel(n), forget(n)]).await;
    }
    let sweep = |limit| sweep(at(35), at(45), limit);
    assert_eq!(store.sweep(sweep(0)).await.unwrap().total(), 0);
    assert_eq!(store.sweep(sweep(2)).await.unwrap().total(), 4, "two of each");
    assert_eq!(all_rows(&store, 0).await.len(), 3);
    assert_eq!(tombstones_left(&store, 5).await.len(), 3);
    assert_eq!(fixture.second().sweep(sweep(9)).await.unwrap().total(), 3, "one row and two stones");
    assert_eq!(all_rows(&store, 0).await.len(), 2);
    assert_eq!(tombstones_left(&store, 5).await, [5]);
    assert_eq!(store.sweep(sweep(9)).await.unwrap().total(), 0);
}

/// Rows of a moment that is still to come, from when a clock was ahead, do not keep the older ones behind them.
pub async fn a_sweep_passes_rows_of_the_future(fixture: &dyn Fixture) {
    let store = fixture.store();
    for (n, second) in [(1, 900), (2, 901), (3, 902), (4, 10), (5, 11)] {
        accepted(ask(&store, at(second), submit(job(n, "q"))).await);
    }
    let rows = all_rows(&store, 0).await;
    assert_eq!(store.sweep(sweep(at(100), at(100), 2)).await.unwrap().journal_rows, 2);
    assert_eq!(store.journal(0, 9).await.unwrap(), rows[..3]);
}

/// A sweep leaves what somebody has not read, however old it is.
pub async fn a_sweep_leaves_what_was_not_read(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 1..=5 {
        accepted(ask(&store, at(n), submit(job(n, "q"))).await);
    }
    let rows = all_rows(&store, 0).await;
    let until = |row: usize| Sweep { journal_until: rows[row].seq, ..sweep(at(1000), at(1000), 100) };
    assert_eq!(store.sweep(until(1)).await.unwrap().journal_rows, 2);
    assert_eq!(all_rows(&store, 0).await, rows[2..]);
    assert_eq!(store.sweep(until(1)).await.unwrap().journal_rows, 0);
    assert_eq!(fixture.second().sweep(until(4)).await.unwrap().journal_rows, 3);
}

/// An emptied journal goes on where it ended: a reader with a cursor misses nothing.
pub async fn a_swept_journal_goes_on_from_its_end(fixture: &dyn Fixture) {
    let store = fixture.store();
    for n in 1..=3 {
        accepted(ask(&store, at(n), submit(job(n, "q"))).await);
    }
    let end = store.journal_end().await.unwrap();
    assert_eq!(store.sweep(sweep(at(1000), at(1000), 100)).await.unwrap().total(), 3);
    assert_eq!(store.journal(0, 9).await.unwrap(), []);
    let store = fixture.reopen().await;
    accepted(ask(&store, at(5), submit(job(5, "q"))).await);
    let rows = all_rows(&store, end).await;
    assert_eq!(rows.len(), 1, "a reader that had seen everything sees what is new");
    assert!(rows[0].seq > end);
    assert!(rows[0].job_events().all(|(job, _)| job == id(5)));
}
