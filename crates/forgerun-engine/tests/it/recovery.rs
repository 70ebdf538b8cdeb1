//! A new engine on what a dead one left: nothing acknowledged is lost, and nothing has to be
//! repaired.

use std::time::Duration;

use forgerun_core::limits;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::state::State;

use crate::support::{HOUR, SECOND, World, claim, is_ready, new_job, submit, succeed};

#[tokio::test(start_paused = true)]
async fn waiting_jobs_are_visible_and_claimable_after_a_restart() {
    let world = World::new();
    let job = world.submit("a").await;
    let world = world.crash(Duration::ZERO).await;
    let before = world.engine.now();
    assert_eq!(world.job(job.id).await, Some(job.clone()));
    assert_eq!(world.engine.claim(claim(&["a"]), HOUR).await.unwrap()[0].id, job.id);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn schedules_missed_while_the_engine_was_down_run_at_once() {
    let world = World::new();
    let due_at = world.engine.now() + SECOND;
    let job = world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    let world = world.crash(HOUR).await;
    let before = world.engine.now();
    assert_eq!(world.engine.claim(claim(&["a"]), HOUR).await.unwrap()[0].id, job.id);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn leases_of_workers_that_died_with_the_engine_come_back() {
    let world = World::new();
    world.submit_with("a", |head| head.retry = RetryPolicy::auto()).await;
    let dead = world.take("a").await;
    let world = world.crash(limits::LEASE / 2).await;
    assert!(world.claim_now("a").await.is_empty(), "the lease still runs");
    let heir = world.engine.claim(claim(&["a"]), HOUR).await.unwrap().remove(0);
    assert_eq!(heir.id, dead.id);
    assert!(world.engine.now().since(dead.lease.unwrap().until) < Duration::from_millis(1));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_outlives_the_engine_can_still_report() {
    let world = World::new();
    world.submit("a").await;
    let job = world.take("a").await;
    let world = world.crash(SECOND).await;
    assert_eq!(world.engine.act(succeed(&job)).await.unwrap().0.state, State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn a_crash_cuts_off_what_is_under_way_and_keeps_what_was_answered() {
    let world = World::new();
    let answered = world.submit("a").await;
    world.store.block();
    let new = new_job(&world.engine, "a", |_| {});
    let unanswered = new.id;
    let mut caller = Box::pin(submit(&world.engine, new));
    assert!(!is_ready(&mut caller).await);
    world.settle().await;
    assert_eq!(world.store.n_begun(), 2, "the store has it");
    drop(caller);
    let world = world.crash(SECOND).await;
    world.store.release();
    world.settle().await;
    assert_eq!(world.state(answered.id).await, Some(State::Queued));
    assert_eq!(world.state(unanswered).await, None);
}
