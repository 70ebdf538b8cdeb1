//! A receiver that is slow or dead delays nobody else.

use std::collections::BTreeSet;
use std::time::Duration;

use forgerun_core::id::{ClientId, DeliveryId};
use forgerun_engine::DeliveryOptions;

use super::{Manner, Receivers, open, options};
use crate::support::{HOUR, SECOND, World};

async fn submit_to(world: &World, url: &str) {
    let url = url.to_owned();
    world.submit_with("a", |head| head.callback = Some(url)).await;
}

#[tokio::test(start_paused = true)]
async fn a_thousand_endpoints_that_hang_delay_nobody() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    receivers.behave("http://dead/", Manner::Hangs);
    submit_to(&world, "http://live/").await;
    world.pass(SECOND).await;
    assert_eq!(receivers.taken("http://live/").len(), 2);
    for n in 0..1000 {
        submit_to(&world, &format!("http://dead/{n}")).await;
    }
    for _ in 0..8 {
        let before = receivers.taken("http://live/").len();
        let began = world.engine.now();
        submit_to(&world, "http://live/").await;
        while receivers.taken("http://live/").len() < before + 2 {
            world.pass(Duration::from_millis(10)).await;
        }
        let took = world.engine.now().since(began);
        assert!(took <= Duration::from_millis(600), "a good endpoint waited {took:?}");
        world.pass(SECOND).await;
    }
    world.pass(60 * SECOND).await;
    let tried: BTreeSet<String> =
        receivers.at("http://dead/").into_iter().map(|arrival| arrival.url).collect();
    assert!(tried.len() > 400, "and the dead are called too: {}", tried.len());
}

#[tokio::test(start_paused = true)]
async fn new_endpoints_of_a_client_do_not_wait_for_those_of_others_that_hang() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    receivers.behave("http://dead/", Manner::Hangs);
    for n in 0..2400 {
        let url = format!("http://dead/{n}");
        let client = ClientId::from_u128(100 + n % 4);
        world.submit_with("a", |head| (head.client, head.callback) = (client, Some(url))).await;
    }
    for n in 0..20 {
        let (url, began) = (format!("http://new/{n}"), world.engine.now());
        submit_to(&world, &url).await;
        while receivers.taken(&url).len() < 2 {
            world.pass(Duration::from_millis(50)).await;
            let waited = world.engine.now().since(began);
            assert!(waited <= SECOND, "a new endpoint has waited {waited:?}");
        }
        world.pass(SECOND).await;
    }
}

#[tokio::test(start_paused = true)]
async fn what_hangs_is_within_its_bounds() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    receivers.behave("http://dead/", Manner::Hangs);
    for n in 0..1000 {
        submit_to(&world, &format!("http://dead/{n}")).await;
    }
    world.pass(60 * SECOND).await;
    let mut edges: Vec<_> = receivers.arrivals().iter().map(|arrival| (arrival.at, 1i64)).collect();
    edges.extend(receivers.arrivals().iter().map(|arrival| (arrival.at + super::TIMEOUT, -1)));
    edges.sort_unstable();
    let mut under_way = 0;
    let most = edges.iter().map(|(_, change)| {
        under_way += change;
        under_way
    });
    let DeliveryOptions { untried_max, suspect_max, good_max, .. } = options();
    let most = most.max().unwrap_or(0);
    assert!(most <= (untried_max + suspect_max) as i64, "{most} sends at once");
    assert!(most > (suspect_max / 2) as i64 && good_max > 0, "the slots are used");
}

#[tokio::test(start_paused = true)]
async fn a_slow_endpoint_with_much_to_take_does_not_hold_up_a_quick_one() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    submit_to(&world, "http://slow/").await;
    submit_to(&world, "http://quick/").await;
    world.pass(SECOND).await;
    receivers.behave("http://slow/", Manner::Takes(2 * SECOND));
    for _ in 0..500 {
        submit_to(&world, "http://slow/").await;
    }
    for _ in 0..10 {
        let before = receivers.taken("http://quick/").len();
        let began = world.engine.now();
        submit_to(&world, "http://quick/").await;
        while receivers.taken("http://quick/").len() < before + 2 {
            world.pass(Duration::from_millis(10)).await;
        }
        let took = world.engine.now().since(began);
        assert!(took <= SECOND, "a quick endpoint waited {took:?}");
    }
    world.pass(HOUR / 6).await;
    let once: BTreeSet<DeliveryId> =
        receivers.at("http://slow/").iter().map(|arrival| arrival.delivery.id).collect();
    assert_eq!(once.len(), 1002, "the slow one gets everything in the end");
    assert_eq!(receivers.taken("http://slow/").len(), 1002, "and nothing twice");
}

#[tokio::test(start_paused = true)]
async fn a_quick_endpoint_takes_thousands_in_a_second() {
    let world = World::new();
    let receivers = Receivers::new(&world);
    let _post = open(&world, &receivers);
    submit_to(&world, "http://quick/").await;
    world.pass(SECOND).await;
    world.submit_many("a", 3000, |head| head.callback = Some("http://quick/".into())).await;
    world.pass(SECOND).await;
    assert_eq!(receivers.taken("http://quick/").len(), 6002);
}
