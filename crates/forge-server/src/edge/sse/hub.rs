//! One reader of the journal for all streams. It reads while somebody listens, and looks up only jobs that somebody
//! listens to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_core::history::JournalEntry;
use forge_core::id::ClientId;
use forge_engine::{Clock, Engine, Error};
use forge_store::JournalRow;
use futures_channel::mpsc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{debug, warn};

use super::hall::{Hall, Key, Line, Printed, Topic};
use super::printer::Printer;
use crate::limits::{HUB_PAUSE, STREAM_ROWS_MAX};
use crate::metrics::Metrics;

/// Where streams hear what happens. Its reader ends with the engine, or when the hub is closed or dropped.
pub struct Hub {
    inner: Arc<Inner>,
    reader: JoinHandle<()>,
}

pub(super) struct Inner {
    engine: Engine,
    clock: Arc<dyn Clock>,
    metrics: Arc<Metrics>,
    /// Events that may wait for one stream.
    room: usize,
    hall: Mutex<Hall>,
    /// What the reader has to do.
    task: watch::Sender<Task>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Nobody listens.
    Rest,
    /// Read from this row on.
    Read { epoch: u64, after: i64 },
    /// It is over.
    End,
}

impl Hub {
    /// Starts the reader. `room`: how many events may wait for one stream.
    pub fn start(engine: Engine, clock: Arc<dyn Clock>, metrics: Arc<Metrics>, room: usize) -> Hub {
        let (hall, task) = (Mutex::default(), watch::Sender::new(Task::Rest));
        let inner = Arc::new(Inner { engine, clock, metrics, room, hall, task });
        let reader = tokio::spawn(read(Closing(inner.clone())));
        Hub { inner, reader }
    }

    /// Ends all streams. Nobody may come in any more.
    pub fn close(&self) {
        self.inner.close();
    }

