//! AO's own end-to-end test: create, poll by its client rules, retrieve.

use std::time::Duration;

use forgerun_problem::polling::{Poll, Schedule};
use serde_json::{Value, json};

use crate::api::server::{Client, Server};

/// Polls as the pattern's clients do (C-80): never earlier than `Retry-After`, doubling up to half
/// a minute, five minutes in all, until the status is one that ends. The waits are counted, not
/// slept.
async fn poll_until_ended(
    client: &Client,
    status_url: &str,
    first_pause: Option<u64>,
) -> (Value, Vec<Duration>) {
    let (schedule, mut pause) = (Schedule::default(), first_pause);
    let mut waits: Vec<Duration> = Vec::new();
    loop {
        let retry_after = pause.map(Duration::from_secs);
        match schedule.next(waits.len() as u32, waits.iter().sum(), retry_after) {
            Poll::After(wait) => waits.push(wait),
            Poll::TimedOut => panic!("it ends before the client gives up"),
        }
        let call = client.call("GET", status_url).header("accept", "application/json");
        // What the client would wait, the server does not take longer than.
        let answer = call.header("prefer", "wait=1").send().await;
        pause = answer.header("retry-after").map(|seconds| seconds.parse().unwrap());
        let status = answer.json();
        match status["status"].as_str().unwrap() {
            "Queued" | "Running" => assert_eq!(answer.status, 202),
            _ => {
                assert_eq!(answer.status, 200);
                return (status, waits);
            }
        }
    }
}

/// AO §13.2.1.
#[tokio::test]
async fn create_poll_retrieve_completes_successfully() {
    let server = Server::with(&[("sim.time_scale", "0.01")]).await;
    let client = server.client().await;
    server.app.work();
    let created =
        client.call("POST", "/api/v1/reports/generate").json(json!({"type": "test-report"})).send().await;
    let pause = created.header("retry-after").unwrap().parse().ok();
    let created = created.expect(202);
    let (status, waits) = poll_until_ended(&client, created["statusUrl"].as_str().unwrap(), pause).await;
    assert!(waits.len() < 30 && waits[0] >= Duration::from_secs(5), "{waits:?}");
    assert_eq!(status["status"], "Completed");
    let result = client.get(status["resultUrl"].as_str().unwrap()).await;
    let report = result.expect(200);
    assert_eq!((&report["reportId"], &report["type"]), (&created["jobId"], &json!("test-report")));
    assert!(report["generatedAt"].is_string() && report["data"].is_object(), "{report}");
    for path in ["results/{id}", "reports/{id}", "reports/{id}/download", "jobs/{id}/result"] {
        let path = format!("/api/v1/{}", path.replace("{id}", created["jobId"].as_str().unwrap()));
        assert_eq!(client.get(&path).await.expect(200), report, "{path}");
    }
}

#[tokio::test]
async fn a_flow_that_fails_ends_with_the_reason() {
    let at_once = [("asyncops.retry_base_ms", "0"), ("retry.base_ms", "0"), ("retry.max_ms", "0")];
    let server = Server::with(&[&at_once[..], &[("sim.time_scale", "0")]].concat()).await;
    let client = server.client().await;
    server.app.work();
    let body = json!({"type": "test-report", "work_kind": "FAIL_AFTER_RETRYABLE"});
    let created = client.call("POST", "/api/v1/reports/generate").json(body).send().await.expect(202);
    let (status, _) = poll_until_ended(&client, created["statusUrl"].as_str().unwrap(), Some(5)).await;
    assert_eq!((&status["status"], &status["retryCount"]), (&json!("Failed"), &json!(3)));
    assert_eq!((&status["maxRetries"], &status["error"]["retryable"]), (&json!(3), &json!(true)));
}
