//! `/v1/workflows` and `/admin/v1/workflows`: simulated and real steps, one failure object on every road, cancel and retry.

use forge_core::catalog::Kind;
use serde_json::{Value, json};

use crate::api::http::Call;
use crate::api::server::{Client, Server};

const TOKEN: &str = "the-token-of-the-operator";

/// A chain of simulated steps of these kinds, and what it is called.
fn chain(name: &str, kinds: &[&str]) -> Value {
    let steps: Vec<Value> = kinds
        .iter()
        .map(|kind| json!({"work_kind": kind, "options": {"retry": {"max_attempts": 1}}}))
        .collect();
    json!({"type": "chain", "name": name, "steps": steps})
}

async fn begin(client: &Client, body: &Value) -> Value {
    let begun = client.call("POST", "/v1/workflows").json(body).send().await;
    let view = begun.expect(202);
    let location = begun.header("location").unwrap();
    assert!(location.ends_with(&format!("/v1/workflows/{}", view["workflow_id"].as_str().unwrap())));
    view
}

async fn shown(client: &Client, begun: &Value) -> Value {
    let id = begun["workflow_id"].as_str().unwrap();
    client.get(&format!("/v1/workflows/{id}")).await.expect(200)
}

fn operator(server: &Server, path: &str) -> Call {
    server.call("GET", path).header("authorization", &format!("Bearer {TOKEN}"))
}

