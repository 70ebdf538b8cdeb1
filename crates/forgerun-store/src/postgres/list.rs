//! Lists, newest first. A filter that few rows pass must not keep a connection busy for long: a page ends where it has looked
//! at as many rows as it may, and says where to go on.

use forgerun_core::delivery::{Delivery, DeliveryStatus};
use forgerun_core::id::{DeliveryId, JobId};
use forgerun_core::job::Job;
use forgerun_core::state::State;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::deliveries::read_delivery_at;
use super::load::{cell, read_job_at};
use super::read::{ReadConnection, bounded};
use super::sql::Sql;
use super::value::{NameText, Uuid};
use crate::error::readable;
use crate::query::CLIENTS_MERGED_MAX;
use crate::{DeliveriesOf, DeliveryFilter, Error, Filter, IdSuffix, ListPage};

/// Rows that lists of several clients look at together.
const MERGED_ROWS_MAX: usize = 50_000;

/// A page of jobs from those that `$seen` looks at: how many these are, the last of them, and those that pass the filter. There is
/// a row even if no job passes.
macro_rules! page_of_jobs {
    ($seen:literal) => {
        page_of_jobs!($seen, "")
    };
    ($seen:literal, $and:literal) => {
        concat!(
            "WITH seen AS MATERIALIZED (",
            $seen,
            "),
                  hit AS (SELECT id
                            FROM seen
                           WHERE ($4::smallint[] IS NULL OR state = ANY ($4))
                             AND ($5::text IS NULL OR queue = $5)
                             AND ($6::text IS NULL OR job_type = $6)
                             AND ($7::boolean IS NULL OR (lane IS NOT DISTINCT FROM 4) = $7)
                             AND ($8::text IS NULL OR replace(id::text, '-', '') LIKE $8)",
            $and,
            "
                           ORDER BY id DESC
                           LIMIT $2::bigint)
             SELECT (SELECT count(*) FROM seen), (SELECT id FROM seen ORDER BY id LIMIT 1), jobs.id, jobs.head, jobs.body
               FROM (SELECT) AS page LEFT JOIN (hit JOIN jobs USING (id)) ON true
              ORDER BY jobs.id DESC"
        )
    };
}

/// The same for deliveries.
macro_rules! page_of_deliveries {
    ($of:literal) => {
        concat!(
            "WITH seen AS MATERIALIZED (SELECT id, status FROM deliveries
                                         WHERE ",
            $of,
            " AND id < $2::uuid
                                         ORDER BY id DESC
                                         LIMIT $4::bigint),
                  hit AS (SELECT id FROM seen
                           WHERE $5::smallint IS NULL OR status = $5
                           ORDER BY id DESC
                           LIMIT $3::bigint)
             SELECT (SELECT count(*) FROM seen), (SELECT id FROM seen ORDER BY id LIMIT 1), deliveries.id, deliveries.body
               FROM (SELECT) AS page LEFT JOIN (hit JOIN deliveries USING (id)) ON true
              ORDER BY deliveries.id DESC"
        )
    };
}

