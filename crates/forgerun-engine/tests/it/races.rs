//! The same with threads: what happens between a look and a wait happens here for real, many times
//! over.

use std::collections::BTreeSet;
use std::time::Duration;

use forgerun_core::command::{Claim, WorkerKind};

use crate::store::TestStore;
use crate::support::{World, at_once, claim, new_job, simulated, submit, succeed};

/// Far more than it takes; only a lost wake-up reaches it.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_job_that_arrives_between_look_and_wait_is_not_missed() {
    let world = World::new();
    for _ in 0..2000 {
        let (worker, submitter) = (world.engine.clone(), world.engine.clone());
        let claimed = tokio::spawn(async move { worker.claim(claim(&["a"]), PATIENCE).await.unwrap() });
        let job =
            tokio::spawn(async move { submit(&submitter, new_job(&submitter, "a", |_| {})).await.unwrap() });
        let (claimed, job) = (claimed.await.unwrap(), job.await.unwrap());
        assert_eq!(claimed.first().map(|job| job.id), Some(job.id), "not woken");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn more_workers_than_are_woken_at_once_and_jobs_one_by_one_all_meet() {
    for lanes in [1, 4] {
        let world = World::on(TestStore::with(lanes, 64), Default::default());
        let taken = at_once(200, |_| {
            let engine = world.engine.clone();
            async move {
                let mut ids = Vec::new();
                for _ in 0..10 {
                    ids.extend(engine.claim(claim(&["a"]), PATIENCE).await.unwrap().iter().map(|job| job.id));
                }
                ids
            }
        });
        let submits = at_once(20, |_| {
            let engine = world.engine.clone();
            async move {
                for _ in 0..100 {
                    submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap();
                }
            }
        });
        let taken: Vec<_> = tokio::join!(taken, submits).0.concat();
        assert_eq!(taken.len(), 2000, "somebody was not woken");
        assert_eq!(taken.iter().collect::<BTreeSet<_>>().len(), 2000, "a job was handed out twice");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn workers_that_give_up_at_any_moment_take_no_wake_up_along() {
    let world = World::new();
    let impatient = at_once(50, |n| {
        let engine = world.engine.clone();
        async move {
            let mut n_taken = 0;
            for round in 0..100 {
                let patience = Duration::from_micros((n * 37 + round * 11) as u64 % 900);
                let claimed = tokio::time::timeout(patience, engine.claim(claim(&["a"]), PATIENCE));
                if let Ok(jobs) = claimed.await {
                    n_taken += jobs.unwrap().len();
                }
            }
            n_taken
        }
    });
    let lasting = at_once(100, |_| {
        let engine = world.engine.clone();
        async move { engine.claim(claim(&["a"]), PATIENCE).await.unwrap().len() }
    });
    let submits = at_once(10, |_| {
        let engine = world.engine.clone();
        async move {
            for _ in 0..600 {
                submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap();
            }
        }
    });
    let (_, lasting, _) = tokio::join!(impatient, lasting, submits);
    assert_eq!(lasting, [1; 100], "there were jobs enough for all");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn capped_workers_go_on_until_the_last_job_has_ended() {
    let world = World::new();
    world.submit_many("a", 1000, simulated).await;
    let worked = at_once(20, |_| {
        let engine = world.engine.clone();
        async move {
            for _ in 0..50 {
                let capped = Claim { active_max: Some(2), worker_kind: WorkerKind::BuiltIn, ..claim(&["a"]) };
                let job = engine.claim(capped, PATIENCE).await.unwrap().pop().expect("not woken");
                engine.act(succeed(&job)).await.unwrap();
            }
        }
    });
    tokio::time::timeout(2 * PATIENCE, worked).await.unwrap();
}
