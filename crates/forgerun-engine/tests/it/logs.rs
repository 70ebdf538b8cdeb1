//! Log lines: gathered, written beside jobs, and announced.

use forgerun_core::job::Job;
use forgerun_core::limits::LOG_QUEUE_BYTES_MAX;
use forgerun_core::log::{LogBatch, LogLine, decode_lines};
use forgerun_core::time::Time;
use forgerun_engine::{Appended, Error};
use forgerun_store::{LogQuery, Store};

use crate::support::World;

fn batch(job: &Job, texts: &[&str]) -> LogBatch {
    let line = |text: &&str| LogLine {
        at: Time::ZERO,
        level: "info".into(),
        stream: "log".into(),
        text: (*text).into(),
    };
    LogBatch::new(job.id, job.head.client, 1, &texts.iter().map(line).collect::<Vec<_>>())
}

async fn texts(world: &World, job: &Job) -> Vec<String> {
    let store: &dyn Store = &*world.store;
    let chunks = store.logs(LogQuery { job: job.id, attempt: None, after: 0, limit: 100 }).await.unwrap();
    let lines = chunks.iter().flat_map(|chunk| decode_lines(&chunk.content).unwrap());
    lines.map(|line| line.text).collect()
}

#[tokio::test(start_paused = true)]
async fn lines_that_come_together_share_a_transaction_and_a_row() {
    let world = World::new();
    let (one, two) = (world.submit("a").await, world.submit("a").await);
    let mut news = world.engine.log_news();
    let written = world.store.written().len();
    let engine = &world.engine;
    assert_eq!(engine.append_log(batch(&one, &["a"])).await.unwrap(), Appended::Lines);
    let (first, second, third) = tokio::join!(
        engine.append_log(batch(&one, &["b", "c"])),
        engine.append_log(batch(&two, &["x"])),
        engine.append_log(batch(&one, &["d"])),
    );
    for answer in [first, second, third] {
        assert_eq!(answer.unwrap(), Appended::Lines);
    }
    assert_eq!(world.store.log_appends(), [1, 2]);
    assert_eq!(texts(&world, &one).await, ["a", "b", "c", "d"]);
    assert_eq!(texts(&world, &two).await, ["x"]);
    assert_eq!(*news.recv().await.unwrap(), [one.id]);
    assert_eq!(*news.recv().await.unwrap(), [one.id, two.id]);
    assert_eq!(world.store.written().len(), written, "the committer wrote nothing");
}

#[tokio::test(start_paused = true)]
async fn lines_that_could_not_be_written_are_answered_so_and_the_next_are_written() {
    let world = World::new();
    let job = world.submit("a").await;
    world.store.fail_log_appends(1);
    assert!(matches!(world.engine.append_log(batch(&job, &["a"])).await, Err(Error::Store(_))));
    assert_eq!(world.engine.append_log(batch(&job, &["a"])).await.unwrap(), Appended::Lines);
    assert_eq!(texts(&world, &job).await, ["a"]);
}

#[tokio::test(start_paused = true)]
async fn lines_for_a_job_that_is_gone_are_answered_so() {
    let world = World::new();
    let job = world.submit("a").await;
    let gone = Job { id: world.engine.job_id(), ..job };
    assert_eq!(world.engine.append_log(batch(&gone, &["a"])).await.unwrap(), Appended::JobGone);
}

#[tokio::test(start_paused = true)]
async fn more_bytes_than_may_wait_are_refused_at_once() {
    let world = World::new();
    let job = world.submit("a").await;
    let huge = LogBatch { content: vec![0; LOG_QUEUE_BYTES_MAX + 1], ..batch(&job, &["a"]) };
    assert!(matches!(world.engine.append_log(huge).await, Err(Error::Overloaded)));
    world.engine.stop().await;
    assert!(matches!(world.engine.append_log(batch(&job, &["a"])).await, Err(Error::Stopped)));
}
