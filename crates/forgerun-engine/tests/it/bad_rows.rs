//! Rows that nobody can use: each is set aside, an operator can see it, and everything else goes
//! on.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{
    Claim, DeliveryClaim, DeliveryCommand, Heartbeat, PutSchedule, ScheduleCommand, WorkerCommand,
};
use forgerun_core::job::Head;
use forgerun_core::queue::Owner;
use forgerun_core::schedule::{Overlap, Schedule, ScheduleId};
use forgerun_core::set_aside::RowId;
use forgerun_core::state::State;
use forgerun_core::worker::WorkerId;
use forgerun_core::{Answer, Command, limits};
use forgerun_store::Store;

use crate::support::{HOUR, SECOND, World, claim, client, is_ready, name, new_job, submit};

async fn set_aside(world: &World) -> Vec<RowId> {
    let store: Arc<dyn Store> = world.store.clone();
    store.set_aside(99).await.unwrap().into_iter().map(|aside| aside.row).collect()
}

#[tokio::test(start_paused = true)]
async fn a_due_job_on_which_the_rules_break_is_set_aside_and_the_rest_happens_at_once() {
    let world = World::new();
    let due_at = world.engine.now() + SECOND;
    let mut culprits = Vec::new();
    for n in 0..300 {
        let job = world.submit_with("a", |head| {
            head.expires_at = Some(due_at);
            if n % 100 == 70 {
                head.job_type = "panic".into();
            }
        });
        let job = job.await;
        if n % 100 == 70 {
            culprits.push(RowId::Job(job.id));
        }
    }
    let scheduled = world.submit_with("b", |head| head.execution_at = Some(due_at)).await;
    world.pass(SECOND + Duration::from_millis(1)).await;
    assert_eq!(set_aside(&world).await, culprits);
    assert_eq!(world.n_claimable("a").await, 0, "the other 297 have expired");
    assert_eq!(world.state(scheduled.id).await, Some(State::Queued), "the clock goes on");
    let n_before = world.store.n_begun();
    world.pass(HOUR).await;
    assert_eq!(world.store.n_begun(), n_before, "nobody meets them again");
}

#[tokio::test(start_paused = true)]
async fn a_job_on_which_the_rules_break_does_not_block_the_claims_behind_it() {
    let world = World::new();
    world.submit("a").await;
    world.submit("a").await;
    let expired = world.engine.now() - SECOND;
    let bad = new_job(&world.engine, "a", |head| {
        head.job_type = "panic".into();
        head.expires_at = Some(expired);
        head.priority = 9;
    });
    let id = bad.id;
    // In one batch, so that the claim meets the job before the timers do.
    world.store.block();
    let mut busy = Box::pin(submit(&world.engine, new_job(&world.engine, "c", |_| {})));
    assert!(!is_ready(&mut busy).await);
    world.settle().await;
    let mut submitted = Box::pin(submit(&world.engine, bad));
    let two = Claim { limit: 9, ..claim(&["b", "a"]) };
    let mut claimed = Box::pin(world.engine.claim(two, HOUR));
    assert!(!is_ready(&mut submitted).await);
    assert!(!is_ready(&mut claimed).await);
    world.store.release();
    submitted.await.unwrap();
    assert!(!claimed.await.unwrap().is_empty());
    assert_eq!(set_aside(&world).await, [RowId::Job(id)]);
}

