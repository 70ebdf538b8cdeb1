//! The memory store behind a door that counts, blocks and fails on demand.

use std::collections::{BTreeSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forgerun_core::id::BlobId;
use forgerun_core::log::LogBatch;
use forgerun_core::set_aside::RowId;
use forgerun_core::time::Time;
use forgerun_core::{Changes, Rows, Wants};
use forgerun_store::memory::Memory;
use forgerun_store::{
    Blobs, Boxed, Decide, Error, Fault, Page, Query, Sink, Source, Store, Sweep, Swept, Wakeup,
};
use tokio::sync::{Semaphore, broadcast, watch};

/// How a transaction fails.
#[derive(Clone, Copy)]
pub(crate) enum Failure {
    /// Before anything is written.
    Before(Fault),
    /// When everything is written, but nobody hears of it: [`Fault::Unknown`].
    AfterCommit,
}

/// What one transaction did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub(crate) n_answers: usize,
    pub(crate) n_jobs_loaded: usize,
    pub(crate) n_updated: usize,
    pub(crate) n_forgotten: usize,
}

pub(crate) struct TestStore {
    memory: Memory,
    lanes: usize,
    /// One, if reads and transactions have a single connection between them.
    connections: Semaphore,
    /// News for a listener that has none to expect; `None` where several nodes share the store.
    silence: Option<broadcast::Sender<Wakeup>>,
    blocked: watch::Sender<bool>,
    n_begun: AtomicUsize,
    n_reads: AtomicUsize,
    written: Mutex<Vec<Written>>,
    swept: Mutex<Vec<usize>>,
    failures: Mutex<VecDeque<Failure>>,
    blobs_to_fail: Mutex<VecDeque<Fault>>,
    reads_to_fail: AtomicUsize,
    sweeps_to_fail: AtomicUsize,
    rejected: Mutex<BTreeSet<RowId>>,
    log_appends: Mutex<Vec<usize>>,
    log_appends_to_fail: AtomicUsize,
}

impl TestStore {
    pub(crate) fn new() -> TestStore {
        TestStore::with(1, Semaphore::MAX_PERMITS)
    }

    /// For several engines. Each hears its own news too, which hides a wake-up that got lost; so
    /// only where it must be.
    pub(crate) fn shared() -> TestStore {
        TestStore { silence: None, ..TestStore::new() }
    }

    /// For several engines that know of each other, as nodes on one database do.
    pub(crate) fn of_nodes() -> TestStore {
        TestStore { silence: None, ..TestStore::with(2, Semaphore::MAX_PERMITS) }
    }

    /// Tells the engines something, on a store that tells nothing by itself.
    pub(crate) fn announce(&self, wakeup: Wakeup) {
        self.silence.as_ref().expect("it tells by itself").send(wakeup).expect("an engine listens");
    }

    pub(crate) fn with(lanes: usize, n_connections: usize) -> TestStore {
        TestStore {
            memory: Memory::new(),
            lanes,
            connections: Semaphore::new(n_connections),
            silence: Some(broadcast::channel(1).0),
            blocked: watch::Sender::new(false),
            n_begun: AtomicUsize::new(0),
            n_reads: AtomicUsize::new(0),
            written: Mutex::default(),
            swept: Mutex::default(),
            failures: Mutex::default(),
            blobs_to_fail: Mutex::default(),
            reads_to_fail: AtomicUsize::new(0),
            sweeps_to_fail: AtomicUsize::new(0),
            log_appends: Mutex::default(),
            log_appends_to_fail: AtomicUsize::new(0),
            rejected: Mutex::default(),
        }
    }

    /// Transactions wait from now on. Reads do not.
    pub(crate) fn block(&self) {
        self.blocked.send_replace(true);
    }

    pub(crate) fn release(&self) {
        self.blocked.send_replace(false);
    }

    pub(crate) fn fail(&self, n: usize, failure: Failure) {
        self.failures.lock().unwrap().extend(std::iter::repeat_n(failure, n));
    }

    /// The store below.
    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// Every transaction that changes this row is rejected from now on.
    pub(crate) fn reject(&self, row: RowId) {
        self.rejected.lock().unwrap().insert(row);
    }

    /// No transaction fails any more.
    pub(crate) fn mend(&self) {
        self.failures.lock().unwrap().clear();
    }

    pub(crate) fn fail_reads(&self, n: usize) {
        self.reads_to_fail.store(n, Ordering::SeqCst);
    }

    pub(crate) fn fail_log_appends(&self, n: usize) {
        self.log_appends_to_fail.store(n, Ordering::SeqCst);
    }

    /// How many batches each append of log lines had.
    pub(crate) fn log_appends(&self) -> Vec<usize> {
        self.log_appends.lock().unwrap().clone()
    }

    /// The next blobs cannot be begun.
    pub(crate) fn fail_blobs(&self, n: usize, fault: Fault) {
        self.blobs_to_fail.lock().unwrap().extend(std::iter::repeat_n(fault, n));
    }

