//! Seals anew what older keys sealed, or none: a walk over all contents, in small bites.
//!
//! What the rules change as well is loaded and written back as a batch, so that no change is lost. The rest is written once
//! and replaced as it stands.

use forgerun_core::command::Content;
use forgerun_core::id::{BlobId, ExecutionId, JobId, WebhookId};
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Input, Job};
use forgerun_core::record::{Record, RecordChange, RecordKey, RecordKind};
use forgerun_core::rows::Outcome;
use forgerun_core::time::Time;
use forgerun_core::webhook::{SigningKey, Webhook};
use forgerun_core::{Changes, Rows, Wants};

use super::contents::{Stale, Task, is_content};
use super::keys::{Subject, random};
use super::{STATE, SealedStore, state, write_state};
use crate::query::page;
use crate::{
    DeliveriesOf, DeliveryFilter, Error, Fault, Filter, LogChunk, LogQuery, OperatorQuery, Page, Query,
    Rewrite, Store, StoredResult,
};

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Renewed {
    pub n_jobs: u64,
    /// Contents that are sealed with the first key now and were not before.
    pub n_contents: u64,
    /// Contents that no key opens.
    pub n_lost: u64,
    /// Contents of running jobs, which are left until these have ended.
    pub n_busy: u64,
}

/// Rows in a bite.
const BITE: usize = 50;

/// Bytes of contents in a bite.
const BITE_BYTES: usize = 4 << 20;

/// Bytes of a large result that are copied at once.
const COPIED_BYTES: usize = 256 * 1024;

/// How often a bite is tried that others were faster with.
const TRIES: usize = 10;

pub(super) struct Renewal<'a> {
    store: &'a SealedStore,
    clock: &'a (dyn Fn() -> Time + Sync),
    done: Renewed,
    rewrites: Vec<Rewrite>,
    n_bytes: usize,
}

