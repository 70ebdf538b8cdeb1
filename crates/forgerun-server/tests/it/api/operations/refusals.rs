//! Bad requests: what is said, and that nothing of them is left.

use serde_json::{Value, json};

use super::denied;
use crate::api::server::Server;

#[tokio::test]
async fn bad_bodies_are_refused_by_path_and_leave_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    let before = server.traces().await;
    let long = "x".repeat(300);
    let large = json!({"type": "a", "parameters": {"x": "x".repeat(300_000)}});
    for (body, code, paths) in [
        (json!({}), "INVALID_PAYLOAD", &["type"][..]),
        (json!({"type": 7}), "INVALID_PAYLOAD", &["type"]),
        (json!({"type": "a", "parameters": [1]}), "INVALID_PAYLOAD", &["parameters"]),
        (json!({"type": "a", "queue": 1, "priority": "high"}), "INVALID_PAYLOAD", &["queue", "priority"]),
        (json!({"type": ""}), "INVALID_JOB_TYPE", &["type"]),
        (json!({"type": long}), "JOB_TYPE_TOO_LONG", &["type"]),
        (json!({"type": "a", "queue": ""}), "INVALID_QUEUE", &["queue"]),
        (json!({"type": "a", "queue": "bad queue!"}), "INVALID_QUEUE", &["queue"]),
        (json!({"type": "a", "queue": long}), "QUEUE_NAME_TOO_LONG", &["queue"]),
        (json!({"type": "a", "work_kind": "NOPE"}), "INVALID_ARGS", &["work_kind"]),
        (json!({"type": "a", "work_kind": "PAYLOAD_INVALID"}), "INVALID_ARGS", &["work_kind"]),
        (json!({"type": "a", "callback": "ftp://a"}), "INVALID_ARGS", &["callback"]),
        (json!({"type": "a", "maxRetries": -1}), "INVALID_ARGS", &["maxRetries"]),
        (json!({"type": "a", "retry_mode": "never"}), "INVALID_ARGS", &["retry_mode"]),
        (large, "PAYLOAD_TOO_LARGE", &["parameters"]),
    ] {
        for path in ["/api/v1/jobs", "/api/v1/reports/generate"] {
            if path.ends_with("generate") && body == json!({}) {
                continue;
            }
            let problem = denied(&client.call("POST", path).json(&body).send().await, 400, code);
            assert_eq!(problem["title"], "One or more validation errors occurred.");
            let named: Vec<&String> = problem["errors"].as_object().unwrap().keys().collect();
            assert_eq!(named, paths, "{problem}");
            assert!(problem["errors"][paths[0]][0].is_string(), "{problem}");
            let violations = problem["violations"].as_array().unwrap();
            assert_eq!(violations.len(), paths.len());
            assert!(violations[0]["pointer"].as_str().unwrap().starts_with("#/"), "{problem}");
            assert_eq!(problem["details"]["field"], violations[0]["pointer"].as_str().unwrap()[2..]);
            assert_eq!(problem["processingStage"], "validation");
        }
    }
    for body in ["{", "[]", "null", "\"a\"", "{\"type\":}"] {
        denied(&client.call("POST", "/api/v1/jobs").json(body).send().await, 400, "INVALID_PAYLOAD");
    }
    let key = client.call("POST", "/api/v1/jobs").header("idempotency-key", &long).json(json!({"type": "a"}));
    denied(&key.send().await, 400, "INVALID_ARGS");
    assert_eq!(server.traces().await, before);
}

#[tokio::test]
async fn checks_come_in_the_order_of_the_model() {
    let server = Server::with(&[("limits.max_body_bytes", "300000")]).await;
    let client = server.client().await;
    let before = server.traces().await;
    // Each request is wrong in every way from its own on; the first counts.
    let worst =
        || server.call("POST", "/api/v1/jobs").body("x".repeat(300_001)).header("accept", "image/png");
    denied(&server.call("POST", "/api/v1/nothing/here/at-all").send().await, 404, "NOT_FOUND");
    denied(&server.call("PUT", "/api/v1/jobs").send().await, 405, "RFA_REQUEST_METHOD_NOT_ALLOWED");
    denied(&worst().send().await, 401, "UNAUTHENTICATED");
    let keyed =
        |call: crate::api::http::Call| call.header("authorization", &format!("Bearer {}", client.key));
    denied(&keyed(worst()).send().await, 406, "RFA_REQUEST_NOT_ACCEPTABLE");
    denied(&keyed(worst().without("accept")).send().await, 415, "INVALID_PAYLOAD");
    let typed = || keyed(worst().without("accept")).header("content-type", "application/json");
    denied(&typed().send().await, 413, "PAYLOAD_TOO_LARGE");
    denied(&typed().body("{").send().await, 400, "INVALID_PAYLOAD");
    assert_eq!(server.traces().await, before);
}

