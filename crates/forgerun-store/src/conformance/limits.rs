//! Limits that jobs share: how many at once, and how often.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use forgerun_core::command::{Command, NewJob};
use forgerun_core::job::{Job, Lane, Limit, Parked, Rate};
use forgerun_core::limits;
use forgerun_core::queue::Owner;
use forgerun_core::state::State;
use forgerun_core::time::Time;

use super::Fixture;
use super::harness::{accepted, ask, at_once, claimed, done, n_due, run, the_one};
use super::make::{
    START, at, at_once as concurrency, cancel, client, hand_back, id, job, job_with, name, secs, shelf,
    submit, submit_all, succeed, take,
};
use super::snapshot::{all_jobs, snapshot};
use crate::{Store, Sweep};

fn limited(n: u64, queue: &str, concurrency_max: u32) -> NewJob {
    job_with(n, queue, |head| head.limits = vec![concurrency("key", concurrency_max)])
}

/// No place: the job steps aside, those behind it pass, and it is let in when a place is free.
pub async fn a_job_without_a_place_steps_aside_until_one_is_free(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    let jobs = vec![limited(1, "q", 1), limited(2, "q", 1), limited(3, "p", 1), job(4, "q")];
    accepted(ask(&store, START, submit_all(jobs)).await);
    let first = claimed(ask(&store, at(1), take(&["q", "p"], 9)).await);
    assert_eq!(first.iter().map(|job| job.id).collect::<Vec<_>>(), [id(1), id(4)]);
    let parked = store.shelf(shelf(Lane::Parked, "key"), None, 9).await.unwrap();
    assert_eq!(parked.iter().map(|job| job.id).collect::<Vec<_>>(), [id(2), id(3)]);
    assert_eq!(claimed(ask(&second, at(2), take(&["q", "p"], 9)).await), []);
    done(ask(&second, at(3), succeed(&first[0])).await);
    let next = the_one(ask(&store, at(4), take(&["q", "p"], 9)).await);
    assert_eq!(next.id, id(2));
    done(ask(&store, at(5), hand_back(&next)).await);
    let holders = claimed(ask(&second, at(6), take(&["q", "p"], 9)).await);
    assert_eq!(holders.len(), 1, "one place, one holder: {holders:?}");
    snapshot(&store).await;
}

/// Limits are listed by owner and key, as far as jobs were handed out under them.
pub async fn limits_in_use_are_listed_by_their_owner(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    let (mine, other) = (Owner::client(client(1)), Owner::client(client(2)));
    let keyed = |n: u64, owner: &Owner, key: &str| {
        let key = owner.scoped(key);
        job_with(n, "q", |head| head.limits = vec![Limit { key, ..concurrency("any", 1) }])
    };
    let jobs = vec![keyed(1, &mine, "b"), keyed(2, &mine, "a"), keyed(3, &other, "c")];
    accepted(ask(&store, START, submit_all(jobs)).await);
    assert_eq!(store.limits_of(&mine, 9).await.unwrap(), []);
    assert_eq!(claimed(ask(&store, at(1), take(&["q"], 9)).await).len(), 3);
    let listed = async |owner: &Owner, limit: usize| {
        let limits = second.limits_of(owner, limit).await.unwrap();
        limits.into_iter().map(|(key, row)| (key, row.active)).collect::<Vec<_>>()
    };
    assert_eq!(listed(&mine, 9).await, [(mine.scoped("a"), 1), (mine.scoped("b"), 1)]);
    assert_eq!(listed(&mine, 1).await, [(mine.scoped("a"), 1)]);
    assert_eq!(listed(&other, 9).await, [(other.scoped("c"), 1)]);
}

/// The first two jobs of a key, claimed by two nodes at once: the limit counts both.
pub async fn two_nodes_that_meet_a_new_limit_at_once_count_together(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    for round in 0..10 {
        let key = format!("key {round}");
        let queue = |node: u64| format!("round {round} node {node}");
        let jobs = (0..2).map(|node| {
            job_with(10 * round + node, &queue(node), |head| head.limits = vec![concurrency(&key, 1)])
        });
        accepted(ask(&stores[0], START, submit_all(jobs.collect())).await);
        let taken = at_once(2, |node| {
            let (store, queue) = (stores[node as usize].clone(), queue(node));
            async move { claimed(ask(&store, at(1), take(&[&queue], 1)).await) }
        });
        let taken: Vec<Job> = taken.await.into_iter().flatten().collect();
        assert_eq!(taken.len(), 1, "one place, one holder");
        done(ask(&stores[1], at(2), succeed(&taken[0])).await);
        let rest = claimed(ask(&stores[0], at(3), take(&[&queue(0), &queue(1)], 2)).await);
        assert_eq!(rest.len(), 1, "the other one's turn");
    }
    snapshot(&stores[0]).await;
}

