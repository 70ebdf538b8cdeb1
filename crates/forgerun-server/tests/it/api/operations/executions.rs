//! A `jobId` is an execution: what has ended keeps its answer, whatever becomes of the job.

use std::collections::BTreeSet;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::Owned;
use serde_json::{Value, json};

use super::denied;
use crate::api::http::Answer;
use crate::api::server::{Client, Server};

const AT_ONCE: [(&str, &str); 3] =
    [("asyncops.retry_base_ms", "0"), ("retry.max_ms", "0"), ("retry.base_ms", "0")];

/// The parts of the `Problem` field; their order means nothing.
fn field(answer: &Answer) -> BTreeSet<&str> {
    answer.header("problem").unwrap().split(", ").collect()
}

async fn forms(client: &Client, id: &str) -> Vec<(Vec<u8>, Option<String>)> {
    let mut forms = Vec::new();
    for accept in ["application/problem+json", "application/problem+xml", "*/*"] {
        let answer = client.call("GET", &format!("/api/v1/jobs/{id}")).header("accept", accept).send().await;
        assert_eq!(answer.status, 200, "{accept}");
        forms.push((answer.body.clone(), answer.header("retry-after").map(Into::into)));
    }
    forms
}

#[tokio::test]
async fn an_ended_execution_keeps_its_answer_when_the_job_is_retried() {
    let server = Server::with(&AT_ONCE).await;
    let client = server.client().await;
    let body = json!({"type": "a", "work_kind": "FAIL_AFTER_RETRYABLE", "retry_mode": "manual"});
    let id = client.begin(body).await.expect(202)["jobId"].as_str().unwrap().to_owned();
    server.fail(Kind::HandlerTransient).await;
    let (json_before, forms_before) = (client.poll(&id).await, forms(&client, &id).await);
    assert_eq!(client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200)["state"], "QUEUED");

    let mut next = Value::Null;
    for end in ["waiting", "running", "failed"] {
        match end {
            "running" => drop(server.claim(true).await),
            "failed" => {
                let job = server.app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
                server.fail_held(&job, Kind::HandlerError).await;
            }
            _ => {}
        }
        let after = client.poll(&id).await;
        let mut body = after.expect(200);
        next = body["retriedAs"].clone();
        let path = format!("/api/v1/jobs/{}", next.as_str().unwrap());
        assert_eq!(after.header("link"), Some(format!("<{path}>; rel=\"related\"").as_str()));
        assert_eq!(field(&after), field(&json_before), "{end}");
        let mut before = json_before.json();
        before.as_object_mut().unwrap().remove("expiresAt");
        body.as_object_mut().unwrap().remove("retriedAs");
        body.as_object_mut().unwrap().remove("expiresAt");
        assert_eq!(body, before, "{end}");
        assert_eq!(forms(&client, &id).await, forms_before, "{end}");
        let refused = client.get(&format!("/api/v1/jobs/{id}/result")).await;
        assert_eq!(denied(&refused, 409, "INVALID_STATE_TRANSITION")["details"]["status"], "Failed");
    }
    let newest = client.poll(next.as_str().unwrap()).await.expect(200);
    assert_eq!((&newest["jobId"], &newest["job_id"]), (&next, &json!(id)));
    assert_eq!((&newest["status"], &newest["retryCount"]), (&json!("Failed"), &json!(1)));
    assert!(newest.get("retriedAs").is_none());
    assert_eq!(client.get(&format!("/v1/jobs/{id}")).await.expect(200)["jobId"], next);
}

#[tokio::test]
async fn a_retry_by_hand_is_queued_again_under_its_own_id_and_then_runs_on() {
    let server = Server::with(&AT_ONCE).await;
    let client = server.client().await;
    let id = client
        .job_like(json!({"type": "EXECUTE", "work_kind": "FAIL_IMMEDIATE", "retry_mode": "auto"}))
        .await;
    server.fail(Kind::HandlerError).await;
    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let next = client.get(&format!("/v1/jobs/{id}")).await.expect(200)["jobId"].as_str().unwrap().to_owned();
    assert_ne!(next, id);
    assert_eq!(client.poll(&next).await.expect(202)["status"], "Queued");
    server.fail(Kind::HandlerTransient).await;
    let between = client.poll(&next).await.expect(202);
    assert_eq!(between["status"], "Running", "the server tries again by itself: {between}");
    assert_eq!(client.get(&format!("/v1/jobs/{id}")).await.expect(200)["jobStatus"], "PROCESSING");
}

