//! Results: taken in by parts, small ones with the report, large ones beside the rows, gone at
//! their time.

use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Content, Output, Succeed};
use forgerun_core::job::{Job, ResultRetention};
use forgerun_core::state::State;
use forgerun_core::work::{Definition, WorkKind};
use forgerun_core::{Command, limits};
use forgerun_engine::{BuiltInWorker, IntakeError, Options, WorkerOptions};
use forgerun_store::{Fault, Store};
use sha2::{Digest, Sha256};

use crate::support::{HOUR, SECOND, World, held};

/// So many bytes, handed in by parts.
async fn kept(world: &World, size: usize, part: usize) -> Result<Output, IntakeError> {
    let mut intake = world.engine.begin_result("application/pdf", Some("a.pdf".into()));
    let mut rest = bytes(size);
    while !rest.is_empty() {
        intake.write(rest.split_to(part.min(rest.len()))).await?;
    }
    intake.finish().await
}

fn bytes(size: usize) -> Bytes {
    (0..size).map(|n| (n % 251) as u8).collect()
}

async fn succeed(world: &World, job: &Job, output: Output) -> Job {
    let succeed = Succeed { held: held(job), output: Some(Arc::new(output)) };
    world.engine.act(Command::Succeed(succeed)).await.unwrap().0
}

