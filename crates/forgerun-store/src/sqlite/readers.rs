//! Reading, beside the writer and never behind it.
//!
//! A *lookup* by key takes two to five microseconds, handing it to another thread and back more than fifty: it runs where it
//! is asked, on a connection taken from a small pool. Everything longer has threads of its own, so that no task of the
//! runtime waits for a disk: *pages* are found by key and bounded by their caller (inputs, the journal); a *search* may
//! walk past many jobs, and must not keep workers from their inputs.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::connect::DatabaseFile;
use super::read::read;
use super::read_cache::ReadCache;
use super::threads::{Reply, Threads};
use crate::{Error, Page, Query};

/// Two, so that one long search does not stop the others.
const SEARCH_THREADS: usize = 2;

/// Inputs that are still looked up on the spot: as many take as long as the way to another thread and back.
const LOOKUP_INPUTS_MAX: usize = 32;

/// All that reads.
pub(super) struct Readers {
    lookups: Vec<Mutex<Connection>>,
    pages: Threads<ReadTask>,
    searches: Threads<ReadTask>,
    read_cache: Arc<ReadCache>,
}

struct ReadTask {
    query: Query,
    reply: Reply<Page>,
}

/// How a query is best answered.
enum ReadPath {
    Lookup,
    Page,
    Search,
}

impl Readers {
    pub(super) fn open(file: &DatabaseFile, read_cache: &Arc<ReadCache>) -> Result<Readers, Error> {
        let lookups = (0..file.options.lookups.max(1)).map(|_| file.reader().map(Mutex::new));
        Ok(Readers {
            lookups: lookups.collect::<Result<_, _>>()?,
            pages: start("forge-pages", 1, file, read_cache)?,
            searches: start("forge-search", SEARCH_THREADS, file, read_cache)?,
            read_cache: read_cache.clone(),
        })
    }

    pub(super) async fn read(&self, query: Query) -> Result<Page, Error> {
        match path_of(&query) {
            ReadPath::Lookup => self.look_up(&query),
            ReadPath::Page => self.pages.ask(|reply| ReadTask { query, reply }).await,
            ReadPath::Search => self.searches.ask(|reply| ReadTask { query, reply }).await,
        }
    }

    /// On the first connection that is free, so that a quiet server warms one cache only. With all of them taken, waits
    /// for one: for as long as one lookup takes.
    fn look_up(&self, query: &Query) -> Result<Page, Error> {
        if let Some(page) = self.read_cache.page(query) {
            return Ok(page);
        }
        let free = self.lookups.iter().find_map(|db| db.try_lock().ok());
        let db = free.unwrap_or_else(|| self.lookups[0].lock().unwrap_or_else(PoisonError::into_inner));
        read(&db, &self.read_cache, query)
    }
}

fn path_of(query: &Query) -> ReadPath {
    match query {
        Query::Job(_)
        | Query::JobOf(_)
        | Query::Outcome(_)
        | Query::Result(_)
        | Query::Tombstone(_)
        | Query::Ahead { .. }
        | Query::NextDue
        | Query::Client(_)
        | Query::ApiKey(_)
        | Query::JournalEnd => ReadPath::Lookup,
        Query::Inputs(ids) if ids.len() <= LOOKUP_INPUTS_MAX => ReadPath::Lookup,
        Query::Inputs(_)
        | Query::Items(_)
        | Query::JobsById(_)
        | Query::Outcomes(_)
        | Query::Journal { .. }
        | Query::Logs(_)
        | Query::LogSummary { .. } => ReadPath::Page,
        Query::Webhook(_)
        | Query::Webhooks { .. }
        | Query::Delivery(_)
        | Query::NextDelivery
        | Query::SigningKeys => ReadPath::Lookup,
        Query::Jobs(_)
        | Query::Shelf { .. }
        | Query::Oldest(_)
        | Query::Front { .. }
        | Query::DeadLetters { .. }
        | Query::Queues { .. }
        | Query::Counts(_)
        | Query::Activity { .. }
        | Query::Limit(_)
        | Query::Limits { .. }
        | Query::DeadLettersOf { .. }
        | Query::ShelfNames { .. }
        | Query::Record(_)
        | Query::Records { .. }
        | Query::Deliveries(_)
        | Query::SetAside { .. }
        | Query::Operator(_)
        | Query::JournalBefore(_)
        | Query::LogBytes(_) => ReadPath::Search,
    }
}

fn start(
    name: &str,
    n: usize,
    file: &DatabaseFile,
    read_cache: &Arc<ReadCache>,
) -> Result<Threads<ReadTask>, Error> {
    let worker = |db: Connection| {
        let read_cache = read_cache.clone();
        move |ReadTask { query, reply }: ReadTask| {
            if !reply.is_closed() {
                // Nobody waiting any more is fine.
                let _ = reply.send(read(&db, &read_cache, &query));
            }
        }
    };
    let workers = (0..n).map(|_| file.reader().map(worker)).collect::<Result<Vec<_>, _>>()?;
    Threads::start(name, workers)
}
