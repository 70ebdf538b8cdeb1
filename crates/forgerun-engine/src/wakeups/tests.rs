//! Every way in which a wake-up could get lost.

use super::*;
use forgerun_core::job::{Lane, Name};

fn shelf(name: &str) -> Shelf {
    Shelf { lane: Lane::External, name: Name::new(name).unwrap() }
}

/// Workers that have looked at shelf `a`, found nothing and stand in line.
fn idlers(wakeups: &Wakeups, n: usize) -> Vec<Waiter> {
    let idler = |_| {
        let mut waiter = wakeups.wait_for(vec![shelf("a")]);
        let look = waiter.look();
        waiter.found_nothing(&look);
        waiter
    };
    (0..n).map(idler).collect()
}

async fn was_woken(waiter: &Waiter) -> bool {
    tokio::time::timeout(std::time::Duration::ZERO, waiter.notify.notified()).await.is_ok()
}

#[test]
fn an_unknown_shelf_is_worth_a_look_because_of_what_a_restart_left_there() {
    assert!(Wakeups::default().wait_for(vec![shelf("a")]).look().worthwhile);
}

#[test]
fn a_shelf_found_empty_is_idle_until_something_is_put_on_it() {
    let wakeups = Wakeups::default();
    let mut waiter = wakeups.wait_for(vec![shelf("a"), shelf("b")]);
    let look = waiter.look();
    waiter.found_nothing(&look);
    assert!(!waiter.look().worthwhile);
    wakeups.wake(&[shelf("b")]);
    assert!(waiter.look().worthwhile);
}

#[test]
fn work_that_arrives_during_an_empty_claim_is_not_missed() {
    let wakeups = Wakeups::default();
    let mut waiter = wakeups.wait_for(vec![shelf("a")]);
    let look = waiter.look();
    wakeups.wake(&[shelf("a")]);
    waiter.found_nothing(&look);
    assert!(waiter.look().worthwhile);
}

#[tokio::test]
async fn a_wake_up_before_the_wait_is_kept() {
    let wakeups = Wakeups::default();
    let waiters = idlers(&wakeups, 1);
    wakeups.wake(&[shelf("a")]);
    assert!(was_woken(&waiters[0]).await);
}

#[tokio::test]
async fn one_announcement_wakes_a_bounded_number_in_the_order_of_the_line() {
    let wakeups = Wakeups::default();
    let waiters = idlers(&wakeups, WOKEN_AT_ONCE + 1);
    wakeups.wake(&[shelf("a")]);
    for waiter in &waiters[..WOKEN_AT_ONCE] {
        assert!(was_woken(waiter).await);
    }
    assert!(!was_woken(&waiters[WOKEN_AT_ONCE]).await);
}

#[tokio::test]
async fn a_worker_that_is_woken_and_leaves_without_looking_passes_it_on() {
    let wakeups = Wakeups::default();
    let mut waiters = idlers(&wakeups, WOKEN_AT_ONCE + 1);
    wakeups.wake(&[shelf("a")]);
    drop(waiters.remove(0));
    assert!(was_woken(waiters.last().unwrap()).await);
}

#[tokio::test]
async fn a_worker_that_is_woken_again_while_it_takes_something_else_passes_it_on() {
    let wakeups = Wakeups::default();
    let mut waiters = idlers(&wakeups, WOKEN_AT_ONCE + 1);
    wakeups.wake(&[shelf("a")]);
    waiters[..WOKEN_AT_ONCE].iter_mut().for_each(|waiter| drop(waiter.look()));
    // While their claims are under way they stand in front, so a second announcement reaches the
    // same ones.
    wakeups.wake(&[shelf("a")]);
    assert!(!was_woken(waiters.last().unwrap()).await);
    waiters[0].took(false);
    drop(waiters.remove(0));
    assert!(was_woken(waiters.last().unwrap()).await);
}

