//! The part of the working set for webhooks: endpoints, and their open deliveries in order.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::delivery::{Chain, Delivery, DeliveryStage, Endpoint};
use crate::history::Event;
use crate::id::{ClientId, DeliveryId, JobId, SigningKeyId, WebhookId};
use crate::invariants;
use crate::job::Head;
use crate::rows::{Changes, Rows};
use crate::time::Time;
use crate::webhook::{Events, SigningKey, Webhook};

#[derive(Default)]
pub(super) struct Outbox {
    webhooks: BTreeMap<WebhookId, Webhook>,
    webhooks_of: BTreeMap<ClientId, BTreeSet<WebhookId>>,
    deliveries: BTreeMap<DeliveryId, OutboxEntry>,
    /// Open deliveries of each chain, by position.
    chains: BTreeMap<Chain, BTreeMap<u32, DeliveryId>>,
    pub(super) due: Vec<DeliveryId>,
    pub(super) signing_keys: BTreeMap<SigningKeyId, SigningKey>,
}

struct OutboxEntry {
    delivery: Delivery,
    change: RowChange,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum RowChange {
    AsLoaded,
    Changed,
    New,
}

impl Outbox {
    /// Moves the webhook rows out of `rows`.
    pub(super) fn new(rows: &mut Rows) -> Outbox {
        let mut outbox = Outbox {
            due: core::mem::take(&mut rows.deliveries_due),
            signing_keys: rows.signing_keys.drain(..).map(|key| (key.id, key)).collect(),
            ..Outbox::default()
        };
        for webhook in rows.webhooks.drain(..) {
            outbox.know(webhook);
        }
        for delivery in rows.deliveries.drain(..) {
            outbox.link(&delivery);
            outbox.deliveries.insert(delivery.id, OutboxEntry { delivery, change: RowChange::AsLoaded });
        }
        outbox
    }

    fn know(&mut self, webhook: Webhook) {
        self.webhooks_of.entry(webhook.client).or_default().insert(webhook.id);
        self.webhooks.insert(webhook.id, webhook);
    }

    fn link(&mut self, delivery: &Delivery) {
        if let Some((chain, position)) = delivery.chain().zip(delivery.position()) {
            self.chains.entry(chain).or_default().insert(position, delivery.id);
        }
    }

    /// Whether any endpoint may want events of a job. Nearly always none does, so this is checked
    /// first.
    pub(super) fn concerns(&self, head: &Head) -> bool {
        head.callback.is_some() || self.webhooks_of.contains_key(&head.client)
    }

    /// Endpoints of an event: webhooks that subscribe to it and whose filter fits, and the job's
    /// callback, unless one of the webhooks has the same URL.
    pub(super) fn listeners(&self, head: &Head, event: &Event) -> Vec<Endpoint> {
        let all = self.webhooks_of(head.client);
        let listens = |webhook: &&Webhook| {
            webhook.disabled.is_none() && webhook.events.matches(event) && webhook.filter.fits(head)
        };
        let listening: Vec<&Webhook> = all.filter(listens).collect();
        let told = |url: &str| listening.iter().any(|webhook| webhook.url == url);
        let callback = head.callback.iter().filter(|url| !told(url)).cloned().map(Endpoint::Callback);
        listening.iter().map(|webhook| Endpoint::Webhook(webhook.id)).chain(callback).collect()
    }

    /// Endpoints for the notice that a webhook of the client was disabled: the others that
    /// subscribe to it.
    pub(super) fn noticed(&self, client: ClientId) -> Vec<Endpoint> {
        let listens = |webhook: &&Webhook| {
            webhook.disabled.is_none() && webhook.events.contains(Events::WEBHOOK_DISABLED)
        };
        self.webhooks_of(client).filter(listens).map(|webhook| Endpoint::Webhook(webhook.id)).collect()
    }

    pub(super) fn webhooks_of(&self, client: ClientId) -> impl Iterator<Item = &Webhook> {
        let ids = self.webhooks_of.get(&client).into_iter().flatten();
        ids.filter_map(|id| self.webhooks.get(id))
    }

    pub(super) fn webhook(&self, id: WebhookId) -> Option<&Webhook> {
        self.webhooks.get(&id)
    }

    pub(super) fn save_webhook(&mut self, webhook: Webhook, changes: &mut Changes) {
        changes.webhooks.insert(webhook.id, webhook.clone());
        self.know(webhook);
    }

    pub(super) fn remove_webhook(&mut self, id: WebhookId, changes: &mut Changes) {
        if let Some(webhook) = self.webhooks.remove(&id) {
            self.webhooks_of.entry(webhook.client).or_default().remove(&id);
            changes.webhooks.remove(&id);
            changes.webhooks_removed.push(id);
        }
    }

    pub(super) fn delivery(&self, id: DeliveryId) -> Option<&Delivery> {
        self.deliveries.get(&id).map(|entry| &entry.delivery)
    }

    pub(super) fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.values().map(|entry| &entry.delivery)
    }

    /// Adds a new delivery. In a chain it waits for those before it; otherwise it is due at once.
    pub(super) fn add(&mut self, mut delivery: Delivery, now: Time) {
        let busy = |chain| self.chains.get(&chain).is_some_and(|open| !open.is_empty());
        let blocked = delivery.chain().is_some_and(busy);
        delivery.stage = if blocked { DeliveryStage::Blocked } else { DeliveryStage::Waiting(now) };
        self.link(&delivery);
        self.deliveries.insert(delivery.id, OutboxEntry { delivery, change: RowChange::New });
    }

    /// Stores a changed delivery. A settled one unblocks the next of its chain.
    pub(super) fn save(&mut self, delivery: Delivery, now: Time) {
        let Some(entry) = self.deliveries.get_mut(&delivery.id) else { return };
        let before = core::mem::replace(&mut entry.delivery, delivery.clone());
        if entry.change == RowChange::AsLoaded {
            entry.change = RowChange::Changed;
        }
        if let (Some((chain, position)), None) = (before.chain().zip(before.position()), delivery.position())
        {
            let open = self.chains.entry(chain).or_default();
            open.remove(&position);
            let next = open.values().next().copied();
            let next =
                next.and_then(|id| self.delivery(id)).filter(|next| next.stage == DeliveryStage::Blocked);
            if let Some(next) = next.cloned() {
                self.save(Delivery { stage: DeliveryStage::Waiting(now), ..next }, now);
            }
        }
    }

    /// Deletes the deliveries of a deleted job.
    pub(super) fn forget(&mut self, job: JobId) {
        if !self.deliveries.is_empty() {
            self.deliveries.retain(|_, entry| entry.delivery.job() != Some(job));
        }
    }

    pub(super) fn finish(self, changes: &mut Changes) {
        for OutboxEntry { delivery, change } in self.deliveries.into_values() {
            debug_assert_eq!(invariants::delivery(&delivery), Ok(()), "{delivery:?}");
            // Also for deliveries that were only read: on a shared store a courier may have skipped
            // them because this batch held the lock.
            changes.delivery_due = changes.delivery_due.into_iter().chain(delivery.due_at()).min();
            match change {
                RowChange::AsLoaded => {}
                RowChange::Changed => changes.deliveries_changed.push(delivery),
                RowChange::New => changes.deliveries.push(delivery),
            }
        }
    }
}
