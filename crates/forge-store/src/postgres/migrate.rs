//! Brings the schema up to this version.
//!
//! Nodes that start together take turns under a session lock: the first applies what is missing, the others find nothing
//! left to do. Each step is one transaction, together with the row that says it was applied.

use tokio_postgres::Client;

use super::fault;
use crate::migrations::{Migration, pending};
use crate::{Error, Fault};

const MIGRATIONS: &[Migration] = &[
    Migration { version: 1, name: "spine", sql: include_str!("../../migrations/postgres/0001_spine.sql") },
    Migration { version: 2, name: "items", sql: include_str!("../../migrations/postgres/0002_items.sql") },
    Migration {
        version: 3,
        name: "journal_at",
        sql: include_str!("../../migrations/postgres/0003_journal_at.sql"),
    },
    Migration {
        version: 4,
        name: "webhooks",
        sql: include_str!("../../migrations/postgres/0004_webhooks.sql"),
    },
    Migration {
        version: 5,
        name: "results",
        sql: include_str!("../../migrations/postgres/0005_results.sql"),
    },
    Migration {
        version: 6,
        name: "tombstones_kept",
        sql: include_str!("../../migrations/postgres/0006_tombstones_kept.sql"),
    },
    Migration {
        version: 7,
        name: "clients_keyed",
        sql: include_str!("../../migrations/postgres/0007_clients_keyed.sql"),
    },
    Migration {
        version: 8,
        name: "set_aside",
        sql: include_str!("../../migrations/postgres/0008_set_aside.sql"),
    },
    Migration {
        version: 9,
        name: "list_filters",
        sql: include_str!("../../migrations/postgres/0009_list_filters.sql"),
    },
    Migration {
        version: 10,
        name: "records",
        sql: include_str!("../../migrations/postgres/0010_records.sql"),
    },
];

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
const APPLIED: &str = "SELECT version, checksum FROM migrations ORDER BY version";
const RECORD: &str = "INSERT INTO migrations (version, name, checksum) VALUES ($1, $2, $3)";

/// Waiting for another node's migration has an end; the steps themselves take as long as they take.
const SETTINGS: &str = "SET statement_timeout = 0; SET lock_timeout = '10min'";

const SERVER: &str = "
    SELECT current_setting('server_version_num')::integer, current_setting('server_version'),
           current_setting('server_encoding')";

/// PostgreSQL 15.
const SERVER_VERSION_MIN: i32 = 150_000;

/// Applies what is missing. Refuses a schema that is newer, or not the one this version knows.
pub(super) async fn migrate(client: &mut Client) -> Result<(), Error> {
    check_server(client).await?;
    client.batch_execute(SETTINGS).await.map_err(fault::report)?;
    client.batch_execute(LOCK).await.map_err(fault::report)?;
    let result = apply(client).await;
    // If this fails the connection is gone, and the lock with it.
    let _ = client.batch_execute(UNLOCK).await;
    result
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

async fn apply(client: &mut Client) -> Result<(), Error> {
    let exists: bool = client.query_one(EXISTS, &[]).await.map_err(fault::report)?.get(0);
    if !exists {
        client.batch_execute(CREATE).await.map_err(fault::report)?;
    }
    let rows = client.query(APPLIED, &[]).await.map_err(fault::report)?;
    let applied: Vec<(u32, u64)> =
        rows.iter().map(|row| (row.get::<_, i32>(0) as u32, row.get::<_, i64>(1) as u64)).collect();
    for migration in pending(&applied, MIGRATIONS)? {
        let transaction = client.transaction().await.map_err(fault::report)?;
        transaction.batch_execute(migration.sql).await.map_err(fault::report)?;
        let (version, checksum) = (migration.version as i32, migration.checksum() as i64);
        transaction.execute(RECORD, &[&version, &migration.name, &checksum]).await.map_err(fault::report)?;
        transaction.commit().await.map_err(fault::report)?;
        tracing::info!(version, name = migration.name, "applied a migration");
    }
    Ok(())
}
