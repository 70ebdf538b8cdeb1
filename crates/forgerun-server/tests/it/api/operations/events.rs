//! What happened to an execution, in pages; streams have tests of their own.

use forgerun_core::catalog::Kind;
use serde_json::Value;

use super::denied;
use crate::api::server::Server;

fn names(page: &Value) -> Vec<&str> {
    page["events"].as_array().unwrap().iter().map(|event| event["event_name"].as_str().unwrap()).collect()
}

#[tokio::test]
async fn each_execution_has_its_own_events() {
    let server = Server::with(&[("retry.base_ms", "0"), ("retry.max_ms", "0")]).await;
    let client = server.client().await;
    let id = client.begun("FAIL_IMMEDIATE").await;
    server.fail(Kind::HandlerError).await;
    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let next = client.poll(&id).await.expect(200)["retriedAs"].as_str().unwrap().to_owned();
    let path = format!("/api/v1/jobs/{id}/events");
    let page = client.get(&path).await.expect(200);
    assert_eq!(names(&page), ["job_created", "job_queued", "job_assigned", "job_started", "job_failed"]);
    let page = client.get(&format!("{path}?limit=4")).await.expect(200);
    let cursor = page["next_cursor"].as_str().unwrap();
    assert_eq!(names(&client.get(&format!("{path}?cursor={cursor}")).await.expect(200)), ["job_failed"]);
    let page = client.get(&format!("/api/v1/jobs/{next}/events")).await.expect(200);
    assert_eq!(names(&page), ["job_queued"]);
    denied(&client.get(&format!("{path}?cursor=nonsense")).await, 400, "INVALID_PAYLOAD");
    denied(&client.get(&format!("{path}?colour=red")).await, 400, "INVALID_PAYLOAD");
}
