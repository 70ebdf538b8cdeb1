//! Fair keys: the jobs of a queue take turns, whichever node hands them out.

use std::collections::BTreeSet;
use std::sync::Arc;

use forgerun_core::command::NewJob;
use forgerun_core::fair::Fair;
use forgerun_core::id::JobId;
use forgerun_core::state::State;

use super::Fixture;
use super::harness::{accepted, ask, at_once, claimed, done};
use super::make::{START, at, cancel, hand_back, job, job_with, name, submit_all, take};
use super::snapshot::{all_jobs, snapshot};
use crate::Store;

fn of_key(n: u64, key: &str, weight: u8) -> NewJob {
    job_with(n, "q", |head| head.fair = Fair::new(name(key), weight))
}

async fn taken(store: &Arc<dyn Store>, n: usize) -> Vec<JobId> {
    claimed(ask(store, at(1), take(&["q"], n)).await).iter().map(|job| job.id).collect()
}

fn is_of(jobs: &[NewJob], id: JobId) -> bool {
    jobs.iter().any(|job| job.id == id)
}

/// A claim of one store takes turns from where one of another left off.
pub async fn keys_take_turns_by_weight(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let heavy: Vec<NewJob> = (1..=60).map(|n| of_key(n, "a", 3)).collect();
    let light: Vec<NewJob> = (101..=160).map(|n| of_key(n, "b", 1)).collect();
    accepted(ask(&stores[0], START, submit_all(heavy.iter().chain(&light).cloned().collect())).await);
    let mut all = Vec::new();
    for (claim, n) in [1, 2, 1, 5, 3, 8, 20].into_iter().enumerate() {
        all.extend(taken(&stores[claim % 2], n).await);
    }
    let n_heavy = all.iter().filter(|id| is_of(&heavy, **id)).count();
    assert_eq!((all.len(), n_heavy), (40, 30));
    for of_four in all.chunks(4) {
        assert_eq!(of_four.iter().filter(|id| is_of(&heavy, **id)).count(), 3, "{all:?}");
    }
    snapshot(&stores[0]).await;
}

/// Jobs without a key are one more key, wherever they stand.
pub async fn jobs_without_a_key_are_not_passed_by(fixture: &dyn Fixture) {
    let store = fixture.store();
    let plain: Vec<NewJob> = (1..=30).map(|n| job(n, "q")).collect();
    let keyed: Vec<NewJob> = (101..=130).map(|n| of_key(n, &format!("key {}", n % 5), 1)).collect();
    accepted(ask(&store, START, submit_all(plain.iter().chain(&keyed).cloned().collect())).await);
    for _ in 0..3 {
        let mut six = Vec::new();
        for n in [2, 1, 3] {
            six.extend(taken(&store, n).await);
        }
        assert_eq!(six.iter().filter(|id| is_of(&plain, **id)).count(), 1, "{six:?}");
    }
}

/// Claims that come at once divide as claims one after the other do.
pub async fn claims_of_two_nodes_at_once_keep_the_shares(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    let heavy: Vec<NewJob> = (1..=80).map(|n| of_key(n, "a", 4)).collect();
    let light: Vec<NewJob> = (101..=180).map(|n| of_key(n, "b", 1)).collect();
    accepted(ask(&stores[0], START, submit_all(heavy.iter().chain(&light).cloned().collect())).await);
    // Each store has met the queue before it gets crowded.
    let mut all = [taken(&stores[0], 1).await, taken(&stores[1], 1).await].concat();
    let rounds = at_once(4, |node| {
        let store = stores[node as usize % 2].clone();
        async move {
            let mut all = Vec::new();
            for _ in 0..10 {
                all.extend(taken(&store, 1).await);
            }
            all
        }
    });
    all.extend(rounds.await.into_iter().flatten());
    let n_heavy = all.iter().filter(|id| is_of(&heavy, **id)).count();
    assert_eq!(all.len(), 42);
    assert!((33..=34).contains(&n_heavy), "{n_heavy} of 42, where 33.6 are due");
}

/// Jobs come, go back and are cancelled on two nodes at once: each is handed out in the end.
pub async fn no_job_of_a_key_is_left_behind(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    at_once(2, |node| {
        let store = stores[node as usize].clone();
        async move {
            for round in 0..8 {
                let from = 1000 * node + 10 * round;
                let jobs = (1..=6).map(|n| of_key(from + n, ["a", "b"][n as usize % 2], 1 + n as u8 % 3));
                accepted(ask(&store, at(1), submit_all(jobs.collect())).await);
                let held = claimed(ask(&store, at(2), take(&["q"], 2)).await);
                for job in &held {
                    // Refused if the other one has cancelled it.
                    ask(&store, at(2), hand_back(job)).await;
                }
                done(ask(&store, at(2), cancel(from + 1 + round % 6)).await);
            }
        }
    })
    .await;
    let mut all = BTreeSet::new();
    loop {
        let next = taken(&stores[0], 9).await;
        if next.is_empty() {
            break;
        }
        all.extend(next);
    }
    let left = all_jobs(&stores[0]).await.into_values().filter(|job| job.state == State::Queued);
    assert_eq!(left.map(|job| job.id).collect::<Vec<_>>(), []);
    assert_eq!(all.len() + 16, 2 * 8 * 6);
    snapshot(&stores[0]).await;
}
