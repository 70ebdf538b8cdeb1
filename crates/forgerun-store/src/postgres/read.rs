//! Reading without locks: one statement per question, on a connection that no transaction holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::{Blob, Content};
use forgerun_core::id::{ExecutionId, JobId};
use forgerun_core::item::decode_ends;
use forgerun_core::job::{Input, Job, Lane, Shelf};
use forgerun_core::record::RecordKind;
use forgerun_core::rows::{Activity, Counts, Minute, Object, Outcome};
use forgerun_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::aside::read_aside;
use super::connect::in_time;
use super::deliveries::{read_delivery, read_signing_key, read_webhook};
use super::fault;
use super::load::{
    cell, read_api_key, read_client, read_counts, read_digest, read_job, read_limit, read_record,
};
use super::logs::{read_chunk, read_summary};
use super::lookups::LookupKind;
use super::operator::read_activity;
use super::pipeline::Pipeline;
use super::pool::{Pool, PooledConnection};
use super::sql::Sql;
use super::value::{NameText, Uuid};
use super::{Options, Postgres};
use crate::error::readable;
use crate::front::ShelfFront;
use crate::query::PRIORITIES_LOOKED_AT_MAX;
use crate::{
    Error, Fault, JournalRow, LogQuery, Page, Query, QueueCounts, StoredResult, Sweep, Swept, Tombstone,
};

/// Jobs by id.
pub(super) static JOBS: LookupKind<JobId, Arc<Job>> = LookupKind {
    sql: Sql::ReadJobs,
    key: |row| Ok(cell::<Uuid>(row, 0)?.into()),
    read: |row| read_job(row).map(Arc::new),
};

/// Results by execution.
pub(super) static RESULTS: LookupKind<ExecutionId, Box<StoredResult>> = LookupKind {
    sql: Sql::ReadResults,
    key: |row| Ok(cell::<Uuid>(row, 7)?.into()),
    read: |row| read_kept(row).map(Box::new),
};

/// Answers one question. What is asked most is answered for all who ask at the same time.
pub(super) async fn read(store: &Postgres, query: Query) -> Result<Page, Error> {
    match query {
        Query::Job(id) => store.jobs.find(id).await.map(Page::Job),
        Query::Result(execution) => store.results.find(execution).await.map(Page::Result),
        Query::Ahead { shelf, order, limit } => {
            let front = store.front_cache.of(&shelf, limit);
            let front = front.get_or_try_init(|| read_front(store, &shelf, limit)).await?;
            Ok(Page::Ahead(front.ahead(order)))
        }
        query => read_alone(&store.readers, &store.options, query).await,
    }
}

/// The jobs that will be taken first from a shelf, and how many wait in all.
async fn read_front(store: &Postgres, shelf: &Shelf, depth: usize) -> Result<ShelfFront, Error> {
    let pooled = store.readers.take().await?;
    let reading = read_front_on(pooled, store.options.clone(), shelf.clone(), depth);
    to_the_end(reading).await
}

/// Reads in a task of its own: a caller that goes away leaves a connection that is ready for the next question. Opening another one
/// costs more than the answer.
async fn to_the_end<T: Send + 'static>(
    reading: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Error> {
    tokio::spawn(reading).await.unwrap_or_else(|error| Err(Error::new(Fault::Unavailable, error)))
}

async fn read_front_on(
    pooled: PooledConnection,
    options: Options,
    shelf: Shelf,
    depth: usize,
) -> Result<ShelfFront, Error> {
    let (lane, name, limit) = (shelf.lane as i16, shelf.name.as_str(), bounded(depth));
    let mut pipeline = Pipeline::new(pooled.connection());
    pipeline.push(Sql::ReadFront, [&lane, &name, &limit]);
    pipeline.push(Sql::ReadWaiting, [&name]);
    let mut answers = in_time(&options, pipeline.run()).await?.into_iter();
    let mut next = || answers.next().unwrap_or_else(|| Ok(Vec::new())).map_err(fault::report);
    let (places, waiting) = (next()?, next()?);
    pooled.give_back();
    let place = |row: &Row| Ok((cell(row, 0)?, cell::<Uuid>(row, 1)?.into()));
    let places = places.iter().map(place).collect::<Result<Vec<_>, Error>>()?;
    let n_waiting = waiting.first().map_or(Ok(0), |row| cell(row, 0))?;
    Ok(ShelfFront::new(places, depth, n_waiting))
}