fn states(workflow: &Value) -> Vec<&str> {
    workflow["steps"].as_array().unwrap().iter().map(|step| step["state"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn the_key_of_a_workflow_is_held_to_the_rules_of_keys() {
    let server = Server::start().await;
    let client = server.client().await;
    for key in ["k".repeat(2000), "a\u{7}b".into()] {
        let mut body = chain("one", &["SUCCESS_FAST"]);
        body["idempotency_key"] = key.into();
        client
            .call("POST", "/v1/workflows")
            .json(&body)
            .send()
            .await
            .refused(400, "RFA_JOB_VALIDATION_FAILED");
    }
}

#[tokio::test]
async fn a_simulated_chain_runs_to_its_end_and_is_listed() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let begun = begin(&client, &chain("one", &["SUCCESS_FAST", "SUCCESS_FAST", "SUCCESS_FAST"])).await;
    assert_eq!(
        (&begun["state"], &begun["type"], &begun["steps_total"]),
        (&json!("RUNNING"), &json!("chain"), &json!(3))
    );
    for _ in 0..3 {
        server.succeed().await;
    }
    let done = shown(&client, &begun).await;
    assert_eq!((&done["state"], &done["progress"]), (&json!("SUCCEEDED"), &json!(100)));
    assert_eq!(states(&done), ["SUCCEEDED"; 3]);
    begin(&client, &chain("two", &["SUCCESS_FAST"])).await;
    let page = client.get("/v1/workflows?limit=1").await.expect(200);
    assert_eq!(page["workflows"][0]["name"], "two");
    let cursor = page["next_cursor"].as_str().unwrap();
    let next = client.get(&format!("/v1/workflows?state=SUCCEEDED&cursor={cursor}")).await.expect(200);
    assert_eq!(next["workflows"][0]["workflow_id"], begun["workflow_id"]);
    let other = server.client().await;
    assert_eq!(other.get("/v1/workflows").await.expect(200)["workflows"], json!([]));
    let path = format!("/v1/workflows/{}", begun["workflow_id"].as_str().unwrap());
    assert_eq!(other.get(&path).await.status, 403);
    let of_operator = operator(&server, "/admin/v1/workflows").send().await.expect(200);
    assert_eq!(of_operator["items"].as_array().unwrap().len(), 2);
    let one = operator(&server, &format!("/admin{path}")).send().await.expect(200);
    assert_eq!(one["edges"][0], json!({"from": "0", "to": "1", "when": "all_succeeded"}));
    assert_eq!(one["steps"][2]["depends_on"], json!(["1"]));
}

#[tokio::test]
async fn a_failed_workflow_has_one_failure_object_on_every_road() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let begun = begin(&client, &chain("f", &["SUCCESS_FAST", "FAIL_IMMEDIATE", "SUCCESS_FAST"])).await;
    server.succeed().await;
    server.fail(Kind::HandlerError).await;
    let failed = shown(&client, &begun).await;
    assert_eq!(
        (&failed["state"], states(&failed)),
        (&json!("FAILED"), vec!["SUCCEEDED", "FAILED", "SKIPPED"])
    );
    let id = begun["workflow_id"].as_str().unwrap();
    let problem = "application/problem+json";
    let of_job = client.call("GET", &format!("/v1/jobs/{id}")).header("accept", problem).send().await;
    let object = of_job.expect(200);
    let results = object["results"].as_array().unwrap();
    let kinds: Vec<&Value> = results.iter().map(|result| &result["itemId"]).collect();
    assert_eq!(kinds, [&json!("0"), &json!("1"), &json!("2")], "{object}");
    assert_eq!(object["jobStatus"], "COMPLETED_WITH_ERRORS");
    let of_workflow =
        client.call("GET", &format!("/v1/workflows/{id}")).header("accept", problem).send().await;
    assert_eq!(of_workflow.text(), of_job.text(), "the same bytes");
    let of_api = client.call("GET", &format!("/api/v1/jobs/{id}")).header("accept", problem).send().await;
    assert_eq!(of_api.text(), of_job.text());
    assert_eq!(failed["failure"], object);
    let stream = client
        .call("GET", &format!("/v1/workflows/{id}/events"))
        .header("accept", "text/event-stream")
        .send()
        .await;
    assert!(stream.text().contains(of_job.text()), "{}", stream.text());
    let report = client.get(&format!("/v1/jobs/{id}/report")).await.expect(200);
    assert_eq!(report["outcome"], "FAILED");
}

#[tokio::test]
async fn a_retry_tries_the_failed_part_and_a_cancel_ends_the_rest() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    let step = |name: &str| json!({"type": name, "args": [], "options": {"retry": {"max_attempts": 1}}});
    let begun = begin(&client, &json!({"type": "chain", "steps": [step("a"), step("b")]})).await;
    let path = format!("/v1/workflows/{}", begun["workflow_id"].as_str().unwrap());
    let fetch = json!({"queues": ["default"], "wait_ms": 10_000}).to_string();
    let taken = client.call("POST", "/ojs/v1/workers/fetch").json(&fetch).send().await.expect(200)["jobs"][0]
        ["id"]
        .clone();
    let nack =
        json!({"job_id": taken, "error": {"code": "handler_error", "message": "no", "retryable": false}});
    client.call("POST", "/ojs/v1/workers/nack").json(&nack).send().await.expect(200);
    assert_eq!(client.get(&path).await.expect(200)["state"], "FAILED");
    let again = client.post(&format!("{path}/retry")).await.expect(200);
    assert_eq!((&again["state"], states(&again)), (&json!("RUNNING"), vec!["QUEUED", "WAITING"]));
    let cancelled = client.post(&format!("{path}/cancel")).await.expect(200);
    assert_eq!((&cancelled["state"], states(&cancelled)), (&json!("CANCELED"), vec!["CANCELED", "SKIPPED"]));
    let unchanged = client.post(&format!("{path}/cancel")).await.expect(200);
    assert_eq!(unchanged["state"], "CANCELED");
    client.post(&format!("{path}/retry")).await.refused(409, "RFA_JOB_CONFLICT");
}

#[tokio::test]
async fn a_description_that_is_none_is_refused_with_the_place() {
    let server = Server::with(&[("auth.admin_token", TOKEN)]).await;
    let client = server.client().await;
    for (body, pointer) in [
        (json!({"type": "chain"}), "#/steps"),
        (json!({"type": "chain", "steps": [{"work_kind": "NAP"}]}), "#/steps/0/work_kind"),
        (json!({"steps": [{"type": "a", "args": [], "depends_on": ["x"]}]}), "#/steps/0/depends_on"),
    ] {
        let refused = client.call("POST", "/v1/workflows").json(&body).send().await.expect(400);
        assert_eq!(refused["errors"][0]["pointer"], pointer, "{refused}");
    }
    client
        .call("POST", "/v1/workflows")
        .json(r#"{"type":"chain","steps":[],"nmae":"x"}"#)
        .send()
        .await
        .expect(400);
    assert_eq!(client.get("/v1/workflows").await.expect(200)["workflows"], json!([]));
    let id = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
    client.get(&format!("/v1/workflows/{id}")).await.expect(404);
    operator(&server, &format!("/admin/v1/workflows/{id}")).send().await.expect(404);
}
