//! What has outlived its use goes, in bites, at its time; what has not stays.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_core::command::Claim;
use forgerun_core::limits;
use forgerun_engine::Options;
use forgerun_engine::observer::{Commit, Observer};
use forgerun_store::{Fault, Store, Swept};

use crate::support::{HOUR, SECOND, World, at_once, claim, succeed};

#[tokio::test(start_paused = true)]
async fn ended_jobs_are_forgotten_at_their_time_in_bites_and_leave_a_tombstone() {
    let world = World::new();
    let jobs = world.submit_many("a", 1000, |head| head.retention = Some(HOUR)).await;
    let all = Claim { limit: 1000, ..claim(&["a"]) };
    let taken = world.engine.claim(all, Duration::ZERO).await.unwrap();
    at_once(1000, |n| {
        let (engine, end) = (world.engine.clone(), succeed(&taken[n]));
        async move { engine.act(end).await.unwrap() }
    })
    .await;
    let waiting = world.submit("a").await;
    world.pass(HOUR - SECOND).await;
    assert!(world.job(jobs[999].id).await.is_some());
    world.pass(2 * SECOND).await;
    let store: Arc<dyn Store> = world.store.clone();
    for job in &jobs {
        assert_eq!(world.job(job.id).await, None);
        let stone = store.tombstone(job.id.first_execution()).await.unwrap().expect("a tombstone");
        assert_eq!(stone.client, job.head.client);
    }
    assert!(world.job(waiting.id).await.is_some());
    let bites: Vec<usize> = world.store.written().iter().map(|written| written.n_forgotten).collect();
    assert_eq!(bites.iter().sum::<usize>(), 1000);
    assert!(bites.iter().all(|&n| n <= limits::DUE_JOBS_MAX), "{bites:?}");
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_deletes_old_journal_rows_and_tombstones_only_and_in_bites() {
    let options = Options {
        journal_keep: 100 * SECOND,
        tombstone_keep: 200 * SECOND,
        sweep_every: 10 * SECOND,
        sweep_max: 10,
        ..Options::default()
    };
    let world = World::with(options);
    let store: Arc<dyn Store> = world.store.clone();
    let mut old = None;
    for _ in 0..35 {
        world.submit_with("a", |head| head.retention = Some(SECOND)).await;
        let job = world.take("a").await;
        world.engine.act(succeed(&job)).await.unwrap();
        old.get_or_insert(job.id);
    }
    let old = old.unwrap();
    world.pass(50 * SECOND).await;
    assert!(store.tombstone(old.first_execution()).await.unwrap().is_some());
    let waiting = world.submit("a").await;
    let end = store.journal_end().await.unwrap();
    world.pass(65 * SECOND).await;
    let rows = store.journal(0, 1000).await.unwrap();
    assert_eq!(rows.iter().map(|row| row.seq).collect::<Vec<_>>(), [end], "the young row is left");
    assert!(store.tombstone(old.first_execution()).await.unwrap().is_some(), "tombstones stay longer");
    world.pass(100 * SECOND).await;
    assert!(store.tombstone(old.first_execution()).await.unwrap().is_none());
    assert!(world.job(waiting.id).await.is_some());
    let swept = world.store.swept();
    assert!(swept.iter().all(|&n| n <= 20), "at most ten of each kind: {swept:?}");
    assert!(swept.iter().filter(|&&n| n > 0).count() >= 10, "{swept:?}");
}

#[tokio::test(start_paused = true)]
async fn a_sweep_that_fails_is_tried_again() {
    let options = Options { journal_keep: SECOND, sweep_every: 10 * SECOND, ..Options::default() };
    let world = World::with(options);
    world.submit("a").await;
    world.store.fail_sweeps(2);
    world.pass(50 * SECOND).await;
    assert_eq!(world.store.swept().iter().sum::<usize>(), 1);
}

/// Gathers what sweeps told.
#[derive(Debug, Default)]
struct Listener(Mutex<Vec<Swept>>);

impl Observer for Listener {
    fn committed(&self, _: &Commit<'_>) {}

    fn failed(&self, _: Fault, _: usize) {}

    fn swept(&self, swept: &Swept) {
        self.0.lock().unwrap().push(*swept);
    }
}

#[tokio::test(start_paused = true)]
async fn every_sweep_is_told_of_with_all_its_bites_and_so_is_the_stop() {
    let listener = Arc::new(Listener::default());
    let options = Options {
        journal_keep: SECOND,
        sweep_every: 10 * SECOND,
        sweep_max: 2,
        observer: listener.clone(),
        ..Options::default()
    };
    let world = World::with(options);
    for _ in 0..5 {
        world.submit("a").await;
    }
    world.pass(25 * SECOND).await;
    world.engine.stop().await;
    let nothing = Swept::default();
    let told = listener.0.lock().unwrap().clone();
    assert_eq!(told, [nothing, Swept { journal_rows: 5, ..nothing }, nothing, nothing]);
}
