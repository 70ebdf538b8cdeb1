//! The single reader of the journal for all streams, and for all requests that wait for a job's
//! end. It reads while there are subscribers, and loads only jobs with subscribers.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forgerun_core::history::JournalEntry;
use forgerun_core::id::{ClientId, JobId};
use forgerun_engine::{Clock, Engine, Error};
use forgerun_store::JournalRow;
use futures_channel::mpsc;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::printer::Printer;
use super::subscribers::{EntryKey, EventLine, PrintedEvents, Subscribers, Topic};
use crate::limits::{HUB_PAUSE, STREAM_ROWS_MAX};
use crate::metrics::Metrics;

/// Distributes events to streams. Its reader ends with the engine, or when the hub is closed or
/// dropped.
pub struct Hub {
    inner: Arc<HubState>,
    reader: JoinHandle<()>,
}

pub(super) struct HubState {
    engine: Engine,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Events buffered per stream.
    room: usize,
    subscribers: Mutex<Subscribers>,
    /// The task of the reader.
    task: watch::Sender<ReaderTask>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReaderTask {
    Rest,
    /// Read from this row on.
    Read {
        epoch: u64,
        after: i64,
    },
    End,
}

impl Hub {
    /// Starts the reader. `room` is the number of events buffered per stream.
    pub fn start(engine: Engine, clock: Arc<dyn Clock>, metrics: Arc<Metrics>, room: usize) -> Hub {
        let (subscribers, task) = (Mutex::default(), watch::Sender::new(ReaderTask::Rest));
        let inner = Arc::new(HubState { engine, clock, metrics, room, subscribers, task });
        let reader = tokio::spawn(read(CloseOnDrop(inner.clone())));
        Hub { inner, reader }
    }

    /// Ends all streams, and refuses new ones.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Waits for the end of a job. The caller loads the job after it has called
    /// [`EndWaiter::ended`]: so it sees what happened before, and is notified of what happens
    /// after.
    pub(crate) async fn wait_for_end(&self, job: JobId) -> Result<EndWaiter, Error> {
        let ended = self.inner.join(|subscribers, after| subscribers.wait_for_end(job, after)).await?;
        Ok(EndWaiter { inner: self.inner.clone(), job, ended })
    }

    /// Counts a stream of a client until the permit is dropped; `None` at the bound.
    pub(super) fn admit(&self, client: ClientId, max: usize) -> Option<StreamPermit> {
        let keys = self.inner.subscribers().admit(client, max)?;
        self.inner.metrics.sse_streams_open.inc();
        Some(StreamPermit { inner: self.inner.clone(), client, keys })
    }

    /// Makes the streams of a client recheck their key.
    pub(crate) fn keys_changed(&self, client: ClientId) {
        self.inner.subscribers().keys_changed(client);
    }
}

/// A wait for a job's end, until dropped.
pub(crate) struct EndWaiter {
    inner: Arc<HubState>,
    job: JobId,
    ended: Arc<Notify>,
}

impl EndWaiter {
    /// Resolves once the job has ended after this call, or the hub is closed.
    pub(crate) fn ended(&self) -> Notified<'_> {
        self.ended.notified()
    }
}

impl Drop for EndWaiter {
    fn drop(&mut self) {
        let mut subscribers = self.inner.subscribers();
        subscribers.stop_waiting(self.job);
        self.inner.assign(&subscribers);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A stream of a client, counted until dropped.
pub(crate) struct StreamPermit {
    inner: Arc<HubState>,
    client: ClientId,
    /// Notified when keys of the client change.
    pub(crate) keys: watch::Receiver<()>,
}

impl StreamPermit {
    /// Subscribes from now on: includes all that is committed after this call, and perhaps a little
    /// before.
    pub(crate) async fn subscribe(&self, topic: Topic) -> Result<Subscription, Error> {
        self.inner.join(|subscribers, after| self.inner.subscription(subscribers, topic, after)).await
    }

    /// Subscribes after a row, unless the hub is ahead of it.
    pub(super) fn subscribe_after(&self, topic: Topic, after: i64) -> Result<Option<Subscription>, Error> {
        let mut subscribers = self.inner.subscribers();
        match subscribers.told {
            _ if subscribers.closed => Err(Error::Stopped),
            Some(told) if told > after => Ok(None),
            Some(_) | None => Ok(Some(self.inner.subscription(&mut subscribers, topic, after))),
        }
    }
}

impl Drop for StreamPermit {
    fn drop(&mut self) {
        self.inner.subscribers().dismiss(self.client);
        self.inner.metrics.sse_streams_open.dec();
    }
}

/// A subscription, ended when dropped.
pub(crate) struct Subscription {
    inner: Arc<HubState>,
    id: u64,
    lines: mpsc::Receiver<EventLine>,
}

impl Subscription {
    /// The next event; `None` after the end. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Option<EventLine> {
        self.lines.recv().await.ok()
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut subscribers = self.inner.subscribers();
        subscribers.remove(self.id);
        self.inner.assign(&subscribers);
    }
}

impl HubState {
    fn subscribers(&self) -> MutexGuard<'_, Subscribers> {
        // A panic leaves whole entries behind; at worst a stream too many is counted.
        self.subscribers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a subscriber at the hub's position, or at the end of the journal if it is idle.
    async fn join<T>(&self, enter: impl Fn(&mut Subscribers, i64) -> T) -> Result<T, Error> {
        let mut end = None;
        loop {
            if let Some(entered) = self.try_join(end, &enter)? {
                return Ok(entered);
            }
            // The first subscriber sets the position; of several, the fastest.
            end = Some(self.engine.store().journal_end().await?);
        }
    }

