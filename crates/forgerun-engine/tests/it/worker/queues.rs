//! Simulated jobs may be in any queue.

use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::WorkerOptions;

use super::{instant, simulated, single};
use crate::support::{HOUR, SECOND, World, pause};

async fn assert_all_end(world: &World, n_queues: usize) {
    world.settle().await;
    for stats in world.engine.store().queues().await.unwrap() {
        let n_ended = stats.counts.of(State::Succeeded);
        assert_eq!(n_ended, 2, "{:?}", stats.queue);
    }
    assert_eq!(world.engine.store().queues().await.unwrap().len(), n_queues);
}

#[tokio::test(start_paused = true)]
async fn jobs_are_found_in_queues_that_nobody_named() {
    let world = World::new();
    let _worker = world.worker(instant());
    world.settle().await;
    for n in 0..200 {
        world.submit_many(&format!("q{n}"), 2, simulated(WorkKind::PayloadSmall)).await;
    }
    assert_all_end(&world, 200).await;
}

#[tokio::test(start_paused = true)]
async fn jobs_that_waited_before_the_worker_came_are_found_in_all_queues() {
    for n_queues in [1, 3, 1200] {
        let world = World::new();
        for n in 0..n_queues {
            world.submit_many(&format!("q{n}"), 2, simulated(WorkKind::PayloadSmall)).await;
        }
        let world = world.crash(SECOND).await;
        let _worker = world.worker(WorkerOptions { concurrency: 100, ..instant() });
        assert_all_end(&world, n_queues).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_never_empty_does_not_starve_another() {
    let world = World::new();
    world.submit_many("a", 100, simulated(WorkKind::SuccessFast)).await;
    let other = world.submit_with("b", simulated(WorkKind::SuccessFast)).await.id;
    let _worker = world.worker(single());
    world.pass(5 * SECOND).await;
    assert_eq!(world.state(other).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_rests_and_goes_on_when_it_is_resumed() {
    let world = World::new();
    let _worker = world.worker(instant());
    world.engine.run(pause("a", true)).await.unwrap();
    let id = world.submit_with("a", simulated(WorkKind::SuccessFast)).await.id;
    world.pass(HOUR).await;
    assert_eq!(world.state(id).await, Some(State::Queued));
    world.engine.run(pause("a", false)).await.unwrap();
    world.settle().await;
    assert_eq!(world.state(id).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn real_work_is_left_to_others() {
    let world = World::new();
    let real = world.submit("default").await.id;
    let _worker = world.worker(instant());
    let simulated = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(SECOND).await;
    let states = (world.state(real).await, world.state(simulated).await);
    assert_eq!(states, (Some(State::Queued), Some(State::Succeeded)));
}

#[tokio::test(start_paused = true)]
async fn a_job_submitted_on_another_node_is_begun_at_once() {
    let world = World::shared();
    let there = world.node();
    let _worker = world.worker(single());
    world.settle().await;
    let before = world.engine.now();
    let id = there.submit_with("elsewhere", simulated(WorkKind::SuccessFast)).await.id;
    world.settle().await;
    super::assert_about_at(world.found(id).await.started_at.unwrap(), before, "the start");
}
