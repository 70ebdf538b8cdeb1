//! Records: written only if nobody else did meanwhile. Whoever comes second decides again.

use std::sync::Arc;

use forgerun_core::Batch;
use forgerun_core::command::{Command, QueueChange, QueueCommand};
use forgerun_core::queue::{QueueId, QueueSettings};

use super::Fixture;
use super::harness::{at_once, commit_until_done};
use super::make::{START, at, name};
use crate::Store;

/// Queues that two nodes set something for at once.
const N_QUEUES: u64 = 20;

async fn set(store: Arc<dyn Store>, seed: u64, queue: String, change: QueueChange) {
    let command = Command::Queue(QueueCommand { queue: QueueId::shared(name(&queue)), change });
    commit_until_done(&store, Batch { now: at(seed), seed, commands: vec![command] }).await;
}

async fn settings(store: &Arc<dyn Store>, queue: &str) -> QueueSettings {
    store.record(queue.to_owned()).await.unwrap().expect("it was set")
}

/// Each node sets one thing, and leaves the other as it saw it. Neither undoes what the other did, whether the record was there
/// before or not.
pub async fn two_nodes_that_write_one_record_at_once_lose_nothing(fixture: &dyn Fixture) {
    let nodes = [fixture.store(), fixture.second()];
    for round in 1..=3 {
        at_once(2 * N_QUEUES, |n| {
            let (node, queue) = ((n % 2) as usize, format!("queue-{}", n / 2));
            let bound = Some(Some(round * 100 + n));
            let change = match node {
                0 => QueueChange { waiting_max: bound, ..QueueChange::default() },
                _ => QueueChange { active_max: bound, ..QueueChange::default() },
            };
            set(nodes[node].clone(), round * 1000 + n, queue, change)
        })
        .await;
        for n in 0..N_QUEUES {
            let found = settings(&nodes[(n % 2) as usize], &format!("queue-{n}")).await;
            let expected = (Some(round * 100 + 2 * n), Some(round * 100 + 2 * n + 1));
            assert_eq!((found.waiting_max, found.active_max), expected, "queue {n} in round {round}");
        }
    }
}

/// Many changes of one record, from both nodes: every one is decided on what the one before it wrote, so the moment it was paused
/// at is that of the first.
pub async fn fifty_changes_of_one_record_are_decided_one_after_the_other(fixture: &dyn Fixture) {
    let nodes = [fixture.store(), fixture.second()];
    at_once(50, |n| {
        let change = QueueChange { paused: Some(true), ..QueueChange::default() };
        set(nodes[(n % 2) as usize].clone(), n + 1, "one".into(), change)
    })
    .await;
    let first = settings(&nodes[0], "one").await;
    let paused_at = first.paused_at.expect("it is paused");
    assert!(paused_at > START && first.created_at == paused_at, "{first:?}");
    // It is paused already, so nothing of this changes it.
    set(nodes[1].clone(), 99, "one".into(), QueueChange { paused: Some(true), ..QueueChange::default() })
        .await;
    assert_eq!(settings(&nodes[0], "one").await, first);
}
