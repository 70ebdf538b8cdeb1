//! Log lines of jobs: a row for each batch of lines. A transaction of its own appends many batches; it locks no job, so
//! it waits for none that works on jobs.
//!
//! Two nodes may append to the log of one job at once. Each first takes a lock that stands for the job, then looks at the
//! last chunk. The job may be deleted meanwhile by a transaction that does not see the new chunk: the sweeper deletes
//! chunks without a job.

use forgerun_core::log::{LogBatch, LogPlace, LogSummary};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::connect::in_time;
use super::load::cell;
use super::pipeline::Pipeline;
use super::sql::Sql;
use super::value::Uuid;
use super::{Options, Postgres, fault};
use crate::{Error, Fault, LogChunk};

/// In a space of its own, apart from other locks with two numbers. In order, so that no circle forms.
pub(super) const LOCK: &str = "
    SELECT pg_advisory_xact_lock(18003, held.key)
      FROM (SELECT DISTINCT hashtext(job::text) AS key FROM unnest($1::uuid[]) AS given (job) ORDER BY 1) AS held";

/// The last chunk of each job that exists.
pub(super) const LAST: &str = "
    SELECT last.attempt, last.last, last.n_lines, last.start, last.stop, last.attempt_after, last.attempt_start, jobs.id
      FROM jobs
      LEFT JOIN LATERAL (SELECT * FROM log_chunks WHERE job = jobs.id ORDER BY last DESC LIMIT 1) AS last ON true
     WHERE jobs.id = ANY ($1::uuid[])";

pub(super) const INSERT: &str = "
    INSERT INTO log_chunks (job, client, last, n_lines, attempt, start, stop, attempt_after, attempt_start, content)
    SELECT new.*
      FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::integer[], $5::integer[], $6::bigint[], $7::bigint[],
                  $8::bigint[], $9::bigint[], $10::bytea[]) AS new";

pub(super) const TRIM: &str = "
    DELETE FROM log_chunks
     USING unnest($1::uuid[], $2::bigint[], $3::bigint[], $4::bigint[])
           AS trim (job, job_before, attempt_start, attempt_before)
     WHERE log_chunks.job = trim.job
       AND (start < trim.job_before OR (start >= trim.attempt_start AND start < trim.attempt_before))";

/// `$2` is the attempt, or NULL for all.
pub(super) const READ: &str = "
    SELECT attempt, last, n_lines, start, stop, attempt_after, attempt_start, content
      FROM log_chunks
     WHERE job = $1::uuid AND last > $3::bigint AND ($2::integer IS NULL OR attempt = $2::integer)
     ORDER BY last
     LIMIT $4::bigint";

pub(super) const SUM: &str = "
    SELECT coalesce(max(last), 0)::bigint, coalesce(max(last) - sum(n_lines), 0)::bigint
      FROM log_chunks
     WHERE job = $1::uuid";

pub(super) const SUM_OF_ATTEMPT: &str = "
    SELECT coalesce(max(last), 0)::bigint, coalesce(sum(dropped), 0)::bigint
      FROM (SELECT max(last) AS last, max(last) - attempt_after - sum(n_lines) AS dropped
              FROM log_chunks
             WHERE job = $1::uuid AND attempt = $2::integer
             GROUP BY attempt_after) AS runs";

pub(super) const BYTES_OF: &str =
    "SELECT coalesce(sum(stop - start), 0)::bigint FROM log_chunks WHERE client = $1::uuid";

/// Up to which job a bite of chunks without a job is looked for, beginning after `$1`.
pub(super) const BITE: &str = "
    SELECT max(job::text)::uuid
      FROM (SELECT job FROM log_chunks WHERE job > $1::uuid ORDER BY job LIMIT $2::bigint) AS bite";

pub(super) const SWEEP: &str = "
    DELETE FROM log_chunks
     WHERE job > $1::uuid AND job <= $2::uuid AND NOT EXISTS (SELECT FROM jobs WHERE id = log_chunks.job)";

/// New chunks as columns.
#[derive(Default)]
struct ChunkColumns<'a> {
    jobs: Vec<Uuid>,
    clients: Vec<Uuid>,
    last: Vec<i64>,
    n_lines: Vec<i32>,
    attempts: Vec<i32>,
    start: Vec<i64>,
    end: Vec<i64>,
    attempt_after: Vec<i64>,
    attempt_start: Vec<i64>,
    contents: Vec<&'a [u8]>,
}

impl<'a> ChunkColumns<'a> {
    fn add(&mut self, batch: &'a LogBatch, place: &LogPlace) {
        self.jobs.push(batch.job.into());
        self.clients.push(batch.client.into());
        self.last.push(place.last.cast_signed());
        self.n_lines.push(place.n_lines.cast_signed());
        self.attempts.push(place.attempt.cast_signed());
        self.start.push(place.start.cast_signed());
        self.end.push(place.end.cast_signed());
        self.attempt_after.push(place.attempt_after.cast_signed());
        self.attempt_start.push(place.attempt_start.cast_signed());
        self.contents.push(&batch.content);
    }
}

#[derive(Default)]
struct TrimColumns {
    jobs: Vec<Uuid>,
    job_before: Vec<i64>,
    attempt_start: Vec<i64>,
    attempt_before: Vec<i64>,
}

