//! Brings the file's schema up to this version.
//!
//! The whole runs in one transaction that takes the write lock first: of several processes that start together one
//! applies the steps and the others, having waited, find nothing left to do.

use rusqlite::{Connection, Row, params};

use super::statements::statements;
use crate::Error;
use crate::migrations::{AppliedStep, Migration, SchemaStatus, pending};

/// Every step, oldest first. Only ever added to.
const ALL: &[Migration] = &[
    Migration::closing(1, "spine", include_str!("../../migrations/sqlite/0001_spine.sql")),
    Migration::closing(2, "items", include_str!("../../migrations/sqlite/0002_items.sql")),
    Migration::closing(3, "webhooks", include_str!("../../migrations/sqlite/0003_webhooks.sql")),
    Migration::closing(4, "results", include_str!("../../migrations/sqlite/0004_results.sql")),
    Migration::closing(
        5,
        "tombstones_kept",
        include_str!("../../migrations/sqlite/0005_tombstones_kept.sql"),
    ),
    Migration::closing(6, "clients_keyed", include_str!("../../migrations/sqlite/0006_clients_keyed.sql")),
    Migration::closing(7, "set_aside", include_str!("../../migrations/sqlite/0007_set_aside.sql")),
    Migration::closing(8, "list_filters", include_str!("../../migrations/sqlite/0008_list_filters.sql")),
    Migration::closing(9, "records", include_str!("../../migrations/sqlite/0009_records.sql")),
    Migration::closing(10, "failed", include_str!("../../migrations/sqlite/0010_failed.sql")),
    Migration::expanding(11, "objects", include_str!("../../migrations/sqlite/0011_objects.sql"), 10),
    Migration::expanding(12, "limits_idle", include_str!("../../migrations/sqlite/0012_limits_idle.sql"), 10),
    Migration::expanding(13, "workflows", include_str!("../../migrations/sqlite/0013_workflows.sql"), 10),
    Migration::expanding(14, "place", include_str!("../../migrations/sqlite/0014_place.sql"), 10),
    Migration::expanding(15, "logs", include_str!("../../migrations/sqlite/0015_logs.sql"), 10),
    Migration::expanding(16, "key_scopes", include_str!("../../migrations/sqlite/0016_key_scopes.sql"), 10),
    Migration::expanding(MARKS, "job_marks", include_str!("../../migrations/sqlite/0017_job_marks.sql"), 10),
];

/// The step after which jobs of before are marked.
const MARKS: u32 = 17;

const BEGIN: &str = "BEGIN IMMEDIATE";
const COMMIT: &str = "COMMIT";
const ROLLBACK: &str = "ROLLBACK";

/// `applied_at` is for people; nothing is decided by it, so the database may read its own clock.
const CREATE: &str = "
    CREATE TABLE IF NOT EXISTS schema_version (
        version    INTEGER PRIMARY KEY,
        name       TEXT    NOT NULL,
        checksum   INTEGER NOT NULL,
        applied_at TEXT    NOT NULL
    )
";

statements! {
    APPLIED = "
        SELECT version, checksum, compatible_from
        FROM schema_version
        ORDER BY version
    ";

    RECORD = "
        INSERT INTO schema_version (version, name, checksum, compatible_from, applied_at)
        VALUES (?1, ?2, ?3, ?4, datetime('now'))
    ";
}

const HAS_TABLE: &str = "
    SELECT count(*) > 0
    FROM sqlite_schema
    WHERE type = 'table' AND name = 'schema_version'
";

/// The first versions had no such column, and refused every step that they did not know.
const HAS_COMPATIBLE: &str = "
    SELECT count(*) > 0
    FROM pragma_table_info('schema_version')
    WHERE name = 'compatible_from'
";
const APPLIED_BEFORE_COMPATIBLE: &str = "
    SELECT version, checksum, NULL
    FROM schema_version
    ORDER BY version
";
const ADD_COMPATIBLE: &str = "ALTER TABLE schema_version ADD COLUMN compatible_from INTEGER";

