//! The auditor's ledger of webhooks and deliveries: the state on disk, and the rules from one
//! commit to the next.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::delivery::{Chain, Delivery, DeliveryStage, DeliverySubject};
use forgerun_core::history::JournalEntry;
use forgerun_core::id::{DeliveryId, JobId, WebhookId};
use forgerun_core::job::Job;
use forgerun_core::webhook::Webhook;
use forgerun_core::{Changes, invariants};

use crate::receivers::LEASE;

#[derive(Default)]
pub(crate) struct DeliveryLedger {
    webhooks: BTreeMap<WebhookId, Webhook>,
    /// Webhooks that were disabled or deleted at some time.
    ever_off: BTreeSet<WebhookId>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
    chains: BTreeMap<Chain, BTreeMap<u32, DeliveryId>>,
}

impl DeliveryLedger {
    pub(crate) fn deliveries(&self) -> impl Iterator<Item = &Delivery> {
        self.deliveries.values()
    }

    pub(crate) fn delivery(&self, id: DeliveryId) -> Option<&Delivery> {
        self.deliveries.get(&id)
    }

    pub(crate) fn was_ever_off(&self, webhook: WebhookId) -> bool {
        self.ever_off.contains(&webhook)
    }

    pub(crate) fn see(&mut self, changes: &Changes, broken: &mut Vec<String>) {
        self.see_listeners(changes, broken);
        let mut touched = BTreeSet::new();
        for delivery in &changes.deliveries {
            touched.extend(delivery.chain());
            if self.enter(delivery).is_some() {
                broken.push(format!("delivery {} was written twice", delivery.id));
            }
        }
        for delivery in &changes.deliveries_changed {
            touched.extend(delivery.chain());
            match self.enter(delivery) {
                Some(before) => broken.extend(
                    follow(&before, delivery)
                        .err()
                        .map(|rule| format!("{rule}: {before:?}, then {delivery:?}")),
                ),
                None => broken.push(format!("delivery {} changed and was never written", delivery.id)),
            }
        }
        for forgotten in &changes.forgotten {
            self.deliveries.retain(|_, known| known.job() != Some(forgotten.job));
            self.chains.retain(|chain, _| chain.job != forgotten.job);
        }
        for chain in touched {
            let open = self.chains.get(&chain).into_iter().flat_map(BTreeMap::values);
            let open = open.filter_map(|id| self.deliveries.get(id));
            if let Err(invariants::Broken(rule)) = invariants::order(open) {
                broken.push(format!("{rule}: {chain:?}"));
            }
        }
        self.see_webhooks(changes);
    }

    /// An event has deliveries to exactly the endpoints that subscribe to it. Webhooks changed by
    /// the same commit are skipped: the event may have come before or after.
    fn see_listeners(&self, changes: &Changes, broken: &mut Vec<String>) {
        let told: BTreeSet<(JobId, u32, WebhookId)> = changes
            .deliveries
            .iter()
            .filter_map(|delivery| match &delivery.about {
                DeliverySubject::Event { job, event } => Some((*job, event.n, delivery.to.key())),
                DeliverySubject::Notice(_) | DeliverySubject::Test => None,
            })
            .collect();
        let jobs: BTreeMap<JobId, &Job> = changes
            .inserted
            .iter()
            .map(|(job, _)| job)
            .chain(&changes.updated)
            .map(|job| (job.id, job))
            .collect();
        let callback = WebhookId::from_u128(0);
        for (id, event) in changes.journal.iter().filter_map(JournalEntry::job_event) {
            let Some(job) = jobs.get(&id) else { continue };
            let untouched = |webhook: &&Webhook| {
                webhook.client == job.head.client
                    && !changes.webhooks.contains_key(&webhook.id)
                    && !changes.webhooks_removed.contains(&webhook.id)
            };
            let hears = |webhook: &Webhook| webhook.disabled.is_none() && webhook.events.matches(event);
            let webhooks =
                self.webhooks.values().filter(untouched).map(|webhook| (webhook.id, hears(webhook)));
            for (endpoint, hears) in webhooks.chain([(callback, job.head.callback.is_some())]) {
                if told.contains(&(id, event.n, endpoint)) != hears {
                    broken.push(format!(
                        "event {} of job {id} and endpoint {endpoint}: told {}",
                        event.n, !hears
                    ));
                }
            }
        }
    }

    fn see_webhooks(&mut self, changes: &Changes) {
        self.webhooks.extend(changes.webhooks.iter().map(|(id, webhook)| (*id, webhook.clone())));
        self.webhooks.retain(|id, _| !changes.webhooks_removed.contains(id));
        let disabled = changes.webhooks.values().filter(|webhook| webhook.disabled.is_some());
        self.ever_off
            .extend(disabled.map(|webhook| webhook.id).chain(changes.webhooks_removed.iter().copied()));
    }

    /// Enters a delivery; returns its previous state.
    fn enter(&mut self, delivery: &Delivery) -> Option<Delivery> {
        let before = self.deliveries.insert(delivery.id, delivery.clone());
        if let Some((chain, place)) = before.as_ref().and_then(|before| before.chain().zip(before.position()))
        {
            self.chains.entry(chain).or_default().remove(&place);
        }
        if let Some((chain, place)) = delivery.chain().zip(delivery.position()) {
            self.chains.entry(chain).or_default().insert(place, delivery.id);
        }
        before
    }
}

/// Checks a change of a delivery; returns the violated rule.
fn follow(before: &Delivery, now: &Delivery) -> Result<(), &'static str> {
    invariants::delivery(now).map_err(|invariants::Broken(rule)| rule)?;
    if now.fence < before.fence {
        return Err("a fence never goes back");
    }
    match (before.stage, now.stage) {
        (DeliveryStage::Taken(until), DeliveryStage::Taken(again)) if until > again - LEASE => {
            Err("a courier claims no delivery that another one holds")
        }
        (_, DeliveryStage::Taken(_)) if now.fence == before.fence => {
            Err("each claim of a delivery has a new fence")
        }
        (DeliveryStage::Taken(_), DeliveryStage::Delivered(_) | DeliveryStage::Failed(..))
            if now.fence != before.fence =>
        {
            Err("only the holder settles a delivery")
        }
        (
            DeliveryStage::Blocked | DeliveryStage::Waiting(_),
            DeliveryStage::Delivered(_) | DeliveryStage::Failed(..),
        ) => Err("only what was taken is settled"),
        (DeliveryStage::Delivered(_) | DeliveryStage::Failed(..), DeliveryStage::Waiting(_))
            if now.chained =>
        {
            Err("what was settled has lost its place")
        }
        _ => Ok(()),
    }
}