#[tokio::test(start_paused = true)]
async fn a_result_travels_with_the_report_up_to_the_bound_and_lies_beside_the_rows_past_it() {
    let world = World::new();
    let bound = limits::INLINE_RESULT_BYTES_MAX;
    for (size, part) in [(0, 1), (1, 1), (bound, 1000), (bound, bound)] {
        let output = kept(&world, size, part).await.unwrap();
        assert_eq!(output.content, Content::Inline(bytes(size).to_vec()), "{size} by {part}");
    }
    for (size, part) in [(bound + 1, bound), (bound + 1, bound + 1), (300_000, 7_001)] {
        let output = kept(&world, size, part).await.unwrap();
        let Content::Stored(blob) = output.content else { panic!("{size} is too much for a row") };
        assert_eq!((blob.size, blob.digest), (size as u64, Sha256::digest(bytes(size)).into()));
        let source = world.store.blobs().open(blob.id).await.unwrap();
        let mut found = Vec::new();
        while found.len() < size {
            found.extend_from_slice(&source.read(found.len() as u64, size).await.unwrap());
        }
        assert!(found == bytes(size), "{size} by {part}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_result_that_is_too_large_is_refused_as_soon_as_it_shows() {
    let world = World::with(Options { result_bytes_max: 100_000, ..Options::default() });
    assert!(kept(&world, 100_000, 30_000).await.is_ok());
    let mut intake = world.engine.begin_result("text/plain", None);
    intake.write(bytes(90_000)).await.unwrap();
    let refused = intake.write(bytes(10_001)).await;
    assert!(matches!(refused, Err(IntakeError::TooLarge { max: 100_000 })), "{refused:?}");
    let after = intake.write(bytes(1)).await;
    assert!(matches!(after, Err(IntakeError::Broken)), "{after:?}");
    assert!(matches!(intake.finish().await, Err(IntakeError::Broken)));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_takes_hours_to_come_in_is_not_swept_away_under_its_worker() {
    let world = World::with(Options { sweep_every: 60 * SECOND, ..Options::default() });
    world.submit_with("a", |head| head.lease = Some(10 * HOUR)).await;
    let job = world.take("a").await;
    let mut intake = world.engine.begin_result("text/plain", None);
    for _ in 0..10 {
        intake.write(bytes(100_000)).await.unwrap();
        world.pass(HOUR / 3).await;
    }
    let output = intake.finish().await.unwrap();
    assert_eq!(succeed(&world, &job, output).await.state, State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn what_was_kept_and_never_reported_is_swept_after_an_hour() {
    let world = World::new();
    let Content::Stored(blob) = kept(&world, 100_000, 100_000).await.unwrap().content else { panic!() };
    world.pass(limits::LOOSE_BLOB - 61 * SECOND).await;
    assert!(world.store.blobs().open(blob.id).await.is_ok());
    world.pass(200 * SECOND).await;
    assert!(world.store.blobs().open(blob.id).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn the_sweeper_removes_contents_at_their_time_and_leaves_what_is_known_of_them() {
    let world = World::new();
    let keep = ResultRetention { small: HOUR, medium: 2 * HOUR, large: HOUR };
    world.submit_with("a", |head| head.result_retention = Some(keep)).await;
    let job = world.take("a").await;
    let output = kept(&world, 100_000, 100_000).await.unwrap();
    let Content::Stored(blob) = output.content else { panic!() };
    succeed(&world, &job, output).await;
    let store: Arc<dyn Store> = world.store.clone();
    world.pass(2 * HOUR - SECOND).await;
    assert!(store.result(job.execution).await.unwrap().unwrap().content.is_some());
    world.pass(70 * SECOND).await;
    let left = store.result(job.execution).await.unwrap().unwrap();
    assert_eq!((left.size, left.content, left.media_type.as_str()), (100_000, None, "application/pdf"));
    assert!(store.blobs().open(blob.id).await.is_ok(), "a reader may be at it");
    world.pass(limits::LOOSE_BLOB + 70 * SECOND).await;
    assert!(store.blobs().open(blob.id).await.is_err());
    assert!(world.job(job.id).await.is_some(), "the job itself stays");
}

/// A job whose result does not fit into a row, and a worker for it.
async fn worked(world: &World, span: std::time::Duration) -> Job {
    let definition = Definition { duration_ms: 0, ..Definition::of(WorkKind::LargeOutput, 125_000) };
    let job = world.submit_with("default", |head| head.definition = Some(definition)).await;
    let options = WorkerOptions { count: 1, ..WorkerOptions::default() };
    let _worker = BuiltInWorker::start(world.engine.clone(), options);
    world.pass(span).await;
    world.job(job.id).await.unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_built_in_worker_keeps_large_results_beside_the_rows() {
    let world = World::new();
    let job = worked(&world, SECOND).await;
    assert_eq!(job.state, State::Succeeded);
    let kept = world.engine.store().result(job.execution).await.unwrap().unwrap();
    assert!(matches!(kept.content, Some(Content::Stored(_))), "{:?}", kept.content);
    assert_eq!(kept.size, 256 * 1024);
}

#[tokio::test(start_paused = true)]
async fn a_result_above_the_limit_fails_its_job_for_good() {
    let world = World::with(Options { result_bytes_max: 200_000, ..Options::default() });
    let job = worked(&world, SECOND).await;
    let error = job.last_error().unwrap();
    assert_eq!((job.state, error.kind, error.retryable), (State::Failed, Kind::ReportFailed, false));
    assert!(error.message.contains("200000 bytes"), "{}", error.message);
    assert_eq!(world.engine.store().result(job.execution).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn a_full_disk_fails_the_job_and_passing_trouble_only_delays_it() {
    let world = World::new();
    world.store.fail_blobs(1, Fault::Full);
    let job = worked(&world, SECOND).await;
    let error = job.last_error().unwrap();
    assert_eq!((job.state, error.kind, error.retryable), (State::Failed, Kind::ReportFailed, true));

    let world = World::new();
    world.store.fail_blobs(5, Fault::Unavailable);
    let job = worked(&world, 10 * SECOND).await;
    assert_eq!((job.state, job.attempt), (State::Succeeded, 1));

    let world = World::new();
    world.store.fail_blobs(1000, Fault::Unavailable);
    let job = worked(&world, 60 * SECOND).await;
    assert_eq!(job.errors[0].kind, Kind::RunnerLost, "until its lease has ended");
}
