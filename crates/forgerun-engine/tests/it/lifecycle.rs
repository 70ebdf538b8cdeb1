//! One job from birth to end, and who may do what to it.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, Claim, Fail, Idempotency, Owned, Submit, WorkError};
use forgerun_core::id::ClientId;
use forgerun_core::job::{Conflict, IdempotencyKey, Unique};
use forgerun_core::retry::RetryPolicy;
use forgerun_core::state::State;
use forgerun_core::{Command, Refusal, limits};
use forgerun_engine::Error;

use crate::store::TestStore;
use crate::support::{HOUR, SECOND, World, at_once, claim, client, held, new_job, submit, succeed};

#[tokio::test(start_paused = true)]
async fn a_job_wakes_a_waiting_worker_and_succeeds() {
    let world = World::new();
    let engine = world.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), HOUR).await });
    world.settle().await;
    let submitted_at = world.engine.now();
    let job = world.submit("a").await;
    let taken = worker.await.unwrap().unwrap();
    assert_eq!(taken.iter().map(|job| job.id).collect::<Vec<_>>(), [job.id]);
    let (done, changed) = world.engine.act(succeed(&taken[0])).await.unwrap();
    assert_eq!((done.state, changed), (State::Succeeded, true));
    assert_eq!(world.engine.now(), submitted_at, "nobody waited for a clock");
}

#[tokio::test(start_paused = true)]
async fn a_zombie_worker_cannot_end_an_attempt_whose_lease_was_taken_back() {
    let world = World::new();
    world.submit_with("a", |head| head.retry = RetryPolicy::auto()).await;
    let zombie = world.take("a").await;
    world.pass(limits::LEASE + SECOND).await;
    let heir = world.take("a").await;
    assert_eq!((heir.id, heir.attempt), (zombie.id, 2));
    let refused = world.engine.act(succeed(&zombie)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::LeaseLost))), "{refused:?}");
    assert_eq!(world.engine.act(succeed(&heir)).await.unwrap().0.state, State::Succeeded);
}

#[tokio::test(start_paused = true)]
async fn fifty_equal_idempotency_keys_at_once_make_one_job() {
    for lanes in [1, 4] {
        let store = TestStore::with(lanes, 64);
        let world = World::on(store, Default::default());
        let key = IdempotencyKey { client: client(), operation: "submit".into(), key: "k".into() };
        let answers = at_once(50, |_| {
            let (engine, key) = (world.engine.clone(), key.clone());
            async move {
                let new = new_job(&engine, "a", |head| head.idempotency = Some(key.clone()));
                let idempotency = Some(Idempotency { key, fingerprint: [1; 32], too_late: false });
                engine
                    .submit(Submit { jobs: vec![new], idempotency, queue_max: None, refuse_paused: false })
                    .await
                    .unwrap()
            }
        })
        .await;
        assert_eq!(world.n_claimable("a").await, 1);
        assert_eq!(answers.iter().filter(|(_, existing)| !existing).count(), 1);
        assert!(answers.iter().all(|(jobs, _)| jobs.len() == 1 && jobs[0].id == answers[0].0[0].id));
    }
}

#[tokio::test(start_paused = true)]
async fn another_clients_job_is_out_of_reach() {
    let world = World::new();
    let job = world.submit("a").await;
    let owned = Owned { job: job.id, client: Some(ClientId::from_u128(2)) };
    let cancel =
        Cancel { owned, execution: None, by: "user".into(), reason: String::new(), compensate: true };
    let refused = world.engine.act(Command::Cancel(cancel)).await;
    assert!(matches!(refused, Err(Error::Refused(Refusal::Foreign))), "{refused:?}");
    assert_eq!(world.job(job.id).await.unwrap(), job);
}

#[tokio::test(start_paused = true)]
async fn a_claim_does_not_walk_past_ended_jobs() {
    let world = World::new();
    world.submit_many("a", 500, |_| {}).await;
    let all = Claim { limit: 500, ..claim(&["a"]) };
    for job in world.engine.claim(all, Duration::ZERO).await.unwrap() {
        world.engine.act(succeed(&job)).await.unwrap();
    }
    world.submit("a").await;
    world.take("a").await;
    assert_eq!(world.store.written().last().unwrap().n_jobs_loaded, 1);
}

#[tokio::test(start_paused = true)]
async fn jobs_are_claimed_in_the_order_in_which_their_ids_were_drawn() {
    let world = World::new();
    let new: Vec<_> = (0..100).map(|_| new_job(&world.engine, "a", |_| {})).collect();
    // Their submissions race; their ids do not.
    let engine = world.engine.clone();
    let ids: Vec<_> = new.iter().map(|new| new.id).collect();
    at_once(100, move |n| {
        let (engine, new) = (engine.clone(), new[n].clone());
        async move { submit(&engine, new).await.unwrap() }
    })
    .await;
    let all = Claim { limit: 100, ..claim(&["a"]) };
    let taken = world.engine.claim(all, SECOND).await.unwrap();
    assert_eq!(taken.iter().map(|job| job.id).collect::<Vec<_>>(), ids);
}

#[tokio::test(start_paused = true)]
async fn a_retry_is_refused_while_another_job_has_the_unique_key() {
    let world = World::new();
    let unique = || {
        let facets = Unique::UNFINISHED;
        Some(Unique { key: [7; 32], facets, until: None, on_conflict: Conflict::Reject })
    };
    let failed = world.submit_with("a", |head| head.unique = unique()).await;
    let job = world.take("a").await;
    let error = WorkError::new(Kind::HandlerError, "it went wrong");
    world.engine.act(Command::Fail(Fail { held: held(&job), error })).await.unwrap();
    let newer = world.submit_with("a", |head| head.unique = unique()).await;
    let retry = || world.engine.retry(Owned { job: failed.id, client: Some(client()) }, false);
    let refused = retry().await;
    let is_taken =
        matches!(refused, Err(Error::Refused(Refusal::Duplicate { existing, .. })) if existing == newer.id);
    assert!(is_taken, "{refused:?}");
    world.engine.act(succeed(&world.take("a").await)).await.unwrap();
    assert_eq!(retry().await.unwrap().0.state, State::Queued);
}
