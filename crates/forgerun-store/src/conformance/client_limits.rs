//! Limits of clients: exact whatever else happens, and counted for every client.

use std::sync::Arc;

use forgerun_core::client::Client;
use forgerun_core::client_limits::{ClientLimit, ClientLimits, ClientUsage};
use forgerun_core::command::{Answer, Command, NewJob, Refusal};
use forgerun_core::job::Input;

use super::Fixture;
use super::harness::{ask, at_once, claimed, run, the_one};
use super::make::{START, at, client, forget, id, job, start, submit, succeed_with, take};
use crate::Store;

async fn limited(store: &Arc<dyn Store>, limit: ClientLimit, max: u64) {
    let mut limits = ClientLimits::none(client(1));
    limits.set(limit, Some(max));
    let commands = vec![Command::Register(Client::new(client(1), START)), Command::LimitClient(limits)];
    run(store, START, commands).await;
}

fn with_input(n: u64, bytes: usize) -> NewJob {
    let input = Input { payload: vec![b'1'; bytes], ..Input::default() };
    NewJob { input: Arc::new(input), ..job(n, "q") }
}

/// How many of these answers are refusals because of this limit.
#[track_caller]
fn n_over(answers: &[Answer], expected: ClientLimit) -> usize {
    let is_over = |answer: &&Answer| match answer {
        Answer::Refused(Refusal::OverLimit { limit, .. }) => *limit == expected,
        _ => false,
    };
    answers.iter().filter(is_over).count()
}

/// Fifty submissions at once fill exactly the room that is left for waiting jobs.
pub async fn no_more_jobs_wait_than_allowed_at_any_concurrency(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    limited(&stores[0], ClientLimit::MaxWaiting, 10).await;
    let answers = at_once(50, |n| {
        let store = stores[n as usize % 2].clone();
        async move { ask(&store, at(1), submit(job(n + 1, "q"))).await }
    });
    assert_eq!(n_over(&answers.await, ClientLimit::MaxWaiting), 40);
    let usage = stores[1].client_usage(client(1)).await.unwrap();
    assert_eq!(usage, ClientUsage { waiting: 10, active: 0, bytes: usage.bytes });
}

/// Claims at once get no more than the client may hold, and the next one after an end.
pub async fn workers_hold_no_more_than_allowed_at_any_concurrency(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    limited(&stores[0], ClientLimit::MaxActive, 3).await;
    run(&stores[0], at(1), (1..=20).map(|n| submit(job(n, "q"))).collect()).await;
    let answers = at_once(20, |n| {
        let store = stores[n as usize % 2].clone();
        async move { claimed(ask(&store, at(2), take(&["q"], 1)).await) }
    });
    let held: Vec<_> = answers.await.into_iter().flatten().collect();
    assert_eq!(held.len(), 3);
    assert_eq!(stores[1].client_usage(client(1)).await.unwrap().active, 3);
    ask(&stores[0], at(3), start(&held[0])).await;
    ask(&stores[1], at(3), succeed_with(&held[0], "text/plain", b"done")).await;
    assert_eq!(claimed(ask(&stores[1], at(4), take(&["q"], 9)).await).len(), 1);
}

/// Submissions at once store no more than allowed; what is deleted makes room; a restart forgets
/// nothing.
pub async fn no_more_is_stored_than_allowed_at_any_concurrency(fixture: &dyn Fixture) {
    let stores = [fixture.store(), fixture.second()];
    limited(&stores[0], ClientLimit::StorageBytes, 1000).await;
    let answers = at_once(30, |n| {
        let store = stores[n as usize % 2].clone();
        async move { ask(&store, at(1), submit(with_input(n + 1, 100))).await }
    });
    assert_eq!(n_over(&answers.await, ClientLimit::StorageBytes), 20);
    assert_eq!(stores[1].client_usage(client(1)).await.unwrap().bytes, 1000);
    drop(stores);
    let store = fixture.reopen().await;
    let held = the_one(ask(&store, at(2), take(&["q"], 1)).await);
    ask(&store, at(3), start(&held)).await;
    ask(&store, at(4), succeed_with(&held, "text/plain", &[b'1'; 50])).await;
    assert_eq!(store.client_usage(client(1)).await.unwrap().bytes, 1050);
    let refused = ask(&store, at(5), submit(with_input(99, 1))).await;
    assert_eq!(n_over(&[refused], ClientLimit::StorageBytes), 1);
    let n = (1..=30).find(|n| id(*n) == held.id).unwrap();
    ask(&store, at(6), forget(n)).await;
    assert_eq!(store.client_usage(client(1)).await.unwrap().bytes, 900);
    let accepted = ask(&store, at(7), submit(with_input(99, 100))).await;
    assert!(matches!(accepted, Answer::Submitted { .. }), "{accepted:?}");
    assert!(store.queues().await.unwrap().iter().all(|queue| !ClientUsage::is_key(&queue.queue)));
}
