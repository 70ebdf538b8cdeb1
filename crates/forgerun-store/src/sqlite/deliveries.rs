//! Webhooks, deliveries and signing keys: all that is read and written of them.

use std::collections::BTreeSet;

use forgerun_core::codec::Corrupt;
use forgerun_core::delivery::{Chain, Delivery};
use forgerun_core::id::{ClientId, DeliveryId, SigningKeyId, WebhookId};
use forgerun_core::set_aside::{RowId, Unreadable};
use forgerun_core::time::Time;
use forgerun_core::webhook::{SigningKey, Webhook};
use forgerun_core::{Changes, Rows, Wants, related};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::cells;
use super::load::sql_limit;
use super::many::many;
use super::statements::statements;
use crate::Error;
use crate::error::readable;

statements! {
    WEBHOOK = "
        SELECT id, body
        FROM webhooks
        WHERE id = ?1
    ";

    /// Asked with every batch that tells something. Nearly always the table is empty, and one look says so for all clients.
    ANY_WEBHOOK = "
        SELECT 1
        FROM webhooks
        LIMIT 1
    ";

    WEBHOOKS_OF_CLIENT = "
        SELECT id, body
        FROM webhooks INDEXED BY webhooks_client
        WHERE client = ?1
    ";

    PUT_WEBHOOK = "
        INSERT INTO webhooks (id, client, url, body)
        VALUES (?1, ?2, ?3, ?4)
        ON CONFLICT (id) DO UPDATE SET url = excluded.url, body = excluded.body
    ";

    DELETE_WEBHOOK = "
        DELETE FROM webhooks
        WHERE id = ?1
    ";

    DELIVERY = "
        SELECT id, body
        FROM deliveries
        WHERE id = ?1
    ";

    /// Along `deliveries_chain`, which has what is not settled only.
    CHAIN = "
        SELECT id, body
        FROM deliveries INDEXED BY deliveries_chain
        WHERE job = ?1 AND endpoint = ?2 AND place IS NOT NULL
        ORDER BY place
        LIMIT ?3
    ";

    /// Walks `deliveries_due` from the longest due.
    DUE = "
        SELECT id, body
        FROM deliveries INDEXED BY deliveries_due
        WHERE due_at <= ?1
        ORDER BY due_at, id
        LIMIT ?2
    ";

    /// What comes after a delivery in its chain.
    BEHIND = "
        SELECT next.id, next.body
        FROM deliveries AS first
            JOIN deliveries AS next INDEXED BY deliveries_chain
                ON next.job = first.job AND next.endpoint = first.endpoint AND next.place > first.place
        WHERE first.id = ?1
        ORDER BY next.place
        LIMIT 1
    ";

    /// Along `deliveries_failed`; 2 stands for given up.
    FAILED = "
        SELECT id, body
        FROM deliveries INDEXED BY deliveries_failed
        WHERE settled_at >= ?1 AND endpoint = ?2 AND status = 2
        ORDER BY settled_at, id
        LIMIT ?3
    ";

    INSERT_DELIVERY = "
        INSERT OR FAIL INTO deliveries (id, job, endpoint, status, place, due_at, settled_at, body)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?)
    ";

    UPDATE_DELIVERY = "
        UPDATE deliveries
        SET status = ?2, place = ?3, due_at = ?4, settled_at = ?5, body = ?6
        WHERE id = ?1
    ";

    DELETE_OF_JOB = "
        DELETE FROM deliveries
        WHERE job = ?1
    ";

    NEXT_DELIVERY = "
        SELECT due_at
        FROM deliveries INDEXED BY deliveries_due
        WHERE due_at IS NOT NULL
        ORDER BY due_at
        LIMIT 1
    ";

    /// Found on `deliveries_settled` alone.
    SWEEP_DELIVERIES = "
        DELETE FROM deliveries
        WHERE n IN (SELECT n FROM deliveries WHERE settled_at < ?1 ORDER BY settled_at LIMIT ?2)
    ";

    SIGNING_KEYS = "
        SELECT id, seed, created_at, retired_at
        FROM signing_keys
        ORDER BY id
    ";

    PUT_SIGNING_KEY = "
        INSERT OR REPLACE INTO signing_keys (id, seed, created_at, retired_at)
        VALUES (?1, ?2, ?3, ?4)
    ";

    DELETE_SIGNING_KEY = "
        DELETE FROM signing_keys
        WHERE id = ?1
    ";
}

/// Loads what is wanted and its related rows, once the jobs are loaded.
pub(super) fn load(db: &Connection, wants: &Wants, rows: &mut Rows) -> Result<(), Error> {
    let mut found = FoundDeliveries { db, webhooks: BTreeSet::new(), deliveries: BTreeSet::new(), rows };
    found.webhooks(wants)?;
    found.chains(wants)?;
    found.named(wants)?;
    if wants.signing_keys {
        found.rows.signing_keys = signing_keys(db)?;
    }
    Ok(())
}

