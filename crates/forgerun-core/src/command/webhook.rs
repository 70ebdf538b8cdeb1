//! Commands about webhooks, deliveries and signing keys.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::delivery::{Chain, Delivery, DeliveryAttempt, DeliveryFailure, DeliveryPolicy, Endpoint};
use crate::id::{ClientId, DeliveryId, WebhookId};
use crate::time::Time;
use crate::webhook::{Envelope, Events, SigningKey, Webhook, WebhookFilter};

#[derive(Clone, Debug)]
pub enum WebhookCommand {
    Register(Box<Webhook>),
    Update {
        webhook: OwnedWebhook,
        change: WebhookChange,
    },
    Rotate {
        webhook: OwnedWebhook,
        secret: Vec<u8>,
        /// Until then deliveries are also signed with the previous secret.
        previous_until: Time,
    },
    /// Delete the webhook. Its open deliveries are given up.
    Delete(OwnedWebhook),
    /// Send a test delivery.
    Test(OwnedWebhook),
    /// Resend deliveries that were given up, oldest first, at most [`limits::REDELIVER_MAX`].
    ///
    /// [`limits::REDELIVER_MAX`]: crate::limits::REDELIVER_MAX
    RedeliverFailed {
        webhook: OwnedWebhook,
        /// Resend what was given up at this moment or later.
        since: Time,
    },
}

impl WebhookCommand {
    pub fn webhook(&self) -> OwnedWebhook {
        match self {
            WebhookCommand::Register(webhook) => OwnedWebhook::new(webhook.id, webhook.client),
            WebhookCommand::Update { webhook, .. }
            | WebhookCommand::Rotate { webhook, .. }
            | WebhookCommand::Delete(webhook)
            | WebhookCommand::Test(webhook)
            | WebhookCommand::RedeliverFailed { webhook, .. } => *webhook,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedWebhook {
    pub webhook: WebhookId,
    pub client: ClientId,
    /// Only if the webhook still has this [`Webhook::revision`]; `None` for any.
    pub revision: Option<Time>,
}

impl OwnedWebhook {
    pub const fn new(webhook: WebhookId, client: ClientId) -> OwnedWebhook {
        OwnedWebhook { webhook, client, revision: None }
    }
}

/// Changed settings of a webhook; `None` keeps a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookChange {
    pub url: Option<String>,
    pub events: Option<Events>,
    pub envelope: Option<Envelope>,
    pub filter: Option<WebhookFilter>,
    /// `Some(None)` removes the description.
    pub description: Option<Option<String>>,
    /// Whether deliveries are sent. Enabling a webhook resets its health.
    pub enabled: Option<bool>,
}

#[derive(Clone, Debug)]
pub enum DeliveryCommand {
    /// A courier claims due deliveries.
    Take(DeliveryClaim),
    /// A courier reports the result of an attempt.
    Settle(Box<Settle>),
    /// Send again, although delivered or given up; or now, although it waits.
    Redeliver { delivery: DeliveryId, client: ClientId },
}

/// A courier claims due deliveries.
#[derive(Clone, Debug)]
pub struct DeliveryClaim {
    /// At most this many, those put off included.
    pub limit: usize,
    /// Lease: after this long other couriers may claim them.
    pub lease: Duration,
    /// Endpoints that the courier does not call before a moment. Deliveries to them are put off
    /// until then.
    pub closed: BTreeMap<Endpoint, Time>,
}

#[derive(Clone, Debug)]
pub struct Settle {
    pub delivery: DeliveryId,
    pub client: ClientId,
    pub chain: Option<Chain>,
    /// Fencing token from the claim.
    pub fence: u32,
    pub sent: SendResult,
    pub policy: DeliveryPolicy,
    /// The webhook whose health the result affects.
    pub health_of: Option<WebhookId>,
}

#[derive(Clone, Debug)]
pub enum SendResult {
    Delivered(DeliveryAttempt),
    /// The attempt failed; retry.
    Failed {
        attempt: DeliveryAttempt,
        /// How long the endpoint asked not to be called.
        retry_after: Option<Duration>,
    },
    /// The endpoint is gone for good.
    Gone(DeliveryAttempt),
    /// Not sent, and never will be.
    Dropped(DeliveryFailure),
    /// Not sent, and not counted as an attempt. Try again at this moment.
    PutOff(Time),
}

#[derive(Clone, Debug)]
pub enum SigningCommand {
    Ensure(SigningKey),
    /// A new key. The older ones sign nothing from `retire_at` on.
    Rotate {
        key: SigningKey,
        retire_at: Time,
    },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedDeliveries {
    /// The longest due first.
    pub deliveries: Vec<Delivery>,
    /// The webhooks that the deliveries go to, as far as they still exist.
    pub webhooks: Vec<Webhook>,
    /// How many were due but put off, because their endpoint is closed.
    pub n_put_off: usize,
    /// More may be due: claim again at once.
    pub more: bool,
}