    /// Counts a stream of a client until the ticket is dropped; `None` if it has as many as it may.
    pub(super) fn admit(&self, client: ClientId, max: usize) -> Option<Ticket> {
        let admitted = self.inner.hall().admit(client, max);
        admitted.then(|| {
            self.inner.metrics.sse_streams_open.inc();
            Ticket { inner: self.inner.clone(), client }
        })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// A stream of a client, counted until dropped.
pub(super) struct Ticket {
    inner: Arc<Inner>,
    client: ClientId,
}

impl Ticket {
    /// A seat from now on: whatever is committed after this call was made will be heard, and perhaps a little of what was
    /// committed before.
    pub(super) async fn sit(&self, topic: Topic) -> Result<Listener, Error> {
        let mut end = None;
        loop {
            if let Some(listener) = self.sit_down(topic, end)? {
                return Ok(listener);
            }
            // The first one to come says where telling begins; of several, the quickest.
            end = Some(self.inner.engine.store().journal_end().await?);
        }
    }

    /// A seat where everybody is, or at the end of the journal if nobody is there. That may be unknown.
    fn sit_down(&self, topic: Topic, end: Option<i64>) -> Result<Option<Listener>, Error> {
        let mut hall = self.inner.hall();
        if hall.closed {
            return Err(Error::Stopped);
        }
        Ok(hall.told.or(end).map(|after| self.inner.seat(&mut hall, topic, after)))
    }

    /// A seat for somebody who knows all up to the row `after`, unless the others have been told more already.
    pub(super) fn sit_at(&self, topic: Topic, after: i64) -> Result<Option<Listener>, Error> {
        let mut hall = self.inner.hall();
        match hall.told {
            _ if hall.closed => Err(Error::Stopped),
            Some(told) if told > after => Ok(None),
            Some(_) | None => Ok(Some(self.inner.seat(&mut hall, topic, after))),
        }
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.inner.hall().dismiss(self.client);
        self.inner.metrics.sse_streams_open.dec();
    }
}

/// A seat in the hall, given back when dropped.
pub(super) struct Listener {
    inner: Arc<Inner>,
    seat: u64,
    lines: mpsc::Receiver<Line>,
}

impl Listener {
    /// The next event; `None` when the seat was taken away. Safe to drop.
    pub(super) async fn next(&mut self) -> Option<Line> {
        self.lines.recv().await.ok()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let mut hall = self.inner.hall();
        hall.leave(self.seat);
        self.inner.assign(&hall);
    }
}

impl Inner {
    fn hall(&self) -> MutexGuard<'_, Hall> {
        // Whoever panicked in there left whole entries behind; at worst a stream too many is counted.
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn seat(self: &Arc<Self>, hall: &mut Hall, topic: Topic, after: i64) -> Listener {
        let (seat, lines) = hall.sit(topic, after, self.room);
        self.assign(hall);
        Listener { inner: self.clone(), seat, lines }
    }

    /// Tells the reader what to do, as the hall is now.
    fn assign(&self, hall: &Hall) {
        self.task.send_if_modified(|task| {
            let next = match (hall.told, *task) {
                _ if hall.closed => Task::End,
                (None, _) => Task::Rest,
                (Some(_), Task::Read { epoch, after }) if epoch == hall.epoch => Task::Read { epoch, after },
                (Some(after), _) => Task::Read { epoch: hall.epoch, after },
            };
            let changed = next != *task;
            *task = next;
            changed
        });
    }

    fn close(&self) {
        let mut hall = self.hall();
        hall.close();
        self.assign(&hall);
    }

    /// How far behind the journal telling is.
    fn note_lag(&self, rows: &[JournalRow]) {
        let newest = rows.iter().flat_map(|row| &row.entries).map(JournalEntry::at).max();
        if let Some(at) = newest {
            self.metrics.journal_lag.set(self.clock.now().since(at).as_secs_f64());
        }
    }

    /// Tells the rows to everybody seated since `epoch`. Printing waits for the store, and meanwhile others may take a seat:
    /// telling waits until there is nothing left to print.
    async fn tell(&self, epoch: u64, rows: &[JournalRow]) -> Result<(), forge_store::Error> {
        let mut printed = Printed::default();
        let mut printer = Printer::new(&**self.engine.store());
        loop {
            let missing = {
                let mut hall = self.hall();
                if hall.epoch != epoch {
                    return Ok(());
                }
                let missing = hall.unprinted(rows, &printed);
                if missing.is_empty() {
                    let told = hall.tell(rows, &printed);
                    self.assign(&hall);
                    drop(hall);
                    self.metrics.sse_events_sent.inc_by(told.n_sent);
                    self.note_lag(rows);
                    if told.n_dropped > 0 {
                        self.metrics.sse_streams_dropped.inc_by(told.n_dropped);
                        debug!(n_streams = told.n_dropped, "streams dropped that did not keep up");
                    }
                    return Ok(());
                }
                missing
            };
            for entry in &missing {
                let line = printer.print(entry).await?;
                printed.insert(Key::of(entry), line);
            }
        }
    }
}

/// Closes the hall when the reader ends, however it ends: nobody shall wait for news that cannot come.
struct Closing(Arc<Inner>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// The reader.
async fn read(closing: Closing) {
    let inner = &closing.0;
    let mut tasks = inner.task.subscribe();
    loop {
        let task = *tasks.borrow_and_update();
        match task {
            Task::End => return,
            Task::Rest => {
                if tasks.changed().await.is_err() {
                    return;
                }
            }
            Task::Read { epoch, after } => {
                tokio::select! {
                    _ = tasks.wait_for(|other| *other != task) => {}
                    () = read_from(inner, epoch, after) => return,
                }
            }
        }
    }
}

/// Reads from a row on, until the engine stops. Trouble with the store is waited out: the streams stay open, and go on when
/// it is over.
async fn read_from(inner: &Inner, epoch: u64, after: i64) {
    let mut journal = inner.engine.journal(after);
    loop {
        let rows = match journal.next(STREAM_ROWS_MAX).await {
            Ok(rows) => rows,
            Err(Error::Stopped) => return,
            Err(error) => {
                warn!(%error, "could not read the journal for streams");
                inner.clock.sleep(HUB_PAUSE).await;
                continue;
            }
        };
        while let Err(error) = inner.tell(epoch, &rows).await {
            warn!(%error, "could not look up jobs for streams");
            inner.clock.sleep(HUB_PAUSE).await;
        }
    }
}
