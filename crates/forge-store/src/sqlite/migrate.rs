//! Brings the file's schema up to this version.
//!
//! The whole runs in one transaction that takes the write lock first: of several processes that start together one
//! applies the steps and the others, having waited, find nothing left to do.

use rusqlite::{Connection, params};

use super::statements::statements;
use crate::Error;
use crate::migrations::{Migration, pending};

/// Every step, oldest first. Only ever added to.
const ALL: &[Migration] = &[
    Migration { version: 1, name: "spine", sql: include_str!("../../migrations/sqlite/0001_spine.sql") },
    Migration { version: 2, name: "items", sql: include_str!("../../migrations/sqlite/0002_items.sql") },
    Migration {
        version: 3,
        name: "webhooks",
        sql: include_str!("../../migrations/sqlite/0003_webhooks.sql"),
    },
    Migration { version: 4, name: "results", sql: include_str!("../../migrations/sqlite/0004_results.sql") },
    Migration {
        version: 5,
        name: "tombstones_kept",
        sql: include_str!("../../migrations/sqlite/0005_tombstones_kept.sql"),
    },
    Migration {
        version: 6,
        name: "clients_keyed",
        sql: include_str!("../../migrations/sqlite/0006_clients_keyed.sql"),
    },
    Migration {
        version: 7,
        name: "set_aside",
        sql: include_str!("../../migrations/sqlite/0007_set_aside.sql"),
    },
    Migration {
        version: 8,
        name: "list_filters",
        sql: include_str!("../../migrations/sqlite/0008_list_filters.sql"),
    },
    Migration { version: 9, name: "records", sql: include_str!("../../migrations/sqlite/0009_records.sql") },
];

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
        SELECT version, checksum
        FROM schema_version
        ORDER BY version
    ";

    RECORD = "
        INSERT INTO schema_version (version, name, checksum, applied_at)
        VALUES (?1, ?2, ?3, datetime('now'))
    ";
}

/// Applies what is missing; refuses a schema that is newer than this program or not the one it knows.
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

fn apply(connection: &Connection, all: &[Migration]) -> Result<(), Error> {
    connection.execute_batch(CREATE)?;
    let applied = connection
        .prepare(APPLIED)?
        .query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned())))?
        .collect::<Result<Vec<_>, _>>()?;
    for migration in pending(&applied, all)? {
        connection.execute_batch(migration.sql)?;
        let checksum = migration.checksum().cast_signed();
        connection.execute(RECORD, params![migration.version, migration.name, checksum])?;
        tracing::info!(version = migration.version, name = migration.name, "schema migrated");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Fault;

    /// Every step there is, and one more.
    fn and(name: &'static str, sql: &'static str) -> Vec<Migration> {
        let next = Migration { version: ALL.len() as u32 + 1, name, sql };
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
