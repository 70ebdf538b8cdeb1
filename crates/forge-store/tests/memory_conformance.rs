//! The memory store passes the suite that every store must pass.
#![cfg(feature = "testing")]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use forge_store::Store;
use forge_store::conformance::{Fixture, suite};
use forge_store::memory::Memory;

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
}

async fn shared() -> Shared {
    Shared(Arc::new(Memory::new()))
}

suite!(shared);
