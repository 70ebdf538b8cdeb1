//! The schema of the database, looked at or brought up to date without starting a server. For those
//! who want it done before the first server of a new version starts, or whose servers may not
//! change a schema.

use std::path::Path;

use forgerun_engine::StoreClock;
use forgerun_store::postgres::Postgres;
use forgerun_store::sqlite::Sqlite;
use forgerun_store::{Error, Fault, SchemaStatus};
use tokio::task::spawn_blocking;

use crate::Running;
use crate::config::{Config, Database};
use crate::serve::{ServeError, open_existing};

/// Which steps the schema of the configured database still needs. Changes nothing.
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

/// Applies what is missing, and gives the status from before that.
pub fn migrate(config: &Config) -> Running<'_, Result<SchemaStatus, ServeError>> {
    Box::pin(migrated(config))
}

async fn migrated(config: &Config) -> Result<SchemaStatus, ServeError> {
    let found = found(config).await?;
    if !found.pending.is_empty() {
        // Objects are of no concern here, and may be away.
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
