//! Contents that take the place of others.

use forgerun_core::rows::Object;

use super::connect::in_time;
use super::pipeline::Pipeline;
use super::sql::Sql;
use super::value::Uuid;
use super::{Postgres, fault};
use crate::{Error, Fault, Rewrite};

pub(super) const BLOB: &str = "
      WITH target AS (SELECT execution, blob FROM results
                       WHERE execution = $1::uuid AND blob = $2::uuid
                         FOR UPDATE),
           named AS (UPDATE blobs SET loose_at = NULL FROM target WHERE id = $3::uuid),
           loosened AS (UPDATE blobs SET loose_at = $4::bigint FROM target WHERE id = target.blob)
    UPDATE results SET blob = $3::uuid
      FROM target
     WHERE results.execution = target.execution";

/// The values of one statement.
enum Values {
    Bytes(Sql, Uuid, Vec<u8>),
    Outcome(Uuid, Vec<u8>, Vec<u8>),
    Blob(Uuid, Uuid, Uuid, i64),
    Log(Uuid, i64, Vec<u8>),
}

impl Values {
    fn of(row: Rewrite) -> Values {
        match row {
            Rewrite::Input(job, input) => Values::Bytes(Sql::RewriteInput, job.into(), input.encode()),
            Rewrite::Outcome(execution, object) => {
                let Object { bytes, digest } = object;
                Values::Outcome(execution.into(), bytes, digest.to_vec())
            }
            Rewrite::Result(execution, bytes) => Values::Bytes(Sql::RewriteResult, execution.into(), bytes),
            Rewrite::Blob { execution, old, new, at } => {
                Values::Blob(execution.into(), old.into(), new.into(), at.as_micros())
            }
            Rewrite::Log { job, last, content } => Values::Log(job.into(), last.cast_signed(), content),
        }
    }

    fn push<'a>(&'a self, pipeline: &mut Pipeline<'a>) {
        match self {
            Values::Bytes(sql, row, bytes) => pipeline.push(*sql, [row, bytes]),
            Values::Outcome(execution, bytes, digest) => {
                pipeline.push(Sql::RewriteOutcome, [execution, bytes, digest]);
            }
            Values::Blob(execution, old, new, at) => {
                pipeline.push(Sql::RewriteBlob, [execution, old, new, at]);
            }
            Values::Log(job, last, content) => pipeline.push(Sql::RewriteLog, [job, last, content]),
        }
    }
}

impl Postgres {
    pub(super) async fn rewrite_all(&self, rows: Vec<Rewrite>) -> Result<(), Error> {
        let values: Vec<Values> = rows.into_iter().map(Values::of).collect();
        // Dropped on an error, which closes the connection and rolls back.
        let pooled = self.writers.take().await?;
        let mut pipeline = Pipeline::new(pooled.connection());
        pipeline.push(Sql::Begin, []);
        values.iter().for_each(|values| values.push(&mut pipeline));
        pipeline.push(Sql::Commit, []);
        let late = |error| Error::new(Fault::Unknown, error);
        for answer in in_time(&self.options, pipeline.run()).await.map_err(late)? {
            answer.map_err(fault::report)?;
        }
        pooled.give_back();
        Ok(())
    }
}
