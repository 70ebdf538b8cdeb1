//! The same request twice.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::server::Server;

fn body(key: Option<&str>) -> Value {
    json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "idempotency_key": key})
}

#[tokio::test]
async fn a_key_used_again_gives_the_same_job() {
    let server = Server::start().await;
    let client = server.client().await;
    let first = client.submit(body(Some("a"))).await;
    assert_eq!(first.header("idempotent-replayed"), None);
    let again =
        client.submit(json!({"work_kind": "SUCCESS_FAST", "idempotency_key": "a", "type": "EXECUTE"})).await;
    assert_eq!(again.expect(202), first.expect(202));
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    assert_eq!(again.header("location"), first.header("location"));
    assert_ne!(client.submit(body(Some("b"))).await.expect(202)["job_id"], first.json()["job_id"]);
    assert_eq!(server.traces().await.0, 2);
}

#[tokio::test]
async fn a_replay_tells_the_current_state() {
    let server = Server::start().await;
    let client = server.client().await;
    client.submit(body(Some("a"))).await.expect(202);
    server.succeed().await;
    assert_eq!(client.submit(body(Some("a"))).await.expect(202)["state"], "SUCCEEDED");
}

#[tokio::test]
async fn without_a_key_every_submission_is_a_job() {
    let server = Server::start().await;
    let client = server.client().await;
    for blank in [json!(null), json!("")] {
        let mut body = body(None);
        body["idempotency_key"] = blank;
        let ids: BTreeSet<String> =
            [client.job_like(body.clone()).await, client.job_like(body.clone()).await].into();
        assert_eq!(ids.len(), 2);
    }
}

#[tokio::test]
async fn the_key_of_the_body_counts_and_the_header_stands_in_for_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let send = async |header: Option<&str>, key: Option<&str>| {
        let mut call = client.call("POST", "/v1/jobs").json(body(key));
        if let Some(header) = header {
            call = call.header("idempotency-key", header);
        }
        call.send().await.expect(202)["job_id"].as_str().unwrap().to_owned()
    };
    let both = send(Some("B"), Some("A")).await;
    assert_eq!(send(None, Some("A")).await, both);
    assert_eq!(send(Some("A"), None).await, both);
    assert_eq!(send(Some("\"A\""), None).await, both);
    assert_ne!(send(Some("B"), None).await, both);
}

#[tokio::test]
async fn a_header_that_is_not_one_key_is_refused_and_not_passed_over() {
    let server = Server::start().await;
    let client = server.client().await;
    let before = server.traces().await;
    for path in ["/v1/jobs", "/api/v1/jobs"] {
        let call = client.call("POST", path).json(json!({"type": "EXECUTE"})).header("idempotency-key", "A");
        let problem = call.header("idempotency-key", "B").send().await.expect(400);
        assert_eq!(problem["type"], "/problems/malformed-request", "{path}");
    }
    assert_eq!(server.traces().await, before);
}

#[tokio::test]
async fn different_keys_in_header_and_body_can_be_refused() {
    let server = Server::with(&[("idempotency.reject_mismatch", "true")]).await;
    let client = server.client().await;
    let call = client.call("POST", "/v1/jobs").json(body(Some("A")));
    call.clone().header("idempotency-key", "B").send().await.refused(409, "RFA_EXEC_IDEMPOTENCY_CONFLICT");
    call.header("idempotency-key", "A").send().await.expect(202);
}

#[tokio::test]
async fn a_key_with_another_request_is_a_conflict() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job_like(body(Some("a"))).await;
    let other = json!({"type": "EXECUTE", "work_kind": "SUCCESS_SLOW", "idempotency_key": "a"});
    let problem = client.submit(other).await.refused(409, "RFA_EXEC_IDEMPOTENCY_CONFLICT");
    assert_eq!(problem["type"], "/problems/idempotency-conflict");
    assert_eq!(problem["details"]["existing_job_id"], id);
    assert_eq!(server.traces().await.0, 1);
}

#[tokio::test]
async fn clients_do_not_meet_in_their_keys() {
    let server = Server::start().await;
    let (a, b) = (server.client().await, server.client().await);
    assert_ne!(a.job_like(body(Some("k"))).await, b.job_like(body(Some("k"))).await);
}

#[tokio::test]
async fn fifty_equal_keys_at_once_make_one_job() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let call = client.call("POST", "/v1/jobs").json(body(Some("same")));
        calls.spawn(async move { call.send().await.expect(202)["job_id"].to_string() });
    }
    let ids: BTreeSet<String> = calls.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 1);
    assert_eq!(server.traces().await.0, 1);
}

#[tokio::test]
async fn a_hundred_submissions_at_once_are_a_hundred_jobs() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        calls.spawn(async move { client.job().await });
    }
    let ids: BTreeSet<String> = calls.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 100);
}

#[tokio::test]
async fn a_deferred_job_is_found_again_after_its_time() {
    let server = Server::start().await;
    let client = server.client().await;
    let at = forgerun_wire::time::millis(server.app.clock.now() + std::time::Duration::from_secs(60));
    let body = json!({"type": "DEFERRED", "execution_at": at, "idempotency_key": "later"});
    let id = client.job_like(body.clone()).await;
    server.clock.advance(std::time::Duration::from_secs(120));
    assert_eq!(client.job_like(body.clone()).await, id);
    let mut fresh = body.clone();
    fresh["idempotency_key"] = json!("other");
    client.submit(fresh).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
    let mut changed = body;
    changed["work_kind"] = json!("SUCCESS_FAST");
    client.submit(changed).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
}

#[tokio::test]
async fn bodies_that_differ_in_a_large_integer_alone_are_two_requests() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = |path: &str, number: &str| match path {
        "/v1/jobs" => format!(r#"{{"type": "EXECUTE", "payload": {{"account": {number}}}}}"#),
        _ => format!(r#"{{"type": "report", "parameters": {{"account": {number}}}}}"#),
    };
    for path in ["/v1/jobs", "/api/v1/jobs"] {
        let send = async |number: &str| {
            let call = client.call("POST", path).json(body(path, number));
            call.header("idempotency-key", "one").send().await
        };
        assert_eq!(send("9007199254740993").await.status, 202, "{path}");
        let again = send("9007199254740993").await;
        assert_eq!((again.status, again.header("idempotent-replayed")), (202, Some("true")), "{path}");
        // In a double it is the same number.
        assert_eq!(send("9007199254740992").await.status, 409, "{path}");
    }
    assert_eq!(server.traces().await.0, 2);
}

#[tokio::test]
async fn a_body_is_judged_alike_with_and_without_a_key() {
    let server = Server::start().await;
    let client = server.client().await;
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    for value in ["1e999", "-1e999", "\"\\ud800\"", "[1", "nul", &nested(100), &nested(10_000)] {
        for (path, member) in [("/v1/jobs", "payload"), ("/api/v1/jobs", "parameters")] {
            let body = format!(r#"{{"type": "EXECUTE", "{member}": {{"a": {value}}}}}"#);
            let call = || client.call("POST", path).json(&body);
            let without = call().send().await.status;
            let with = call().header("idempotency-key", &format!("{path}{}", body.len())).send().await.status;
            let shown: String = value.chars().take(20).collect();
            assert_eq!(with, without, "{shown} at {path}");
        }
    }
}
