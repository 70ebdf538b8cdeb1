//! Rows that are set aside.

use forgerun_core::Changes;
use forgerun_core::codec::Corrupt;
use forgerun_core::set_aside::{RowId, SetAside};
use forgerun_core::time::Time;
use rusqlite::{Connection, Row, params};

use super::JobMap;
use super::cells;
use super::load::sql_limit;
use super::statements::statements;
use crate::Error;

statements! {
    TAKE_JOB_AWAY = "
        UPDATE jobs
        SET lane = NULL, shelf = NULL, due_at = NULL
        WHERE id = ?1
    ";

    TAKE_JOB_AWAY_BY_NUMBER = "
        UPDATE jobs
        SET lane = NULL, shelf = NULL, due_at = NULL
        WHERE n = ?1
    ";

    TAKE_DELIVERY_AWAY = "
        UPDATE deliveries
        SET place = NULL, due_at = NULL
        WHERE id = ?1
    ";

    PUT_ASIDE = "
        INSERT OR REPLACE INTO set_aside (kind, id, at, reason)
        VALUES (?1, ?2, ?3, ?4)
    ";

    DELETE_ASIDE = "
        DELETE FROM set_aside
        WHERE kind = ?1 AND id = ?2
    ";

    LIST_ASIDE = "
        SELECT kind, id, at, reason
        FROM set_aside
        ORDER BY kind, id
        LIMIT ?1
    ";
}

/// Comes after everything else about jobs and deliveries.
pub(super) fn write(db: &Connection, changes: &Changes, numbers: &JobMap<i64>) -> Result<(), Error> {
    for SetAside { row, at, reason } in &changes.set_aside {
        let id = row.as_u128().to_be_bytes();
        match row {
            RowId::Job(job) => match numbers.get(job) {
                Some(n) => db.prepare_cached(TAKE_JOB_AWAY_BY_NUMBER)?.execute(params![n])?,
                None => db.prepare_cached(TAKE_JOB_AWAY)?.execute(params![id])?,
            },
            RowId::Delivery(_) => db.prepare_cached(TAKE_DELIVERY_AWAY)?.execute(params![id])?,
        };
        db.prepare_cached(PUT_ASIDE)?.execute(params![row.kind(), id, at.as_micros(), reason])?;
    }
    let forgotten = changes.forgotten.iter().map(|gone| RowId::Job(gone.job));
    for row in changes.restored.iter().copied().chain(forgotten) {
        db.prepare_cached(DELETE_ASIDE)?.execute(params![row.kind(), row.as_u128().to_be_bytes()])?;
    }
    Ok(())
}

pub(super) fn list(db: &Connection, limit: usize) -> Result<Vec<SetAside>, Error> {
    let read = |row: &Row<'_>| {
        let id = u128::from_be_bytes(cells::array(row, 1)?);
        let row_id = RowId::from_parts(row.get(0)?, id).ok_or(Corrupt)?;
        Ok(SetAside { row: row_id, at: Time::from_micros(row.get(2)?), reason: row.get(3)? })
    };
    db.prepare_cached(LIST_ASIDE)?.query_and_then(params![sql_limit(limit)], read)?.collect()
}
