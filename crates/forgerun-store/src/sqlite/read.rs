//! From a [`Query`] to its [`Page`], on a connection that only reads.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::codec::Corrupt;
use forgerun_core::id::{ClientId, ExecutionId, JobId};
use forgerun_core::item::decode_ends;
use forgerun_core::job::{Input, Job, Lane, Name, Shelf};
use forgerun_core::record::RecordKind;
use forgerun_core::rows::{LimitRow, Object, Outcome};
use forgerun_core::time::Time;
use rusqlite::{Connection, Params, Row, params};

use super::load::sql_limit;
use super::read_cache::ReadCache;
use super::statements::statements;
use super::{aside, cells, clients, deliveries, list, logs, operator, queues, records, results};
use crate::error::readable;
use crate::front::ShelfFront;
use crate::query::PRIORITIES_LOOKED_AT_MAX;
use crate::{Error, JournalRow, Page, Query, Tombstone};

statements! {
    JOB = "
        SELECT head, body
        FROM jobs
        WHERE id = ?1
    ";

    INPUT = "
        SELECT inputs.bytes
        FROM jobs JOIN inputs ON inputs.job = jobs.n
        WHERE jobs.id = ?1
    ";

    JOB_OF = "
        SELECT job
        FROM executions
        WHERE id = ?1
    ";

    OUTCOME = "
        SELECT job, digest, bytes
        FROM outcomes
        WHERE execution = ?1
    ";

    ITEMS = "
        SELECT ends
        FROM items
        WHERE execution = ?1
    ";

    TOMBSTONE = "
        SELECT client, at, kept
        FROM tombstones
        WHERE execution = ?1
    ";

    /// The ids of the page come from the index alone; only the jobs of the page are fetched.
    SHELF = "
        SELECT id, head, body
        FROM jobs
        WHERE n IN (
            SELECT n
            FROM jobs INDEXED BY jobs_shelf
            WHERE lane = ?1 AND shelf = ?2 AND id > ?3
            ORDER BY id
            LIMIT ?4
        )
        ORDER BY id
    ";

    DEAD_LETTERS = "
        SELECT count(*)
        FROM (
            SELECT 1
            FROM jobs INDEXED BY jobs_shelf
            WHERE lane = ?1
            LIMIT ?2
        )
    ";

    /// In the order in which they will be taken, in the index alone.
    FRONT = "
        SELECT priority, coalesce(place, id)
        FROM jobs INDEXED BY jobs_shelf
        WHERE lane = ?1 AND shelf = ?2
        ORDER BY priority DESC, coalesce(place, id)
        LIMIT ?3
    ";

    FRONT_JOBS = "
        SELECT id, head, body
        FROM jobs INDEXED BY jobs_shelf
        WHERE lane = ?1 AND shelf = ?2
        ORDER BY priority DESC, coalesce(place, id)
        LIMIT ?3
    ";

    /// The first job of the next lower priority: one step in the index.
    FRONT_BELOW = "
        SELECT priority, coalesce(place, id), id
        FROM jobs INDEXED BY jobs_shelf
        WHERE lane = ?1 AND shelf = ?2 AND priority < ?3
        ORDER BY priority DESC, coalesce(place, id)
        LIMIT 1
    ";

    WAITING = "
        SELECT queued
        FROM counts
        WHERE queue = ?1
    ";

    NEXT_DUE = "
        SELECT min(due_at)
        FROM (
            SELECT * FROM (SELECT due_at FROM jobs INDEXED BY jobs_due WHERE due_at IS NOT NULL ORDER BY due_at LIMIT 1)
            UNION ALL
            SELECT * FROM (
                SELECT due_at FROM records INDEXED BY records_due
                WHERE due_at IS NOT NULL AND (?1 >> kind) & 1
                ORDER BY due_at LIMIT 1
            )
        )
    ";

    LIMIT = "
        SELECT active, turn_at
        FROM limits
        WHERE key = ?1
    ";

    LIMITS = "
        SELECT key, active, turn_at
        FROM limits
        WHERE key >= ?1 AND key < ?2
        ORDER BY key
        LIMIT ?3
    ";

    /// The dead letters of a client, along `jobs_dead`. `?4` is the queue, or NULL for all.
    DEAD_LETTERS_OF = "
        SELECT id, head, body
        FROM jobs INDEXED BY jobs_dead
        WHERE lane = 4 AND client = ?1 AND id > ?2 AND (?4 IS NULL OR queue = ?4)
        ORDER BY id
        LIMIT ?3
    ";

    /// Names of the shelves of a lane, each found with one step in the index.
    SHELF_AFTER = "
        SELECT shelf
        FROM jobs INDEXED BY jobs_shelf
        WHERE lane = ?1 AND shelf > ?2
        ORDER BY shelf
        LIMIT 1
    ";

    JOURNAL = "
        SELECT seq, entries
        FROM journal
        WHERE seq > ?1
        ORDER BY seq
        LIMIT ?2
    ";

    /// Where AUTOINCREMENT stands: the newest row counts although it may be swept already.
    JOURNAL_END = "
        SELECT seq
        FROM sqlite_sequence
        WHERE name = 'journal'
    ";

    /// The lowest number rather than the earliest moment, since clocks are set back. Walks over what is young, in the index
    /// alone.
    JOURNAL_BEFORE = "
        SELECT min(seq) - 1
        FROM journal INDEXED BY journal_at
        WHERE at >= ?1
    ";
}

