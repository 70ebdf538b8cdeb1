//! What shares a transaction, and when it is answered.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{NewJob, Submit};
use forgerun_core::job::Input;
use forgerun_core::limits::WEIGHED_BYTES;
use forgerun_core::state::State;
use forgerun_core::{Command, Refusal};
use forgerun_engine::{Clock, Error, Options};

use crate::store::TestStore;
use crate::support::{HOUR, SECOND, World, at_once, claim, is_ready, new_job, submission, submit, succeed};

#[tokio::test(start_paused = true)]
async fn a_thousand_commands_at_once_share_a_few_transactions_and_get_their_own_answers() {
    let world = World::new();
    let answers = at_once(1000, |_| {
        let engine = world.engine.clone();
        async move {
            let new = new_job(&engine, "a", |_| {});
            (new.id, submit(&engine, new).await.unwrap().id)
        }
    })
    .await;
    assert!(answers.iter().all(|(asked, answered)| asked == answered));
    assert!(world.store.n_begun() <= 3, "{} transactions", world.store.n_begun());
}

#[tokio::test(start_paused = true)]
async fn submissions_of_one_intake_share_a_transaction_and_are_refused_each_for_itself() {
    let world = World::new();
    world.settle().await;
    let first = NewJob { id_given: true, ..new_job(&world.engine, "a", |_| {}) };
    let jobs = [first.clone(), first.clone(), new_job(&world.engine, "a", |_| {})];
    let submits = jobs.iter().map(|new| match submission(new.clone()) {
        Command::Submit(submit) => submit,
        other => unreachable!("{other:?}"),
    });
    let answers = world.engine.submit_each(submits.collect()).await;
    let [Ok((taken, false)), Err(Error::Refused(Refusal::Duplicate { existing, .. })), Ok((last, false))] =
        &answers[..]
    else {
        panic!("{answers:?}")
    };
    assert_eq!((taken[0].id, *existing, last[0].id), (first.id, first.id, jobs[2].id));
    assert_eq!(world.store.n_begun(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_command_on_an_idle_engine_commits_at_once() {
    let world = World::new();
    world.settle().await;
    let before = world.engine.now();
    world.submit("a").await;
    assert_eq!((world.store.n_begun(), world.engine.now()), (1, before));
}

#[tokio::test(start_paused = true)]
async fn a_batch_closes_when_the_commit_before_it_returns_or_when_it_is_full() {
    let world = World::with(Options { batch_max: 4, ..Options::default() });
    world.store.block();
    let submits = at_once(11, |n| {
        let engine = world.engine.clone();
        let clock = world.clock.clone();
        async move {
            // The first one has the store for itself before the others come.
            let head_start = if n == 0 { Duration::ZERO } else { SECOND };
            clock.sleep(head_start).await;
            submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap()
        }
    });
    let release = async {
        world.pass(2 * SECOND).await;
        assert_eq!(world.store.n_begun(), 1);
        world.store.release();
    };
    tokio::join!(submits, release);
    let sizes: Vec<usize> = world.store.written().iter().map(|written| written.n_answers).collect();
    assert_eq!(sizes, [1, 4, 4, 2]);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_full_by_weight_and_the_rest_waits_in_order() {
    let world = World::with(Options { batch_max: 4, ..Options::default() });
    world.settle().await;
    let large = Input { payload: vec![b'1'; 3 * WEIGHED_BYTES], ..Input::default() };
    let jobs = |n: usize| (0..n).map(|_| new_job(&world.engine, "a", |_| {})).collect::<Vec<_>>();
    let mut lists = [jobs(3), jobs(3), jobs(1), jobs(9), jobs(1), jobs(1), jobs(4)];
    lists[5][0].input = Arc::new(large);
    let submits = lists.map(|jobs| Submit { jobs, idempotency: None, queue_max: None, refuse_paused: false });
    let answers = world.engine.submit_each(submits.into()).await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    let sizes: Vec<usize> = world.store.written().iter().map(|written| written.n_answers).collect();
    // Three jobs, and three more would be too many; nine are a transaction of their own, and so are four pages of bytes.
    assert_eq!(sizes, [1, 2, 1, 1, 1, 1]);
}

#[tokio::test(start_paused = true)]
async fn nothing_is_answered_before_the_store_has_committed() {
    let world = World::new();
    world.store.block();
    let mut answer = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut answer).await);
    world.pass(HOUR).await;
    assert!(!is_ready(&mut answer).await, "an hour is no reason to give in");
    world.store.release();
    let job = answer.await.unwrap();
    assert_eq!(world.state(job.id).await, Some(State::Queued));
}

#[tokio::test(start_paused = true)]
async fn as_many_batches_are_under_way_as_the_store_has_lanes() {
    let world = World::on(TestStore::with(3, 64), Options { batch_max: 1, ..Options::default() });
    world.store.block();
    let submits = at_once(10, |_| {
        let engine = world.engine.clone();
        async move { submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap() }
    });
    let release = async {
        world.settle().await;
        assert_eq!(world.store.n_begun(), 3);
        world.store.release();
    };
    tokio::join!(submits, release);
    assert_eq!(world.n_claimable("a").await, 10);
}

#[tokio::test(start_paused = true)]
async fn a_further_lane_is_used_for_many_at_once_and_for_few_after_a_moment() {
    let world = World::on(TestStore::with(3, 64), Options::default());
    world.store.block();
    let submits = |n| {
        at_once(n, |_| {
            let engine = world.engine.clone();
            async move { submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap() }
        })
    };
    let few = async {
        world.settle().await;
        let watch = async {
            world.settle().await;
            assert_eq!(
                world.store.n_begun(),
                1,
                "fifteen wait for the commit under way, or for more to come"
            );
            world.pass(SECOND).await;
            assert_eq!(world.store.n_begun(), 2, "it is stuck, and holds up nobody else");
        };
        tokio::join!(submits(15), watch);
    };
    let many = async {
        world.pass(2 * SECOND).await;
        let watch = async {
            world.settle().await;
            assert_eq!(world.store.n_begun(), 3, "they are worth a lane");
            world.store.release();
        };
        tokio::join!(submits(64), watch);
    };
    tokio::join!(submits(1), few, many);
    let mut sizes: Vec<usize> = world.store.written().iter().map(|written| written.n_answers).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [1, 15, 64]);
}

#[tokio::test(start_paused = true)]
async fn one_command_with_many_jobs_is_worth_a_lane() {
    let world = World::on(TestStore::with(2, 64), Options::default());
    world.store.block();
    let bulk = async {
        world.settle().await;
        let jobs = (0..32).map(|_| new_job(&world.engine, "a", |_| {})).collect();
        let many = Submit { jobs, idempotency: None, queue_max: None, refuse_paused: false };
        let watch = async {
            world.settle().await;
            assert_eq!(world.store.n_begun(), 2, "it waits for no others to share the lane with");
            world.store.release();
        };
        let (many, ()) = tokio::join!(world.engine.submit(many), watch);
        many.unwrap();
    };
    let one = submit(&world.engine, new_job(&world.engine, "a", |_| {}));
    let (one, ()) = tokio::join!(one, bulk);
    one.unwrap();
    assert_eq!(world.n_claimable("a").await, 33);
}

#[tokio::test(start_paused = true)]
async fn callers_that_go_away_do_not_disturb_the_batch() {
    let world = World::new();
    world.store.block();
    let mut first = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut first).await);
    let gone = new_job(&world.engine, "a", |_| {});
    let gone_id = gone.id;
    let mut leaving = Box::pin(world.engine.run(submission(gone)));
    let mut staying = Box::pin(submit(&world.engine, new_job(&world.engine, "a", |_| {})));
    assert!(!is_ready(&mut leaving).await);
    assert!(!is_ready(&mut staying).await);
    drop(leaving);
    world.store.release();
    first.await.unwrap();
    staying.await.unwrap();
    assert_eq!(world.state(gone_id).await, Some(State::Queued), "what was asked is done");
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_went_away_before_its_claim_was_decided_is_given_nothing() {
    let world = World::new();
    let job = world.submit("a").await;
    world.store.block();
    let mut busy = Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {})));
    assert!(!is_ready(&mut busy).await);
    world.settle().await;
    let mut leaving = Box::pin(world.engine.claim(claim(&["a"]), HOUR));
    assert!(!is_ready(&mut leaving).await);
    drop(leaving);
    world.store.release();
    busy.await.unwrap();
    world.settle().await;
    assert_eq!(world.state(job.id).await, Some(State::Queued));
    assert_eq!(world.take("a").await.id, job.id);
}

