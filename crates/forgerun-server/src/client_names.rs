//! Client names, for views that show the client of each row.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use forgerun_core::client::ClientName;
use forgerun_core::id::ClientId;
use forgerun_core::time::Time;

use crate::app::App;
use crate::http::ApiError;
use crate::limits::{CLIENT_NAMES_FOR, CLIENT_NAMES_MAX};

/// Recently read names; another node may have changed one since.
#[derive(Debug, Default)]
pub struct ClientNames {
    read: Mutex<HashMap<ClientId, (Option<String>, Time)>>,
}

impl ClientNames {
    fn read(&self) -> MutexGuard<'_, HashMap<ClientId, (Option<String>, Time)>> {
        self.read.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Stores a name as of `now`.
    pub fn put(&self, client: ClientId, name: Option<String>, now: Time) {
        let mut read = self.read();
        if read.len() >= CLIENT_NAMES_MAX {
            read.clear();
        }
        read.insert(client, (name, now));
    }

    pub async fn get(&self, app: &App, client: ClientId) -> Result<Option<String>, ApiError> {
        let now = app.clock.now();
        let known = self.read().get(&client).filter(|(_, at)| now.since(*at) < CLIENT_NAMES_FOR).cloned();
        if let Some((name, _)) = known {
            return Ok(name);
        }
        let record: Option<ClientName> = app.engine.store().record(client.to_string()).await?;
        let name = record.and_then(|record| record.name);
        self.put(client, name.clone(), now);
        Ok(name)
    }

    /// Sets the client names of rows.
    pub async fn fill<'a>(
        &self,
        app: &App,
        rows: impl Iterator<Item = (&'a String, &'a mut Option<String>)>,
    ) -> Result<(), ApiError> {
        for (client, name) in rows {
            if let Ok(client) = client.parse() {
                *name = self.get(app, client).await?;
            }
        }
        Ok(())
    }
}
