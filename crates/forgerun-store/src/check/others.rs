//! What is not a job: outcomes, results and their blobs, webhooks, deliveries, records, and rows that belong to nothing.

use std::collections::BTreeMap;

use forgerun_core::codec::Corrupt;
use forgerun_core::delivery::{Chain, Delivery};
use forgerun_core::id::{BlobId, DeliveryId, WebhookId};
use forgerun_core::invariants;
use forgerun_core::record::{Record, RecordKey, RecordKind};
use forgerun_core::set_aside::RowId;
use forgerun_core::time::Time;
use forgerun_core::webhook::Webhook;
use sha2::{Digest, Sha256};

use super::rows::{FIRST_ID, is_sealed};
use super::{BlobAnswer, BlobDigest, Cell, CheckedRow, Checker, FindingKind};
use crate::{BlobPlace, Error};

const SET_ASIDE: &str = "
    SELECT id, kind, reason
    FROM set_aside
";

const OUTCOMES: &str = "
    SELECT execution, job, digest, bytes
    FROM outcomes
    WHERE execution > $1
    ORDER BY execution
    LIMIT 200
";

/// Large results. The place is NULL if the row of the blob is gone, or given up.
const LARGE_RESULTS: &str = "
    SELECT results.execution, results.size, results.digest, results.blob, blobs.place
    FROM results LEFT JOIN blobs ON blobs.id = results.blob AND blobs.loose_at IS NULL
    WHERE results.blob IS NOT NULL AND results.execution > $1
    ORDER BY results.execution
    LIMIT 100
";

const WEBHOOKS: &str = "
    SELECT id, client, url, body
    FROM webhooks
    WHERE id > $1
    ORDER BY id
    LIMIT 500
";

const DELIVERIES: &str = "
    SELECT id, job, endpoint, status, place, due_at, settled_at, body
    FROM deliveries
    WHERE id > $1
    ORDER BY id
    LIMIT 500
";

const RECORDS: &str = "
    SELECT key, kind, grp, due_at, version, bytes
    FROM records
    WHERE kind = $1 AND key > $2
    ORDER BY key
    LIMIT 500
";

/// Rows that name a job or an execution that is not there.
const ORPHANS: [(FindingKind, &str, &str); 4] = [
    (
        FindingKind::OutcomeWithoutJob,
        "outcome",
        "SELECT execution FROM outcomes WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = outcomes.job) LIMIT 100",
    ),
    (
        FindingKind::ExecutionWithoutJob,
        "job of an execution",
        "SELECT job FROM executions WHERE NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = executions.job) LIMIT 100",
    ),
    (
        FindingKind::ResultWithoutOutcome,
        "result",
        "SELECT execution FROM results
         WHERE NOT EXISTS (SELECT 1 FROM outcomes WHERE outcomes.execution = results.execution) LIMIT 100",
    ),
    (
        FindingKind::DeliveryWithoutJob,
        "delivery",
        "SELECT id FROM deliveries
         WHERE job IS NOT NULL AND NOT EXISTS (SELECT 1 FROM jobs WHERE jobs.id = deliveries.job) LIMIT 100",
    ),
];

