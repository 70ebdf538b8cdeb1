//! What a batch is given to see: all it wants, and the related_rows of what was found.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::id::JobId;
use forgerun_core::job::{Conflict, IdempotencyKey, Lane};
use forgerun_core::queue::QueueSettings;
use forgerun_core::record::{RecordKey, Stored};
use forgerun_core::rows::{Counts, DueWant, KeyRow, LimitRow};
use forgerun_core::time::Time;
use forgerun_core::{Rows, Wants};

use super::Fixture;
use super::harness::{accepted, ask, claimed, look, run};
use super::make::{
    START, at, at_once as concurrency, by_state, cancel, client, forget, id, job, job_with, mine, name,
    pause, shelf, submit_all, submit_once, take, unique,
};
use super::snapshot::snapshot;

/// The ids of the loaded jobs, each of which was loaded once.
fn loaded(rows: &Rows) -> BTreeSet<JobId> {
    let ids: BTreeSet<JobId> = rows.jobs.iter().map(|job| job.id).collect();
    assert_eq!(ids.len(), rows.jobs.len(), "every job once, for however many reasons");
    ids
}

fn ids(numbers: &[u64]) -> Vec<JobId> {
    numbers.iter().map(|&n| id(n)).collect()
}

/// Wanting nothing, or what is not there, gives nothing.
pub async fn a_batch_that_finds_nothing_sees_nothing(fixture: &dyn Fixture) {
    let store = fixture.store();
    let wants = Wants {
        jobs: BTreeSet::from([id(1)]),
        shelves: BTreeMap::from([(shelf(Lane::External, "q"), 5)]),
        due: Some(DueWant { now: Time::MAX, limit: 5 }),
        keys: BTreeSet::from([key("k")]),
        uniques: BTreeSet::from([[1; 32]]),
        records: BTreeSet::from([settings("q")]),
        counts: BTreeSet::from([name("q")]),
        active: true,
        ..Wants::default()
    };
    for wants in [Wants::default(), wants] {
        let rows = look(&store, wants).await;
        assert!(
            rows.jobs.is_empty() && rows.due.is_empty() && rows.keys.is_empty() && rows.uniques.is_empty()
        );
        assert!(rows.limits.is_empty() && rows.records.is_empty() && rows.active == 0);
        assert!(rows.shelves.values().all(Vec::is_empty));
        assert!(rows.counts.values().all(Counts::is_zero));
    }
    assert_eq!(store.journal_end().await.unwrap(), 0);
}

fn settings(queue: &str) -> RecordKey {
    QueueSettings::record_key(queue.into())
}

fn key(key: &str) -> IdempotencyKey {
    IdempotencyKey { client: client(1), operation: "submit".into(), key: key.into() }
}

/// Jobs for several reasons at once, shelves and due in order and no longer than asked.
pub async fn a_batch_sees_what_it_wants_in_order_and_once(fixture: &dyn Fixture) {
    let store = fixture.store();
    let mut jobs: Vec<_> =
        (1..=4).map(|n| job_with(n, "q", |head| head.priority = if n == 3 { 9 } else { 0 })).collect();
    jobs.extend([30, 10, 20].map(|n| job_with(n, "later", |head| head.execution_at = Some(at(100 - n)))));
    accepted(ask(&store, START, submit_all(jobs)).await);
    ask(&store, START, pause("q", true)).await;
    let wants = Wants {
        jobs: BTreeSet::from([id(1), id(4), id(20), id(99)]),
        shelves: BTreeMap::from([(shelf(Lane::External, "q"), 2), (shelf(Lane::External, "later"), 0)]),
        due: Some(DueWant { now: at(85), limit: 9 }),
        records: BTreeSet::from([settings("q"), settings("later")]),
        counts: BTreeSet::from([mine("later"), name("nowhere")]),
        ..Wants::default()
    };
    let rows = look(&fixture.second(), wants).await;
    assert_eq!(rows.shelves[&shelf(Lane::External, "q")], ids(&[3, 1]));
    assert_eq!(rows.shelves.get(&shelf(Lane::External, "later")).map_or(0, Vec::len), 0);
    assert_eq!(rows.due, ids(&[30, 20]));
    assert_eq!(loaded(&rows), ids(&[1, 3, 4, 20, 30]).into_iter().collect());
    assert_eq!(rows.records.keys().collect::<Vec<_>>(), [&settings("q")]);
    assert_eq!(rows.counts[&mine("later")], by_state([3, 0, 0, 0, 0, 0, 0]));
    assert!(rows.counts.get(&name("nowhere")).is_none_or(Counts::is_zero));
    let two = Wants { due: Some(DueWant { now: at(100), limit: 2 }), ..Wants::default() };
    assert_eq!(look(&store, two).await.due, ids(&[30, 20]));
}

