//! From [`Changes`] to rows: the writing half of a transaction, and the sweeping of what is old. The only place where
//! the tables change.

use std::sync::Arc;

use forgerun_core::Changes;
use forgerun_core::history::{JournalEntry, encode_entries};
use forgerun_core::id::JobId;
use forgerun_core::item::encode_ends;
use forgerun_core::job::{IdempotencyKey, Input, Job};
use forgerun_core::rows::{Forgotten, KeyRow};
use forgerun_core::time::Time;
use rusqlite::{Connection, params};

use super::load::sql_limit;
use super::many::many;
use super::statements::statements;
use super::{JobMap, aside, clients, deliveries, logs, marks, queues, records, results};
use crate::{Error, Fault, Sweep, Swept};

statements! {
    /// The number of the newest job: one step to the end of the table.
    LAST_NUMBER = "
        SELECT coalesce(max(n), 0)
        FROM jobs
    ";

    /// An id that is taken violates the unique index: the batch is rejected. SQLite gives the next numbers, in order;
    /// given by us, it would check each and keep what it needs to undo the statement.
    INSERT_JOB = "
        INSERT OR FAIL INTO jobs (id, client, queue, job_type, state, priority, lane, shelf, due_at, head, body, place)
        VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
    ";

    INSERT_INPUT = "
        INSERT OR FAIL INTO inputs (job, bytes)
        VALUES (?, ?)
    ";

    /// By row number, which saves the search by id: the job was loaded in the same transaction.
    UPDATE_JOB = "
        UPDATE jobs
        SET state = ?2, lane = ?3, shelf = ?4, due_at = ?5, body = ?6
        WHERE n = ?1
    ";

    /// The same for a job that takes turns: its place changes.
    UPDATE_PLACED_JOB = "
        UPDATE jobs
        SET state = ?2, lane = ?3, shelf = ?4, due_at = ?5, body = ?6, place = ?7
        WHERE n = ?1
    ";

    NUMBER = "
        SELECT n
        FROM jobs
        WHERE id = ?1
    ";

    DELETE_INPUT = "
        DELETE FROM inputs
        WHERE job = (SELECT n FROM jobs WHERE id = ?1)
    ";

    DELETE_JOB = "
        DELETE FROM jobs
        WHERE id = ?1
    ";

    DELETE_EXECUTION = "
        DELETE FROM executions
        WHERE id = ?1
    ";

    DELETE_OUTCOME = "
        DELETE FROM outcomes
        WHERE execution = ?1
    ";

    DELETE_ITEMS = "
        DELETE FROM items
        WHERE execution = ?1
    ";

    PUT_TOMBSTONE = "
        INSERT OR REPLACE INTO tombstones (execution, client, at, kept)
        VALUES (?1, ?2, ?3, ?4)
    ";

    /// Never replaces: the last word on an execution is spoken once.
    INSERT_OUTCOME = "
        INSERT OR FAIL INTO outcomes (execution, job, digest, bytes)
        VALUES (?, ?, ?, ?)
    ";

    PUT_ITEMS = "
        INSERT OR REPLACE INTO items (execution, ends)
        VALUES (?1, ?2)
    ";

    INSERT_EXECUTION = "
        INSERT INTO executions (id, job)
        VALUES (?1, ?2)
    ";

    PUT_KEY = "
        INSERT OR REPLACE INTO idempotency (client, operation, key, fingerprint, jobs)
        VALUES (?1, ?2, ?3, ?4, ?5)
    ";

    DELETE_KEY = "
        DELETE FROM idempotency
        WHERE client = ?1 AND operation = ?2 AND key = ?3
    ";

    PUT_UNIQUE = "
        INSERT OR REPLACE INTO uniques (key, job)
        VALUES (?1, ?2)
    ";

    /// Only where the job is still the holder: another may have taken the key in the same batch.
    DELETE_UNIQUE = "
        DELETE FROM uniques
        WHERE key = ?1 AND job = ?2
    ";

    PUT_LIMIT = "
        INSERT OR REPLACE INTO limits (key, active, turn_at)
        VALUES (?1, ?2, ?3)
    ";

    APPEND = "
        INSERT INTO journal (at, entries)
        VALUES (?1, ?2)
    ";

    /// The bite is found on `journal_at` alone, so that looking for nothing costs nothing.
    SWEEP_JOURNAL = "
        DELETE FROM journal
        WHERE seq IN (SELECT seq FROM journal WHERE at < ?1 AND seq <= ?3 ORDER BY at LIMIT ?2)
    ";

    /// Found on `limits_idle` alone.
    SWEEP_LIMITS = "
        DELETE FROM limits
        WHERE key IN (SELECT key FROM limits WHERE active = 0 AND turn_at < ?1 ORDER BY turn_at LIMIT ?2)
    ";

    /// Found on `tombstones_at` alone.
    SWEEP_TOMBSTONES = "
        DELETE FROM tombstones
        WHERE execution IN (SELECT execution FROM tombstones WHERE at < ?1 ORDER BY at LIMIT ?2)
    ";
}

