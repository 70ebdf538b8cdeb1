//! Who runs what, in which order, and how many at once.

use std::collections::BTreeMap;

use forgerun_core::history::{Event, EventKind};
use forgerun_core::id::JobId;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::{Options, WorkerOptions};

use super::{instant, ran_for, simulated, single, states};
use crate::store::TestStore;
use crate::support::{HOUR, SECOND, World};

/// The largest number of jobs that ran at the same time, and how often each began.
fn at_once(events: &[(JobId, Event)]) -> (usize, BTreeMap<JobId, usize>) {
    let (mut n_running, mut n_max) = (0, 0);
    let mut begun = BTreeMap::new();
    for (job, event) in events {
        match event.kind {
            EventKind::Moved { to: State::Running, .. } => {
                n_running += 1;
                n_max = n_max.max(n_running);
                *begun.entry(*job).or_default() += 1;
            }
            EventKind::Moved { from: Some(State::Running), .. } => n_running -= 1,
            EventKind::Moved { .. } | EventKind::Progress(_) | EventKind::Emitted => {}
        }
    }
    (n_max, begun)
}

#[tokio::test(start_paused = true)]
async fn one_worker_runs_one_job_after_the_other_in_the_order_of_creation() {
    let world = World::new();
    let mut jobs = Vec::new();
    for _ in 0..100 {
        jobs.push(world.submit_kind(WorkKind::SuccessFast).await);
    }
    let _worker = world.worker(single());
    world.pass(102 * SECOND).await;
    let mut last_end = world.engine.now() - HOUR;
    for id in jobs {
        let job = world.found(id).await;
        assert!(last_end <= job.started_at.unwrap());
        assert!(ran_for(&job) >= SECOND);
        last_end = job.finished_at.unwrap();
    }
    assert_eq!(at_once(&world.events().await).0, 1);
}

#[tokio::test(start_paused = true)]
async fn eight_workers_run_each_of_a_thousand_jobs_once() {
    for time_scale in [0.01, 0.0] {
        let world = World::new();
        let options = WorkerOptions { count: 8, time_scale, ..WorkerOptions::default() };
        let _worker = world.worker(options);
        let jobs = world.submit_many("default", 1000, simulated(WorkKind::SuccessFast)).await;
        world.pass(3 * SECOND).await;
        let (n_max, begun) = at_once(&world.events().await);
        assert_eq!((n_max, begun.len()), (8, 1000));
        assert!(begun.values().all(|n| *n == 1));
        for job in jobs {
            let [.., running, succeeded] = states(&world.found(job.id).await)[..] else { unreachable!() };
            assert_eq!((running, succeeded), (State::Running, State::Succeeded));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn several_jobs_in_hand_are_never_more_than_the_concurrency() {
    for lanes in [1, 4] {
        let world = World::on(TestStore::with(lanes, 64), Options::default());
        let _worker = world.worker(WorkerOptions { count: 2, concurrency: 3, ..instant() });
        world.submit_many("default", 500, simulated(WorkKind::PayloadSmall)).await;
        world.pass(SECOND).await;
        let (n_max, begun) = at_once(&world.events().await);
        assert_eq!((n_max, begun.len()), (6, 500), "{lanes} lanes");
    }
}

#[tokio::test(start_paused = true)]
async fn rounds_share_transactions() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions { count: 4, concurrency: 64, ..instant() });
    world.settle().await;
    let n_before = world.store.n_begun();
    world.submit_many("default", 1024, simulated(WorkKind::PayloadSmall)).await;
    world.settle().await;
    assert_eq!(at_once(&world.events().await).1.len(), 1024);
    let n_transactions = world.store.n_begun() - n_before;
    // Four rounds of 256 at best; worker loops that are not in step need a few more.
    assert!(n_transactions <= 12, "{n_transactions} transactions");
}

#[tokio::test(start_paused = true)]
async fn a_claim_goes_with_the_report_that_makes_room_for_it_only_where_their_order_is_kept() {
    for (lanes, n_together) in [(1, 2), (4, 1)] {
        let world = World::on(TestStore::with(lanes, 64), Options::default());
        world.submit_many("default", 10, simulated(WorkKind::PayloadSmall)).await;
        let _worker = world.worker(WorkerOptions { count: 1, ..instant() });
        world.pass(SECOND).await;
        assert_eq!(at_once(&world.events().await).1.len(), 10);
        let n_most = world.store.written().iter().map(|written| written.n_answers).max();
        assert_eq!(n_most, Some(n_together), "{lanes} lanes");
    }
}

#[tokio::test(start_paused = true)]
async fn one_announcement_of_many_jobs_reaches_every_idle_worker() {
    let world = World::new();
    let worker = world.worker(WorkerOptions { count: 300, ..WorkerOptions::default() });
    world.settle().await;
    world.submit_many("default", 300, simulated(WorkKind::SuccessNormal)).await;
    world.settle().await;
    assert_eq!((worker.gauge().busy, worker.gauge().free), (300, 0));
}

#[tokio::test(start_paused = true)]
async fn without_workers_jobs_stay_queued() {
    let world = World::new();
    let worker = world.worker(WorkerOptions { count: 0, ..WorkerOptions::default() });
    let id = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(HOUR).await;
    assert_eq!(world.state(id).await, Some(State::Queued));
    worker.stop().await;
}

#[tokio::test(start_paused = true)]
async fn jobs_that_find_no_free_worker_stay_queued() {
    let world = World::new();
    let _worker = world.worker(single());
    let first = world.submit_kind(WorkKind::SuccessNormal).await;
    let second = world.submit_kind(WorkKind::SuccessNormal).await;
    world.pass(9 * SECOND).await;
    let states = (world.state(first).await, world.state(second).await);
    assert_eq!(states, (Some(State::Running), Some(State::Queued)));
}

#[tokio::test(start_paused = true)]
async fn the_bound_on_active_jobs_holds_and_is_used_up() {
    let world = World::new();
    let options = WorkerOptions { concurrency: 8, active_max: Some(5), ..WorkerOptions::default() };
    let _worker = world.worker(options);
    world.submit_many("default", 50, simulated(WorkKind::SuccessFast)).await;
    world.pass(10 * SECOND + SECOND / 2).await;
    let (n_max, begun) = at_once(&world.events().await);
    assert_eq!((n_max, begun.len()), (5, 50), "ten times five, a second each");
}

#[tokio::test(start_paused = true)]
async fn an_idle_worker_begins_a_new_job_at_once_and_costs_no_transactions() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    world.pass(SECOND).await;
    let (n_before, n_reads) = (world.store.n_begun(), world.store.n_reads());
    world.pass(10 * SECOND).await;
    assert_eq!(world.store.n_begun(), n_before);
    assert!(world.store.n_reads() - n_reads <= 11, "the timers look once a second");
    let before = world.engine.now();
    let id = world.submit_kind(WorkKind::SuccessFast).await;
    world.settle().await;
    super::assert_about_at(world.found(id).await.started_at.unwrap(), before, "the start");
}
