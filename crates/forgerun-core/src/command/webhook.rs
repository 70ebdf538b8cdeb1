//! What can be asked about webhooks, about what is sent to them, and about the keys it is signed with.

use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::delivery::{Chain, Delivery, DeliveryAttempt, DeliveryFailure, DeliveryPolicy, Endpoint};
use crate::id::{ClientId, DeliveryId, WebhookId};
use crate::time::Time;
use crate::webhook::{Envelope, Events, SigningKey, Webhook};

/// Something about a registered webhook.
#[derive(Clone, Debug)]
pub enum WebhookCommand {
    /// A new one.
    Register(Webhook),
    /// Other settings.
    Update {
        /// Which, and who asks.
        webhook: OwnedWebhook,
        /// What changes.
        change: WebhookChange,
    },
    /// Another secret.
    Rotate {
        /// Which, and who asks.
        webhook: OwnedWebhook,
        /// The secret from now on.
        secret: Vec<u8>,
        /// Until when deliveries are signed with the one before too.
        previous_until: Time,
    },
    /// No webhook any more. What is still to be sent to it is given up.
    Delete(OwnedWebhook),
    /// Send it something to look at.
    Test(OwnedWebhook),
    /// Send again what was given up, oldest first, at most [`limits::REDELIVER_MAX`] deliveries.
    ///
    /// [`limits::REDELIVER_MAX`]: crate::limits::REDELIVER_MAX
    RedeliverFailed {
        /// Which, and who asks.
        webhook: OwnedWebhook,
        /// What was given up at this moment or later.
        since: Time,
    },
}

impl WebhookCommand {
    /// The webhook it is about, and who asks.
    pub const fn webhook(&self) -> OwnedWebhook {
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

/// A webhook, and who asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnedWebhook {
    /// Which webhook.
    pub webhook: WebhookId,
    /// The asking client.
    pub client: ClientId,
    /// Only if it still has this [`Webhook::revision`]; `None` for any.
    pub revision: Option<Time>,
}

impl OwnedWebhook {
    /// A webhook, whatever its revision.
    pub const fn new(webhook: WebhookId, client: ClientId) -> OwnedWebhook {
        OwnedWebhook { webhook, client, revision: None }
    }
}

/// What changes about a webhook; `None` leaves a setting as it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WebhookChange {
    /// Another place.
    pub url: Option<String>,
    /// Other events.
    pub events: Option<Events>,
    /// Another envelope.
    pub envelope: Option<Envelope>,
    /// Another description, or none.
    pub description: Option<Option<String>>,
    /// Whether anything is sent to it. Enabled again, it begins with good health.
    pub enabled: Option<bool>,
}

/// Something about deliveries.
#[derive(Clone, Debug)]
pub enum DeliveryCommand {
    /// A courier wants deliveries that are due.
    Take(DeliveryClaim),
    /// A courier tells what became of one.
    Settle(Box<Settle>),
    /// Send it again, though it was delivered or given up; or now, though it waits.
    Redeliver {
        /// Which delivery.
        delivery: DeliveryId,
        /// The asking client.
        client: ClientId,
    },
}

/// A courier wants deliveries that are due.
#[derive(Clone, Debug)]
pub struct DeliveryClaim {
    /// At most so many, those put off included.
    pub limit: usize,
    /// They may be taken by others after this long.
    pub lease: Duration,
    /// Endpoints that the courier does not want to call before a moment. What is due for them is put off until then.
    pub closed: BTreeMap<Endpoint, Time>,
}

/// What became of a delivery.
#[derive(Clone, Debug)]
pub struct Settle {
    /// Which delivery.
    pub delivery: DeliveryId,
    /// Whose it is.
    pub client: ClientId,
    /// The chain it is in.
    pub chain: Option<Chain>,
    /// What the courier was given when it took it.
    pub fence: u32,
    /// How it went.
    pub sent: SendResult,
    /// What to do about failures.
    pub policy: DeliveryPolicy,
    /// The webhook on whose health this has a bearing.
    pub health_of: Option<WebhookId>,
}

/// How an attempt went.
#[derive(Clone, Debug)]
pub enum SendResult {
    /// The endpoint has it.
    Delivered(DeliveryAttempt),
    /// It did not work; try again.
    Failed {
        /// What happened.
        attempt: DeliveryAttempt,
        /// How long the endpoint asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// The endpoint said that it is gone for good.
    Gone(DeliveryAttempt),
    /// It was not sent: there is no use in it.
    Dropped(DeliveryFailure),
    /// It was not sent, and does not count as an attempt: another time.
    PutOff(Time),
}

/// Something about the keys that deliveries are signed with.
#[derive(Clone, Debug)]
pub enum SigningCommand {
    /// A first key, unless there is one.
    Ensure(SigningKey),
    /// A new key; nothing is signed with those before it from `retire_at` on.
    Rotate {
        /// The new key.
        key: SigningKey,
        /// When the others end.
        retire_at: Time,
    },
}

/// What a courier got.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClaimedDeliveries {
    /// The longest due first.
    pub deliveries: Vec<Delivery>,
    /// The webhooks among their endpoints, where they still exist.
    pub webhooks: Vec<Webhook>,
    /// How many were due and put off, since their endpoint is closed.
    pub n_put_off: usize,
    /// There may be more: asking again at once is worth it.
    pub more: bool,
}
