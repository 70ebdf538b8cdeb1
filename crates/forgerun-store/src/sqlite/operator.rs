//! What the operator asks.

use forgerun_core::client::Client;
use forgerun_core::codec::Corrupt;
use forgerun_core::id::ClientId;
use forgerun_core::rows::{Activity, Minute};
use forgerun_core::time::Time;
use rusqlite::{Connection, Row, params};

use super::load::sql_limit;
use super::read::{all, first, readable_jobs};
use super::statements::statements;
use super::{cells, clients, deliveries};
use crate::{Error, OperatorQuery, Page};

statements! {
    /// Along `activity_minute`: what is older is not looked at.
    ACTIVITY_BY_QUEUE = "
        SELECT queue, sum(submitted), sum(started), sum(succeeded), sum(failed), sum(waited_ms), sum(ran_ms)
        FROM activity INDEXED BY activity_minute
        WHERE minute >= ?1
        GROUP BY queue
    ";

    ACTIVITY_BY_MINUTE = "
        SELECT minute, sum(submitted), sum(started), sum(succeeded), sum(failed), sum(waited_ms), sum(ran_ms)
        FROM activity INDEXED BY activity_minute
        WHERE minute >= ?1
        GROUP BY minute
        ORDER BY minute
    ";

    CLIENTS = "
        SELECT id, created_at, keyed
        FROM clients
        WHERE id > ?1
        ORDER BY id
        LIMIT ?2
    ";

    WEBHOOKS = "
        SELECT id, body
        FROM webhooks
        WHERE id > ?1
        ORDER BY id
        LIMIT ?2
    ";

    /// Along `jobs_failed`, which has failed jobs alone; dead letters are lane 4, the others lane 5.
    FAILED_JOBS = "
        SELECT id, head, body
        FROM jobs INDEXED BY jobs_failed
        WHERE lane IN (4, 5) AND lane = ?1 AND shelf = ?2 AND id > ?3
        ORDER BY id
        LIMIT ?4
    ";

    COUNT_FAILED = "
        SELECT count(*)
        FROM (
            SELECT 1
            FROM jobs INDEXED BY jobs_failed
            WHERE lane IN (4, 5) AND lane = ?1 AND shelf = ?2
            LIMIT ?3
        )
    ";
}

pub(super) fn answer(db: &Connection, query: OperatorQuery) -> Result<Page, Error> {
    Ok(match query {
        OperatorQuery::ActivityByQueue { since } => {
            let read = |row: &Row<'_>| Ok((cells::name(row, 0)?, activity(row, 1)?));
            Page::ActivityByQueue(all(db, ACTIVITY_BY_QUEUE, params![since.0], read)?)
        }
        OperatorQuery::ActivityByMinute { since } => {
            let read = |row: &Row<'_>| Ok((Minute(row.get(0)?), activity(row, 1)?));
            Page::ActivityByMinute(all(db, ACTIVITY_BY_MINUTE, params![since.0], read)?)
        }
        OperatorQuery::Clients { after, limit } => {
            let after = after.map_or(Vec::new(), |id| id.to_bytes().to_vec());
            Page::Clients(all(db, CLIENTS, params![after, sql_limit(limit)], client)?)
        }
        OperatorQuery::ApiKeysOf(client) => Page::ApiKeys(clients::keys_of(db, client)?),
        OperatorQuery::Webhooks { after, limit } => {
            let after = after.map_or(Vec::new(), |id| id.to_bytes().to_vec());
            Page::Webhooks(deliveries::webhooks_found(db, WEBHOOKS, params![after, sql_limit(limit)])?)
        }
        OperatorQuery::FailedJobs { failure, after, limit } => {
            let after = after.map_or(Vec::new(), |id| id.to_bytes().to_vec());
            let mut jobs = Vec::new();
            for shelf in failure.shelves() {
                let params = params![shelf.lane as u8, shelf.name.as_str(), after, sql_limit(limit)];
                jobs.extend(readable_jobs(db, FAILED_JOBS, params)?);
            }
            jobs.sort_unstable_by_key(|job| job.id);
            jobs.truncate(limit);
            Page::Jobs(jobs)
        }
        OperatorQuery::CountFailed { failure, limit } => {
            let mut n = 0;
            for shelf in failure.shelves() {
                let params = params![shelf.lane as u8, shelf.name.as_str(), sql_limit(limit)];
                n += first(db, COUNT_FAILED, params, |row| Ok(row.get::<_, i64>(0)?))?.unwrap_or(0);
            }
            Page::Count(n.unsigned_abs().min(limit as u64))
        }
    })
}

/// Reads six numbers from a column on.
pub(super) fn activity(row: &Row<'_>, first: usize) -> Result<Activity, Error> {
    let mut numbers = [0; 6];
    for (n, number) in numbers.iter_mut().enumerate() {
        *number = row.get(first + n)?;
    }
    Ok(Activity::from_array(numbers))
}

fn client(row: &Row<'_>) -> Result<Client, Error> {
    let id = ClientId::from_bytes(cells::bytes(row, 0)?).ok_or(Corrupt)?;
    Ok(Client { id, created_at: Time::from_micros(row.get(1)?), keyed: row.get(2)? })
}
