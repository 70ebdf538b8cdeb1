//! SQLite passes the suite that every store must pass, with two stores on one file.
#![cfg(all(feature = "encryption", feature = "testing", feature = "sqlite"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};

use forgerun_core::set_aside::RowId;
use forgerun_store::Store;
use forgerun_store::conformance::{Fixture, sealed_suite, suite};
use forgerun_store::sqlite::Sqlite;
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

    /// Changes the bytes of a row behind the back of the stores.
    fn rewrite(&self, row: RowId, change: impl FnOnce(&mut Vec<u8>)) {
        let db = rusqlite::Connection::open(self.folder.path().join("jobs.db")).unwrap();
        let table = match row {
            RowId::Job(_) => "jobs",
            RowId::Delivery(_) => "deliveries",
        };
        let id = row.as_u128().to_be_bytes();
        let read = format!("SELECT body FROM {table} WHERE id = ?1");
        let mut body: Vec<u8> = db.query_row(&read, [id], |row| row.get(0)).unwrap();
        change(&mut body);
        db.execute(&format!("UPDATE {table} SET body = ?2 WHERE id = ?1"), (id, body)).unwrap();
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

    fn damage(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // A field without a length.
        self.rewrite(row, |body| body.push(0xff));
        Box::pin(async {})
    }

    fn mend(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        self.rewrite(row, |body| body.truncate(body.len() - 1));
        Box::pin(async {})
    }
}

async fn file() -> File {
    let folder = tempfile::tempdir().unwrap();
    File { open: Mutex::new(File::open(&folder)), folder }
}

suite!(file);
sealed_suite!(file);
