//! The schemas of clients, remembered for a moment each, so that a submission asks no store.
//!
//! What is registered or deleted on this node counts at once; what another node does, after [`SCHEMAS_FRESH`] at most.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_core::id::ClientId;
use forge_core::schema::{SchemaEntry, SchemaIndex};
use forge_core::time::Time;

use super::{SchemaDocument, index, text};
use crate::app::App;
use crate::edge::ApiError;
use crate::limits::{SCHEMA_CLIENTS_CACHED_MAX, SCHEMAS_FRESH};

/// Schemas by client.
#[derive(Default)]
pub struct SchemaCache {
    clients: Mutex<HashMap<ClientId, Arc<ClientSchemas>>>,
    /// Grows whenever something is forgotten: what was read from the store before is then not remembered.
    epoch: AtomicU64,
}

/// The schemas of a client, as they were at a moment.
pub struct ClientSchemas {
    read_at: Time,
    index: Option<SchemaIndex>,
    /// Those that were used, by type and version.
    documents: Mutex<HashMap<(String, String), Arc<SchemaDocument>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SchemaCache {
    /// The schemas of a client.
    pub async fn of(&self, app: &App, client: ClientId) -> Result<Arc<ClientSchemas>, ApiError> {
        let now = app.clock.now();
        let known = locked(&self.clients).get(&client).cloned();
        if let Some(known) = known.as_ref().filter(|known| known.is_fresh(now)) {
            return Ok(Arc::clone(known));
        }
        let epoch = self.epoch.load(Ordering::Acquire);
        let index = Some(index(app, client).await?).filter(|index| !index.entries.is_empty());
        let same = known.filter(|known| known.revision() == index.as_ref().map(|index| index.revision));
        let documents = same.map(|known| locked(&known.documents).clone()).unwrap_or_default();
        let found = Arc::new(ClientSchemas { read_at: now, index, documents: Mutex::new(documents) });
        let mut clients = locked(&self.clients);
        if self.epoch.load(Ordering::Acquire) == epoch {
            if clients.len() >= SCHEMA_CLIENTS_CACHED_MAX {
                clients.clear();
            }
            clients.insert(client, Arc::clone(&found));
        }
        Ok(found)
    }

    /// Forgets what a client has, because it has just changed.
    pub(super) fn forget(&self, client: ClientId) {
        let mut clients = locked(&self.clients);
        self.epoch.fetch_add(1, Ordering::Release);
        clients.remove(&client);
    }
}

impl ClientSchemas {
    /// What there is; `None` if nothing.
    pub fn index(&self) -> Option<&SchemaIndex> {
        self.index.as_ref()
    }

    fn is_fresh(&self, now: Time) -> bool {
        self.read_at <= now && now.since(self.read_at) < SCHEMAS_FRESH
    }

    fn revision(&self) -> Option<u64> {
        self.index.as_ref().map(|index| index.revision)
    }

    /// One of them; `None` if it was deleted meanwhile, or cannot be read by this version of the server.
    pub async fn document(
        &self,
        app: &App,
        entry: &SchemaEntry,
    ) -> Result<Option<Arc<SchemaDocument>>, ApiError> {
        let Some(index) = &self.index else { return Ok(None) };
        let key = (entry.job_type.clone(), entry.version.clone());
        if let Some(known) = locked(&self.documents).get(&key) {
            return Ok(Some(Arc::clone(known)));
        }
        let Some(text) = text(app, index.client, entry).await? else { return Ok(None) };
        let Ok(document) = SchemaDocument::parse(&text) else {
            tracing::warn!(
                job_type = entry.job_type,
                version = entry.version,
                "a schema cannot be read any more"
            );
            return Ok(None);
        };
        let document = Arc::new(document);
        locked(&self.documents).insert(key, Arc::clone(&document));
        Ok(Some(document))
    }
}
