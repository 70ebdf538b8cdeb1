//! Marks of jobs ([`crate::marks`]).

use forgerun_core::Changes;
use forgerun_core::job::Job;
use tokio_postgres::Transaction;
use tokio_postgres::types::ToSql;

use super::fault;
use super::load::{cell, read_job};
use super::pipeline::Pipeline;
use super::sql::Sql;
use super::value::Uuid;
use crate::Error;
use crate::error::readable;
use crate::marks::{self, RETRYING};

pub(super) const INSERT: &str = "
    INSERT INTO job_marks (mark, job, client)
    SELECT * FROM unnest($1::bytea[], $2::uuid[], $3::uuid[])
        ON CONFLICT DO NOTHING";

pub(super) const DELETE: &str = "DELETE FROM job_marks WHERE mark = $1::bytea AND job = ANY ($2::uuid[])";

/// A join, because a hash is not searched for a list.
pub(super) const DELETE_ALL: &str = "
    DELETE FROM job_marks
     USING unnest($1::uuid[]) AS gone (job)
     WHERE job_marks.job = gone.job";

const UNMARKED: &str = "SELECT id, head, body FROM jobs WHERE id > $1::uuid ORDER BY id LIMIT 5000";

/// Marks to write.
#[derive(Default)]
pub(super) struct MarkColumns {
    marks: Vec<Vec<u8>>,
    jobs: Vec<Uuid>,
    clients: Vec<Uuid>,
}

impl MarkColumns {
    pub(super) fn new<'j>(jobs: impl Iterator<Item = &'j Job>) -> MarkColumns {
        let mut columns = MarkColumns::default();
        for job in jobs {
            marks::all(job).into_iter().for_each(|mark| columns.add(mark, job));
        }
        columns
    }

    fn add(&mut self, mark: Vec<u8>, job: &Job) {
        self.marks.push(mark);
        self.jobs.push(job.id.into());
        self.clients.push(job.head.client.into());
    }

    pub(super) fn values(&self) -> [&(dyn ToSql + Sync); 3] {
        [&self.marks, &self.jobs, &self.clients]
    }
}

/// What changes of jobs do to their marks.
#[derive(Default)]
pub(super) struct MarkChanges {
    put: MarkColumns,
    removed: Vec<Uuid>,
}

impl MarkChanges {
    pub(super) fn new(changes: &Changes) -> MarkChanges {
        let mut columns = MarkChanges::default();
        for job in &changes.updated {
            match marks::is_retrying_now(job) {
                Some(true) => columns.put.add(RETRYING.to_vec(), job),
                Some(false) => columns.removed.push(job.id.into()),
                None => {}
            }
        }
        columns
    }

    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.put.jobs.is_empty() {
            pipeline.push(Sql::InsertMarks, self.put.values());
        }
        if !self.removed.is_empty() {
            pipeline.push(Sql::DeleteMark, [&RETRYING as &(dyn ToSql + Sync), &self.removed]);
        }
    }
}

/// Marks the jobs that were written before there were marks. Those that cannot be read stay without.
pub(super) async fn mark_all(transaction: &Transaction<'_>) -> Result<(), Error> {
    let mut after = Uuid::from(forgerun_core::id::JobId::from_u128(0));
    loop {
        let rows = transaction.query(UNMARKED, &[&after]).await.map_err(fault::report)?;
        let Some(last) = rows.last() else { return Ok(()) };
        after = cell(last, 0)?;
        let mut jobs = Vec::with_capacity(rows.len());
        for row in &rows {
            jobs.extend(readable(read_job(row).map(Some))?);
        }
        let columns = MarkColumns::new(jobs.iter());
        transaction.execute(INSERT, &columns.values()).await.map_err(fault::report)?;
    }
}
