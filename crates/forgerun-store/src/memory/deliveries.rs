//! Webhooks, deliveries and signing keys in memory.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::delivery::{Chain, Delivery, DeliveryStatus, Endpoint};
use forgerun_core::id::{ClientId, DeliveryId, JobId, SigningKeyId, WebhookId};
use forgerun_core::set_aside::RowId;
use forgerun_core::time::Time;
use forgerun_core::webhook::{SigningKey, Webhook};
use forgerun_core::{Changes, Rows, Wants, related};

use super::aside::SetAsideRows;
use crate::{DeliveriesOf, DeliveryFilter, Error, Fault, ListPage};

#[derive(Default)]
pub(super) struct DeliveryTables {
    webhooks: BTreeMap<WebhookId, Webhook>,
    deliveries: BTreeMap<DeliveryId, Delivery>,
    due: BTreeSet<(Time, DeliveryId)>,
    chains: BTreeMap<Chain, BTreeMap<u32, DeliveryId>>,
    of_job: BTreeMap<JobId, BTreeSet<DeliveryId>>,
    to: BTreeMap<WebhookId, BTreeSet<DeliveryId>>,
    settled: BTreeSet<(Time, DeliveryId)>,
    pub(super) signing_keys: BTreeMap<SigningKeyId, SigningKey>,
}

impl DeliveryTables {
    /// What is wanted and its related rows, once the jobs are loaded.
    pub(super) fn load(&self, wants: &Wants, aside: &SetAsideRows, rows: &mut Rows) -> Result<(), Error> {
        wants.deliveries.iter().try_for_each(|id| aside.check(RowId::Delivery(*id)))?;
        let mut ids: BTreeSet<DeliveryId> = wants.deliveries.clone();
        let mut webhooks: BTreeSet<WebhookId> = wants.webhooks.clone();
        let clients = related::webhooks_of(wants, &rows.jobs);
        let of_them = self.webhooks.values().filter(|webhook| clients.contains(&webhook.client));
        let of_them: Vec<Webhook> = of_them.cloned().collect();
        webhooks.extend(of_them.iter().map(|webhook| webhook.id));
        for (chain, n) in related::chains(wants, &rows.jobs, &of_them) {
            ids.extend(self.open(chain).take(n));
        }
        let mut named = wants.deliveries.clone();
        if let Some(due) = wants.deliveries_due {
            let found = self.due.iter().take_while(|(at, _)| *at <= due.now).take(due.limit);
            rows.deliveries_due = found.map(|&(_, id)| id).collect();
            named.extend(&rows.deliveries_due);
        }
        for want in &wants.deliveries_failed {
            let since = self.settled.range((want.since, DeliveryId::from_u128(0))..).map(|(_, id)| id);
            let failed = since.filter(|id| {
                self.deliveries.get(id).is_some_and(|known| {
                    known.status() == DeliveryStatus::Failed && known.to == Endpoint::Webhook(want.webhook)
                })
            });
            ids.extend(failed.take(want.limit));
        }
        webhooks.extend(named.iter().filter_map(|id| self.deliveries.get(id)).map(|known| known.to.key()));
        ids.extend(named);
        ids.retain(|id| aside.readable(RowId::Delivery(*id), rows));
        for unreadable in &mut rows.unreadable {
            if let RowId::Delivery(id) = unreadable.row {
                unreadable.next = self.behind(id).filter(|next| !aside.is_damaged(RowId::Delivery(*next)));
                ids.extend(unreadable.next);
            }
        }
        rows.deliveries = ids.iter().filter_map(|id| self.deliveries.get(id)).cloned().collect();
        rows.webhooks = webhooks.iter().filter_map(|id| self.webhooks.get(id)).cloned().collect();
        if wants.signing_keys {
            rows.signing_keys = self.signing_keys.values().cloned().collect();
        }
        Ok(())
    }

    /// The delivery that comes after this one in its chain.
    fn behind(&self, id: DeliveryId) -> Option<DeliveryId> {
        let known = self.deliveries.get(&id)?;
        let (chain, place) = known.chain().zip(known.position())?;
        self.chains.get(&chain)?.range(place + 1..).next().map(|(_, next)| *next)
    }

    /// The deliveries of a chain that are not settled, in order.
    fn open(&self, chain: Chain) -> impl Iterator<Item = DeliveryId> {
        self.chains.get(&chain).into_iter().flat_map(|open| open.values().copied())
    }

    /// Whether the changes fit: nothing that is new is there already.
    pub(super) fn check(&self, changes: &Changes) -> Result<(), Error> {
        match changes.deliveries.iter().find(|new| self.deliveries.contains_key(&new.id)) {
            Some(new) => Err(Error::new(Fault::Rejected, format!("delivery {} exists already", new.id))),
            None => Ok(()),
        }
    }

