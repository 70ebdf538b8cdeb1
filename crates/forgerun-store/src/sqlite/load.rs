//! From [`Wants`] to [`Rows`]: the reading half of a transaction. Runs under the write lock, so what is read here
//! stays as it is until the changes are written.

use std::collections::BTreeSet;

use forgerun_core::codec::Corrupt;
use forgerun_core::id::JobId;
use forgerun_core::job::Shelf;
use forgerun_core::related::{self, RelatedTurns};
use forgerun_core::rows::{DueWant, KeyRow, LimitRow};
use forgerun_core::set_aside::{RowId, Unreadable};
use forgerun_core::time::Time;
use forgerun_core::{Rows, Wants, limits};
use rusqlite::{Connection, OptionalExtension, Params, Row, params};

use super::statements::statements;
use super::writer_cache::WriterCache;
use super::{JobMap, cells, clients, deliveries, queues, records};
use crate::{Error, Fault};

statements! {
    JOB = "
        SELECT n, id, head, body
        FROM jobs
        WHERE id = ?1
    ";

    /// Walks `jobs_shelf` from its head and stops after `?3`: the order is that of the index, nothing is sorted.
    SHELF = "
        SELECT n, id, head, body
        FROM jobs INDEXED BY jobs_shelf
        WHERE lane = ?1 AND shelf = ?2
        ORDER BY priority DESC, coalesce(place, id)
        LIMIT ?3
    ";

    /// The same from a place on, within a priority.
    SHELF_FROM = "
        SELECT n, id, head, body
        FROM jobs INDEXED BY jobs_shelf
        WHERE lane = ?1 AND shelf = ?2 AND priority = ?4 AND coalesce(place, id) >= ?5
        ORDER BY coalesce(place, id)
        LIMIT ?3
    ";

    /// Walks `jobs_due` from the longest due.
    DUE = "
        SELECT n, id, head, body
        FROM jobs INDEXED BY jobs_due
        WHERE due_at <= ?1
        ORDER BY due_at, id
        LIMIT ?2
    ";

    KEY = "
        SELECT fingerprint, jobs
        FROM idempotency
        WHERE client = ?1 AND operation = ?2 AND key = ?3
    ";

    UNIQUE = "
        SELECT job
        FROM uniques
        WHERE key = ?1
    ";

    LIMIT = "
        SELECT active, turn_at
        FROM limits
        WHERE key = ?1
    ";
}

/// What was loaded, and under which row numbers: writing by number saves looking the id up again, and reaches a row whose id is damaged.
#[derive(Default)]
pub(super) struct Loaded {
    pub(super) rows: Rows,
    pub(super) numbers: JobMap<i64>,
}

/// Reads what is wanted, and its related rows. Takes from `cache` what is there.
pub(super) fn load(db: &Connection, wants: &Wants, cache: &mut WriterCache) -> Result<Loaded, Error> {
    let mut loaded = Loaded::default();
    loaded.numbers.reserve(wants.jobs.len() + wants.shelves.values().sum::<usize>());
    let mut ids: BTreeSet<JobId> = wants.jobs.clone();
    loaded.keys(db, wants, &mut ids)?;
    ids.extend(loaded.uniques(db, &wants.uniques)?);
    for (shelf, &limit) in &wants.shelves {
        loaded.shelf(db, shelf, limit)?;
    }
    if let Some(due) = wants.due {
        loaded.due(db, due)?;
    }
    loaded.jobs(db, &ids, cache)?;
    loaded.sought(db, wants, cache)?;
    let holders = loaded.uniques(db, &related::uniques(wants, &loaded.rows.jobs))?;
    loaded.jobs(db, &holders, cache)?;
    loaded.turns(db, wants)?;
    loaded.limits(db)?;
    loaded.counts(db, wants)?;
    records::load(db, wants, &mut loaded.rows)?;
    loaded.clients(db, wants)?;
    deliveries::load(db, wants, &mut loaded.rows)?;
    Ok(loaded)
}

impl Loaded {
    fn keys(&mut self, db: &Connection, wants: &Wants, ids: &mut BTreeSet<JobId>) -> Result<(), Error> {
        let mut statement = db.prepare_cached(KEY)?;
        for key in &wants.keys {
            let mut found = statement.query(params![key.client.to_bytes(), key.operation, key.key])?;
            let Some(row) = found.next()? else { continue };
            let (jobs, rest) = cells::bytes(row, 1)?.as_chunks::<16>();
            if !rest.is_empty() {
                return Err(Corrupt.into());
            }
            let jobs: Vec<JobId> = jobs.iter().map(|id| JobId::from_u128(u128::from_be_bytes(*id))).collect();
            ids.extend(&jobs);
            self.rows.keys.insert(key.clone(), KeyRow { fingerprint: cells::array(row, 0)?, jobs });
        }
        Ok(())
    }

    /// Looks up unique keys, and gives the jobs that hold them.
    fn uniques(&mut self, db: &Connection, keys: &BTreeSet<[u8; 32]>) -> Result<BTreeSet<JobId>, Error> {
        let mut holders = BTreeSet::new();
        let mut statement = db.prepare_cached(UNIQUE)?;
        for key in keys {
            let mut found = statement.query(params![key])?;
            let Some(row) = found.next()? else { continue };
            let holder = cells::job_id(row, 0)?;
            holders.insert(holder);
            self.rows.uniques.insert(*key, holder);
        }
        Ok(holders)
    }

