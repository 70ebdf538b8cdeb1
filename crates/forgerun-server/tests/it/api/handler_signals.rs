//! A handler that waits for a signal, as a worker says it over HTTP.

use std::time::Duration;

use forgerun_core::Command;
use serde_json::{Value, json};

use crate::api::http::Answer;
use crate::api::server::{Client, Server};

async fn submit(client: &Client) -> String {
    let body = json!({"job_type": "order.ship", "payload": {"order": 4711}});
    let job = client.call("POST", "/v1/jobs").json(body).send().await.expect(202);
    job["job_id"].as_str().unwrap().to_owned()
}

async fn exchange(client: &Client, body: Value) -> Value {
    let mut round = json!({"worker_id": "w", "queues": ["default"], "count": 1, "wait_ms": 0});
    round.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
    client.call("POST", "/ojs/v1/workers/exchange").json(round).send().await.expect(200)
}

/// Hands the job back until `approved` arrives; returns the status of the entry.
async fn wait_for(client: &Client, job: &Value, more: Value) -> Value {
    let mut entry = json!({"job_id": job["id"], "lease_token": job["lease_token"], "requeue": true,
        "until_signal": "approved"});
    entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    exchange(client, json!({"done": [entry], "count": 0})).await["results"][0]["status"].clone()
}

async fn signal(client: &Client, id: &str, name: &str, body: &str) -> Answer {
    client.call("POST", &format!("/v1/jobs/{id}/signals/{name}")).json(body).send().await
}

#[tokio::test]
async fn a_job_waits_for_its_signal_without_a_worker() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = submit(&client).await;
    let job = exchange(&client, json!({})).await["jobs"][0].take();
    assert_eq!(wait_for(&client, &job, json!({})).await, 200);
    let view = client.get(&format!("/v1/jobs/{id}")).await.expect(200);
    assert_eq!((&view["state"], &view["awaited_signal"]), (&json!("QUEUED"), &json!("approved")));
    let view = client.get(&format!("/ojs/v1/jobs/{id}")).await.expect(200);
    assert_eq!(view["job"]["awaited_signal"], "approved");
    assert_eq!(exchange(&client, json!({})).await["jobs"], json!([]));

    let sent = signal(&client, &id, "approved", r#"{"by": "kim"}"#).await.expect(200);
    assert_eq!((&sent["job_id"], &sent["signal"]), (&json!(id), &json!("approved")));
    let again = exchange(&client, json!({})).await["jobs"][0].take();
    assert_eq!((&again["id"], &again["attempt"]), (&json!(id), &job["attempt"]), "it counts as no attempt");
    let saved = client.get(&format!("/ojs/v1/checkpoints/{id}/resume")).await.expect(200);
    assert_eq!(saved["steps"]["signal:approved"], json!({"signal": {"by": "kim"}}));
    assert_eq!(
        wait_for(&client, &again, json!({})).await,
        200,
        "it has arrived, so the wait is over at once"
    );
    assert_eq!(exchange(&client, json!({})).await["jobs"][0]["id"], id.as_str());
    signal(&client, &id, "approved", r#"{"by": "kim"}"#).await.expect(200);
    signal(&client, &id, "approved", "false").await.refused(409, "RFA_JOB_CONFLICT");
}

#[tokio::test]
async fn the_wait_ends_with_its_delay_and_a_later_signal_is_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = submit(&client).await;
    let job = exchange(&client, json!({})).await["jobs"][0].take();
    assert_eq!(wait_for(&client, &job, json!({"delay_ms": 60_000})).await, 200);
    server.clock.advance(Duration::from_secs(61));
    server.app.engine.run(Command::Due(10)).await.unwrap();
    let job = exchange(&client, json!({})).await["jobs"][0].take();
    let token = job["lease_token"].as_str().unwrap();
    let timed_out = client
        .call("PUT", &format!("/ojs/v1/jobs/{id}/checkpoint/signal:approved"))
        .header("lease-token", token)
        .json(json!({"result": {"timed_out": true}}))
        .send()
        .await;
    assert_eq!(timed_out.status, 201);
    let late = signal(&client, &id, "approved", "true").await;
    let problem = late.expect(409);
    assert_eq!(problem["detail"], "The wait has ended without a signal.");
}

#[tokio::test]
async fn a_signal_to_a_job_is_refused_for_a_wrong_name_body_client_or_job() {
    let server = Server::start().await;
    let (client, stranger) = (server.client().await, server.client().await);
    let id = submit(&client).await;
    signal(&client, &id, "No", "true").await.expect(400);
    signal(&client, &id, "approved", "{").await.expect(400);
    signal(&stranger, &id, "approved", "true").await.expect(403);
    signal(&client, "01890a5d-ac96-774b-bcce-b302099a8057", "approved", "true").await.expect(404);
    let simulated = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST"});
    let simulated = client.call("POST", "/v1/jobs").json(simulated).send().await.expect(202);
    signal(&client, simulated["job_id"].as_str().unwrap(), "approved", "true").await.expect(404);
    let job = exchange(&client, json!({})).await["jobs"][0].take();
    assert_eq!(wait_for(&client, &job, json!({"until_signal": "No"})).await, 400);
    client.call("POST", &format!("/v1/jobs/{id}/cancel")).send().await.expect(200);
    signal(&client, &id, "approved", "true").await.expect(409);
}
