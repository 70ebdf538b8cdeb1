//! Reading without locks: one statement per question, on a connection that no transaction holds.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use forge_core::command::{Blob, Content};
use forge_core::history::decode_entries;
use forge_core::id::JobId;
use forge_core::item::decode_ends;
use forge_core::job::{Input, Lane, Shelf};
use forge_core::rows::{Activity, Counts, Minute, Object, Outcome};
use forge_core::time::Time;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::Options;
use super::aside::read_aside;
use super::connect::in_time;
use super::deliveries::{read_delivery, read_signing_key, read_webhook};
use super::fault;
use super::load::{
    cell, read_api_key, read_client, read_counts, read_digest, read_job, read_limit, read_record,
};
use super::pipeline::Pipeline;
use super::pool::{Pool, PooledConnection};
use super::sql::Sql;
use super::value::{NameText, Uuid};
use crate::error::readable;
use crate::{
    Error, Fault, JobsAhead, JournalRow, Page, Query, QueueCounts, StoredResult, Sweep, Swept, Tombstone,
};

/// Answers one question. Being cancelled anywhere costs the connection, nothing else.
pub(super) async fn read(pool: &Pool, options: &Options, query: Query) -> Result<Page, Error> {
    let reader = ReadConnection { pooled: pool.take().await?, options };
    let page = reader.answer(query).await;
    match page.as_ref().map_err(|error| error.fault) {
        // An answer, if not a welcome one: the connection is ready for the next question.
        Ok(_) | Err(Fault::Rejected | Fault::Corrupt | Fault::Busy | Fault::Full) => {
            reader.pooled.give_back()
        }
        Err(Fault::Unavailable | Fault::Timeout | Fault::TooNew | Fault::Unknown) => drop(reader),
    }
    page
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
        journal_rows: delete(Sql::SweepJournal, sweep.journal_before).await?,
        tombstones: delete(Sql::SweepTombstones, sweep.tombstones_before).await?,
        revoked_keys: delete(Sql::SweepApiKeys, sweep.revoked_keys_before).await?,
        deliveries: delete(Sql::SweepDeliveries, sweep.deliveries_before).await?,
        results: delete(Sql::RemoveExpired, sweep.results_until).await?,
        blobs: 0,
    };
    pooled.give_back();
    Ok(swept)
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
            Query::Job(id) => {
                let rows = self.rows(Sql::ReadJob, &[&Uuid::from(id)]).await?;
                Page::Job(rows.first().map(read_job).transpose()?.map(Arc::new))
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
            Query::Result(execution) => {
                let rows = self.rows(Sql::ReadResult, &[&Uuid::from(execution)]).await?;
                Page::Result(rows.first().map(read_kept).transpose()?.map(Box::new))
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
            Query::DeadLetters { limit } => {
                let rows = self.rows(Sql::CountDead, &[&bounded(limit)]).await?;
                let n = rows.first().map_or(Ok(0), |row| cell::<i64>(row, 0))?;
                Page::Count(n.unsigned_abs())
            }
            Query::Ahead { shelf, priority, id, limit } => {
                Page::Ahead(self.ahead(shelf, (priority, id), limit).await?)
            }
            Query::NextDue => {
                let rows = self.rows(Sql::ReadNextDue, &[]).await?;
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
                Page::Activity(rows.first().map_or(Ok(Activity::default()), read_activity)?)
            }
            Query::Limit(key) => {
                let rows = self.rows(Sql::FindLimits, &[&vec![key.as_str()]]).await?;
                Page::Limit(rows.first().map(read_limit).transpose()?.map(|(_, row)| row))
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
                Page::Outcomes(rows.iter().map(read_outcome).collect::<Result<_, _>>()?)
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
        })
    }

    /// Up to this number the journal is settled: whatever was to come has come. See `sql.rs`.
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
            Lane::External | Lane::BuiltIn | Lane::Parked => {
                self.rows(Sql::ReadShelf, &[&lane, &name, &after, &limit]).await?
            }
        };
        Ok(Page::Jobs(readable_all(&rows, read_job)?))
    }

    async fn ahead(&self, shelf: Shelf, place: (i16, JobId), limit: usize) -> Result<JobsAhead, Error> {
        let (lane, name, (priority, id)) = (shelf.lane as i16, shelf.name.as_str(), place);
        let (id, limit_rows) = (Uuid::from(id), bounded(limit));
        let values: [&(dyn ToSql + Sync); 5] = [&lane, &name, &priority, &id, &limit_rows];
        let number = |rows: Vec<Row>| rows.first().map_or(Ok(0), |row| cell::<i64>(row, 0));
        let n = number(self.rows(Sql::ReadAhead, &values).await?)? as u64;
        let mut waiting = 0;
        if n >= limit as u64 {
            waiting = number(self.rows(Sql::ReadWaiting, &[&name]).await?)?;
        }
        Ok(JobsAhead::counted(n, limit, || waiting))
    }
}

/// A limit as the database takes it.
pub(super) fn bounded(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// What can be read of rows in a list: one that cannot does not hide the others.
fn readable_all<T>(rows: &[Row], read: impl Fn(&Row) -> Result<T, Error>) -> Result<Vec<T>, Error> {
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

fn read_activity(row: &Row) -> Result<Activity, Error> {
    let mut numbers = [0; 6];
    for (n, number) in numbers.iter_mut().enumerate() {
        *number = cell(row, n)?;
    }
    Ok(Activity::from_array(numbers))
}

fn read_journal_row(row: &Row) -> Result<JournalRow, Error> {
    Ok(JournalRow { seq: cell(row, 0)?, entries: decode_entries(cell(row, 1)?)? })
}
