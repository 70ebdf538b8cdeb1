//! Reads the journal for a sink, and loads the rows for its events: a chunk at a time, in few
//! queries.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::history::{Event, JournalEntry};
use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::job::Job;
use forgerun_core::rows::Object;
use forgerun_core::sink::SinkPosition;
use forgerun_store::JournalRow;
use tokio::sync::mpsc;

use super::{EventSink, SinkEvent};
use crate::journal::JournalReader;
use crate::{Engine, Error};

/// Journal rows read at once, at most. A row has the events of one transaction: one, or thousands.
const ROWS_MAX: usize = 256;

/// Target number of entries in a page of rows.
const PAGE_ENTRIES: usize = 2048;

/// The wait after a store error.
const PAUSE: Duration = Duration::from_millis(250);

/// Events, and the journal position after them.
pub(super) struct Chunk {
    /// Within a wave each job occurs once; a later event of the job is in a later wave.
    pub(super) waves: Vec<Vec<SinkEvent>>,
    /// Events whose job was deleted.
    pub(super) n_skipped: usize,
    pub(super) end: SinkPosition,
}

pub(super) struct SinkFeed {
    engine: Engine,
    sink: Arc<dyn EventSink>,
    reader: JournalReader,
    /// Position before the first read.
    begin: SinkPosition,
    rows_max: usize,
    chunk_max: usize,
}

impl SinkFeed {
    pub(super) fn new(
        engine: Engine,
        sink: Arc<dyn EventSink>,
        begin: SinkPosition,
        chunk_max: usize,
    ) -> SinkFeed {
        // The row itself is read again: a part of it may be left.
        let reader = engine.journal(begin.row - 1);
        SinkFeed { engine, sink, reader, begin, rows_max: 8, chunk_max }
    }

    /// Reads until the engine stops or the receiver is dropped.
    pub(super) async fn run(mut self, chunks: mpsc::Sender<Chunk>) {
        while let Some(rows) = self.next_rows().await {
            for (wanted, end) in self.cut(&rows) {
                let chunk = self.load(&wanted, end).await;
                if chunks.send(chunk).await.is_err() {
                    return;
                }
            }
        }
    }

    /// The next rows; `None` once the engine has stopped.
    async fn next_rows(&mut self) -> Option<Vec<JournalRow>> {
        loop {
            match self.reader.next(self.rows_max).await {
                Ok(rows) => {
                    self.adapt(rows.iter().map(|row| row.entries.len()).sum());
                    return Some(rows);
                }
                Err(Error::Stopped) => return None,
                Err(error) => {
                    tracing::debug!(sink = self.sink.name(), %error, "could not read the journal");
                    self.engine.clock().sleep(PAUSE).await;
                }
            }
        }
    }

    /// Adapts the page size: rows differ by a factor of thousands, and a page is held in memory.
    fn adapt(&mut self, n_entries: usize) {
        self.rows_max = match n_entries {
            0..PAGE_ENTRIES => (self.rows_max * 2).min(ROWS_MAX),
            _ => (self.rows_max / 2).max(1),
        };
    }

    /// Cuts rows into chunks, each with the position after it.
    fn cut(&self, rows: &[JournalRow]) -> Vec<(Vec<JournalEntry>, SinkPosition)> {
        let mut chunks = Vec::new();
        let mut wanted = Vec::new();
        for row in rows {
            let through = if row.seq == self.begin.row { self.begin.entries as usize } else { 0 };
            for (n, entry) in row.entries.iter().enumerate().skip(through) {
                if entry.job_event().is_some_and(|(_, event)| self.sink.wants(event)) {
                    wanted.push(*entry);
                }
                if wanted.len() >= self.chunk_max {
                    let end = SinkPosition { row: row.seq, entries: n as u32 + 1 };
                    chunks.push((std::mem::take(&mut wanted), end));
                }
            }
        }
        // The last one may be empty: events without a subscriber count as sent.
        if let Some(last) = rows.last() {
            chunks.push((wanted, SinkPosition::after(last.seq)));
        }
        chunks
    }

    /// Loads the rows for these events, with retries while the store fails.
    async fn load(&self, entries: &[JournalEntry], end: SinkPosition) -> Chunk {
        loop {
            match self.try_load(entries).await {
                Ok((waves, n_skipped)) => return Chunk { waves, n_skipped, end },
                Err(error) => {
                    tracing::debug!(sink = self.sink.name(), %error, "could not load events");
                    self.engine.clock().sleep(PAUSE).await;
                }
            }
        }
    }

    async fn try_load(
        &self,
        entries: &[JournalEntry],
    ) -> Result<(Vec<Vec<SinkEvent>>, usize), forgerun_store::Error> {
        let events: Vec<(JobId, &Event)> = entries.iter().filter_map(JournalEntry::job_event).collect();
        if events.is_empty() {
            return Ok((Vec::new(), 0));
        }
        let store = &**self.engine.store();
        let ids: HashSet<JobId> = events.iter().map(|(job, _)| *job).collect();
        let jobs = store.jobs_by_id(ids.into_iter().collect()).await?;
        let jobs: HashMap<JobId, Arc<Job>> = jobs.into_iter().map(|job| (job.id, Arc::new(job))).collect();
        let ended = events.iter().filter(|(_, event)| event.ends());
        let executions = ended.filter_map(|(job, event)| jobs.get(job)?.execution_id(event.execution));
        let outcomes = match executions.collect::<Vec<_>>() {
            none if none.is_empty() => Vec::new(),
            executions => store.outcomes(executions).await?,
        };
        let mut outcomes: HashMap<ExecutionId, Object> =
            outcomes.into_iter().map(|outcome| (outcome.execution, outcome.object)).collect();
        let mut waves: Vec<Vec<SinkEvent>> = Vec::new();
        let mut n_before: HashMap<JobId, usize> = HashMap::new();
        let mut n_skipped = 0;
        for (id, event) in events {
            let Some(job) = jobs.get(&id) else {
                n_skipped += 1;
                continue;
            };
            let execution = job.execution_id(event.execution).filter(|_| event.ends());
            let outcome = execution.and_then(|execution| outcomes.remove(&execution));
            let wave = n_before.entry(id).or_default();
            if waves.len() <= *wave {
                waves.push(Vec::new());
            }
            waves[*wave].push(SinkEvent { job: job.clone(), event: *event, outcome });
            *wave += 1;
        }
        Ok((waves, n_skipped))
    }
}
