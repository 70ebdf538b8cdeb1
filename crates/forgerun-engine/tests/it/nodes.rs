//! Two engines on one store, as two nodes on one database.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{Claim, PutSchedule, ScheduleCommand};
use forgerun_core::id::JobId;
use forgerun_core::job::Head;
use forgerun_core::queue::Owner;
use forgerun_core::schedule::{Overlap, Schedule, ScheduleId};
use forgerun_core::{Batch, Command, decide, wants};
use forgerun_engine::Options;
use forgerun_store::{Store, Wakeup};
use tokio::sync::Semaphore;

use crate::store::TestStore;
use crate::support::{
    HOUR, PlainRender, SECOND, World, at_once, claim, client, name, new_job, pause, submission,
};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn a_job_submitted_on_one_node_wakes_the_worker_of_another() {
    let here = World::shared();
    let there = here.node();
    let engine = there.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() });
    here.settle().await;
    let before = here.engine.now();
    let job = here.submit("a").await;
    assert_eq!(worker.await.unwrap()[0].id, job.id);
    assert_eq!(here.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn each_job_goes_to_exactly_one_worker_of_all_nodes() {
    let here = World::shared();
    let there = here.node();
    let began_at = here.engine.now();
    let workers = at_once(400, |n| {
        let engine = if n % 2 == 0 { here.engine.clone() } else { there.engine.clone() };
        async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() }
    });
    let submits = async {
        here.settle().await;
        let mut jobs = here.submit_many("a", 200, |_| {}).await;
        jobs.extend(there.submit_many("a", 200, |_| {}).await);
        jobs
    };
    let (taken, submitted) = tokio::join!(workers, submits);
    let taken: Vec<JobId> = taken.iter().flatten().map(|job| job.id).collect();
    assert_eq!(taken.len(), 400);
    assert_eq!(taken.into_iter().collect::<BTreeSet<_>>(), submitted.iter().map(|job| job.id).collect());
    assert!(here.engine.now().since(began_at) < SECOND, "somebody was not woken");
}

#[tokio::test(start_paused = true)]
async fn a_queue_resumed_on_one_node_goes_on_on_all() {
    let here = World::shared();
    let there = here.node();
    let pause = |paused| pause("a", paused);
    here.engine.run(pause(true)).await.unwrap();
    here.submit("a").await;
    let engine = there.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() });
    here.settle().await;
    let before = here.engine.now();
    here.engine.run(pause(false)).await.unwrap();
    assert_eq!(worker.await.unwrap().len(), 1);
    assert_eq!(here.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_missed_news_looks_everywhere() {
    let here = World::shared();
    let there = here.node();
    let engine = there.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() });
    here.settle().await;
    let before = here.engine.now();
    // More announcements in one go than the channel holds: the listener learns only that it missed
    // some.
    let store: Arc<dyn Store> = here.store.clone();
    for n in 0..2000 {
        let queue = if n == 0 { "a" } else { "b" };
        let new = new_job(&here.engine, queue, |_| {});
        let batch = Batch { now: here.engine.now(), seed: 0, commands: vec![submission(new)] };
        let wants = wants(&batch);
        store.transact(wants, Box::new(move |rows| decide(&batch, rows, &PlainRender))).await.unwrap();
    }
    assert_eq!(worker.await.unwrap().len(), 1);
    assert_eq!(here.engine.now(), before);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_told_much_looks_everywhere_all_the_same() {
    let here = World::on(TestStore::with(2, Semaphore::MAX_PERMITS), Options::default());
    let there = here.node();
    let engine = there.engine.clone();
    let worker = tokio::spawn(async move { engine.claim(claim(&["a"]), HOUR).await.unwrap() });
    here.settle().await;
    // The other node hears of this job only by looking.
    here.submit("a").await;
    for _ in 0..10 {
        here.store.announce(Wakeup::Journal);
        here.pass(SECOND).await;
    }
    assert!(worker.is_finished());
}

#[tokio::test(start_paused = true)]
async fn two_nodes_do_what_is_due_once() {
    let here = World::shared();
    let there = here.node();
    let due_at = here.engine.now() + SECOND;
    let jobs = here.submit_many("a", 1000, |head| head.execution_at = Some(due_at)).await;
    here.pass(3 * SECOND).await;
    let all = Claim { limit: 1000, ..claim(&["a"]) };
    let taken = there.engine.claim(all, Duration::ZERO).await.unwrap();
    assert_eq!(taken.len(), jobs.len());
    assert!(taken.iter().all(|job| job.history.len() == 4), "created, queued, assigned, running");
}

#[tokio::test(start_paused = true)]
async fn a_schedule_of_a_clock_that_was_ahead_is_corrected_by_the_next_node_that_starts() {
    let world = World::on(TestStore::of_nodes(), Options::default());
    let head = Head::new(client(), name("a"), world.engine.now());
    let id = ScheduleId { owner: Owner::client(client()), name: name("s") };
    let schedule = Schedule::new(id.clone(), "* * * * *".into(), "UTC".into(), head, Arc::default());
    let now = world.engine.now();
    let schedule =
        Schedule { created_at: now, next_at: Some(now + SECOND), overlap: Overlap::Allow, ..schedule };
    let put = PutSchedule { schedule, enabled: None };
    world.engine.run(Command::Schedule(ScheduleCommand::Put(Box::new(put)))).await.unwrap();
    world.pass(HOUR).await;
    world.clock.set_back(HOUR);
    let next_at = async |world: &World| {
        let store: Arc<dyn Store> = world.store.clone();
        let all = store.records::<Schedule>(None, String::new(), 9).await.unwrap();
        all[0].next_at.unwrap().since(world.engine.now())
    };
    assert!(next_at(&world).await > HOUR - MINUTE, "the clock was ahead");
    let restarted = world.node();
    restarted.settle().await;
    assert!(next_at(&restarted).await <= MINUTE, "{:?}", next_at(&restarted).await);
    let before = restarted.n_claimable("a").await;
    restarted.pass(MINUTE * 3).await;
    assert!(restarted.n_claimable("a").await >= before + 2, "it ticks again");
}
