//! Everything that can be read from a store, as one value: for comparing two stores, and for checking that what a
//! store keeps twice agrees with itself.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use forgerun_core::delivery::{Chain, Delivery};
use forgerun_core::history::JournalEntry;
use forgerun_core::id::{DeliveryId, ExecutionId, JobId, WebhookId};
use forgerun_core::invariants;
use forgerun_core::item::ItemEnd;
use forgerun_core::job::{Input, Job, Lane, Name, Shelf};
use forgerun_core::record::{Record, RecordKind};
use forgerun_core::rows::{Counts, Outcome};
use forgerun_core::time::Time;
use forgerun_core::webhook::{SigningKey, Webhook};

use super::make::client;
use crate::{
    DeliveriesOf, DeliveryFilter, Filter, JournalRow, Page, Query, QueueCounts, Store, StoredResult,
};

/// Small enough that every snapshot of more than a few jobs needs several pages.
const PAGE: usize = 7;

/// How often the end of the journal is looked for. A store may show rows late, behind transactions that run elsewhere.
const POLLS_MAX: usize = 100_000;

/// What a store holds.
#[derive(Debug, PartialEq)]
pub(super) struct Snapshot {
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) inputs: BTreeMap<JobId, Input>,
    pub(super) shelves: BTreeMap<Shelf, Vec<JobId>>,
    pub(super) queues: Vec<QueueCounts>,
    pub(super) records: Vec<Record>,
    pub(super) next_due: Option<Time>,
    pub(super) outcomes: BTreeMap<ExecutionId, Outcome>,
    pub(super) results: BTreeMap<ExecutionId, StoredResult>,
    pub(super) items: BTreeMap<ExecutionId, Vec<ItemEnd>>,
    /// Whose the executions are that a manual retry opened.
    pub(super) owners: BTreeMap<ExecutionId, JobId>,
    /// One list per transaction.
    pub(super) journal: Vec<Vec<JournalEntry>>,
    /// Those of the clients that random commands are about.
    pub(super) webhooks: BTreeMap<WebhookId, Webhook>,
    /// Those of the jobs and webhooks that are there.
    pub(super) deliveries: BTreeMap<DeliveryId, Delivery>,
    pub(super) next_delivery: Option<Time>,
    pub(super) signing_keys: Vec<SigningKey>,
}

/// Reads everything, and checks that it agrees with itself.
pub(super) async fn snapshot(store: &Arc<dyn Store>) -> Snapshot {
    let jobs = all_jobs(store).await;
    let mut executions: BTreeSet<ExecutionId> = jobs.values().map(|job| job.execution).collect();
    executions.extend(jobs.values().flat_map(|job| job.executions_past.iter().copied()));
    let (mut outcomes, mut results) = (BTreeMap::new(), BTreeMap::new());
    let (mut items, mut owners) = (BTreeMap::new(), BTreeMap::new());
    for execution in executions {
        let outcome = store.outcome(execution).await.unwrap();
        outcomes.extend(outcome.map(|outcome| (execution, outcome)));
        let result = store.result(execution).await.unwrap();
        results.extend(result.map(|result| (execution, *result)));
        let ends = store.items(execution).await.unwrap();
        items.extend(ends.map(|ends| (execution, ends)));
        let owner = store.job_of(execution).await.unwrap();
        owners.extend(owner.map(|owner| (execution, owner)));
    }
    let inputs = store.inputs(jobs.keys().copied().collect()).await.unwrap();
    let journal = all_rows(store, 0).await;
    let webhooks = all_webhooks(store).await;
    let of_jobs = jobs.keys().map(|id| DeliveriesOf::Job(*id));
    let to_webhooks = webhooks.keys().map(|id| DeliveriesOf::Webhook(*id));
    let mut deliveries = BTreeMap::new();
    for of in of_jobs.chain(to_webhooks) {
        deliveries.extend(deliveries_of(store, of).await);
    }
    let snapshot = Snapshot {
        shelves: all_shelves(store, &jobs).await,
        jobs,
        inputs: inputs.into_iter().collect(),
        queues: store.queues().await.unwrap(),
        records: all_records(store).await,
        next_due: store.next_due().await.unwrap(),
        outcomes,
        results,
        items,
        owners,
        journal: journal.into_iter().map(|row| row.entries).collect(),
        webhooks,
        deliveries,
        next_delivery: store.next_delivery().await.unwrap(),
        signing_keys: store.signing_keys().await.unwrap(),
    };
    snapshot.check();
    snapshot
}

