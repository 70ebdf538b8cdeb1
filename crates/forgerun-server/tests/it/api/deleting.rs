//! Deleting jobs before their time.

use serde_json::json;

use super::http::Answer;
use super::server::{Client, Server};

async fn delete(client: &Client, id: &str) -> Answer {
    client.call("DELETE", &format!("/v1/jobs/{id}")).send().await
}

#[tokio::test]
async fn an_ended_job_is_deleted_with_all_that_is_its() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "idempotency_key": "order-17"});
    let id = client.job_like(body.clone()).await;
    let kept = client.job().await;
    server.succeed().await;
    assert_eq!(delete(&client, &id).await.expect(200), json!({"deleted": true}));
    for rest in ["", "/report", "/result", "/events", "/items"] {
        client.get(&format!("/v1/jobs/{id}{rest}")).await.refused(404, "RFA_JOB_NOT_FOUND");
    }
    let gone = client.get(&format!("/api/v1/jobs/{id}")).await.expect(410);
    assert_eq!(gone["detail"], "This job is no longer available.");
    let left = client.get("/v1/jobs").await.expect(200);
    assert_eq!((&left["jobs"][0]["job_id"], left["jobs"].as_array().unwrap().len()), (&json!(kept), 1));
    assert_ne!(client.job_like(body).await, id, "its key is free again");
    delete(&client, &id).await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn a_job_that_has_not_ended_is_not_deleted_but_told_to_be_cancelled_first() {
    let server = Server::start().await;
    let client = server.client().await;
    let (id, before) = (client.job().await, server.traces().await);
    let problem = delete(&client, &id).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(problem["type"], "/problems/invalid-state-transition");
    assert_eq!(problem["details"]["state"], "QUEUED");
    let detail = "The job is QUEUED; only an ended job can be deleted, so cancel it first.";
    assert_eq!(problem["detail"], detail);
    assert_eq!(server.traces().await, before);
    server.claim(true).await;
    assert_eq!(delete(&client, &id).await.refused(409, "RFA_JOB_CONFLICT")["details"]["state"], "RUNNING");
    client.post(&format!("/v1/jobs/{id}/cancel")).await.expect(200);
    delete(&client, &id).await.expect(200);
}

#[tokio::test]
async fn owners_delete_where_they_may_and_the_operator_everywhere() {
    let settings = [("auth.admin_token", "t0p-secret"), ("retention.allow_delete", "false")];
    let server = Server::with(&settings).await;
    let client = server.client().await;
    let id = client.job().await;
    server.succeed().await;
    delete(&client, &id).await.refused(403, "RFA_AUTH_FORBIDDEN");
    client.get(&format!("/v1/jobs/{id}")).await.expect(200);
    let call = server.call("DELETE", &format!("/v1/jobs/{id}"));
    let deleted = call.header("authorization", "Bearer t0p-secret").send().await;
    assert_eq!(deleted.expect(200), json!({"deleted": true}));
    client.get(&format!("/v1/jobs/{id}")).await.refused(404, "RFA_JOB_NOT_FOUND");
}
