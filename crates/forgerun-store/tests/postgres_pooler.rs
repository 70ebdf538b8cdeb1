//! A PgBouncer between the store and PostgreSQL.
#![cfg(all(feature = "postgres", feature = "testing"))]

use forgerun_store::Store;
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::{Cluster, PoolMode, Pooler};

#[tokio::test]
async fn a_pooler_that_keeps_sessions_is_no_hindrance() {
    let cluster = Cluster::shared();
    let pooler = Pooler::start(cluster, PoolMode::Session);
    let url = pooler.url(cluster, &cluster.database().await);
    let store = Postgres::connect(&url, Options::new(1)).await.unwrap();
    assert_eq!((&store as &dyn Store).journal_end().await.unwrap(), 0, "it works");
    store.close().await;
}

#[tokio::test]
async fn a_pooler_that_shares_sessions_is_refused_with_what_to_set() {
    let cluster = Cluster::shared();
    let pooler = Pooler::start(cluster, PoolMode::Transaction);
    let database_url = cluster.database().await;
    let refused =
        Postgres::connect(&pooler.url(cluster, &database_url), Options::new(1)).await.err().unwrap();
    assert!(refused.to_string().contains("pool_mode = session"), "{refused}");
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'";
    let client = forgerun_store::testing::connect(&database_url).await;
    let n_tables: i64 = client.query_one(tables, &[]).await.unwrap().get(0);
    assert_eq!(n_tables, 0, "nothing was begun");
}
