//! A batch on its way through: what it asks for, what it is given to see, and what it writes.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::id::{DeliveryId, JobId};
use forgerun_core::job::{Head, IdempotencyKey, Input, Job};
use forgerun_core::record::{Record, RecordChange, RecordKey};
use forgerun_core::rows::{KeyRow, Object, Outcome};
use forgerun_core::time::Time;
use forgerun_core::{Changes, Rows, Wants};

use super::Seals;
use super::contents::{RowSealer, Task, is_content};
use super::keys::{KeyRing, Subject};

/// Begins the operation of an idempotency key whose fingerprint is hidden. Operations have no control characters.
const HIDDEN: char = '\u{1}';

/// When a due record that no key opens is looked at again.
const LOOK_AGAIN: Duration = Duration::from_secs(3600);

/// What has to be known of a batch's wishes to read what it is given.
pub(super) struct Wishes {
    uniques: BTreeMap<[u8; 32], [u8; 32]>,
    now: Option<Time>,
}

/// Due records that no key opens: the rules would drop them.
pub(super) struct Unopened(Vec<Record>);

fn hidden_key(key: &IdempotencyKey) -> IdempotencyKey {
    IdempotencyKey { operation: format!("{HIDDEN}{}", key.operation), ..key.clone() }
}

impl Seals {
    /// Asks for both forms of each digest: rows from before encryption was on have the clear one.
    pub(super) fn hide_wishes(&self, wants: &mut Wants) -> Wishes {
        let uniques: BTreeMap<_, _> =
            wants.uniques.iter().map(|key| (self.digests.hide(key), *key)).collect();
        wants.uniques.extend(uniques.keys());
        let hidden: Vec<IdempotencyKey> = wants.keys.iter().map(hidden_key).collect();
        wants.keys.extend(hidden);
        Wishes { uniques, now: wants.due.map(|due| due.now) }
    }

    pub(super) fn open_rows(&self, wishes: &Wishes, rows: &mut Rows) -> Unopened {
        let mut uniques = wishes.uniques.clone();
        for job in &mut rows.jobs {
            if job.head.unique_hidden {
                uniques.extend(self.reveal(job));
            }
            self.job(job, Task::Open);
        }
        for (hidden, clear) in uniques {
            if let Some(holder) = rows.uniques.remove(&hidden) {
                rows.uniques.insert(clear, holder);
            }
        }
        let hidden: Vec<IdempotencyKey> =
            rows.keys.keys().filter(|key| key.operation.starts_with(HIDDEN)).cloned().collect();
        for key in hidden {
            let row = rows.keys.remove(&key).expect("it was there");
            let key = IdempotencyKey { operation: key.operation[HIDDEN.len_utf8()..].into(), ..key };
            let fingerprint = self.digests.reveal(&row.fingerprint);
            rows.keys.insert(key, KeyRow { fingerprint, ..row });
        }
        rows.records.values_mut().for_each(|record| self.record(record, Task::Open));
        rows.webhooks.iter_mut().for_each(|webhook| {
            self.worker(Task::Open, Subject::WebhookSecret, &webhook.id.to_bytes()).webhook(webhook);
        });
        rows.deliveries.iter_mut().for_each(|delivery| {
            self.worker(Task::Open, Subject::Delivery, &delivery.id.to_bytes()).delivery(delivery);
        });
        rows.signing_keys.iter_mut().for_each(|key| {
            self.worker(Task::Open, Subject::SigningSeed, &key.id.to_bytes()).bytes(&mut key.seed);
        });
        let due = rows.records_due.iter().filter_map(|key| rows.records.get(key));
        Unopened(due.filter(|record| self.is_unopened(record)).cloned().collect())
    }

    pub(super) fn seal_changes(&self, wishes: &Wishes, unopened: Unopened, changes: &mut Changes) {
        if !changes.more.is_empty() || !changes.exact.is_empty() {
            // It will be decided again.
            return;
        }
        if let Some(now) = wishes.now {
            changes.records.extend(unopened.0.into_iter().map(|record| put_off(record, now + LOOK_AGAIN)));
        }
        self.hide_digests(changes);
        if !self.ring.seals() {
            return;
        }
        for (job, input) in &mut changes.inserted {
            self.hide(job);
            self.job(job, Task::Seal);
            if !input.is_empty() {
                *input = Arc::new(self.sealed_input(job.id, input));
            }
        }
        for job in &mut changes.updated {
            self.hide(job);
            self.job(job, Task::Seal);
        }
        changes.outcomes.iter_mut().for_each(|outcome| self.seal_outcome(outcome));
        for result in &mut changes.results {
            let row = result.execution.to_bytes();
            result.output = self.worker(Task::Seal, Subject::Result, &row).output(&result.output);
        }
        for (execution, ends) in &mut changes.items {
            let mut sealed = ends.to_vec();
            self.worker(Task::Seal, Subject::Items, &execution.to_bytes()).items(&mut sealed);
            *ends = sealed.into();
        }
        for record in changes.records.values_mut().filter_map(|change| change.new.as_mut()) {
            self.record(record, Task::Seal);
        }
        self.seal_webhooks(changes);
    }

