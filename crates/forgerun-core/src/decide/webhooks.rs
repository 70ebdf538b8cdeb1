//! Registered webhooks and signing keys.

use alloc::vec::Vec;
use core::time::Duration;

use super::client_limits;
use super::working_set::WorkingSet;
use crate::client_limits::ClientLimit;
use crate::command::{Answer, OwnedWebhook, Refusal, SigningCommand, WebhookChange, WebhookCommand};
use crate::delivery::{Delivery, DeliveryStage, DeliverySubject, Endpoint};
use crate::id::{ClientId, WebhookId};
use crate::limits;
use crate::rows::{FailedWant, Wants};
use crate::time::Time;
use crate::webhook::{Disabled, DisabledReason, Health, SigningKey, Webhook};

pub(super) fn wants(command: &WebhookCommand, wants: &mut Wants) {
    let OwnedWebhook { webhook, client, .. } = command.webhook();
    match command {
        WebhookCommand::Register(_) => {
            wants.webhooks_of.insert(client);
            client_limits::wants(client, wants);
        }
        WebhookCommand::Update { .. } => {
            wants.webhooks.insert(webhook);
            wants.webhooks_of.insert(client);
        }
        WebhookCommand::Rotate { .. } | WebhookCommand::Delete(_) | WebhookCommand::Test(_) => {
            wants.webhooks.insert(webhook);
        }
        WebhookCommand::RedeliverFailed { since, .. } => {
            wants.webhooks.insert(webhook);
            let limit = limits::REDELIVER_MAX;
            wants.deliveries_failed.push(FailedWant { webhook, since: *since, limit });
        }
    }
}

