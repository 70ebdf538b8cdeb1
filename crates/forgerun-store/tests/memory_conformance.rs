//! The memory store passes the suite that every store must pass.
#![cfg(feature = "testing")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use forgerun_core::set_aside::RowId;
use forgerun_store::Store;
use forgerun_store::conformance::{Fixture, suite};
use forgerun_store::memory::Memory;

/// Memory does not outlive its process, so every node and every start has the same object.
struct Shared(Arc<Memory>);

impl Fixture for Shared {
    fn store(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn second(&self) -> Arc<dyn Store> {
        self.0.clone()
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(async { self.store() })
    }

    fn damage(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.damage(row);
        Box::pin(async {})
    }

    fn mend(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.0.mend(row);
        Box::pin(async {})
    }
}

async fn shared() -> Shared {
    Shared(Arc::new(Memory::new()))
}

suite!(shared);
