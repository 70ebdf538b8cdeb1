//! SQLite passes the suite that every store must pass, with two stores on one file.
#![cfg(all(feature = "testing", feature = "sqlite"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use forge_store::Store;
use forge_store::conformance::{Fixture, suite};
use forge_store::sqlite::Sqlite;
use tempfile::TempDir;

/// A file in a folder of its own, opened twice.
struct File {
    // Closed before their folder goes.
    open: Mutex<[Arc<Sqlite>; 2]>,
    folder: TempDir,
}

impl File {
    fn open(folder: &TempDir) -> [Arc<Sqlite>; 2] {
        let path = folder.path().join("jobs.db");
        [(); 2].map(|()| Arc::new(Sqlite::open(&path).unwrap()))
    }

    fn node(&self, n: usize) -> Arc<dyn Store> {
        self.open.lock().unwrap()[n].clone()
    }
}

impl Fixture for File {
    fn store(&self) -> Arc<dyn Store> {
        self.node(0)
    }

    fn second(&self) -> Arc<dyn Store> {
        self.node(1)
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        *self.open.lock().unwrap() = File::open(&self.folder);
        Box::pin(async { self.store() })
    }
}

async fn file() -> File {
    let folder = tempfile::tempdir().unwrap();
    File { open: Mutex::new(File::open(&folder)), folder }
}

suite!(file);