/// Answers one question on a connection of its own.
async fn read_alone(pool: &Pool, options: &Options, query: Query) -> Result<Page, Error> {
    to_the_end(read_on(pool.take().await?, options.clone(), query)).await
}

async fn read_on(pooled: PooledConnection, options: Options, query: Query) -> Result<Page, Error> {
    let reader = ReadConnection { pooled, options: &options };
    let page = reader.answer(query).await;
    match page.as_ref().map_err(|error| error.fault) {
        // An answer, if not a welcome one: the connection is ready for the next question.
        Ok(_) | Err(Fault::Rejected | Fault::Corrupt | Fault::Sealed | Fault::Busy | Fault::Full) => {
            reader.pooled.give_back()
        }
        Err(Fault::Unavailable | Fault::Timeout | Fault::TooNew | Fault::Unknown) => drop(reader),
    }
    page
}

/// What time it is by the clock of the database.
pub(super) async fn now(pool: &Pool, options: &Options) -> Result<Time, Error> {
    let pooled = pool.take().await?;
    let rows = in_time(options, pooled.connection().query(Sql::Now, &[])).await?.map_err(fault::report)?;
    let micros = rows.first().map(|row| row.try_get(0)).transpose().map_err(fault::report)?;
    pooled.give_back();
    Ok(Time::from_micros(micros.unwrap_or_default()))
}

/// What tells this database from others.
pub(super) async fn store_id(pool: &Pool, options: &Options) -> Result<u128, Error> {
    let pooled = pool.take().await?;
    let rows =
        in_time(options, pooled.connection().query(Sql::ReadStoreId, &[])).await?.map_err(fault::report)?;
    pooled.give_back();
    let row = rows.first().ok_or_else(|| Error::new(Fault::Corrupt, "the database has lost its id"))?;
    Ok(cell::<Uuid>(row, 0)?.as_u128())
}

/// Deletes what is old.
pub(super) async fn sweep(pool: &Pool, options: &Options, sweep: Sweep) -> Result<Swept, Error> {
    let pooled = pool.take().await?;
    let limit = bounded(sweep.limit);
    let delete = async |sql, before: Time| {
        let before = before.as_micros();
        let values: [&(dyn ToSql + Sync); 2] = [&before, &limit];
        let deleted = in_time(options, pooled.connection().execute(sql, &values)).await?;
        Ok::<_, Error>(deleted.map_err(fault::report)? as usize)
    };
    sweep_queues(&pooled, options, sweep.activity_before).await?;
    let swept = Swept {
        journal_rows: sweep_journal(&pooled, options, &sweep).await?,
        tombstones: delete(Sql::SweepTombstones, sweep.tombstones_before).await?,
        revoked_keys: delete(Sql::SweepApiKeys, sweep.revoked_keys_before).await?,
        deliveries: delete(Sql::SweepDeliveries, sweep.deliveries_before).await?,
        results: delete(Sql::RemoveExpired, sweep.results_until).await?,
        limits: delete(Sql::SweepLimits, sweep.limits_before).await?,
        ..Swept::default()
    };
    pooled.give_back();
    Ok(swept)
}

async fn sweep_journal(pooled: &PooledConnection, options: &Options, sweep: &Sweep) -> Result<usize, Error> {
    let (before, limit) = (sweep.journal_before.as_micros(), bounded(sweep.limit));
    let values: [&(dyn ToSql + Sync); 3] = [&before, &limit, &sweep.journal_until];
    let deleted = in_time(options, pooled.connection().execute(Sql::SweepJournal, &values)).await?;
    Ok(deleted.map_err(fault::report)? as usize)
}

