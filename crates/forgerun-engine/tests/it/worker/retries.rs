//! Kinds that fail, and come again.

use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::command::Owned;
use forgerun_core::id::JobId;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::{Error, WorkerOptions};

use super::simulated;
use crate::support::{HOUR, World, client};

async fn retry(world: &World, job: JobId) -> Result<(), Error> {
    let owned = Owned { job, client: Some(client()) };
    world.engine.retry(owned, false).await.map(|_| ())
}

#[tokio::test(start_paused = true)]
async fn retry_on_fail_rests_in_failed_and_succeeds_when_it_is_retried() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let id = world.submit_kind(WorkKind::RetryOnFail).await;
    world.pass(HOUR).await;
    let job = world.found(id).await;
    assert_eq!((job.state, job.attempt), (State::Failed, 1));
    assert_eq!(
        job.last_error().map(|error| (error.kind, error.retryable)),
        Some((Kind::HandlerTransient, true))
    );
    retry(&world, id).await.unwrap();
    world.pass(HOUR).await;
    let job = world.found(id).await;
    assert_eq!((job.state, job.attempt), (State::Succeeded, 2));
}

#[tokio::test(start_paused = true)]
async fn retry_limit_reached_fails_until_no_retry_is_left() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let id = world.submit_kind(WorkKind::RetryLimitReached).await;
    for attempt in 1..=4 {
        world.pass(HOUR).await;
        let job = world.found(id).await;
        assert_eq!((job.state, job.attempt), (State::Failed, attempt));
        let again = retry(&world, id).await;
        match attempt {
            4 => assert!(matches!(again, Err(Error::Refused(Refusal::RetryLimitReached { attempts: 4 })))),
            _ => again.unwrap(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn in_automatic_mode_the_server_retries_what_may_pass() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let cases = [
        (WorkKind::RetryOnFail, State::Succeeded, 2),
        (WorkKind::RetryLimitReached, State::Failed, 4),
        (WorkKind::FailAfterRetryable, State::Failed, 4),
        (WorkKind::RunsOverTimeout, State::Failed, 4),
        (WorkKind::FailImmediate, State::Failed, 1),
        (WorkKind::FailAfterProgress, State::Failed, 1),
    ];
    let mut jobs = Vec::new();
    for (kind, ..) in cases {
        let auto = |head: &mut forgerun_core::job::Head| {
            simulated(kind)(head);
            head.retry = RetryPolicy::auto();
        };
        jobs.push(world.submit_with("default", auto).await.id);
    }
    world.pass(HOUR).await;
    for (id, (kind, state, attempts)) in jobs.into_iter().zip(cases) {
        let job = world.found(id).await;
        assert_eq!((job.state, job.attempt), (state, attempts), "{kind:?}");
        assert_eq!(job.dead_lettered_at.is_some(), attempts == 4, "{kind:?}");
    }
}
