//! Checks or upgrades the schema of the database without starting a server: before the first server
//! of a new version starts, or if servers may not change the schema.

use std::path::Path;

use forgerun_engine::StoreClock;
use forgerun_store::postgres::Postgres;
use forgerun_store::sqlite::Sqlite;
use forgerun_store::{Error, Fault, SchemaStatus};
use tokio::task::spawn_blocking;

use crate::Running;
use crate::config::{Config, Database};
use crate::serve::{ServeError, open_existing};

/// The missing steps of the configured database. Changes nothing.
pub fn schema(config: &Config) -> Running<'_, Result<SchemaStatus, ServeError>> {
    Box::pin(found(config))
}

async fn found(config: &Config) -> Result<SchemaStatus, ServeError> {
    match &config.server.database {
        Database::Memory => Ok(SchemaStatus { applied: 0, known: 0, pending: Vec::new() }),
        Database::Sqlite(path) if !path.exists() => Err(ServeError::NoStore(path.clone())),
        Database::Sqlite(path) => of_file(path).await.map_err(ServeError::Store),
        Database::Postgres(url) => Postgres::schema(url.expose()).await.map_err(ServeError::Store),
    }
}

/// Applies the missing steps, and returns the status before.
pub fn migrate(config: &Config) -> Running<'_, Result<SchemaStatus, ServeError>> {
    Box::pin(migrated(config))
}

async fn migrated(config: &Config) -> Result<SchemaStatus, ServeError> {
    let found = found(config).await?;
    if !found.pending.is_empty() {
        // The object store is not needed, and may be down.
        let mut config = config.clone();
        config.results.store = None;
        drop(open_existing(&config, &StoreClock::default()).await?);
    }
    Ok(found)
}

async fn of_file(path: &Path) -> Result<SchemaStatus, Error> {
    let path = path.to_owned();
    let found = spawn_blocking(move || Sqlite::schema(&path)).await;
    found.map_err(|error| Error::new(Fault::Unavailable, error))?
}