/// Applies what is missing; refuses a schema that this program cannot work with, or does not know.
pub(super) fn migrate(connection: &Connection) -> Result<(), Error> {
    migrate_to(connection, ALL)
}

fn migrate_to(connection: &Connection, all: &[Migration]) -> Result<(), Error> {
    connection.execute_batch(BEGIN)?;
    let done = apply(connection, all).and_then(|()| Ok(connection.execute_batch(COMMIT)?));
    if done.is_err() && !connection.is_autocommit() {
        // The first error says what is wrong; the connection is dropped by the caller, which rolls back as well.
        let _ = connection.execute_batch(ROLLBACK);
    }
    done
}

/// What [`migrate`] would do. Changes nothing.
pub(super) fn status(connection: &Connection) -> Result<SchemaStatus, Error> {
    let applied = if is(connection, HAS_TABLE)? { applied(connection)? } else { Vec::new() };
    SchemaStatus::of(&applied, ALL)
}

fn is(connection: &Connection, question: &str) -> Result<bool, Error> {
    Ok(connection.query_row(question, [], |row| row.get(0))?)
}

/// The steps that the file has, in order.
fn applied(connection: &Connection) -> Result<Vec<AppliedStep>, Error> {
    let sql = if is(connection, HAS_COMPATIBLE)? { APPLIED } else { APPLIED_BEFORE_COMPATIBLE };
    let step = |row: &Row<'_>| {
        let checksum = row.get::<_, i64>(1)?.cast_unsigned();
        Ok(AppliedStep { version: row.get(0)?, checksum, compatible_from: row.get(2)? })
    };
    Ok(connection.prepare(sql)?.query_map([], step)?.collect::<Result<Vec<_>, _>>()?)
}

