//! Records: written only if nobody else did meanwhile. Whoever comes second decides again.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::Batch;
use forgerun_core::audit::{AuditActor, AuditChain, AuditCount, AuditEntry, Verifier};
use forgerun_core::command::{Audited, AuditedChange, Command, QueueChange, QueueCommand};
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

/// Entries of the audit trail from both nodes, and from two connections of one: each chain is whole, none is lost, and retention
/// takes them from the beginning.
pub async fn an_audit_trail_of_two_nodes_has_neither_gaps_nor_forks(fixture: &dyn Fixture) {
    const N: u64 = 60;
    let nodes = [fixture.store(), fixture.second()];
    let keep = Duration::from_secs(50);
    at_once(N, |n| {
        let store = nodes[(n % 2) as usize].clone();
        let by = AuditActor { node: format!("node-{}", n % 3), keep, ..AuditActor::default() };
        let change = QueueChange { paused: Some(n % 4 == 0), ..QueueChange::default() };
        let queue = QueueId::shared(name(&format!("queue-{}", n % 5)));
        let change = AuditedChange::Command(Command::Queue(QueueCommand { queue, change }));
        let command = Command::Audited(Box::new(Audited { by, change }));
        async move {
            commit_until_done(&store, Batch { now: at(n), seed: n + 1, commands: vec![command] }).await
        }
    })
    .await;
    assert_eq!(verdict(&nodes[1]).await, (N, 0));
    // Over before the last of them, and after.
    for (ms, left) in [(50_000 + N / 2, None), (60_000 + N, Some(0))] {
        for round in 0..N {
            commit_until_done(
                &nodes[0],
                Batch { now: at(ms), seed: ms + round, commands: vec![Command::Due(100)] },
            )
            .await;
        }
        let (n_entries, n_removed) = verdict(&nodes[0]).await;
        assert_eq!(n_entries + n_removed, N);
        assert!(left.is_none_or(|left| n_entries == left), "{n_entries} are left at {ms} ms");
    }
}

/// The numbers of entries that are there, and that were removed; all is well with them.
async fn verdict(store: &Arc<dyn Store>) -> (u64, u64) {
    let chains: Vec<AuditChain> = store.records(None, String::new(), 100).await.unwrap();
    let count: Option<AuditCount> = store.record(AuditCount::KEY.to_owned()).await.unwrap();
    let mut verifier = Verifier::new(chains, count.unwrap_or_default());
    let entries: Vec<AuditEntry> = store.records(None, String::new(), 1000).await.unwrap();
    entries.iter().for_each(|entry| verifier.see(entry));
    let verdict = verifier.finish();
    assert_eq!(verdict.faults, []);
    assert_eq!(verdict.n_chains, 3);
    (verdict.n_entries, verdict.n_removed)
}
