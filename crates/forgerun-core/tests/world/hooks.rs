//! Commands about webhooks and deliveries in a few words.

use std::collections::BTreeMap;
use std::format;
use std::string::String;
use std::time::Duration;
use std::vec;
use std::vec::Vec;

use forgerun_core::command::{
    Answer, ClaimedDeliveries, Command, DeliveryClaim, DeliveryCommand, OwnedWebhook, SendResult, Settle,
    WebhookChange, WebhookCommand,
};
use forgerun_core::delivery::{
    Delivery, DeliveryAttempt, DeliveryPolicy, DeliverySchedule, DeliveryStage, DeliverySubject,
};
use forgerun_core::id::WebhookId;
use forgerun_core::time::Time;
use forgerun_core::webhook::{Envelope, Events, Health, Secrets, Webhook, WebhookFilter};

use super::World;
use super::build::{CLIENT, secs};

/// Three attempts, waits of exactly nothing, disabled after a minute of failures.
pub(crate) const POLICY: DeliveryPolicy = DeliveryPolicy {
    schedule: DeliverySchedule::Doubling { attempts_max: 3, base: Duration::ZERO, max: Duration::ZERO },
    disable_after: Duration::from_secs(60),
};

/// Webhook number `n`, which wants to hear everything.
pub(crate) fn hook(n: u128, set: impl FnOnce(&mut Webhook)) -> Webhook {
    let mut webhook = Webhook {
        id: WebhookId::from_u128(n),
        client: CLIENT,
        url: format!("http://receiver/{n}"),
        events: Events::ALL,
        envelope: Envelope::None,
        filter: WebhookFilter::default(),
        description: None,
        secrets: Secrets { current: vec![n as u8; 32], previous: None },
        created_at: Time::from_millis(1_000_000),
        updated_at: Time::from_millis(1_000_000),
        disabled: None,
        health: Health::default(),
        n_notices: 0,
    };
    set(&mut webhook);
    webhook
}

pub(crate) fn register(webhook: Webhook) -> Command {
    Command::Webhook(WebhookCommand::Register(webhook.into()))
}

pub(crate) fn own(n: u128) -> OwnedWebhook {
    OwnedWebhook::new(WebhookId::from_u128(n), CLIENT)
}

pub(crate) fn update(n: u128, change: WebhookChange) -> Command {
    Command::Webhook(WebhookCommand::Update { webhook: own(n), change })
}

pub(crate) fn take_deliveries(limit: usize) -> Command {
    Command::Delivery(DeliveryCommand::Take(DeliveryClaim {
        limit,
        lease: secs(10),
        closed: BTreeMap::new(),
    }))
}

pub(crate) fn settle(delivery: &Delivery, sent: SendResult) -> Command {
    let settle = Settle {
        delivery: delivery.id,
        client: delivery.client,
        chain: delivery.chain(),
        fence: delivery.fence,
        sent,
        policy: POLICY,
        health_of: Some(delivery.to.key()),
    };
    Command::Delivery(DeliveryCommand::Settle(settle.into()))
}

pub(crate) fn redeliver(delivery: &Delivery) -> Command {
    Command::Delivery(DeliveryCommand::Redeliver { delivery: delivery.id, client: CLIENT })
}

pub(crate) fn attempt(status: u16) -> DeliveryAttempt {
    let error = (status >= 300).then(|| format!("the endpoint answered {status}"));
    DeliveryAttempt {
        at: Time::from_millis(1_000_000),
        took: Duration::from_millis(5),
        status: Some(status),
        error,
    }
}

pub(crate) fn arrived() -> SendResult {
    SendResult::Delivered(attempt(204))
}

pub(crate) fn broke() -> SendResult {
    SendResult::Failed { attempt: attempt(500), retry_after: None }
}

/// What a delivery tells and where: `Queued to http://receiver/1`.
pub(crate) fn label(world: &World, delivery: &Delivery) -> String {
    let what = match &delivery.about {
        DeliverySubject::Event { event, .. } => format!("{:?}", event.name()),
        DeliverySubject::Notice(_) => "notice".into(),
        DeliverySubject::Test => "test".into(),
    };
    let place = match &delivery.to {
        forgerun_core::delivery::Endpoint::Webhook(id) => {
            world.webhooks.get(id).map_or("nowhere", |webhook| webhook.url.as_str())
        }
        forgerun_core::delivery::Endpoint::Callback(url) => url,
    };
    format!("{what} to {place}")
}

impl World {
    /// Takes what is due.
    pub(crate) fn courier(&mut self, limit: usize) -> ClaimedDeliveries {
        match self.ask(take_deliveries(limit)) {
            Answer::Taken(taken) => taken,
            other => panic!("not taken: {other:?}"),
        }
    }

    /// Takes and delivers until nothing is due, and says what arrived where, in order.
    pub(crate) fn deliver_all(&mut self) -> Vec<String> {
        let mut arrivals = Vec::new();
        loop {
            let taken = self.courier(100).deliveries;
            if taken.is_empty() {
                return arrivals;
            }
            for delivery in &taken {
                arrivals.push(label(self, delivery));
                self.ask(settle(delivery, arrived()));
            }
        }
    }

    /// The deliveries that stand like this.
    pub(crate) fn n_deliveries(&self, like: impl Fn(&DeliveryStage) -> bool) -> usize {
        self.deliveries.values().filter(|known| like(&known.stage)).count()
    }
}
