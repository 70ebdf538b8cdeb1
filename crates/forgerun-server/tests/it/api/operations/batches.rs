//! Batches over `/api/v1`.

use serde_json::{Value, json};

use crate::api::server::{Client, Server};

async fn submit(client: &Client, body: Value) -> Value {
    let answer = client.call("POST", "/api/v1/jobs/batch").json(body).send().await;
    let body = answer.expect(202);
    let path = body["statusUrl"].as_str().unwrap();
    assert_eq!(answer.header("location"), Some(path));
    body
}

/// Polls as the pattern's clients do, until the answer is no longer 202.
async fn poll(client: &Client, path: &str) -> Value {
    for _ in 0..20 {
        let call = client.call("GET", path).header("accept", "application/json").header("prefer", "wait=10");
        let answer = call.send().await;
        if answer.status == 200 {
            return answer.json();
        }
        assert_eq!(answer.status, 202);
    }
    panic!("the batch does not end");
}

#[tokio::test]
async fn a_mixed_batch_is_partially_completed_and_the_polling_stops() {
    let server = Server::with(&[("sim.time_scale", "0.001"), ("retry.base_ms", "0")]).await;
    server.app.work();
    let client = server.client().await;
    let items = json!([
        {"itemId": "a", "work_kind": "SUCCESS_FAST", "parameters": {"n": 1}},
        {"itemId": "b", "work_kind": "FAIL_IMMEDIATE"},
        {"itemId": "c", "work_kind": "RETRY_ON_FAIL"},
    ]);
    let accepted = submit(&client, json!({"type": "certificates", "items": items})).await;
    assert_eq!(accepted["status"], "Queued");
    let path = accepted["statusUrl"].as_str().unwrap();
    let status = poll(&client, path).await;
    assert_eq!(
        (&status["status"], &status["jobStatus"]),
        (&json!("PartiallyCompleted"), &json!("COMPLETED_WITH_ERRORS"))
    );
    assert_eq!(
        status["items"],
        json!({"total": 3, "completed": 2, "failed": 1}),
        "what may pass was tried again"
    );
    assert_eq!(status["retryCount"], 1);
    assert_eq!(status["itemsUrl"], format!("{path}/items"));
    let listed = client.get(&format!("{path}/items?status=FAILED")).await.expect(200);
    assert_eq!(listed["items"][0]["itemId"], "b");
    assert_eq!(listed["items"].as_array().unwrap().len(), 1);
    // Whoever names no type gets the failure object (C-08).
    let answer = client.get(path).await;
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let object = answer.expect(200);
    assert_eq!((&object["status"], &object["code"]), (&json!(207), &json!("RFA_EXEC_BATCH_PARTIAL")));
    assert_eq!(object["results"].as_array().unwrap().len(), 3);
    assert_eq!(object["itemsUrl"], status["itemsUrl"]);
}

#[tokio::test]
async fn a_batch_without_work_kinds_waits_for_a_worker_outside() {
    let server = Server::start().await;
    server.app.work();
    let client = server.client().await;
    let accepted = submit(&client, json!({"type": "mails", "items": [{"parameters": {"to": "ada"}}]})).await;
    let path = accepted["statusUrl"].as_str().unwrap();
    let answer = client.call("GET", path).header("prefer", "wait=1").send().await;
    assert_eq!(answer.expect(202)["status"], "Queued");
    let items = client.get(&format!("{path}/items")).await.expect(200);
    assert_eq!(items["items"], json!([{"itemId": "0", "status": "ACCEPTED"}]));
}

#[tokio::test]
async fn bad_batches_are_refused_with_errors_by_member() {
    let server = Server::start().await;
    let client = server.client().await;
    let before = server.traces().await;
    for (body, member) in [
        (json!({"type": "a"}), "items"),
        (json!({"type": "a", "items": []}), "items"),
        (json!({"type": "a", "items": vec![json!({}); 1001]}), "items"),
        (json!({"type": "a", "items": [{"itemId": "x"}, {"itemId": "x"}]}), "items.1.itemId"),
        (json!({"items": [{}]}), "type"),
        (json!({"type": "a", "items": [{"work_kind": "SUCCESS_FAST"}, {}]}), "work_kind"),
    ] {
        let answer = client.call("POST", "/api/v1/jobs/batch").json(&body).send().await;
        let problem = answer.expect(400);
        assert!(problem["errors"].get(member).is_some(), "{member} in {problem}");
    }
    client.call("GET", "/api/v1/jobs/batch").send().await.expect(405);
    assert_eq!(server.traces().await, before);
}