/// Queues without jobs that may leave counts behind: each is a few rows, and removing them stops all writers for a moment.
const EMPTY_QUEUES_KEPT: i64 = 1000;

/// Deletes figures that are old, and counts of queues that have no job.
async fn sweep_queues(pooled: &PooledConnection, options: &Options, before: Minute) -> Result<(), Error> {
    let connection = pooled.connection();
    in_time(options, connection.execute(Sql::SweepActivity, &[&before.0])).await?.map_err(fault::report)?;
    let rows =
        in_time(options, connection.query(Sql::CountEmptyQueues, &[])).await?.map_err(fault::report)?;
    if rows.first().map_or(Ok(0), |row| cell::<i64>(row, 0))? <= EMPTY_QUEUES_KEPT {
        return Ok(());
    }
    let mut pipeline = Pipeline::new(connection);
    pipeline.push(Sql::Begin, []);
    pipeline.push(Sql::LockCountsTable, []);
    pipeline.push(Sql::DeleteEmptyQueues, []);
    pipeline.push(Sql::Commit, []);
    for answer in in_time(options, pipeline.run()).await? {
        answer.map_err(fault::report)?;
    }
    Ok(())
}

pub(super) struct ReadConnection<'a> {
    pooled: PooledConnection,
    options: &'a Options,
}

