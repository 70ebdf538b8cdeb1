//! Rows that are set aside.

use forgerun_core::Changes;
use forgerun_core::codec::Corrupt;
use forgerun_core::set_aside::{RowId, SetAside};
use forgerun_core::time::Time;
use tokio_postgres::Row;

use super::load::cell;
use super::pipeline::Pipeline;
use super::sql::Sql;
use super::value::Uuid;
use crate::Error;

pub(super) const TAKE_JOBS_AWAY: &str =
    "UPDATE jobs SET lane = NULL, shelf = NULL, due_at = NULL WHERE id = ANY ($1::uuid[])";
pub(super) const TAKE_DELIVERIES_AWAY: &str =
    "UPDATE deliveries SET place = NULL, due_at = NULL WHERE id = ANY ($1::uuid[])";
pub(super) const PUT: &str = "
    INSERT INTO set_aside (kind, id, at, reason)
    SELECT * FROM unnest($1::smallint[], $2::uuid[], $3::bigint[], $4::text[])
        ON CONFLICT (kind, id) DO UPDATE SET at = EXCLUDED.at, reason = EXCLUDED.reason";
pub(super) const DELETE: &str = "
    DELETE FROM set_aside
     USING unnest($1::smallint[], $2::uuid[]) AS gone (kind, id)
     WHERE set_aside.kind = gone.kind AND set_aside.id = gone.id";
pub(super) const LIST: &str = "SELECT kind, id, at, reason FROM set_aside ORDER BY kind, id LIMIT $1::bigint";

/// What a batch sets aside and restores, as columns.
#[derive(Default)]
pub(super) struct SetAsideColumns<'a> {
    kinds: Vec<i16>,
    ids: Vec<Uuid>,
    at: Vec<i64>,
    reasons: Vec<&'a str>,
    jobs: Vec<Uuid>,
    deliveries: Vec<Uuid>,
    gone_kinds: Vec<i16>,
    gone_ids: Vec<Uuid>,
}

impl<'a> SetAsideColumns<'a> {
    pub(super) fn new(changes: &'a Changes) -> SetAsideColumns<'a> {
        let mut columns = SetAsideColumns::default();
        for SetAside { row, at, reason } in &changes.set_aside {
            columns.kinds.push(i16::from(row.kind()));
            columns.ids.push((*row).into());
            columns.at.push(at.as_micros());
            columns.reasons.push(reason);
            match row {
                RowId::Job(id) => columns.jobs.push((*id).into()),
                RowId::Delivery(id) => columns.deliveries.push((*id).into()),
            }
        }
        let forgotten = changes.forgotten.iter().map(|gone| RowId::Job(gone.job));
        for row in changes.restored.iter().copied().chain(forgotten) {
            columns.gone_kinds.push(i16::from(row.kind()));
            columns.gone_ids.push(row.into());
        }
        columns
    }

    /// Comes after everything else about jobs and deliveries.
    pub(super) fn push<'p>(&'p self, pipeline: &mut Pipeline<'p>) {
        if !self.jobs.is_empty() {
            pipeline.push(Sql::TakeJobsAway, [&self.jobs]);
        }
        if !self.deliveries.is_empty() {
            pipeline.push(Sql::TakeDeliveriesAway, [&self.deliveries]);
        }
        if !self.ids.is_empty() {
            pipeline.push(Sql::PutAside, [&self.kinds, &self.ids, &self.at, &self.reasons]);
        }
        if !self.gone_ids.is_empty() {
            pipeline.push(Sql::DeleteAside, [&self.gone_kinds, &self.gone_ids]);
        }
    }
}

/// A row of the list, from `kind, id, at, reason`.
pub(super) fn read_aside(row: &Row) -> Result<SetAside, Error> {
    let kind = u8::try_from(cell::<i16>(row, 0)?).map_err(|_| Corrupt)?;
    let row_id = RowId::from_parts(kind, cell::<Uuid>(row, 1)?.as_u128()).ok_or(Corrupt)?;
    Ok(SetAside { row: row_id, at: Time::from_micros(cell(row, 2)?), reason: cell(row, 3)? })
}
