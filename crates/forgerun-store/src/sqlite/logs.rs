//! Log lines of jobs: a row for each batch of lines.

use forgerun_core::id::{ClientId, JobId};
use forgerun_core::log::{LogBatch, LogPlace, LogSummary};
use rusqlite::{Connection, Row, params};

use super::cells;
use super::load::sql_limit;
use super::read::{all, first};
use super::statements::statements;
use crate::{Error, LogChunk, LogQuery};

statements! {
    LOG_JOB_EXISTS = "
        SELECT n
        FROM jobs
        WHERE id = ?1
    ";

    LAST_LOG_CHUNK = "
        SELECT attempt, last, n_lines, start, stop, attempt_after, attempt_start
        FROM log_chunks
        WHERE job = ?1
        ORDER BY last DESC
        LIMIT 1
    ";

    INSERT_LOG_CHUNK = "
        INSERT INTO log_chunks (job, last, n_lines, attempt, start, stop, attempt_after, attempt_start, client, content)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
    ";

    TRIM_LOG = "
        DELETE FROM log_chunks
        WHERE job = ?1 AND (start < ?2 OR (start >= ?3 AND start < ?4))
    ";

    /// `?2` is the attempt, or NULL for all.
    READ_LOG = "
        SELECT attempt, last, n_lines, start, stop, attempt_after, attempt_start, content
        FROM log_chunks INDEXED BY log_chunks_job
        WHERE job = ?1 AND last > ?3 AND (?2 IS NULL OR attempt = ?2)
        ORDER BY last
        LIMIT ?4
    ";

    SUM_LOG = "
        SELECT coalesce(max(last), 0), coalesce(max(last) - sum(n_lines), 0)
        FROM log_chunks
        WHERE job = ?1
    ";

    SUM_LOG_OF_ATTEMPT = "
        SELECT coalesce(max(last), 0), coalesce(sum(dropped), 0)
        FROM (
            SELECT max(last) AS last, max(last) - attempt_after - sum(n_lines) AS dropped
            FROM log_chunks
            WHERE job = ?1 AND attempt = ?2
            GROUP BY attempt_after
        )
    ";

    LOG_BYTES_OF = "
        SELECT coalesce(sum(stop - start), 0)
        FROM log_chunks INDEXED BY log_chunks_client
        WHERE client = ?1
    ";

    DELETE_LOG = "
        DELETE FROM log_chunks
        WHERE job = ?1
    ";
}

/// Appends batches. Returns the number of the last line of each; `None` if its job is gone.
pub(super) fn append(
    db: &Connection,
    batches: &[LogBatch],
    bytes_max: u64,
) -> Result<Vec<Option<u64>>, Error> {
    batches.iter().map(|batch| append_one(db, batch, bytes_max)).collect()
}

fn append_one(db: &Connection, batch: &LogBatch, bytes_max: u64) -> Result<Option<u64>, Error> {
    let job = batch.job.to_bytes();
    if first(db, LOG_JOB_EXISTS, params![job], |_| Ok(()))?.is_none() {
        return Ok(None);
    }
    let last = first(db, LAST_LOG_CHUNK, params![job], place)?;
    let next = LogPlace::next(last.as_ref(), batch);
    db.prepare_cached(INSERT_LOG_CHUNK)?.execute(params![
        job,
        next.last.cast_signed(),
        next.n_lines,
        next.attempt,
        next.start.cast_signed(),
        next.end.cast_signed(),
        next.attempt_after.cast_signed(),
        next.attempt_start.cast_signed(),
        batch.client.to_bytes(),
        batch.content,
    ])?;
    if let Some(trim) = next.trim(bytes_max) {
        let (job_before, attempt_start) = (trim.job_before.cast_signed(), trim.attempt_start.cast_signed());
        db.prepare_cached(TRIM_LOG)?.execute(params![
            job,
            job_before,
            attempt_start,
            trim.attempt_before.cast_signed()
        ])?;
    }
    Ok(Some(next.last))
}

fn number(row: &Row<'_>, column: usize) -> Result<u64, Error> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

fn place(row: &Row<'_>) -> Result<LogPlace, Error> {
    Ok(LogPlace {
        attempt: row.get(0)?,
        last: number(row, 1)?,
        n_lines: row.get(2)?,
        start: number(row, 3)?,
        end: number(row, 4)?,
        attempt_after: number(row, 5)?,
        attempt_start: number(row, 6)?,
    })
}

pub(super) fn read(db: &Connection, query: &LogQuery) -> Result<Vec<LogChunk>, Error> {
    let LogQuery { job, attempt, after, limit } = query;
    let after = i64::try_from(*after).unwrap_or(i64::MAX);
    let wanted = params![job.to_bytes(), attempt, after, sql_limit(*limit)];
    all(db, READ_LOG, wanted, |row| {
        Ok(LogChunk { place: place(row)?, content: cells::bytes(row, 7)?.to_vec() })
    })
}

pub(super) fn summary(db: &Connection, job: JobId, attempt: Option<u32>) -> Result<LogSummary, Error> {
    let read = |row: &Row<'_>| Ok(LogSummary { last: number(row, 0)?, dropped: number(row, 1)? });
    let job = job.to_bytes();
    let found = match attempt {
        None => first(db, SUM_LOG, params![job], read)?,
        Some(attempt) => first(db, SUM_LOG_OF_ATTEMPT, params![job, attempt], read)?,
    };
    Ok(found.unwrap_or_default())
}

/// Bytes of all logs of a client.
pub(super) fn bytes_of(db: &Connection, client: ClientId) -> Result<u64, Error> {
    Ok(first(db, LOG_BYTES_OF, params![client.to_bytes()], |row| number(row, 0))?.unwrap_or(0))
}

/// Deletes the log of a job.
pub(super) fn delete(db: &Connection, job: JobId) -> Result<(), Error> {
    db.prepare_cached(DELETE_LOG)?.execute(params![job.to_bytes()])?;
    Ok(())
}
