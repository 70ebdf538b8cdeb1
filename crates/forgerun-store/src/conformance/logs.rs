//! Log lines of jobs: numbered, bounded, deleted with their job.

use std::sync::Arc;

use forgerun_core::log::{LogBatch, LogLine, LogSummary, decode_lines, encode_lines};

use super::Fixture;
use super::harness::{accepted, ask, at_once, run};
use super::make::{START, at, cancel, client, forget, id, job, submit};
use crate::{LogChunk, LogQuery, Store};

const MAX: u64 = 256 * 1024;

fn lines(texts: &[&str]) -> Vec<LogLine> {
    let line = |text: &&str| LogLine {
        at: START,
        level: "info".into(),
        stream: "stderr".into(),
        text: (*text).to_owned(),
    };
    texts.iter().map(line).collect()
}

fn batch(n: u64, attempt: u32, texts: &[&str]) -> LogBatch {
    LogBatch::new(id(n), client(1), attempt, &lines(texts))
}

async fn append(store: &Arc<dyn Store>, batch: LogBatch) -> Option<u64> {
    store.append_logs(vec![batch], MAX).await.unwrap()[0]
}

async fn chunks(store: &Arc<dyn Store>, n: u64, attempt: Option<u32>, after: u64) -> Vec<LogChunk> {
    store.logs(LogQuery { job: id(n), attempt, after, limit: 1000 }).await.unwrap()
}

async fn with_job(store: &Arc<dyn Store>) {
    accepted(ask(store, START, submit(job(1, "q"))).await);
}

pub async fn lines_are_numbered_over_all_attempts(fixture: &dyn Fixture) {
    let store = fixture.store();
    with_job(&store).await;
    assert_eq!(store.log_summary(id(1), None).await.unwrap(), LogSummary::default());
    for (attempt, texts, last) in [(1, &["a", "b"][..], 2), (1, &["c"], 3), (2, &["d\u{0}", "e", "f"], 6)] {
        assert_eq!(append(&store, batch(1, attempt, texts)).await, Some(last));
    }
    let found = chunks(&store, 1, None, 0).await;
    let places = found.iter().map(|chunk| (chunk.place.attempt, chunk.place.last)).collect::<Vec<_>>();
    assert_eq!(places, [(1, 2), (1, 3), (2, 6)]);
    assert_eq!(decode_lines(&found[2].content).unwrap(), lines(&["d\u{0}", "e", "f"]));
    assert_eq!(chunks(&store, 1, None, 2).await, found[1..]);
    assert_eq!(chunks(&store, 1, None, 1).await, found, "a chunk of which a part was read comes again");
    assert_eq!(chunks(&store, 1, Some(2), 0).await, found[2..]);
    assert_eq!(chunks(&store, 1, None, 6).await, []);
    let first = LogQuery { job: id(1), attempt: None, after: 0, limit: 1 };
    assert_eq!(store.logs(first).await.unwrap(), found[..1]);
    for (attempt, last) in [(None, 6), (Some(1), 3), (Some(2), 6), (Some(3), 0)] {
        let summary = store.log_summary(id(1), attempt).await.unwrap();
        assert_eq!(summary, LogSummary { last, dropped: 0 }, "{attempt:?}");
    }
    let n_bytes: u64 = found.iter().map(|chunk| chunk.place.end - chunk.place.start).sum();
    assert_eq!(store.log_bytes(client(1)).await.unwrap(), n_bytes);
    assert_eq!(store.log_bytes(client(2)).await.unwrap(), 0);
}

pub async fn the_oldest_lines_of_an_attempt_go_first(fixture: &dyn Fixture) {
    let store = fixture.store();
    with_job(&store).await;
    let text = "x".repeat(10_000);
    append(&store, batch(1, 1, &["kept"])).await;
    for _ in 0..40 {
        append(&store, batch(1, 2, &[&text, "y"])).await;
    }
    assert_eq!(chunks(&store, 1, Some(1), 0).await.len(), 1, "another attempt keeps what it has");
    let kept = chunks(&store, 1, Some(2), 0).await;
    assert!((20..=26).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().unwrap().place.last, 81);
    let dropped = 80 - 2 * kept.len() as u64;
    assert_eq!(store.log_summary(id(1), Some(2)).await.unwrap(), LogSummary { last: 81, dropped });
    assert_eq!(store.log_summary(id(1), None).await.unwrap(), LogSummary { last: 81, dropped });
    assert!(store.log_bytes(client(1)).await.unwrap() <= MAX + 1000);
}

pub async fn two_nodes_that_append_at_once_share_the_numbers(fixture: &dyn Fixture) {
    let nodes = [fixture.store(), fixture.second()];
    with_job(&nodes[0]).await;
    accepted(ask(&nodes[0], START, submit(job(2, "q"))).await);
    let append_some = |n: u64| {
        let store = nodes[n as usize % 2].clone();
        async move {
            let mut last = Vec::new();
            for _ in 0..5 {
                let both = vec![batch(1 + n % 2, 1, &["a", "b"]), batch(2 - n % 2, 1, &["c", "d"])];
                last.extend(store.append_logs(both, MAX).await.unwrap());
            }
            last
        }
    };
    let ends = at_once(8, append_some).await;
    for n in [1, 2] {
        let last =
            chunks(&nodes[1], n, None, 0).await.iter().map(|chunk| chunk.place.last).collect::<Vec<_>>();
        assert_eq!(last, (1..=40).map(|n| 2 * n).collect::<Vec<u64>>());
    }
    let mut ends = ends.into_iter().flatten().map(Option::unwrap).collect::<Vec<_>>();
    ends.sort_unstable();
    assert_eq!(ends, (1..=40).flat_map(|n| [2 * n, 2 * n]).collect::<Vec<u64>>());
}

pub async fn a_log_dies_with_its_job(fixture: &dyn Fixture) {
    let store = fixture.store();
    with_job(&store).await;
    append(&store, batch(1, 1, &["a"])).await;
    run(&store, at(1), vec![cancel(1), forget(1)]).await;
    assert_eq!(chunks(&store, 1, None, 0).await, []);
    assert_eq!(store.log_bytes(client(1)).await.unwrap(), 0);
    assert_eq!(append(&store, batch(1, 1, &["late"])).await, None);
}

pub async fn the_log_of_an_unknown_job_is_not_kept(fixture: &dyn Fixture) {
    let store = fixture.store();
    with_job(&store).await;
    let both = vec![batch(9, 1, &["a"]), batch(1, 1, &["b"])];
    assert_eq!(store.append_logs(both, MAX).await.unwrap(), [None, Some(1)]);
    assert_eq!(store.append_logs(vec![batch(9, 1, &["a"])], MAX).await.unwrap(), [None]);
    assert_eq!(chunks(&store, 9, None, 0).await, []);
}

pub async fn logs_survive_a_restart(fixture: &dyn Fixture) {
    let store = fixture.store();
    with_job(&store).await;
    append(&store, batch(1, 1, &["a", "b"])).await;
    let store = fixture.reopen().await;
    assert_eq!(append(&store, batch(1, 1, &["c"])).await, Some(3));
    let found = chunks(&store, 1, None, 0).await;
    assert_eq!(found[0].content, encode_lines(&lines(&["a", "b"])));
    assert_eq!(found.len(), 2);
}