    pub(super) fn write(&mut self, changes: &Changes) {
        self.webhooks.extend(changes.webhooks.iter().map(|(id, webhook)| (*id, webhook.clone())));
        changes.webhooks_removed.iter().for_each(|id| drop(self.webhooks.remove(id)));
        changes.deliveries.iter().for_each(|delivery| self.put(delivery.clone()));
        for delivery in &changes.deliveries_changed {
            if self.remove(delivery.id) {
                self.put(delivery.clone());
            }
        }
        for forgotten in &changes.forgotten {
            for id in self.of_job.get(&forgotten.job).cloned().unwrap_or_default() {
                self.remove(id);
            }
        }
        self.signing_keys.extend(changes.signing_keys.iter().map(|(id, key)| (*id, key.clone())));
        self.signing_keys.retain(|id, _| !changes.signing_keys_removed.contains(id));
    }

    fn put(&mut self, delivery: Delivery) {
        let id = delivery.id;
        self.due.extend(delivery.due_at().map(|at| (at, id)));
        self.settled.extend(delivery.settled_at().map(|at| (at, id)));
        if let Some((chain, place)) = delivery.chain().zip(delivery.position()) {
            self.chains.entry(chain).or_default().insert(place, id);
        }
        if let Some(job) = delivery.job() {
            self.of_job.entry(job).or_default().insert(id);
        }
        self.to.entry(delivery.to.key()).or_default().insert(id);
        self.deliveries.insert(id, delivery);
    }

    /// Takes a delivery out of its chain and out of what is due.
    pub(super) fn take_away(&mut self, id: DeliveryId) {
        let Some(delivery) = self.deliveries.get(&id) else { return };
        if let Some(at) = delivery.due_at() {
            self.due.remove(&(at, id));
        }
        if let Some((chain, place)) = delivery.chain().zip(delivery.position())
            && let Some(open) = self.chains.get_mut(&chain)
        {
            open.remove(&place);
            if open.is_empty() {
                self.chains.remove(&chain);
            }
        }
    }

    /// Says whether it was there.
    fn remove(&mut self, id: DeliveryId) -> bool {
        self.take_away(id);
        let Some(delivery) = self.deliveries.remove(&id) else { return false };
        if let Some(at) = delivery.settled_at() {
            self.settled.remove(&(at, id));
        }
        if let Some(job) = delivery.job()
            && let Some(ids) = self.of_job.get_mut(&job)
        {
            ids.remove(&id);
            if ids.is_empty() {
                self.of_job.remove(&job);
            }
        }
        if let Some(ids) = self.to.get_mut(&delivery.to.key()) {
            ids.remove(&id);
        }
        true
    }

    pub(super) fn webhook(&self, id: WebhookId) -> Option<Webhook> {
        self.webhooks.get(&id).cloned()
    }

    pub(super) fn webhooks(&self, client: ClientId, after: Option<WebhookId>, limit: usize) -> Vec<Webhook> {
        let all = self.webhooks.values().filter(|webhook| webhook.client == client);
        all.filter(|webhook| Some(webhook.id) > after).take(limit).cloned().collect()
    }

    pub(super) fn all_webhooks(&self, after: Option<WebhookId>, limit: usize) -> Vec<Webhook> {
        self.webhooks.values().filter(|webhook| Some(webhook.id) > after).take(limit).cloned().collect()
    }

    pub(super) fn delivery(&self, id: DeliveryId) -> Option<Delivery> {
        self.deliveries.get(&id).cloned()
    }

    pub(super) fn list(
        &self,
        filter: &DeliveryFilter,
        aside: &SetAsideRows,
    ) -> ListPage<Delivery, DeliveryId> {
        let ids = match filter.of {
            DeliveriesOf::Webhook(webhook) => self.to.get(&webhook),
            DeliveriesOf::Job(job) => self.of_job.get(&job),
        };
        let end = filter.before.unwrap_or(DeliveryId::from_u128(u128::MAX));
        let older = ids.into_iter().flat_map(|ids| ids.range(..end).rev());
        let fits = |known: &&Delivery| filter.status.is_none_or(|status| known.status() == status);
        let passed = older.map(|id| {
            let readable = self.deliveries.get(id).filter(|_| !aside.is_damaged(RowId::Delivery(*id)));
            (*id, readable.filter(fits).cloned())
        });
        super::listed(passed, filter.limit, filter.look_max)
    }

    pub(super) fn next_due(&self) -> Option<Time> {
        self.due.first().map(|&(at, _)| at)
    }

    pub(super) fn sweep(&mut self, before: Time, limit: usize) -> usize {
        let old = self.settled.iter().take_while(|(at, _)| *at < before).take(limit);
        let ids: Vec<DeliveryId> = old.map(|&(_, id)| id).collect();
        ids.into_iter().filter(|id| self.remove(*id)).count()
    }
}
