//! Reading, beside the writer and never behind it.
//!
//! A *lookup* by key takes two to five microseconds, handing it to another thread and back more than fifty: it runs where it
//! is asked, on a connection taken from a small pool. Everything longer has threads of its own, so that no task of the
//! runtime waits for a disk: *pages* are found by key and bounded by their caller (inputs, the journal); a *search* may
//! walk past many jobs, and must not keep workers from their inputs.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;

use super::connect::Place;
use super::read::read;
use super::recent::Recent;
use super::threads::{Reply, Threads};
use crate::{Error, Page, Query};

/// Two, so that one long search does not stop the others.
const SEARCH_THREADS: usize = 2;

/// Inputs that are still looked up on the spot: as many take as long as the way to another thread and back.
const LOOKUP_INPUTS_MAX: usize = 32;

/// All that reads.
pub(super) struct Readers {
    lookups: Vec<Mutex<Connection>>,
    pages: Threads<Task>,
    searches: Threads<Task>,
    recent: Arc<Recent>,
}

struct Task {
    query: Query,
    reply: Reply<Page>,
}

/// How a query is best answered.
enum Road {
    Lookup,
    Page,
    Search,
}

impl Readers {
    pub(super) fn open(place: &Place, recent: &Arc<Recent>) -> Result<Readers, Error> {
        let lookups = (0..place.options.lookups.max(1)).map(|_| place.reader().map(Mutex::new));
        Ok(Readers {
            lookups: lookups.collect::<Result<_, _>>()?,
            pages: start("forge-pages", 1, place, recent)?,
            searches: start("forge-search", SEARCH_THREADS, place, recent)?,
            recent: recent.clone(),
        })
    }

    pub(super) async fn read(&self, query: Query) -> Result<Page, Error> {
        match road_of(&query) {
            Road::Lookup => self.look_up(&query),
            Road::Page => self.pages.ask(|reply| Task { query, reply }).await,
            Road::Search => self.searches.ask(|reply| Task { query, reply }).await,
        }
    }

    /// On the first connection that is free, so that a quiet server warms one cache only. With all of them taken, waits
    /// for one: for as long as one lookup takes.
    fn look_up(&self, query: &Query) -> Result<Page, Error> {
        if let Some(page) = self.recent.page(query) {
            return Ok(page);
        }
        let free = self.lookups.iter().find_map(|db| db.try_lock().ok());
        let db = free.unwrap_or_else(|| self.lookups[0].lock().unwrap_or_else(PoisonError::into_inner));
        read(&db, &self.recent, query)
    }
}

fn road_of(query: &Query) -> Road {
    match query {
        Query::Job(_)
        | Query::JobOf(_)
        | Query::Outcome(_)
        | Query::Result(_)
        | Query::Tombstone(_)
        | Query::Occupied(_)
        | Query::Ahead { .. }
        | Query::NextDue
        | Query::Client(_)
        | Query::ApiKey(_)
        | Query::JournalEnd => Road::Lookup,
        Query::Inputs(ids) if ids.len() <= LOOKUP_INPUTS_MAX => Road::Lookup,
        Query::Inputs(_)
        | Query::Items(_)
        | Query::JobsById(_)
        | Query::Outcomes(_)
        | Query::Journal { .. } => Road::Page,
        Query::Webhook(_)
        | Query::Webhooks { .. }
        | Query::Delivery(_)
        | Query::NextDelivery
        | Query::SigningKeys => Road::Lookup,
        Query::Jobs(_)
        | Query::Shelf { .. }
        | Query::DeadLetters { .. }
        | Query::Queues
        | Query::Deliveries(_)
        | Query::JournalBefore(_) => Road::Search,
    }
}

fn start(name: &str, n: usize, place: &Place, recent: &Arc<Recent>) -> Result<Threads<Task>, Error> {
    let worker = |db: Connection| {
        let recent = recent.clone();
        move |Task { query, reply }: Task| {
            if !reply.is_closed() {
                // Nobody waiting any more is fine.
                let _ = reply.send(read(&db, &recent, &query));
            }
        }
    };
    let workers = (0..n).map(|_| place.reader().map(worker)).collect::<Result<Vec<_>, _>>()?;
    Threads::start(name, workers)
}
