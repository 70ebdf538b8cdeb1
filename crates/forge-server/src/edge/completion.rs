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
pub struct CompletionWaiters {
    table: Mutex<WaiterTable>,
    /// Held while a place to read from is found.
    finding_start: AsyncMutex<()>,
    /// Held by whoever reads.
    reader: AsyncMutex<Option<JournalReader>>,
}

#[derive(Default)]
struct WaiterTable {
    waiting: HashMap<JobId, JobWaiters>,
    /// Whether the reader stands at a place that suits everybody in the table; not so once the table was empty.
    has_start: bool,
}

#[derive(Default)]
struct JobWaiters {
    ended: Arc<Notify>,
    n_waiting: usize,
}

impl CompletionWaiters {
    /// Waits until the job has ended, `span` is over, or the server stops. The caller looks at the job afterwards, since
    /// more may have happened to it. Safe to drop.
    pub async fn wait(&self, app: &App, job: &Job, span: Duration) -> Result<(), Error> {
        if job.state.is_final() {
            return Ok(());
        }
        let guard = WaitGuard::new(self, job.id);
        let ended = guard.ended.notified();
        self.find_start(&app.engine).await?;
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
    async fn find_start(&self, engine: &Engine) -> Result<(), Error> {
        let _placing = self.finding_start.lock().await;
        if self.table().has_start {
            return Ok(());
        }
        let end = engine.store().journal_end().await?;
        *self.reader.lock().await = Some(engine.journal(end));
        self.table().has_start = true;
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
        let table = self.table();
        for (job, event) in entries.filter_map(JournalEntry::job_event) {
            if event.ends()
                && let Some(waiters) = table.waiting.get(&job)
            {
                waiters.ended.notify_waiters();
            }
        }
    }

    fn table(&self) -> MutexGuard<'_, WaiterTable> {
        // Nothing is half-done in there, whoever panicked.
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A place in the table, left when dropped.
struct WaitGuard<'a> {
    all: &'a CompletionWaiters,
    job: JobId,
    ended: Arc<Notify>,
}

impl<'a> WaitGuard<'a> {
    fn new(all: &'a CompletionWaiters, job: JobId) -> WaitGuard<'a> {
        let mut table = all.table();
        let waiters = table.waiting.entry(job).or_default();
        waiters.n_waiting += 1;
        WaitGuard { all, job, ended: waiters.ended.clone() }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let mut table = self.all.table();
        if let Some(waiters) = table.waiting.get_mut(&self.job) {
            waiters.n_waiting -= 1;
            if waiters.n_waiting == 0 {
                table.waiting.remove(&self.job);
            }
        }
        if table.waiting.is_empty() {
            table.has_start = false;
        }
    }
}
