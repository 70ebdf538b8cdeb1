//! Two nodes on one PostgreSQL: what happens on one is heard on the other.

use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_server::Bounds;
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::Cluster;

use super::reader::Opening;
use super::{names, of_client, of_job, opened};
use crate::api::server::{Client, Server};

#[tokio::test(flavor = "multi_thread")]
async fn events_of_the_other_node_arrive_and_a_stream_goes_on_there() {
    let database = Cluster::shared().database().await;
    let node = async |n| {
        let store = Postgres::connect(&database, Options::new(n)).await.unwrap();
        Server::on(Arc::new(store), &[], Bounds::default()).await
    };
    let (here, there) = (node(1).await, node(2).await);
    let client = here.client().await;
    let client_there = Client { address: there.address, ..client.clone() };
    let mut all = of_client(&client_there).await;
    let id = client.job().await;
    let mut one = of_job(&client_there, &id).await;
    here.fail(Kind::HandlerError).await;
    let of_one = one.rest().await;
    assert_eq!(names(&of_one), ["job-created", "job-queued", "job-assigned", "job-started", "job-failed"]);
    assert_eq!(all.take(5).await, of_one);
    client_there.job().await;
    here.succeed().await;
    let later = all.take(5).await;
    for heard_before in [1, 4] {
        let mut here = opened(Opening::new(&client, "/v1/events").after(&of_one[heard_before].id)).await;
        assert_eq!(here.take(4 - heard_before).await, of_one[heard_before + 1..]);
        assert_eq!(here.take(5).await, later);
    }
}
