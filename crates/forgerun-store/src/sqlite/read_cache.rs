//! What was just read, for those who ask again: most polls find nothing new.
//!
//! Only a copy, and never an old one: it is handed out only while the [`CommitStamp`] is the one it was right for.
//! The writer says which jobs a commit of its own changed, so that the others stay; of a commit of another process nothing
//! is known, and everything goes.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use forgerun_core::Changes;
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, Shelf};

use super::JobMap;
use super::commits::{CommitCounter, CommitStamp};
use crate::front::ShelfFront;
use crate::{Page, Query};

/// Jobs kept, of about a kilobyte each. When there are more, it starts over.
const JOBS_MAX: usize = 4096;

/// Shelves whose front is kept, at some kilobytes each.
const FRONTS_MAX: usize = 256;

/// What was just read.
pub(super) struct ReadCache {
    /// Without it nothing is kept.
    commits: Option<CommitCounter>,
    copies: RwLock<CachedRows>,
}

#[derive(Default)]
struct CachedRows {
    /// The moment for which the jobs are right.
    as_of: CommitStamp,
    jobs: JobMap<Arc<Job>>,
    fronts: HashMap<Shelf, CachedFront>,
}

struct CachedFront {
    /// The moment for which this is right.
    as_of: Option<CommitStamp>,
    front: Arc<ShelfFront>,
}

/// Before which commit something was read.
#[derive(Clone, Copy)]
pub(super) struct ReadStamp(Option<CommitStamp>);

impl ReadCache {
    /// Nothing yet.
    pub(super) fn new(commits: Option<CommitCounter>) -> ReadCache {
        let as_of = commits.as_ref().and_then(CommitCounter::now).unwrap_or_default();
        ReadCache { commits, copies: RwLock::new(CachedRows { as_of, ..CachedRows::default() }) }
    }

    /// To be called before reading what is to be kept.
    pub(super) fn reading(&self) -> ReadStamp {
        ReadStamp(self.now())
    }

    /// The answer, if it is known.
    pub(super) fn page(&self, query: &Query) -> Option<Page> {
        match query {
            Query::Job(id) => self.job(*id).map(|job| Page::Job(Some(job))),
            Query::Ahead { shelf, order, limit } => {
                self.front(shelf, *limit).map(|front| Page::Ahead(front.ahead(*order)))
            }
            _ => None,
        }
    }

    /// The job as it is now, if that is known.
    fn job(&self, id: JobId) -> Option<Arc<Job>> {
        let copies = self.copies();
        let job = copies.jobs.get(&id)?;
        (self.now() == Some(copies.as_of)).then(|| job.clone())
    }

    /// Keeps a job, unless something was committed since.
    pub(super) fn keep_job(&self, reading: ReadStamp, job: &Arc<Job>) {
        if reading.0.is_none() {
            return;
        }
        let mut copies = self.copies_mut();
        if reading.0 == Some(copies.as_of) && reading.0 == self.now() {
            if copies.jobs.len() >= JOBS_MAX {
                copies.jobs.clear();
            }
            copies.jobs.insert(job.id, job.clone());
        }
    }

    /// The front of a shelf as it is now, so deep, if that is known.
    fn front(&self, shelf: &Shelf, depth: usize) -> Option<Arc<ShelfFront>> {
        let copies = self.copies();
        let cached = copies.fronts.get(shelf).filter(|cached| cached.front.depth == depth)?;
        (cached.as_of == self.now()).then(|| cached.front.clone())
    }

    /// Keeps the front of a shelf until the next commit.
    pub(super) fn keep_front(&self, reading: ReadStamp, shelf: &Shelf, front: ShelfFront) -> Arc<ShelfFront> {
        let front = Arc::new(front);
        if reading.0.is_some() && reading.0 == self.now() {
            let mut copies = self.copies_mut();
            if copies.fronts.len() >= FRONTS_MAX {
                copies.fronts.clear();
            }
            copies.fronts.insert(shelf.clone(), CachedFront { as_of: reading.0, front: front.clone() });
        }
        front
    }

    /// Whether there may be commits that are not ours. While we write there are, for a moment.
    pub(super) fn is_behind(&self) -> bool {
        self.now() != Some(self.copies().as_of)
    }

    /// The writer has begun a transaction: until it ends, nobody else commits.
    pub(super) fn begun(&self) {
        let Some(now) = self.now() else { return };
        if self.copies().as_of != now {
            let mut copies = self.copies_mut();
            copies.jobs.clear();
            copies.as_of = now;
        }
    }

    /// The transaction has written and committed; `changes` are what it did to jobs. To be called before anybody is told.
    pub(super) fn committed(&self, changes: Option<&Changes>) {
        let Some(commits) = &self.commits else { return };
        let mut copies = self.copies_mut();
        copies.as_of = commits.after(copies.as_of);
        let Some(changes) = changes.filter(|_| !copies.jobs.is_empty()) else { return };
        for job in &changes.updated {
            copies.jobs.remove(&job.id);
        }
        for forgotten in &changes.forgotten {
            copies.jobs.remove(&forgotten.job);
        }
    }

    fn now(&self) -> Option<CommitStamp> {
        self.commits.as_ref().and_then(CommitCounter::now)
    }

    // There is no half-made state to fear from a thread that panicked.
    fn copies(&self) -> RwLockReadGuard<'_, CachedRows> {
        self.copies.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn copies_mut(&self) -> RwLockWriteGuard<'_, CachedRows> {
        self.copies.write().unwrap_or_else(PoisonError::into_inner)
    }
}
