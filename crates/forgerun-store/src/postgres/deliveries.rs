//! Webhooks, deliveries and signing keys: loaded in a trip of their own, if a batch concerns any, and written as columns.
//!
//! Whether it does is known after the first trip, which also asks whether there are webhooks at all.

use std::collections::BTreeSet;

use forgerun_core::delivery::Delivery;
use forgerun_core::id::{DeliveryId, WebhookId};
use forgerun_core::set_aside::{RowId, Unreadable};
use forgerun_core::time::Time;
use forgerun_core::webhook::{SigningKey, Webhook};
use forgerun_core::{Changes, Rows, Wants, related};
use tokio_postgres::Row;

use super::connect::Connection;
use super::load::cell;
use super::pipeline::Pipeline;
use super::sql::Sql;
use super::transact::{FailedTry, StatementRunner};
use super::value::Uuid;
use crate::error::readable;
use crate::{Error, Fault};

/// What a statement was sent for.
enum DeliveryStatement {
    Lock,
    Webhooks,
    WebhooksOfClients,
    /// Deliveries that a command names.
    Named,
    Deliveries,
    DueDeliveries,
    SigningKeys,
}

/// Loads what is wanted and its related rows, once the jobs are loaded. `webhooks_exist` tells whether there are any.
pub(super) async fn load(
    connection: &Connection,
    stage: &StatementRunner<'_>,
    wants: &Wants,
    webhooks_exist: bool,
    rows: &mut Rows,
) -> Result<(), FailedTry> {
    // The webhooks are not loaded yet: the database joins them with the jobs.
    let chains = related::chains(wants, &rows.jobs, &[]);
    let told = rows.jobs.iter().filter(|_| webhooks_exist);
    let (told_jobs, told_clients): (Vec<Uuid>, Vec<Uuid>) =
        told.map(|job| (Uuid::from(job.id), Uuid::from(job.head.client))).unzip();
    let clients: Vec<Uuid> = related::webhooks_of(wants, &rows.jobs).into_iter().map(Uuid::from).collect();
    let chain_jobs: Vec<Uuid> = chains.keys().map(|chain| chain.job.into()).collect();
    let chain_endpoints: Vec<Uuid> = chains.keys().map(|chain| chain.endpoint.into()).collect();
    let most: Vec<i64> = chains.values().map(|&n| n as i64).collect();
    let deliveries: Vec<Uuid> = wants.deliveries.iter().map(|&id| id.into()).collect();
    let webhooks: Vec<Uuid> = wants.webhooks.iter().map(|&id| id.into()).collect();
    let due = wants.deliveries_due.map(|due| (due.now.as_micros(), due.limit as i64));
    let failed = wants.deliveries_failed.iter();
    let failed: Vec<(i64, Uuid, i64)> =
        failed.map(|want| (want.since.as_micros(), want.webhook.into(), want.limit as i64)).collect();

    let mut parts = Vec::new();
    let mut pipeline = Pipeline::new(connection);
    if !chains.is_empty() || !told_jobs.is_empty() {
        pipeline.push(Sql::LockChains, [&chain_jobs, &chain_endpoints, &told_jobs, &told_clients]);
        pipeline.push(Sql::FindChains, [&chain_jobs, &chain_endpoints, &told_jobs, &told_clients, &most]);
        parts.extend([DeliveryStatement::Lock, DeliveryStatement::Deliveries]);
    }
    if !deliveries.is_empty() {
        pipeline.push(Sql::LockDeliveries, [&deliveries]);
        parts.push(DeliveryStatement::Named);
    }
    if !webhooks.is_empty() {
        pipeline.push(Sql::LockWebhooks, [&webhooks]);
        parts.push(DeliveryStatement::Webhooks);
    }
    if webhooks_exist && !clients.is_empty() {
        pipeline.push(Sql::FindWebhooksOf, [&clients]);
        parts.push(DeliveryStatement::WebhooksOfClients);
    }
    for (since, webhook, n) in &failed {
        pipeline.push(Sql::LockFailedDeliveries, [since, webhook, n]);
        parts.push(DeliveryStatement::Deliveries);
    }
    if let Some((now, n)) = &due {
        pipeline.push(Sql::LockDueDeliveries, [now, n]);
        parts.push(DeliveryStatement::DueDeliveries);
    }
    if wants.signing_keys {
        pipeline.push(Sql::LockSigningKeys, []);
        pipeline.push(Sql::FindSigningKeys, []);
        parts.extend([DeliveryStatement::Lock, DeliveryStatement::SigningKeys]);
    }
    if parts.is_empty() {
        return Ok(());
    }
    let mut found = FoundDeliveries { webhooks: BTreeSet::new(), deliveries: BTreeSet::new(), rows };
    for (part, answer) in parts.into_iter().zip(stage.load(pipeline).await?) {
        found.take(&part, &answer).map_err(FailedTry::open)?;
    }
    found.take_behind(connection, stage).await
}