/// Every job, by way of the list.
pub(super) async fn all_jobs(store: &Arc<dyn Store>) -> BTreeMap<JobId, Job> {
    let mut jobs = BTreeMap::new();
    let mut before = None;
    loop {
        let page = store.jobs(Filter { before, limit: PAGE, ..Filter::default() }).await.unwrap();
        let Some(last) = page.last() else { return jobs };
        before = Some(last.id);
        jobs.extend(page.into_iter().map(|job| (job.id, job)));
    }
}

/// Every webhook of the first few clients.
async fn all_webhooks(store: &Arc<dyn Store>) -> BTreeMap<WebhookId, Webhook> {
    let mut webhooks: BTreeMap<WebhookId, Webhook> = BTreeMap::new();
    for n in 0..3 {
        let mut after = None;
        loop {
            let page = store.webhooks(client(n), after, 2).await.unwrap();
            let Some(last) = page.last() else { break };
            after = Some(last.id);
            webhooks.extend(page.into_iter().map(|webhook| (webhook.id, webhook)));
        }
    }
    webhooks
}

/// Every delivery of a job or to a webhook, by way of the list.
pub(super) async fn deliveries_of(
    store: &Arc<dyn Store>,
    of: DeliveriesOf,
) -> BTreeMap<DeliveryId, Delivery> {
    let mut deliveries = BTreeMap::new();
    let mut before = None;
    loop {
        let filter = DeliveryFilter { of, status: None, before, limit: PAGE, look_max: usize::MAX };
        let page = store.deliveries(filter).await.unwrap();
        let Some(last) = page.last() else { return deliveries };
        assert!(page.is_sorted_by(|a, b| a.id > b.id), "newest first");
        before = Some(last.id);
        deliveries.extend(page.into_iter().map(|delivery| (delivery.id, delivery)));
    }
}

/// Every journal row after a place, up to the end there is when asked.
pub(super) async fn all_rows(store: &Arc<dyn Store>, after: i64) -> Vec<JournalRow> {
    let end = store.journal_end().await.unwrap();
    let (mut rows, mut seen): (Vec<JournalRow>, i64) = (Vec::new(), after);
    for _ in 0..POLLS_MAX {
        if seen >= end {
            return rows;
        }
        let page = store.journal(seen, PAGE).await.unwrap();
        seen = page.last().map_or(seen, |row| row.seq);
        rows.extend(page);
        tokio::task::yield_now().await;
    }
    panic!("the journal ends at {end} but shows nothing after {seen}");
}

async fn all_records(store: &Arc<dyn Store>) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    // What encryption notes for itself is not what a store is given.
    let kinds = (0..=u8::MAX).filter_map(RecordKind::from_u8).filter(|kind| *kind != RecordKind::Encryption);
    for kind in kinds {
        let query = Query::Records { kind, group: None, after: String::new(), limit: 10_000 };
        match store.read(query).await.unwrap() {
            Page::Records(page) => records.extend(page),
            other => panic!("{other:?}"),
        }
    }
    records
}

/// Every shelf that a job can stand on, with what stands there.
async fn all_shelves(store: &Arc<dyn Store>, jobs: &BTreeMap<JobId, Job>) -> BTreeMap<Shelf, Vec<JobId>> {
    let queues: BTreeSet<(Lane, Name)> = jobs
        .values()
        .flat_map(|job| {
            let of_owner = job.head.owner().scoped(job.head.queue.as_str());
            let shared = (Lane::BuiltIn, job.head.queue.clone());
            let own = job.shelf().map(|shelf| (shelf.lane, shelf.name));
            [Some((Lane::External, of_owner)), Some(shared), own].into_iter().flatten()
        })
        .collect();
    let keys: BTreeSet<Name> =
        jobs.values().flat_map(|job| job.head.limits.iter().map(|limit| limit.key.clone())).collect();
    let in_queues = queues.into_iter().map(|(lane, name)| Shelf { lane, name });
    let parked = keys.into_iter().map(|name| Shelf { lane: Lane::Parked, name });
    let all: Vec<Shelf> = in_queues.chain(parked).collect();
    let mut shelves = BTreeMap::new();
    for shelf in all {
        let ids = on_shelf(store, &shelf).await;
        if !ids.is_empty() {
            shelves.insert(shelf, ids);
        }
    }
    shelves
}

