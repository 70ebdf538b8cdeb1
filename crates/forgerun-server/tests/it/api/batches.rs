//! Batches over `/v1`: one job of many items, run by the built-in worker.

use serde_json::{Value, json};

use super::http::Answer;
use super::server::{Client, Server};

/// Work takes a thousandth of its time.
const FAST: (&str, &str) = ("sim.time_scale", "0.001");

async fn submit(client: &Client, body: Value) -> Answer {
    client.call("POST", "/v1/jobs/batch").json(body).send().await
}

/// Submits a batch and waits for its end.
async fn ended(client: &Client, body: Value) -> (String, Value) {
    let id = submit(client, body).await.expect(202)["job_id"].as_str().unwrap().to_owned();
    (id.clone(), wait(client, &id).await)
}

async fn wait(client: &Client, id: &str) -> Value {
    for _ in 0..20 {
        let path = format!("/v1/jobs/{id}");
        let job = client.call("GET", &path).header("prefer", "wait=10").send().await.expect(200);
        if job["outcome"].is_string() {
            return job;
        }
    }
    panic!("the batch does not end");
}

async fn failure(client: &Client, id: &str) -> Value {
    let call = client.call("GET", &format!("/v1/jobs/{id}")).header("accept", "application/problem+json");
    let answer = call.send().await;
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
    let object = answer.expect(200);
    let report = forgerun_problem::check::inspect_json(&answer.body).unwrap();
    assert!(report.conforms(), "{report:?}");
    object
}

#[tokio::test]
async fn a_mixed_batch_is_207_with_errors_and_says_what_became_of_each_item() {
    let server = Server::with(&[FAST]).await;
    server.app.work();
    let client = server.client().await;
    let items = json!([
        {"itemId": "cert-001", "work_kind": "SUCCESS_FAST"},
        {"itemId": "cert-002", "work_kind": "FAIL_IMMEDIATE", "payload": {"name": "Ada"}},
        {"itemId": "cert-003", "work_kind": "FAIL_AFTER_RETRYABLE"},
    ]);
    let (id, job) = ended(&client, json!({"items": items})).await;
    assert_eq!((&job["state"], &job["jobStatus"]), (&json!("FAILED"), &json!("COMPLETED_WITH_ERRORS")));
    assert_eq!(job["items"], json!({"total": 3, "completed": 1, "failed": 2}));
    for list in ["events", "report"] {
        let told = client.get(&format!("/v1/jobs/{id}/{list}")).await.expect(200)["events"].clone();
        let partial = told.as_array().unwrap().iter().filter(|event| event["partial"] == true);
        let names: Vec<&Value> = partial.map(|event| &event["next_state"]).collect();
        assert_eq!(names, ["FAILED"], "{list}: {told}");
    }
    let object = failure(&client, &id).await;
    assert_eq!((&object["status"], &object["jobStatus"]), (&json!(207), &json!("COMPLETED_WITH_ERRORS")));
    assert_eq!(object["type"], "/problems/batch-partial");
    assert_eq!(object["detail"], "1 of 3 items completed successfully.");
    assert_eq!((&object["partial"], &object["event_name"]), (&json!(true), &json!("job_failed")));
    let results = object["results"].as_array().unwrap();
    assert_eq!(results[0], json!({"itemId": "cert-001", "status": "COMPLETED"}));
    assert_eq!(
        (&results[1]["itemId"], &results[1]["status"], &results[1]["retryable"]),
        (&json!("cert-002"), &json!("FAILED"), &json!(false))
    );
    assert_eq!(results[2]["retryable"], true);
    assert!(results[2]["detail"].is_string() && results[2]["processingStage"] == "processing");
    let listed = client.get(object["itemsUrl"].as_str().unwrap()).await.expect(200);
    assert_eq!(listed["items"].as_array().unwrap(), results);
}

