//! What time does: exactly at its moment, with nobody calling, and without polling.

use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Claim, Fail, WorkError};
use forgerun_core::job::{Lane, Shelf};
use forgerun_core::limits;
use forgerun_core::queue::Owner;
use forgerun_core::retry::{Jitter, RetryPolicy};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_engine::Options;

use crate::support::{HOUR, SECOND, World, claim, client, held, new_job, submit, succeed};

/// No regular look at the store: whatever happens was brought about by the alarm.
fn without_refresh() -> World {
    World::with(Options { due_refresh: 100 * HOUR, ..Options::default() })
}

async fn claimed_at(world: &World) -> Time {
    assert_eq!(world.engine.claim(claim(&["a"]), HOUR).await.unwrap().len(), 1);
    world.engine.now()
}

#[tokio::test(start_paused = true)]
async fn a_deferred_job_is_claimable_exactly_at_its_time() {
    let world = without_refresh();
    let due_at = world.engine.now() + 90 * SECOND;
    world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    assert_eq!(claimed_at(&world).await, due_at);
}

#[tokio::test(start_paused = true)]
async fn an_earlier_moment_set_later_wakes_the_timers() {
    let world = without_refresh();
    let base = world.engine.now();
    for seconds in [300, 200, 100] {
        let due_at = base + seconds * SECOND;
        world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
        world.settle().await;
    }
    for seconds in [100, 200, 300] {
        assert_eq!(claimed_at(&world).await, base + seconds * SECOND);
    }
}

#[tokio::test(start_paused = true)]
async fn expired_leases_come_back_with_nobody_calling() {
    let world = without_refresh();
    for (start, state) in [(false, State::Assigned), (true, State::Running)] {
        let job = world.submit_with("a", |head| head.retry = RetryPolicy::auto()).await;
        let dying = Claim { start, ..claim(&["a"]) };
        let taken = world.engine.claim(dying, HOUR).await.unwrap().remove(0);
        let until = taken.lease.as_ref().unwrap().until;
        assert_eq!(taken.state, state);
        let heir = world.engine.claim(claim(&["a"]), HOUR).await.unwrap().remove(0);
        assert_eq!((heir.id, heir.fence), (job.id, taken.fence + 1));
        let late = world.engine.now().since(until);
        assert!(late < Duration::from_millis(1), "tokio's clock has whole milliseconds: {late:?}");
        world.engine.act(succeed(&heir)).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_without_retries_ends_when_its_worker_is_lost() {
    let world = without_refresh();
    world.submit("a").await;
    let job = world.take("a").await;
    world.pass(limits::LEASE + SECOND).await;
    assert_eq!(world.state(job.id).await, Some(State::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_failed_attempt_is_tried_again_after_its_wait() {
    let world = without_refresh();
    let policy = RetryPolicy { jitter: Jitter::None, initial: 7 * SECOND, ..RetryPolicy::auto() };
    world.submit_with("a", |head| head.retry = policy).await;
    let job = world.take("a").await;
    let error = WorkError::new(Kind::RunnerLost, "broken");
    let failed_at = world.engine.now();
    world.engine.act(Command::Fail(Fail { held: held(&job), error })).await.unwrap();
    assert_eq!(claimed_at(&world).await, failed_at + 7 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn thousands_due_at_once_are_done_in_bites_between_which_others_get_through() {
    let world = without_refresh();
    let due_at = world.engine.now() + SECOND;
    world.submit_many("a", 5000, |head| head.execution_at = Some(due_at)).await;
    let n_before = world.store.written().len();
    let engine = world.engine.clone();
    let n_between = tokio::spawn(async move {
        let mut n_between = 0;
        while engine.now() < due_at {
            engine.claim(claim(&["c"]), Duration::from_millis(1)).await.unwrap();
        }
        let shelf = Shelf { lane: Lane::External, name: Owner::client(client()).scoped("a") };
        while engine.store().shelf(shelf.clone(), None, 5000).await.unwrap().len() < 5000 {
            submit(&engine, new_job(&engine, "b", |_| {})).await.unwrap();
            n_between += 1;
        }
        n_between
    });
    let n_between = n_between.await.unwrap();
    assert!(n_between >= 10, "{n_between} submissions got through between the bites");
    assert_eq!(world.engine.now(), due_at);
    let written = &world.store.written()[n_before..];
    assert!(written.iter().all(|written| written.n_updated <= limits::DUE_JOBS_MAX));
}

#[tokio::test(start_paused = true)]
async fn an_idle_engine_looks_at_the_store_only_to_refresh() {
    let world = World::new();
    let due_at = world.engine.now() + 2 * HOUR;
    world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    world.settle().await;
    let (n_reads, n_begun) = (world.store.n_reads(), world.store.n_begun());
    world.pass(60 * SECOND).await;
    assert_eq!(world.store.n_begun(), n_begun);
    let n_reads = world.store.n_reads() - n_reads;
    assert!((59..=61).contains(&n_reads), "{n_reads} looks in a minute");
}

#[tokio::test(start_paused = true)]
async fn commits_that_bring_nothing_earlier_cost_the_timers_no_look() {
    let world = without_refresh();
    let due_at = world.engine.now() + SECOND;
    world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    world.settle().await;
    let n_reads = world.store.n_reads();
    for n in 0..100 {
        let later = due_at + (200 - n) * SECOND;
        world.submit_with("b", |head| head.execution_at = Some(later)).await;
    }
    assert_eq!(world.store.n_reads(), n_reads);
}

#[tokio::test(start_paused = true)]
async fn moments_that_come_ever_earlier_cost_the_timers_no_look_until_one_has_come() {
    let world = without_refresh();
    let base = world.engine.now();
    world.settle().await;
    let n_reads = world.store.n_reads();
    for n in 0..100 {
        world.submit_with("b", |head| head.execution_at = Some(base + (200 - n) * SECOND)).await;
        tokio::task::yield_now().await;
    }
    assert_eq!(world.store.n_reads(), n_reads);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_goes_back_makes_nobody_spin() {
    let world = World::new();
    let due_at = world.engine.now() + 10 * SECOND;
    world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    world.submit("b").await;
    let job = world.take("b").await;
    world.pass(5 * SECOND).await;
    world.clock.set_back(HOUR);
    world.settle().await;
    let (n_reads, n_begun) = (world.store.n_reads(), world.store.n_begun());
    world.pass(60 * SECOND).await;
    assert_eq!(world.store.n_begun(), n_begun);
    assert!(world.store.n_reads() - n_reads <= 61, "{} looks in a minute", world.store.n_reads() - n_reads);
    // Work goes on, and what was due is done when its moment comes again.
    world.engine.act(succeed(&job)).await.unwrap();
    world.engine.claim(claim(&["a"]), 2 * HOUR).await.unwrap().pop().expect("its time has come");
    assert!(world.engine.now().since(due_at) < SECOND);
}

#[tokio::test(start_paused = true)]
async fn what_another_node_left_behind_is_found_by_the_refresh() {
    let world = World::shared();
    let node = world.node();
    world.settle().await;
    let due_at = world.engine.now() + SECOND / 2;
    node.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    drop(node);
    let claimed_at = claimed_at(&world).await;
    assert!(claimed_at.since(due_at) <= SECOND, "{claimed_at:?}");
}