/// Writes all changes. `numbers` are the row numbers of the jobs that were loaded; those of new ones are added.
pub(super) fn write(db: &Connection, changes: &Changes, numbers: &mut JobMap<i64>) -> Result<(), Error> {
    insert_jobs(db, &changes.inserted, numbers)?;
    update_jobs(db, &changes.updated, numbers)?;
    marks::write(db, &changes.inserted, &changes.updated, &changes.forgotten)?;
    for (blob, until) in changes.blobs_held() {
        results::touch_blob(db, blob, until)?;
    }
    deliveries::write(db, changes)?;
    forget(db, &changes.forgotten)?;
    aside::write(db, changes, numbers)?;
    insert_ends(db, changes)?;
    put_keys(db, &changes.keys, &changes.keys_removed)?;
    put_uniques(db, changes)?;
    put_limits(db, changes)?;
    clients::write(db, changes)?;
    queues::write(db, changes)?;
    records::write(db, changes)?;
    append(db, &changes.journal)
}

/// Deletes a bite of what is old and says how many rows that were.
pub(super) fn sweep(db: &Connection, sweep: &Sweep) -> Result<Swept, Error> {
    let limit = sql_limit(sweep.limit);
    queues::sweep(db, sweep.activity_before)?;
    let delete = |sql, before: Time| db.prepare_cached(sql)?.execute(params![before.as_micros(), limit]);
    Ok(Swept {
        journal_rows: db.prepare_cached(SWEEP_JOURNAL)?.execute(params![
            sweep.journal_before.as_micros(),
            limit,
            sweep.journal_until
        ])?,
        tombstones: delete(SWEEP_TOMBSTONES, sweep.tombstones_before)?,
        revoked_keys: clients::sweep(db, sweep.revoked_keys_before, limit)?,
        deliveries: deliveries::sweep(db, sweep.deliveries_before, limit)?,
        results: results::remove_expired(db, sweep)?,
        limits: delete(SWEEP_LIMITS, sweep.limits_before)?,
        ..Swept::default()
    })
}

fn insert_jobs(
    db: &Connection,
    inserted: &[(Job, Arc<Input>)],
    numbers: &mut JobMap<i64>,
) -> Result<(), Error> {
    if inserted.is_empty() {
        return Ok(());
    }
    let before: i64 = db.prepare_cached(LAST_NUMBER)?.query_row([], |row| row.get(0))?;
    many(db, INSERT_JOB, inserted, |row, (job, _)| {
        let shelf = job.shelf();
        row.put(job.id.to_bytes())?;
        row.put(job.head.client.to_bytes())?;
        row.put(job.head.queue.as_str())?;
        row.put(job.head.job_type.as_str())?;
        row.put(job.state.as_u8())?;
        row.put(job.head.priority)?;
        row.put(shelf.as_ref().map(|shelf| shelf.lane as u8))?;
        row.put(shelf.as_ref().map(|shelf| shelf.name.as_str()))?;
        row.put(job.due_at().map(|due| due.as_micros()))?;
        row.put(job.head.encode())?;
        row.put(job.encode())?;
        row.put(job.place().map(|place| place.to_bytes()))
    })?;
    if db.last_insert_rowid() != before + inserted.len() as i64 {
        return Err(Error::new(Fault::Corrupt, "new jobs are not numbered one after the other"));
    }
    numbers.extend(inserted.iter().map(|(job, _)| job.id).zip(before + 1..));
    let with_input = (before + 1..).zip(inserted).filter(|(_, (_, input))| !input.is_empty());
    many(db, INSERT_INPUT, with_input, |row, (n, (_, input))| {
        row.put(n)?;
        row.put(input.encode())
    })
}

fn update_jobs(db: &Connection, updated: &[Job], numbers: &JobMap<i64>) -> Result<(), Error> {
    let mut update = db.prepare_cached(UPDATE_JOB)?;
    for job in updated {
        let n = match numbers.get(&job.id) {
            Some(&n) => n,
            None => number(db, job.id)?,
        };
        let shelf = job.shelf();
        let (lane, name) = (shelf.as_ref().map(|shelf| shelf.lane as u8), shelf.as_ref());
        let (name, due_at) = (name.map(|shelf| shelf.name.as_str()), job.due_at().map(|due| due.as_micros()));
        let (state, body) = (job.state.as_u8(), job.encode());
        if job.head.fair.is_some() {
            let place = job.place().map(|place| place.to_bytes());
            let mut update = db.prepare_cached(UPDATE_PLACED_JOB)?;
            update.execute(params![n, state, lane, name, due_at, body, place])?;
        } else {
            update.execute(params![n, state, lane, name, due_at, body])?;
        }
    }
    Ok(())
}

