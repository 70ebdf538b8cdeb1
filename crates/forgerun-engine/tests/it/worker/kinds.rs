//! Each kind does what the table says, at every scale.

use forgerun_core::catalog::Kind;
use forgerun_core::history::EventKind;
use forgerun_core::job::JobForm;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::WorkerOptions;

use super::{MAX_RUNTIME, assert_about, ran_for, simulated};
use crate::support::{HOUR, SECOND, World};

/// Kind, duration in ms, size of the result in KB, end of the first attempt. Typed from the source;
/// the kinds that are to be cancelled, scheduled and so on are left alone here and succeed.
/// `PAYLOAD_INVALID` is refused before it becomes a job.
const TABLE: &str = "
    SUCCESS_FAST 1000 4 SUCCEEDED
    SUCCESS_NORMAL 10000 16 SUCCEEDED
    SUCCESS_SLOW 90000 32 SUCCEEDED
    FAIL_IMMEDIATE 500 - HandlerError
    FAIL_AFTER_PROGRESS 20000 - HandlerError
    FAIL_AFTER_RETRYABLE 5000 - HandlerTransient
    RUNS_LONG 110000 32 SUCCEEDED
    RUNS_OVER_TIMEOUT 125000 - HandlerTimeout
    CPU_BURST 8000 4 SUCCEEDED
    MEMORY_SPIKE 12000 64 SUCCEEDED
    IO_HEAVY 15000 32 SUCCEEDED
    MANY_SMALL_OUTPUTS 9000 16 SUCCEEDED
    LARGE_OUTPUT 9000 256 SUCCEEDED
    CANCEL_BEFORE_START 5000 4 SUCCEEDED
    CANCEL_DURING_RUN 10000 4 SUCCEEDED
    RETRY_ON_FAIL 3000 - HandlerTransient
    RETRY_LIMIT_REACHED 3000 - HandlerTransient
    DUPLICATE_SUBMIT_SAME_KEY 2000 4 SUCCEEDED
    DUPLICATE_SUBMIT_DIFFERENT_KEY 2000 4 SUCCEEDED
    WEBHOOK_SUCCESS 2000 4 SUCCEEDED
    WEBHOOK_TIMEOUT 2000 4 SUCCEEDED
    WEBHOOK_5XX 2000 4 SUCCEEDED
    WEBHOOK_RETRIES_EXHAUSTED 2000 4 SUCCEEDED
    WEBHOOK_SLOW_RECEIVER 2000 4 SUCCEEDED
    SCHEDULED_ON_TIME 2000 4 SUCCEEDED
    SCHEDULED_LATE_RECOVERY 2000 4 SUCCEEDED
    SCHEDULED_FAR_FUTURE 2000 4 SUCCEEDED
    PAYLOAD_SMALL 2000 1 SUCCEEDED
    PAYLOAD_MEDIUM 2000 16 SUCCEEDED
    PAYLOAD_LARGE 2000 256 SUCCEEDED
    PAYLOAD_INVALID 0 - NonRetryable";

/// Runs every kind twice, all at once.
async fn check_all(time_scale: f64) {
    let world = World::new();
    let _worker = world.worker(WorkerOptions { concurrency: 16, time_scale, ..WorkerOptions::default() });
    let mut jobs = Vec::new();
    for kind in WorkKind::ALL.iter().chain(WorkKind::ALL) {
        jobs.push((*kind, world.submit_kind(*kind).await));
    }
    world.pass(MAX_RUNTIME.mul_f64(time_scale) + SECOND).await;
    let lines: Vec<&str> = TABLE.lines().filter(|line| !line.is_empty()).collect();
    assert_eq!(lines.len(), WorkKind::ALL.len());
    for (line, (kind, id)) in lines.iter().cycle().zip(jobs) {
        let job = world.found(id).await;
        let result = world.engine.store().result(job.execution).await.unwrap();
        let size = result.map_or("-".to_owned(), |kept| (kept.size / 1024).to_string());
        let end = match job.state {
            State::Succeeded => "SUCCEEDED".to_owned(),
            _ => job.last_error().map_or("not ended".to_owned(), |error| error.kind.name().to_owned()),
        };
        let [name, duration_ms, expected_size, expected_end]: [&str; 4] =
            line.split_whitespace().collect::<Vec<_>>().try_into().unwrap();
        assert_eq!((kind.as_str(), size.as_str(), end.as_str()), (name, expected_size, expected_end));
        let expected = std::time::Duration::from_millis(duration_ms.parse().unwrap());
        assert_about(ran_for(&job), expected.mul_f64(time_scale), name);
        assert_eq!(job.timed_out(), kind == WorkKind::RunsOverTimeout, "{name}");
        let retryable = job.last_error().is_some_and(|error| error.retryable);
        assert_eq!(retryable, matches!(end.as_str(), "HandlerTransient" | "HandlerTimeout"), "{name}");
        let outcome = world.engine.store().outcome(job.execution).await.unwrap();
        assert!(outcome.is_some(), "{name} ended without a report");
    }
}