impl<'a> Renewal<'a> {
    pub(super) fn of(store: &'a SealedStore, clock: &'a (dyn Fn() -> Time + Sync)) -> Renewal<'a> {
        Renewal { store, clock, done: Renewed::default(), rewrites: Vec::new(), n_bytes: 0 }
    }

    pub(super) async fn run(mut self) -> Result<Renewed, Error> {
        self.digest_key().await?;
        for kind in (0..=u8::MAX).filter_map(RecordKind::from_u8).filter(|kind| is_content(*kind)) {
            self.records(kind).await?;
        }
        self.signing_keys().await?;
        self.webhooks().await?;
        self.jobs().await?;
        Ok(self.done)
    }

    fn inner(&self) -> &'a dyn Store {
        &*self.store.inner
    }

    /// Counts, and says whether there is something to seal.
    fn count(&mut self, seen: Stale) -> bool {
        self.done.n_contents += seen.n;
        self.done.n_lost += seen.n_lost;
        seen.n > 0
    }

    fn look(&mut self, subject: Subject, row: &[u8], bytes: &[u8]) -> bool {
        let worker = self.store.seals.worker(Task::Look, subject, row);
        worker.look(bytes);
        let seen = worker.seen.get();
        self.count(seen)
    }

    /// Loads rows as batches see them, and writes what `change` makes of them.
    async fn write(&self, wants: Wants, change: fn(Rows) -> Changes) -> Result<(), Error> {
        for _ in 0..TRIES {
            match self.store.transact(wants.clone(), Box::new(change)).await {
                Err(error) if error.fault == Fault::Busy => {}
                done => return done.map(drop),
            }
        }
        self.store.transact(wants, Box::new(change)).await.map(drop)
    }

    async fn digest_key(&mut self) -> Result<(), Error> {
        let Some(record) = state(self.inner()).await? else { return Ok(()) };
        if self.look(Subject::Record, STATE.as_bytes(), &record.bytes) {
            let secret = self.store.seals.digests.secret();
            write_state(self.inner(), &self.store.seals.ring, secret, Some(record.version)).await?;
        }
        Ok(())
    }

    async fn records(&mut self, kind: RecordKind) -> Result<(), Error> {
        let mut after = String::new();
        loop {
            let query = Query::Records { kind, group: None, after: after.clone(), limit: BITE };
            let found: Result<Vec<Record>, Error> = page!(self.inner(), query, Records);
            let found = found?;
            let Some(last) = found.last() else { return Ok(()) };
            after.clone_from(&last.key.key);
            let row = super::batch::record_row;
            let stale = found
                .into_iter()
                .filter(|record| self.look(Subject::Record, &row(&record.key), &record.bytes));
            let records = stale.map(|record| record.key).collect();
            self.write(Wants { records, ..Wants::default() }, |rows| {
                let records = rows.records.into_values().map(sealed_again).collect();
                Changes { records, ..Changes::default() }
            })
            .await?;
        }
    }

    async fn signing_keys(&mut self) -> Result<(), Error> {
        let mut stale = false;
        let found: Result<Vec<SigningKey>, Error> = page!(self.inner(), Query::SigningKeys, SigningKeys);
        for key in found? {
            stale |= self.look(Subject::SigningSeed, &key.id.to_bytes(), &key.seed);
        }
        if !stale {
            return Ok(());
        }
        self.write(Wants { signing_keys: true, ..Wants::default() }, |rows| {
            let signing_keys = rows.signing_keys.into_iter().map(|key| (key.id, key)).collect();
            Changes { signing_keys, ..Changes::default() }
        })
        .await
    }

    async fn webhooks(&mut self) -> Result<(), Error> {
        let mut after = None;
        self.deliveries(WebhookId::CALLBACK).await?;
        loop {
            let query = Query::Operator(OperatorQuery::Webhooks { after, limit: BITE });
            let found: Result<Vec<Webhook>, Error> = page!(self.inner(), query, Webhooks);
            let found = found?;
            let Some(last) = found.last() else { return Ok(()) };
            after = Some(last.id);
            let mut wants = Wants::default();
            for mut webhook in found {
                let id = webhook.id;
                self.deliveries(id).await?;
                let row = id.to_bytes();
                let worker = self.store.seals.worker(Task::Look, Subject::WebhookSecret, &row);
                worker.webhook(&mut webhook);
                let seen = worker.seen.get();
                if self.count(seen) {
                    wants.webhooks.insert(id);
                }
            }
            self.write(wants, |rows| {
                let webhooks = rows.webhooks.into_iter().map(|webhook| (webhook.id, webhook)).collect();
                Changes { webhooks, ..Changes::default() }
            })
            .await?;
        }
    }

    async fn deliveries(&mut self, to: WebhookId) -> Result<(), Error> {
        let mut before = None;
        loop {
            let of = DeliveriesOf::Webhook(to);
            let filter = DeliveryFilter { of, status: None, before, limit: BITE, look_max: usize::MAX };
            let found: Result<crate::ListPage<_, _>, Error> =
                page!(self.inner(), Query::Deliveries(filter), DeliveryList);
            let found = found?;
            let mut wants = Wants::default();
            for mut delivery in found.rows {
                let row = delivery.id.to_bytes();
                let worker = self.store.seals.worker(Task::Look, Subject::Delivery, &row);
                worker.delivery(&mut delivery);
                let seen = worker.seen.get();
                if self.count(seen) {
                    wants.deliveries.insert(delivery.id);
                }
            }
            self.write(wants, |rows| Changes { deliveries_changed: rows.deliveries, ..Changes::default() })
                .await?;
            before = found.next;
            if before.is_none() {
                return Ok(());
            }
        }
    }

    async fn jobs(&mut self) -> Result<(), Error> {
        let mut before = None;
        loop {
            let filter = Filter { before, limit: BITE, ..Filter::default() };
            let found: Result<crate::ListPage<Job, JobId>, Error> =
                page!(self.inner(), Query::Jobs(filter), JobList);
            let found = found?;
            for job in found.rows {
                self.done.n_jobs += 1;
                self.job(job).await?;
                if self.rewrites.len() >= BITE || self.n_bytes >= BITE_BYTES {
                    self.flush().await?;
                }
            }
            self.flush().await?;
            before = found.next;
            if before.is_none() {
                return Ok(());
            }
        }
    }

    async fn flush(&mut self) -> Result<(), Error> {
        self.n_bytes = 0;
        match std::mem::take(&mut self.rewrites) {
            rewrites if rewrites.is_empty() => Ok(()),
            rewrites => self.inner().rewrite(rewrites).await,
        }
    }

    fn rewrite(&mut self, rewrite: Rewrite, n_bytes: usize) {
        self.n_bytes += n_bytes;
        self.rewrites.push(rewrite);
    }

    async fn job(&mut self, mut job: Job) -> Result<(), Error> {
        let id = job.id;
        let executions: Vec<ExecutionId> =
            job.executions_past.iter().copied().chain([job.execution]).collect();
        self.input(id).await?;
        self.outcomes(&executions).await?;
        for execution in executions {
            self.result(execution).await?;
            if job.head.items.is_some() {
                self.items(&job, execution).await?;
            }
        }
        self.logs(id).await?;
        self.upload(&job).await?;
        let row = id.to_bytes();
        let worker = self.store.seals.worker(Task::Look, Subject::JobText, &row);
        worker.job(&mut job);
        let seen = worker.seen.get();
        if self.count(seen) {
            self.write_job(id).await?;
        }
        Ok(())
    }

    async fn write_job(&self, job: JobId) -> Result<(), Error> {
        self.write(Wants { jobs_sought: [job].into(), ..Wants::default() }, |rows| Changes {
            updated: rows.jobs,
            ..Changes::default()
        })
        .await
    }

    async fn input(&mut self, job: JobId) -> Result<(), Error> {
        let found: Result<Vec<(JobId, Input)>, Error> = page!(self.inner(), Query::Inputs(vec![job]), Inputs);
        for (_, mut input) in found? {
            if self.look(Subject::Input, &job.to_bytes(), &input.payload) {
                self.store.seals.open_input(job, &mut input)?;
                let sealed = self.store.seals.sealed_input(job, &input);
                let n_bytes = sealed.payload.len();
                self.rewrite(Rewrite::Input(job, sealed), n_bytes);
            }
        }
        Ok(())
    }

    async fn outcomes(&mut self, executions: &[ExecutionId]) -> Result<(), Error> {
        let query = Query::Outcomes(executions.to_vec());
        let found: Result<Vec<Outcome>, Error> = page!(self.inner(), query, Outcomes);
        for mut outcome in found? {
            if self.look(Subject::Outcome, &outcome.execution.to_bytes(), &outcome.object.bytes) {
                self.store.seals.outcome(&mut outcome)?;
                self.store.seals.seal_outcome(&mut outcome);
                let n_bytes = outcome.object.bytes.len();
                self.rewrite(Rewrite::Outcome(outcome.execution, outcome.object), n_bytes);
            }
        }
        Ok(())
    }

    async fn result(&mut self, execution: ExecutionId) -> Result<(), Error> {
        let found: Result<Option<Box<StoredResult>>, Error> =
            page!(self.inner(), Query::Result(execution), Result);
        let Some(mut found) = found? else { return Ok(()) };
        let row = execution.to_bytes();
        match &found.content {
            Some(Content::Inline(bytes)) => {
                if !self.look(Subject::Result, &row, bytes) {
                    return Ok(());
                }
                self.store.seals.result(execution, &mut found)?;
                if let Some(Content::Inline(clear)) = &found.content {
                    let sealed = self.store.seals.ring.seal(Subject::Result, &row, clear);
                    let n_bytes = sealed.len();
                    self.rewrite(Rewrite::Result(execution, sealed), n_bytes);
                }
                Ok(())
            }
            Some(Content::Stored(blob)) => self.blob(execution, blob.id, blob.size).await,
            None => Ok(()),
        }
    }

    /// Copies a large result: the bytes of a blob never change.
    async fn blob(&mut self, execution: ExecutionId, old: BlobId, size: u64) -> Result<(), Error> {
        match self.store.is_blob_current(old).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(error) if error.fault.is_unreadable() => {
                self.done.n_lost += 1;
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let now = (self.clock)();
        let new = BlobId::v7(now.unix_ms(), u128::from_be_bytes(random()));
        let source = crate::Blobs::open(self.store, old).await?;
        let mut sink = crate::Blobs::begin(self.store, new, now).await?;
        let mut n_copied = 0;
        while n_copied < size {
            let part = match source.read(n_copied, COPIED_BYTES).await {
                Err(error) if error.fault.is_unreadable() => {
                    self.done.n_lost += 1;
                    return Ok(());
                }
                part => part?,
            };
            n_copied += part.len() as u64;
            sink.write(part).await?;
            if n_copied % (64 << 20) < COPIED_BYTES as u64 {
                crate::Blobs::touch(self.store, new, (self.clock)()).await?;
            }
        }
        sink.finish().await?;
        self.done.n_contents += 1;
        self.inner().rewrite(vec![Rewrite::Blob { execution, old, new, at: (self.clock)() }]).await
    }

    /// A large result that a worker has uploaded and not reported yet.
    async fn upload(&mut self, job: &Job) -> Result<(), Error> {
        let upload = job.lease.as_ref().and_then(|lease| lease.upload.as_ref());
        if let Some(Content::Stored(blob)) = upload.map(|output| &output.content)
            && matches!(self.store.is_blob_current(blob.id).await, Ok(false))
        {
            self.done.n_busy += 1;
        }
        Ok(())
    }

    /// They are written with their job.
    async fn items(&mut self, job: &Job, execution: ExecutionId) -> Result<(), Error> {
        let found: Result<Option<Vec<ItemEnd>>, Error> = page!(self.inner(), Query::Items(execution), Items);
        let Some(mut ends) = found? else { return Ok(()) };
        let row = execution.to_bytes();
        let worker = self.store.seals.worker(Task::Look, Subject::Items, &row);
        worker.items(&mut ends);
        let seen = worker.seen.get();
        if !self.count(seen) {
            return Ok(());
        }
        self.store.seals.worker(Task::Open, Subject::Items, &row).items(&mut ends);
        let (id, is_current) = (job.id, job.execution == execution);
        let wants = Wants { jobs_sought: [id].into(), ..Wants::default() };
        let ends: std::sync::Arc<[ItemEnd]> = ends.into();
        let decide = move |rows: Rows| {
            // The list of a current execution changes while the job runs: another run comes by when it has ended.
            let settled = rows.jobs.iter().any(|job| job.execution != execution || job.state.is_final());
            let items = settled.then(|| (execution, ends.clone())).into_iter().collect();
            Changes { updated: rows.jobs, items, ..Changes::default() }
        };
        if is_current && !job.state.is_final() {
            self.done.n_contents -= seen.n;
            self.done.n_busy += seen.n;
            return Ok(());
        }
        self.store.transact(wants, Box::new(decide)).await.map(drop)
    }

    async fn logs(&mut self, job: JobId) -> Result<(), Error> {
        let mut after = 0;
        loop {
            let query = Query::Logs(LogQuery { job, attempt: None, after, limit: BITE });
            let found: Result<Vec<LogChunk>, Error> = page!(self.inner(), query, Logs);
            let found = found?;
            let Some(last) = found.last() else { return Ok(()) };
            after = last.place.last;
            let is_last = found.len() < BITE;
            for mut chunk in found {
                if self.look(Subject::Log, &job.to_bytes(), &chunk.content) {
                    self.store.seals.log(job, &mut chunk)?;
                    let content = self.store.seals.ring.seal(Subject::Log, &job.to_bytes(), &chunk.content);
                    let n_bytes = content.len();
                    self.rewrite(Rewrite::Log { job, last: chunk.place.last, content }, n_bytes);
                }
            }
            if is_last {
                return Ok(());
            }
            self.flush().await?;
        }
    }
}

/// The same record: it is sealed with the first key on its way.
fn sealed_again(record: Record) -> (RecordKey, RecordChange) {
    let seen = Some(record.version);
    let record = Record { version: u64::from_be_bytes(random()), ..record };
    (record.key.clone(), RecordChange { seen, new: Some(record) })
}
