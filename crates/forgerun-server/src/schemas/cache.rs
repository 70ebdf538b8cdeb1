//! A cache of clients' schemas, so that submissions need no query.
//!
//! Changes on this node take effect at once; those on other nodes after [`SCHEMAS_FRESH`] at most.
//! The cache is bounded in bytes, per client and in total.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_core::schema::{SchemaEntry, SchemaIndex};
use forgerun_core::time::Time;
use forgerun_schema::SchemaDocument;
use tokio::sync::{AcquireError, Semaphore};

use super::{index, parsed, text};
use crate::app::App;
use crate::http::ApiError;
use crate::limits::{
    SCHEMA_CLIENTS_CACHED_MAX, SCHEMA_THREADS_MAX, SCHEMA_TURNS, SCHEMA_WAIT_MAX, SCHEMAS_CACHED_BYTES_MAX,
    SCHEMAS_CACHED_BYTES_PER_CLIENT_MAX, SCHEMAS_FRESH,
};

/// Schemas by client, and the threads for large validations.
pub struct SchemaCache {
    clients: Mutex<HashMap<ClientId, Arc<ClientSchemas>>>,
    /// Incremented whenever entries are dropped: schemas read from the store before are then not
    /// cached.
    epoch: AtomicU64,
    /// Total bytes of cached documents.
    n_bytes: Arc<AtomicUsize>,
    /// Threads for large validations. A request without a free thread waits for a while; only
    /// clients with schemas wait.
    threads: Arc<Semaphore>,
    /// One semaphore per group of clients: a client has one thread at a time, so other clients find
    /// one.
    turns: Vec<Arc<Semaphore>>,
}

impl Default for SchemaCache {
    fn default() -> Self {
        SchemaCache {
            clients: Mutex::default(),
            epoch: AtomicU64::default(),
            n_bytes: Arc::default(),
            threads: Arc::new(Semaphore::new(SCHEMA_THREADS_MAX)),
            turns: (0..SCHEMA_TURNS).map(|_| Arc::new(Semaphore::new(1))).collect(),
        }
    }
}

/// The schemas of a client at a moment.
pub struct ClientSchemas {
    read_at: Time,
    index: Option<SchemaIndex>,
    documents: Mutex<Documents>,
}

/// Documents by type and version.
type Documents = HashMap<(String, String), Arc<CachedDocument>>;

/// A document, counted while it is cached.
struct CachedDocument {
    document: Arc<SchemaDocument>,
    n_bytes_in_all: Arc<AtomicUsize>,
}

impl CachedDocument {
    fn new(document: &Arc<SchemaDocument>, n_bytes_in_all: &Arc<AtomicUsize>) -> CachedDocument {
        n_bytes_in_all.fetch_add(document.n_bytes(), Ordering::Relaxed);
        CachedDocument { document: Arc::clone(document), n_bytes_in_all: Arc::clone(n_bytes_in_all) }
    }
}

impl Drop for CachedDocument {
    fn drop(&mut self) {
        self.n_bytes_in_all.fetch_sub(self.document.n_bytes(), Ordering::Relaxed);
    }
}

/// Caches a document. If there are too many bytes, the client's other documents are dropped first.
/// it.
fn remember(documents: &mut Documents, key: (String, String), cached: CachedDocument) {
    let of_client: usize = documents.values().map(|known| known.document.n_bytes()).sum();
    if of_client + cached.document.n_bytes() > SCHEMAS_CACHED_BYTES_PER_CLIENT_MAX {
        documents.clear();
    }
    documents.insert(key, Arc::new(cached));
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl SchemaCache {
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

    /// Runs work on a separate thread, within the bounds. Refused if no thread becomes free within
    /// [`SCHEMA_WAIT_MAX`].
    pub(super) async fn apart<T: Send + 'static>(
        &self,
        client: ClientId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        self.apart_within(SCHEMA_WAIT_MAX, client, work).await
    }

    async fn apart_within<T: Send + 'static>(
        &self,
        wait_max: Duration,
        client: ClientId,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, ApiError> {
        let turn = &self.turns[(client.as_u128() % SCHEMA_TURNS as u128) as usize];
        let waiting = async {
            let turn = Arc::clone(turn).acquire_owned().await?;
            Ok((turn, Arc::clone(&self.threads).acquire_owned().await?))
        };
        let busy = "other jobs are still being checked by schemas; send this one again";
        let room = tokio::time::timeout(wait_max, waiting).await;
        let room = room.map_err(|_| ApiError::new(Kind::OperationTimeout, busy))?;
        let room = room.map_err(|error: AcquireError| ApiError::internal(Kind::Internal, error))?;
        // The work continues if its caller disconnects, so it keeps its permits until the end.
        let working = tokio::task::spawn_blocking(move || {
            let done = work();
            drop(room);
            done
        });
        working.await.map_err(|error| ApiError::internal(Kind::Internal, error))
    }

    /// Clears the cache if it has too many bytes.
    fn make_room(&self) {
        if self.n_bytes.load(Ordering::Relaxed) > SCHEMAS_CACHED_BYTES_MAX {
            locked(&self.clients).clear();
        }
    }

    /// Drops the schemas of a client, because they have changed.
    pub(super) fn forget(&self, client: ClientId) {
        let mut clients = locked(&self.clients);
        self.epoch.fetch_add(1, Ordering::Release);
        clients.remove(&client);
    }
}

