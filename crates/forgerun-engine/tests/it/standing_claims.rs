//! Claims that stand: a batch that brings work takes them along, and nothing gets lost by it.

use std::time::Duration;

use forgerun_core::command::{Claim, Submit};
use forgerun_core::history::EventKind;
use forgerun_core::state::State;
use forgerun_core::work::{Definition, WorkKind};
use forgerun_engine::{BuiltInWorker, Error, WorkerOptions};
use forgerun_store::Fault;

use crate::store::Failure;
use crate::support::{
    HOUR, SECOND, World, claim, is_ready, name, new_job, pause, simulated, submission, submit, succeed,
};

/// Claims of this worker that wait, and have found nothing.
macro_rules! waiting {
    ($world:expr, $claim:expr, $wait:expr) => {{
        let mut worker = Box::pin($world.engine.claim($claim, $wait));
        assert!(!is_ready(&mut worker).await);
        $world.settle().await;
        assert!(!is_ready(&mut worker).await);
        worker
    }};
}

#[tokio::test(start_paused = true)]
async fn a_job_is_handed_out_in_the_transaction_that_brings_it() {
    let world = World::new();
    let worker = waiting!(world, claim(&["a"]), HOUR);
    let n_before = world.store.n_begun();
    let submitted = world.submit("a").await;
    assert_eq!(submitted.state, State::Queued, "what was asked for is answered, not what came after");
    let taken = worker.await.unwrap();
    assert_eq!((taken[0].id, taken[0].state), (submitted.id, State::Running));
    assert_eq!(world.store.n_begun(), n_before + 1);
    assert_eq!(world.job(submitted.id).await.as_ref(), Some(&taken[0]));
}

#[tokio::test(start_paused = true)]
async fn who_waits_longest_is_served_first_and_none_is_taken_along_for_nothing() {
    let world = World::new();
    let first = waiting!(world, claim(&["a"]), HOUR);
    let second = waiting!(world, Claim { limit: 2, ..claim(&["a"]) }, HOUR);
    let mut third = waiting!(world, claim(&["a"]), HOUR);
    let jobs = (0..3).map(|_| new_job(&world.engine, "a", |_| {})).collect();
    let submit = Submit { jobs, idempotency: None, queue_max: None, refuse_paused: false };
    let (jobs, _) = world.engine.submit(submit).await.unwrap();
    assert_eq!(first.await.unwrap()[0].id, jobs[0].id);
    assert_eq!(second.await.unwrap().iter().map(|job| job.id).collect::<Vec<_>>(), [jobs[1].id, jobs[2].id]);
    assert!(!is_ready(&mut third).await);
    let last = world.submit("a").await;
    assert_eq!(third.await.unwrap()[0].id, last.id);
}

#[tokio::test(start_paused = true)]
async fn a_batch_takes_a_bounded_number_of_claims_along_and_the_others_are_woken() {
    let world = World::new();
    let mut workers = Vec::new();
    for _ in 0..70 {
        workers.push(waiting!(world, claim(&["a"]), HOUR));
    }
    let jobs = world.submit_many("a", 70, |_| {}).await;
    assert_eq!(world.store.written().last().unwrap().n_answers, 1 + 64);
    let mut taken = Vec::new();
    for worker in workers {
        taken.push(worker.await.unwrap()[0].id);
    }
    taken.sort_unstable();
    assert_eq!(taken, jobs.iter().map(|job| job.id).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_job_for_later_takes_no_claim_along() {
    let world = World::new();
    let mut worker = waiting!(world, claim(&["a"]), HOUR);
    let due_at = world.engine.now() + SECOND;
    let job = world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    assert!(!is_ready(&mut worker).await);
    assert_eq!(worker.await.unwrap()[0].id, job.id);
    assert!(world.engine.now() >= due_at);
}

#[tokio::test(start_paused = true)]
async fn a_claim_taken_along_in_vain_waits_on() {
    let world = World::new();
    let mut worker = waiting!(world, claim(&["a"]), HOUR);
    world.engine.run(pause("a", true)).await.unwrap();
    let job = world.submit("a").await;
    world.settle().await;
    assert!(!is_ready(&mut worker).await);
    world.engine.run(pause("a", false)).await.unwrap();
    assert_eq!(worker.await.unwrap()[0].id, job.id);
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_ends_while_a_batch_has_the_claim_gives_what_the_batch_found() {
    let world = World::new();
    let mut worker = waiting!(world, claim(&["a"]), SECOND);
    world.store.block();
    let mut submitted = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut submitted).await);
    world.pass(10 * SECOND).await;
    assert!(!is_ready(&mut worker).await, "its jobs would be nobody's until their lease ends");
    world.store.release();
    let job = submitted.await.unwrap();
    assert_eq!(worker.await.unwrap()[0].id, job.id);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_before_the_batch_is_not_given_anything() {
    let world = World::new();
    drop(waiting!(world, claim(&["a"]), HOUR));
    let next = waiting!(world, claim(&["a"]), HOUR);
    let job = world.submit("a").await;
    assert_eq!(next.await.unwrap()[0].id, job.id);
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_leaves_while_a_batch_has_its_claim_leaves_the_rest_to_the_next() {
    let world = World::new();
    let leaving = waiting!(world, Claim { start: false, ..claim(&["a"]) }, HOUR);
    let next = waiting!(world, claim(&["a"]), HOUR);
    world.store.block();
    let mut submitted = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut submitted).await);
    world.settle().await;
    drop(leaving);
    world.store.release();
    let job = submitted.await.unwrap();
    // Nobody knows that they have it. It comes back when its lease ends, and then the other has it.
    assert_eq!(next.await.unwrap()[0].id, job.id);
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_fails_answers_the_claims_it_took_along() {
    let world = World::new();
    let worker = waiting!(world, claim(&["a"]), HOUR);
    world.store.fail(1, Failure::Before(Fault::Unavailable));
    assert!(submit(&world.engine, new_job(&world.engine, "a", |_| {})).await.is_err());
    let Err(Error::Store(error)) = worker.await else { panic!("the claim was not carried out") };
    assert_eq!(error.fault, Fault::Unavailable);
    let job = world.submit("a").await;
    assert_eq!(world.take("a").await.id, job.id);
}

#[tokio::test(start_paused = true)]
async fn a_stopping_engine_gives_what_a_batch_under_way_found() {
    let world = World::new();
    let idle = waiting!(world, claim(&["b"]), HOUR);
    let mut worker = waiting!(world, claim(&["a"]), HOUR);
    world.store.block();
    let mut submitted = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut submitted).await);
    world.settle().await;
    let engine = world.engine.clone();
    let stopped = tokio::spawn(async move { engine.stop().await });
    assert!(idle.await.unwrap().is_empty());
    assert!(!is_ready(&mut worker).await);
    world.store.release();
    assert_eq!(worker.await.unwrap()[0].id, submitted.await.unwrap().id);
    stopped.await.unwrap();
}

