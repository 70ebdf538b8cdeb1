//! Stores that fail: everybody is told, neighbours are spared, and nothing ends for ever.

use std::time::Duration;

use forgerun_core::command::{Cancel, Owned};
use forgerun_core::state::State;
use forgerun_core::{Answer, Command};
use forgerun_engine::Error;
use forgerun_store::Fault;

use crate::store::Failure;
use crate::support::{HOUR, SECOND, World, announced, at_once, claim, is_ready, new_job, submission, submit};

fn fault<T>(result: Result<T, Error>) -> Option<Fault> {
    match result {
        Err(Error::Store(error)) => Some(error.fault),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_error_is_answered_to_every_caller_of_the_batch_and_the_engine_goes_on() {
    let world = World::new();
    for expected in [Fault::Unavailable, Fault::Timeout, Fault::Busy, Fault::Full] {
        world.store.block();
        let mut busy = Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {})));
        assert!(!is_ready(&mut busy).await);
        world.settle().await;
        let batch = at_once(20, |_| {
            let engine = world.engine.clone();
            async move { fault(submit(&engine, new_job(&engine, "a", |_| {})).await) }
        });
        let release = async {
            world.settle().await;
            world.store.fail(2, Failure::Before(expected));
            world.store.release();
        };
        let (faults, ()) = tokio::join!(batch, release);
        assert_eq!(faults, [Some(expected); 20]);
        assert_eq!(fault(busy.await), Some(expected));
    }
    assert_eq!(world.n_claimable("a").await, 0);
    world.submit("a").await;
    world.take("a").await;
}

#[tokio::test(start_paused = true)]
async fn one_rejected_command_fails_alone_and_costs_a_few_transactions() {
    let world = World::new();
    let taken = world.submit("a").await.id;
    world.store.block();
    let mut busy = Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {})));
    assert!(!is_ready(&mut busy).await);
    world.settle().await;
    let n_before = world.store.n_begun();
    let batch = at_once(64, |n| {
        let engine = world.engine.clone();
        async move {
            let mut new = new_job(&engine, "a", |_| {});
            if n == 41 {
                // An id that is taken, drawn by the server itself: nobody checks, the store rejects
                // it.
                new.id = taken;
            }
            fault(submit(&engine, new).await)
        }
    });
    let release = async {
        world.settle().await;
        world.store.release();
    };
    let (faults, ()) = tokio::join!(batch, release);
    busy.await.unwrap();
    let culprits: Vec<usize> = (0..64).filter(|&n| faults[n].is_some()).collect();
    assert_eq!((culprits, faults[41]), (vec![41], Some(Fault::Rejected)));
    assert_eq!(world.n_claimable("a").await, 64, "the first one and 63 neighbours");
    let n_transactions = world.store.n_begun() - n_before;
    assert!(n_transactions <= 1 + 2 * 6, "{n_transactions} transactions for 64 = 2⁶ commands");
}

#[tokio::test(start_paused = true)]
async fn a_batch_written_by_a_store_that_broke_while_committing_still_wakes_whoever_waits_for_it() {
    let world = World::new();
    let engine = world.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() });
    let mut reader = world.engine.journal(0);
    world.settle().await;
    let before = world.engine.now();
    world.store.fail(1, Failure::AfterCommit);
    let new = new_job(&world.engine, "a", announced);
    let id = new.id;
    assert_eq!(fault(submit(&world.engine, new).await), Some(Fault::Unknown));
    assert_eq!(worker.await.unwrap()[0].id, id);
    assert!(!reader.next(10).await.unwrap().is_empty());
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn one_error_does_not_end_the_timers_for_ever() {
    let world = World::new();
    let due_at = world.engine.now() + SECOND;
    let job = world.submit_with("a", |head| head.execution_at = Some(due_at)).await;
    world.pass(SECOND / 2).await;
    world.store.fail(3, Failure::Before(Fault::Unavailable));
    world.store.fail(1, Failure::Before(Fault::Rejected));
    world.store.fail(1, Failure::Before(Fault::Corrupt));
    world.store.fail_reads(3);
    let taken = world.engine.claim(claim(&["a"]), HOUR).await.unwrap_err();
    assert!(matches!(taken, Error::Store(_)), "the claim itself used one of them up");
    let taken = loop {
        if let Ok(jobs) = world.engine.claim(claim(&["a"]), HOUR).await {
            break jobs;
        }
    };
    assert_eq!(taken[0].id, job.id);
    let late = world.engine.now().since(due_at);
    assert!(late <= SECOND, "seven errors, each answered by a tenth of a second: {late:?}");
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_the_rules_ends_neither_the_engine_nor_its_neighbours() {
    let world = World::new();
    let job = world.submit_with("a", |head| head.job_type = "panic".into()).await;
    let owned = Owned { job: job.id, client: None };
    let cancel = Command::Cancel(Cancel {
        owned,
        execution: None,
        by: "operator".into(),
        reason: String::new(),
        compensate: true,
    });
    let mut cancelled = Box::pin(world.engine.run(cancel));
    let mut neighbour = Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {})));
    assert!(!is_ready(&mut cancelled).await);
    assert!(!is_ready(&mut neighbour).await);
    assert_eq!(fault(cancelled.await), Some(Fault::Rejected));
    neighbour.await.unwrap();
    assert_eq!(world.job(job.id).await, Some(job));
}

#[tokio::test(start_paused = true)]
async fn an_error_answers_a_claim_and_leaves_its_wake_up_to_the_next() {
    let world = World::new();
    assert!(world.claim_now("a").await.is_empty());
    let mut workers: Vec<_> = (0..65).map(|_| Box::pin(world.engine.claim(claim(&["a"]), HOUR))).collect();
    for worker in &mut workers {
        assert!(!is_ready(worker).await);
    }
    let job = world.submit_with("a", announced).await;
    let last = workers.pop().unwrap();
    // The first 64 share a batch, and it fails.
    world.store.fail(1, Failure::Before(Fault::Unavailable));
    for worker in &mut workers {
        assert!(!is_ready(worker).await);
    }
    for worker in workers {
        assert_eq!(fault(worker.await), Some(Fault::Unavailable));
    }
    let before = world.engine.now();
    assert_eq!(last.await.unwrap()[0].id, job.id);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_refuses_new_work_and_serves_reads() {
    let world = World::new();
    let job = world.submit("a").await;
    world.store.fail(1, Failure::Before(Fault::Full));
    let refused = world.engine.run(submission(new_job(&world.engine, "a", |_| {}))).await;
    assert_eq!(fault(refused), Some(Fault::Full));
    assert_eq!(world.state(job.id).await, Some(State::Queued));
    let resumed = world.engine.run(submission(new_job(&world.engine, "a", |_| {}))).await.unwrap();
    assert!(matches!(resumed, Answer::Submitted { existing: false, .. }));
    assert!(world.engine.claim(claim(&["a"]), Duration::ZERO).await.is_ok());
}