#[tokio::test]
async fn a_batch_of_good_items_is_completed_and_plain_json() {
    let server = Server::with(&[FAST]).await;
    server.app.work();
    let client = server.client().await;
    let (id, job) = ended(&client, json!({"items": [{}, {}], "work_kind": "SUCCESS_FAST"})).await;
    assert_eq!((&job["outcome"], &job["jobStatus"]), (&json!("SUCCESS"), &json!("COMPLETED")));
    let accept = client.call("GET", &format!("/v1/jobs/{id}")).header("accept", "application/problem+json");
    assert_eq!(accept.send().await.header("content-type"), Some("application/json"));
    let items = client.get(&format!("/v1/jobs/{id}/items")).await.expect(200);
    assert_eq!(
        items["items"],
        json!([{"itemId": "0", "status": "COMPLETED"}, {"itemId": "1", "status": "COMPLETED"}])
    );
}

#[tokio::test]
async fn a_retry_runs_the_failed_items_and_the_first_execution_keeps_its_list() {
    let server = Server::with(&[FAST, ("retry.base_ms", "0")]).await;
    server.app.work();
    let client = server.client().await;
    let items = json!([{"work_kind": "SUCCESS_FAST"}, {"work_kind": "RETRY_ON_FAIL"}]);
    let (id, first) = ended(&client, json!({"items": items})).await;
    assert_eq!(first["jobStatus"], "COMPLETED_WITH_ERRORS");
    let before = failure(&client, &id).await;
    client.call("POST", &format!("/v1/jobs/{id}/retry")).send().await.expect(200);
    let second = wait(&client, &id).await;
    assert_eq!((&second["outcome"], &second["items"]["completed"]), (&json!("SUCCESS"), &json!(2)));
    let old = client.get(before["itemsUrl"].as_str().unwrap()).await.expect(200);
    assert_eq!((&old["jobId"], &old["failed"]), (&first["jobId"], &json!(1)));
    let new = client.get(&format!("/v1/jobs/{id}/items")).await.expect(200);
    assert_eq!((&new["jobId"], &new["failed"]), (&second["jobId"], &json!(0)));
}

#[tokio::test]
async fn a_large_batch_lists_failed_items_only_and_links_to_all() {
    let server = Server::with(&[FAST]).await;
    server.app.work();
    let client = server.client().await;
    let kind = |n: usize| if n.is_multiple_of(4) { "FAIL_IMMEDIATE" } else { "SUCCESS_FAST" };
    let items: Vec<Value> = (0..1000).map(|n| json!({"work_kind": kind(n)})).collect();
    let (id, job) = ended(&client, json!({"items": items})).await;
    assert_eq!(job["items"], json!({"total": 1000, "completed": 750, "failed": 250}));
    let object = failure(&client, &id).await;
    assert_eq!(
        object["detail"],
        "750 of 1000 items completed successfully. Only the first failed items are listed; see itemsUrl for all."
    );
    let results = object["results"].as_array().unwrap();
    assert_eq!(results.len(), 100);
    assert!(results.iter().all(|item| item["status"] == "FAILED"));
    let mut seen = 0;
    let mut cursor = Some(String::new());
    while let Some(from) = cursor {
        let path = format!("/v1/jobs/{id}/items?status=failed&limit=99&cursor={from}");
        let page = client.get(&path).await.expect(200);
        let items = page["items"].as_array().unwrap();
        assert!(items.iter().all(|item| item["status"] == "FAILED"));
        seen += items.len();
        cursor = page["next_cursor"].as_str().map(str::to_owned);
    }
    assert_eq!(seen, 250);
}

#[tokio::test]
async fn a_batch_under_way_shows_its_items_as_open() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = submit(&client, json!({"items": [{"itemId": "a"}]})).await.expect(202)["job_id"].clone();
    let path = format!("/v1/jobs/{}/items", id.as_str().unwrap());
    let items = client.get(&path).await.expect(200);
    assert_eq!(items["items"], json!([{"itemId": "a", "status": "ACCEPTED"}]));
    assert_eq!(items.get("next_cursor"), Some(&json!(null)), "the end, as in every list");
    server.claim(true).await;
    assert_eq!(client.get(&path).await.expect(200)["items"][0]["status"], "PROCESSING");
    client.call("POST", &path.replace("/items", "/cancel")).send().await.expect(200);
    assert_eq!(client.get(&path).await.expect(200)["items"][0]["status"], "CANCELLED");
}

