//! Finds or makes the empty store that `forgerun prove` breaks. Nothing that was there is touched.

use std::path::PathBuf;

use forgerun_cli::prove::EmptyStore;
use forgerun_engine::{Clock, SystemClock};
use forgerun_store::postgres::Postgres;

use crate::Running;
use crate::config::Database;

/// Why a store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum NotEmpty {
    #[error("{} is there already; name a file that is not there yet", .0.display())]
    File(PathBuf),
    #[error("a store in memory is lost with its first node; name sqlite:PATH or postgres://…")]
    Memory,
    #[error("could not make a database for the run: {0}")]
    Postgres(#[from] forgerun_store::Error),
}

/// A store for one run, and how to remove it.
pub struct ProveStore {
    /// The server's URL and the name of the database that was made there.
    made: Option<(String, String)>,
}

impl ProveStore {
    /// Prepares the store that the configuration names; `None` for a temporary one.
    pub fn prepare(database: Option<&Database>) -> Running<'_, Result<(ProveStore, EmptyStore), NotEmpty>> {
        Box::pin(async move {
            Ok(match database {
                None => (ProveStore { made: None }, EmptyStore::Temporary),
                Some(Database::Memory) => return Err(NotEmpty::Memory),
                Some(Database::Sqlite(path)) if path.exists() => return Err(NotEmpty::File(path.clone())),
                Some(Database::Sqlite(path)) => {
                    (ProveStore { made: None }, EmptyStore::Sqlite(format!("sqlite:{}", path.display())))
                }
                Some(Database::Postgres(url)) => {
                    let name = format!("forgerun_prove_{:016x}", SystemClock.random() as u64);
                    let url = url.expose().to_owned();
                    let beside = Postgres::make_beside(&url, &name).await?;
                    (ProveStore { made: Some((url, name)) }, EmptyStore::Postgres(beside))
                }
            })
        })
    }

    /// Removes the database that was made for the run.
    pub fn remove(self) -> Running<'static, Result<(), forgerun_store::Error>> {
        Box::pin(async move {
            match self.made {
                Some((url, name)) => Postgres::remove_beside(&url, &name).await,
                None => Ok(()),
            }
        })
    }
}
