//! Workers as the operator sees them.

use serde_json::json;

use super::super::server::Client;
use super::{get, post, server};

async fn beat(client: &Client, worker: &str) -> serde_json::Value {
    let body = json!({"worker_id": worker, "state": "running", "active_jobs": []});
    client.call("POST", "/ojs/v1/workers/heartbeat").json(body).send().await.expect(200)
}

#[tokio::test]
async fn workers_of_all_clients_are_listed_and_told_to_take_no_more() {
    let server = server().await;
    let (one, other) = (server.client().await, server.client().await);
    beat(&one, "w-1").await;
    beat(&other, "w-2").await;
    let page = get(&server, "/admin/v1/workers").await;
    let mut ids: Vec<_> =
        page["items"].as_array().unwrap().iter().map(|worker| worker["id"].clone()).collect();
    ids.sort_by_key(|id| id.to_string());
    assert_eq!(ids, ["w-1", "w-2"]);
    let told = post(&server, "/admin/v1/workers/w-1/quiet", json!({})).await.expect(200);
    assert_eq!(
        (&told["id"], &told["client"], &told["directive"]),
        (&json!("w-1"), &json!(one.id), &json!("quiet"))
    );
    assert_eq!(beat(&one, "w-1").await["directive"], "quiet");
    assert_eq!(beat(&other, "w-2").await["directive"], "running");
    post(&server, "/admin/v1/workers/nobody/quiet", json!({})).await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn a_name_that_two_clients_use_needs_the_client_too() {
    let server = server().await;
    let (one, other) = (server.client().await, server.client().await);
    beat(&one, "w").await;
    beat(&other, "w").await;
    assert_eq!(post(&server, "/admin/v1/workers/w/quiet", json!({})).await.status, 409);
    let path = format!("/admin/v1/workers/w/quiet?client={}", other.id);
    post(&server, &path, json!({})).await.expect(200);
    assert_eq!(beat(&one, "w").await["directive"], "running");
    assert_eq!(beat(&other, "w").await["directive"], "quiet");
    let page = get(&server, "/admin/v1/workers?limit=1").await;
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = get(&server, &format!("/admin/v1/workers?limit=1&cursor={cursor}")).await;
    assert_eq!((next["items"].as_array().unwrap().len(), &next["next_cursor"]), (1, &json!(null)));
}

#[tokio::test]
async fn a_worker_is_listed_with_the_jobs_that_it_still_holds() {
    let server = server().await;
    let client = server.client().await;
    let call = async |path: &str, body: serde_json::Value| {
        client.call("POST", &format!("/ojs/v1/{path}")).json(body).send().await
    };
    let fetch = async |worker: &str| {
        call("jobs", json!({"type": "t", "args": []})).await.expect(201);
        let fetch = json!({"queues": ["default"], "worker_id": worker});
        call("workers/fetch", fetch).await.expect(200)["jobs"][0].clone()
    };
    beat(&client, "w-1").await;
    beat(&client, "w-2").await;
    let (done, kept, other) = (fetch("w-1").await, fetch("w-1").await, fetch("w-2").await);
    let ack = json!({"job_id": done["id"], "worker_id": "w-1", "lease_token": done["lease_token"]});
    call("workers/ack", ack).await.expect(200);
    let held = |page: &serde_json::Value| {
        page.as_array().unwrap().iter().map(|worker| worker["jobs"].clone()).collect::<Vec<_>>()
    };
    let expected = [json!([kept["id"]]), json!([other["id"]])];
    assert_eq!(held(&get(&server, "/admin/v1/workers").await["items"]), expected);
    assert_eq!(held(&get(&server, "/admin/v1/overview").await["workers"]), expected);
}
