//! Encryption at rest: a store around any other, which seals contents on their way in and opens them on their way out. The
//! rules and the stores know nothing of it.
//!
//! | file | about |
//! |---|---|
//! | `keys.rs` | keys, and the form of sealed bytes |
//! | `contents.rs` | which parts of a row are contents |
//! | `digests.rs` | digests that stay comparable |
//! | `batch.rs` | batches: what they ask for, see and write |
//! | `pages.rs` | answers to questions |
//! | `blobs.rs` | large results |
//! | `renew.rs` | sealing anew what older keys sealed, or none |

mod batch;
mod blobs;
mod contents;
mod digests;
mod keys;
mod pages;
mod renew;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forgerun_core::log::LogBatch;
use forgerun_core::record::{Record, RecordChange, RecordKey, RecordKind};
use forgerun_core::time::Time;
use forgerun_core::{Changes, Wants};
use tokio::sync::broadcast;

use digests::DigestKey;
use keys::Subject;
pub use keys::{KEY_BYTES, KeyRing};
use pages::About;
pub use renew::Renewed;

use crate::query::page;
use crate::{Blobs, Boxed, Decide, Error, Fault, Page, Query, Store, Sweep, Swept, Wakeup};

/// A store whose contents are encrypted.
pub struct SealedStore {
    inner: Arc<dyn Store>,
    seals: Arc<Seals>,
}

struct Seals {
    ring: KeyRing,
    digests: DigestKey,
}

/// Key of the record that holds the key of the digests, sealed. A store that has it is encrypted.
const STATE: &str = "digests";

impl SealedStore {
    /// Wraps a store: with keys, or if it was encrypted before. Otherwise it is returned as it is.
    pub async fn around(inner: Arc<dyn Store>, ring: KeyRing) -> Result<Arc<dyn Store>, Error> {
        match digest_key(&*inner, &ring).await? {
            Some(digests) => Ok(Arc::new(SealedStore { inner, seals: Arc::new(Seals { ring, digests }) })),
            None => Ok(inner),
        }
    }

    /// Seals with the first key all contents of a store that are not sealed with it. Other processes may work with the store
    /// meanwhile. Stopped in between, another call goes on. `clock` returns the time.
    pub async fn renew(
        inner: Arc<dyn Store>,
        ring: KeyRing,
        clock: &(dyn Fn() -> Time + Sync),
    ) -> Result<Renewed, Error> {
        let Some(digests) = digest_key(&*inner, &ring).await? else { return Ok(Renewed::default()) };
        let store = SealedStore { inner, seals: Arc::new(Seals { ring, digests }) };
        renew::Renewal::of(&store, clock).run().await
    }
}

fn state_key() -> RecordKey {
    RecordKey { kind: RecordKind::Encryption, key: STATE.into() }
}

async fn state(store: &dyn Store) -> Result<Option<Record>, Error> {
    page!(store, Query::Record(state_key()), Record)
}

/// The key of the store's digests, made if it is the first. `None` for a store that is not encrypted.
async fn digest_key(store: &dyn Store, ring: &KeyRing) -> Result<Option<DigestKey>, Error> {
    let mut found = state(store).await?;
    if found.is_none() && ring.seals() {
        write_state(store, ring, DigestKey::random().secret(), None).await?;
        found = state(store).await?;
    }
    let Some(record) = found else { return Ok(None) };
    let opened = ring.open(Subject::Record, STATE.as_bytes(), &record.bytes);
    let secret = opened.map(|clear| clear.and_then(|clear| <[u8; 32]>::try_from(clear).ok()));
    match secret {
        Ok(Some(secret)) => Ok(Some(DigestKey::new(secret))),
        Ok(None) => Err(Error::new(Fault::Corrupt, "the record of the store's encryption is damaged")),
        Err(error) => {
            tracing::error!(%error, "the store is encrypted with a key that is not configured: its contents cannot be read");
            Ok(Some(DigestKey::of_missing(ring)))
        }
    }
}

/// Writes the key of the digests, unless another node did meanwhile.
async fn write_state(
    store: &dyn Store,
    ring: &KeyRing,
    secret: &[u8; 32],
    seen: Option<u64>,
) -> Result<(), Error> {
    let bytes = ring.seal(Subject::Record, STATE.as_bytes(), secret);
    let version = u64::from_be_bytes(keys::random());
    let record = Record { key: state_key(), group: String::new(), due_at: None, version, bytes };
    let wants = Wants { records: [state_key()].into(), ..Wants::default() };
    let decide: Decide = Box::new(move |rows| {
        let mut changes = Changes::default();
        if rows.records.get(&state_key()).map(|record| record.version) == seen {
            changes.records.insert(state_key(), RecordChange { seen, new: Some(record.clone()) });
        }
        changes
    });
    store.transact(wants, decide).await.map(drop)
}

/// What a panic of the rules left behind is overwritten.
fn locked(changes: &Mutex<Changes>) -> MutexGuard<'_, Changes> {
    changes.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for SealedStore {
    fn transact(&self, mut wants: Wants, mut decide: Decide) -> Boxed<'_, Changes> {
        let wishes = self.seals.hide_wishes(&mut wants);
        let seals = self.seals.clone();
        let clear: Arc<Mutex<Changes>> = Arc::default();
        let decided = clear.clone();
        let decide: Decide = Box::new(move |mut rows| {
            let unopened = seals.open_rows(&wishes, &mut rows);
            let mut changes = decide(rows);
            let answers = std::mem::take(&mut changes.answers);
            *locked(&decided) = Changes { answers, ..changes.clone() };
            seals.seal_changes(&wishes, unopened, &mut changes);
            changes
        });
        Box::pin(async move {
            self.inner.transact(wants, decide).await?;
            Ok(std::mem::take(&mut *locked(&clear)))
        })
    }

    fn read(&self, query: Query) -> Boxed<'_, Page> {
        let about = match &query {
            Query::Result(execution) | Query::Items(execution) => About::Execution(*execution),
            Query::Logs(logs) => About::Job(logs.job),
            Query::Webhook(_) => About::Webhook,
            _ => About::Anything,
        };
        Box::pin(async move { self.seals.open_page(about, self.inner.read(query).await?) })
    }

    fn append_logs(&self, mut batches: Vec<LogBatch>, bytes_max: u64) -> Boxed<'_, Vec<Option<u64>>> {
        if self.seals.ring.seals() {
            for batch in &mut batches {
                batch.content = self.seals.ring.seal(Subject::Log, &batch.job.to_bytes(), &batch.content);
            }
        }
        self.inner.append_logs(batches, bytes_max)
    }

    fn blobs(&self) -> &dyn Blobs {
        self
    }

    fn sweep(&self, sweep: Sweep) -> Boxed<'_, Swept> {
        self.inner.sweep(sweep)
    }

    fn wakeups(&self) -> broadcast::Receiver<Wakeup> {
        self.inner.wakeups()
    }

    fn lanes(&self) -> usize {
        self.inner.lanes()
    }

    fn blocks(&self) -> bool {
        self.inner.blocks()
    }

    fn now(&self) -> Boxed<'_, Option<Time>> {
        self.inner.now()
    }

    fn damage(&self) -> Option<&str> {
        self.inner.damage()
    }

    fn is_shared(&self) -> bool {
        self.inner.is_shared()
    }
}