impl WorkingSet<'_> {
    pub(super) fn webhook(&mut self, command: &WebhookCommand) -> Result<Answer, Refusal> {
        match command {
            WebhookCommand::Register(webhook) => {
                self.check_url(webhook.client, webhook.id, &webhook.url)?;
                let known = self.outbox.webhooks_of(webhook.client).count();
                self.check_client_limit(webhook.client, ClientLimit::MaxWebhooks, known as u64)?;
                if known >= limits::WEBHOOKS_MAX {
                    return Err(Refusal::TooManyWebhooks);
                }
                Ok(self.save_webhook(Webhook::clone(webhook)))
            }
            WebhookCommand::Update { webhook, change } => self.update_webhook(*webhook, change),
            WebhookCommand::Rotate { webhook, secret, previous_until } => {
                let mut webhook = self.own_webhook(*webhook)?.clone();
                let previous = core::mem::replace(&mut webhook.secrets.current, secret.clone());
                webhook.secrets.previous = Some((previous, *previous_until));
                webhook.updated_at = self.changed_at(&webhook);
                Ok(self.save_webhook(webhook))
            }
            WebhookCommand::Delete(webhook) => {
                let id = self.own_webhook(*webhook)?.id;
                self.outbox.remove_webhook(id, &mut self.changes);
                Ok(Answer::Settled)
            }
            WebhookCommand::Test(webhook) => {
                let Webhook { id, client, .. } = *self.own_webhook(*webhook)?;
                self.enabled(id)?;
                let test = self.new_delivery(client, Endpoint::Webhook(id), DeliverySubject::Test, self.now);
                self.outbox.add(test.clone(), self.now);
                Ok(Answer::Delivery(Delivery { stage: DeliveryStage::Waiting(self.now), ..test }.into()))
            }
            WebhookCommand::RedeliverFailed { webhook, since } => self.redeliver_failed(*webhook, *since),
        }
    }

    /// The webhook, if the caller owns it.
    fn own_webhook(&self, owned: OwnedWebhook) -> Result<&Webhook, Refusal> {
        let webhook = self.outbox.webhook(owned.webhook).ok_or(Refusal::WebhookNotFound)?;
        if webhook.client != owned.client {
            return Err(Refusal::Foreign);
        }
        match owned.revision {
            Some(seen) if seen != webhook.revision() => Err(Refusal::WebhookChanged),
            Some(_) | None => Ok(webhook),
        }
    }

    fn check_url(&self, client: ClientId, id: WebhookId, url: &str) -> Result<(), Refusal> {
        let other = self.outbox.webhooks_of(client).find(|other| other.url == url && other.id != id);
        other.map_or(Ok(()), |other| Err(Refusal::WebhookExists(other.id)))
    }

    fn update_webhook(&mut self, owned: OwnedWebhook, change: &WebhookChange) -> Result<Answer, Refusal> {
        let mut webhook = self.own_webhook(owned)?.clone();
        let WebhookChange { url, events, envelope, filter, description, enabled } = change;
        if let Some(url) = url {
            self.check_url(owned.client, owned.webhook, url)?;
            webhook.url.clone_from(url);
        }
        webhook.events = events.unwrap_or(webhook.events);
        webhook.envelope = envelope.unwrap_or(webhook.envelope);
        if let Some(filter) = filter {
            webhook.filter.clone_from(filter);
        }
        if let Some(description) = description {
            webhook.description.clone_from(description);
        }
        match enabled {
            Some(true) => {
                webhook.disabled = None;
                let Health { last_success_at, last_failure_at, .. } = webhook.health;
                webhook.health = Health { last_success_at, last_failure_at, ..Health::default() };
            }
            Some(false) => {
                let by_owner = Disabled { at: self.now, reason: DisabledReason::Owner };
                webhook.disabled = webhook.disabled.or(Some(by_owner));
            }
            None => {}
        }
        webhook.updated_at = self.changed_at(&webhook);
        Ok(self.save_webhook(webhook))
    }

    fn redeliver_failed(&mut self, owned: OwnedWebhook, since: Time) -> Result<Answer, Refusal> {
        let id = self.own_webhook(owned)?.id;
        self.enabled(id)?;
        let given_up = |delivery: &&Delivery| {
            matches!(delivery.stage, DeliveryStage::Failed(at, _) if at >= since)
                && delivery.to == Endpoint::Webhook(id)
        };
        let mut failed: Vec<Delivery> = self.outbox.deliveries().filter(given_up).cloned().collect();
        failed.sort_unstable_by_key(|delivery| (delivery.settled_at(), delivery.id));
        let more = failed.len() >= limits::REDELIVER_MAX;
        failed.truncate(limits::REDELIVER_MAX);
        let n_deliveries = failed.len();
        for delivery in failed {
            self.send_again(delivery);
        }
        Ok(Answer::Redelivered { n_deliveries, more })
    }

    /// Moment of a change, later than any before, so that no two revisions share one.
    fn changed_at(&self, webhook: &Webhook) -> Time {
        self.now.max(webhook.revision() + Duration::from_micros(1))
    }

    fn save_webhook(&mut self, webhook: Webhook) -> Answer {
        self.outbox.save_webhook(webhook.clone(), &mut self.changes);
        Answer::Webhook(webhook.into())
    }

    pub(super) fn signing(&mut self, command: &SigningCommand) -> Answer {
        match command {
            SigningCommand::Ensure(key) => {
                if !self.outbox.signing_keys.values().any(|known| known.is_good(self.now)) {
                    self.save_signing_key(key.clone());
                }
            }
            SigningCommand::Rotate { key, retire_at } => {
                let before: Vec<SigningKey> = self.outbox.signing_keys.values().cloned().collect();
                for known in before {
                    let retired_at = known.retired_at.map_or(*retire_at, |at| at.min(*retire_at));
                    if known.retired_at != Some(retired_at) {
                        self.save_signing_key(SigningKey { retired_at: Some(retired_at), ..known });
                    }
                }
                self.save_signing_key(key.clone());
                while self.outbox.signing_keys.len() > limits::SIGNING_KEYS_MAX {
                    let Some((oldest, _)) = self.outbox.signing_keys.pop_first() else { break };
                    self.changes.signing_keys.remove(&oldest);
                    self.changes.signing_keys_removed.push(oldest);
                }
            }
        }
        Answer::SigningKeys(self.outbox.signing_keys.values().cloned().collect())
    }

    fn save_signing_key(&mut self, key: SigningKey) {
        self.changes.signing_keys.insert(key.id, key.clone());
        self.outbox.signing_keys.insert(key.id, key);
    }
}