impl Checker<'_> {
    pub(super) async fn set_aside(&mut self) -> Result<(), Error> {
        for row in self.source.rows(SET_ASIDE, &[]).await? {
            let kind = row.number(1)?.and_then(|kind| u8::try_from(kind).ok()).ok_or(Corrupt)?;
            let id = RowId::from_parts(kind, row.id(0)?).ok_or(Corrupt)?;
            self.aside.insert(id);
            let what = match id {
                RowId::Job(_) => "job",
                RowId::Delivery(_) => "delivery",
            };
            self.find(FindingKind::SetAside, format_args!("{what} {}", row.shown(0)), row.text(2)?);
        }
        Ok(())
    }

    pub(super) async fn outcomes(&mut self) -> Result<(), Error> {
        let mut after = FIRST_ID;
        loop {
            let rows = self.source.rows(OUTCOMES, std::slice::from_ref(&after)).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.key();
            for row in &rows {
                self.report.n_outcomes += 1;
                let is_right = row
                    .bytes(3)
                    .is_ok_and(|bytes| is_sealed(bytes) || row.bytes(2) == Ok(&Sha256::digest(bytes)[..]));
                if !is_right {
                    let subject = format!("outcome {} of job {}", row.shown(0), row.shown(1));
                    self.find(FindingKind::OutcomeDigest, subject, "its bytes have another digest");
                }
            }
        }
    }

    pub(super) async fn results(&mut self) -> Result<(), Error> {
        let mut after = FIRST_ID;
        loop {
            let rows = self.source.rows(LARGE_RESULTS, std::slice::from_ref(&after)).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.key();
            for row in &rows {
                self.report.n_results += 1;
                self.large_result(row).await?;
            }
        }
    }

    async fn large_result(&mut self, row: &CheckedRow) -> Result<(), Error> {
        let subject = format!("result of execution {}, blob {}", row.shown(0), row.shown(3));
        let Some(place) = row.number(4)?.and_then(|place| i16::try_from(place).ok()) else {
            self.find(FindingKind::BlobMissing, subject, "no row says where it is");
            return Ok(());
        };
        let blob = BlobId::from_u128(row.id(3)?);
        match self.source.blob(blob, BlobPlace::of(place)?).await? {
            BlobAnswer::Missing => self.find(FindingKind::BlobMissing, subject, "its bytes are gone"),
            BlobAnswer::OutOfReach => {
                let detail = "it is in an object store, and none is configured (results.store)";
                self.find(FindingKind::BlobMissing, subject, detail);
            }
            BlobAnswer::Read(BlobDigest { is_sealed: true, .. }) => {}
            BlobAnswer::Read(BlobDigest { sha256, size, .. }) => {
                let sha256 = sha256.finalize();
                let is_right = row.is(1, i64::try_from(size).ok()) && row.bytes(2) == Ok(&sha256[..]);
                if !is_right {
                    self.find(FindingKind::BlobDigest, subject, "its bytes have another size or digest");
                }
            }
        }
        Ok(())
    }

    pub(super) async fn orphans(&mut self) -> Result<(), Error> {
        for (kind, what, sql) in ORPHANS {
            for row in self.source.rows(sql, &[]).await? {
                self.find(kind, format_args!("{what} {}", row.shown(0)), "belongs to nothing that is there");
            }
        }
        let sql = self.source.lost_inputs_sql();
        for row in self.source.rows(sql, &[]).await? {
            let subject = format!("input {}", row.shown(0));
            self.find(FindingKind::InputWithoutJob, subject, "belongs to no job");
        }
        Ok(())
    }

    pub(super) async fn webhooks(&mut self) -> Result<(), Error> {
        let mut after = FIRST_ID;
        loop {
            let rows = self.source.rows(WEBHOOKS, std::slice::from_ref(&after)).await?;
            let Some(last) = rows.last() else { return Ok(()) };
            after = last.key();
            for row in &rows {
                let subject = format!("webhook {}", row.shown(0));
                let read = || Webhook::decode(WebhookId::from_u128(row.id(0)?), row.bytes(3)?);
                match read() {
                    Err(Corrupt) => self.find(FindingKind::WebhookUnreadable, subject, "cannot be decoded"),
                    Ok(webhook) => {
                        if !row.is(1, webhook.client.to_bytes()) || !row.is(2, webhook.url.as_str()) {
                            let detail = "its columns disagree with it: client or url";
                            self.find(FindingKind::WebhookColumns, subject, detail);
                        }
                    }
                }
            }
        }
    }

    pub(super) async fn deliveries(&mut self) -> Result<(), Error> {
        let mut after = FIRST_ID;
        let mut open: BTreeMap<Chain, BTreeMap<u32, Delivery>> = BTreeMap::new();
        loop {
            let rows = self.source.rows(DELIVERIES, std::slice::from_ref(&after)).await?;
            let Some(last) = rows.last() else { break };
            after = last.key();
            for row in &rows {
                self.report.n_deliveries += 1;
                let Some(delivery) = self.delivery(row) else { continue };
                if let Some((chain, place)) = delivery.chain().zip(delivery.position()) {
                    open.entry(chain).or_default().insert(place, delivery);
                }
            }
        }
        for (chain, deliveries) in open {
            if let Err(broken) = invariants::order(deliveries.values()) {
                let subject = format!("deliveries of job {} to {}", chain.job, chain.endpoint);
                self.find(FindingKind::DeliveryOrder, subject, format_args!("violates: {}", broken.0));
            }
        }
        Ok(())
    }

    fn delivery(&mut self, row: &CheckedRow) -> Option<Delivery> {
        let subject = format!("delivery {}", row.shown(0));
        let read = || {
            let id = DeliveryId::from_u128(row.id(0)?);
            Delivery::decode(id, row.bytes(7)?)
        };
        let Ok(delivery) = read() else {
            self.find(FindingKind::DeliveryUnreadable, subject, "cannot be decoded");
            return None;
        };
        if let Err(broken) = invariants::delivery(&delivery) {
            self.find(FindingKind::DeliveryRule, &subject, format_args!("violates: {}", broken.0));
        }
        let columns = [
            ("job", row.is(1, delivery.job().map(|job| job.to_bytes()))),
            ("endpoint", row.is(2, delivery.to.key().to_bytes())),
            ("status", row.is(3, delivery.status() as i64)),
            ("place", row.is(4, delivery.position().map(i64::from))),
            ("due_at", row.is(5, delivery.due_at().map(Time::as_micros))),
            ("settled_at", row.is(6, delivery.settled_at().map(Time::as_micros))),
        ];
        let wrong: Vec<&str> =
            columns.into_iter().filter(|(_, agrees)| !agrees).map(|(name, _)| name).collect();
        if !wrong.is_empty() && !self.aside.contains(&RowId::Delivery(delivery.id)) {
            let detail = format!("columns that disagree with the delivery: {}", wrong.join(", "));
            self.find(FindingKind::DeliveryColumns, subject, detail);
        }
        Some(delivery)
    }

    pub(super) async fn records(&mut self) -> Result<(), Error> {
        for kind in (0..=u8::MAX).filter_map(RecordKind::from_u8) {
            let mut after = Cell::from("");
            loop {
                let values = [Cell::Number(kind as i64), after.clone()];
                let rows = self.source.rows(RECORDS, &values).await?;
                let Some(last) = rows.last() else { break };
                after = last.key();
                for row in &rows {
                    self.report.n_records += 1;
                    self.record(kind, row);
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, kind: RecordKind, row: &CheckedRow) {
        let subject = format!("{kind:?} record {:?}", row.shown(0));
        let read = || {
            Ok::<Record, Corrupt>(Record {
                key: RecordKey { kind, key: row.text(0)?.to_owned() },
                group: row.text(2)?.to_owned(),
                due_at: row.number(3)?.map(Time::from_micros),
                version: row.number(4)?.unwrap_or_default().cast_unsigned(),
                bytes: row.bytes(5)?.to_vec(),
            })
        };
        let agrees = |record: Record| if is_sealed(&record.bytes) { Ok(true) } else { record.agrees() };
        match read().and_then(agrees) {
            Ok(true) => {}
            Ok(false) => {
                self.find(FindingKind::RecordColumns, subject, "its columns disagree with it: grp or due_at");
            }
            Err(Corrupt) => self.find(FindingKind::RecordUnreadable, subject, "cannot be decoded"),
        }
    }
}
