//! Waiting for jobs to end. All requests that wait share one reader of the journal; whichever comes first reads for all.
//!
//! Nobody is missed: a request first registers, then makes sure that there is a place to read from, and only then looks at
//! its job. What happened before that look, the look sees; what happens after, the reader does. Whoever reads may go away
//! at any moment (its job has ended, its time is up, its connection broke): the next one goes on from the same place.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forge_core::history::JournalEntry;
use forge_core::id::JobId;
use forge_core::job::Job;
use forge_engine::journal::JournalReader;
use forge_engine::{Engine, Error};
use tokio::sync::{Mutex as AsyncMutex, Notify};

use crate::app::App;
use crate::limits::JOURNAL_ROWS_MAX;

/// Who waits for which job to end.
#[derive(Default)]
pub struct Endings {
    hall: Mutex<Hall>,
    /// Held while a place to read from is found.
    placing: AsyncMutex<()>,
    /// Held by whoever reads.
    reader: AsyncMutex<Option<JournalReader>>,
}

#[derive(Default)]
struct Hall {
    waiting: HashMap<JobId, Seat>,
    /// Whether the reader stands at a place that suits everybody in the hall; not so once the hall was empty.
    placed: bool,
}

#[derive(Default)]
struct Seat {
    ended: Arc<Notify>,
    n_waiting: usize,
}

impl Endings {
    /// Waits until the job has ended, `span` is over, or the server stops. The caller looks at the job afterwards, since
    /// more may have happened to it. Safe to drop.
    pub async fn wait(&self, app: &App, job: &Job, span: Duration) -> Result<(), Error> {
        if job.state.is_final() {
            return Ok(());
        }
        let visit = Visit::new(self, job.id);
        let ended = visit.ended.notified();
        self.place(&app.engine).await?;
        if app.engine.store().job(job.id).await?.is_none_or(|job| job.state.is_final()) {
            return Ok(());
        }
        tokio::select! {
            biased;
            () = ended => {}
            () = app.stopping() => {}
            () = app.clock.sleep(span) => {}
            // Only trouble ends the reading; whoever looks at the job next meets it too.
            _ = self.read() => {}
        }
        Ok(())
    }

    /// Makes sure that there is a place to read from.
    async fn place(&self, engine: &Engine) -> Result<(), Error> {
        let _placing = self.placing.lock().await;
        if self.hall().placed {
            return Ok(());
        }
        let end = engine.store().journal_end().await?;
        *self.reader.lock().await = Some(engine.journal(end));
        self.hall().placed = true;
        Ok(())
    }

    /// Reads the journal for everybody, once it is this one's turn.
    async fn read(&self) -> Error {
        let mut reader = self.reader.lock().await;
        let reader = reader.as_mut().expect("a place was found before");
        loop {
            match reader.next(JOURNAL_ROWS_MAX).await {
                Ok(rows) => self.tell(rows.iter().flat_map(|row| &row.entries)),
                Err(error) => return error,
            }
        }
    }

    fn tell<'a>(&self, entries: impl Iterator<Item = &'a JournalEntry>) {
        let hall = self.hall();
        for (job, event) in entries.filter_map(JournalEntry::job_event) {
            if event.ends()
                && let Some(seat) = hall.waiting.get(&job)
            {
                seat.ended.notify_waiters();
            }
        }
    }

    fn hall(&self) -> MutexGuard<'_, Hall> {
        // Nothing is half-done in there, whoever panicked.
        self.hall.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the hall, left when dropped.
struct Visit<'a> {
    endings: &'a Endings,
    job: JobId,
    ended: Arc<Notify>,
}

impl<'a> Visit<'a> {
    fn new(endings: &'a Endings, job: JobId) -> Visit<'a> {
        let mut hall = endings.hall();
        let seat = hall.waiting.entry(job).or_default();
        seat.n_waiting += 1;
        Visit { endings, job, ended: seat.ended.clone() }
    }
}

impl Drop for Visit<'_> {
    fn drop(&mut self) {
        let mut hall = self.endings.hall();
        if let Some(seat) = hall.waiting.get_mut(&self.job) {
            seat.n_waiting -= 1;
            if seat.n_waiting == 0 {
                hall.waiting.remove(&self.job);
            }
        }
        if hall.waiting.is_empty() {
            hall.placed = false;
        }
    }
}