    fn try_join<T>(
        &self,
        end: Option<i64>,
        enter: impl Fn(&mut Subscribers, i64) -> T,
    ) -> Result<Option<T>, Error> {
        let mut subscribers = self.subscribers();
        if subscribers.closed {
            return Err(Error::Stopped);
        }
        let entered = subscribers.told.or(end).map(|after| enter(&mut subscribers, after));
        self.assign(&subscribers);
        Ok(entered)
    }

    fn subscription(
        self: &Arc<Self>,
        subscribers: &mut Subscribers,
        topic: Topic,
        after: i64,
    ) -> Subscription {
        let (id, lines) = subscribers.subscribe(topic, after, self.room);
        self.assign(subscribers);
        Subscription { inner: self.clone(), id, lines }
    }

    /// Sets the reader's task according to the subscribers.
    fn assign(&self, subscribers: &Subscribers) {
        self.task.send_if_modified(|task| {
            let next = match (subscribers.told, *task) {
                _ if subscribers.closed => ReaderTask::End,
                (None, _) => ReaderTask::Rest,
                (Some(_), ReaderTask::Read { epoch, after }) if epoch == subscribers.epoch => {
                    ReaderTask::Read { epoch, after }
                }
                (Some(after), _) => ReaderTask::Read { epoch: subscribers.epoch, after },
            };
            let changed = next != *task;
            *task = next;
            changed
        });
    }

    fn close(&self) {
        let mut subscribers = self.subscribers();
        subscribers.close();
        self.assign(&subscribers);
    }

    /// Updates the lag gauge.
    fn note_lag(&self, rows: &[JournalRow]) {
        let newest = rows.iter().flat_map(|row| &row.entries).map(JournalEntry::at).max();
        if let Some(at) = newest {
            self.metrics.journal_lag.set(self.clock.now().since(at).as_secs_f64());
        }
    }

    /// Sends the rows to all subscribers since `epoch`. Loading waits for the store, and meanwhile
    /// others may subscribe: it repeats until nothing is left to load.
    async fn publish(&self, epoch: u64, rows: &[JournalRow]) -> Result<(), forgerun_store::Error> {
        let mut printed = PrintedEvents::default();
        let mut printer = Printer::new(&**self.engine.store());
        loop {
            let missing = {
                let mut subscribers = self.subscribers();
                if subscribers.epoch != epoch {
                    return Ok(());
                }
                let missing = subscribers.unprinted(rows, &printed);
                if missing.is_empty() {
                    let told = subscribers.publish(rows, &printed);
                    self.assign(&subscribers);
                    drop(subscribers);
                    self.metrics.sse_events_sent.inc_by(told.n_sent);
                    self.note_lag(rows);
                    if told.n_dropped > 0 {
                        self.metrics.sse_streams_dropped.inc_by(told.n_dropped);
                        debug!(n_streams = told.n_dropped, "streams dropped: queue full");
                    }
                    return Ok(());
                }
                missing
            };
            let lines = printer.print(&missing).await?;
            printed.extend(missing.iter().map(EntryKey::of).zip(lines));
        }
    }
}

/// Closes the hub when the reader ends, for whatever reason: no stream must wait for ever.
struct CloseOnDrop(Arc<HubState>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

async fn read(closing: CloseOnDrop) {
    let inner = &closing.0;
    let mut tasks = inner.task.subscribe();
    loop {
        let task = *tasks.borrow_and_update();
        match task {
            ReaderTask::End => return,
            ReaderTask::Rest => {
                if tasks.changed().await.is_err() {
                    return;
                }
            }
            ReaderTask::Read { epoch, after } => {
                tokio::select! {
                    _ = tasks.wait_for(|other| *other != task) => {}
                    () = read_from(inner, epoch, after) => return,
                }
            }
        }
    }
}

/// Reads from a row on, until the engine stops. Store errors are retried: streams stay open, and
/// continue afterwards.
async fn read_from(inner: &HubState, epoch: u64, after: i64) {
    let mut journal = inner.engine.journal(after);
    loop {
        let rows = match journal.next(STREAM_ROWS_MAX).await {
            Ok(rows) => rows,
            Err(Error::Stopped) => return,
            Err(error) => {
                warn!(%error, "streams: journal read failed");
                inner.clock.sleep(HUB_PAUSE).await;
                continue;
            }
        };
        while let Err(error) = inner.publish(epoch, &rows).await {
            warn!(%error, "streams: job lookup failed");
            inner.clock.sleep(HUB_PAUSE).await;
        }
    }
}