#[tokio::test(start_paused = true)]
async fn each_of_the_31_kinds_ends_as_the_table_says_every_time() {
    check_all(1.0).await;
}

#[tokio::test(start_paused = true)]
async fn a_scale_changes_the_durations_and_nothing_else() {
    check_all(0.01).await;
    check_all(0.0).await;
}

#[tokio::test(start_paused = true)]
async fn work_stretched_over_the_limit_is_stopped_there() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions { time_scale: 2.0, ..WorkerOptions::default() });
    let long = world.submit_kind(WorkKind::RunsLong).await;
    let short = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(MAX_RUNTIME + SECOND).await;
    let (long, short) = (world.found(long).await, world.found(short).await);
    assert!(long.timed_out());
    assert_about(ran_for(&long), MAX_RUNTIME, "RUNS_LONG, twice as long");
    assert_about(ran_for(&short), 2 * SECOND, "SUCCESS_FAST, twice as long");
}

#[tokio::test(start_paused = true)]
async fn progress_is_seen_before_the_failure_that_follows_it_even_in_no_time() {
    for time_scale in [1.0, 0.001, 0.0] {
        let world = World::new();
        let _worker = world.worker(WorkerOptions { time_scale, ..WorkerOptions::default() });
        let id = world.submit_kind(WorkKind::FailAfterProgress).await;
        world.pass(21 * SECOND).await;
        let job = world.found(id).await;
        assert_eq!(job.last_error().map(|error| error.kind), Some(Kind::HandlerError));
        assert!(job.progress.is_some_and(|percent| (1..100).contains(&percent)));
        let events = world.events().await;
        let position =
            |is: fn(&EventKind) -> bool| events.iter().position(|(_, event)| is(&event.kind)).unwrap();
        let progress = position(|kind| matches!(kind, EventKind::Progress(1..)));
        let failed = position(|kind| matches!(kind, EventKind::Moved { to: State::Failed, .. }));
        assert!(progress < failed);
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_lasts_shows_its_progress_and_short_work_none() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let normal = world.submit_kind(WorkKind::SuccessNormal).await;
    let many = world.submit_kind(WorkKind::ManySmallOutputs).await;
    let short = world.submit_kind(WorkKind::FailImmediate).await;
    world.pass(5 * SECOND + SECOND / 2).await;
    assert_eq!(world.found(normal).await.progress, Some(50));
    assert_eq!(world.found(many).await.message.as_deref(), Some("output 4 of 8"));
    world.pass(6 * SECOND).await;
    assert_eq!(world.progress(normal).await, [25, 50, 75]);
    assert_eq!(world.progress(many).await, [12, 25, 37, 50, 62, 75, 87]);
    assert!(world.progress(short).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_emit_event_job_emits_exactly_one_event_while_it_runs() {
    for time_scale in [1.0, 0.0] {
        let world = World::new();
        let _worker = world.worker(WorkerOptions { time_scale, ..WorkerOptions::default() });
        let before = world.engine.now();
        let emit = |head: &mut forgerun_core::job::Head| {
            simulated(WorkKind::RunsLong)(head);
            head.form = JobForm::EmitEvent;
        };
        let id = world.submit_with("default", emit).await.id;
        world.settle().await;
        let kinds: Vec<EventKind> = world.events().await.iter().map(|(_, event)| event.kind).collect();
        let state_before_emitted = kinds.iter().rev().skip(1).find_map(|kind| match kind {
            EventKind::Moved { to, .. } => Some(*to),
            EventKind::Progress(_) | EventKind::Emitted => None,
        });
        assert_eq!(kinds.iter().filter(|kind| **kind == EventKind::Emitted).count(), 1);
        assert_eq!(kinds[kinds.len() - 2], EventKind::Emitted);
        assert_eq!(state_before_emitted, Some(State::Running));
        let job = world.found(id).await;
        assert_eq!(job.state, State::Succeeded);
        assert!(job.finished_at.unwrap().since(before) < SECOND);
        world.pass(HOUR).await;
        assert_eq!(world.events().await.len(), kinds.len());
    }
}

#[tokio::test(start_paused = true)]
async fn a_deferred_job_runs_at_its_time() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let at = world.engine.now() + HOUR;
    let deferred = |head: &mut forgerun_core::job::Head| {
        simulated(WorkKind::ScheduledOnTime)(head);
        head.execution_at = Some(at);
    };
    let id = world.submit_with("default", deferred).await.id;
    world.pass(HOUR + 3 * SECOND).await;
    let job = world.found(id).await;
    assert_eq!(job.state, State::Succeeded);
    super::assert_about_at(job.started_at.unwrap(), at, "the start");
}