struct FoundDeliveries<'a> {
    webhooks: BTreeSet<WebhookId>,
    deliveries: BTreeSet<DeliveryId>,
    rows: &'a mut Rows,
}

impl FoundDeliveries<'_> {
    fn take(&mut self, part: &DeliveryStatement, rows: &[Row]) -> Result<(), Error> {
        match part {
            DeliveryStatement::Lock => {}
            DeliveryStatement::Webhooks => {
                rows.iter().try_for_each(|row| self.take_webhook(read_webhook(row, 0)?))?
            }
            DeliveryStatement::WebhooksOfClients => {
                for row in rows {
                    if let Some(webhook) = readable(read_webhook(row, 0).map(Some))? {
                        self.take_webhook(webhook)?;
                    }
                }
            }
            DeliveryStatement::Named => rows.iter().try_for_each(|row| self.take_delivery(row))?,
            DeliveryStatement::Deliveries => drop(self.take_deliveries(rows)?),
            DeliveryStatement::DueDeliveries => self.rows.deliveries_due = self.take_deliveries(rows)?,
            DeliveryStatement::SigningKeys => {
                self.rows.signing_keys = rows.iter().map(read_signing_key).collect::<Result<_, _>>()?;
            }
        }
        Ok(())
    }

    fn take_webhook(&mut self, webhook: Webhook) -> Result<(), Error> {
        if self.webhooks.insert(webhook.id) {
            self.rows.webhooks.push(webhook);
        }
        Ok(())
    }

    /// A delivery, and its webhook where the row has it.
    fn take_delivery(&mut self, row: &Row) -> Result<(), Error> {
        let delivery = read_delivery(row)?;
        if self.deliveries.insert(delivery.id) {
            self.rows.deliveries.push(delivery);
        }
        if row.len() > 2
            && cell::<Option<Uuid>>(row, 2)?.is_some()
            && let Some(webhook) = readable(read_webhook(row, 2).map(Some))?
        {
            self.take_webhook(webhook)?;
        }
        Ok(())
    }

    /// The same for deliveries that were met; notes those that cannot be read, and returns the ids of all.
    fn take_deliveries(&mut self, rows: &[Row]) -> Result<Vec<DeliveryId>, Error> {
        let mut ids = Vec::with_capacity(rows.len());
        for row in rows {
            let id: DeliveryId = cell::<Uuid>(row, 0)?.into();
            ids.push(id);
            match self.take_delivery(row) {
                Err(error) if error.fault == Fault::Corrupt => self.note(id, &error),
                taken => taken?,
            }
        }
        Ok(ids)
    }

    fn note(&mut self, id: DeliveryId, error: &Error) {
        let row = RowId::Delivery(id);
        if self.rows.unreadable.iter().all(|known| known.row != row) {
            self.rows.unreadable.push(Unreadable { row, reason: error.to_string(), next: None });
        }
    }

    /// What waits for a delivery that cannot be read: hardly ever worth this trip.
    async fn take_behind(
        mut self,
        connection: &Connection,
        stage: &StatementRunner<'_>,
    ) -> Result<(), FailedTry> {
        let deliveries = |unreadable: &Unreadable| match unreadable.row {
            RowId::Delivery(id) => Some(Uuid::from(id)),
            RowId::Job(_) => None,
        };
        let ids: Vec<Uuid> = self.rows.unreadable.iter().filter_map(deliveries).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let mut pipeline = Pipeline::new(connection);
        pipeline.push(Sql::FindBehind, [&ids]);
        let found = stage.load(pipeline).await?.pop().unwrap_or_default();
        found.iter().try_for_each(|row| self.take_next(row)).map_err(FailedTry::open)
    }

    /// From `id, next id, next body`.
    fn take_next(&mut self, row: &Row) -> Result<(), Error> {
        let first: DeliveryId = cell::<Uuid>(row, 0)?.into();
        let next: DeliveryId = cell::<Uuid>(row, 1)?.into();
        let read = Delivery::decode(next, cell(row, 2)?).map(Some);
        let Some(delivery) = readable(read.map_err(Error::from))? else { return Ok(()) };
        let waits = |known: &&mut Unreadable| known.row == RowId::Delivery(first);
        if let Some(known) = self.rows.unreadable.iter_mut().find(waits) {
            known.next = Some(next);
        }
        if self.deliveries.insert(next) {
            self.rows.deliveries.push(delivery);
        }
        Ok(())
    }
}

/// A webhook from `id, body`, from this column on.
pub(super) fn read_webhook(row: &Row, first: usize) -> Result<Webhook, Error> {
    Ok(Webhook::decode(cell::<Uuid>(row, first)?.into(), cell(row, first + 1)?)?)
}

/// A delivery from `id, body`.
pub(super) fn read_delivery(row: &Row) -> Result<Delivery, Error> {
    read_delivery_at(row, 0)
}

/// The same, from this column on.
pub(super) fn read_delivery_at(row: &Row, first: usize) -> Result<Delivery, Error> {
    Ok(Delivery::decode(cell::<Uuid>(row, first)?.into(), cell(row, first + 1)?)?)
}

