//! Limits: how often, how much, how many.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use serde_json::json;

use super::server::Server;

const LIMITED: &str = "RFA_REQUEST_RATE_LIMITED";

#[tokio::test]
async fn requests_beyond_the_rate_are_429_with_both_families_of_headers() {
    let server = Server::with(&[("limits.rate_per_minute", "3")]).await;
    let (client, other) = (server.client().await, server.client().await);
    for remaining in ["2", "1", "0"] {
        let answer = client.get("/v1/jobs").await;
        answer.expect(200);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("3"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(remaining));
        assert!(answer.header("ratelimit").unwrap().starts_with(&format!("\"minute\";r={remaining};t=")));
        assert_eq!(answer.header("ratelimit-policy"), Some("\"minute\";q=3;w=60"));
    }
    let before = server.traces().await;
    let refused = client.submit(json!({"type": "EXECUTE"})).await;
    let problem = refused.refused(429, LIMITED);
    let after: u64 = refused.header("retry-after").unwrap().parse().unwrap();
    assert_eq!(problem["retryAfter"], after, "a submission is told in the body too");
    assert_eq!(problem["retryable"], true);
    assert_eq!(refused.header("x-ratelimit-remaining"), Some("0"));
    let reset: i64 = refused.header("x-ratelimit-reset").unwrap().parse().unwrap();
    assert!(reset >= server.app.clock.now().as_micros() / 1_000_000);
    let poll = client.get("/v1/jobs").await;
    assert!(poll.refused(429, LIMITED).get("retryAfter").is_none(), "a poll is told in the header only");
    assert_eq!(server.traces().await, before);
    other.get("/v1/jobs").await.expect(200);
    server.clock.advance(Duration::from_secs(after));
    client.get("/v1/jobs").await.expect(200);
}

#[tokio::test]
async fn how_often_to_ask_is_told_apart_from_when_to_submit_again_in_both_dialects() {
    for dialect in ["/v1", "/api/v1"] {
        let server = Server::with(&[("limits.rate_per_minute", "2"), ("retry.mode.api", "manual")]).await;
        let client = server.client().await;
        let path = format!("{dialect}/jobs/{}", client.job().await);
        server.fail(Kind::HandlerTransient).await;
        let call = client.call("GET", &path).header("accept", "application/problem+json");
        let report = call.send().await;
        assert_eq!(report.expect(200)["retryAfter"], 1, "when to submit again, says the job");
        assert!(report.header("ratelimit").unwrap().starts_with("\"minute\";r=0;t="), "{dialect}");
        let refused = client.get(&path).await;
        assert_eq!(refused.status, 429);
        assert!(refused.header("ratelimit").is_some() && refused.header("retry-after").is_some());
        assert_eq!(refused.json().get("retryAfter"), None, "of the job a refused poll says nothing");
    }
}

#[tokio::test]
async fn the_rate_can_be_switched_off() {
    let server = Server::with(&[("limits.rate_per_minute", "0")]).await;
    let answer = server.client().await.get("/v1/jobs").await;
    assert_eq!(
        (answer.status, answer.header("x-ratelimit-limit"), answer.header("ratelimit")),
        (200, None, None)
    );
}

#[tokio::test]
async fn a_spent_quota_is_429() {
    let server = Server::with(&[("limits.quota", "10")]).await;
    let client = server.client().await;
    for _ in 0..10 {
        client.get("/v1/jobs").await.expect(200);
    }
    let problem = client.submit(json!({"type": "EXECUTE"})).await.refused(429, LIMITED);
    assert_eq!(problem["type"], "/problems/quota-exceeded");
    assert_eq!(server.traces().await.0, 0);
}

#[tokio::test]
async fn guessing_ids_is_cut_off_and_honest_work_goes_on() {
    let server = Server::with(&[("limits.rate_per_minute", "0")]).await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}", client.job().await);
    server.clock.stop();
    let mut n_misses = 0;
    loop {
        let answer = client.get("/v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057").await;
        if answer.status == 429 {
            answer.refused(429, LIMITED);
            break;
        }
        answer.refused(404, "RFA_JOB_NOT_FOUND");
        n_misses += 1;
        assert!(n_misses <= 200);
    }
    assert!(n_misses >= 100, "{n_misses}");
    client.get(&path).await.expect(200);
    server.client().await.get("/v1/jobs/no-id").await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn one_address_registers_only_so_many_clients_a_minute() {
    let server = Server::start().await;
    server.clock.stop();
    let mut n_registered = 0;
    loop {
        let answer = server.call("POST", "/v1/clients").send().await;
        if answer.status == 429 {
            answer.refused(429, LIMITED);
            break;
        }
        answer.expect(201);
        n_registered += 1;
        assert!(n_registered <= 1000);
    }
    assert!(n_registered >= 600, "{n_registered}");
    server.clock.advance(Duration::from_secs(60));
    server.call("POST", "/v1/clients").send().await.expect(201);
}

#[tokio::test]
async fn a_full_queue_is_503_and_says_when_to_come_back() {
    let server = Server::with(&[("limits.queue_size", "2")]).await;
    let client = server.client().await;
    client.job().await;
    client.job().await;
    let before = server.traces().await;
    let answer = client.submit(json!({"type": "EXECUTE"})).await;
    let problem = answer.refused(503, "RFA_EXEC_QUEUE_FULL");
    assert_eq!(
        (&problem["details"]["queue"], &problem["processingStage"]),
        (&json!("default"), &json!("queuing"))
    );
    assert_eq!(problem["retryAfter"].to_string(), answer.header("retry-after").unwrap());
    assert_eq!(server.traces().await, before);
    let other_queue = json!({"type": "EXECUTE", "queue": "other"});
    client.submit(other_queue).await.expect(202);
    server.succeed().await;
    client.job().await;
}

#[tokio::test]
async fn bodies_have_a_limit_and_payloads_a_smaller_one() {
    let server = Server::start().await;
    let client = server.client().await;
    let with_payload = |kb: usize| json!({"type": "EXECUTE", "payload": "x".repeat(kb * 1024 - 2)});
    client.submit(with_payload(256)).await.expect(202);
    client.submit(with_payload(257)).await.refused(400, "RFA_JOB_VALIDATION_FAILED");
    let huge = client.call("POST", "/v1/jobs").json(with_payload(1024));
    assert_eq!(
        huge.send().await.refused(413, "RFA_REQUEST_PAYLOAD_TOO_LARGE")["details"]["limit_bytes"],
        1048576
    );
    let chunk = format!("{:x}\r\n{}\r\n", 600_000, "y".repeat(600_000));
    let chunked = client.call("POST", "/v1/jobs").header("transfer-encoding", "chunked");
    let chunked = chunked.header("content-type", "application/json").body(format!("{chunk}{chunk}0\r\n\r\n"));
    chunked.send().await.refused(413, "RFA_REQUEST_PAYLOAD_TOO_LARGE");
}
