//! Workers that wait: woken when there is work, for free while there is none, and never forgotten.

use std::collections::BTreeSet;
use std::time::Duration;

use forgerun_core::command::{Claim, WorkerKind};
use forgerun_core::id::JobId;
use forgerun_core::job::{Head, Limit};

use crate::support::{
    HOUR, SECOND, World, announced, at_once, claim, is_ready, name, new_job, pause, submit,
};

#[tokio::test(start_paused = true)]
async fn a_claim_waits_on_several_queues_and_any_of_them_wakes_it() {
    let world = World::new();
    for queue in ["a", "b", "c"] {
        let engine = world.engine.clone();
        let worker = tokio::spawn(async move { engine.claim(claim(&["a", "b", "c"]), HOUR).await.unwrap() });
        world.settle().await;
        let job = world.submit(queue).await;
        assert_eq!(worker.await.unwrap()[0].id, job.id);
    }
    assert!(world.engine.now().since(world.submit("a").await.head.created_at) < SECOND);
}

#[tokio::test(start_paused = true)]
async fn empty_claims_cost_no_transaction() {
    let world = World::new();
    assert!(world.claim_now("a").await.is_empty());
    let n_before = world.store.n_begun();
    for _ in 0..100 {
        assert!(world.claim_now("a").await.is_empty());
    }
    let waited = at_once(100, |_| {
        let engine = world.engine.clone();
        async move { engine.claim(claim(&["a"]), 10 * SECOND).await.unwrap().len() }
    })
    .await;
    assert_eq!(waited, [0; 100]);
    assert_eq!(world.store.n_begun(), n_before);
}

#[tokio::test(start_paused = true)]
async fn a_claim_gives_up_at_its_deadline() {
    let world = World::new();
    let before = world.engine.now();
    assert!(world.engine.claim(claim(&["a"]), 5 * SECOND).await.unwrap().is_empty());
    assert_eq!(world.engine.now().since(before), 5 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_is_set_back_does_not_prolong_a_wait() {
    let world = World::new();
    let engine = world.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), 5 * SECOND).await.unwrap() });
    world.pass(SECOND).await;
    world.clock.set_back(HOUR);
    // The other wait of five seconds begins later, so it must end later.
    world.pass(5 * SECOND).await;
    assert!(worker.is_finished());
}

#[tokio::test(start_paused = true)]
async fn a_thousand_workers_and_a_thousand_jobs_meet_one_to_one() {
    let world = World::new();
    let began_at = world.engine.now();
    let workers = at_once(1000, |_| {
        let engine = world.engine.clone();
        async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() }
    });
    let submits = async {
        world.settle().await;
        at_once(1000, |_| {
            let engine = world.engine.clone();
            async move { submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap().id }
        })
        .await
    };
    let (taken, submitted) = tokio::join!(workers, submits);
    let ids: BTreeSet<JobId> = taken.iter().flatten().map(|job| job.id).collect();
    assert_eq!(ids, submitted.into_iter().collect());
    assert!(taken.iter().all(|jobs| jobs.len() == 1));
    assert!(world.engine.now().since(began_at) < SECOND, "somebody was not woken");
}

#[tokio::test(start_paused = true)]
async fn one_announcement_of_many_jobs_reaches_every_waiting_worker() {
    let world = World::new();
    let began_at = world.engine.now();
    let workers = at_once(300, |_| {
        let engine = world.engine.clone();
        async move { engine.claim(claim(&["a"]), HOUR).await.unwrap().len() }
    });
    let submits = async {
        world.settle().await;
        world.submit_many("a", 300, |_| {}).await
    };
    assert_eq!(tokio::join!(workers, submits).0, [1; 300]);
    assert!(world.engine.now().since(began_at) < SECOND, "somebody was not woken");
}

