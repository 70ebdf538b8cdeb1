//! The delivery loop, with receivers that do as they are told: order, retries, isolation, restarts,
//! two nodes.

mod endings;
mod isolation;
mod order;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forgerun_core::command::{OwnedWebhook, WebhookCommand};
use forgerun_core::delivery::{Delivery, DeliveryPolicy, DeliverySchedule, DeliverySubject};
use forgerun_core::history::EventName;
use forgerun_core::id::WebhookId;
use forgerun_core::time::Time;
use forgerun_core::webhook::{Envelope, Events, Health, Secrets, Webhook, WebhookFilter};
use forgerun_core::{Answer, Command};
use forgerun_engine::{
    AttemptReport, AttemptVerdict, Clock, Courier, DeliveryHandle, DeliveryLoop, DeliveryOptions,
    PreparedDelivery, Sending,
};
use forgerun_store::{DeliveriesOf, DeliveryFilter, Store};

use crate::support::{HOUR, TestClock, World, client};

/// What a receiver does with what it gets.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Takes it, after this long.
    Takes(Duration),
    /// Answers 500 at once.
    Breaks,
    /// Answers 503 and asks to be left alone.
    Asks(Duration),
    /// Says nothing until the courier loses patience.
    Hangs,
    /// Answers 410.
    Gone,
    /// A bug in the courier.
    Panics,
}

/// As the server has it.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The receivers of the world: everything that is sent arrives here.
struct Receivers {
    clock: Arc<TestClock>,
    manners: Mutex<BTreeMap<String, Manner>>,
    arrivals: Mutex<Vec<Arrival>>,
}

/// An attempt, as it began.
#[derive(Clone, Debug)]
struct Arrival {
    at: Time,
    url: String,
    /// `None` for a test.
    event: Option<EventName>,
    delivery: Delivery,
    /// What the prepared had with it: a job, an outcome.
    with: (bool, bool),
    taken: bool,
}

impl Receivers {
    fn new(world: &World) -> Arc<Receivers> {
        Arc::new(Receivers {
            clock: world.clock.clone(),
            manners: Mutex::default(),
            arrivals: Mutex::default(),
        })
    }

    /// From now on, receivers whose URL begins like this behave like that.
    fn behave(&self, url: &str, manner: Manner) {
        self.manners.lock().unwrap().insert(url.into(), manner);
    }

    fn manner(&self, url: &str) -> Manner {
        let manners = self.manners.lock().unwrap();
        let known = manners.iter().rev().find(|(begin, _)| url.starts_with(begin.as_str()));
        known.map_or(Manner::Takes(Duration::from_millis(5)), |(_, manner)| *manner)
    }

    fn arrivals(&self) -> Vec<Arrival> {
        self.arrivals.lock().unwrap().clone()
    }

    /// The attempts at URLs that begin like this.
    fn at(&self, url: &str) -> Vec<Arrival> {
        self.arrivals().into_iter().filter(|arrival| arrival.url.starts_with(url)).collect()
    }

    /// What receivers at URLs that begin like this have taken, in order.
    fn taken(&self, url: &str) -> Vec<Option<EventName>> {
        self.at(url).iter().filter(|arrival| arrival.taken).map(|arrival| arrival.event).collect()
    }
}

impl Courier for Receivers {
    fn send(&self, prepared: PreparedDelivery) -> Sending {
        let url = prepared.url().to_owned();
        let manner = self.manner(&url);
        let event = match &prepared.delivery.about {
            DeliverySubject::Event { event, .. } => Some(event.name()),
            DeliverySubject::Notice(_) | DeliverySubject::Test => None,
        };
        assert_eq!(event.is_some(), prepared.job.is_some(), "what is about a job comes with it");
        let with = (prepared.job.is_some(), prepared.outcome.is_some());
        let (at, delivery) = (self.clock.now(), prepared.delivery);
        let taken = matches!(manner, Manner::Takes(_));
        self.arrivals.lock().unwrap().push(Arrival { at, url, event, delivery, with, taken });
        let wait = match manner {
            Manner::Takes(span) => span,
            Manner::Hangs => TIMEOUT,
            Manner::Breaks | Manner::Asks(_) | Manner::Gone | Manner::Panics => Duration::ZERO,
        };
        let sleep = self.clock.sleep(wait);
        Box::pin(async move {
            sleep.await;
            let (verdict, status) = match manner {
                Manner::Takes(_) => (AttemptVerdict::Delivered, Some(204)),
                Manner::Breaks => (AttemptVerdict::Failed { retry_after: None }, Some(500)),
                Manner::Asks(span) => (AttemptVerdict::Failed { retry_after: Some(span) }, Some(503)),
                Manner::Hangs => (AttemptVerdict::Failed { retry_after: None }, None),
                Manner::Gone => (AttemptVerdict::Gone, Some(410)),
                Manner::Panics => panic!("asked to panic"),
            };
            let error = (verdict != AttemptVerdict::Delivered).then(|| format!("it answered {status:?}"));
            AttemptReport { verdict, status, error }
        })
    }
}

/// No regular look at the store: whatever happens was brought about by an alarm.
fn options() -> DeliveryOptions {
    let schedule = DeliverySchedule::Doubling {
        attempts_max: 6,
        base: Duration::from_secs(1),
        max: Duration::from_secs(30),
    };
    let policy = DeliveryPolicy { schedule, ..DeliveryOptions::default().policy };
    DeliveryOptions { policy, refresh: 100 * HOUR, ..DeliveryOptions::default() }
}

fn open(world: &World, receivers: &Arc<Receivers>) -> DeliveryHandle {
    DeliveryLoop::start(world.engine.clone(), receivers.clone(), options())
}

fn hook(n: u128, url: &str) -> Webhook {
    Webhook {
        id: WebhookId::from_u128(n),
        client: client(),
        url: url.into(),
        events: Events::ALL,
        envelope: Envelope::None,
        filter: WebhookFilter::default(),
        description: None,
        secrets: Secrets { current: vec![7; 32], previous: None },
        created_at: Time::ZERO,
        updated_at: Time::ZERO,
        disabled: None,
        health: Health::default(),
        n_notices: 0,
    }
}

async fn register(world: &World, webhook: Webhook) {
    world.engine.run(Command::Webhook(WebhookCommand::Register(webhook.into()))).await.unwrap();
}

fn owned(n: u128) -> OwnedWebhook {
    OwnedWebhook::new(WebhookId::from_u128(n), client())
}

async fn ask(world: &World, command: WebhookCommand) -> Answer {
    world.engine.run(Command::Webhook(command)).await.unwrap()
}

async fn webhook(world: &World, n: u128) -> Webhook {
    let store: Arc<dyn Store> = world.store.clone();
    *store.webhook(WebhookId::from_u128(n)).await.unwrap().unwrap()
}

/// What was to be sent to a webhook, oldest first.
async fn deliveries(world: &World, n: u128) -> Vec<Delivery> {
    let store: Arc<dyn Store> = world.store.clone();
    let of = DeliveriesOf::Webhook(WebhookId::from_u128(n));
    let filter = DeliveryFilter { of, status: None, before: None, limit: usize::MAX, look_max: usize::MAX };
    let mut all = store.deliveries(filter).await.unwrap();
    all.reverse();
    all
}
