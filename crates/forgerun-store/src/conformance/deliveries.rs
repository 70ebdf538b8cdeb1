//! Commands about webhooks and deliveries, for the cases and for chance.

use std::collections::BTreeMap;
use std::time::Duration;

use forgerun_core::command::{
    Answer, ClaimedDeliveries, Command, DeliveryClaim, DeliveryCommand, OwnedWebhook, SendResult, Settle,
    SigningCommand, WebhookChange, WebhookCommand,
};
use forgerun_core::delivery::{
    Delivery, DeliveryAttempt, DeliveryFailure, DeliveryPolicy, DeliverySchedule, Endpoint,
};
use forgerun_core::history::EventName;
use forgerun_core::id::{ClientId, SigningKeyId, WebhookId};
use forgerun_core::time::Time;
use forgerun_core::webhook::{Envelope, Events, Health, Secrets, SigningKey, Webhook, WebhookFilter};

use super::dice::Dice;
use super::make::{START, client, secs};

/// Three attempts a second apart.
pub(super) const POLICY: DeliveryPolicy = DeliveryPolicy {
    schedule: DeliverySchedule::Doubling {
        attempts_max: 3,
        base: Duration::from_secs(1),
        max: Duration::from_secs(1),
    },
    disable_after: Duration::from_secs(60),
};

/// Webhook `n` of client 1, which wants to hear everything.
pub(super) fn hook(n: u128) -> Webhook {
    Webhook {
        id: WebhookId::v7(START.unix_ms(), n),
        client: client(1),
        url: format!("http://receiver/{n}"),
        events: Events::ALL,
        envelope: Envelope::None,
        filter: WebhookFilter::default(),
        description: None,
        secrets: Secrets { current: vec![n as u8; 32], previous: None },
        created_at: START,
        updated_at: START,
        disabled: None,
        health: Health::default(),
        n_notices: 0,
    }
}

pub(super) fn register(webhook: Webhook) -> Command {
    Command::Webhook(WebhookCommand::Register(webhook.into()))
}

pub(super) fn owned(webhook: &Webhook) -> OwnedWebhook {
    OwnedWebhook::new(webhook.id, webhook.client)
}

pub(super) fn delete(webhook: &Webhook) -> Command {
    Command::Webhook(WebhookCommand::Delete(owned(webhook)))
}

pub(super) fn courier(limit: usize) -> Command {
    Command::Delivery(DeliveryCommand::Take(DeliveryClaim {
        limit,
        lease: secs(30),
        closed: BTreeMap::new(),
    }))
}

pub(super) fn settle(delivery: &Delivery, sent: SendResult) -> Command {
    let health_of = match delivery.to {
        Endpoint::Webhook(id) => Some(id),
        Endpoint::Callback(_) => None,
    };
    let settle = Settle {
        delivery: delivery.id,
        client: delivery.client,
        chain: delivery.chain(),
        fence: delivery.fence,
        sent,
        policy: POLICY,
        health_of,
    };
    Command::Delivery(DeliveryCommand::Settle(settle.into()))
}

pub(super) fn redeliver(delivery: &Delivery, client: ClientId) -> Command {
    Command::Delivery(DeliveryCommand::Redeliver { delivery: delivery.id, client })
}

pub(super) fn attempt(status: u16) -> DeliveryAttempt {
    let error = (status >= 300).then(|| format!("answered {status}"));
    DeliveryAttempt { at: START, took: Duration::from_millis(3), status: Some(status), error }
}

pub(super) fn arrived() -> SendResult {
    SendResult::Delivered(attempt(204))
}

pub(super) fn broke() -> SendResult {
    SendResult::Failed { attempt: attempt(503), retry_after: None }
}

pub(super) fn ensure_key(n: u8) -> Command {
    let id = SigningKeyId::v7(START.unix_ms(), u128::from(n));
    Command::Signing(SigningCommand::Ensure(SigningKey {
        id,
        seed: vec![n; 32],
        created_at: START,
        retired_at: None,
    }))
}

/// What a courier got.
#[track_caller]
pub(super) fn taken(answer: Answer) -> ClaimedDeliveries {
    match answer {
        Answer::Taken(taken) => taken,
        other => panic!("not taken: {other:?}"),
    }
}

/// Random commands about four webhooks of two clients, and whatever was taken last.
pub(super) fn draw(dice: &mut Dice, now: Time, taken: &[Delivery]) -> Command {
    let n = dice.below(4);
    let webhook = Webhook {
        client: client(u128::from(n % 2)),
        url: format!("http://receiver/{}", dice.below(3)),
        events: [Events::ALL, Events::only(EventName::Failed), Events::only(EventName::Created)]
            [dice.below(3) as usize],
        created_at: now,
        ..hook(u128::from(n))
    };
    match dice.below(20) {
        0..=1 => {
            register(Webhook { id: WebhookId::v7(now.unix_ms(), u128::from(dice.below(99))), ..webhook })
        }
        2 => delete(&webhook),
        3 => Command::Webhook(WebhookCommand::Test(owned(&webhook))),
        4 => {
            let (url, enabled) = (webhook.url.clone(), dice.below(3) > 0);
            let change = WebhookChange { url: Some(url), enabled: Some(enabled), ..WebhookChange::default() };
            Command::Webhook(WebhookCommand::Update { webhook: owned(&webhook), change })
        }
        5 => {
            let since = now - secs(dice.below(60));
            Command::Webhook(WebhookCommand::RedeliverFailed { webhook: owned(&webhook), since })
        }
        6 => ensure_key(dice.below(256) as u8),
        7..=11 => courier(1 + dice.below(20) as usize),
        12 => match pick(dice, taken) {
            Some(delivery) => redeliver(delivery, delivery.client),
            None => courier(3),
        },
        _ => match pick(dice, taken) {
            Some(delivery) => settle(delivery, draw_sent(dice, now)),
            None => courier(5),
        },
    }
}

fn pick<'a>(dice: &mut Dice, taken: &'a [Delivery]) -> Option<&'a Delivery> {
    if taken.is_empty() { None } else { taken.get(dice.below(taken.len() as u64) as usize) }
}

fn draw_sent(dice: &mut Dice, now: Time) -> SendResult {
    match dice.below(12) {
        0 => SendResult::Gone(attempt(410)),
        1 => SendResult::Dropped(DeliveryFailure::Disabled),
        2 => SendResult::PutOff(now + secs(dice.below(20))),
        3..=5 => broke(),
        6 => SendResult::Failed { attempt: attempt(429), retry_after: Some(secs(dice.below(30))) },
        _ => arrived(),
    }
}