/// Answers one question.
pub(super) fn read(db: &Connection, recent: &ReadCache, query: &Query) -> Result<Page, Error> {
    Ok(match query {
        Query::Job(id) => {
            let reading = recent.reading();
            let job = first(db, JOB, params![id.to_bytes()], |row| cells::job(*id, row, 0))?.map(Arc::new);
            if let Some(job) = &job {
                recent.keep_job(reading, job);
            }
            Page::Job(job)
        }
        Query::Inputs(ids) => Page::Inputs(inputs(db, ids)?),
        Query::JobOf(execution) => {
            Page::JobId(first(db, JOB_OF, params![execution.to_bytes()], |row| cells::job_id(row, 0))?)
        }
        Query::Outcome(execution) => {
            Page::Outcome(first(db, OUTCOME, params![execution.to_bytes()], |row| outcome(*execution, row))?)
        }
        Query::Result(execution) => Page::Result(results::result(db, *execution)?),
        Query::Items(execution) => Page::Items(first(db, ITEMS, params![execution.to_bytes()], |row| {
            Ok(decode_ends(cells::bytes(row, 0)?)?)
        })?),
        Query::Tombstone(execution) => {
            Page::Tombstone(first(db, TOMBSTONE, params![execution.to_bytes()], tombstone)?)
        }
        Query::Jobs(filter) => Page::JobList(list::jobs(db, filter)?),
        Query::Shelf { shelf, after, limit } => {
            // No bytes sort before all ids.
            let after = after.map_or(Vec::new(), |id| id.to_bytes().to_vec());
            let params = params![shelf.lane as u8, shelf.name.as_str(), after, sql_limit(*limit)];
            Page::Jobs(readable_jobs(db, SHELF, params)?)
        }
        Query::Front { shelf, limit } => {
            let params = params![shelf.lane as u8, shelf.name.as_str(), sql_limit(*limit)];
            Page::Jobs(readable_jobs(db, FRONT_JOBS, params)?)
        }
        Query::Oldest(shelf) => match oldest(db, shelf)? {
            Some(id) => {
                let job = first(db, JOB, params![id.to_bytes()], |row| cells::job(id, row, 0));
                Page::Job(readable(job)?.map(Arc::new))
            }
            None => Page::Job(None),
        },
        Query::DeadLetters { limit } => {
            let params = params![Lane::Dead as u8, sql_limit(*limit)];
            let n = first(db, DEAD_LETTERS, params, |row| Ok(row.get::<_, i64>(0)?))?.unwrap_or(0);
            Page::Count(n.unsigned_abs())
        }
        Query::Ahead { shelf, order, limit } => {
            let reading = recent.reading();
            let front = recent.keep_front(reading, shelf, front(db, shelf, *limit)?);
            Page::Ahead(front.ahead(*order))
        }
        Query::NextDue => {
            let due: Option<i64> = first(db, NEXT_DUE, [RecordKind::KNOWN], |row| Ok(row.get(0)?))?.flatten();
            Page::Moment(due.map(Time::from_micros))
        }
        Query::Queues { prefix } => Page::Queues(queues::all_counts(db, prefix)?),
        Query::Counts(queue) => Page::Counts(queues::counts(db, queue.as_str())?),
        Query::Activity { queue, since } => Page::Activity(queues::activity(db, queue, *since)?),
        Query::Limit(key) => Page::Limit(first(db, LIMIT, params![key.as_str()], limit)?),
        Query::Limits { prefix, limit } => {
            let params = params![prefix, format!("{prefix}\u{10ffff}"), sql_limit(*limit)];
            Page::Limits(all(db, LIMITS, params, named_limit)?)
        }
        Query::DeadLettersOf { client, queue, after, limit } => {
            let after = after.map_or(Vec::new(), |id| id.to_bytes().to_vec());
            let queue = queue.as_ref().map(|queue| queue.as_str());
            let params = params![client.to_bytes(), after, sql_limit(*limit), queue];
            Page::Jobs(readable_jobs(db, DEAD_LETTERS_OF, params)?)
        }
        Query::ShelfNames { lane, after, limit } => Page::Names(shelf_names(db, *lane, after, *limit)?),
        Query::Record(key) => Page::Record(records::record(db, key)?),
        Query::Records { kind, group, after, limit } => {
            Page::Records(records::list(db, *kind, group.as_deref(), after, *limit)?)
        }
        Query::Client(id) => Page::Client(clients::client(db, *id)?),
        Query::ApiKey(digest) => Page::ApiKey(clients::key_by_digest(db, *digest)?),
        Query::Journal { after, limit } => {
            Page::Journal(all(db, JOURNAL, params![after, sql_limit(*limit)], journal_row)?)
        }
        Query::JournalEnd => Page::Position(journal_end(db)?),
        Query::JournalBefore(at) => {
            let before: Option<i64> =
                first(db, JOURNAL_BEFORE, params![at.as_micros()], |row| Ok(row.get(0)?))?.flatten();
            Page::Position(before.map_or_else(|| journal_end(db), Ok)?)
        }
        Query::JobsById(ids) => {
            let job = |id: &JobId| first(db, JOB, params![id.to_bytes()], |row| cells::job(*id, row, 0));
            Page::Jobs(ids.iter().filter_map(|id| readable(job(id)).transpose()).collect::<Result<_, _>>()?)
        }
        Query::Outcomes(executions) => {
            let read = |id: &ExecutionId| first(db, OUTCOME, params![id.to_bytes()], |row| outcome(*id, row));
            let found = executions.iter().filter_map(|id| readable(read(id)).transpose());
            Page::Outcomes(found.collect::<Result<_, _>>()?)
        }
        Query::Webhook(id) => Page::Webhook(deliveries::webhook_by_id(db, *id)?.map(Box::new)),
        Query::Webhooks { client, after, limit } => {
            Page::Webhooks(deliveries::webhooks_of(db, *client, *after, *limit)?)
        }
        Query::Delivery(id) => Page::Delivery(deliveries::delivery_by_id(db, *id)?.map(Box::new)),
        Query::Deliveries(filter) => Page::DeliveryList(list::deliveries(db, filter)?),
        Query::NextDelivery => Page::Moment(deliveries::next_due(db)?),
        Query::SigningKeys => Page::SigningKeys(deliveries::signing_keys(db)?),
        Query::SetAside { limit } => Page::SetAside(aside::list(db, *limit)?),
        Query::Operator(query) => operator::answer(db, *query)?,
        Query::Logs(query) => Page::Logs(logs::read(db, query)?),
        Query::LogSummary { job, attempt } => Page::LogSummary(logs::summary(db, *job, *attempt)?),
        Query::LogBytes(client) => Page::Count(logs::bytes_of(db, *client)?),
    })
}

