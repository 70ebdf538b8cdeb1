//! Workers stopped by the bound on active jobs: they go on as soon as one ends, and not before.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::command::{Claim, QueueChange, QueueCommand, WorkerKind};
use forgerun_core::pace::QueueRate;
use forgerun_core::queue::QueueId;
use forgerun_engine::Clock;

use crate::support::{
    HOUR, SECOND, World, at_once, claim, is_ready, name, new_job, simulated, submit, succeed,
};

fn capped(active_max: u64) -> Claim {
    Claim { active_max: Some(active_max), worker_kind: WorkerKind::BuiltIn, ..claim(&["a"]) }
}

#[tokio::test(start_paused = true)]
async fn a_capped_claim_goes_on_when_a_job_ends_and_costs_nothing_until_then() {
    let world = World::new();
    world.submit_many("a", 2, simulated).await;
    let first = world.engine.claim(capped(1), HOUR).await.unwrap().remove(0);
    let engine = world.engine.clone();
    let second = tokio::spawn(async move { engine.claim(capped(1), HOUR).await.unwrap() });
    world.settle().await;
    let n_before = world.store.n_begun();
    world.pass(10 * SECOND).await;
    assert_eq!(world.store.n_begun(), n_before);
    let before = world.engine.now();
    world.engine.act(succeed(&first)).await.unwrap();
    assert_eq!(second.await.unwrap().len(), 1);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_in_the_batch_that_finds_the_cap_is_not_missed() {
    let world = World::new();
    world.submit_many("a", 2, simulated).await;
    let first = world.engine.claim(capped(1), HOUR).await.unwrap().remove(0);
    world.settle().await;
    world.store.block();
    let mut busy = Box::pin(submit(&world.engine, new_job(&world.engine, "b", simulated)));
    assert!(!is_ready(&mut busy).await);
    world.settle().await;
    let mut second = Box::pin(world.engine.claim(capped(1), HOUR));
    assert!(!is_ready(&mut second).await);
    let mut end = Box::pin(world.engine.act(succeed(&first)));
    assert!(!is_ready(&mut end).await);
    world.store.release();
    busy.await.unwrap();
    end.await.unwrap();
    let before = world.engine.now();
    assert_eq!(second.await.unwrap().len(), 1);
    assert!(world.engine.now().since(before) < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_job_that_ends_on_another_node_makes_room_too() {
    let world = World::shared();
    world.submit_many("a", 2, simulated).await;
    let node = world.node();
    let first = node.engine.claim(capped(1), HOUR).await.unwrap().remove(0);
    let engine = world.engine.clone();
    let second = tokio::spawn(async move { engine.claim(capped(1), HOUR).await.unwrap() });
    world.settle().await;
    let before = world.engine.now();
    node.engine.act(succeed(&first)).await.unwrap();
    assert_eq!(second.await.unwrap().len(), 1);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn workers_at_their_cap_do_not_stand_in_front_of_one_that_has_none() {
    let world = World::new();
    world.submit_with("a", simulated).await;
    let held = world.engine.claim(capped(1), HOUR).await.unwrap();
    assert_eq!(held.len(), 1);
    // Idle, then in line: the first 64 of them are those that an announcement wakes.
    let uncapped = || Claim { worker_kind: WorkerKind::BuiltIn, ..claim(&["a"]) };
    assert!(world.engine.claim(uncapped(), Duration::ZERO).await.unwrap().is_empty());
    let mut workers = tokio::task::JoinSet::new();
    for _ in 0..70 {
        let engine = world.engine.clone();
        workers.spawn(async move { engine.claim(capped(1), 2 * SECOND).await.unwrap().len() });
    }
    world.settle().await;
    let engine = world.engine.clone();
    let free = tokio::spawn(async move { engine.claim(uncapped(), HOUR).await.unwrap() });
    world.settle().await;
    let before = world.engine.now();
    let job = world.submit_with("a", simulated).await;
    assert_eq!(free.await.unwrap()[0].id, job.id);
    assert_eq!(world.engine.now(), before);
    assert_eq!(workers.join_all().await, [0; 70]);
}

#[tokio::test(start_paused = true)]
async fn the_cap_holds_however_many_workers_press_against_it() {
    let world = World::new();
    world.submit_many("a", 100, simulated).await;
    let began_at = world.engine.now();
    let (n_active, n_active_max) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    at_once(20, |_| {
        let (engine, clock) = (world.engine.clone(), world.clock.clone());
        let (n_active, n_active_max) = (n_active.clone(), n_active_max.clone());
        async move {
            for _ in 0..5 {
                let job = engine.claim(capped(3), HOUR).await.unwrap().remove(0);
                n_active_max.fetch_max(n_active.fetch_add(1, SeqCst) + 1, SeqCst);
                clock.sleep(Duration::from_millis(30)).await;
                n_active.fetch_sub(1, SeqCst);
                engine.act(succeed(&job)).await.unwrap();
            }
        }
    })
    .await;
    assert_eq!(n_active_max.load(SeqCst), 3);
    let took = world.engine.now().since(began_at);
    assert_eq!(took, 34 * Duration::from_millis(30), "100 jobs, three at a time, no place left empty");
}

/// Both kinds of queues: one that everybody shares, and one of an owner.
#[tokio::test(start_paused = true)]
async fn a_claim_that_came_too_early_for_its_queue_is_woken_when_the_turn_comes() {
    for (worker_kind, set) in
        [(WorkerKind::BuiltIn, simulated as fn(&mut _)), (claim(&["a"]).worker_kind, |_: &mut _| ())]
    {
        let world = World::new();
        world.submit_many("a", 3, set).await;
        let rate = Some(Some(QueueRate::per_1000_s(100)));
        let change = QueueChange { rate, ..QueueChange::default() };
        let command = QueueCommand { queue: QueueId::shared(name("a")), change };
        world.engine.run(Command::Queue(command)).await.unwrap();
        let claim = Claim { worker_kind, ..claim(&["a"]) };
        let begun_at = world.engine.now();
        for _ in 0..3 {
            assert_eq!(world.engine.claim(claim.clone(), HOUR).await.unwrap().len(), 1);
        }
        let took = world.engine.now().since(begun_at);
        assert!((20 * SECOND..21 * SECOND).contains(&took), "one every ten seconds: {took:?}");
    }
}