fn apply(connection: &Connection, all: &[Migration]) -> Result<(), Error> {
    connection.execute_batch(CREATE)?;
    let applied = applied(connection)?;
    let pending = pending(&applied, all)?;
    if !pending.is_empty() && !is(connection, HAS_COMPATIBLE)? {
        connection.execute_batch(ADD_COMPATIBLE)?;
    }
    if applied.len() > all.len() {
        let (version, known) = (applied.len(), all.len());
        tracing::warn!(version, known, "the schema is newer than this program, which can work with it");
    }
    for migration in pending {
        connection.execute_batch(migration.sql)?;
        if migration.version == MARKS {
            super::marks::mark_all(connection)?;
        }
        let Migration { version, name, compatible_from, .. } = migration;
        let checksum = migration.checksum().cast_signed();
        connection.execute(RECORD, params![version, name, checksum, compatible_from])?;
        tracing::info!(version, name, "schema migrated");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;
    use crate::migrations::checksum;

    /// Every step there is, and one more.
    fn and(name: &'static str, sql: &'static str) -> Vec<Migration> {
        let next = Migration::closing(ALL.len() as u32 + 1, name, sql);
        ALL.iter().copied().chain([next]).collect()
    }

    fn tables(connection: &Connection) -> i64 {
        let sql = "SELECT count(*) FROM sqlite_schema WHERE type = 'table'";
        connection.query_row(sql, [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_schema_is_migrated_once_and_then_left_alone() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection).unwrap();
        let before = tables(&connection);
        migrate(&connection).unwrap();
        assert_eq!(tables(&connection), before);
        migrate_to(&connection, &and("next", "CREATE TABLE next (x)")).unwrap();
        assert_eq!(tables(&connection), before + 1);
    }

    #[test]
    fn results_of_an_older_schema_come_through() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_to(&connection, &ALL[..1]).unwrap();
        let old =
            "INSERT INTO results (execution, media_type, bytes) VALUES (x'01', 'text/plain', x'616263')";
        connection.execute(old, []).unwrap();
        migrate(&connection).unwrap();
        let sql = "SELECT media_type, size, bytes, expires_at, removed FROM results WHERE execution = x'01'";
        let row: (String, i64, Vec<u8>, Option<i64>, i64) = connection
            .query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?, row.get(4)?)))
            .unwrap();
        assert_eq!(row, ("text/plain".into(), 3, b"abc".to_vec(), None, 0));
    }

    #[test]
    fn clients_of_an_older_schema_count_as_having_had_a_key() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_to(&connection, &ALL[..5]).unwrap();
        connection.execute("INSERT INTO clients (id, created_at) VALUES (x'01', 7)", []).unwrap();
        migrate(&connection).unwrap();
        let keyed: bool = connection.query_row("SELECT keyed FROM clients", [], |row| row.get(0)).unwrap();
        assert!(keyed);
    }

    #[test]
    fn a_newer_schema_is_refused_and_nothing_is_touched() {
        let connection = Connection::open_in_memory().unwrap();
        migrate_to(&connection, &and("next", "CREATE TABLE next (x)")).unwrap();
        let error = migrate(&connection).unwrap_err();
        assert_eq!(error.fault, Fault::TooNew);
        assert!(error.to_string().contains(&format!("version {}", ALL.len() + 1)), "{error}");
        assert!(connection.is_autocommit());
    }

    #[test]
    fn a_schema_that_a_newer_version_only_expanded_is_used_as_it_is() {
        let connection = Connection::open_in_memory().unwrap();
        let newest = ALL.len() as u32;
        let next = Migration::expanding(newest + 1, "next", "CREATE TABLE next (x)", newest);
        let all: Vec<Migration> = ALL.iter().copied().chain([next]).collect();
        migrate_to(&connection, &all).unwrap();
        let before = tables(&connection);
        migrate(&connection).unwrap();
        assert_eq!(tables(&connection), before);
        let status = status(&connection).unwrap();
        assert_eq!(status, SchemaStatus { applied: newest + 1, known: newest, pending: vec![] });
    }

    #[test]
    fn a_schema_from_before_steps_said_how_far_back_they_go_is_brought_up_to_date() {
        let connection = Connection::open_in_memory().unwrap();
        connection.execute_batch(CREATE).unwrap();
        let old = "INSERT INTO schema_version VALUES (?1, ?2, ?3, '2026-01-01 00:00:00')";
        for step in &ALL[..10] {
            connection.execute_batch(step.sql).unwrap();
            connection.execute(old, params![step.version, step.name, step.checksum().cast_signed()]).unwrap();
        }
        let missing = ALL[10..].iter().map(|step| (step.version, step.name)).collect::<Vec<_>>();
        assert_eq!(status(&connection).unwrap().pending, missing);
        migrate(&connection).unwrap();
        assert_eq!(status(&connection).unwrap().pending, []);
    }

    /// Releases, with how many steps they have and the fingerprint of these. Lines are only added (docs/internals/releasing.md).
    const RELEASES: [(&str, usize, u64); 1] = [("0.1.0", 11, 0x4cf1_2179_90f5_d05a)];

    #[test]
    fn steps_of_a_release_are_never_edited() {
        for (release, n_steps, expected) in RELEASES {
            assert_eq!(checksum(&ALL[..n_steps]), expected, "steps of {release} were changed");
        }
    }

    #[test]
    fn looking_at_a_schema_changes_nothing() {
        let connection = Connection::open_in_memory().unwrap();
        let all: Vec<_> = ALL.iter().map(|step| (step.version, step.name)).collect();
        assert_eq!(status(&connection).unwrap().pending, all);
        assert_eq!(tables(&connection), 0);
    }

    #[test]
    fn a_step_that_was_edited_after_it_was_applied_is_refused() {
        let connection = Connection::open_in_memory().unwrap();
        migrate(&connection).unwrap();
        connection.execute("UPDATE schema_version SET checksum = 1", []).unwrap();
        assert_eq!(migrate(&connection).unwrap_err().fault, Fault::Corrupt);
    }

    #[test]
    fn a_step_that_fails_leaves_nothing_behind() {
        let connection = Connection::open_in_memory().unwrap();
        let broken = and("broken", "CREATE TABLE half (x); CREATE TABLE half (x)");
        migrate_to(&connection, &broken).unwrap_err();
        assert_eq!(tables(&connection), 0);
        migrate(&connection).unwrap();
    }
}
