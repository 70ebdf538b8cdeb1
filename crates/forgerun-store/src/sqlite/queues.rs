//! What is counted per queue: where its jobs stand, and what happened in it within each minute.

use std::collections::BTreeMap;

use forgerun_core::Changes;
use forgerun_core::job::Name;
use forgerun_core::queue::QueueId;
use forgerun_core::rows::{Activity, Counts, Minute};
use rusqlite::{Connection, Row, params};

use super::read::{all, first};
use super::statements::statements;
use super::{cells, operator};
use crate::{Error, QueueCounts};

statements! {
    COUNTS = "
        SELECT created, queued, assigned, running, succeeded, failed, canceled, held, waiting, expired
        FROM counts
        WHERE queue = ?1
    ";

    /// The queues whose keys begin with something: from it on, up to what follows all of them.
    ALL_COUNTS = "
        SELECT queue, created, queued, assigned, running, succeeded, failed, canceled, held, waiting, expired
        FROM counts
        WHERE queue > ?1 AND queue < ?2
        ORDER BY queue
    ";

    ADD_COUNTS = "
        INSERT INTO counts (queue, created, queued, assigned, running, succeeded, failed, canceled, held, waiting, expired)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
        ON CONFLICT (queue) DO UPDATE SET
            created   = created   + excluded.created,
            queued    = queued    + excluded.queued,
            assigned  = assigned  + excluded.assigned,
            running   = running   + excluded.running,
            succeeded = succeeded + excluded.succeeded,
            failed    = failed    + excluded.failed,
            canceled  = canceled  + excluded.canceled,
            held      = held      + excluded.held,
            waiting   = waiting   + excluded.waiting,
            expired   = expired   + excluded.expired
    ";

    /// Clients choose the names of queues: a queue without jobs leaves nothing behind.
    DELETE_EMPTY = "
        DELETE FROM counts
        WHERE queue = ?1
            AND created = 0 AND queued = 0 AND assigned = 0 AND running = 0 AND succeeded = 0
            AND failed = 0 AND canceled = 0 AND held = 0 AND waiting = 0 AND expired = 0
    ";

    ADD_ACTIVITY = "
        INSERT INTO activity (queue, minute, submitted, started, succeeded, failed, waited_ms, ran_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
        ON CONFLICT (queue, minute) DO UPDATE SET
            submitted = submitted + excluded.submitted,
            started   = started   + excluded.started,
            succeeded = succeeded + excluded.succeeded,
            failed    = failed    + excluded.failed,
            waited_ms = waited_ms + excluded.waited_ms,
            ran_ms    = ran_ms    + excluded.ran_ms
    ";

    ACTIVITY = "
        SELECT coalesce(sum(submitted), 0), coalesce(sum(started), 0), coalesce(sum(succeeded), 0),
            coalesce(sum(failed), 0), coalesce(sum(waited_ms), 0), coalesce(sum(ran_ms), 0)
        FROM activity
        WHERE queue = ?1 AND minute >= ?2
    ";

    SWEEP_ACTIVITY = "
        DELETE FROM activity
        WHERE minute < ?1
    ";
}

/// The name under which the counts of all queues that everybody shares stand together.
pub(super) const ALL_SHARED: &str = "";

/// The counts of one queue, by its key.
pub(super) fn counts(db: &Connection, queue: &str) -> Result<Counts, Error> {
    Ok(first(db, COUNTS, params![queue], |row| cells::counts(row, 0))?.unwrap_or_default())
}

/// The counts of all queues whose keys begin with `prefix`.
pub(super) fn all_counts(db: &Connection, prefix: &str) -> Result<Vec<QueueCounts>, Error> {
    // No key has a character behind this one.
    let end = format!("{prefix}\u{10ffff}");
    let mut queues = all(db, ALL_COUNTS, params![prefix, end], |row| {
        Ok(QueueCounts { queue: cells::name(row, 0)?, counts: cells::counts(row, 1)? })
    })?;
    queues.retain(|queue| !queue.counts.is_zero());
    Ok(queues)
}

/// What happened in a queue since a minute.
pub(super) fn activity(db: &Connection, queue: &Name, since: Minute) -> Result<Activity, Error> {
    let read = |row: &Row<'_>| operator::activity(row, 0);
    Ok(first(db, ACTIVITY, params![queue.as_str(), since.0], read)?.unwrap_or_default())
}

/// Adds what a batch changed.
pub(super) fn write(db: &Connection, changes: &Changes) -> Result<(), Error> {
    add_counts(db, &changes.counts)?;
    for ((queue, minute), activity) in &changes.activity {
        let [submitted, started, succeeded, failed, waited_ms, ran_ms] = activity.to_array();
        let row = params![queue.as_str(), minute.0, submitted, started, succeeded, failed, waited_ms, ran_ms];
        db.prepare_cached(ADD_ACTIVITY)?.execute(row)?;
    }
    if !changes.forgotten.is_empty() {
        for queue in changes.counts.keys() {
            db.prepare_cached(DELETE_EMPTY)?.execute(params![queue.as_str()])?;
        }
    }
    Ok(())
}

fn add_counts(db: &Connection, counts: &BTreeMap<Name, Counts>) -> Result<(), Error> {
    let mut sum = Counts::default();
    let mut add = db.prepare_cached(ADD_COUNTS)?;
    let mut add = |queue: &str, counts: &Counts| {
        let [created, queued, assigned, running, succeeded, failed, canceled, held, waiting, expired] =
            counts.0;
        add.execute(params![
            queue, created, queued, assigned, running, succeeded, failed, canceled, held, waiting, expired
        ])
    };
    for (queue, counts) in counts {
        add(queue.as_str(), counts)?;
        if QueueId::is_shared(queue) {
            sum.merge(counts);
        }
    }
    if !sum.is_zero() {
        add(ALL_SHARED, &sum)?;
    }
    Ok(())
}

/// Deletes the figures of minutes that are over for long.
pub(super) fn sweep(db: &Connection, before: Minute) -> Result<usize, Error> {
    Ok(db.prepare_cached(SWEEP_ACTIVITY)?.execute(params![before.0])?)
}