#[tokio::test]
async fn a_worker_whose_claim_failed_passes_it_on() {
    let wakeups = Wakeups::default();
    let mut waiters = idlers(&wakeups, WOKEN_AT_ONCE + 1);
    wakeups.wake(&[shelf("a")]);
    waiters[0].look();
    drop(waiters.remove(0));
    assert!(was_woken(waiters.last().unwrap()).await);
}

#[tokio::test]
async fn a_worker_that_leaves_an_idle_shelf_wakes_nobody() {
    let wakeups = Wakeups::default();
    let mut waiters = idlers(&wakeups, 2);
    drop(waiters.remove(0));
    assert!(!was_woken(&waiters[0]).await);
}

#[tokio::test]
async fn a_worker_stopped_by_the_cap_lets_the_next_one_look_and_hears_of_the_next_end() {
    let wakeups = Wakeups::default();
    let mut waiters = idlers(&wakeups, WOKEN_AT_ONCE + 1);
    wakeups.wake(&[shelf("a")]);
    let look = waiters[0].look();
    assert!(was_woken(&waiters[0]).await);
    waiters[0].found_cap(&look);
    assert!(was_woken(waiters.last().unwrap()).await);
    wakeups.wake(&[shelf("a")]);
    assert!(!was_woken(&waiters[0]).await, "it could not take it");
    wakeups.wake_capped();
    assert!(was_woken(&waiters[0]).await);
}

#[tokio::test]
async fn a_job_that_ends_while_a_claim_finds_the_cap_is_not_missed() {
    let wakeups = Wakeups::default();
    let mut waiter = wakeups.wait_for(vec![shelf("a")]);
    let look = waiter.look();
    wakeups.wake_capped();
    waiter.found_cap(&look);
    assert!(was_woken(&waiter).await);
}

#[test]
fn nothing_is_left_of_workers_and_busy_shelves_that_are_gone() {
    let wakeups = Wakeups::default();
    for n in 0..100 {
        let mut waiter = wakeups.wait_for(vec![shelf(&format!("queue {n}"))]);
        let look = waiter.look();
        waiter.found_cap(&look);
        wakeups.wake(&[shelf(&format!("other queue {n}"))]);
    }
    let line = wakeups.line();
    assert_eq!((line.shelves.len(), line.capped.len()), (0, 0));
}

#[test]
fn idle_shelves_are_remembered_up_to_a_bound() {
    let wakeups = Wakeups::default();
    for n in 0..SHELVES_KEPT_MAX + 10 {
        let mut waiter = wakeups.wait_for(vec![shelf(&format!("queue {n}"))]);
        let look = waiter.look();
        waiter.found_nothing(&look);
    }
    assert_eq!(wakeups.line().shelves.len(), SHELVES_KEPT_MAX);
}

#[test]
fn a_shelf_forgotten_and_met_again_is_not_taken_for_the_one_that_was_empty() {
    let wakeups = Wakeups::default();
    let mut early = wakeups.wait_for(vec![shelf("a")]);
    let look = early.look();
    // Woken, and forgotten because nobody stands there now.
    wakeups.wake(&[shelf("a")]);
    drop(wakeups.wait_for(vec![shelf("a")]));
    wakeups.wake(&[shelf("a")]);
    let mut late = wakeups.wait_for(vec![shelf("a")]);
    late.look();
    early.found_nothing(&look);
    assert!(late.look().worthwhile);
}

#[tokio::test]
async fn workers_stopped_by_the_cap_do_not_wake_each_other_for_ever() {
    let wakeups = Wakeups::default();
    let mut waiters: Vec<Waiter> = (0..3).map(|_| wakeups.wait_for(vec![shelf("a")])).collect();
    let looks: Vec<ShelfCheck> = waiters.iter_mut().map(Waiter::look).collect();
    waiters.iter_mut().zip(&looks).for_each(|(waiter, look)| waiter.found_cap(look));
    for waiter in &waiters {
        assert!(!was_woken(waiter).await);
    }
}