    fn shelf(&mut self, db: &Connection, shelf: &Shelf, limit: usize) -> Result<(), Error> {
        let params = params![shelf.lane as u8, shelf.name.as_str(), sql_limit(limit)];
        let found = self.take_all(db, SHELF, params)?;
        self.rows.shelves.insert(shelf.clone(), found);
        Ok(())
    }

    fn due(&mut self, db: &Connection, due: DueWant) -> Result<(), Error> {
        self.rows.due = self.take_all(db, DUE, params![due.now.as_micros(), sql_limit(due.limit)])?;
        Ok(())
    }

    fn jobs(&mut self, db: &Connection, ids: &BTreeSet<JobId>, cache: &mut WriterCache) -> Result<(), Error> {
        let mut statement = db.prepare_cached(JOB)?;
        for &id in ids {
            if self.rows.unreadable.iter().any(|met| met.row == RowId::Job(id)) {
                return Err(Corrupt.into());
            }
            if self.numbers.contains_key(&id) {
                continue;
            }
            if let Some((n, job)) = cache.take(id) {
                self.numbers.insert(id, n);
                self.rows.jobs.push(job);
            } else if let Some(row) = statement.query(params![id.to_bytes()])?.next()? {
                self.take(row)?;
            }
        }
        Ok(())
    }

    /// The jobs that no command names: one that cannot be read is noted.
    fn sought(&mut self, db: &Connection, wants: &Wants, cache: &mut WriterCache) -> Result<(), Error> {
        for &id in &wants.jobs_sought {
            match self.jobs(db, &BTreeSet::from([id]), cache) {
                Err(error) if error.fault == Fault::Corrupt => self.note(id, &error),
                taken => taken?,
            }
        }
        Ok(())
    }

    /// The rows of turns are loaded with those of limits.
    fn turns(&mut self, db: &Connection, wants: &Wants) -> Result<(), Error> {
        let turns = related::turns(wants, &self.rows.shelves, &self.rows.jobs);
        for (shelf, &limit) in &turns.behind {
            self.shelf(db, shelf, limit)?;
        }
        for ((shelf, priority), &limit) in &turns.without_key {
            let first = RelatedTurns::FIRST_PLACE.to_bytes();
            let params = params![shelf.lane as u8, shelf.name.as_str(), sql_limit(limit), priority, first];
            let found = self.take_all(db, SHELF_FROM, params)?;
            self.rows.behind_turns.insert((shelf.clone(), *priority), found);
        }
        self.rows.turns = turns;
        Ok(())
    }

    fn limits(&mut self, db: &Connection) -> Result<(), Error> {
        for shelf in related::limits(&self.rows.jobs).parked {
            self.shelf(db, &shelf, limits::UNPARK_MAX)?;
        }
        let keys = related::limits(&self.rows.jobs).keys;
        let mut statement = db.prepare_cached(LIMIT)?;
        let read =
            |row: &Row<'_>| Ok(LimitRow { active: row.get(0)?, turn_at: Time::from_micros(row.get(1)?) });
        for key in keys.into_iter().chain(self.rows.turns.rows.iter().cloned()) {
            if let Some(limit) = statement.query_row(params![key.as_str()], read).optional()? {
                self.rows.limits.insert(key, limit);
            }
        }
        Ok(())
    }

    fn counts(&mut self, db: &Connection, wants: &Wants) -> Result<(), Error> {
        for name in &wants.counts {
            self.rows.counts.insert(name.clone(), queues::counts(db, name.as_str())?);
        }
        if wants.active {
            self.rows.active = queues::counts(db, queues::ALL_SHARED)?.active().max(0).cast_unsigned();
        }
        Ok(())
    }

    fn clients(&mut self, db: &Connection, wants: &Wants) -> Result<(), Error> {
        for &id in &wants.clients {
            self.rows.clients.extend(clients::client(db, id)?.map(|client| (id, client)));
            self.rows.api_keys.extend(clients::keys_of(db, id)?);
        }
        Ok(())
    }

    /// Takes every job that the statement finds, notes those that cannot be read, and gives the ids of all in its order.
    fn take_all(&mut self, db: &Connection, sql: &str, params: impl Params) -> Result<Vec<JobId>, Error> {
        let mut statement = db.prepare_cached(sql)?;
        let mut found = statement.query(params)?;
        let mut ids = Vec::new();
        while let Some(row) = found.next()? {
            let (n, id) = (row.get(0)?, cells::damaged_job_id(row, 1)?);
            match self.take(row) {
                Err(error) if error.fault == Fault::Corrupt => {
                    self.note(id, &error);
                    self.numbers.insert(id, n);
                }
                taken => taken?,
            }
            ids.push(id);
        }
        Ok(ids)
    }

    /// Takes the job in a row of (n, id, head, body), unless it is here already.
    fn take(&mut self, row: &Row<'_>) -> Result<(), Error> {
        let id = cells::job_id(row, 1)?;
        if !self.numbers.contains_key(&id) {
            self.rows.jobs.push(cells::job(id, row, 2)?);
            self.numbers.insert(id, row.get(0)?);
        }
        Ok(())
    }

    fn note(&mut self, id: JobId, error: &Error) {
        let row = RowId::Job(id);
        if self.rows.unreadable.iter().all(|known| known.row != row) {
            self.rows.unreadable.push(Unreadable { row, reason: error.to_string(), next: None });
        }
    }
}

/// A limit as SQLite takes it; more than it can count is as good as no limit.
pub(super) fn sql_limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
