//! Large results in an object store: kept there by one node, served by another; and what a worker
//! and a reader see while it is away.

use std::sync::Arc;

use forgerun_server::Bounds;
use forgerun_store::postgres::{Options, Postgres};
use forgerun_store::testing::{Cluster, S3Server};

use super::*;

/// Two nodes on one database and one object store.
struct Nodes {
    world: World,
    /// The same client at the other node.
    elsewhere: Client,
    _other: Server,
}

async fn nodes(objects: &S3Server) -> Nodes {
    let url = Cluster::shared().database().await;
    let mut servers = Vec::new();
    for node in [1, 2] {
        let options = Options { objects: Some(objects.objects()), ..Options::new(node) };
        let store = Arc::new(Postgres::connect(&url, options).await.unwrap());
        let settings = [("limits.rate_per_minute", "0"), ("limits.max_result_bytes", "100000000")];
        servers.push(Server::on(store, &settings, Bounds::default()).await);
    }
    let (other, server) = (servers.pop().unwrap(), servers.pop().unwrap());
    let client = server.client().await;
    let elsewhere = Client { address: other.address, ..client.clone() };
    Nodes { world: World { server, client }, elsewhere, _other: other }
}

fn put(world: &World, id: &str, token: &str, result: &[u8]) -> Call {
    let call = world.client.call("PUT", &format!("/ojs/v1/jobs/{id}/result")).header("lease-token", token);
    call.header("content-type", "image/png").body(result)
}

#[tokio::test]
async fn a_result_kept_by_one_node_is_served_by_another_whole_and_in_part() {
    let objects = S3Server::start();
    let Nodes { world, elsewhere, _other } = nodes(&objects).await;
    for size in [100_000, 20_000_000] {
        let n_before = objects.files().len();
        let result: Vec<u8> = (0..size as u32).map(|n| (n >> 3) as u8).collect();
        let id = world.push(json!({})).await;
        let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
        put(&world, &id, &token, &result).send().await.expect(200);
        assert_eq!(objects.files().len(), n_before + 1, "it is there before anybody is told");
        world.post("workers/ack", json!({"job_id": id, "lease_token": token})).await.expect(200);

        let path = format!("/v1/jobs/{id}/result");
        let whole = elsewhere.get(&path).await;
        assert_eq!((whole.status, whole.header("content-type")), (200, Some("image/png")));
        assert!(whole.body == result);
        let last = size - 1;
        for (first, last) in [(0, 9), (70_000, 70_099), (last - 4, last)] {
            let range = format!("bytes={first}-{last}");
            let part = elsewhere.call("GET", &path).header("range", &range).send().await;
            assert_eq!((part.status, &*part.body), (206, &result[first..=last]), "{range}");
        }
    }
}

#[tokio::test]
async fn while_the_object_store_is_away_a_large_result_is_refused_for_now_and_nothing_is_lost() {
    let objects = S3Server::start();
    let Nodes { world, elsewhere, _other } = nodes(&objects).await;
    let result = vec![7; 200_000];
    let (earlier, id) = (world.push(json!({})).await, world.push(json!({})).await);
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    put(&world, &earlier, &token, &result).send().await.expect(200);
    world.post("workers/ack", json!({"job_id": earlier, "lease_token": token})).await.expect(200);
    let token = world.fetch().await["lease_token"].as_str().unwrap().to_owned();
    objects.go_away();

    let answer = put(&world, &id, &token, &result).send().await;
    let body = answer.expect(503);
    assert_eq!(body["retryable"], true, "{body}");
    assert!(answer.header("retry-after").is_some());
    let unread = elsewhere.get(&format!("/v1/jobs/{earlier}/result")).await;
    assert_eq!(unread.expect(503)["retryable"], true);
    assert_eq!(world.job(&id).await["state"], "active", "the worker has it still");
    let small = world.push(json!({"queue": "small"})).await;
    let body = json!({"queues": ["small"], "worker_id": "w-2", "wait_ms": 20_000});
    world.post("workers/fetch", body).await.expect(200);
    let ack = json!({"job_id": small, "result": {"fits": "in its row"}});
    world.post("workers/ack", ack).await.expect(200);

    objects.come_back();
    put(&world, &id, &token, &result).send().await.expect(200);
    world.post("workers/ack", json!({"job_id": id, "lease_token": token})).await.expect(200);
    for job in [&earlier, &id] {
        let kept = elsewhere.get(&format!("/v1/jobs/{job}/result")).await;
        assert!(kept.status == 200 && kept.body == result);
    }
}