#[tokio::test]
async fn cancelling_a_past_execution_does_not_touch_the_one_under_way() {
    let server = Server::with(&AT_ONCE).await;
    let client = server.client().await;
    let id = client.job().await;
    server.fail(Kind::HandlerError).await;
    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let next = client.poll(&id).await.expect(200)["retriedAs"].as_str().unwrap().to_owned();
    let cancelled = client.call("DELETE", &format!("/api/v1/jobs/{id}")).send().await.expect(200);
    assert_eq!(cancelled["status"], "Failed");
    assert_eq!(client.poll(&next).await.expect(202)["status"], "Queued");
    let cancelled = client.call("DELETE", &format!("/api/v1/jobs/{next}")).send().await.expect(200);
    assert_eq!((&cancelled["status"], &cancelled["jobId"]), (&json!("Cancelled"), &json!(next)));
    assert_eq!(client.get(&format!("/v1/jobs/{id}")).await.expect(200)["state"], "CANCELED");
}

#[tokio::test]
async fn jobs_of_one_dialect_are_read_in_the_other() {
    let server = Server::start().await;
    let client = server.client().await;
    let of_v1 = client.job().await;
    let seen = client.poll(&of_v1).await.expect(202);
    assert_eq!((&seen["status"], &seen["jobId"]), (&json!("Queued"), &json!(of_v1)));
    server.succeed().await;
    let seen = client.poll(&of_v1).await.expect(200);
    assert_eq!(seen["resultUrl"], format!("/api/v1/jobs/{of_v1}/result"));
    assert_eq!(client.get(seen["resultUrl"].as_str().unwrap()).await.expect(200), json!({"answer": 42}));

    let of_api = client.begun("FAIL_IMMEDIATE").await;
    assert_eq!(client.get(&format!("/v1/jobs/{of_api}")).await.expect(200)["state"], "QUEUED");
    server.fail(Kind::HandlerError).await;
    let job = client.get(&format!("/v1/jobs/{of_api}")).await.expect(200);
    assert_eq!((&job["state"], &job["type"]), (&json!("FAILED"), &json!("EXECUTE")));
    // The stored object is that of the dialect that submitted the job, on whichever road it is read
    // (C-96).
    let accept = "application/problem+json";
    let there = client.call("GET", &format!("/v1/jobs/{of_api}")).header("accept", accept).send().await;
    let here = client.call("GET", &format!("/api/v1/jobs/{of_api}")).header("accept", accept).send().await;
    assert_eq!(there.body, here.body);
    let problem = here.json();
    assert_eq!(problem["code"], "HANDLER_ERROR");
    assert_eq!(problem["instance"], format!("/api/v1/jobs/{of_api}"));
    client.get(problem["instance"].as_str().unwrap()).await.expect(200);
}

#[tokio::test]
async fn a_forgotten_execution_is_410_to_its_owner_with_the_moment_and_the_period() {
    let server = Server::with(&AT_ONCE).await;
    let client = server.client().await;
    let id = client.begun("FAIL_IMMEDIATE").await;
    server.fail(Kind::HandlerError).await;
    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let next = client.poll(&id).await.expect(200)["retriedAs"].as_str().unwrap().to_owned();
    server.succeed().await;
    server.clock.advance(Duration::from_secs(31 * 24 * 3600));
    server.app.engine.run(Command::Due(10)).await.unwrap();
    for id in [&id, &next] {
        for path in [
            format!("/api/v1/jobs/{id}"),
            format!("/api/v1/reports/{id}"),
            format!("/api/v1/jobs/{id}/result"),
        ] {
            let gone = denied(&client.get(&path).await, 410, "NOT_FOUND");
            assert_eq!((&gone["title"], &gone["jobId"]), (&json!("Job Expired"), &json!(id)), "{path}");
            assert!(gone["expiredAt"].is_string(), "{gone}");
            assert!(gone["detail"].as_str().unwrap().contains("30 days"), "{gone}");
        }
        denied(&client.call("DELETE", &format!("/api/v1/jobs/{id}")).send().await, 410, "NOT_FOUND");
        let stranger = server.client().await;
        denied(&stranger.poll(id).await, 403, "TENANT_ACCESS_DENIED");
    }
    client.get(&format!("/v1/jobs/{id}")).await.refused(404, "RFA_JOB_NOT_FOUND");
}

#[tokio::test]
async fn a_job_removed_by_the_operator_is_gone_at_once() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    server.succeed().await;
    let owned = Owned { job: id.parse().unwrap(), client: None };
    server.app.engine.run(Command::Forget(owned)).await.unwrap();
    let gone = denied(&client.poll(&id).await, 410, "NOT_FOUND");
    assert_eq!(gone["detail"], "This job is no longer available.", "its period had nothing to do with it");
}
