//! Readers of the journal: each at its own pace, none misses anything.

use forgerun_core::id::JobId;
use forgerun_engine::journal::JournalReader;
use forgerun_engine::{Error, Options};

use crate::support::{HOUR, SECOND, World, is_ready};

/// Reads until `n` entries have come: the jobs, each once, in order.
async fn read(reader: &mut JournalReader, n: usize, limit: usize) -> Vec<JobId> {
    let mut jobs = Vec::new();
    let mut n_entries = 0;
    while n_entries < n {
        for row in reader.next(limit).await.unwrap() {
            n_entries += row.entries.len();
            jobs.extend(row.job_events().map(|(job, _)| job));
        }
    }
    jobs.dedup();
    jobs
}

#[tokio::test(start_paused = true)]
async fn a_reader_waits_for_the_next_row_and_gets_it_at_once() {
    let world = World::new();
    let mut reader = world.engine.journal(0);
    let reading = tokio::spawn(async move { (reader.next(10).await.unwrap(), reader.position()) });
    world.pass(HOUR).await;
    assert!(!reading.is_finished());
    let before = world.engine.now();
    let job = world.submit("a").await;
    let (rows, position) = reading.await.unwrap();
    assert_eq!((rows.len(), rows[0].seq), (1, position));
    assert!(rows[0].job_events().all(|(id, _)| id == job.id));
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_slow_reader_and_a_fast_one_see_the_same_and_do_not_disturb_each_other() {
    let world = World::new();
    let (mut fast, mut slow) = (world.engine.journal(0), world.engine.journal(0));
    let mut seen = Vec::new();
    let mut submitted = Vec::new();
    for _ in 0..50 {
        submitted.push(world.submit("a").await.id);
        seen.extend(read(&mut fast, 2, 100).await);
    }
    assert_eq!(seen, submitted);
    assert_eq!(read(&mut slow, 100, 3).await, submitted);
    assert_eq!(slow.position(), fast.position());
}

#[tokio::test(start_paused = true)]
async fn a_reader_goes_on_from_its_cursor_across_a_restart() {
    let world = World::new();
    let first = world.submit("a").await.id;
    let mut reader = world.engine.journal(0);
    assert_eq!(read(&mut reader, 2, 10).await, [first]);
    let cursor = reader.position();
    let second = world.submit("a").await.id;
    drop(reader);
    let world = world.crash(SECOND).await;
    let third = world.submit("a").await.id;
    assert_eq!(read(&mut world.engine.journal(cursor), 4, 10).await, [second, third]);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_read_loses_nothing() {
    let world = World::new();
    let mut reader = world.engine.journal(0);
    for _ in 0..10 {
        assert!(!is_ready(&mut Box::pin(reader.next(10))).await);
    }
    let job = world.submit("a").await.id;
    assert_eq!(read(&mut reader, 2, 10).await, [job]);
}

#[tokio::test(start_paused = true)]
async fn rows_of_another_node_ring_here_too() {
    let world = World::shared();
    let node = world.node();
    let mut reader = world.engine.journal(0);
    let reading = tokio::spawn(async move { read(&mut reader, 2, 10).await });
    world.settle().await;
    let job = node.submit("a").await.id;
    let before = world.engine.now();
    assert_eq!(reading.await.unwrap(), [job]);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_reader_misses_nothing_when_the_journal_was_swept_empty() {
    let options = Options { journal_keep: SECOND, sweep_every: SECOND, ..Default::default() };
    let world = World::with(options);
    let mut reader = world.engine.journal(0);
    for _ in 0..3 {
        let job = world.submit("a").await.id;
        assert_eq!(read(&mut reader, 2, 10).await, [job]);
    }
    world.pass(10 * SECOND).await;
    assert!(!is_ready(&mut Box::pin(world.engine.journal(0).next(10))).await, "all swept");
    let job = world.submit("a").await.id;
    assert_eq!(read(&mut reader, 2, 10).await, [job]);
}

#[tokio::test(start_paused = true)]
async fn a_reader_gets_the_last_row_before_it_hears_of_the_stop() {
    let world = World::new();
    let mut reader = world.engine.journal(0);
    let job = world.submit("a").await.id;
    let engine = world.engine.clone();
    let stop = tokio::spawn(async move { engine.stop().await });
    assert_eq!(read(&mut reader, 2, 10).await, [job]);
    assert!(matches!(reader.next(10).await, Err(Error::Stopped)));
    stop.await.unwrap();
}