fn inputs(db: &Connection, ids: &[JobId]) -> Result<Vec<(JobId, Input)>, Error> {
    // One transaction: otherwise each row takes and gives back SQLite's locks.
    let _reading = if ids.len() > 1 { Some(db.unchecked_transaction()?) } else { None };
    let mut statement = db.prepare_cached(INPUT)?;
    let mut inputs = Vec::with_capacity(ids.len());
    for id in ids {
        if let Some(row) = statement.query(params![id.to_bytes()])?.next()? {
            inputs.push((*id, Input::decode(cells::bytes(row, 0)?)?));
        }
    }
    Ok(inputs)
}

fn front(db: &Connection, shelf: &Shelf, limit: usize) -> Result<ShelfFront, Error> {
    let (lane, name) = (shelf.lane as u8, shelf.name.as_str());
    let place = |row: &Row<'_>| Ok((row.get(0)?, cells::job_id(row, 1)?));
    let places = all(db, FRONT, params![lane, name, sql_limit(limit)], place)?;
    // Of interest only where more may stand behind them.
    let is_all = places.len() < limit;
    let waiting = || first(db, WAITING, params![name], |row| Ok(row.get(0)?));
    let n_waiting = if is_all { None } else { waiting()? };
    Ok(ShelfFront::new(places, limit, n_waiting.unwrap_or(0)))
}

