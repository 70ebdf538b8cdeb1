//! Batches: items side by side, and only the failed ones again.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Claim, Owned, WorkerKind};
use forgerun_core::item::{Item, ItemEnd, Items, Tally};
use forgerun_core::job::{Head, Job};
use forgerun_core::retry::RetryPolicy;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::WorkerOptions;

use super::{MAX_RUNTIME, assert_about, ran_for};
use crate::support::{HOUR, SECOND, World, claim, client, new_job, submit};

impl World {
    async fn submit_batch(&self, kinds: &[WorkKind], shape: impl FnOnce(&mut Head)) -> Job {
        let mut new = new_job(&self.engine, "default", |head| {
            head.items = Some(Items { n: kinds.len() as u32, simulated: true });
            head.timeout = Some(MAX_RUNTIME);
            shape(head);
        });
        let item = |(n, kind): (usize, &WorkKind)| Item {
            id: n.to_string(),
            job_type: None,
            work_kind: Some(*kind),
            payload: Vec::new(),
        };
        Arc::make_mut(&mut new.input).items = kinds.iter().enumerate().map(item).collect();
        submit(&self.engine, new).await.unwrap()
    }

    async fn ends(&self, job: &Job) -> Vec<ItemEnd> {
        self.engine.store().items(job.execution).await.unwrap().expect("the batch has ended")
    }
}

#[tokio::test(start_paused = true)]
async fn items_run_side_by_side_and_the_batch_is_over_with_the_last() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let kinds = [WorkKind::SuccessFast, WorkKind::SuccessNormal, WorkKind::PayloadSmall];
    let id = world.submit_batch(&kinds, |_| {}).await.id;
    world.pass(11 * SECOND).await;
    let job = world.found(id).await;
    assert_eq!((job.state, job.tally), (State::Succeeded, Tally { completed: 3, failed: 0 }));
    assert_about(ran_for(&job), 10 * SECOND, "the longest item");
    assert_eq!(world.progress(id).await, [33, 66]);
    assert!(world.ends(&job).await.iter().all(|end| end.error.is_none()));
}

#[tokio::test(start_paused = true)]
async fn an_item_that_runs_too_long_fails_alone() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions { time_scale: 0.01, ..WorkerOptions::default() });
    let id = world.submit_batch(&[WorkKind::SuccessFast, WorkKind::RunsOverTimeout], |_| {}).await.id;
    world.pass(HOUR).await;
    let job = world.found(id).await;
    assert!(job.is_mixed(), "{job:?}");
    let kinds: Vec<_> = world.ends(&job).await.iter().map(|end| end.error.as_ref().map(|e| e.kind)).collect();
    assert_eq!(kinds, [None, Some(Kind::HandlerTimeout)]);
}

#[tokio::test(start_paused = true)]
async fn a_manual_retry_runs_the_failed_items_only() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let kinds = [WorkKind::SuccessSlow, WorkKind::RetryOnFail];
    let id = world.submit_batch(&kinds, |_| {}).await.id;
    world.pass(HOUR).await;
    let first = world.found(id).await;
    assert!(first.is_mixed());
    let owned = Owned { job: id, client: Some(client()) };
    world.engine.retry(owned, false).await.unwrap();
    world.pass(HOUR).await;
    let job = world.found(id).await;
    assert_eq!((job.state, job.tally.completed), (State::Succeeded, 2));
    assert_about(ran_for(&job), 3 * SECOND, "the slow item, which went well, is not run again");
    let before = world.ends(&first).await;
    assert!(before[1].error.is_some(), "the list of the first execution stays");
}

#[tokio::test(start_paused = true)]
async fn in_automatic_mode_the_server_runs_again_what_may_pass() {
    let world = World::new();
    let _worker = world.worker(WorkerOptions::default());
    let kinds = [WorkKind::SuccessFast, WorkKind::RetryOnFail, WorkKind::FailImmediate];
    let id = world.submit_batch(&kinds, |head| head.retry = RetryPolicy::auto()).await.id;
    world.pass(HOUR).await;
    let job = world.found(id).await;
    assert!(job.is_mixed());
    assert_eq!((job.attempt, job.tally), (2, Tally { completed: 2, failed: 1 }));
    let ends = world.ends(&job).await;
    let message = &ends[2].error.as_ref().unwrap().message;
    assert!(message.contains("attempt 1"), "what is not worth another try is not tried again: {message}");
}

#[tokio::test(start_paused = true)]
async fn what_went_well_stays_out_of_a_retry_even_if_an_execution_between_was_lost() {
    let world = World::new();
    let worker = world.worker(WorkerOptions::default());
    let retry = async |id| {
        let owned = Owned { job: id, client: Some(client()) };
        world.engine.retry(owned, false).await.unwrap();
    };
    let kinds = [WorkKind::SuccessSlow, WorkKind::RetryOnFail];
    let id = world.submit_batch(&kinds, |_| {}).await.id;
    world.pass(HOUR).await;
    // The second execution has no worker that would tell of its items: its lease runs out.
    drop(worker);
    retry(id).await;
    world.pass(HOUR).await;
    let claim = Claim { worker_kind: WorkerKind::BuiltIn, ..claim(&["default"]) };
    assert_eq!(world.engine.claim(claim, Duration::ZERO).await.unwrap()[0].id, id);
    world.pass(HOUR).await;
    assert_eq!(world.found(id).await.last_error().map(|error| error.kind), Some(Kind::RunnerLost));
    retry(id).await;
    let _worker = world.worker(WorkerOptions::default());
    world.pass(HOUR).await;
    let job = world.found(id).await;
    assert_eq!((job.state, job.tally.completed), (State::Succeeded, 2));
    assert_about(ran_for(&job), 3 * SECOND, "the slow item is not run again");
}
