//! Bad input, one of each kind: the status, the code, the field.

use forgerun_server::Bounds;
use forgerun_store::Fault;

use super::*;
use crate::api::faulty::{Faulty, Mood};

#[tokio::test]
async fn every_bad_envelope_has_its_status_and_code_and_writes_nothing() {
    let world = World::start().await;
    let before = world.server.traces().await;
    let with = |options: Value| json!({"type": "a", "args": [], "options": options}).to_string();
    let long = "x".repeat(256);
    let meta = "m".repeat(64 * 1024);
    for (body, status, code, field) in [
        (json!({"queue": "emails", "args": {}}).to_string(), 400, "INVALID_PAYLOAD", "type"),
        (json!({"type": "A b", "args": []}).to_string(), 400, "INVALID_JOB_TYPE", "type"),
        (json!({"type": long, "args": []}).to_string(), 400, "JOB_TYPE_TOO_LONG", "type"),
        (json!({"type": "a", "args": 5}).to_string(), 400, "INVALID_ARGS", "args"),
        (json!({"type": "a", "args": [], "meta": 5}).to_string(), 400, "INVALID_METADATA", "meta"),
        (
            json!({"type": "a", "args": [], "meta": {"m": meta}}).to_string(),
            413,
            "METADATA_TOO_LARGE",
            "meta",
        ),
        (with(json!({"queue": "Bad!"})), 400, "INVALID_QUEUE", "options.queue"),
        (with(json!({"queue": long})), 400, "QUEUE_NAME_TOO_LONG", "options.queue"),
        (
            with(json!({"retry": {"max_attempts": -1}})),
            422,
            "INVALID_RETRY_POLICY",
            "options.retry.max_attempts",
        ),
        (
            with(json!({"retry": {"backoff_coefficient": 0.1}})),
            422,
            "INVALID_RETRY_POLICY",
            "options.retry.backoff_coefficient",
        ),
        (with(json!({"scheduled_at": "soon"})), 400, "INVALID_PAYLOAD", "options.scheduled_at"),
        (with(json!({"priority": 101})), 400, "INVALID_PAYLOAD", "options.priority"),
        (
            with(json!({"rate_limit": {"concurrency": 1, "on_limit": "drop"}})),
            422,
            "UNSUPPORTED_FEATURE",
            "options.rate_limit.on_limit",
        ),
    ] {
        let answer = call(&world.client, "POST", "jobs").body(body.clone()).send().await;
        let answered = answer.expect(status);
        assert_eq!(answered["code"], code, "{body:.80}");
        assert_eq!(answered["details"]["field"], field, "{body:.80}");
        assert!(answered["details"]["constraint"].is_string());
        assert_eq!(answered["retryable"], false);
    }
    let policy =
        call(&world.client, "POST", "jobs").body(with(json!({"retry": {"max_attempts": -1}}))).send().await;
    let body = refused(&policy, 422, "INVALID_RETRY_POLICY", "validation_error");
    assert_eq!(body["error"]["type"], "validation_error");
    assert!(body["message"].as_str().unwrap().contains("max_attempts"));
    assert_eq!(world.server.traces().await, before, "nothing was written");
}

#[tokio::test]
async fn bodies_that_are_none_are_invalid_payloads() {
    let world = World::start().await;
    for body in ["", "{", "[]", "null", "{\"type\":\"a\",\"args\":[}"] {
        for path in [
            "jobs",
            "jobs/batch",
            "jobs/bulk",
            "workers/fetch",
            "workers/ack",
            "workers/nack",
            "workers/heartbeat",
            "workers/progress",
        ] {
            let answer = call(&world.client, "POST", path).body(body).send().await;
            let answered = refused(&answer, 400, "INVALID_PAYLOAD", "invalid_payload");
            assert_eq!(answered["retryable"], false);
        }
    }
    let typed = world
        .client
        .call("POST", "/ojs/v1/jobs")
        .header("content-type", "text/xml")
        .body("<a/>")
        .send()
        .await;
    refused(&typed, 400, "INVALID_PAYLOAD", "invalid_payload");
    let packed = call(&world.client, "POST", "jobs").header("content-encoding", "br").body("x").send().await;
    refused(&packed, 415, "UNSUPPORTED_COMPRESSION", "unsupported_compression");
}

#[tokio::test]
async fn an_envelope_has_a_megabyte_and_no_more() {
    let world = World::start().await;
    let around = json!({"type": "a", "args": [""]}).to_string().len();
    let of = |size: usize| json!({"type": "a", "args": ["x".repeat(size - around)]}).to_string();
    call(&world.client, "POST", "jobs").body(of(1 << 20)).send().await.expect(201);
    let large = call(&world.client, "POST", "jobs").body(of((1 << 20) + 1)).send().await;
    let body = refused(&large, 413, "PAYLOAD_TOO_LARGE", "payload_too_large");
    assert_eq!(body["details"]["limit_bytes"], 1 << 20);
}