#[tokio::test]
async fn a_batch_is_its_clients_alone() {
    let server = Server::with(&[FAST]).await;
    server.app.work();
    let (client, other) = (server.client().await, server.client().await);
    let (id, _) = ended(&client, json!({"items": [{"work_kind": "FAIL_IMMEDIATE"}]})).await;
    let foreign = other.get(&format!("/v1/jobs/{id}/items")).await.refused(403, "RFA_AUTH_FORBIDDEN");
    assert!(!foreign.to_string().contains("item"), "{foreign}");
    let (mine, _) = ended(&other, json!({"items": [{"work_kind": "SUCCESS_FAST"}]})).await;
    let listed = other.get(&format!("/v1/jobs/{mine}/items")).await.expect(200);
    assert_eq!((&listed["total"], &listed["failed"]), (&json!(1), &json!(0)));
}

#[tokio::test]
async fn bad_batches_are_refused_and_leave_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    let many: Vec<Value> = vec![json!({}); 1001];
    for (body, code, pointer) in [
        (json!({}), "RFA_REQUEST_MALFORMED", "#/items"),
        (json!({"items": "all"}), "RFA_REQUEST_MALFORMED", "#/items"),
        (json!({"items": [1]}), "RFA_REQUEST_MALFORMED", "#/items/0"),
        (json!({"items": []}), "RFA_JOB_VALIDATION_FAILED", "#/items"),
        (json!({"items": many}), "RFA_JOB_VALIDATION_FAILED", "#/items"),
        (
            json!({"items": [{"itemId": "a"}, {"itemId": "a"}]}),
            "RFA_JOB_VALIDATION_FAILED",
            "#/items/1/itemId",
        ),
        (json!({"items": [{"work_kind": "NONE"}]}), "RFA_JOB_VALIDATION_FAILED", "#/items/0/work_kind"),
        (json!({"items": [{}], "type": "EMIT_EVENT"}), "RFA_JOB_VALIDATION_FAILED", "#/type"),
        (json!({"items": [{}], "type": "DEFERRED"}), "RFA_REQUEST_MALFORMED", "#/execution_at"),
    ] {
        let problem = submit(&client, body.clone()).await.refused(400, code);
        assert_eq!(problem["errors"][0]["pointer"], pointer, "{body}");
    }
    for query in ["cursor=x", "cursor=99", "limit=0"] {
        let id = client.job().await;
        let path = format!("/v1/jobs/{id}/items?{query}");
        // No batch: that is said first.
        client.get(&path).await.refused(404, "RFA_JOB_NOT_FOUND");
    }
    let jobs = client.get("/v1/jobs").await.expect(200);
    assert_eq!(jobs["jobs"].as_array().unwrap().len(), 3, "only the plain ones");
}

#[tokio::test]
async fn bad_pages_are_refused() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = submit(&client, json!({"items": [{}]})).await.expect(202)["job_id"].clone();
    let path = format!("/v1/jobs/{}/items", id.as_str().unwrap());
    for (query, code) in [
        ("cursor=x", "RFA_REQUEST_MALFORMED"),
        ("cursor=2", "RFA_REQUEST_MALFORMED"),
        ("limit=0", "RFA_REQUEST_MALFORMED"),
        ("nothing=1", "RFA_REQUEST_MALFORMED"),
        ("status=COMPLETED_WITH_ERRORS", "RFA_JOB_VALIDATION_FAILED"),
        ("execution=01890a5d-ac96-774b-bcce-b302099a8057", "RFA_JOB_VALIDATION_FAILED"),
    ] {
        client.get(&format!("{path}?{query}")).await.refused(400, code);
    }
}

#[tokio::test]
async fn a_repeated_batch_is_the_same_job() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"items": [{"work_kind": "SUCCESS_FAST"}], "idempotency_key": "k"});
    let first = submit(&client, body.clone()).await.expect(202);
    let again = submit(&client, body).await;
    assert_eq!(again.expect(202)["job_id"], first["job_id"]);
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let other = json!({"items": [{"work_kind": "SUCCESS_SLOW"}], "idempotency_key": "k"});
    submit(&client, other).await.refused(409, "RFA_EXEC_IDEMPOTENCY_CONFLICT");
    // The same key for another operation is another key.
    client.submit(json!({"type": "EXECUTE", "idempotency_key": "k"})).await.expect(202);
}