    pub(crate) fn fail_sweeps(&self, n: usize) {
        self.sweeps_to_fail.store(n, Ordering::SeqCst);
    }

    /// Transactions begun, failed ones and empty ones included.
    pub(crate) fn n_begun(&self) -> usize {
        self.n_begun.load(Ordering::SeqCst)
    }

    pub(crate) fn n_reads(&self) -> usize {
        self.n_reads.load(Ordering::SeqCst)
    }

    /// The transactions that were committed, in order.
    pub(crate) fn written(&self) -> Vec<Written> {
        self.written.lock().unwrap().clone()
    }

    /// What each sweep deleted.
    pub(crate) fn swept(&self) -> Vec<usize> {
        self.swept.lock().unwrap().clone()
    }

    async fn transact_or_fail(&self, wants: Wants, mut decide: Decide) -> Result<Changes, Error> {
        self.n_begun.fetch_add(1, Ordering::SeqCst);
        let _connection = self.connections.acquire().await;
        let _ = self.blocked.subscribe().wait_for(|blocked| !blocked).await;
        let failure = self.failures.lock().unwrap().pop_front();
        if let Some(Failure::Before(fault)) = failure {
            return Err(Error::new(fault, "asked to fail"));
        }
        let n_jobs_loaded = Arc::new(AtomicUsize::new(0));
        let loaded = n_jobs_loaded.clone();
        let bad = self.rejected.lock().unwrap().clone();
        let is_rejected = Arc::new(AtomicBool::new(false));
        let rejecting = is_rejected.clone();
        let counting = move |rows: Rows| {
            loaded.store(rows.jobs.len(), Ordering::SeqCst);
            let changes = decide(rows);
            let jobs = changes.updated.iter().map(|job| RowId::Job(job.id));
            let deliveries = changes.deliveries_changed.iter().map(|known| RowId::Delivery(known.id));
            let touches_bad = jobs.chain(deliveries).any(|row| bad.contains(&row));
            rejecting.store(touches_bad, Ordering::SeqCst);
            if touches_bad { Changes::default() } else { changes }
        };
        let changes = self.memory.transact(wants, Box::new(counting)).await?;
        if is_rejected.load(Ordering::SeqCst) {
            return Err(Error::new(Fault::Rejected, "asked to reject it"));
        }
        self.written.lock().unwrap().push(Written {
            n_answers: changes.answers.len(),
            n_jobs_loaded: n_jobs_loaded.load(Ordering::SeqCst),
            n_updated: changes.updated.len(),
            n_forgotten: changes.forgotten.len(),
        });
        match failure {
            Some(_) => Err(Error::new(Fault::Unknown, "asked to fail after the commit")),
            None => Ok(changes),
        }
    }

    async fn read_or_fail(&self, query: Query) -> Result<Page, Error> {
        self.n_reads.fetch_add(1, Ordering::SeqCst);
        let _connection = self.connections.acquire().await;
        fail_or_not(&self.reads_to_fail)?;
        self.memory.read(query).await
    }
}

fn fail_or_not(n_to_fail: &AtomicUsize) -> Result<(), Error> {
    match n_to_fail.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| n.checked_sub(1)) {
        Ok(_) => Err(Error::new(Fault::Unavailable, "asked to fail")),
        Err(_) => Ok(()),
    }
}

impl Blobs for TestStore {
    fn begin(&self, blob: BlobId, now: Time) -> Boxed<'_, Box<dyn Sink>> {
        Box::pin(async move {
            let failure = self.blobs_to_fail.lock().unwrap().pop_front();
            match failure {
                Some(fault) => Err(Error::new(fault, "asked to fail")),
                None => self.memory.blobs().begin(blob, now).await,
            }
        })
    }

    fn touch(&self, blob: BlobId, now: Time) -> Boxed<'_, ()> {
        self.memory.blobs().touch(blob, now)
    }

    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>> {
        self.memory.blobs().open(blob)
    }
}

impl Store for TestStore {
    fn transact(&self, wants: Wants, decide: Decide) -> Boxed<'_, Changes> {
        Box::pin(self.transact_or_fail(wants, decide))
    }

    fn read(&self, query: Query) -> Boxed<'_, Page> {
        Box::pin(self.read_or_fail(query))
    }

    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept> {
        Box::pin(async move {
            fail_or_not(&self.sweeps_to_fail)?;
            let swept = self.memory.sweep(sweep).await?;
            self.swept.lock().unwrap().push(swept.total());
            Ok(swept)
        })
    }

    fn append_logs(&self, batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>> {
        Box::pin(async move {
            self.log_appends.lock().unwrap().push(batches.len());
            fail_or_not(&self.log_appends_to_fail)?;
            self.memory.append_logs(batches, bytes_max).await
        })
    }

    fn blobs(&self) -> &dyn Blobs {
        self
    }

    fn wakeups(&self) -> broadcast::Receiver<Wakeup> {
        self.silence.as_ref().map_or_else(|| self.memory.wakeups(), broadcast::Sender::subscribe)
    }

    fn lanes(&self) -> usize {
        self.lanes
    }
}
