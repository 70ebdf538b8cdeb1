//! Subscriptions of Open Job Spec: the same webhooks, told in its words and signed as it says. And
//! what a workflow tells when it fails.

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use super::kinds::{Arrival, Recorder, Temper};
use super::registered::{register, server, stored};
use crate::api::http::Answer;
use crate::api::server::Client;

const SUBSCRIPTIONS: &str = "/ojs/v1/webhooks/subscriptions";

async fn send(client: &Client, method: &str, path: &str, body: Value) -> Answer {
    client.call(method, path).json(body).send().await
}

async fn push(client: &Client, retry: Value) -> String {
    let body = json!({"type": "test.echo", "args": [1], "options": {"retry": retry}});
    let pushed = send(client, "POST", "/ojs/v1/jobs", body).await.expect(201);
    pushed["job"]["id"].as_str().unwrap().to_owned()
}

async fn fetch(client: &Client) -> Value {
    let body = json!({"queues": ["default"], "wait_ms": 20_000});
    let fetched = send(client, "POST", "/ojs/v1/workers/fetch", body).await.expect(200);
    fetched["jobs"][0].clone()
}

async fn nack(client: &Client, job: &Value) {
    let error = json!({"code": "handler_error", "message": "it broke"});
    send(client, "POST", "/ojs/v1/workers/nack", json!({"job_id": job["id"], "error": error}))
        .await
        .expect(200);
}

/// Whether a delivery is signed with this text, by another road than ours.
fn is_signed(arrival: &Arrival, secret: &str) -> bool {
    let content = [arrival.header("x-ojs-timestamp").as_bytes(), b".", &arrival.bytes].concat();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), &content);
    let hex: String = tag.as_ref().iter().map(|byte| format!("{byte:02x}")).collect();
    arrival.header("x-ojs-signature").split(',').any(|signature| signature == format!("sha256={hex}"))
}

#[tokio::test]
async fn a_subscription_is_told_in_the_words_of_ojs_and_signed_with_its_secret() {
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let server = server(3).await;
    let client = server.client().await;
    let body = json!({"url": recorder.receiver.url(), "events": ["job.started", "job.discarded"], "secret": "whk_test_secret_003",
                      "metadata": {"owner": "platform"}});
    let made = send(&client, "POST", SUBSCRIPTIONS, body).await.expect(201);
    let id = made["subscription"]["id"].as_str().unwrap().to_owned();
    assert_eq!(
        (&made["secret"], &made["metadata"]["owner"]),
        (&json!("whk_test_secret_003"), &json!("platform"))
    );
    let job = push(&client, json!({"max_attempts": 1})).await;
    let fetched = fetch(&client).await;
    nack(&client, &fetched).await;
    for name in ["job.started", "job.discarded"] {
        let told = recorder.next().await;
        assert_eq!(
            (told.header("x-ojs-event-type"), told.header("content-type")),
            (name, "application/json")
        );
        assert_eq!((&told.body["type"], &told.body["subject"]), (&json!(name), &json!(job)));
        assert_eq!(
            (&told.body["specversion"], &told.body["data"]["job_type"]),
            (&json!("1.0"), &json!("test.echo"))
        );
        assert_eq!(
            (told.header("x-ojs-subscription-id"), told.header("x-ojs-delivery-id")),
            (&*id, told.header("webhook-id"))
        );
        assert!(is_signed(&told, "whk_test_secret_003") && !is_signed(&told, "another"));
        assert!(!told.header("signature").is_empty(), "signed as every delivery is");
    }
    // The one that is seen under /v1 is the same.
    let webhook = client.get(&format!("/v1/webhooks/{id}")).await.expect(200);
    assert_eq!(
        (&webhook["envelope"], &webhook["events"]),
        (&json!("ojs"), &json!(["job_started", "job_retries_exhausted"]))
    );
    let path = format!("{SUBSCRIPTIONS}/{id}");
    let rotated = send(&client, "POST", &format!("{path}/rotate-secret"), json!({})).await.expect(200);
    let secret = rotated["secret"].as_str().unwrap();
    send(&client, "POST", &format!("{path}/test"), json!({})).await.expect(202);
    let test = recorder.next().await;
    assert_eq!(test.body["type"], "webhook.test");
    assert!(
        is_signed(&test, secret) && is_signed(&test, "whk_test_secret_003"),
        "both secrets count for a day"
    );
}