#[tokio::test(start_paused = true)]
async fn a_paused_queue_holds_its_workers_until_it_is_resumed() {
    let world = World::new();
    let pause = |paused| pause("a", paused);
    world.engine.run(pause(true)).await.unwrap();
    let engine = world.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() });
    world.settle().await;
    let job = world.submit("a").await;
    world.pass(SECOND).await;
    assert!(!worker.is_finished());
    let resumed_at = world.engine.now();
    world.engine.run(pause(false)).await.unwrap();
    assert_eq!(worker.await.unwrap()[0].id, job.id);
    assert_eq!(world.engine.now(), resumed_at);
}

#[tokio::test(start_paused = true)]
async fn workers_that_leave_after_being_woken_leave_their_wake_up_to_the_next() {
    let world = World::new();
    assert!(world.claim_now("a").await.is_empty());
    let mut workers: Vec<_> = (0..65).map(|_| Box::pin(world.engine.claim(claim(&["a"]), HOUR))).collect();
    for worker in &mut workers {
        assert!(!is_ready(worker).await);
    }
    let job = world.submit_with("a", announced).await;
    let last = workers.pop().unwrap();
    drop(workers);
    let before = world.engine.now();
    assert_eq!(last.await.unwrap()[0].id, job.id);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn workers_woken_again_while_they_claim_leave_their_wake_up_to_the_next() {
    let world = World::new();
    assert!(world.claim_now("a").await.is_empty());
    let mut workers: Vec<_> = (0..65).map(|_| Box::pin(world.engine.claim(claim(&["a"]), HOUR))).collect();
    for worker in &mut workers {
        assert!(!is_ready(worker).await);
    }
    let mut last = workers.pop().unwrap();
    let first = world.submit_with("a", announced).await;
    for worker in &mut workers {
        assert!(!is_ready(worker).await);
    }
    // Their claims are decided now, but they do not know yet; the next job is announced to the same
    // 64.
    world.settle().await;
    let second = world.submit_with("a", announced).await;
    assert!(!is_ready(&mut last).await);
    let served = workers.remove(0).await.unwrap();
    assert_eq!(served[0].id, first.id);
    drop(workers);
    let before = world.engine.now();
    assert_eq!(last.await.unwrap()[0].id, second.id);
    assert_eq!(world.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_claim_for_nothing_does_not_make_others_believe_that_there_is_nothing() {
    let world = World::new();
    let job = world.submit("a").await;
    let nothing = Claim { limit: 0, ..claim(&["a"]) };
    assert!(world.engine.claim(nothing, HOUR).await.unwrap().is_empty());
    assert_eq!(world.take("a").await.id, job.id);
}

#[tokio::test(start_paused = true)]
async fn queues_past_the_bound_of_a_claim_are_not_believed_to_be_empty() {
    let world = World::new();
    let job = world.submit("last").await;
    let mut queues: Vec<String> = (0..64).map(|n| format!("queue {n}")).collect();
    queues.push("last".into());
    let queues: Vec<&str> = queues.iter().map(String::as_str).collect();
    assert!(world.engine.claim(claim(&queues), Duration::ZERO).await.unwrap().is_empty());
    assert_eq!(world.take("last").await.id, job.id);
}

#[tokio::test(start_paused = true)]
async fn real_and_simulated_work_do_not_wake_each_others_workers() {
    let world = World::new();
    let built_in = Claim { worker_kind: WorkerKind::BuiltIn, ..claim(&["a"]) };
    assert!(world.engine.claim(built_in.clone(), Duration::ZERO).await.unwrap().is_empty());
    let n_before = world.store.n_begun();
    world.submit("a").await;
    assert!(world.engine.claim(built_in, SECOND).await.unwrap().is_empty());
    assert_eq!(world.store.n_begun(), n_before + 1, "the submission alone");
}

#[tokio::test(start_paused = true)]
async fn a_job_behind_many_that_are_parked_is_reached_by_one_claim() {
    let world = World::new();
    let limited = |head: &mut Head| {
        head.limits = vec![Limit { key: name("key"), concurrency: Some(1), rate: None }];
    };
    world.submit_many("a", 50, limited).await;
    world.take("a").await;
    let free = world.submit("a").await;
    assert_eq!(world.take("a").await.id, free.id);
}