/// With and without a client, so that each has one good plan.
pub(super) const JOBS: &str = page_of_jobs!(
    "SELECT id, state, queue, job_type, lane
       FROM jobs
      WHERE id < $1::uuid
      ORDER BY id DESC
      LIMIT $3::bigint"
);
pub(super) const JOBS_OF_CLIENT: &str = page_of_jobs!(
    "SELECT id, state, queue, job_type, lane
       FROM jobs
      WHERE client = $9::uuid AND id < $1::uuid
      ORDER BY id DESC
      LIMIT $3::bigint"
);
/// Along the first of several marks. A job that was set aside has marks and no row.
pub(super) const MARKED: &str = page_of_jobs!(
    "SELECT marked.job AS id, state, queue, job_type, lane
       FROM (SELECT job
               FROM job_marks
              WHERE mark = ($9::bytea[])[1] AND job < $1::uuid
              ORDER BY job DESC
              LIMIT $3::bigint) AS marked
       LEFT JOIN jobs ON jobs.id = marked.job
      ORDER BY marked.job DESC",
    " AND NOT EXISTS (SELECT FROM unnest(($9::bytea[])[2:]) AS other
                       WHERE NOT EXISTS (SELECT FROM job_marks WHERE job_marks.mark = other AND job_marks.job = seen.id))"
);
pub(super) const MARKED_OF_CLIENT: &str = page_of_jobs!(
    "SELECT marked.job AS id, state, queue, job_type, lane
       FROM (SELECT job
               FROM job_marks
              WHERE client = $10::uuid AND mark = ($9::bytea[])[1] AND job < $1::uuid
              ORDER BY job DESC
              LIMIT $3::bigint) AS marked
       LEFT JOIN jobs ON jobs.id = marked.job
      ORDER BY marked.job DESC",
    " AND NOT EXISTS (SELECT FROM unnest(($9::bytea[])[2:]) AS other
                       WHERE NOT EXISTS (SELECT FROM job_marks WHERE job_marks.mark = other AND job_marks.job = seen.id))"
);
/// Along `jobs_workflow`, which has nothing but workflows.
pub(super) const WORKFLOWS: &str = page_of_jobs!(
    "SELECT id, state, queue, job_type, lane
       FROM jobs
      WHERE job_type = 'forgerun.workflow' AND id < $1::uuid
      ORDER BY id DESC
      LIMIT $3::bigint"
);
pub(super) const WORKFLOWS_OF_CLIENT: &str = page_of_jobs!(
    "SELECT id, state, queue, job_type, lane
       FROM jobs
      WHERE job_type = 'forgerun.workflow' AND client = $9::uuid AND id < $1::uuid
      ORDER BY id DESC
      LIMIT $3::bigint"
);
/// Along `jobs_state`, which does not have those that have succeeded.
pub(super) const JOBS_IN_STATES: &str = page_of_jobs!(
    "SELECT own.*
       FROM unnest($4::smallint[]) AS wanted (state)
      CROSS JOIN LATERAL (SELECT id, state, queue, job_type, lane
                            FROM jobs
                           WHERE client = $9::uuid AND jobs.state = wanted.state AND jobs.state <> 4
                             AND id < $1::uuid
                           ORDER BY id DESC
                           LIMIT $3::bigint) AS own
      ORDER BY id DESC
      LIMIT $3::bigint"
);
/// The same for all clients: no index has their jobs together, so the lists of the clients are merged.
pub(super) const JOBS_IN_STATES_OF_ALL: &str = page_of_jobs!(
    "SELECT own.*
       FROM clients
      CROSS JOIN unnest($4::smallint[]) AS wanted (state)
      CROSS JOIN LATERAL (SELECT id, state, queue, job_type, lane
                            FROM jobs
                           WHERE client = clients.id AND jobs.state = wanted.state AND jobs.state <> 4
                             AND id < $1::uuid
                           ORDER BY id DESC
                           LIMIT $3::bigint) AS own
      ORDER BY id DESC
      LIMIT $3::bigint"
);
pub(super) const COUNT_CLIENTS: &str =
    "SELECT count(*) FROM (SELECT FROM clients LIMIT $1::bigint) AS counted";
pub(super) const TO_WEBHOOK: &str = page_of_deliveries!("endpoint = $1::uuid");
pub(super) const GIVEN_UP: &str = page_of_deliveries!("endpoint = $1::uuid AND status = 2");
pub(super) const OF_JOB: &str = page_of_deliveries!("job = $1::uuid");

