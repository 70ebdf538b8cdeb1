//! Operations of the configuration.

use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::work::WorkKind;
use serde_json::json;

use super::denied;
use crate::api::server::Server;

const DECLARED: &str = "
    [operations.\"images/resize\"]
    queue = 'pictures'
    expected_duration_s = 90
    max_retries = 7
    retry_mode = 'manual'
    retention_days = 2

    [operations.\"mail/send\"]
    work_kind = 'FAIL_IMMEDIATE'
    result_kb = 4

    [operations.\"reports/generate\"]
    enabled = false
";

#[tokio::test]
async fn an_operation_runs_as_it_is_declared() {
    let server = Server::declaring(DECLARED).await;
    let client = server.client().await;
    let body = json!({"parameters": {"width": 100}});
    let accepted = client.call("POST", "/api/v1/images/resize").json(body).send().await.expect(202);
    assert_eq!(accepted["estimatedDuration"], 90);
    let job = server.claim_outside("pictures").await;
    assert_eq!(
        (job.head.job_type.as_str(), job.head.operation.as_deref()),
        ("images/resize", Some("images/resize"))
    );
    assert_eq!((job.head.retry.attempts_max, job.head.retention.unwrap().as_secs()), (8, 2 * 24 * 3600));
    let seen = client.poll(accepted["jobId"].as_str().unwrap()).await.expect(202);
    let moment = |name: &str| forgerun_wire::time::parse(seen[name].as_str().unwrap()).unwrap();
    assert_eq!(moment("estimatedCompletionAt").since(moment("startedAt")).as_secs(), 90);
    let elsewhere = json!({"type": "thumbnail", "queue": "fast", "maxRetries": 1});
    client.call("POST", "/api/v1/images/resize").json(elsewhere).send().await.expect(202);
    let job = server.claim_outside("fast").await;
    assert_eq!((job.head.job_type.as_str(), job.head.retry.attempts_max), ("thumbnail", 2));

    client.call("POST", "/api/v1/mail/send").json(json!({})).send().await.expect(202);
    let definition = server.claim(true).await.head.definition.unwrap();
    assert_eq!((definition.work_kind, definition.payload_kb), (WorkKind::FailImmediate, 4));
}

#[tokio::test]
async fn what_has_expired_tells_the_period_of_its_operation() {
    let server = Server::declaring(DECLARED).await;
    let client = server.client().await;
    let begin = client.call("POST", "/api/v1/images/resize").json(json!({}));
    let path = format!("/api/v1/jobs/{}", begin.send().await.expect(202)["jobId"].as_str().unwrap());
    client.call("DELETE", &path).send().await.expect(200);
    server.clock.advance(Duration::from_secs(3 * 24 * 3600));
    server.app.engine.run(Command::Due(10)).await.unwrap();
    let gone = denied(&client.get(&path).await, 410, "NOT_FOUND");
    assert_eq!(gone["detail"], "This job is no longer available. It was kept for 2 days after its end.");
    let gone = client.call("GET", &path).header("accept-language", "de").send().await;
    let detail = "Diesen Auftrag gibt es nicht mehr. Er wurde nach seinem Ende 2 Tage aufbewahrt.";
    assert_eq!(denied(&gone, 410, "NOT_FOUND")["detail"], detail);
}

#[tokio::test]
async fn what_is_not_declared_any_more_is_not_there() {
    let server = Server::declaring(DECLARED).await;
    let client = server.client().await;
    let answer = client.call("POST", "/api/v1/reports/generate").json(json!({"type": "a"})).send().await;
    denied(&answer, 405, "RFA_REQUEST_METHOD_NOT_ALLOWED");
    let answer = client.call("POST", "/api/v1/videos/cut").json(json!({"type": "a"})).send().await;
    assert_eq!(answer.expect(404)["type"], "about:blank");
}

#[tokio::test]
async fn the_default_operation_takes_as_long_as_it_says_times_the_scale() {
    let server = Server::with(&[("sim.time_scale", "0.5")]).await;
    let client = server.client().await;
    let accepted = client.call("POST", "/api/v1/reports/generate").json(json!({})).send().await.expect(202);
    assert_eq!(accepted["estimatedDuration"], 3, "2.5 seconds, in whole ones");
    let job = server.claim(true).await;
    assert_eq!(
        (job.head.definition.unwrap().duration_ms, job.head.job_type.as_str()),
        (5000, "reports/generate")
    );
}