struct FoundDeliveries<'a> {
    db: &'a Connection,
    webhooks: BTreeSet<WebhookId>,
    deliveries: BTreeSet<DeliveryId>,
    rows: &'a mut Rows,
}

impl FoundDeliveries<'_> {
    /// The webhooks asked for, and those of the clients whose jobs are here.
    fn webhooks(&mut self, wants: &Wants) -> Result<(), Error> {
        let clients = related::webhooks_of(wants, &self.rows.jobs);
        let wanted = !clients.is_empty() || !wants.webhooks.is_empty();
        if !wanted || !self.db.prepare_cached(ANY_WEBHOOK)?.exists([])? {
            return Ok(());
        }
        for client in clients {
            self.take_webhooks(all_readable(
                self.db,
                WEBHOOKS_OF_CLIENT,
                params![client.to_bytes()],
                webhook,
            )?);
        }
        for id in &wants.webhooks {
            self.webhook(*id)?;
        }
        Ok(())
    }

    fn webhook(&mut self, id: WebhookId) -> Result<(), Error> {
        if id != WebhookId::CALLBACK && !self.webhooks.contains(&id) {
            self.take_webhooks(all(self.db, WEBHOOK, params![id.to_bytes()], webhook)?);
        }
        Ok(())
    }

    fn take_webhooks(&mut self, webhooks: Vec<Webhook>) {
        let new = webhooks.into_iter().filter(|webhook| self.webhooks.insert(webhook.id));
        self.rows.webhooks.extend(new);
    }

    fn chains(&mut self, wants: &Wants) -> Result<(), Error> {
        for (Chain { job, endpoint }, n) in related::chains(wants, &self.rows.jobs, &self.rows.webhooks) {
            let chain = params![job.to_bytes(), endpoint.to_bytes(), sql_limit(n)];
            self.meet(CHAIN, chain)?;
        }
        Ok(())
    }

    /// Deliveries by id and by moment, with their webhooks; and those that failed.
    fn named(&mut self, wants: &Wants) -> Result<(), Error> {
        let mut endpoints: BTreeSet<WebhookId> = BTreeSet::new();
        for id in &wants.deliveries {
            let found = all(self.db, DELIVERY, params![id.to_bytes()], delivery)?;
            endpoints.extend(found.iter().map(|known| known.to.key()));
            found.into_iter().for_each(|delivery| self.take(delivery));
        }
        if let Some(due) = wants.deliveries_due {
            let found = self.meet(DUE, params![due.now.as_micros(), sql_limit(due.limit)])?;
            let met = self.rows.deliveries.iter().filter(|known| found.contains(&known.id));
            endpoints.extend(met.map(|known| known.to.key()));
            self.rows.deliveries_due = found;
        }
        for want in &wants.deliveries_failed {
            let values = params![want.since.as_micros(), want.webhook.to_bytes(), sql_limit(want.limit)];
            self.meet(FAILED, values)?;
        }
        endpoints.into_iter().try_for_each(|id| self.webhook(id))
    }

    /// Takes every delivery that the statement finds, notes those that cannot be read, and gives the ids of all in its order.
    fn meet(&mut self, sql: &str, params: impl Params) -> Result<Vec<DeliveryId>, Error> {
        let both = |row: &Row<'_>| {
            let id = DeliveryId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?;
            Ok((id, Delivery::decode(id, cells::bytes(row, 1)?)))
        };
        let mut ids = Vec::new();
        for (id, read) in all(self.db, sql, params, both)? {
            ids.push(id);
            match read {
                Ok(delivery) => self.take(delivery),
                Err(Corrupt) => self.note(id)?,
            }
        }
        Ok(ids)
    }

    fn take(&mut self, delivery: Delivery) {
        if self.deliveries.insert(delivery.id) {
            self.rows.deliveries.push(delivery);
        }
    }

    /// Notes a delivery that cannot be read, and takes what waits for it.
    fn note(&mut self, id: DeliveryId) -> Result<(), Error> {
        let row = RowId::Delivery(id);
        if self.rows.unreadable.iter().any(|known| known.row == row) {
            return Ok(());
        }
        let next = all_readable(self.db, BEHIND, params![id.to_bytes()], delivery)?.pop();
        let reason = Error::from(Corrupt).to_string();
        self.rows.unreadable.push(Unreadable { row, reason, next: next.as_ref().map(|next| next.id) });
        next.into_iter().for_each(|next| self.take(next));
        Ok(())
    }
}

