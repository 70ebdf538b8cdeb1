//! More work than the store can take: refuse at once, and lose nothing that was accepted.

use std::pin::Pin;

use forgerun_core::Command;
use forgerun_core::command::{HeldJob, LeaseProof};
use forgerun_core::job::Job;
use forgerun_core::state::State;
use forgerun_engine::{Error, Options};

use crate::support::{HOUR, SECOND, World, announced, claim, is_ready, new_job, submit};

fn cramped() -> World {
    World::with(Options { commands_waiting_max: 4, ..Options::default() })
}

/// Fills the queue of a store that is blocked: one is with the store, four wait.
async fn full(world: &World) -> Vec<Pin<Box<impl Future<Output = Result<Job, Error>>>>> {
    let mut accepted = Vec::new();
    for _ in 0..5 {
        let mut answer = Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {})));
        assert!(!is_ready(&mut answer).await);
        accepted.push(answer);
        world.settle().await;
    }
    accepted
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_at_once_and_nothing_of_it_is_written() {
    let world = cramped();
    world.store.block();
    let mut accepted = Vec::new();
    // One is with the store, four wait.
    for _ in 0..5 {
        let new = new_job(&world.engine, "a", |_| {});
        let mut answer = Box::pin(submit(&world.engine, new));
        assert!(!is_ready(&mut answer).await);
        accepted.push(answer);
        world.settle().await;
    }
    let refused = new_job(&world.engine, "a", |_| {});
    let refused_id = refused.id;
    let before = world.engine.now();
    assert!(matches!(submit(&world.engine, refused).await, Err(Error::Overloaded)));
    assert_eq!(world.engine.now(), before);
    world.store.release();
    for answer in accepted {
        answer.await.unwrap();
    }
    assert_eq!(world.n_claimable("a").await, 5);
    assert_eq!(world.state(refused_id).await, None);
    world.submit("a").await;
}

#[tokio::test(start_paused = true)]
async fn a_job_that_is_handed_back_waits_for_a_place() {
    let world = cramped();
    let id = world.submit("a").await.id;
    let fence = world.claim_now("a").await[0].fence;
    world.store.block();
    let _waiting = full(&world).await;
    let held = HeldJob { job: id, proof: LeaseProof::Token(fence), client: None };
    world.engine.enqueue(Command::HandBack(held));
    world.settle().await;
    world.store.release();
    world.settle().await;
    assert_eq!(world.state(id).await, Some(State::Queued));
}

#[tokio::test(start_paused = true)]
async fn the_timers_wait_for_a_place_instead_of_giving_up() {
    let world = cramped();
    let due_at = world.engine.now() + SECOND;
    world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    world.store.block();
    let _waiting = full(&world).await;
    world.pass(10 * SECOND).await;
    world.store.release();
    world.settle().await;
    assert_eq!(world.n_claimable("a").await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_store_holds_up_nobody_who_does_not_write() {
    let world = cramped();
    let job = world.submit("a").await;
    assert!(world.claim_now("empty").await.is_empty());
    let mut reader = world.engine.journal(0);
    world.store.block();
    let mut stuck = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut stuck).await);
    world.settle().await;
    let before = world.engine.now();
    assert!(world.job(job.id).await.is_some());
    assert_eq!(reader.next(10).await.unwrap().len(), 1);
    assert!(world.claim_now("empty").await.is_empty());
    let waited = world.engine.claim(claim(&["empty"]), SECOND).await.unwrap();
    assert!(waited.is_empty());
    assert_eq!(world.engine.now().since(before), SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_worker_refused_by_a_full_queue_leaves_its_wake_up_to_the_next() {
    let world = cramped();
    assert!(world.claim_now("a").await.is_empty());
    let mut workers: Vec<_> = (0..70).map(|_| Box::pin(world.engine.claim(claim(&["a"]), HOUR))).collect();
    for worker in &mut workers {
        assert!(!is_ready(worker).await);
    }
    let job = world.submit_with("a", announced).await;
    world.store.block();
    let mut busy = Vec::new();
    for _ in 0..5 {
        busy.push(Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {}))));
        assert!(!is_ready(busy.last_mut().unwrap()).await);
        world.settle().await;
    }
    // The announcement reached the first 64. The others hear of it from those that are refused.
    let last = workers.pop().unwrap();
    let before = world.engine.now();
    for worker in workers {
        assert!(matches!(worker.await, Err(Error::Overloaded)));
    }
    world.store.release();
    for answer in busy {
        answer.await.unwrap();
    }
    assert_eq!(last.await.unwrap()[0].id, job.id);
    assert_eq!(world.engine.now(), before, "nobody slept until the end of its wait");
}
