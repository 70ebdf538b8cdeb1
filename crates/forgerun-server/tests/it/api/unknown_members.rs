//! Members of request bodies that nobody knows (ruling C-112).

use serde_json::{Value, json};

use super::server::Server;

/// What is said about each member: its pointer and why.
fn complaints(problem: &Value) -> Vec<(String, String)> {
    let list = if problem["violations"].is_array() { &problem["violations"] } else { &problem["errors"] };
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap().to_owned();
    list.as_array().unwrap().iter().map(|entry| (text(entry, "pointer"), text(entry, "detail"))).collect()
}

#[tokio::test]
async fn a_member_that_nobody_knows_is_refused_with_what_was_probably_meant() {
    let server = Server::start().await;
    let client = server.client().await;
    let before = server.traces().await;
    let id = "01890a5d-ac96-774b-bcce-b302099a8057";
    for (path, body, pointer, meant) in [
        ("/v1/jobs".to_owned(), json!({"type": "EXECUTE", "work_knd": "X"}), "#/work_knd", "`work_kind`"),
        ("/v1/jobs".to_owned(), json!({"typ": "EXECUTE"}), "#/typ", "`type`"),
        ("/v1/jobs/batch".to_owned(), json!({"items": [{}], "prio": 1}), "#/prio", "priority"),
        ("/v1/jobs/batch".to_owned(), json!({"items": [{"item_id": "a"}]}), "#/items/0/item_id", "`itemId`"),
        ("/api/v1/jobs".to_owned(), json!({"type": "a", "max_retries": 1}), "#/max_retries", "`maxRetries`"),
        ("/api/v1/reports/generate".to_owned(), json!({"reportType": "a"}), "#/reportType", "parameters"),
        (format!("/v1/jobs/{id}/cancel"), json!({"reason": "a"}), "#/reason", "no members are expected"),
        (format!("/v1/jobs/{id}/retry"), json!({"revived": true}), "#/revived", "`revive`"),
        ("/v1/webhooks".to_owned(), json!({"uri": "https://a.example"}), "#/uri", "`url`"),
        (client.keys_path(), json!({"rotat": true}), "#/rotat", "`rotate`"),
    ] {
        let answer = client.call("POST", &path).json(body).send().await;
        let problem = answer.expect(400);
        assert_eq!(problem["type"], "/problems/validation-failed", "{path}");
        let said = complaints(&problem);
        assert_eq!((said.len(), said[0].0.as_str()), (1, pointer), "{path}: {problem}");
        // A near miss stands with the member; the list of what is expected stands once, in `detail`.
        let detail = problem["detail"].as_str().unwrap();
        assert!(said[0].1.contains(meant) || detail.contains(meant), "{path}: {problem}");
        assert!(!said[0].1.contains("expected one of"), "{path}: {problem}");
    }
    assert_eq!(server.traces().await, before, "nothing was done");
}

#[tokio::test]
async fn what_is_inside_a_payload_is_the_callers_own() {
    let server = Server::start().await;
    let client = server.client().await;
    let own = json!({"work_knd": 1, "anything": {"goes": []}});
    client.submit(json!({"type": "EXECUTE", "payload": own})).await.expect(202);
    for (path, body) in [
        ("/v1/jobs/batch", json!({"items": [{"payload": own}]})),
        ("/api/v1/jobs", json!({"type": "a", "parameters": own})),
        ("/api/v1/jobs/batch", json!({"items": [{"type": "a", "parameters": own}, {"type": "b"}]})),
    ] {
        client.call("POST", path).json(body).send().await.expect(202);
    }
}

#[tokio::test]
async fn an_operator_may_have_them_ignored_but_not_a_member_that_is_there_twice() {
    let server = Server::with(&[("api.unknown_members", "ignore")]).await;
    let client = server.client().await;
    client.submit(json!({"type": "EXECUTE", "colour": "red"})).await.expect(202);
    let batch = json!({"items": [{"colour": "red"}], "colour": "red"});
    client.call("POST", "/v1/jobs/batch").json(batch).send().await.expect(202);
    let twice = client.call("POST", "/v1/jobs").header("content-type", "application/json");
    let twice = twice.body(r#"{"type":"EXECUTE","queue":"a","queue":"b"}"#).send().await;
    let problem = twice.refused(400, "RFA_REQUEST_MALFORMED");
    assert_eq!(complaints(&problem), [("#/queue".to_owned(), "is there twice".to_owned())]);
}

#[tokio::test]
async fn a_member_that_is_there_twice_is_refused_in_items_and_settings_too() {
    let server = Server::start().await;
    let client = server.client().await;
    for (path, body, pointer) in [
        ("/v1/jobs", r#"{"type":"EXECUTE","type":"DEFERRED"}"#, "#/type"),
        ("/v1/jobs/batch", r#"{"items":[{},{"itemId":"a","itemId":"b"}]}"#, "#/items/1/itemId"),
        (
            "/api/v1/jobs/batch",
            r#"{"type":"a","items":[{"work_kind":"SUCCESS_FAST","work_kind":"FAIL_IMMEDIATE"}]}"#,
            "#/items/0/work_kind",
        ),
        ("/ojs/v1/jobs", r#"{"type":"a","args":[],"options":{"queue":"a","queue":"b"}}"#, "#/options/queue"),
        (
            "/ojs/v1/jobs",
            r#"{"type":"a","args":[],"options":{"retry":{"max_attempts":1,"max_attempts":9}}}"#,
            "#/options/retry/max_attempts",
        ),
        ("/ojs/v1/jobs/batch", r#"{"jobs":[{"type":"a","args":[],"type":"b"}]}"#, "#/jobs/0/type"),
    ] {
        let call = client.call("POST", path).header("content-type", "application/json").body(body);
        let answer = call.send().await;
        assert!(answer.status == 400 && answer.text().contains(pointer), "{path}: {answer:?}");
    }
    // What is inside a payload is the caller's own.
    let body = r#"{"type":"a","args":[{"x":1,"x":2}],"meta":{"y":1,"y":2}}"#;
    let call = client.call("POST", "/ojs/v1/jobs").header("content-type", "application/json").body(body);
    assert_eq!(call.send().await.status, 201);
}