/// Writes everything about webhooks; comes before jobs are forgotten, whose deliveries go with them.
pub(super) fn write(db: &Connection, changes: &Changes) -> Result<(), Error> {
    for id in &changes.webhooks_removed {
        db.prepare_cached(DELETE_WEBHOOK)?.execute(params![id.to_bytes()])?;
    }
    for webhook in changes.webhooks.values() {
        let row = params![webhook.id.to_bytes(), webhook.client.to_bytes(), webhook.url, webhook.encode()];
        db.prepare_cached(PUT_WEBHOOK)?.execute(row)?;
    }
    many(db, INSERT_DELIVERY, &changes.deliveries, |row, delivery| {
        row.put(delivery.id.to_bytes())?;
        row.put(delivery.job().map(|job| job.to_bytes()))?;
        row.put(delivery.to.key().to_bytes())?;
        row.put(delivery.status() as u8)?;
        row.put(delivery.position())?;
        row.put(delivery.due_at().map(Time::as_micros))?;
        row.put(delivery.settled_at().map(Time::as_micros))?;
        row.put(delivery.encode())
    })?;
    for delivery in &changes.deliveries_changed {
        db.prepare_cached(UPDATE_DELIVERY)?.execute(params![
            delivery.id.to_bytes(),
            delivery.status() as u8,
            delivery.position(),
            delivery.due_at().map(Time::as_micros),
            delivery.settled_at().map(Time::as_micros),
            delivery.encode(),
        ])?;
    }
    for forgotten in &changes.forgotten {
        db.prepare_cached(DELETE_OF_JOB)?.execute(params![forgotten.job.to_bytes()])?;
    }
    for id in &changes.signing_keys_removed {
        db.prepare_cached(DELETE_SIGNING_KEY)?.execute(params![id.to_bytes()])?;
    }
    for key in changes.signing_keys.values() {
        let retired_at = key.retired_at.map(Time::as_micros);
        let row = params![key.id.to_bytes(), key.seed, key.created_at.as_micros(), retired_at];
        db.prepare_cached(PUT_SIGNING_KEY)?.execute(row)?;
    }
    Ok(())
}

/// Deletes at most `limit` deliveries settled before this, and says how many.
pub(super) fn sweep(db: &Connection, before: Time, limit: i64) -> Result<usize, Error> {
    Ok(db.prepare_cached(SWEEP_DELIVERIES)?.execute(params![before.as_micros(), limit])?)
}

/// The webhook with this id.
pub(super) fn webhook_by_id(db: &Connection, id: WebhookId) -> Result<Option<Webhook>, Error> {
    Ok(all(db, WEBHOOK, params![id.to_bytes()], webhook)?.pop())
}

/// A page of the webhooks of a client. There are few, so they are sorted here.
pub(super) fn webhooks_of(
    db: &Connection,
    client: ClientId,
    after: Option<WebhookId>,
    limit: usize,
) -> Result<Vec<Webhook>, Error> {
    let mut webhooks = all(db, WEBHOOKS_OF_CLIENT, params![client.to_bytes()], webhook)?;
    webhooks.retain(|webhook| Some(webhook.id) > after);
    webhooks.sort_unstable_by_key(|webhook| webhook.id);
    webhooks.truncate(limit);
    Ok(webhooks)
}

/// The webhooks that a statement finds and that can be read.
pub(super) fn webhooks_found(db: &Connection, sql: &str, params: impl Params) -> Result<Vec<Webhook>, Error> {
    all_readable(db, sql, params, webhook)
}

/// The delivery with this id.
pub(super) fn delivery_by_id(db: &Connection, id: DeliveryId) -> Result<Option<Delivery>, Error> {
    Ok(all(db, DELIVERY, params![id.to_bytes()], delivery)?.pop())
}

/// When a delivery is due next.
pub(super) fn next_due(db: &Connection) -> Result<Option<Time>, Error> {
    let read = |row: &Row<'_>| Ok(Time::from_micros(row.get(0)?));
    Ok(db.prepare_cached(NEXT_DELIVERY)?.query_row([], read).optional()?)
}

/// All keys to sign with, oldest first.
pub(super) fn signing_keys(db: &Connection) -> Result<Vec<SigningKey>, Error> {
    all(db, SIGNING_KEYS, [], |row| {
        Ok(SigningKey {
            id: SigningKeyId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?,
            seed: cells::bytes(row, 1)?.to_vec(),
            created_at: Time::from_micros(row.get(2)?),
            retired_at: row.get::<_, Option<i64>>(3)?.map(Time::from_micros),
        })
    })
}

fn webhook(row: &Row<'_>) -> Result<Webhook, Error> {
    let id = WebhookId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?;
    Ok(Webhook::decode(id, cells::bytes(row, 1)?)?)
}

fn delivery(row: &Row<'_>) -> Result<Delivery, Error> {
    let id = DeliveryId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?;
    Ok(Delivery::decode(id, cells::bytes(row, 1)?)?)
}

/// The same, without those that cannot be read.
fn all_readable<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    Ok(all(db, sql, params, |row| readable(read(row).map(Some)))?.into_iter().flatten().collect())
}

fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    db.prepare_cached(sql)?.query_and_then(params, read)?.collect()
}