    fn seal_webhooks(&self, changes: &mut Changes) {
        for (id, webhook) in &mut changes.webhooks {
            self.worker(Task::Seal, Subject::WebhookSecret, &id.to_bytes()).webhook(webhook);
        }
        for (id, key) in &mut changes.signing_keys {
            self.worker(Task::Seal, Subject::SigningSeed, &id.to_bytes()).bytes(&mut key.seed);
        }
        let Changes { deliveries, deliveries_changed, .. } = changes;
        for delivery in deliveries.iter_mut().chain(deliveries_changed) {
            let id: DeliveryId = delivery.id;
            self.worker(Task::Seal, Subject::Delivery, &id.to_bytes()).delivery(delivery);
        }
    }

    /// Rows to delete may have either form.
    fn hide_digests(&self, changes: &mut Changes) {
        let removed: Vec<_> =
            changes.uniques_removed.iter().map(|(key, job)| (self.digests.hide(key), *job)).collect();
        changes.uniques_removed.extend(removed);
        let mut removed: Vec<_> = changes.keys_removed.iter().map(hidden_key).collect();
        if self.ring.seals() {
            let uniques = std::mem::take(&mut changes.uniques);
            changes.uniques = uniques.iter().map(|(key, job)| (self.digests.hide(key), *job)).collect();
            for (key, row) in &mut changes.keys {
                removed.push(key.clone());
                *key = hidden_key(key);
                row.fingerprint = self.digests.hide(&row.fingerprint);
            }
        }
        changes.keys_removed.extend(removed);
    }

    /// Hides the digest in the head of a job.
    fn hide(&self, job: &mut Job) {
        let Some(unique) = job.head.unique.as_ref().filter(|_| !job.head.unique_hidden) else { return };
        let unique =
            Some(forgerun_core::job::Unique { key: self.digests.hide(&unique.key), ..unique.clone() });
        job.head = Arc::new(Head { unique, unique_hidden: true, ..Head::clone(&job.head) });
    }

    /// The inverse of [`Self::hide`]. Returns the digest as it was hidden, and as it is.
    pub(super) fn reveal(&self, job: &mut Job) -> Option<([u8; 32], [u8; 32])> {
        let hidden = job.head.unique.as_ref().filter(|_| job.head.unique_hidden)?.clone();
        let key = self.digests.reveal(&hidden.key);
        let digests = (hidden.key, key);
        let unique = Some(forgerun_core::job::Unique { key, ..hidden });
        job.head = Arc::new(Head { unique, unique_hidden: false, ..Head::clone(&job.head) });
        Some(digests)
    }

    pub(super) fn job(&self, job: &mut Job, task: Task) {
        let row = job.id.to_bytes();
        self.worker(task, Subject::JobText, &row).job(job);
    }

    /// An input keeps its sealed form where its payload was.
    pub(super) fn sealed_input(&self, job: JobId, input: &Input) -> Input {
        let payload = self.ring.seal(Subject::Input, &job.to_bytes(), &input.encode());
        Input { payload, ..Input::default() }
    }

    /// The digest goes with the bytes: alone, it would confirm a guess.
    pub(super) fn seal_outcome(&self, outcome: &mut Outcome) {
        let Object { bytes, digest } = &mut outcome.object;
        let clear = [&digest[..], &bytes[..]].concat();
        *bytes = self.ring.seal(Subject::Outcome, &outcome.execution.to_bytes(), &clear);
        *digest = [0; 32];
    }

    pub(super) fn record(&self, record: &mut Record, task: Task) {
        if is_content(record.key.kind) {
            self.worker(task, Subject::Record, &record_row(&record.key)).bytes(&mut record.bytes);
        }
    }

    fn is_unopened(&self, record: &Record) -> bool {
        is_content(record.key.kind) && KeyRing::is_sealed(&record.bytes)
    }

    pub(super) fn worker<'a>(&'a self, task: Task, subject: Subject, row: &'a [u8]) -> RowSealer<'a> {
        RowSealer { ring: &self.ring, task, subject, row, seen: Cell::default() }
    }
}

pub(super) fn record_row(key: &RecordKey) -> Vec<u8> {
    let mut row = vec![key.kind as u8];
    row.extend_from_slice(key.key.as_bytes());
    row
}

/// A due record is looked at again later, as it is: its key may come back.
fn put_off(record: Record, at: Time) -> (RecordKey, RecordChange) {
    let seen = Some(record.version);
    let new = Record { due_at: Some(at), version: record.version.wrapping_add(1), ..record };
    (new.key.clone(), RecordChange { seen, new: Some(new) })
}
