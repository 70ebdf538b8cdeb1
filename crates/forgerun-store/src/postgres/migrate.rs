//! Brings the schema up to this version.
//!
//! Nodes that start together take turns under a session lock: the first applies what is missing, the others find nothing
//! left to do. Each step is one transaction, together with the row that says it was applied.

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Row};

use super::connect::NOTICE_PEER;
use super::fault;
use crate::migrations::{AppliedStep, Migration, SchemaStatus, pending};
use crate::{Error, Fault};

const MIGRATIONS: &[Migration] = &[
    Migration::closing(1, "spine", include_str!("../../migrations/postgres/0001_spine.sql")),
    Migration::closing(2, "items", include_str!("../../migrations/postgres/0002_items.sql")),
    Migration::closing(3, "journal_at", include_str!("../../migrations/postgres/0003_journal_at.sql")),
    Migration::closing(4, "webhooks", include_str!("../../migrations/postgres/0004_webhooks.sql")),
    Migration::closing(5, "results", include_str!("../../migrations/postgres/0005_results.sql")),
    Migration::closing(
        6,
        "tombstones_kept",
        include_str!("../../migrations/postgres/0006_tombstones_kept.sql"),
    ),
    Migration::closing(7, "clients_keyed", include_str!("../../migrations/postgres/0007_clients_keyed.sql")),
    Migration::closing(8, "set_aside", include_str!("../../migrations/postgres/0008_set_aside.sql")),
    Migration::closing(9, "list_filters", include_str!("../../migrations/postgres/0009_list_filters.sql")),
    Migration::closing(10, "records", include_str!("../../migrations/postgres/0010_records.sql")),
    Migration::closing(11, "failed", include_str!("../../migrations/postgres/0011_failed.sql")),
    Migration::expanding(12, "objects", include_str!("../../migrations/postgres/0012_objects.sql"), 11),
    Migration::expanding(13, "vacuum", include_str!("../../migrations/postgres/0013_vacuum.sql"), 11),
    Migration::expanding(
        14,
        "limits_idle",
        include_str!("../../migrations/postgres/0014_limits_idle.sql"),
        11,
    ),
    Migration::expanding(
        15,
        "journal_inline",
        include_str!("../../migrations/postgres/0015_journal_inline.sql"),
        11,
    ),
    Migration::expanding(16, "workflows", include_str!("../../migrations/postgres/0016_workflows.sql"), 11),
    Migration::expanding(17, "place", include_str!("../../migrations/postgres/0017_place.sql"), 11),
    Migration::expanding(18, "logs", include_str!("../../migrations/postgres/0018_logs.sql"), 11),
    Migration::expanding(19, "key_scopes", include_str!("../../migrations/postgres/0019_key_scopes.sql"), 11),
    Migration::expanding(
        MARKS,
        "job_marks",
        include_str!("../../migrations/postgres/0020_job_marks.sql"),
        11,
    ),
];

/// The step after which jobs of before are marked.
const MARKS: u32 = 20;

/// An arbitrary number, unlikely to be anybody else's.
const LOCK: &str = "SELECT pg_advisory_lock(7163394551093391920)";
const UNLOCK: &str = "SELECT pg_advisory_unlock(7163394551093391920)";

/// Looked up first, so that a role that may not create tables can still start on a finished schema.
const EXISTS: &str = "SELECT to_regclass('migrations') IS NOT NULL";
const CREATE: &str = "
    CREATE TABLE migrations (
        version    integer     NOT NULL PRIMARY KEY,
        name       text        NOT NULL,
        checksum   bigint      NOT NULL,
        applied_at timestamptz NOT NULL DEFAULT now()
    )";
/// The first versions had no such column, and refused every step that they did not know.
const HAS_COMPATIBLE: &str = "
    SELECT EXISTS (SELECT
                     FROM pg_attribute
                    WHERE attrelid = to_regclass('migrations') AND attname = 'compatible_from' AND NOT attisdropped)";
const ADD_COMPATIBLE: &str = "ALTER TABLE migrations ADD COLUMN compatible_from integer";
const APPLIED: &str = "SELECT version, checksum, compatible_from FROM migrations ORDER BY version";
const APPLIED_BEFORE_COMPATIBLE: &str =
    "SELECT version, checksum, NULL::integer FROM migrations ORDER BY version";
const RECORD: &str =
    "INSERT INTO migrations (version, name, checksum, compatible_from) VALUES ($1, $2, $3, $4)";

/// Waiting for another node's migration has an end; the steps themselves take as long as they take.
const SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = '10min'";