fn number(db: &Connection, id: JobId) -> Result<i64, Error> {
    let mut statement = db.prepare_cached(NUMBER)?;
    let mut found = statement.query(params![id.to_bytes()])?;
    match found.next()? {
        Some(row) => Ok(row.get(0)?),
        None => Err(Error::new(Fault::Rejected, format!("job {id} does not exist"))),
    }
}

fn forget(db: &Connection, forgotten: &[Forgotten]) -> Result<(), Error> {
    for Forgotten { job, executions, client, at, kept } in forgotten {
        db.prepare_cached(DELETE_INPUT)?.execute(params![job.to_bytes()])?;
        db.prepare_cached(DELETE_JOB)?.execute(params![job.to_bytes()])?;
        logs::delete(db, *job)?;
        for execution in executions {
            for sql in [DELETE_EXECUTION, DELETE_OUTCOME, DELETE_ITEMS] {
                db.prepare_cached(sql)?.execute(params![execution.to_bytes()])?;
            }
            results::delete(db, *execution, *at)?;
            let kept = kept.map(|kept| kept.as_micros() as i64);
            let tombstone = params![execution.to_bytes(), client.to_bytes(), at.as_micros(), kept];
            db.prepare_cached(PUT_TOMBSTONE)?.execute(tombstone)?;
        }
    }
    Ok(())
}

/// What executions leave behind when they end, and the executions that a retry opens.
fn insert_ends(db: &Connection, changes: &Changes) -> Result<(), Error> {
    many(db, INSERT_OUTCOME, &changes.outcomes, |row, outcome| {
        row.put(outcome.execution.to_bytes())?;
        row.put(outcome.job.to_bytes())?;
        row.put(outcome.object.digest)?;
        row.put(outcome.object.bytes.as_slice())
    })?;
    results::insert(db, &changes.results)?;
    for (execution, ends) in &changes.items {
        db.prepare_cached(PUT_ITEMS)?.execute(params![execution.to_bytes(), encode_ends(ends)])?;
    }
    let mut insert_execution = db.prepare_cached(INSERT_EXECUTION)?;
    for (execution, job) in &changes.executions {
        insert_execution.execute(params![execution.to_bytes(), job.to_bytes()])?;
    }
    Ok(())
}

fn put_keys(
    db: &Connection,
    keys: &[(IdempotencyKey, KeyRow)],
    removed: &[IdempotencyKey],
) -> Result<(), Error> {
    // First these: a batch may forget a key and use it anew.
    let mut delete = db.prepare_cached(DELETE_KEY)?;
    for key in removed {
        delete.execute(params![key.client.to_bytes(), key.operation, key.key])?;
    }
    let mut put = db.prepare_cached(PUT_KEY)?;
    for (key, row) in keys {
        let jobs: Vec<u8> = row.jobs.iter().flat_map(|id| id.to_bytes()).collect();
        put.execute(params![key.client.to_bytes(), key.operation, key.key, row.fingerprint, jobs])?;
    }
    Ok(())
}

fn put_uniques(db: &Connection, changes: &Changes) -> Result<(), Error> {
    let mut put = db.prepare_cached(PUT_UNIQUE)?;
    for (key, job) in &changes.uniques {
        put.execute(params![key, job.to_bytes()])?;
    }
    let mut delete = db.prepare_cached(DELETE_UNIQUE)?;
    for (key, job) in &changes.uniques_removed {
        delete.execute(params![key, job.to_bytes()])?;
    }
    Ok(())
}

fn put_limits(db: &Connection, changes: &Changes) -> Result<(), Error> {
    for (key, limit) in &changes.limits {
        let limit = params![key.as_str(), limit.active, limit.turn_at.as_micros()];
        db.prepare_cached(PUT_LIMIT)?.execute(limit)?;
    }
    Ok(())
}

fn append(db: &Connection, journal: &[JournalEntry]) -> Result<(), Error> {
    if let Some(at) = journal.iter().map(JournalEntry::at).max() {
        let row = params![at.as_micros(), encode_entries(journal)];
        db.prepare_cached(APPEND)?.execute(row)?;
    }
    Ok(())
}