impl ReadConnection<'_> {
    pub(super) async fn list_jobs(&self, filter: Filter) -> Result<ListPage<Job, JobId>, Error> {
        if filter.job_type.as_ref().is_some_and(|job_type| job_type.contains('\0')) {
            // No job has such a type, and the database would not even take the question.
            return Ok(ListPage { rows: Vec::new(), next: None });
        }
        let before = filter.before.map_or(Uuid::MAX, Uuid::from);
        let states: Vec<i16> = filter.states.iter().map(|state| i16::from(state.as_u8())).collect();
        let states = (!states.is_empty()).then_some(states);
        let suffix = filter.id_suffix.map(IdSuffix::like_pattern);
        let passes_all = states.is_none()
            && filter.queue.is_none()
            && filter.job_type.is_none()
            && filter.dead.is_none()
            && suffix.is_none()
            && filter.marks().len() < 2
            && !filter.looks_inside();
        let marks = filter.marks();
        let is_for_workflows = filter.is_for_workflows() && marks.is_empty();
        let is_rare = !is_for_workflows
            && marks.is_empty()
            && !filter.states.is_empty()
            && !filter.states.contains(&State::Succeeded);
        let n_clients = if is_rare && filter.client.is_none() { self.n_clients().await? } else { None };
        // Of each list as much is looked at as of one, so many lists are looked at less.
        let look_max = match n_clients {
            Some(n) => (MERGED_ROWS_MAX / n.max(1)).clamp(filter.limit.min(filter.look_max), filter.look_max),
            None => filter.look_max,
        };
        // What is inside of a job is seen here alone, so all that was looked at is fetched.
        let n_fetched = if filter.looks_inside() { look_max } else { filter.limit };
        let bounds = PageBounds::new(n_fetched, look_max, passes_all);
        let (queue, client) = (filter.queue.clone().map(NameText), filter.client.map(Uuid::from));
        let mut values: Vec<&(dyn ToSql + Sync)> = vec![
            &before,
            &bounds.limit,
            &bounds.look_max,
            &states,
            &queue,
            &filter.job_type,
            &filter.dead,
            &suffix,
        ];
        if !marks.is_empty() {
            values.push(&marks);
        }
        let sql = match &client {
            Some(client) => {
                values.push(client);
                match () {
                    () if !marks.is_empty() => Sql::ListMarkedOfClient,
                    () if is_for_workflows => Sql::ListWorkflowsOfClient,
                    () if is_rare => Sql::ListJobsInStates,
                    () => Sql::ListJobsOfClient,
                }
            }
            None if !marks.is_empty() => Sql::ListMarked,
            None if is_for_workflows => Sql::ListWorkflows,
            None if n_clients.is_some() => Sql::ListJobsInStatesOfAll,
            None => Sql::ListJobs,
        };
        let page = bounds.page(&self.rows(sql, &values).await?, |row| read_job_at(row, 2))?;
        Ok(if filter.looks_inside() { passed_inside(page, &filter) } else { page })
    }

    /// How many clients there are; `None` if too many to look at one by one.
    async fn n_clients(&self) -> Result<Option<usize>, Error> {
        let rows = self.rows(Sql::CountClients, &[&bounded(CLIENTS_MERGED_MAX + 1)]).await?;
        let n = rows.first().map_or(Ok(0), |row| cell::<i64>(row, 0))?.unsigned_abs() as usize;
        Ok(Some(n).filter(|n| *n <= CLIENTS_MERGED_MAX))
    }

    pub(super) async fn list_deliveries(
        &self,
        filter: DeliveryFilter,
    ) -> Result<ListPage<Delivery, DeliveryId>, Error> {
        let (sql, of) = match (filter.of, filter.status) {
            (DeliveriesOf::Webhook(id), Some(DeliveryStatus::Failed)) => {
                (Sql::ListDeliveriesGivenUp, Uuid::from(id))
            }
            (DeliveriesOf::Webhook(id), _) => (Sql::ListDeliveriesTo, Uuid::from(id)),
            (DeliveriesOf::Job(id), _) => (Sql::ListDeliveriesOf, Uuid::from(id)),
        };
        let before = filter.before.map_or(Uuid::MAX, Uuid::from);
        let status = filter.status.map(|status| status as i16);
        let bounds = PageBounds::new(filter.limit, filter.look_max, status.is_none());
        let values: [&(dyn ToSql + Sync); 5] = [&of, &before, &bounds.limit, &bounds.look_max, &status];
        bounds.page(&self.rows(sql, &values).await?, |row| read_delivery_at(row, 2))
    }
}

/// The jobs of a page that pass what no column knows, up to the limit of the filter.
fn passed_inside(mut page: ListPage<Job, JobId>, filter: &Filter) -> ListPage<Job, JobId> {
    page.rows.retain(|job| filter.fits_inside(job));
    if page.rows.len() > filter.limit {
        page.rows.truncate(filter.limit);
        page.next = page.rows.last().map(|job| job.id);
    }
    page
}

/// How much a page has and looks at.
struct PageBounds {
    limit: i64,
    look_max: i64,
}

impl PageBounds {
    /// A page that everything passes need not look further than it is long.
    fn new(limit: usize, look_max: usize, passes_all: bool) -> PageBounds {
        let look_max = if passes_all { limit.min(look_max) } else { look_max };
        PageBounds { limit: bounded(limit), look_max: bounded(look_max.max(1)) }
    }

    /// The page from rows of (rows looked at, the last of them, id, …).
    fn page<T, Id: From<Uuid>>(
        &self,
        rows: &[Row],
        read: impl Fn(&Row) -> Result<T, Error>,
    ) -> Result<ListPage<T, Id>, Error> {
        let (n_seen, last) = match rows.first() {
            Some(row) => (cell::<i64>(row, 0)?, cell::<Option<Uuid>>(row, 1)?),
            None => (0, None),
        };
        let (mut page, mut n_found, mut last_found) = (Vec::new(), 0, None);
        for row in rows {
            if let Some(id) = cell::<Option<Uuid>>(row, 2)? {
                (n_found, last_found) = (n_found + 1, Some(id));
                page.extend(readable(read(row).map(Some))?);
            }
        }
        let next = match () {
            () if n_found >= self.limit => last_found,
            () if n_seen >= self.look_max => last,
            () => None,
        };
        Ok(ListPage { rows: page, next: next.map(Id::from) })
    }
}