/// Many workers on two nodes: never more than the limit at once, and in the end every job was done.
pub async fn a_concurrency_limit_holds_across_nodes_and_nobody_waits_for_ever(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let (n_jobs, concurrency_max) = (90, 3);
    let jobs = (1..=n_jobs).map(|n| limited(n, ["a", "b"][n as usize % 2], concurrency_max));
    accepted(ask(&stores[0], START, submit_all(jobs.collect())).await);
    let (holding, left) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(n_jobs as i64)));
    at_once(8, |task| {
        let store = stores[task as usize % 2].clone();
        let (holding, left) = (holding.clone(), left.clone());
        async move {
            for _ in 0..10_000 {
                if left.load(Ordering::SeqCst) == 0 {
                    return;
                }
                work(&store, &holding, &left, i64::from(concurrency_max)).await;
            }
        }
    })
    .await;
    let snapshot = snapshot(&stores[0]).await;
    let undone: Vec<&Job> = snapshot.jobs.values().filter(|job| job.state != State::Succeeded).collect();
    assert!(undone.is_empty(), "{} jobs wait for ever, the first of them {:?}", undone.len(), undone.first());
}

/// Takes what there is and ends it. The count goes down before a job ends and up after it was taken, so it is never
/// higher than the number really held.
async fn work(store: &Arc<dyn Store>, holding: &AtomicI64, left: &AtomicI64, most: i64) {
    let jobs = claimed(ask(store, at(1), take(&["a", "b"], 2)).await);
    if jobs.is_empty() {
        tokio::task::yield_now().await;
    }
    let held = holding.fetch_add(jobs.len() as i64, Ordering::SeqCst) + jobs.len() as i64;
    assert!(held <= most, "{held} jobs are held at once, allowed are {most}");
    // Long enough for others to try.
    for _ in 0..20 {
        tokio::task::yield_now().await;
    }
    for job in jobs {
        holding.fetch_sub(1, Ordering::SeqCst);
        done(ask(store, at(2), succeed(&job)).await);
        left.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A job that was let in may be called off before anybody takes it: those behind it are looked at again after a while.
pub async fn a_place_passes_on_when_its_job_is_called_off(fixture: &dyn Fixture) {
    let store = fixture.store();
    let fleeting = job_with(2, "q", |head| {
        head.limits = vec![concurrency("key", 1)];
        head.expires_at = Some(at(9));
    });
    let jobs = vec![limited(1, "q", 1), fleeting, limited(3, "q", 1), limited(4, "q", 1)];
    accepted(ask(&store, START, submit_all(jobs)).await);
    let first = the_one(ask(&store, at(1), take(&["q"], 9)).await);
    done(ask(&store, at(2), succeed(&first)).await);
    assert_eq!(n_due(ask(&store, at(9), Command::Due(9)).await), 1, "the second expires");
    done(ask(&store, at(10), cancel(3)).await);
    ask(&store, at(11) + limits::PARKED, Command::Due(9)).await;
    assert_eq!(the_one(ask(&store, at(12) + limits::PARKED, take(&["q"], 9)).await).id, id(4));
    snapshot(&store).await;
}

/// A job taken and called off in one batch passes its place on too.
pub async fn a_place_taken_and_freed_in_one_batch_passes_on(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit_all((1..=3).map(|n| limited(n, "q", 1)).collect())).await);
    let first = the_one(ask(&store, at(1), take(&["q"], 9)).await);
    done(ask(&store, at(2), succeed(&first)).await);
    let answers = run(&store, at(3), vec![take(&["q"], 9), cancel(2)]).await;
    assert!(matches!(&answers[1], forgerun_core::Answer::Done(_)));
    ask(&store, at(4) + limits::PARKED, Command::Due(9)).await;
    assert_eq!(the_one(ask(&store, at(5) + limits::PARKED, take(&["q"], 9)).await).id, id(3));
    snapshot(&store).await;
}

