//! Checks the configured store as a whole, without starting a server and without changing anything.

use std::path::PathBuf;

use forgerun_store::CheckReport;
use forgerun_store::postgres::Postgres;
use forgerun_store::sqlite::Sqlite;

use crate::Running;
use crate::config::{Config, Database};
use crate::serve::{ServeError, objects};

/// Checks every row of the configured store, and whether the rows agree with each other.
pub fn check(config: &Config) -> Running<'_, Result<CheckReport, ServeError>> {
    Box::pin(async {
        let objects = objects(&config.results).await.map_err(ServeError::Objects)?;
        let checked = match &config.server.database {
            Database::Memory => return Err(ServeError::NoStore(PathBuf::from("memory:"))),
            Database::Sqlite(path) if !path.exists() => return Err(ServeError::NoStore(path.clone())),
            Database::Sqlite(path) => Sqlite::check(path, objects.as_ref()).await,
            Database::Postgres(url) => Postgres::check(url.expose(), objects.as_ref()).await,
        };
        checked.map_err(ServeError::Store)
    })
}
