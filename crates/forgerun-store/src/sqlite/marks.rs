//! Marks of jobs ([`crate::marks`]).

use std::sync::Arc;

use forgerun_core::id::JobId;
use forgerun_core::job::{Input, Job};
use forgerun_core::rows::Forgotten;
use rusqlite::{Connection, params};

use super::cells;
use super::many::many;
use super::read::all;
use super::statements::statements;
use crate::Error;
use crate::error::readable;
use crate::marks::{self, RETRYING};

statements! {
    INSERT_MARK = "
        INSERT OR FAIL INTO job_marks (mark, job, client)
        VALUES (?, ?, ?)
    ";

    PUT_MARK = "
        INSERT OR IGNORE INTO job_marks (mark, job, client)
        VALUES (?1, ?2, ?3)
    ";

    DELETE_MARK = "
        DELETE FROM job_marks
        WHERE mark = ?1 AND job = ?2
    ";

    DELETE_MARKS = "
        DELETE FROM job_marks
        WHERE job = ?1
    ";

    UNMARKED_JOBS = "
        SELECT id, head, body
        FROM jobs
        WHERE id > ?1
        ORDER BY id
        LIMIT 5000
    ";
}

/// Writes the marks of new jobs, of those that changed, and of those that go.
pub(super) fn write(
    db: &Connection,
    inserted: &[(Job, Arc<Input>)],
    updated: &[Job],
    forgotten: &[Forgotten],
) -> Result<(), Error> {
    insert(db, inserted.iter().map(|(job, _)| job))?;
    for job in updated {
        match marks::is_retrying_now(job) {
            Some(true) => {
                let mark = params![RETRYING, job.id.to_bytes(), job.head.client.to_bytes()];
                db.prepare_cached(PUT_MARK)?.execute(mark)?;
            }
            Some(false) => {
                db.prepare_cached(DELETE_MARK)?.execute(params![RETRYING, job.id.to_bytes()])?;
            }
            None => {}
        }
    }
    for Forgotten { job, .. } in forgotten {
        db.prepare_cached(DELETE_MARKS)?.execute(params![job.to_bytes()])?;
    }
    Ok(())
}

fn insert<'a>(db: &Connection, jobs: impl Iterator<Item = &'a Job>) -> Result<(), Error> {
    let rows = jobs.flat_map(|job| marks::all(job).into_iter().map(move |mark| (mark, job)));
    many(db, INSERT_MARK, rows, |row, (mark, job)| {
        row.put(mark)?;
        row.put(job.id.to_bytes())?;
        row.put(job.head.client.to_bytes())
    })
}

/// Marks the jobs that were written before there were marks. Those that cannot be read stay without.
pub(super) fn mark_all(db: &Connection) -> Result<(), Error> {
    let mut after = Vec::new();
    loop {
        let read = |row: &rusqlite::Row<'_>| {
            let id = cells::job_id(row, 0)?;
            Ok((id, readable(cells::job(id, row, 1).map(Some))?))
        };
        let page: Vec<(JobId, Option<Job>)> = all(db, UNMARKED_JOBS, params![after], read)?;
        let Some((last, _)) = page.last() else { return Ok(()) };
        after = last.to_bytes().to_vec();
        insert(db, page.iter().filter_map(|(_, job)| job.as_ref()))?;
    }
}
