//! Records: loaded by key or because they are due, listed by group, written if they still are as they were seen.

use forgerun_core::codec::Corrupt;
use forgerun_core::record::{Record, RecordKey, RecordKind};
use forgerun_core::time::Time;
use forgerun_core::{Changes, Rows, Wants, limits};
use rusqlite::{Connection, Row, params};

use super::cells;
use super::load::sql_limit;
use super::read::{all, first};
use super::statements::statements;
use crate::{Error, Fault};

statements! {
    RECORD = "
        SELECT kind, key, grp, due_at, version, bytes
        FROM records
        WHERE kind = ?1 AND key = ?2
    ";

    // Only of kinds that this version knows; `?3` has a bit for each.
    RECORDS_DUE = "
        SELECT kind, key, grp, due_at, version, bytes
        FROM records INDEXED BY records_due
        WHERE due_at <= ?1 AND (?3 >> kind) & 1
        ORDER BY due_at
        LIMIT ?2
    ";

    RECORDS = "
        SELECT kind, key, grp, due_at, version, bytes
        FROM records INDEXED BY records_group
        WHERE kind = ?1 AND grp = ?2 AND key > ?3
        ORDER BY key
        LIMIT ?4
    ";

    /// Those of every group.
    ALL_RECORDS = "
        SELECT kind, key, grp, due_at, version, bytes
        FROM records
        WHERE kind = ?1 AND key > ?2
        ORDER BY key
        LIMIT ?3
    ";

    DELETE_RECORD = "
        DELETE FROM records
        WHERE kind = ?1 AND key = ?2 AND version = ?3
    ";

    /// Never replaces: what was seen has been deleted before, so a row that is still there was written by somebody else.
    INSERT_RECORD = "
        INSERT OR FAIL INTO records (kind, key, grp, due_at, version, bytes)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6)
    ";
}

/// Loads the records wanted, and those that are due.
pub(super) fn load(db: &Connection, wants: &Wants, rows: &mut Rows) -> Result<(), Error> {
    for key in &wants.records {
        if let Some(record) = record(db, key)? {
            rows.records.insert(key.clone(), record);
        }
    }
    if let Some(due) = wants.due {
        let params = params![due.now.as_micros(), sql_limit(limits::DUE_RECORDS_MAX), RecordKind::KNOWN];
        for record in all(db, RECORDS_DUE, params, read)? {
            rows.records_due.push(record.key.clone());
            rows.records.insert(record.key.clone(), record);
        }
    }
    Ok(())
}

/// Writes the records that changed.
pub(super) fn write(db: &Connection, changes: &Changes) -> Result<(), Error> {
    for (key, change) in &changes.records {
        if let Some(seen) = change.seen {
            let seen = params![key.kind as u8, key.key, seen.cast_signed()];
            if db.prepare_cached(DELETE_RECORD)?.execute(seen)? != 1 {
                return Err(Error::new(Fault::Corrupt, "a record changed although it was locked"));
            }
        }
        if let Some(new) = &change.new {
            db.prepare_cached(INSERT_RECORD)?.execute(params![
                key.kind as u8,
                key.key,
                new.group,
                new.due_at.map(Time::as_micros),
                new.version.cast_signed(),
                new.bytes,
            ])?;
        }
    }
    Ok(())
}

/// One record.
pub(super) fn record(db: &Connection, key: &RecordKey) -> Result<Option<Record>, Error> {
    first(db, RECORD, params![key.kind as u8, key.key], read)
}

/// A page of the records of a kind, by key: those of one group, or all.
pub(super) fn list(
    db: &Connection,
    kind: RecordKind,
    group: Option<&str>,
    after: &str,
    limit: usize,
) -> Result<Vec<Record>, Error> {
    let (kind, limit) = (kind as u8, sql_limit(limit));
    match group {
        Some(group) => all(db, RECORDS, params![kind, group, after, limit], read),
        None => all(db, ALL_RECORDS, params![kind, after, limit], read),
    }
}

fn read(row: &Row<'_>) -> Result<Record, Error> {
    let kind = RecordKind::from_u8(row.get(0)?).ok_or(Corrupt)?;
    Ok(Record {
        key: RecordKey { kind, key: row.get(1)? },
        group: row.get(2)?,
        due_at: row.get::<_, Option<i64>>(3)?.map(Time::from_micros),
        version: row.get::<_, i64>(4)?.cast_unsigned(),
        bytes: cells::bytes(row, 5)?.to_vec(),
    })
}
