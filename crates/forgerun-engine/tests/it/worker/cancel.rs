//! Jobs that are called off, or taken away.

use forgerun_core::command::{Cancel, HeldJob, LeaseProof, Owned};
use forgerun_core::id::JobId;
use forgerun_core::state::State;
use forgerun_core::work::WorkKind;
use forgerun_core::{Command, limits};
use forgerun_engine::{Engine, WorkerOptions};

use super::{assert_about, assert_about_at, ran_for, single, states};
use crate::support::{SECOND, World, client};

async fn cancel(engine: &Engine, job: JobId) {
    let owned = Owned { job, client: Some(client()) };
    let cancel =
        Cancel { owned, execution: None, by: "user".into(), reason: "not needed".into(), compensate: true };
    engine.act(Command::Cancel(cancel)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_running_job_that_is_cancelled_stops_at_once_and_makes_room_for_the_next() {
    let world = World::new();
    let worker = world.worker(single());
    let id = world.submit_kind(WorkKind::CancelDuringRun).await;
    let next = world.submit_kind(WorkKind::SuccessFast).await;
    world.pass(SECOND).await;
    assert_eq!((world.state(id).await, world.state(next).await), (Some(State::Running), Some(State::Queued)));
    let now = world.engine.now();
    cancel(&world.engine, id).await;
    world.settle().await;
    let began_at = world.found(next).await.started_at.unwrap();
    assert_about_at(began_at, now, "the next one");
    assert_eq!(worker.gauge().busy, 1);
    world.pass(20 * SECOND).await;
    let job = world.found(id).await;
    assert_eq!(job.state, State::Canceled);
    assert!(!states(&job).contains(&State::Succeeded));
    assert!(world.engine.store().result(job.execution).await.unwrap().is_none());
    assert_eq!(world.state(next).await, Some(State::Succeeded));
}

#[tokio::test(start_paused = true)]
async fn a_job_cancelled_on_another_node_stops_within_one_heartbeat() {
    let world = World::shared();
    let there = world.node();
    let worker = world.worker(single());
    let id = world.submit_kind(WorkKind::SuccessSlow).await;
    world.pass(SECOND).await;
    cancel(&there.engine, id).await;
    world.pass(5 * SECOND).await;
    assert_eq!(worker.gauge().busy, 0);
    world.pass(100 * SECOND).await;
    assert_eq!(world.state(id).await, Some(State::Canceled));
}

#[tokio::test(start_paused = true)]
async fn a_job_cancelled_while_it_waits_never_begins() {
    let world = World::new();
    let _worker = world.worker(single());
    world.submit_kind(WorkKind::SuccessNormal).await;
    let id = world.submit_kind(WorkKind::CancelBeforeStart).await;
    world.pass(SECOND).await;
    cancel(&world.engine, id).await;
    world.pass(60 * SECOND).await;
    assert_eq!(states(&world.found(id).await), [State::Created, State::Queued, State::Canceled]);
}

#[tokio::test(start_paused = true)]
async fn cancelling_many_running_jobs_frees_every_slot() {
    let world = World::new();
    let worker = world.worker(WorkerOptions { count: 8, concurrency: 50, ..WorkerOptions::default() });
    let mut jobs = Vec::new();
    for _ in 0..400 {
        jobs.push(world.submit_kind(WorkKind::RunsLong).await);
    }
    world.pass(SECOND).await;
    assert_eq!((worker.gauge().busy, worker.gauge().free), (400, 0));
    for &job in &jobs {
        cancel(&world.engine, job).await;
    }
    world.settle().await;
    assert_eq!((worker.gauge().busy, worker.gauge().free), (0, 400));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_lost_its_lease_stops_without_reporting() {
    let world = World::new();
    let worker = world.worker(WorkerOptions { count: 2, ..WorkerOptions::default() });
    let id = world.submit_kind(WorkKind::SuccessNormal).await;
    world.pass(3 * SECOND).await;
    // Taken away and given to the other worker loop, without the first one knowing.
    world
        .engine
        .act(Command::HandBack(HeldJob { job: id, proof: LeaseProof::Anyone, client: None }))
        .await
        .unwrap();
    world.settle().await;
    assert_eq!(worker.gauge().busy, 2);
    world.pass(5 * SECOND).await;
    assert_eq!(worker.gauge().busy, 1, "the first has noticed at its next sign of life");
    world.pass(limits::LEASE).await;
    let job = world.found(id).await;
    assert_eq!((job.state, job.fence), (State::Succeeded, 2));
    assert_about(ran_for(&job), 10 * SECOND, "the second attempt");
    assert_eq!(
        states(&job).iter().filter(|state| state.is_final()).count(),
        2,
        "handed back, then succeeded"
    );
}
