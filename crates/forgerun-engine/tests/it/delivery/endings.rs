//! What ends: endpoints, couriers, nodes, the delivery loop itself. Nothing is lost with any of
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::command::WebhookCommand;
use forgerun_core::delivery::{DeliveryFailure, DeliveryStage, DeliveryStatus};
use forgerun_core::history::EventName;
use forgerun_core::webhook::DisabledReason;
use forgerun_engine::DeliveryLoop;
use forgerun_store::Fault;

use super::{Manner, Receivers, ask, deliveries, hook, open, options, owned, register, webhook};
use crate::store::Failure as Trouble;
use crate::support::{HOUR, SECOND, World, claim};

#[tokio::test(start_paused = true)]
async fn an_endpoint_that_is_gone_is_disabled_and_called_no_more() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    register(&world, hook(1, "http://gone/")).await;
    receivers.behave("http://gone/", Manner::Gone);
    world.submit("a").await;
    world.settle().await;
    let disabled = webhook(&world, 1).await.disabled.map(|disabled| disabled.reason);
    assert_eq!(disabled, Some(DisabledReason::Gone));
    world.engine.claim(claim(&["a"]), Duration::ZERO).await.unwrap();
    world.pass(SECOND).await;
    assert_eq!(receivers.at("http://gone/").len(), 1);
    let why: Vec<_> = deliveries(&world, 1).await.iter().map(|delivery| delivery.stage).collect();
    assert!(
        matches!(
            why[..],
            [
                DeliveryStage::Failed(_, DeliveryFailure::Gone),
                DeliveryStage::Failed(_, DeliveryFailure::Disabled)
            ]
        ),
        "what was written before is given up, and nothing new is written: {why:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_meant_for_a_deleted_endpoint_is_given_up() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    register(&world, hook(1, "http://hook/")).await;
    receivers.behave("http://hook/", Manner::Asks(60 * SECOND));
    world.submit("a").await;
    world.settle().await;
    ask(&world, WebhookCommand::Delete(owned(1))).await;
    world.pass(HOUR).await;
    assert_eq!(receivers.at("http://hook/").len(), 1);
    let statuses: Vec<DeliveryStatus> =
        deliveries(&world, 1).await.iter().map(|known| known.status()).collect();
    assert_eq!(statuses, [DeliveryStatus::Failed, DeliveryStatus::Failed]);
}

#[tokio::test(start_paused = true)]
async fn deliveries_go_on_after_a_crash() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let deliveries = open(&world, &receivers);
    receivers.behave("http://callback/", Manner::Hangs);
    world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    world.settle().await;
    drop(deliveries);
    let world = world.crash(SECOND).await;
    receivers.behave("http://callback/", Manner::Takes(Duration::ZERO));
    let _post = open(&world, &receivers);
    world.pass(options().lease).await;
    assert_eq!(receivers.taken("http://callback/"), [Some(EventName::Created), Some(EventName::Queued)]);
    let tries = receivers.at("http://callback/");
    assert_eq!(tries[0].delivery.id, tries[1].delivery.id, "what was under way is sent again");
}

#[tokio::test(start_paused = true)]
async fn a_courier_that_was_held_up_for_longer_than_its_lease_does_not_send() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    world.store.block();
    let _post = open(&world, &receivers);
    // What is taken now is somebody else's by the time that this one hears of it.
    world.pass(options().lease + SECOND).await;
    world.store.release();
    world.pass(options().lease).await;
    let fences: Vec<u32> =
        receivers.at("http://callback/").iter().map(|tried| tried.delivery.fence).collect();
    assert_eq!(fences, [2, 1], "the first was taken twice, and sent once");
    assert_eq!(receivers.taken("http://callback/"), [Some(EventName::Created), Some(EventName::Queued)]);
}

#[tokio::test(start_paused = true)]
async fn another_node_takes_over_when_the_lease_of_a_dead_one_ends() {
    let world = World::shared();
    let receivers = Receivers::new(&world);
    let dying = open(&world, &receivers);
    receivers.behave("http://callback/", Manner::Hangs);
    world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    world.settle().await;
    let other = world.node();
    let refresh = SECOND;
    let _post = DeliveryLoop::start(
        other.engine.clone(),
        receivers.clone(),
        forgerun_engine::DeliveryOptions { refresh, ..options() },
    );
    drop(dying);
    receivers.behave("http://callback/", Manner::Takes(Duration::ZERO));
    world.pass(options().lease - 2 * SECOND).await;
    assert_eq!(receivers.arrivals().len(), 1, "not before the lease ends");
    world.pass(4 * SECOND).await;
    assert_eq!(receivers.taken("http://callback/"), [Some(EventName::Created), Some(EventName::Queued)]);
}