#[tokio::test]
async fn a_subscription_is_listed_changed_and_deleted_by_its_owner_alone() {
    let server = server(1).await;
    let client = server.client().await;
    let body = json!({"url": "https://example.com/hook", "events": ["job.completed"]});
    let made = send(&client, "POST", SUBSCRIPTIONS, body.clone()).await.expect(201);
    assert!(made["secret"].as_str().unwrap().starts_with("whsec_"));
    let path = format!("{SUBSCRIPTIONS}/{}", made["id"].as_str().unwrap());
    let found = client.get(&path).await.expect(200);
    assert_eq!((&found["subscription"]["active"], found.get("secret")), (&json!(true), None));
    let change = json!({"events": ["job.completed", "job.failed", "job.cancelled"], "active": false});
    let changed = send(&client, "PATCH", &path, change).await.expect(200);
    assert_eq!((changed["events"].as_array().unwrap().len(), &changed["active"]), (3, &json!(false)));
    let list = client.get(SUBSCRIPTIONS).await.expect(200);
    assert_eq!((&list["subscriptions"][0]["id"], &list["pagination"]["total"]), (&made["id"], &json!(1)));
    assert_eq!(send(&client, "POST", SUBSCRIPTIONS, body).await.status, 409, "one per address");
    let other = server.client().await;
    assert_eq!(other.get(SUBSCRIPTIONS).await.expect(200)["count"], 0);
    for method in ["GET", "DELETE"] {
        assert_eq!(other.call(method, &path).send().await.status, 403);
    }
    client.call("DELETE", &path).send().await.expect(200);
    assert_eq!(client.get(&path).await.status, 404);
}

#[tokio::test]
async fn a_subscription_that_cannot_be_is_refused() {
    let server = server(1).await;
    let client = server.client().await;
    for (body, status, field) in [
        (json!({"url": "https://example.com", "events": ["job.imagined"]}), 400, "events"),
        (json!({"url": "https://example.com", "events": ["*"], "filter": {"queues": ["a"]}}), 422, "filter"),
        (json!({"url": "ftp://example.com", "events": ["*"]}), 400, "url"),
        (json!({"events": ["*"]}), 400, "url"),
    ] {
        let answer = send(&client, "POST", SUBSCRIPTIONS, body.clone()).await;
        assert_eq!(answer.expect(status)["details"]["field"], field, "{body}");
    }
    // Where webhooks may not lead, subscriptions may not either.
    let strict = crate::api::server::Server::with(&[("webhooks.private_targets", "deny")]).await;
    let client = strict.client().await;
    let body = json!({"url": "http://127.0.0.1:9/hook", "events": ["*"]});
    assert_eq!(send(&client, "POST", SUBSCRIPTIONS, body).await.status, 400);
}

#[tokio::test]
async fn the_failure_of_a_workflow_is_told_byte_for_byte() {
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let server = server(3).await;
    let client = server.client().await;
    let step = |name: &str| json!({"type": name, "args": [], "options": {"retry": {"max_attempts": 1}}});
    let body = json!({"type": "chain", "steps": [step("a"), step("b")]});
    let workflow = send(&client, "POST", "/ojs/v1/workflows", body).await.expect(201);
    let webhook = json!({"url": recorder.receiver.url(), "events": ["job_failed"]});
    register(&client, webhook).await;
    let first = fetch(&client).await;
    nack(&client, &first).await;
    // The step fails, and the workflow with it; in which order they arrive is nobody's promise.
    let whole = stored(&client, workflow["id"].as_str().unwrap()).await;
    let told = [recorder.next().await, recorder.next().await];
    let of_workflow: Vec<&Arrival> = told.iter().filter(|told| told.bytes == whole).collect();
    assert_eq!(of_workflow.len(), 1, "{}", String::from_utf8_lossy(&whole));
    assert_eq!(of_workflow[0].header("content-type"), "application/problem+json");
}
