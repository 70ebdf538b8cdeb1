//! The memory store passes the suite that every store must pass.
#![cfg(all(feature = "encryption", feature = "testing"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use forgerun_core::set_aside::RowId;
use forgerun_store::Store;
use forgerun_store::conformance::{Fixture, sealed_suite, suite};
use forgerun_store::memory::Memory;
use forgerun_store::sealed::{KEY_BYTES, KeyRing, SealedStore};

/// Memory does not outlive its process, so every node and every start has the same object.
struct Shared {
    memory: Arc<Memory>,
    /// Around it, if encrypted.
    store: Arc<dyn Store>,
}

impl Fixture for Shared {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn second(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(async { self.store() })
    }

    fn damage(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.memory.damage(row);
        Box::pin(async {})
    }

    fn mend(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.memory.mend(row);
        Box::pin(async {})
    }
}

async fn shared() -> Shared {
    let memory = Arc::new(Memory::new());
    Shared { store: memory.clone(), memory }
}

suite!(shared);
sealed_suite!(shared);

/// The same with encryption.
mod encrypted {
    use super::*;

    async fn shared() -> Shared {
        let memory = Arc::new(Memory::new());
        let ring = KeyRing::new(vec![("k1".into(), [7; KEY_BYTES])]);
        Shared { store: SealedStore::around(memory.clone(), ring).await.unwrap(), memory }
    }

    suite!(shared);
}