impl ReadConnection<'_> {
    pub(super) async fn rows(&self, sql: Sql, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        in_time(self.options, self.pooled.connection().query(sql, values)).await?.map_err(fault::report)
    }

    async fn answer(&self, query: Query) -> Result<Page, Error> {
        Ok(match query {
            Query::Job(_) | Query::Result(_) | Query::Ahead { .. } => {
                unreachable!("answered for many at once")
            }
            Query::Inputs(ids) => self.inputs(ids).await?,
            Query::JobOf(execution) => {
                let rows = self.rows(Sql::ReadJobOf, &[&Uuid::from(execution)]).await?;
                Page::JobId(rows.first().map(|row| cell::<Uuid>(row, 0)).transpose()?.map(JobId::from))
            }
            Query::Outcome(execution) => {
                let rows = self.rows(Sql::ReadOutcome, &[&Uuid::from(execution)]).await?;
                Page::Outcome(rows.first().map(read_outcome).transpose()?)
            }
            Query::Items(execution) => {
                let rows = self.rows(Sql::ReadItems, &[&Uuid::from(execution)]).await?;
                let ends = rows.first().map(|row| Ok::<_, Error>(decode_ends(cell(row, 0)?)?));
                Page::Items(ends.transpose()?)
            }
            Query::Tombstone(execution) => {
                let rows = self.rows(Sql::ReadTombstone, &[&Uuid::from(execution)]).await?;
                Page::Tombstone(rows.first().map(read_tombstone).transpose()?)
            }
            Query::Jobs(filter) => Page::JobList(self.list_jobs(filter).await?),
            Query::Shelf { shelf, after, limit } => self.shelf(shelf, after, limit).await?,
            Query::Front { shelf, limit } => {
                let (lane, name) = (shelf.lane as i16, shelf.name.as_str());
                let rows = self.rows(Sql::ReadFrontJobs, &[&lane, &name, &bounded(limit)]).await?;
                Page::Jobs(readable_all(&rows, read_job)?)
            }
            Query::Oldest(shelf) => {
                let (lane, name) = (shelf.lane as i16, shelf.name.as_str());
                let limit = bounded(PRIORITIES_LOOKED_AT_MAX);
                let rows = self.rows(Sql::ReadOldest, &[&lane, &name, &limit]).await?;
                Page::Job(readable_all(&rows, read_job)?.into_iter().next().map(Arc::new))
            }
            Query::DeadLetters { limit } => {
                let rows = self.rows(Sql::CountDead, &[&bounded(limit)]).await?;
                let n = rows.first().map_or(Ok(0), |row| cell::<i64>(row, 0))?;
                Page::Count(n.unsigned_abs())
            }
            Query::NextDue => {
                let rows = self.rows(Sql::ReadNextDue, &[&RecordKind::KNOWN]).await?;
                let due: Option<i64> = rows.first().map_or(Ok(None), |row| cell(row, 0))?;
                Page::Moment(due.map(Time::from_micros))
            }
            Query::Queues { prefix } => {
                // No key has a character behind this one.
                let end = format!("{prefix}\u{10ffff}");
                let rows = self.rows(Sql::ReadQueues, &[&prefix, &end]).await?;
                let mut queues = rows.iter().map(read_queue).collect::<Result<Vec<_>, _>>()?;
                queues.retain(|queue| !queue.counts.is_zero());
                Page::Queues(queues)
            }
            Query::Counts(queue) => {
                let rows = self.rows(Sql::FindCounts, &[&vec![queue.as_str()]]).await?;
                Page::Counts(rows.first().map_or(Ok(Counts::default()), |row| read_counts(row, 1))?)
            }
            Query::Activity { queue, since } => {
                let rows = self.rows(Sql::ReadActivity, &[&queue.as_str(), &since.0]).await?;
                Page::Activity(rows.first().map_or(Ok(Activity::default()), |row| read_activity(row, 0))?)
            }
            Query::Limit(key) => {
                let rows = self.rows(Sql::FindLimits, &[&vec![key.as_str()]]).await?;
                Page::Limit(rows.first().map(read_limit).transpose()?.map(|(_, row)| row))
            }
            Query::Limits { prefix, limit } => {
                let end = format!("{prefix}\u{10ffff}");
                let rows = self.rows(Sql::ReadLimits, &[&prefix, &end, &bounded(limit)]).await?;
                Page::Limits(rows.iter().map(read_limit).collect::<Result<_, _>>()?)
            }
            Query::DeadLettersOf { client, queue, after, limit } => {
                let (client, after) = (Uuid::from(client), after.map_or(Uuid::MIN, Uuid::from));
                let queue = queue.map(NameText);
                let rows = self.rows(Sql::ReadDeadOf, &[&client, &after, &bounded(limit), &queue]).await?;
                Page::Jobs(readable_all(&rows, read_job)?)
            }
            Query::ShelfNames { lane, after, limit } => {
                let rows = self.rows(Sql::ReadShelfNames, &[&(lane as i16), &after, &bounded(limit)]).await?;
                let name = |row: &Row| Ok::<_, Error>(cell::<NameText>(row, 0)?.0);
                Page::Names(rows.iter().map(name).collect::<Result<_, _>>()?)
            }
            Query::Record(key) => {
                let (kinds, keys) = (vec![key.kind as i16], vec![key.key.as_str()]);
                let rows = self.rows(Sql::FindRecords, &[&kinds, &keys]).await?;
                Page::Record(rows.first().map(read_record).transpose()?)
            }
            Query::Records { kind, group, after, limit } => {
                let (kind, limit) = (kind as i16, bounded(limit));
                let rows = match group {
                    Some(group) => self.rows(Sql::ReadRecords, &[&kind, &group, &after, &limit]).await?,
                    None => self.rows(Sql::ReadAllRecords, &[&kind, &after, &limit]).await?,
                };
                Page::Records(rows.iter().map(read_record).collect::<Result<_, _>>()?)
            }
            Query::Client(id) => {
                let rows = self.rows(Sql::ReadClient, &[&Uuid::from(id)]).await?;
                Page::Client(rows.first().map(read_client).transpose()?)
            }
            Query::ApiKey(digest) => {
                let rows = self.rows(Sql::ReadApiKey, &[&digest.as_slice()]).await?;
                Page::ApiKey(rows.first().map(read_api_key).transpose()?)
            }
            Query::Journal { after, limit } => {
                let settled = self.settled().await?;
                let rows = self.rows(Sql::ReadJournal, &[&after, &bounded(limit), &settled]).await?;
                Page::Journal(rows.iter().map(read_journal_row).collect::<Result<_, _>>()?)
            }
            Query::JournalEnd => {
                let rows = self.rows(Sql::ReadJournalEnd, &[&self.settled().await?]).await?;
                Page::Position(rows.first().map_or(Ok(0), |row| cell(row, 0))?)
            }
            Query::JournalBefore(at) => {
                let settled = self.settled().await?;
                let rows = self.rows(Sql::ReadJournalBefore, &[&at.as_micros()]).await?;
                let before: Option<i64> = rows.first().map_or(Ok(None), |row| cell(row, 0))?;
                // A lower number may still come from a transaction under way.
                Page::Position(before.unwrap_or(settled).min(settled))
            }
            Query::JobsById(ids) => {
                let ids: Vec<Uuid> = ids.into_iter().map(Uuid::from).collect();
                let rows = self.rows(Sql::ReadJobs, &[&ids]).await?;
                Page::Jobs(readable_all(&rows, read_job)?)
            }
            Query::Outcomes(executions) => {
                let ids: Vec<Uuid> = executions.into_iter().map(Uuid::from).collect();
                let rows = self.rows(Sql::ReadOutcomes, &[&ids]).await?;
                Page::Outcomes(readable_all(&rows, read_outcome)?)
            }
            Query::Webhook(id) => {
                let rows = self.rows(Sql::ReadWebhook, &[&Uuid::from(id)]).await?;
                Page::Webhook(rows.first().map(|row| read_webhook(row, 0)).transpose()?.map(Box::new))
            }
            Query::Webhooks { client, after, limit } => {
                let (client, after) = (Uuid::from(client), after.map_or(Uuid::MIN, Uuid::from));
                let rows = self.rows(Sql::ReadWebhooks, &[&client, &after, &bounded(limit)]).await?;
                Page::Webhooks(rows.iter().map(|row| read_webhook(row, 0)).collect::<Result<_, _>>()?)
            }
            Query::Delivery(id) => {
                let rows = self.rows(Sql::ReadDelivery, &[&Uuid::from(id)]).await?;
                Page::Delivery(rows.first().map(read_delivery).transpose()?.map(Box::new))
            }
            Query::Deliveries(filter) => Page::DeliveryList(self.list_deliveries(filter).await?),
            Query::NextDelivery => {
                let rows = self.rows(Sql::ReadNextDelivery, &[]).await?;
                Page::Moment(rows.first().map(|row| cell(row, 0)).transpose()?.map(Time::from_micros))
            }
            Query::SigningKeys => {
                let rows = self.rows(Sql::FindSigningKeys, &[]).await?;
                Page::SigningKeys(rows.iter().map(read_signing_key).collect::<Result<_, _>>()?)
            }
            Query::SetAside { limit } => {
                let rows = self.rows(Sql::ListAside, &[&bounded(limit)]).await?;
                Page::SetAside(rows.iter().map(read_aside).collect::<Result<_, _>>()?)
            }
            Query::Operator(query) => self.answer_operator(query).await?,
            Query::Logs(LogQuery { job, attempt, after, limit }) => {
                let (job, attempt) = (Uuid::from(job), attempt.map(u32::cast_signed));
                let after = i64::try_from(after).unwrap_or(i64::MAX);
                let rows = self.rows(Sql::ReadLogs, &[&job, &attempt, &after, &bounded(limit)]).await?;
                Page::Logs(rows.iter().map(read_chunk).collect::<Result<_, _>>()?)
            }
            Query::LogSummary { job, attempt } => {
                let job = Uuid::from(job);
                let rows = match attempt.map(u32::cast_signed) {
                    None => self.rows(Sql::SumLogs, &[&job]).await?,
                    Some(attempt) => self.rows(Sql::SumLogsOfAttempt, &[&job, &attempt]).await?,
                };
                Page::LogSummary(read_summary(&rows)?)
            }
            Query::LogBytes(client) => {
                let rows = self.rows(Sql::ReadLogBytes, &[&Uuid::from(client)]).await?;
                let n_bytes: i64 = rows.first().map_or(Ok(0), |row| cell(row, 0))?;
                Page::Count(n_bytes.unsigned_abs())
            }
        })
    }

    /// Up to this number the journal is settled: whatever was to come has come. See `journal.rs`.
    async fn settled(&self) -> Result<i64, Error> {
        let mut pipeline = Pipeline::new(self.pooled.connection());
        pipeline.push(Sql::ReadDrawn, []);
        pipeline.push(Sql::ReadDrawing, []);
        let mut settled = i64::MAX;
        for rows in in_time(self.options, pipeline.run()).await? {
            let number: Option<i64> =
                rows.map_err(fault::report)?.first().map_or(Ok(None), |row| cell(row, 0))?;
            settled = settled.min(number.unwrap_or(i64::MAX));
        }
        Ok(settled)
    }

    async fn inputs(&self, ids: Vec<JobId>) -> Result<Page, Error> {
        let uuids: Vec<Uuid> = ids.iter().map(|&id| id.into()).collect();
        let mut inputs = HashMap::new();
        for row in &self.rows(Sql::ReadInputs, &[&uuids]).await? {
            inputs.insert(JobId::from(cell::<Uuid>(row, 0)?), Input::decode(cell(row, 1)?)?);
        }
        Ok(Page::Inputs(ids.into_iter().filter_map(|id| Some((id, inputs.get(&id)?.clone()))).collect()))
    }

    async fn shelf(&self, shelf: Shelf, after: Option<JobId>, limit: usize) -> Result<Page, Error> {
        let (lane, name) = (shelf.lane as i16, shelf.name.as_str());
        let (after, limit) = (after.map_or(Uuid::MIN, Uuid::from), bounded(limit));
        let rows = match shelf.lane {
            Lane::Dead => self.rows(Sql::ReadDead, &[&name, &after, &limit]).await?,
            Lane::Failed => self.rows(Sql::ReadFailed, &[&name, &after, &limit]).await?,
            Lane::External | Lane::BuiltIn | Lane::Parked | Lane::Behind => {
                self.rows(Sql::ReadShelf, &[&lane, &name, &after, &limit]).await?
            }
        };
        Ok(Page::Jobs(readable_all(&rows, read_job)?))
    }
}