#[tokio::test(start_paused = true)]
async fn a_row_that_the_store_rejects_is_set_aside_whoever_meets_it() {
    let world = World::new();
    let [timed, claimed] = ["a", "b"].map(|queue| new_job(&world.engine, queue, |_| {}));
    let due_at = world.engine.now() + SECOND;
    for (queue, bad) in [("a", RowId::Job(timed.id)), ("b", RowId::Job(claimed.id))] {
        world.store.reject(bad);
        for n in 0..5 {
            let mut new = new_job(&world.engine, queue, |head| {
                head.execution_at = (queue == "a").then_some(due_at);
                head.callback = Some("http://receiver/".into());
            });
            if n == 0 {
                new.id = if queue == "a" { timed.id } else { claimed.id };
            }
            submit(&world.engine, new).await.unwrap();
        }
    }
    world.pass(2 * SECOND).await;
    assert_eq!(set_aside(&world).await, [RowId::Job(timed.id)]);
    for queue in ["a", "b"] {
        let mut n_taken = 0;
        while !world.claim_now(queue).await.is_empty() {
            n_taken += 1;
        }
        assert_eq!(n_taken, 4, "{queue}");
    }
    assert_eq!(set_aside(&world).await, [RowId::Job(timed.id), RowId::Job(claimed.id)]);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_the_store_rejects_is_set_aside_and_the_next_of_its_chain_is_taken() {
    let world = World::new();
    for _ in 0..3 {
        world.submit_with("a", |head| head.callback = Some("http://receiver/".into())).await;
    }
    let take = |limit| {
        let take = DeliveryClaim { limit, lease: SECOND, closed: Default::default() };
        world.engine.run(Command::Delivery(DeliveryCommand::Take(take)))
    };
    let first = |answer| match answer {
        Answer::Taken(taken) => taken.deliveries[0].clone(),
        other => panic!("not taken: {other:?}"),
    };
    let bad = first(take(1).await.unwrap());
    world.pass(2 * SECOND).await;
    world.store.reject(RowId::Delivery(bad.id));
    let mut taken = Vec::new();
    for _ in 0..20 {
        let Answer::Taken(some) = take(9).await.unwrap() else { panic!("not taken") };
        taken.extend(some.deliveries);
    }
    assert_eq!(set_aside(&world).await, [RowId::Delivery(bad.id)]);
    assert_eq!(taken.len(), 3, "the first of two chains, and the second of the one whose first is bad");
    assert!(taken.iter().any(|known| known.chain() == bad.chain()));
}

#[tokio::test(start_paused = true)]
async fn a_tick_that_always_fails_keeps_no_lost_worker_from_being_noticed() {
    let world = World::new();
    let head = Head::new(client(), name("ticks"), world.engine.now());
    let id = ScheduleId { owner: Owner::client(client()), name: name("s") };
    let schedule = Schedule::new(id, "* * * * *".into(), "UTC".into(), head, Arc::default());
    let next_at = Some(world.engine.now() + SECOND);
    let schedule = Schedule { overlap: Overlap::CancelPrevious, next_at, ..schedule };
    let put = PutSchedule { schedule, enabled: None };
    world.engine.run(Command::Schedule(ScheduleCommand::Put(Box::new(put)))).await.unwrap();
    world.pass(2 * SECOND).await;
    let ticked = world.claim_now("ticks").await.remove(0);
    world.store.reject(RowId::Job(ticked.id));
    let worker = WorkerId { owner: Owner::client(client()), name: name("worker") };
    let beat = Heartbeat { worker, state: None, facts: Default::default(), jobs: Vec::new(), lease: None };
    world.engine.run(Command::Worker(WorkerCommand::Heartbeat(beat))).await.unwrap();
    world.submit("a").await;
    let lost = world.engine.claim(Claim { lease: Some(HOUR), ..claim(&["a"]) }, Duration::ZERO).await;
    let lost = lost.unwrap().remove(0);
    world.pass(2 * limits::WORKER_SILENCE).await;
    assert_eq!(world.state(lost.id).await, Some(State::Failed));
}

#[tokio::test(start_paused = true)]
async fn a_row_that_can_be_read_by_the_next_process_takes_part_again() {
    let world = World::new();
    let job = world.submit("a").await;
    world.store.memory().damage(RowId::Job(job.id));
    assert!(world.claim_now("a").await.is_empty());
    assert_eq!(set_aside(&world).await, [RowId::Job(job.id)]);
    let world = world.crash(SECOND).await;
    world.settle().await;
    assert_eq!(set_aside(&world).await, [RowId::Job(job.id)], "it still cannot be read");
    world.store.memory().mend(RowId::Job(job.id));
    let world = world.crash(SECOND).await;
    world.settle().await;
    assert_eq!(world.take("a").await.id, job.id);
    assert_eq!(set_aside(&world).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_command_about_a_damaged_job_fails_alone() {
    let world = World::new();
    let job = world.submit("a").await;
    world.store.memory().damage(RowId::Job(job.id));
    let owned = forgerun_core::command::Owned { job: job.id, client: None };
    let mut forgotten = Box::pin(world.engine.run(Command::Forget(owned)));
    let mut neighbour = Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {})));
    assert!(!is_ready(&mut forgotten).await);
    assert!(!is_ready(&mut neighbour).await);
    assert!(forgotten.await.is_err());
    neighbour.await.unwrap();
}
