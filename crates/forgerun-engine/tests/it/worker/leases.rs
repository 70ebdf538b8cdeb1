//! Signs of life, and what follows when there are none.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::limits;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::WorkerOptions;

use super::{assert_about, assert_about_at, ran_for, simulated, single, states};
use crate::support::{SECOND, World};

#[tokio::test(start_paused = true)]
async fn heartbeats_keep_the_lease_of_work_longer_than_it() {
    let world = World::new();
    let worker = world.worker(single());
    let id = world.submit_kind(WorkKind::SuccessSlow).await;
    world.pass(SECOND).await;
    let job = world.found(id).await;
    let lease = job.lease.unwrap();
    assert_eq!((lease.length, lease.worker.as_str()), (limits::LEASE, "worker-1"));
    for _ in 0..88 {
        world.pass(SECOND).await;
        let lease = world.found(id).await.lease.unwrap();
        let left = lease.until.since(world.engine.now());
        assert!(left >= limits::LEASE - 5 * SECOND - SECOND, "{left:?} left");
    }
    world.pass(2 * SECOND).await;
    let job = world.found(id).await;
    assert_eq!(states(&job).last(), Some(&State::Succeeded));
    assert_about(ran_for(&job), 90 * SECOND, "SUCCESS_SLOW");
    let gauge = worker.gauge();
    assert!((17..=22).contains(&gauge.heartbeats), "one per 5 s, three of them moved by progress: {gauge:?}");
    assert!(world.engine.now().since(gauge.last_heartbeat.unwrap()) < 8 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_job_with_a_lease_shorter_than_the_heartbeat_is_not_lost() {
    let world = World::new();
    let _worker = world.worker(single());
    let short = |head: &mut forgerun_core::job::Head| {
        simulated(WorkKind::SuccessNormal)(head);
        head.lease = Some(SECOND);
    };
    let id = world.submit_with("default", short).await.id;
    world.pass(11 * SECOND).await;
    assert_eq!(world.state(id).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn the_job_of_a_killed_worker_fails_as_lost_when_its_lease_ends() {
    let world = World::new();
    let worker = world.worker(single());
    let id = world.submit_kind(WorkKind::SuccessSlow).await;
    world.pass(12 * SECOND).await;
    let until = world.found(id).await.lease.unwrap().until;
    drop(worker);
    world.pass(limits::LEASE + SECOND).await;
    let job = world.found(id).await;
    let error = job.last_error().unwrap();
    assert_eq!((job.state, error.kind, error.retryable), (State::Failed, Kind::RunnerLost, true));
    assert_about_at(job.finished_at.unwrap(), until, "the end");
}

#[tokio::test(start_paused = true)]
async fn a_job_that_retries_by_itself_goes_from_a_killed_worker_to_another() {
    let world = World::new();
    let worker = world.worker(single());
    let auto = |head: &mut forgerun_core::job::Head| {
        simulated(WorkKind::SuccessNormal)(head);
        head.retry = RetryPolicy::auto();
    };
    let id = world.submit_with("default", auto).await.id;
    world.pass(SECOND).await;
    drop(worker);
    let _heir = world.worker(single());
    world.pass(limits::LEASE + 11 * SECOND).await;
    let job = world.found(id).await;
    assert_eq!((job.state, job.attempt), (State::Succeeded, 2));
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_does_not_prolong_the_work() {
    let world = World::new();
    let _worker = world.worker(single());
    let id = world.submit_kind(WorkKind::SuccessNormal).await;
    world.pass(5 * SECOND + SECOND / 2).await;
    world.clock.set_back(Duration::from_secs(3600));
    // It notices when it next looks at the clock.
    world.pass(8 * SECOND).await;
    assert_eq!(world.state(id).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn the_gauge_tells_busy_slots_from_free_ones() {
    let world = World::new();
    let worker = world.worker(WorkerOptions { count: 2, concurrency: 2, ..WorkerOptions::default() });
    assert_eq!((worker.gauge().busy, worker.gauge().free, worker.gauge().last_heartbeat), (0, 4, None));
    for _ in 0..3 {
        world.submit_kind(WorkKind::SuccessNormal).await;
    }
    world.pass(SECOND).await;
    assert_eq!((worker.gauge().busy, worker.gauge().free), (3, 1));
    world.pass(10 * SECOND).await;
    assert_eq!((worker.gauge().busy, worker.gauge().free), (0, 4));
}
