//! PostgreSQL passes the suite that every store must pass. The server is real and started by the test.
#![cfg(all(feature = "testing", feature = "postgres"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use forge_store::Store;
use forge_store::conformance::{Fixture, suite};
use forge_store::postgres::{Options, Postgres};
use forge_store::testing::Cluster;

/// Two nodes on one database.
struct Nodes {
    url: String,
    first: Arc<Postgres>,
    second: Arc<Postgres>,
}

impl Fixture for Nodes {
    fn store(&self) -> Arc<dyn Store> {
        self.first.clone()
    }

    fn second(&self) -> Arc<dyn Store> {
        self.second.clone()
    }

    fn reopen(&self) -> Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + '_>> {
        Box::pin(async { node(&self.url, 3).await as Arc<dyn Store> })
    }
}

async fn node(url: &str, number: u64) -> Arc<Postgres> {
    Arc::new(Postgres::connect(url, Options::new(number)).await.unwrap())
}

async fn nodes() -> Nodes {
    let url = Cluster::shared().database().await;
    let (first, second) = (node(&url, 1).await, node(&url, 2).await);
    Nodes { url, first, second }
}

suite!(nodes);