impl ClientSchemas {
    /// `None` if there are none.
    pub fn index(&self) -> Option<&SchemaIndex> {
        self.index.as_ref()
    }

    fn is_fresh(&self, now: Time) -> bool {
        self.read_at <= now && now.since(self.read_at) < SCHEMAS_FRESH
    }

    fn revision(&self) -> Option<u64> {
        self.index.as_ref().map(|index| index.revision)
    }

    /// A document; `None` if it was deleted meanwhile, or this version cannot read it.
    pub async fn document(
        &self,
        app: &App,
        entry: &SchemaEntry,
    ) -> Result<Option<Arc<SchemaDocument>>, ApiError> {
        let Some(index) = &self.index else { return Ok(None) };
        let key = (entry.job_type.clone(), entry.version.clone());
        if let Some(known) = locked(&self.documents).get(&key) {
            return Ok(Some(Arc::clone(&known.document)));
        }
        let Some(text) = text(app, index.client, entry).await? else { return Ok(None) };
        let Ok(document) = parsed(app, index.client, text).await? else {
            tracing::warn!(job_type = entry.job_type, version = entry.version, "stored schema unreadable");
            return Ok(None);
        };
        let document = Arc::new(document);
        app.schemas.make_room();
        remember(&mut locked(&self.documents), key, CachedDocument::new(&document, &app.schemas.n_bytes));
        Ok(Some(document))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use super::*;

    #[tokio::test]
    async fn long_work_has_few_threads_and_the_rest_waits_for_one() {
        let cache = SchemaCache::default();
        let n_started = Arc::new(AtomicUsize::new(0));
        let (releases, busy): (Vec<_>, Vec<_>) = (0..SCHEMA_THREADS_MAX)
            .map(|n| {
                let ((release, released), n_started) = (sync_channel::<()>(1), n_started.clone());
                let work = move || {
                    n_started.fetch_add(1, Ordering::SeqCst);
                    released.recv().unwrap();
                };
                (release, cache.apart(ClientId::v4(n as u128), work))
            })
            .unzip();
        let late = cache.apart(ClientId::v4(SCHEMA_THREADS_MAX as u128), || ());
        let release = async {
            while n_started.load(Ordering::SeqCst) < SCHEMA_THREADS_MAX {
                tokio::task::yield_now().await;
            }
            assert_eq!(cache.threads.available_permits(), 0, "the late one waits");
            releases.iter().for_each(|release| release.send(()).unwrap());
        };
        let (busy, late, ()) = tokio::join!(futures_util::future::join_all(busy), late, release);
        assert!(busy.iter().all(Result::is_ok) && late.is_ok());
        assert_eq!(cache.threads.available_permits(), SCHEMA_THREADS_MAX);
    }

    #[tokio::test]
    async fn a_client_has_one_thread_and_what_waits_too_long_is_refused() {
        let cache = SchemaCache::default();
        let (client, other) = (ClientId::v4(1), ClientId::v4(2));
        let (release, released) = sync_channel::<()>(1);
        let busy = cache.apart(client, move || released.recv().unwrap());
        let second = async {
            let refused =
                cache.apart_within(Duration::ZERO, client, || ()).await.err().map(|error| error.kind());
            let others = cache.apart(other, || ()).await.is_ok();
            release.send(()).unwrap();
            (refused, others)
        };
        let (busy, second) = tokio::join!(busy, second);
        assert!(busy.is_ok());
        assert_eq!(second, (Some(Kind::OperationTimeout), true));
    }

    #[test]
    fn what_is_remembered_of_a_client_is_bounded_and_counted() {
        // The pattern is large, so the schema counts as two megabytes.
        let text = br#"{"pattern": "^[a-z]{9000}$"}"#;
        let document = Arc::new(SchemaDocument::parse(text).expect("a schema"));
        let in_all = Arc::new(AtomicUsize::new(0));
        let mut documents = Documents::new();
        for n in 0..200 {
            let cached = CachedDocument::new(&document, &in_all);
            remember(&mut documents, ("type".to_owned(), n.to_string()), cached);
            assert_eq!(in_all.load(Ordering::Relaxed), documents.len() * document.n_bytes());
            assert!(in_all.load(Ordering::Relaxed) <= SCHEMAS_CACHED_BYTES_PER_CLIENT_MAX);
        }
        drop(documents);
        assert_eq!(in_all.load(Ordering::Relaxed), 0);
    }
}
