//! Deliveries arrive in order, when they are due, and again when they did not arrive.

use std::time::Duration;

use forgerun_core::history::EventName;

use super::{Manner, Receivers, ask, hook, open, options, owned, register};
use crate::support::{HOUR, SECOND, World, succeed};
use forgerun_core::command::WebhookCommand;
use forgerun_engine::{DeliveryLoop, DeliveryOptions};

const LIFE: [EventName; 5] =
    [EventName::Created, EventName::Queued, EventName::Assigned, EventName::Started, EventName::Succeeded];

fn names(events: &[Option<EventName>]) -> Vec<EventName> {
    events.iter().map(|event| event.expect("about a job")).collect()
}

#[tokio::test(start_paused = true)]
async fn a_life_arrives_at_callback_and_webhook_in_order_and_at_once() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    register(&world, hook(1, "http://hook/")).await;
    world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    let job = world.take("a").await;
    world.engine.act(succeed(&job)).await.unwrap();
    world.pass(SECOND).await;
    for url in ["http://hook/", "http://callback/"] {
        assert_eq!(names(&receivers.taken(url)), LIFE, "{url}");
    }
    let last = receivers.at("http://hook/").pop().unwrap();
    assert_eq!(last.with, (true, true), "an end comes with its outcome");
    assert!(receivers.at("http://hook/").iter().take(4).all(|arrival| arrival.with == (true, false)));
}

#[tokio::test(start_paused = true)]
async fn what_did_not_arrive_is_tried_again_and_the_rest_waits_for_it() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    receivers.behave("http://callback/", Manner::Asks(10 * SECOND));
    world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    world.pass(25 * SECOND).await;
    let tries = receivers.at("http://callback/");
    assert_eq!(tries.len(), 3);
    for pair in tries.windows(2) {
        let gap = pair[1].at.since(pair[0].at);
        assert!((10 * SECOND..10 * SECOND + Duration::from_millis(2)).contains(&gap), "{gap:?}");
        assert_eq!(pair[0].delivery.id, pair[1].delivery.id, "the same delivery with every attempt");
        assert_eq!(pair[0].delivery.attempts + 1, pair[1].delivery.attempts);
    }
    receivers.behave("http://callback/", Manner::Takes(Duration::ZERO));
    world.pass(10 * SECOND).await;
    assert_eq!(names(&receivers.taken("http://callback/")), [EventName::Created, EventName::Queued]);
}

#[tokio::test(start_paused = true)]
async fn waits_grow_and_end_and_then_the_next_one_has_its_turn() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    receivers.behave("http://callback/", Manner::Breaks);
    let job = world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    world.pass(HOUR).await;
    let tries = receivers.at("http://callback/");
    let first: Vec<_> = tries.iter().filter(|arrival| arrival.event == Some(EventName::Created)).collect();
    assert_eq!(first.len(), 6, "five retries");
    for (n, pair) in first.windows(2).enumerate() {
        let gap = pair[1].at.since(pair[0].at);
        assert!(gap <= SECOND * 2u32.pow(n as u32) + Duration::from_millis(5), "wait {n}: {gap:?}");
    }
    assert_eq!(tries.len(), 12, "the second event had its turn when the first was given up");
    assert!(tries.iter().map(|arrival| arrival.event).is_sorted());
    assert!(world.job(job.id).await.is_some(), "the job does not mind");
}

#[tokio::test(start_paused = true)]
async fn a_test_event_and_a_repetition_arrive() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    register(&world, hook(1, "http://hook/")).await;
    ask(&world, WebhookCommand::Test(owned(1))).await;
    world.settle().await;
    assert_eq!(receivers.taken("http://hook/"), [None]);
    receivers.behave("http://hook/", Manner::Breaks);
    world.submit_with("a", |head| head.hold = true).await;
    world.pass(HOUR).await;
    assert_eq!(receivers.taken("http://hook/").len(), 1);
    receivers.behave("http://hook/", Manner::Takes(Duration::ZERO));
    let again = WebhookCommand::RedeliverFailed { webhook: owned(1), since: forgerun_core::time::Time::ZERO };
    ask(&world, again).await;
    world.settle().await;
    assert_eq!(receivers.taken("http://hook/"), [None, Some(EventName::Created)]);
}

#[tokio::test(start_paused = true)]
async fn an_idle_post_office_does_not_touch_the_store() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = DeliveryLoop::start(
        world.engine.clone(),
        receivers,
        DeliveryOptions { refresh: 100 * HOUR, ..options() },
    );
    world.settle().await;
    let before = (world.store.n_reads(), world.store.written().len());
    for _ in 0..10 {
        world.submit("a").await;
    }
    world.pass(SECOND / 2).await;
    let after = (world.store.n_reads(), world.store.written().len());
    assert_eq!((after.0 - before.0, after.1 - before.1), (0, 10), "jobs that nobody hears of cost no look");
}
