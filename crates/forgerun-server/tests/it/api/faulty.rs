//! A store that can be told to misbehave.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use forgerun_core::log::LogBatch;
use forgerun_core::{Changes, Wants};
use forgerun_store::memory::Memory;
use forgerun_store::{Blobs, Boxed, Decide, Error, Fault, Page, Query, Store, Sweep, Swept, Wakeup};
use tokio::sync::{Notify, broadcast};

/// How to misbehave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Mood {
    #[default]
    Fine,
    /// Reads of jobs and all writes fail like this.
    Broken(Fault),
    /// Reads of jobs never come back.
    Hanging,
    /// Writes never come back.
    HangingWrites,
    /// Reads of signing keys never come back.
    HangingKeys,
    /// Reads of what jobs work on never come back.
    HangingInputs,
    /// Writes are done, and nobody hears of it before the mood changes.
    SilentWrites,
    /// Writes are done, and their answers are lost.
    LostAnswers,
    /// Jobs come without their history.
    Forgetful,
    /// Reads of jobs meet a bug.
    Panicking,
}

/// A store in memory with a mood.
#[derive(Default)]
pub(crate) struct Faulty {
    memory: Memory,
    mood: Mutex<Mood>,
    changed: Notify,
    n_journal_ends: AtomicUsize,
}

impl Faulty {
    pub(crate) fn new() -> Arc<Faulty> {
        Arc::default()
    }

    pub(crate) fn set(&self, mood: Mood) {
        *self.mood.lock().unwrap() = mood;
        self.changed.notify_waiters();
    }

    /// How often it was asked where the journal ends.
    pub(crate) fn n_journal_ends(&self) -> usize {
        self.n_journal_ends.load(Ordering::Relaxed)
    }

    async fn not_silent(&self) {
        loop {
            let changed = self.changed.notified();
            if !matches!(self.mood(), Mood::SilentWrites) {
                return;
            }
            changed.await;
        }
    }

    fn mood(&self) -> Mood {
        *self.mood.lock().unwrap()
    }
}

impl Store for Faulty {
    fn transact(&self, wants: Wants, decide: Decide) -> Boxed<'_, Changes> {
        match self.mood() {
            Mood::Broken(fault) => Box::pin(async move { Err(Error::new(fault, "on /secret/host:5432")) }),
            Mood::HangingWrites => Box::pin(pending()),
            Mood::SilentWrites => Box::pin(async move {
                let done = self.memory.transact(wants, decide).await;
                self.not_silent().await;
                done
            }),
            Mood::LostAnswers => Box::pin(async move {
                self.memory.transact(wants, decide).await?;
                Err(Error::new(Fault::Unknown, "on /secret/host:5432"))
            }),
            Mood::Fine
            | Mood::Hanging
            | Mood::HangingKeys
            | Mood::HangingInputs
            | Mood::Forgetful
            | Mood::Panicking => self.memory.transact(wants, decide),
        }
    }

    fn read(&self, query: Query) -> Boxed<'_, Page> {
        let about_jobs = matches!(query, Query::Job(_) | Query::Jobs(_) | Query::JournalEnd);
        if matches!(query, Query::JournalEnd) {
            self.n_journal_ends.fetch_add(1, Ordering::Relaxed);
        }
        match self.mood() {
            Mood::Broken(fault) if about_jobs => {
                Box::pin(async move { Err(Error::new(fault, "on /secret/host:5432")) })
            }
            Mood::Hanging if about_jobs => Box::pin(pending()),
            Mood::HangingKeys if matches!(query, Query::SigningKeys) => Box::pin(pending()),
            Mood::HangingInputs if matches!(query, Query::Inputs(_)) => Box::pin(pending()),
            Mood::Panicking if about_jobs => panic!("a bug in the store, as this test wants it"),
            Mood::Forgetful => Box::pin(async move { Ok(without_history(self.memory.read(query).await?)) }),
            Mood::Fine
            | Mood::Broken(_)
            | Mood::Hanging
            | Mood::HangingWrites
            | Mood::HangingKeys
            | Mood::HangingInputs
            | Mood::SilentWrites
            | Mood::LostAnswers
            | Mood::Panicking => self.memory.read(query),
        }
    }

    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept> {
        self.memory.sweep(sweep)
    }

    fn append_logs(&self, batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>> {
        match self.mood() {
            Mood::Broken(fault) => Box::pin(async move { Err(Error::new(fault, "on /secret/host:5432")) }),
            _ => self.memory.append_logs(batches, bytes_max),
        }
    }

    fn blobs(&self) -> &dyn Blobs {
        self.memory.blobs()
    }

    fn wakeups(&self) -> broadcast::Receiver<Wakeup> {
        self.memory.wakeups()
    }

    fn lanes(&self) -> usize {
        self.memory.lanes()
    }
}

fn without_history(mut page: Page) -> Page {
    match &mut page {
        Page::Job(Some(job)) => Arc::make_mut(job).history = Default::default(),
        Page::Jobs(jobs) => jobs.iter_mut().for_each(|job| job.history = Default::default()),
        _ => {}
    }
    page
}