/// A job born in the batch that claims it counts against its limit like any other.
pub async fn a_job_born_in_the_batch_that_claims_it_is_limited_too(fixture: &dyn Fixture) {
    let store = fixture.store();
    accepted(ask(&store, START, submit(limited(1, "q", 1))).await);
    the_one(ask(&store, at(1), take(&["q"], 9)).await);
    for n in 2..5 {
        run(&store, at(n), vec![submit(limited(n, "q", 1)), take(&["q"], 9)]).await;
        ask(&store, at(n), take(&["q"], 9)).await;
        let jobs = all_jobs(&store).await;
        assert_eq!(jobs.values().filter(|job| job.state.is_active()).count(), 1, "one place, one holder");
    }
    snapshot(&store).await;
}

/// Each job beyond the rate has a moment of its own; nothing stampedes and nothing is lost.
pub async fn a_rate_gives_every_job_a_moment_of_its_own(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let rate = Limit { key: name("key"), concurrency: None, rate: Some(Rate { count: 2, per: secs(10) }) };
    let jobs = (1..=7).map(|n| job_with(n, "q", |head| head.limits = vec![rate.clone()]));
    accepted(ask(&stores[0], START, submit_all(jobs.collect())).await);
    let mut n_taken = Vec::new();
    for (round, store) in (0..8).zip(stores.iter().cycle()) {
        ask(store, at(round * 5), Command::Due(9)).await;
        n_taken.push(claimed(ask(store, at(round * 5), take(&["q"], 9)).await).len());
    }
    assert_eq!(n_taken, [2, 1, 1, 1, 1, 1, 0, 0]);
    snapshot(&stores[0]).await;
}

/// What waits for its turn is on no shelf; its moments are apart and are the next ones due.
pub async fn jobs_that_wait_for_their_turn_are_due_one_after_the_other(fixture: &dyn Fixture) {
    let store = fixture.store();
    let rate = Limit { key: name("key"), concurrency: None, rate: Some(Rate { count: 1, per: secs(10) }) };
    let jobs = (1..=4).map(|n| job_with(n, "q", |head| head.limits = vec![rate.clone()]));
    accepted(ask(&store, START, submit_all(jobs.collect())).await);
    assert_eq!(the_one(ask(&store, START, take(&["q"], 9)).await).id, id(1));
    let waiting: Vec<Job> =
        all_jobs(&store).await.into_values().filter(|job| job.parked == Parked::ForTurn).collect();
    let turns: BTreeSet<Time> = waiting.iter().filter_map(|job| job.available_at).collect();
    assert_eq!(turns, BTreeSet::from([at(10), at(20), at(30)]));
    assert_eq!(store.shelf(shelf(Lane::External, "q"), None, 1).await.unwrap(), []);
    assert_eq!(store.next_due().await.unwrap(), Some(at(10)));
    snapshot(&store).await;
}

/// Keys of limits are chosen by clients, so those that nobody uses go; those in use stay, and one that went is made again.
pub async fn a_limit_that_nobody_uses_goes_with_a_sweep(fixture: &dyn Fixture) {
    let (store, second) = (fixture.store(), fixture.second());
    let keyed = |n: u64, key: &str| {
        let rate = Some(Rate { count: 1, per: secs(100) });
        let limit = Limit { rate, ..concurrency(key, 1) };
        job_with(n, "q", |head| head.limits = vec![limit])
    };
    accepted(
        ask(&store, START, submit_all(vec![keyed(1, "held"), keyed(2, "idle"), keyed(3, "late")])).await,
    );
    let jobs = claimed(ask(&store, at(1), take(&["q"], 2)).await);
    let late = claimed(ask(&store, at(50), take(&["q"], 2)).await);
    done(ask(&store, at(51), succeed(&jobs[1])).await);
    done(ask(&store, at(52), succeed(&late[0])).await);
    let sweep = |limit| Sweep { limits_before: at(120), ..Sweep::nothing(limit) };
    assert_eq!(store.sweep(sweep(0)).await.unwrap().limits, 0);
    assert_eq!(
        second.sweep(sweep(9)).await.unwrap().limits,
        1,
        "one is held, and the turn of one has not come"
    );
    assert_eq!(store.sweep(sweep(9)).await.unwrap().limits, 0);
    accepted(
        ask(&store, at(121), submit_all(vec![keyed(4, "held"), keyed(5, "idle"), keyed(6, "late")])).await,
    );
    assert_eq!(the_one(ask(&second, at(122), take(&["q"], 9)).await).id, id(5));
}