fn built_in(count: usize, concurrency: usize) -> WorkerOptions {
    WorkerOptions { count, concurrency, ..WorkerOptions::default() }
}

#[tokio::test(start_paused = true)]
async fn the_built_in_worker_is_given_work_of_whatever_queue_with_the_batch_that_brings_it() {
    let world = World::new();
    let worker = BuiltInWorker::start(world.engine.clone(), built_in(1, 4));
    world.settle().await;
    let n_before = world.store.n_begun();
    let jobs = ["a", "b", "c"].map(|queue| new_job(&world.engine, queue, simulated));
    let submit = Submit { jobs: jobs.into(), idempotency: None, queue_max: None, refuse_paused: false };
    let (jobs, _) = world.engine.submit(submit).await.unwrap();
    for job in &jobs {
        assert_eq!(world.state(job.id).await, Some(State::Running));
    }
    world.settle().await;
    assert_eq!(world.store.n_begun(), n_before + 1);
    assert_eq!(worker.gauge().busy, 3);
    world.pass(HOUR).await;
    for job in &jobs {
        assert_eq!(world.state(job.id).await, Some(State::Succeeded));
    }
}

#[tokio::test(start_paused = true)]
async fn the_built_in_worker_never_has_more_in_hand_than_it_has_slots() {
    let world = World::new();
    let worker = BuiltInWorker::start(world.engine.clone(), built_in(2, 2));
    let mut jobs = Vec::new();
    for n in 0..40 {
        jobs.push(world.submit_with("a", simulated).await.id);
        assert!(worker.gauge().busy <= 4);
        world.pass(Duration::from_millis(n * 37 % 500)).await;
        assert!(worker.gauge().busy <= 4);
    }
    world.pass(HOUR).await;
    for job in jobs {
        assert_eq!(world.state(job).await, Some(State::Succeeded));
    }
    assert_eq!(most_at_once(&world).await, 4);
}

/// How many jobs were in hand at the same time, by the journal.
async fn most_at_once(world: &World) -> usize {
    let rows = world.engine.store().journal(0, usize::MAX).await.unwrap();
    let (mut now, mut most) = (0, 0);
    for (_, event) in rows.iter().flat_map(|row| row.job_events()) {
        if let EventKind::Moved { from: Some(from), to, .. } = event.kind {
            now = now + usize::from(to.is_active()) - usize::from(from.is_active());
            most = most.max(now);
        }
    }
    most
}

#[tokio::test(start_paused = true)]
async fn a_stopping_worker_hands_back_what_a_batch_under_way_gives_it() {
    let world = World::new();
    let worker = BuiltInWorker::start(world.engine.clone(), built_in(1, 1));
    world.settle().await;
    world.store.block();
    let new = new_job(&world.engine, "a", |head| {
        head.definition = Some(Definition::of(WorkKind::SuccessSlow, 120_000));
    });
    let id = new.id;
    let mut submitted = Box::pin(world.engine.run(submission(new)));
    assert!(!is_ready(&mut submitted).await);
    world.settle().await;
    let mut stopped = Box::pin(worker.stop());
    assert!(!is_ready(&mut stopped).await);
    world.store.release();
    submitted.await.unwrap();
    let before = world.engine.now();
    stopped.await;
    assert!(world.engine.now().since(before) < SECOND);
    assert_eq!(world.state(id).await, Some(State::Queued));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_job_taken_along_is_reported_as_of_any_other() {
    let world = World::new();
    let worker = waiting!(world, Claim { worker: name("other"), ..claim(&["a"]) }, HOUR);
    world.submit("a").await;
    let job = worker.await.unwrap().remove(0);
    assert_eq!(job.lease.as_ref().map(|lease| lease.worker.as_str()), Some("other"));
    assert_eq!((job.fence, job.attempt), (1, 1));
    world.engine.run(succeed(&job)).await.unwrap();
    assert_eq!(world.state(job.id).await, Some(State::Succeeded));
}