#[tokio::test(start_paused = true)]
async fn commands_of_one_batch_see_what_those_before_them_did() {
    let world = World::new();
    world.submit("a").await;
    let job = world.take("a").await;
    world.store.block();
    let mut busy = Box::pin(submit(&world.engine, new_job(&world.engine, "b", |_| {})));
    assert!(!is_ready(&mut busy).await);
    world.settle().await;
    let (mut first, mut second) =
        (Box::pin(world.engine.act(succeed(&job))), Box::pin(world.engine.act(succeed(&job))));
    assert!(!is_ready(&mut first).await);
    assert!(!is_ready(&mut second).await);
    world.store.release();
    busy.await.unwrap();
    assert!(first.await.is_ok());
    assert!(second.await.is_err(), "it has ended already");
}

#[tokio::test(start_paused = true)]
async fn one_connection_is_enough_for_any_number_of_callers() {
    // Nobody who holds the connection asks for a second one.
    let world = World::on(TestStore::with(4, 1), Options::default());
    let done = at_once(64, |_| {
        let engine = world.engine.clone();
        async move {
            for _ in 0..10 {
                submit(&engine, new_job(&engine, "a", |_| {})).await.unwrap();
                let job = engine.claim(claim(&["a"]), HOUR).await.unwrap().remove(0);
                engine.store().job(job.id).await.unwrap().unwrap();
                engine.act(succeed(&job)).await.unwrap();
            }
        }
    });
    tokio::time::timeout(HOUR, done).await.expect("nobody waits for anybody who waits");
    assert_eq!(world.n_claimable("a").await, 0);
}
