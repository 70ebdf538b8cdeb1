//! Webhooks and deliveries in the small world.

use std::collections::BTreeSet;
use std::vec::Vec;

use forgerun_core::delivery::{Chain, Delivery, DeliveryStage, Endpoint};
use forgerun_core::id::{DeliveryId, WebhookId};
use forgerun_core::invariants;
use forgerun_core::{Changes, Rows, Wants};

use super::World;

impl World {
    /// What a store loads of webhooks and deliveries, once the jobs are loaded.
    pub(super) fn load_post(&self, wants: &Wants, rows: &mut Rows) {
        let mut clients = wants.webhooks_of.clone();
        clients.extend(rows.jobs.iter().map(|job| job.head.client));
        let mut webhooks = wants.webhooks.clone();
        webhooks
            .extend(self.webhooks.values().filter(|hook| clients.contains(&hook.client)).map(|hook| hook.id));
        let mut ids: BTreeSet<DeliveryId> = wants.deliveries.clone();
        for job in &rows.jobs {
            let of_client = self.webhooks.values().filter(|hook| hook.client == job.head.client);
            let callback = job.head.callback.iter().map(|_| WebhookId::from_u128(0));
            for endpoint in of_client.map(|hook| hook.id).chain(callback) {
                ids.extend(self.open(Chain { job: job.id, endpoint }).into_iter().take(1));
            }
        }
        for &chain in &wants.chains {
            ids.extend(self.open(chain).into_iter().take(2));
        }
        if let Some(due) = wants.deliveries_due {
            let moments = self.deliveries.values().filter_map(|known| Some((known.due_at()?, known.id)));
            let come: BTreeSet<_> = moments.filter(|(at, _)| *at <= due.now).collect();
            rows.deliveries_due = come.into_iter().take(due.limit).map(|(_, id)| id).collect();
            ids.extend(&rows.deliveries_due);
        }
        for want in &wants.deliveries_failed {
            let failed = self.deliveries.values().filter(|known| {
                known.to == Endpoint::Webhook(want.webhook)
                    && matches!(known.stage, DeliveryStage::Failed(at, _) if at >= want.since)
            });
            let found: BTreeSet<_> = failed.map(|known| (known.settled_at(), known.id)).collect();
            ids.extend(found.into_iter().take(want.limit).map(|(_, id)| id));
        }
        rows.deliveries = ids.iter().filter_map(|id| self.deliveries.get(id)).cloned().collect();
        let by_name = rows
            .deliveries
            .iter()
            .filter(|known| wants.deliveries.contains(&known.id) || rows.deliveries_due.contains(&known.id));
        webhooks.extend(by_name.map(|known| known.to.key()));
        rows.webhooks = webhooks.iter().filter_map(|id| self.webhooks.get(id)).cloned().collect();
        if wants.signing_keys {
            rows.signing_keys = self.signing_keys.values().cloned().collect();
        }
    }

    /// The deliveries of a chain that are not settled, in order.
    pub(crate) fn open(&self, chain: Chain) -> Vec<DeliveryId> {
        let open = self.deliveries.values().filter(|known| known.chain() == Some(chain));
        let order: BTreeSet<_> = open.filter_map(|known| Some((known.position()?, known.id))).collect();
        order.into_iter().map(|(_, id)| id).collect()
    }

    pub(super) fn write_post(&mut self, changes: &Changes) {
        self.webhooks.extend(changes.webhooks.iter().map(|(id, webhook)| (*id, webhook.clone())));
        self.webhooks.retain(|id, _| !changes.webhooks_removed.contains(id));
        for delivery in &changes.deliveries {
            assert!(self.deliveries.insert(delivery.id, delivery.clone()).is_none(), "{delivery:?} is there");
        }
        for delivery in &changes.deliveries_changed {
            assert!(
                self.deliveries.insert(delivery.id, delivery.clone()).is_some(),
                "{delivery:?} is not there"
            );
        }
        let gone: BTreeSet<_> = changes.forgotten.iter().map(|forgotten| Some(forgotten.job)).collect();
        self.deliveries.retain(|_, known| known.job().is_none() || !gone.contains(&known.job()));
        self.signing_keys.extend(changes.signing_keys.iter().map(|(id, key)| (*id, key.clone())));
        self.signing_keys.retain(|id, _| !changes.signing_keys_removed.contains(id));
    }

    pub(super) fn check_post(&self) {
        let chains: BTreeSet<Chain> = self.deliveries.values().filter_map(Delivery::chain).collect();
        for delivery in self.deliveries.values() {
            assert_eq!(invariants::delivery(delivery), Ok(()), "{delivery:?}");
            let job = delivery.job();
            assert!(job.is_none_or(|job| self.jobs.contains_key(&job)), "it outlived its job: {delivery:?}");
        }
        for chain in chains {
            let open = self.open(chain);
            let open = open.iter().map(|id| &self.deliveries[id]);
            assert_eq!(invariants::order(open.clone()), Ok(()), "{:?}", open.collect::<Vec<_>>());
        }
    }
}