async fn on_shelf(store: &Arc<dyn Store>, shelf: &Shelf) -> Vec<JobId> {
    let mut ids: Vec<JobId> = Vec::new();
    loop {
        let page = store.shelf(shelf.clone(), ids.last().copied(), PAGE).await.unwrap();
        if page.is_empty() {
            return ids;
        }
        ids.extend(page.iter().map(|job| job.id));
    }
}

impl Snapshot {
    /// What the store keeps a second time for speed agrees with the jobs.
    fn check(&self) {
        let mut counts: BTreeMap<Name, Counts> = BTreeMap::new();
        let mut shelves: BTreeMap<Shelf, Vec<JobId>> = BTreeMap::new();
        for job in self.jobs.values() {
            assert_eq!(invariants::job(job), Ok(()), "{job:?}");
            assert_eq!(invariants::chain(job.history.events()), Ok(()), "{job:?}");
            counts.entry(job.head.queue_id().key()).or_default().add(job.facet(), 1);
            if let Some(shelf) = job.shelf() {
                shelves.entry(shelf).or_default().push(job.id);
            }
            assert_eq!(self.outcomes.contains_key(&job.execution), job.state.is_final(), "{job:?}");
            for past in &job.executions_past {
                assert!(self.outcomes.contains_key(past), "a closed execution has an outcome: {job:?}");
            }
        }
        for stats in &self.queues {
            let counted = counts.remove(&stats.queue).unwrap_or_default();
            assert_eq!(stats.counts, counted, "the counts of {:?} are those of its jobs", stats.queue);
        }
        assert!(counts.is_empty(), "every queue with jobs is listed: {counts:?}");
        assert!(self.queues.is_sorted_by(|a, b| a.queue < b.queue), "queues are listed by name");
        assert_eq!(self.shelves, shelves, "every job stands on its shelf");
        let jobs = self.jobs.values().filter_map(Job::due_at);
        let due = jobs.chain(self.records.iter().filter_map(|record| record.due_at)).min();
        assert_eq!(self.next_due, due, "the next moment is that of the job or record due first");
        check_order(&self.journal);
        self.check_deliveries();
    }

    fn check_deliveries(&self) {
        let mut chains: BTreeMap<Chain, BTreeMap<u32, &Delivery>> = BTreeMap::new();
        for delivery in self.deliveries.values() {
            assert_eq!(invariants::delivery(delivery), Ok(()), "{delivery:?}");
            assert!(delivery.job().is_none_or(|job| self.jobs.contains_key(&job)), "{delivery:?}");
            if let Some((chain, place)) = delivery.chain().zip(delivery.position()) {
                chains.entry(chain).or_default().insert(place, delivery);
            }
        }
        for chain in chains.values() {
            let open: Vec<&Delivery> = chain.values().copied().collect();
            assert_eq!(invariants::order(open.clone()), Ok(()), "{open:?}");
        }
        let due = self.deliveries.values().filter_map(Delivery::due_at).min();
        // It may be earlier: a test of a webhook that was deleted since is in no list.
        let next = self.next_delivery;
        assert!(due.is_none_or(|due| next.is_some_and(|next| next <= due)), "{next:?} and {due:?}");
    }
}

/// Per job, the journal tells every event once and in order. A forgotten id may be born again.
pub(super) fn check_order(journal: &[Vec<JournalEntry>]) {
    let mut last: BTreeMap<JobId, (u32, Time)> = BTreeMap::new();
    for (job, event) in journal.iter().flatten().filter_map(JournalEntry::job_event) {
        let (n, at) = (event.n, event.at);
        if let Some((before, earlier)) = last.insert(job, (n, at)).filter(|_| n > 1) {
            assert_eq!(n, before + 1, "no event of {job} is skipped or told twice");
            assert!(at > earlier, "the events of {job} are timed upwards");
        }
    }
}