#[tokio::test(start_paused = true)]
async fn two_nodes_deliver_everything_once_and_hear_of_each_other_at_once() {
    let world = World::shared();
    let receivers = Receivers::new(&world);
    let other = world.node();
    // The node that submits has no delivery loop: the other one hears of it.
    let _post = open(&other, &receivers);
    world.settle().await;
    world.submit_many("a", 300, |head| head.callback = Some("http://callback/".into())).await;
    world.pass(SECOND).await;
    let _second = open(&world, &receivers);
    world.submit_many("a", 300, |head| head.callback = Some("http://callback/".into())).await;
    world.pass(SECOND).await;
    let arrivals = receivers.at("http://callback/");
    let once: BTreeSet<_> = arrivals.iter().map(|arrival| arrival.delivery.id).collect();
    assert_eq!((arrivals.len(), once.len()), (1200, 1200));
}

#[tokio::test(start_paused = true)]
async fn stopping_lets_a_send_end_and_gives_back_the_rest() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let deliveries = open(&world, &receivers);
    receivers.behave("http://quick/", Manner::Takes(SECOND / 2));
    receivers.behave("http://slow/", Manner::Takes(3 * SECOND));
    for url in ["http://quick/", "http://slow/"] {
        world.submit_with("a", |head| (head.callback, head.hold) = (Some(url.into()), true)).await;
    }
    world.settle().await;
    let began = world.engine.now();
    deliveries.stop().await;
    deliveries.stop().await;
    assert!(world.engine.now().since(began) <= 2 * SECOND);
    world.submit_with("a", |head| head.callback = Some("http://quick/".into())).await;
    world.pass(SECOND).await;
    assert_eq!(receivers.arrivals().len(), 2, "nothing is sent any more");
    let _post = open(&world, &receivers);
    world.pass(options().lease).await;
    assert_eq!(receivers.at("http://quick/").len(), 3, "what ended in time is not sent again");
    assert_eq!(receivers.at("http://slow/").len(), 2, "what did not is");
}

#[tokio::test(start_paused = true)]
async fn a_store_in_trouble_costs_time_but_no_delivery() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    world.store.fail(4, Trouble::Before(Fault::Unavailable));
    world.pass(10 * SECOND).await;
    world.store.fail(1, Trouble::Before(Fault::Unavailable));
    world.store.fail(1, Trouble::AfterCommit);
    world.engine.claim(claim(&["a"]), HOUR).await.ok();
    world.pass(2 * options().lease).await;
    let told: Vec<_> = receivers.taken("http://callback/");
    assert!(told.is_sorted(), "{told:?}");
    assert!(told.starts_with(&[Some(EventName::Created)]), "{told:?}");
    assert!(told.contains(&Some(EventName::Queued)), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_courier_that_breaks_off_is_an_attempt_that_failed() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    receivers.behave("http://callback/", Manner::Panics);
    world.submit_with("a", |head| (head.callback, head.hold) = (Some("http://callback/".into()), true)).await;
    world.pass(SECOND / 100).await;
    receivers.behave("http://callback/", Manner::Takes(Duration::ZERO));
    world.pass(60 * SECOND).await;
    assert_eq!(receivers.taken("http://callback/"), [Some(EventName::Created)]);
}

#[tokio::test(start_paused = true)]
async fn a_forgotten_job_takes_its_deliveries_with_it() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    receivers.behave("http://callback/", Manner::Hangs);
    let job = world.submit_with("a", |head| head.callback = Some("http://callback/".into())).await;
    world.settle().await;
    let owned = forgerun_core::command::Owned { job: job.id, client: None };
    let cancel = forgerun_core::command::Cancel {
        owned: owned.clone(),
        execution: None,
        by: "user".into(),
        reason: "".into(),
        compensate: true,
    };
    world.engine.act(Command::Cancel(cancel)).await.unwrap();
    world.engine.run(Command::Forget(owned)).await.unwrap();
    world.pass(HOUR).await;
    assert_eq!(receivers.arrivals().len(), 1);
}