/// The job on a shelf that was accepted first.
fn oldest(db: &Connection, shelf: &Shelf) -> Result<Option<JobId>, Error> {
    let (lane, name) = (shelf.lane as u8, shelf.name.as_str());
    let (mut oldest, mut above) = (None, i64::MAX);
    for _ in 0..PRIORITIES_LOOKED_AT_MAX {
        let place = |row: &Row<'_>| Ok((row.get(0)?, (cells::job_id(row, 1)?, cells::job_id(row, 2)?)));
        let found: Option<(i64, (JobId, JobId))> = first(db, FRONT_BELOW, params![lane, name, above], place)?;
        let Some((priority, next)) = found else { break };
        above = priority;
        oldest = Some(oldest.map_or(next, |oldest: (JobId, JobId)| oldest.min(next)));
    }
    Ok(oldest.map(|(_, id)| id))
}

/// Every job that the statement finds and that can be read: one that cannot does not hide the others.
pub(super) fn readable_jobs(db: &Connection, sql: &str, params: impl Params) -> Result<Vec<Job>, Error> {
    let listed = |row: &Row<'_>| readable(cells::job(cells::job_id(row, 0)?, row, 1).map(Some));
    Ok(all(db, sql, params, listed)?.into_iter().flatten().collect())
}

fn outcome(execution: ExecutionId, row: &Row<'_>) -> Result<Outcome, Error> {
    let object = Object { digest: cells::array(row, 1)?, bytes: cells::bytes(row, 2)?.to_vec() };
    Ok(Outcome { execution, job: cells::job_id(row, 0)?, object })
}

fn tombstone(row: &Row<'_>) -> Result<Tombstone, Error> {
    let client = ClientId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?;
    let kept = row.get::<_, Option<i64>>(2)?.map(|micros| Duration::from_micros(micros.unsigned_abs()));
    Ok(Tombstone { client, at: Time::from_micros(row.get(1)?), kept })
}

fn named_limit(row: &Row<'_>) -> Result<(Name, LimitRow), Error> {
    let key: String = row.get(0)?;
    let limit = LimitRow { active: row.get(1)?, turn_at: Time::from_micros(row.get(2)?) };
    Ok((Name::joined(&key), limit))
}

fn limit(row: &Row<'_>) -> Result<LimitRow, Error> {
    Ok(LimitRow { active: row.get(0)?, turn_at: Time::from_micros(row.get(1)?) })
}

fn shelf_names(db: &Connection, lane: Lane, after: &str, limit: usize) -> Result<Vec<Name>, Error> {
    let mut names: Vec<Name> = Vec::new();
    while names.len() < limit {
        let after = names.last().map_or(after, Name::as_str);
        match first(db, SHELF_AFTER, params![lane as u8, after], |row| cells::name(row, 0))? {
            Some(name) => names.push(name),
            None => break,
        }
    }
    Ok(names)
}

fn journal_end(db: &Connection) -> Result<i64, Error> {
    Ok(first(db, JOURNAL_END, [], |row| Ok(row.get(0)?))?.unwrap_or(0))
}

fn journal_row(row: &Row<'_>) -> Result<JournalRow, Error> {
    Ok(JournalRow::decode(row.get(0)?, cells::bytes(row, 1)?))
}

/// What `read` makes of the first row, if there is one.
pub(super) fn first<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    read: impl FnOnce(&Row<'_>) -> Result<T, Error>,
) -> Result<Option<T>, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    found.next()?.map(read).transpose()
}

/// What `read` makes of every row.
pub(super) fn all<T>(
    db: &Connection,
    sql: &str,
    params: impl Params,
    mut read: impl FnMut(&Row<'_>) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    let mut statement = db.prepare_cached(sql)?;
    let mut found = statement.query(params)?;
    let mut items = Vec::new();
    while let Some(row) = found.next()? {
        items.push(read(row)?);
    }
    Ok(items)
}