const SERVER: &str = "
    SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
           current_setting('server_encoding')";

/// PostgreSQL 15.
const SERVER_VERSION_MIN: i32 = 150_000;

/// Applies what is missing. Refuses a schema that this version cannot work with, or does not know.
pub(super) async fn migrate(client: &mut Client) -> Result<(), Error> {
    migrate_to(client, MIGRATIONS).await
}

async fn migrate_to(client: &mut Client, all: &[Migration]) -> Result<(), Error> {
    check_server(client).await?;
    client.batch_execute(&format!("{SETTINGS}; {NOTICE_PEER}")).await.map_err(fault::report)?;
    client.batch_execute(LOCK).await.map_err(fault::report)?;
    let result = apply(client, all).await;
    // If this fails the connection is gone, and the lock with it.
    let _ = client.batch_execute(UNLOCK).await;
    result
}

/// What `migrate` would do. Changes nothing.
pub(super) async fn status(client: &Client) -> Result<SchemaStatus, Error> {
    check_server(client).await?;
    SchemaStatus::of(&applied(client).await?, MIGRATIONS)
}

async fn check_server(client: &Client) -> Result<(), Error> {
    let row = client.query_one(SERVER, &[]).await.map_err(fault::report)?;
    let (version, encoding): (i32, String) = (row.get(0), row.get(2));
    if version < SERVER_VERSION_MIN {
        let text = format!("the server is PostgreSQL {}; it must be 15 or newer", row.get::<_, String>(1));
        return Err(Error::new(Fault::Unavailable, text));
    }
    if encoding != "UTF8" {
        let text = format!("the database has the encoding {encoding}; it must be created with UTF8");
        return Err(Error::new(Fault::Unavailable, text));
    }
    Ok(())
}

async fn is(client: &Client, question: &str) -> Result<bool, Error> {
    Ok(client.query_one(question, &[]).await.map_err(fault::report)?.get(0))
}

/// The steps that the database has, in order.
async fn applied(client: &Client) -> Result<Vec<AppliedStep>, Error> {
    if !is(client, EXISTS).await? {
        return Ok(Vec::new());
    }
    let sql = if is(client, HAS_COMPATIBLE).await? { APPLIED } else { APPLIED_BEFORE_COMPATIBLE };
    let rows = client.query(sql, &[]).await.map_err(fault::report)?;
    let step = |row: &Row| AppliedStep {
        version: row.get::<_, i32>(0) as u32,
        checksum: row.get::<_, i64>(1) as u64,
        compatible_from: row.get::<_, Option<i32>>(2).map(|version| version as u32),
    };
    Ok(rows.iter().map(step).collect())
}

async fn apply(client: &mut Client, all: &[Migration]) -> Result<(), Error> {
    if !is(client, EXISTS).await? {
        client.batch_execute(CREATE).await.map_err(fault::report)?;
    }
    let applied = applied(client).await?;
    let pending = pending(&applied, all)?;
    if !pending.is_empty() && !is(client, HAS_COMPATIBLE).await? {
        client.batch_execute(ADD_COMPATIBLE).await.map_err(fault::report)?;
    }
    if applied.len() > all.len() {
        tracing::warn!(
            version = applied.len(),
            known = all.len(),
            "the schema is newer than this program, which can work with it"
        );
    }
    for migration in pending {
        let transaction = client.transaction().await.map_err(fault::report)?;
        transaction.batch_execute(migration.sql).await.map_err(fault::report)?;
        if migration.version == MARKS {
            super::marks::mark_all(&transaction).await?;
        }
        let (version, compatible_from) = (migration.version as i32, migration.compatible_from as i32);
        let checksum = migration.checksum() as i64;
        let row: [&(dyn ToSql + Sync); 4] = [&version, &migration.name, &checksum, &compatible_from];
        transaction.execute(RECORD, &row).await.map_err(fault::report)?;
        transaction.commit().await.map_err(fault::report)?;
        tracing::info!(version, name = migration.name, "applied a migration");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::migrations::checksum;

    /// Releases, with how many steps they have and the fingerprint of these. Lines are only added (docs/internals/releasing.md).
    const RELEASES: [(&str, usize, u64); 1] = [("0.1.0", 13, 0xc49f_1839_2037_dafe)];

    #[test]
    fn steps_of_a_release_are_never_edited() {
        for (release, n_steps, expected) in RELEASES {
            assert_eq!(checksum(&MIGRATIONS[..n_steps]), expected, "steps of {release} were changed");
        }
    }
}
