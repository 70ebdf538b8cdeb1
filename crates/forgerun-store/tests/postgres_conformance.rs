//! PostgreSQL passes the suite that every store must pass. The server is real and started by the test.
#![cfg(all(feature = "encryption", feature = "testing", feature = "postgres"))]

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use forgerun_core::set_aside::RowId;
use forgerun_store::Store;
use forgerun_store::conformance::{Fixture, sealed_suite, suite};
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::{Cluster, connect};

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

    fn damage(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        // A field without a length.
        Box::pin(self.rewrite(row, r"body || '\xff'::bytea"))
    }

    fn mend(&self, row: RowId) -> Pin<Box<dyn Future<Output = ()> + Send + '_>> {
        Box::pin(self.rewrite(row, "substring(body FROM 1 FOR length(body) - 1)"))
    }
}

impl Nodes {
    /// Changes the bytes of a row behind the back of the stores.
    async fn rewrite(&self, row: RowId, body: &str) {
        let table = match row {
            RowId::Job(_) => "jobs",
            RowId::Delivery(_) => "deliveries",
        };
        let sql = format!("UPDATE {table} SET body = {body} WHERE id = '{:032x}'", row.as_u128());
        connect(&self.url).await.batch_execute(&sql).await.unwrap();
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
sealed_suite!(nodes);
