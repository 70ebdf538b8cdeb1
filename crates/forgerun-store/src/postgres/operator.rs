//! What the operator asks.

use forgerun_core::rows::{Activity, Minute};
use tokio_postgres::Row;

use super::deliveries::read_webhook;
use super::load::{cell, read_api_key, read_client, read_job};
use super::read::{ReadConnection, bounded, readable_all};
use super::sql::Sql;
use super::value::{NameText, Uuid};
use crate::error::readable;
use crate::{Error, OperatorQuery, Page};

pub(super) const ACTIVITY_BY_QUEUE: &str = "
    SELECT queue, sum(submitted)::bigint, sum(started)::bigint, sum(succeeded)::bigint, sum(failed)::bigint,
           sum(waited_ms)::bigint, sum(ran_ms)::bigint
      FROM activity
     WHERE minute >= $1::bigint
     GROUP BY queue
     ORDER BY queue";

pub(super) const ACTIVITY_BY_MINUTE: &str = "
    SELECT minute, sum(submitted)::bigint, sum(started)::bigint, sum(succeeded)::bigint, sum(failed)::bigint,
           sum(waited_ms)::bigint, sum(ran_ms)::bigint
      FROM activity
     WHERE minute >= $1::bigint
     GROUP BY minute
     ORDER BY minute";

/// From priority to priority of a shelf, a step in the index each; then the oldest of those found.
pub(super) const OLDEST: &str = "
    WITH RECURSIVE front AS (
        (SELECT priority, coalesce(place, id) AS place, id FROM jobs
          WHERE lane = $1::smallint AND shelf = $2::text
          ORDER BY priority DESC, coalesce(place, id)
          LIMIT 1)
        UNION ALL
        SELECT next.priority, next.place, next.id
          FROM front,
               LATERAL (SELECT priority, coalesce(place, id) AS place, id FROM jobs
                         WHERE lane = $1::smallint AND shelf = $2::text AND priority < front.priority
                         ORDER BY priority DESC, coalesce(place, id)
                         LIMIT 1) AS next)
    SELECT id, head, body
      FROM jobs
     WHERE id = (SELECT id FROM (SELECT place, id FROM front LIMIT $3::bigint) AS looked_at ORDER BY place LIMIT 1)";

pub(super) const CLIENTS: &str = "
    SELECT id, created_at, keyed
      FROM clients
     WHERE id > $1::uuid
     ORDER BY id
     LIMIT $2::bigint";

pub(super) const WEBHOOKS: &str = "
    SELECT id, body
      FROM webhooks
     WHERE id > $1::uuid
     ORDER BY id
     LIMIT $2::bigint";

/// Along `jobs_failed`. Of dead letters, `Sql::ReadDead` does the same.
pub(super) const FAILED: &str = "
    SELECT id, head, body
      FROM jobs
     WHERE lane = 5 AND shelf = $1::text AND id > $2::uuid
     ORDER BY id
     LIMIT $3::bigint";

pub(super) const COUNT_FAILED: &str = "
    SELECT (SELECT count(*) FROM (SELECT FROM jobs WHERE lane = 4 AND shelf = $1::text LIMIT $2::bigint) AS dead)
         + (SELECT count(*) FROM (SELECT FROM jobs WHERE lane = 5 AND shelf = $1::text LIMIT $2::bigint) AS failed)";

impl ReadConnection<'_> {
    pub(super) async fn answer_operator(&self, query: OperatorQuery) -> Result<Page, Error> {
        Ok(match query {
            OperatorQuery::ActivityByQueue { since } => {
                let rows = self.rows(Sql::ReadActivityByQueue, &[&since.0]).await?;
                let read = |row: &Row| Ok((cell::<NameText>(row, 0)?.0, read_activity(row, 1)?));
                Page::ActivityByQueue(rows.iter().map(read).collect::<Result<_, Error>>()?)
            }
            OperatorQuery::ActivityByMinute { since } => {
                let rows = self.rows(Sql::ReadActivityByMinute, &[&since.0]).await?;
                let read = |row: &Row| Ok((Minute(cell(row, 0)?), read_activity(row, 1)?));
                Page::ActivityByMinute(rows.iter().map(read).collect::<Result<_, Error>>()?)
            }
            OperatorQuery::Clients { after, limit } => {
                let after = after.map_or(Uuid::MIN, Uuid::from);
                let rows = self.rows(Sql::ReadClients, &[&after, &bounded(limit)]).await?;
                Page::Clients(rows.iter().map(read_client).collect::<Result<_, _>>()?)
            }
            OperatorQuery::ApiKeysOf(client) => {
                let rows = self.rows(Sql::FindApiKeys, &[&vec![Uuid::from(client)]]).await?;
                Page::ApiKeys(rows.iter().map(read_api_key).collect::<Result<_, _>>()?)
            }
            OperatorQuery::Webhooks { after, limit } => {
                let after = after.map_or(Uuid::MIN, Uuid::from);
                let rows = self.rows(Sql::ReadAllWebhooks, &[&after, &bounded(limit)]).await?;
                let webhooks = rows.iter().map(|row| readable(read_webhook(row, 0).map(Some)));
                Page::Webhooks(webhooks.collect::<Result<Vec<_>, Error>>()?.into_iter().flatten().collect())
            }
            OperatorQuery::FailedJobs { failure, after, limit } => {
                let (name, after) = (failure.shelf_name(), after.map_or(Uuid::MIN, Uuid::from));
                let mut jobs = Vec::new();
                for sql in [Sql::ReadDead, Sql::ReadFailed] {
                    let rows = self.rows(sql, &[&name.as_str(), &after, &bounded(limit)]).await?;
                    jobs.extend(readable_all(&rows, read_job)?);
                }
                jobs.sort_unstable_by_key(|job| job.id);
                jobs.truncate(limit);
                Page::Jobs(jobs)
            }
            OperatorQuery::CountFailed { failure, limit } => {
                let name = failure.shelf_name();
                let rows = self.rows(Sql::CountFailed, &[&name.as_str(), &bounded(limit)]).await?;
                let n = rows.first().map_or(Ok(0), |row| cell::<i64>(row, 0))?;
                Page::Count(n.unsigned_abs().min(limit as u64))
            }
        })
    }
}

/// Reads six numbers from a column on.
pub(super) fn read_activity(row: &Row, first: usize) -> Result<Activity, Error> {
    let mut numbers = [0; 6];
    for (n, number) in numbers.iter_mut().enumerate() {
        *number = cell(row, first + n)?;
    }
    Ok(Activity::from_array(numbers))
}