/// A key comes with its jobs, a unique key with its holder.
pub async fn keys_come_with_the_jobs_they_point_to(fixture: &dyn Fixture) {
    let store = fixture.store();
    let holder = job_with(2, "q", |head| head.unique = Some(unique(7, Conflict::Reject)));
    run(&store, START, vec![submit_once(job(1, "q"), "k", 5), submit_all(vec![holder, job(3, "q")])]).await;
    let wants = Wants {
        keys: BTreeSet::from([key("k"), key("unused")]),
        uniques: BTreeSet::from([[7; 32], [8; 32]]),
        ..Wants::default()
    };
    let rows = look(&store, wants).await;
    assert_eq!(rows.keys, BTreeMap::from([(key("k"), KeyRow { fingerprint: [5; 32], jobs: ids(&[1]) })]));
    assert_eq!(rows.uniques, BTreeMap::from([([7; 32], id(2))]));
    assert_eq!(loaded(&rows), ids(&[1, 2]).into_iter().collect());
}

/// A job with a limit comes with the state of the limit; one that a worker holds, also with those who wait for its place.
pub async fn held_jobs_come_with_those_who_wait_for_their_place(fixture: &dyn Fixture) {
    let store = fixture.store();
    let limited = |n, key| job_with(n, "q", |head| head.limits = vec![concurrency(key, 1)]);
    let jobs = vec![limited(1, "a"), limited(2, "a"), limited(3, "a"), limited(4, "b"), job(5, "q")];
    accepted(ask(&store, START, submit_all(jobs)).await);
    assert_eq!(claimed(ask(&store, at(1), take(&["q"], 9)).await).len(), 3);
    accepted(ask(&store, at(2), submit_all(vec![limited(6, "b"), limited(7, "new")])).await);

    let one = |n| Wants { jobs: BTreeSet::from([id(n)]), ..Wants::default() };
    let held = look(&store, one(1)).await;
    assert_eq!(loaded(&held), ids(&[1, 2, 3]).into_iter().collect());
    assert_eq!(held.shelves[&shelf(Lane::Parked, "a")], ids(&[2, 3]));
    assert_eq!(held.limits, BTreeMap::from([(name("a"), LimitRow { active: 1, turn_at: Time::ZERO })]));

    let waiting = look(&store, one(6)).await;
    assert_eq!(loaded(&waiting), ids(&[6]).into_iter().collect());
    assert_eq!(waiting.limits[&name("b")].active, 1);

    let fresh = look(&store, one(7)).await;
    assert!(fresh.limits.get(&name("new")).is_none_or(|row| *row == LimitRow::default()));

    let active = look(&store, Wants { active: true, ..Wants::default() }).await;
    assert_eq!(active.active, 0, "the built-in worker holds none");
    snapshot(&store).await;
}

/// Keys of a forgotten job are gone for good: no row is left that nobody would ever delete.
pub async fn the_keys_of_a_forgotten_job_leave_no_rows(fixture: &dyn Fixture) {
    let store = fixture.store();
    let new = job_with(1, "q", |head| head.unique = Some(unique(7, Conflict::Reject)));
    run(&store, START, vec![submit_once(new, "k", 5)]).await;
    run(&store, at(1), vec![cancel(1)]).await;
    let wants =
        Wants { keys: BTreeSet::from([key("k")]), uniques: BTreeSet::from([[7; 32]]), ..Wants::default() };
    let rows = look(&store, wants.clone()).await;
    assert_eq!((rows.keys.len(), rows.uniques.len()), (1, 1), "an ended job keeps its keys");
    run(&store, at(2), vec![forget(1)]).await;
    let rows = look(&fixture.second(), wants).await;
    assert_eq!((rows.keys.len(), rows.uniques.len()), (0, 0));
}
