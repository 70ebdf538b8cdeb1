//! The end: what was accepted is written and answered, everybody goes home, nothing is left
//! running.

use std::sync::Arc;
use std::time::Duration;

use forgerun_engine::{Clock, Error, Options};

use crate::store::TestStore;
use crate::support::{HOUR, SECOND, World, at_once, claim, is_ready, new_job, submission, submit};

#[tokio::test(start_paused = true)]
async fn accepted_commands_are_written_and_answered_and_later_ones_refused() {
    for lanes in [1, 4] {
        let options = Options { batch_max: 2, ..Options::default() };
        let world = World::on(TestStore::with(lanes, 64), options);
        world.store.block();
        let accepted = at_once(20, |_| {
            let engine = world.engine.clone();
            async move { submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap() }
        });
        let stop = async {
            world.settle().await;
            let mut stop = Box::pin(world.engine.stop());
            assert!(!is_ready(&mut stop).await);
            assert!(world.engine.is_stopping());
            let late = submit(&world.engine, new_job(&world.engine, "a", |_| {})).await;
            assert!(matches!(late, Err(Error::Stopped)));
            assert!(matches!(world.engine.claim(claim(&["a"]), HOUR).await, Err(Error::Stopped)));
            world.store.release();
            stop.await;
        };
        tokio::join!(accepted, stop);
        assert_eq!(world.n_claimable("a").await, 20);
    }
}

#[tokio::test(start_paused = true)]
async fn waiting_claims_return_empty() {
    let world = World::new();
    let claims = at_once(100, |_| {
        let engine = world.engine.clone();
        async move { engine.claim(claim(&["a"]), HOUR).await.unwrap().len() }
    });
    let stop = async {
        world.settle().await;
        world.engine.stop().await;
    };
    let before = world.engine.now();
    assert_eq!(tokio::join!(claims, stop).0, [0; 100]);
    assert!(world.engine.now().since(before) < SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_told_to_stop_between_two_looks_returns_empty() {
    let world = World::new();
    let mut worker = Box::pin(world.engine.claim(claim(&["a"]), HOUR));
    assert!(!is_ready(&mut worker).await);
    world.settle().await;
    // Its first look has found nothing, but it does not know yet; there is work now, and it may not
    // have it.
    world.submit("a").await;
    world.engine.stop().await;
    assert!(worker.await.unwrap().is_empty());
}

#[tokio::test(start_paused = true)]
async fn stopping_twice_or_giving_up_on_it_is_fine() {
    let world = World::new();
    world.store.block();
    let mut answer = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut answer).await);
    world.settle().await;
    let mut abandoned = Box::pin(world.engine.stop());
    assert!(!is_ready(&mut abandoned).await);
    drop(abandoned);
    let mut stop = Box::pin(world.engine.stop());
    let mut again = Box::pin(world.engine.stop());
    assert!(!is_ready(&mut stop).await);
    assert!(!is_ready(&mut again).await, "it is not over yet");
    world.store.release();
    stop.await;
    again.await;
    assert!(answer.await.is_ok());
    world.engine.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_never_looks_at_its_answer_does_not_hold_up_the_end() {
    let world = World::new();
    let mut forgotten = Box::pin(world.engine.run(submission(new_job(&world.engine, "a", |_| {}))));
    assert!(!is_ready(&mut forgotten).await);
    tokio::time::timeout(HOUR, world.engine.stop()).await.expect("it stops");
    assert!(forgotten.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn stopping_does_not_wait_for_all_that_is_due_or_to_be_swept() {
    let options = Options { due_max: 1, sweep_max: 1, journal_keep: Duration::ZERO, ..Options::default() };
    let world = World::with(options);
    let due_at = world.engine.now() + SECOND;
    world.submit_many("a", 1000, |head| head.execution_at = Some(due_at)).await;
    world.pass(SECOND).await;
    world.engine.stop().await;
    assert!(world.n_claimable("a").await < 1000);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_left_running_after_a_stop() {
    let world = World::new();
    world.submit("a").await;
    world.engine.stop().await;
    let World { store, engine, .. } = world;
    drop(engine);
    assert_eq!(Arc::strong_count(&store), 1);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_last_handle_cuts_everything_off() {
    let world = World::new();
    world.submit("a").await;
    world.store.block();
    let mut caller = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut caller).await);
    world.settle().await;
    drop(caller);
    let World { store, engine, clock } = world;
    let other = engine.clone();
    drop(engine);
    clock.sleep(SECOND).await;
    assert!(Arc::strong_count(&store) > 1, "another handle is left");
    drop(other);
    clock.sleep(SECOND).await;
    assert_eq!(Arc::strong_count(&store), 1, "not even the blocked batch is left");
}
