//! Stores that fail: one error never ends the worker.

use forgerun_core::catalog::Kind;
use forgerun_core::limits;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_engine::{Options, WorkerOptions};
use forgerun_store::Fault;

use super::{instant, ran_for, simulated, single, states};
use crate::store::{Failure, TestStore};
use crate::support::{HOUR, SECOND, World};

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_for_a_while_delays_the_work_and_nothing_else() {
    for fault in [Fault::Unavailable, Fault::Timeout, Fault::Busy, Fault::Full, Fault::Corrupt] {
        let world = World::new();
        let _worker = world.worker(single());
        let first = world.submit_kind(WorkKind::SuccessNormal).await;
        let second = world.submit_kind(WorkKind::SuccessNormal).await;
        // In the middle of the work, when it ends, and when the next is claimed.
        for _ in 0..3 {
            world.pass(5 * SECOND - SECOND / 4).await;
            world.store.fail(4, Failure::Before(fault));
        }
        world.pass(30 * SECOND).await;
        for id in [first, second] {
            let job = world.found(id).await;
            assert_eq!((job.state, job.attempt), (State::Succeeded, 1), "{fault:?}");
            assert!(ran_for(&job) < 15 * SECOND, "{fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_job_is_let_go_when_its_lease_ends_before_the_store_is_back() {
    let world = World::new();
    let worker = world.worker(single());
    let lost = world.submit_kind(WorkKind::SuccessFast).await;
    world.settle().await;
    world.store.fail(1_000_000, Failure::Before(Fault::Unavailable));
    world.pass(limits::LEASE + 5 * SECOND).await;
    assert_eq!(worker.gauge().busy, 0);
    world.store.mend();
    let next = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(10 * SECOND).await;
    let job = world.found(lost).await;
    assert_eq!(job.last_error().map(|error| error.kind), Some(Kind::RunnerLost));
    assert_eq!(world.state(next).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_report_that_was_written_but_not_confirmed_is_not_written_twice() {
    let world = World::new();
    let worker = world.worker(single());
    let id = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(SECOND - SECOND / 10).await;
    world.store.fail(1, Failure::AfterCommit);
    world.pass(HOUR).await;
    let job = world.found(id).await;
    assert_eq!(job.state, State::Succeeded);
    assert_eq!(states(&job).iter().filter(|state| state.is_final()).count(), 1);
    assert_eq!(worker.gauge().busy, 0);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_the_store_rejects_is_a_failure_and_never_a_silent_success() {
    let world = World::new();
    // With a slot to spare, so that no claim shares the transaction.
    let worker = world.worker(WorkerOptions { concurrency: 2, ..single() });
    let id = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(SECOND - SECOND / 10).await;
    world.store.fail(1, Failure::Before(Fault::Rejected));
    world.pass(SECOND).await;
    let job = world.found(id).await;
    assert_eq!(job.last_error().map(|error| error.kind), Some(Kind::ReportFailed));
    assert_eq!(worker.gauge().busy, 0);
}

#[tokio::test(start_paused = true)]
async fn queues_that_cannot_be_read_at_the_start_are_read_later() {
    let world = World::new();
    let id = world.submit_kind(WorkKind::SuccessFast).await;
    let world = world.crash(SECOND).await;
    world.settle().await;
    world.store.fail_reads(10);
    let _worker = world.worker(instant());
    world.pass(20 * SECOND).await;
    assert_eq!(world.state(id).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn an_engine_with_a_short_queue_of_commands_only_slows_the_worker_down() {
    let options = Options { commands_waiting_max: 1, batch_max: 2, ..Options::default() };
    let world = World::on(TestStore::with(4, 64), options);
    let _worker = world.worker(WorkerOptions { count: 4, concurrency: 20, ..instant() });
    let jobs = world.submit_many("default", 500, simulated(WorkKind::PayloadSmall)).await;
    world.pass(SECOND).await;
    for job in jobs {
        assert_eq!(world.state(job.id).await, Some(State::Succeeded));
    }
}