#[tokio::test]
async fn a_worker_that_asks_for_too_much_is_refused() {
    let world = World::start().await;
    let queues: Vec<String> = (0..100).map(|n| format!("q{n}")).collect();
    for (body, field) in [
        (json!({}), "queues"),
        (json!({"queues": []}), "queues"),
        (json!({"queues": queues}), "queues"),
        (json!({"queues": ["a"], "count": 1_000_000}), "count"),
        (json!({"queues": ["a"], "count": 0}), "count"),
        (json!({"queues": ["a"], "wait_ms": 30_001}), "wait_ms"),
        (json!({"queues": ["a"], "worker_id": ""}), "worker_id"),
    ] {
        let answer = world.post("workers/fetch", body).await;
        let body = refused(&answer, 400, "INVALID_PAYLOAD", "invalid_request");
        assert_eq!(body["details"]["field"], field);
    }
    refused(
        &world.post("workers/fetch", json!({"queues": ["A"]})).await,
        400,
        "INVALID_QUEUE",
        "invalid_request",
    );
    for (path, body, field) in [
        ("workers/ack", json!({}), "job_id"),
        ("workers/nack", json!({"job_id": "x"}), "error"),
        ("workers/nack", json!({"job_id": "x", "error": "boom"}), "error"),
        ("workers/heartbeat", json!({}), "worker_id"),
        ("workers/progress", json!({"job_id": "x"}), "progress"),
    ] {
        let body = refused(&world.post(path, body).await, 400, "INVALID_PAYLOAD", "invalid_request");
        assert_eq!(body["details"]["field"], field, "{path}");
    }
    for path in ["workers/ack", "workers/nack"] {
        let body = json!({"job_id": "nobody", "error": {"code": "x", "message": "m"}});
        refused(&world.post(path, body).await, 404, "NOT_FOUND", "not_found");
    }
}

#[tokio::test]
async fn a_strict_catalogue_has_400_for_a_bad_policy_and_takes_objects() {
    let world = World::with(&[("ojs.strict_catalog", "true")]).await;
    let body = json!({"type": "a", "args": [], "options": {"retry": {"max_attempts": -1}}});
    refused(&world.post("jobs", body).await, 400, "INVALID_RETRY_POLICY", "validation_error");
    world.post("jobs", json!({"type": "a", "args": {"b": 1}})).await.expect(201);
}

#[tokio::test]
async fn a_key_that_was_revoked_or_expired_is_refused_in_ojs_words() {
    let world = World::start().await;
    let revoke = format!("/v1/clients/{}/keys/revoke", world.client.id);
    let other = world.server.client().await;
    world.client.call("POST", &revoke).json(json!({"key_id": world.client.key_id})).send().await;
    let answer = world.get("queues").await;
    refused(&answer, 403, "PERMISSION_DENIED", "permission_denied");
    world.server.clock.advance(std::time::Duration::from_secs(200 * 24 * 3600));
    refused(&other.get("/ojs/v1/queues").await, 401, "TOKEN_EXPIRED", "token_expired");
}

#[tokio::test]
async fn trouble_of_the_store_is_a_backend_error_that_says_when_to_come_back() {
    let store = Faulty::new();
    let server = Server::on(store.clone(), &[], Bounds::default()).await;
    let client = server.client().await;
    let id = push(&client, json!({})).await;
    for (fault, status, code, word) in [
        (Fault::Unavailable, 503, "BACKEND_UNAVAILABLE", "backend_unavailable"),
        (Fault::Timeout, 504, "BACKEND_TIMEOUT", "backend_timeout"),
        (Fault::Full, 503, "BACKEND_UNAVAILABLE", "backend_unavailable"),
        (Fault::Corrupt, 500, "BACKEND_ERROR", "backend_error"),
    ] {
        store.set(Mood::Broken(fault));
        for answer in [
            post(&client, "jobs", json!({"type": "a", "args": []})).await,
            post(&client, "workers/fetch", json!({"queues": ["default"]})).await,
            client.get(&format!("/ojs/v1/jobs/{id}")).await,
        ] {
            let body = refused(&answer, status, code, word);
            assert_eq!(body["retryable"], true);
            assert!(!answer.text().contains("secret"), "what went wrong inside is for the log: {body}");
        }
        let health = server.call("GET", "/ojs/v1/health").send().await;
        assert_eq!((health.status, &health.json()["backend"]["status"]), (503, &json!("unhealthy")));
        store.set(Mood::Fine);
    }
    server.call("GET", "/ojs/v1/health").send().await.expect(200);
}