impl Postgres {
    /// Appends batches, one per job at most. Returns the number of the last line of each; `None` if its job is gone.
    pub(super) async fn append(
        &self,
        batches: &[LogBatch],
        bytes_max: u64,
    ) -> Result<Vec<Option<u64>>, Error> {
        // Dropped on an error, which closes the connection and rolls back.
        let pooled = self.writers.take().await?;
        let jobs: Vec<Uuid> = batches.iter().map(|batch| batch.job.into()).collect();
        let mut pipeline = Pipeline::new(pooled.connection());
        pipeline.push(Sql::Begin, []);
        pipeline.push(Sql::LockLogs, [&jobs]);
        pipeline.push(Sql::ReadLastChunks, [&jobs]);
        let found = run(pipeline, &self.options).await?.pop().unwrap_or_default();
        let (mut chunks, mut trims) = (ChunkColumns::default(), TrimColumns::default());
        let mut answers = Vec::with_capacity(batches.len());
        for batch in batches {
            let is_of = |row: &&Row| cell::<Uuid>(row, 7).is_ok_and(|job| job == Uuid::from(batch.job));
            let Some(row) = found.iter().find(is_of) else {
                answers.push(None);
                continue;
            };
            let place = LogPlace::next(last_place(row)?.as_ref(), batch);
            chunks.add(batch, &place);
            if let Some(trim) = place.trim(bytes_max) {
                trims.jobs.push(batch.job.into());
                trims.job_before.push(trim.job_before.cast_signed());
                trims.attempt_start.push(trim.attempt_start.cast_signed());
                trims.attempt_before.push(trim.attempt_before.cast_signed());
            }
            answers.push(Some(place.last));
        }
        let mut pipeline = Pipeline::new(pooled.connection());
        pipeline.push(
            Sql::InsertLogChunks,
            [
                &chunks.jobs,
                &chunks.clients,
                &chunks.last,
                &chunks.n_lines,
                &chunks.attempts,
                &chunks.start,
                &chunks.end,
                &chunks.attempt_after,
                &chunks.attempt_start,
                &chunks.contents,
            ],
        );
        if !trims.jobs.is_empty() {
            let TrimColumns { jobs, job_before, attempt_start, attempt_before } = &trims;
            pipeline.push(Sql::TrimLogs, [jobs, job_before, attempt_start, attempt_before]);
        }
        pipeline.push(Sql::Commit, []);
        run(pipeline, &self.options).await?;
        pooled.give_back();
        Ok(answers)
    }

    /// Deletes chunks of jobs that are gone, of some jobs in turn.
    pub(super) async fn sweep_logs(&self, limit: usize) -> Result<usize, Error> {
        let after = Uuid::from(*self.logs_swept_to.lock().unwrap_or_else(|broken| broken.into_inner()));
        let pooled = self.writers.take().await?;
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let values: [&(dyn ToSql + Sync); 2] = [&after, &limit];
        let bite = in_time(&self.options, pooled.connection().query(Sql::FindLogBite, &values));
        let rows = bite.await?.map_err(fault::report)?;
        let until: Option<Uuid> = rows.first().map_or(Ok(None), |row| cell(row, 0))?;
        let mut n_swept = 0;
        if let Some(until) = until {
            let values: [&(dyn ToSql + Sync); 2] = [&after, &until];
            let sweep = in_time(&self.options, pooled.connection().execute(Sql::SweepLogs, &values));
            n_swept = sweep.await?.map_err(fault::report)?;
        }
        pooled.give_back();
        // At the end it begins anew.
        *self.logs_swept_to.lock().unwrap_or_else(|broken| broken.into_inner()) =
            until.unwrap_or(Uuid::MIN).into();
        Ok(usize::try_from(n_swept).unwrap_or(usize::MAX))
    }
}

async fn run(pipeline: Pipeline<'_>, options: &Options) -> Result<Vec<Vec<Row>>, Error> {
    let late = |error| Error::new(Fault::Unknown, error);
    let answers = in_time(options, pipeline.run()).await.map_err(late)?;
    answers.into_iter().map(|answer| answer.map_err(fault::report)).collect()
}

/// `None` for a job without lines.
fn last_place(row: &Row) -> Result<Option<LogPlace>, Error> {
    let attempt: Option<i32> = cell(row, 0)?;
    attempt.map(|_| place(row)).transpose()
}

fn number(row: &Row, column: usize) -> Result<u64, Error> {
    Ok(cell::<i64>(row, column)?.cast_unsigned())
}

fn place(row: &Row) -> Result<LogPlace, Error> {
    Ok(LogPlace {
        attempt: cell::<i32>(row, 0)?.cast_unsigned(),
        last: number(row, 1)?,
        n_lines: cell::<i32>(row, 2)?.cast_unsigned(),
        start: number(row, 3)?,
        end: number(row, 4)?,
        attempt_after: number(row, 5)?,
        attempt_start: number(row, 6)?,
    })
}

pub(super) fn read_chunk(row: &Row) -> Result<LogChunk, Error> {
    Ok(LogChunk { place: place(row)?, content: cell::<&[u8]>(row, 7)?.to_vec() })
}

pub(super) fn read_summary(rows: &[Row]) -> Result<LogSummary, Error> {
    let row = rows.first().ok_or_else(|| Error::new(Fault::Corrupt, "a sum has no row"))?;
    Ok(LogSummary { last: number(row, 0)?, dropped: number(row, 1)? })
}