#[tokio::test]
async fn methods_that_a_route_does_not_have_are_405_with_those_it_has() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    for (method, path, allow) in [
        ("GET", "/api/v1/jobs".to_owned(), "POST"),
        ("PUT", format!("/api/v1/jobs/{id}"), "GET, HEAD, DELETE"),
        ("GET", format!("/api/v1/jobs/{id}/cancel"), "POST"),
        ("POST", format!("/api/v1/jobs/{id}/result"), "GET, HEAD"),
        ("DELETE", format!("/api/v1/reports/{id}"), "GET, HEAD"),
        ("GET", "/api/v1/reports/generate".to_owned(), "POST"),
    ] {
        let answer = client.call(method, &path).send().await;
        denied(&answer, 405, "RFA_REQUEST_METHOD_NOT_ALLOWED");
        assert_eq!(answer.header("allow"), Some(allow), "{method} {path}");
    }
    for path in ["/api/v1", "/api/v1/", "/api/v1/jobs/", "/api/v1/images/resize", "/api/v2/jobs", "/api"] {
        let answer = client.get(path).await;
        assert_eq!(answer.expect(404)["type"], "about:blank", "{path}");
    }
}

/// AO §8.2.
#[tokio::test]
async fn an_unknown_id_is_404_with_the_id_and_the_trace() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = "8f9a1d22-cc31-4a3c-9345-d16f42f4bb91";
    let traceparent = "00-550e8400e29b41d4a716446655440000-b7ad6b7169203331-01";
    for tail in ["", "/result"] {
        let call = client.call("GET", &format!("/api/v1/jobs/{id}{tail}")).header("traceparent", traceparent);
        let problem = denied(&call.send().await, 404, "NOT_FOUND");
        assert_eq!((&problem["title"], &problem["traceId"]), (&json!("Job not found"), &json!(traceparent)));
        assert!(problem["detail"].as_str().unwrap().contains(id), "{problem}");
    }
    for id in ["nonsense", "8f9a1d22", "%00", "batches"] {
        denied(&client.get(&format!("/api/v1/jobs/{id}")).await, 404, "NOT_FOUND");
        denied(&client.get(&format!("/api/v1/reports/{id}")).await, 404, "NOT_FOUND");
    }
}

/// AO §12.1.2.
#[tokio::test]
async fn every_route_asks_for_a_key_and_shows_nothing_of_others() {
    let server = Server::start().await;
    let (client, other) = (server.client().await, server.client().await);
    let id = client.begun("SUCCESS_FAST").await;
    server.succeed().await;
    let routes = [
        ("POST", "/api/v1/jobs".to_owned()),
        ("POST", "/api/v1/reports/generate".to_owned()),
        ("GET", format!("/api/v1/jobs/{id}")),
        ("DELETE", format!("/api/v1/jobs/{id}")),
        ("POST", format!("/api/v1/jobs/{id}/cancel")),
        ("GET", format!("/api/v1/jobs/{id}/result")),
        ("GET", format!("/api/v1/reports/{id}")),
        ("GET", format!("/api/v1/reports/{id}/download")),
        ("GET", format!("/api/v1/results/{id}")),
    ];
    let mut bodies: Vec<Value> = Vec::new();
    for (method, path) in &routes {
        let answer = server.call(method, path).send().await;
        let problem = denied(&answer, 401, "UNAUTHENTICATED");
        assert_eq!(
            (&problem["title"], answer.header("www-authenticate")),
            (&json!("Unauthorized"), Some("Bearer"))
        );
        assert!(!problem.to_string().contains(&id));
        if path.contains(&id) {
            let mut foreign = denied(&other.call(method, path).send().await, 403, "TENANT_ACCESS_DENIED");
            for member in ["instance", "traceId"] {
                foreign.as_object_mut().unwrap().remove(member);
            }
            bodies.push(foreign);
        }
    }
    assert!(bodies.windows(2).all(|pair| pair[0] == pair[1]), "the same words for all: {bodies:?}");
    let hiding = Server::with(&[("auth.hide_foreign", "true")]).await;
    let (client, other) = (hiding.client().await, hiding.client().await);
    let id = client.begun("SUCCESS_FAST").await;
    denied(&other.poll(&id).await, 404, "NOT_FOUND");
}

#[tokio::test]
async fn a_result_that_is_not_there_yet_is_409() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    for path in [format!("jobs/{id}/result"), format!("reports/{id}"), format!("results/{id}")] {
        let problem = denied(&client.get(&format!("/api/v1/{path}")).await, 409, "INVALID_STATE_TRANSITION");
        assert_eq!(problem["type"], "/problems/result-not-ready");
        assert_eq!(problem["details"]["status"], "Queued");
    }
}

#[tokio::test]
async fn full_queues_and_spent_rates_say_when_to_come_back() {
    let server = Server::with(&[("limits.queue_size", "1"), ("limits.rate_per_minute", "60")]).await;
    let client = server.client().await;
    client.begun("SUCCESS_FAST").await;
    let full = client.begin(json!({"type": "a", "work_kind": "SUCCESS_FAST"})).await;
    let problem = denied(&full, 503, "QUEUE_FULL");
    assert_eq!(full.header("retry-after"), Some(problem["retryAfter"].to_string().as_str()));
    let mut last = client.begin(json!({})).await;
    for _ in 0..70 {
        last = client.poll("8f9a1d22-cc31-4a3c-9345-d16f42f4bb91").await;
    }
    let problem = denied(&last, 429, "RATE_LIMITED");
    assert!(problem.get("retryAfter").is_none(), "a poll is paced by the header alone: {problem}");
    assert!(last.header("retry-after").is_some() && last.header("x-ratelimit-limit").is_some());
}
