//! Every way a submission can be refused, in the order of the checks; and that a refusal leaves
//! nothing behind.

use serde_json::{Value, json};

use super::http::Call;
use super::server::{Client, Server};

const MALFORMED: &str = "RFA_REQUEST_MALFORMED";
const INVALID: &str = "RFA_JOB_VALIDATION_FAILED";

/// What a body is refused with: code, slug, and the members that are named.
type Expected<'a> = (&'a str, &'a str, &'a [&'a str]);

fn bodies() -> Vec<(Value, Expected<'static>)> {
    let deferred = |at: &str| json!({"type": "DEFERRED", "execution_at": at});
    let with = |name: &str, value: Value| {
        let mut body = json!({"type": "EXECUTE"});
        body[name] = value;
        body
    };
    let big = "x".repeat(257 * 1024);
    vec![
        (json!({}), (MALFORMED, "malformed-request", &["type"])),
        (json!([]), (MALFORMED, "malformed-request", &[])),
        (json!("EXECUTE"), (MALFORMED, "malformed-request", &[])),
        (json!({"type": null}), (MALFORMED, "malformed-request", &["type"])),
        (json!({"type": 7}), (MALFORMED, "malformed-request", &["type"])),
        (json!({"type": "FOO"}), (INVALID, "invalid-job-type", &["type"])),
        (json!({"type": ""}), (INVALID, "invalid-job-type", &["type"])),
        (json!({"type": "DEFERRED"}), (MALFORMED, "malformed-request", &["execution_at"])),
        (deferred("tomorrow"), (MALFORMED, "malformed-request", &["execution_at"])),
        (deferred("2999-01-01"), (MALFORMED, "malformed-request", &["execution_at"])),
        (deferred("2020-01-01T00:00:00Z"), (INVALID, "schedule-in-past", &["execution_at"])),
        (
            with("execution_at", json!("2999-01-01T00:00:00Z")),
            (INVALID, "validation-failed", &["execution_at"]),
        ),
        (with("execution_at", json!(5)), (MALFORMED, "malformed-request", &["execution_at"])),
        (with("work_kind", json!("NOPE")), (INVALID, "validation-failed", &["work_kind"])),
        (with("work_kind", json!("PAYLOAD_INVALID")), (INVALID, "validation-failed", &["work_kind"])),
        (with("work_kind", json!(true)), (MALFORMED, "malformed-request", &["work_kind"])),
        (with("callback", json!("ftp://x")), (INVALID, "invalid-callback-url", &["callback"])),
        (with("callback", json!("https://")), (INVALID, "invalid-callback-url", &["callback"])),
        (with("callback", json!("not a url")), (INVALID, "invalid-callback-url", &["callback"])),
        (with("callback", json!("file:///etc/passwd")), (INVALID, "invalid-callback-url", &["callback"])),
        (
            with("callback", json!("http://me:pw@example.com/")),
            (INVALID, "invalid-callback-url", &["callback"]),
        ),
        (
            with("callback", json!("http://example.com:65536/")),
            (INVALID, "invalid-callback-url", &["callback"]),
        ),
        (with("callback", json!("http://0xa9fea9fe/")), (INVALID, "invalid-callback-url", &["callback"])),
        (
            with("callback", json!("http://169.254.169.254/")),
            (INVALID, "invalid-callback-url", &["callback"]),
        ),
        (with("callback", json!({})), (MALFORMED, "malformed-request", &["callback"])),
        (with("queue", json!("")), (INVALID, "invalid-queue", &["queue"])),
        (with("queue", json!("x".repeat(256))), (INVALID, "invalid-queue", &["queue"])),
        (with("queue", json!("a\nb")), (INVALID, "invalid-queue", &["queue"])),
        (with("queue", json!("bad queue!")), (INVALID, "invalid-queue", &["queue"])),
        (with("queue", json!("Default")), (INVALID, "invalid-queue", &["queue"])),
        (with("queue", json!([])), (MALFORMED, "malformed-request", &["queue"])),
        (with("priority", json!("high")), (MALFORMED, "malformed-request", &["priority"])),
        (with("priority", json!(1000)), (INVALID, "validation-failed", &["priority"])),
        (with("retry_mode", json!("never")), (INVALID, "validation-failed", &["retry_mode"])),
        (with("idempotency_key", json!(5)), (MALFORMED, "malformed-request", &["idempotency_key"])),
        (
            with("idempotency_key", json!("k".repeat(256))),
            (INVALID, "validation-failed", &["idempotency_key"]),
        ),
        (with("idempotency_key", json!("a\u{0}b")), (INVALID, "validation-failed", &["idempotency_key"])),
        (with("payload", json!(big.clone())), (INVALID, "job-payload-too-large", &["payload"])),
        (
            with("correlation_id", json!("x".repeat(300 * 1024))),
            (INVALID, "job-payload-too-large", &["payload"]),
        ),
        // Two wrong members: one problem that names both.
        (
            json!({"type": "EXECUTE", "callback": "ftp://x", "queue": ""}),
            (INVALID, "invalid-queue", &["queue", "callback"]),
        ),
    ]
}

#[tokio::test]
async fn every_bad_body_is_a_400_that_names_the_members_and_leaves_nothing() {
    let server = Server::start().await;
    let client = server.client().await;
    let before = server.traces().await;
    for (body, (code, slug, members)) in bodies() {
        let problem = client.submit(body.clone()).await.refused(400, code);
        let body: String = body.to_string().chars().take(100).collect();
        assert_eq!(problem["type"], format!("/problems/{slug}"), "{body}");
        let none = Vec::new();
        let errors = problem["errors"].as_array().unwrap_or(&none);
        let pointers: Vec<String> = members.iter().map(|member| format!("#/{member}")).collect();
        let named: Vec<&str> = errors.iter().map(|error| error["pointer"].as_str().unwrap()).collect();
        assert_eq!(named, pointers, "{body}");
        for member in members {
            assert!(problem["detail"].as_str().unwrap().contains(member), "{problem}");
        }
        assert_eq!(
            (&problem["processingStage"], &problem["retryable"]),
            (&json!("validation"), &json!(false))
        );
        assert!(problem.get("jobId").is_none());
    }
    for broken in ["{", "", "nonsense", "{\"type\":\"EXECUTE\"} trailing", "\u{feff}{}"] {
        client.call("POST", "/v1/jobs").json(broken).send().await.refused(400, MALFORMED);
    }
    assert_eq!(server.traces().await, before);
}

/// A submission that is wrong in every way at once; each step mends what was complained about.
fn mend(server: &Server, client: &Client, other: &Client, step: usize) -> (Call, u16, &'static str) {
    let path = ["/v1/jobs/", "/v1/jobs"][usize::from(step > 0)];
    let method = ["PATCH", "POST"][usize::from(step > 1)];
    let mut call = server.call(method, path);
    call = match step {
        0..3 => call,
        3 => call.header("authorization", &format!("Bearer {}", other.key)),
        _ => call.header("authorization", &format!("Bearer {}", client.key)),
    };
    call = call.header("accept", if step > 4 { "application/json" } else { "image/png" });
    call = call.header("content-type", if step > 5 { "application/json" } else { "text/plain" });
    call = call.header("idempotency-key", "taken");
    call = match step {
        0..=6 => call.body(vec![b'{'; 3000]),
        7 => call.body("{"),
        8 => call.body(r#"{"type":"EXECUTE","callback":"ftp://x"}"#),
        9 => call.body(r#"{"type":"EXECUTE","work_kind":"SUCCESS_SLOW"}"#),
        _ => call.without("idempotency-key").body(r#"{"type":"EXECUTE"}"#),
    };
    let expected = [
        (404, "RFA_REQUEST_ROUTE_NOT_FOUND"),
        (405, "RFA_REQUEST_METHOD_NOT_ALLOWED"),
        (401, "RFA_AUTH_INVALID_CREDENTIALS"),
        (429, "RFA_REQUEST_RATE_LIMITED"),
        (406, "RFA_REQUEST_NOT_ACCEPTABLE"),
        (415, "RFA_REQUEST_UNSUPPORTED_MEDIA_TYPE"),
        (413, "RFA_REQUEST_PAYLOAD_TOO_LARGE"),
        (400, MALFORMED),
        (400, INVALID),
        (409, "RFA_EXEC_IDEMPOTENCY_CONFLICT"),
        (503, "RFA_EXEC_QUEUE_FULL"),
    ][step];
    (call, expected.0, expected.1)
}

#[tokio::test]
async fn the_checks_come_in_the_order_of_the_model_and_the_first_that_fails_answers() {
    let settings = [
        ("limits.rate_per_minute", "20"),
        ("limits.max_body_bytes", "2048"),
        ("limits.max_job_payload_kb", "1"),
        ("limits.queue_size", "1"),
    ];
    let server = Server::with(&settings).await;
    let (client, other) = (server.client().await, server.client().await);
    let taken = json!({"type": "EXECUTE", "idempotency_key": "taken"});
    client.submit(taken).await.expect(202);
    while other.get("/v1/jobs").await.status == 200 {}
    let before = server.traces().await;
    for step in 0..=10 {
        let (call, status, code) = mend(&server, &client, &other, step);
        call.send().await.refused(status, code);
    }
    assert_eq!(server.traces().await, before);
}

#[tokio::test]
async fn types_can_be_switched_off() {
    let server = Server::with(&[("catalog.allowed_types", "EXECUTE")]).await;
    let client = server.client().await;
    client.submit(json!({"type": "EXECUTE"})).await.expect(202);
    let problem = client.submit(json!({"type": "EMIT_EVENT"})).await.refused(400, INVALID);
    assert_eq!(problem["type"], "/problems/invalid-job-type");
}

#[tokio::test]
async fn a_time_just_passed_is_taken_and_one_with_an_offset_is_converted() {
    let server = Server::start().await;
    server.clock.stop();
    let client = server.client().await;
    let now = server.app.clock.now();
    let text = |time| forgerun_wire::time::millis(time);
    let just_passed = now - std::time::Duration::from_millis(300);
    let body = json!({"type": "DEFERRED", "execution_at": text(just_passed)});
    assert_eq!(client.submit(body).await.expect(202)["state"], "QUEUED");
    let too_late = now - std::time::Duration::from_millis(1500);
    client.submit(json!({"type": "DEFERRED", "execution_at": text(too_late)})).await.refused(400, INVALID);
    let id = client.job_like(json!({"type": "DEFERRED", "execution_at": "2999-01-01T02:00:00+02:00"})).await;
    assert_eq!(
        client.get(&format!("/v1/jobs/{id}")).await.expect(200)["execution_at"],
        "2999-01-01T00:00:00.000Z"
    );
}

#[tokio::test]
async fn messages_name_the_value_and_what_is_accepted() {
    let server = Server::start().await;
    let client = server.client().await;
    let submit =
        |kind: &str| client.call("POST", "/v1/jobs").json(json!({"type": "EXECUTE", "work_kind": kind}));
    submit("success_Fast").send().await.expect(202);
    let long = "x".repeat(1000);
    let webhook = json!({"url": "https://example.com/", "events": ["JOB_FAILED", "job_lost"]});
    for (call, words) in [
        (submit("SUCCES_FAST"), &["`SUCCES_FAST`", "did you mean `SUCCESS_FAST`?"][..]),
        (submit(&long), &["/openapi.json lists", "x…`"]),
        (
            client.call("GET", "/v1/jobs?state=done"),
            &["CREATED, QUEUED, ASSIGNED, RUNNING", "CANCELED, not `done`"],
        ),
        (
            client.call("POST", "/v1/webhooks").json(webhook),
            &["*, job_created, ", "webhook_disabled, not `job_lost`"],
        ),
        (
            client.call("POST", "/api/v1/nothing/done").json(json!({})),
            &["no such operation", "/openapi.json"],
        ),
        (server.call("GET", "/v1/jobs"), &["send `Authorization: Bearer <api_key>`"]),
    ] {
        let answer = call.send().await;
        let problem = answer.json();
        let detail = problem["detail"].as_str().unwrap_or_default();
        for word in words {
            assert!(detail.contains(word), "{word} is not in {problem}");
        }
        assert!(detail.len() < 500, "{detail}");
    }
    client.call("GET", "/v1/jobs?state=running").send().await.expect(200);
}
