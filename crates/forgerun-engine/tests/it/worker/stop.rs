//! The end of the worker: nothing is stuck, and nothing is left running.

use std::sync::Arc;

use forgerun_core::limits;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::WorkerOptions;
use forgerun_store::Fault;

use super::{instant, simulated, single, states};
use crate::store::Failure;
use crate::support::{HOUR, SECOND, World, is_ready};

#[tokio::test(start_paused = true)]
async fn what_ends_soon_is_finished_and_the_rest_is_handed_back_for_others() {
    let world = World::new();
    let worker = world.worker(WorkerOptions { concurrency: 2, ..single() });
    let long = world.submit_kind(WorkKind::SuccessNormal).await;
    let short = world.submit_kind(WorkKind::FailAfterRetryable).await;
    world.pass(4 * SECOND + SECOND / 2).await;
    let before = world.engine.now();
    worker.stop().await;
    assert!(world.engine.now().since(before) < SECOND);
    assert_eq!(world.state(short).await, Some(State::Failed));
    let job = world.found(long).await;
    assert_eq!((job.state, job.attempt, job.lease), (State::Queued, 1, None));
    assert_eq!((worker.gauge().busy, worker.gauge().free), (0, 2));
    let waiting = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(HOUR).await;
    assert_eq!(world.state(waiting).await, Some(State::Queued), "nothing is claimed any more");
    let _heir = world.worker(single());
    world.pass(12 * SECOND).await;
    assert_eq!(world.state(long).await, Some(State::Succeeded));
    assert_eq!(world.state(waiting).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_never_rests_can_be_stopped() {
    let world = World::new();
    let jobs = world.submit_many("default", 5000, simulated(WorkKind::PayloadSmall)).await;
    let worker = world.worker(instant());
    tokio::task::yield_now().await;
    worker.stop().await;
    let mut n_left = 0;
    for job in jobs {
        let state = world.state(job.id).await.unwrap();
        assert!(matches!(state, State::Queued | State::Succeeded), "{state:?}");
        n_left += usize::from(state == State::Queued);
    }
    assert!(n_left > 0, "it stopped before everything was done");
}

#[tokio::test(start_paused = true)]
async fn a_worker_in_trouble_gives_up_after_a_while_and_the_leases_see_to_the_rest() {
    let world = World::new();
    let worker = world.worker(single());
    let id = world.submit_kind(WorkKind::SuccessNormal).await;
    world.pass(SECOND).await;
    world.store.fail(10_000, Failure::Before(Fault::Unavailable));
    let before = world.engine.now();
    worker.stop().await;
    assert!(world.engine.now().since(before) < 10 * SECOND);
    world.store.mend();
    world.pass(limits::LEASE + SECOND).await;
    assert_eq!(world.state(id).await, Some(State::Failed));
}

#[tokio::test(start_paused = true)]
async fn stopping_twice_or_giving_up_on_it_is_fine() {
    let world = World::new();
    let worker = world.worker(single());
    let id = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(SECOND / 2).await;
    let mut abandoned = Box::pin(worker.stop());
    assert!(!is_ready(&mut abandoned).await);
    drop(abandoned);
    worker.stop().await;
    worker.stop().await;
    assert_eq!(world.state(id).await, Some(State::Succeeded), "it ended within a second");
}

#[tokio::test(start_paused = true)]
async fn an_engine_that_stops_first_ends_the_worker_too() {
    let world = World::new();
    let worker = world.worker(WorkerOptions::default());
    let id = world.submit_kind(WorkKind::SuccessNormal).await;
    world.pass(SECOND).await;
    world.engine.stop().await;
    tokio::time::timeout(SECOND, worker.stop()).await.expect("it ends");
    // As after a crash.
    let world = world.crash(limits::LEASE + SECOND).await;
    world.settle().await;
    assert_eq!(states(&world.found(id).await).last(), Some(&State::Failed));
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_running_after_a_stop_or_a_kill() {
    for kill in [false, true] {
        let world = World::new();
        let worker = world.worker(WorkerOptions::default());
        world.submit_kind(WorkKind::SuccessNormal).await;
        world.settle().await;
        if !kill {
            worker.stop().await;
        }
        drop(worker);
        world.settle().await;
        world.engine.stop().await;
        let World { store, engine, .. } = world;
        drop(engine);
        assert_eq!(Arc::strong_count(&store), 1);
    }
}