/// A key from `id, seed, created_at, retired_at`.
pub(super) fn read_signing_key(row: &Row) -> Result<SigningKey, Error> {
    Ok(SigningKey {
        id: cell::<Uuid>(row, 0)?.into(),
        seed: cell(row, 1)?,
        created_at: Time::from_micros(cell(row, 2)?),
        retired_at: cell::<Option<i64>>(row, 3)?.map(Time::from_micros),
    })
}

/// What a batch changes about webhooks, as columns.
pub(super) struct WebhookColumns<'a> {
    webhooks: Vec<Uuid>,
    clients: Vec<Uuid>,
    urls: Vec<&'a str>,
    bodies: Vec<Vec<u8>>,
    removed: Vec<Uuid>,
    jobs: Vec<Option<Uuid>>,
    endpoints: Vec<Uuid>,
    new: DeliveryColumns,
    changed: DeliveryColumns,
    keys: Vec<Uuid>,
    seeds: Vec<&'a [u8]>,
    created_at: Vec<i64>,
    retired_at: Vec<Option<i64>>,
    keys_removed: Vec<Uuid>,
}

/// What of a delivery can change.
struct DeliveryColumns {
    ids: Vec<Uuid>,
    statuses: Vec<i16>,
    places: Vec<Option<i64>>,
    due_at: Vec<Option<i64>>,
    settled_at: Vec<Option<i64>>,
    bodies: Vec<Vec<u8>>,
}

impl DeliveryColumns {
    fn new(deliveries: &[Delivery]) -> DeliveryColumns {
        let all = || deliveries.iter();
        let moment = |at: Option<Time>| at.map(Time::as_micros);
        DeliveryColumns {
            ids: all().map(|delivery| delivery.id.into()).collect(),
            statuses: all().map(|delivery| delivery.status() as i16).collect(),
            places: all().map(|delivery| delivery.position().map(i64::from)).collect(),
            due_at: all().map(|delivery| moment(delivery.due_at())).collect(),
            settled_at: all().map(|delivery| moment(delivery.settled_at())).collect(),
            bodies: all().map(Delivery::encode).collect(),
        }
    }
}

impl<'a> WebhookColumns<'a> {
    pub(super) fn new(changes: &'a Changes) -> WebhookColumns<'a> {
        let webhooks = || changes.webhooks.values();
        let keys = || changes.signing_keys.values();
        WebhookColumns {
            webhooks: webhooks().map(|webhook| webhook.id.into()).collect(),
            clients: webhooks().map(|webhook| webhook.client.into()).collect(),
            urls: webhooks().map(|webhook| webhook.url.as_str()).collect(),
            bodies: webhooks().map(Webhook::encode).collect(),
            removed: changes.webhooks_removed.iter().map(|&id| id.into()).collect(),
            jobs: changes.deliveries.iter().map(|delivery| delivery.job().map(Uuid::from)).collect(),
            endpoints: changes.deliveries.iter().map(|delivery| delivery.to.key().into()).collect(),
            new: DeliveryColumns::new(&changes.deliveries),
            changed: DeliveryColumns::new(&changes.deliveries_changed),
            keys: keys().map(|key| key.id.into()).collect(),
            seeds: keys().map(|key| key.seed.as_slice()).collect(),
            created_at: keys().map(|key| key.created_at.as_micros()).collect(),
            retired_at: keys().map(|key| key.retired_at.map(Time::as_micros)).collect(),
            keys_removed: changes.signing_keys_removed.iter().map(|&id| id.into()).collect(),
        }
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.new.ids.is_empty() {
            let DeliveryColumns { ids, statuses, places, due_at, settled_at, bodies } = &self.new;
            let (jobs, endpoints) = (&self.jobs, &self.endpoints);
            pipeline.push(
                Sql::InsertDeliveries,
                [ids, jobs, endpoints, statuses, places, due_at, settled_at, bodies],
            );
        }
        if !self.changed.ids.is_empty() {
            let DeliveryColumns { ids, statuses, places, due_at, settled_at, bodies } = &self.changed;
            pipeline.push(Sql::UpdateDeliveries, [ids, statuses, places, due_at, settled_at, bodies]);
        }
        if !self.removed.is_empty() {
            pipeline.push(Sql::DeleteWebhooks, [&self.removed]);
        }
        if !self.webhooks.is_empty() {
            pipeline.push(Sql::SetWebhooks, [&self.webhooks, &self.clients, &self.urls, &self.bodies]);
        }
        if !self.keys_removed.is_empty() {
            pipeline.push(Sql::DeleteSigningKeys, [&self.keys_removed]);
        }
        if !self.keys.is_empty() {
            let (created_at, retired_at) = (&self.created_at, &self.retired_at);
            pipeline.push(Sql::SetSigningKeys, [&self.keys, &self.seeds, created_at, retired_at]);
        }
    }
}