/// A limit as the database takes it.
pub(super) fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// What can be read of rows in a list: one that cannot does not hide the others.
pub(super) fn readable_all<T>(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<T, Error>,
) -> Result<Vec<T>, Error> {
    rows.iter().filter_map(|row| readable(read(row).map(Some)).transpose()).collect()
}

fn read_outcome(row: &Row) -> Result<Outcome, Error> {
    let object = Object { bytes: cell(row, 2)?, digest: read_digest(row, 3)? };
    Ok(Outcome { execution: cell::<Uuid>(row, 0)?.into(), job: cell::<Uuid>(row, 1)?.into(), object })
}

fn read_kept(row: &Row) -> Result<StoredResult, Error> {
    let size = cell::<i64>(row, 2)?.cast_unsigned();
    let content = match (cell::<Option<Vec<u8>>>(row, 4)?, cell::<Option<Uuid>>(row, 5)?) {
        (Some(bytes), _) => Some(Content::Inline(bytes)),
        (None, Some(id)) => Some(Content::Stored(Blob { id: id.into(), size, digest: read_digest(row, 6)? })),
        (None, None) => None,
    };
    let expires_at = cell::<Option<i64>>(row, 3)?.map(Time::from_micros);
    Ok(StoredResult { media_type: cell(row, 0)?, file_name: cell(row, 1)?, size, expires_at, content })
}

fn read_tombstone(row: &Row) -> Result<Tombstone, Error> {
    let kept = cell::<Option<i64>>(row, 2)?.map(|micros| Duration::from_micros(micros.unsigned_abs()));
    Ok(Tombstone { client: cell::<Uuid>(row, 0)?.into(), at: Time::from_micros(cell(row, 1)?), kept })
}

fn read_queue(row: &Row) -> Result<QueueCounts, Error> {
    Ok(QueueCounts { queue: cell::<NameText>(row, 0)?.0, counts: read_counts(row, 1)? })
}

fn read_journal_row(row: &Row) -> Result<JournalRow, Error> {
    Ok(JournalRow::decode(cell(row, 0)?, cell(row, 1)?))
}
