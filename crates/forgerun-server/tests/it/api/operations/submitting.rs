//! 202: what is said, when, and in which headers.

use std::collections::BTreeSet;

use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use serde_json::json;
use tokio::task::JoinSet;

use super::{denied, members};
use crate::api::http::shape;
use crate::api::server::Server;

/// AO §13.1.1, and the table of §4.1.3.
#[tokio::test]
async fn a_valid_request_is_202_with_an_id_and_where_to_look() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"type": "market-analysis", "parameters": {"region": "EU", "year": 2025}});
    let answer = client.call("POST", "/api/v1/reports/generate").json(body).send().await;
    let accepted = answer.expect(202);
    assert_eq!(
        shape(accepted.clone()),
        json!({"jobId": "<id>", "status": "Queued", "statusUrl": accepted["statusUrl"], "submittedAt": "<ms>",
               "estimatedDuration": 5})
    );
    let path = format!("/api/v1/jobs/{}", accepted["jobId"].as_str().unwrap());
    assert_eq!(accepted["statusUrl"], path);
    assert_eq!(answer.header("location"), Some(path.as_str()));
    assert_eq!(answer.header("link"), Some(format!("<{path}>; rel=\"status\"").as_str()));
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    assert_eq!(answer.header("retry-after"), Some("5"));
    assert!(answer.header("x-correlation-id").unwrap().parse::<forgerun_core::id::JobId>().is_ok());
    client.poll(accepted["jobId"].as_str().unwrap()).await.expect(202);
}

#[tokio::test]
async fn what_the_client_calls_its_request_comes_back() {
    let server = Server::start().await;
    let client = server.client().await;
    let call = client.call("POST", "/api/v1/jobs").json(json!({"type": "a", "correlationId": "of the body"}));
    let answer = call.header("x-correlation-id", "550e8400-e29b-41d4-a716-446655440000").send().await;
    assert_eq!(answer.header("x-correlation-id"), Some("550e8400-e29b-41d4-a716-446655440000"));
    let id = answer.expect(202)["jobId"].as_str().unwrap().to_owned();
    let seen = client.poll(&id).await.expect(202);
    assert_eq!(seen["correlationId"], "550e8400-e29b-41d4-a716-446655440000");
}

#[tokio::test]
async fn addresses_are_absolute_where_the_public_one_is_known() {
    let server = Server::with(&[("server.public_base_url", "https://jobs.example.org/forge/")]).await;
    let client = server.client().await;
    let answer = client.begin(json!({"type": "a"})).await;
    let accepted = answer.expect(202);
    let id = accepted["jobId"].as_str().unwrap();
    let expected = format!("https://jobs.example.org/forge/api/v1/jobs/{id}");
    assert_eq!(
        (&accepted["statusUrl"], answer.header("location")),
        (&json!(expected), Some(expected.as_str()))
    );
}

#[tokio::test]
async fn work_of_no_kind_is_real_and_waits_for_a_worker_outside_with_its_input() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"type": "mail.send", "parameters": {"to": "a@example.com"}, "queue": "mail"});
    let accepted = client.begin(body).await.expect(202);
    assert_eq!(members(&accepted), ["jobId", "status", "statusUrl", "submittedAt"], "nobody knows how long");
    let job = server.claim_outside("mail").await;
    assert_eq!((job.id.to_string(), job.head.job_type.as_str()), (text(&accepted["jobId"]), "mail.send"));
    assert_eq!((job.head.definition, job.head.dialect), (None, Dialect::Operations));
    let inputs = server.app.engine.store().inputs(vec![job.id]).await.unwrap();
    assert_eq!(inputs[0].1.payload, br#"{"to":"a@example.com"}"#);
}

/// AO §13.1.2.
#[tokio::test]
async fn the_same_key_gives_the_same_job_with_its_status_of_now() {
    let server = Server::start().await;
    let client = server.client().await;
    let call = |key: &str, body: serde_json::Value| {
        client.call("POST", "/api/v1/reports/generate").header("idempotency-key", key).json(body)
    };
    let first = call("a1b2", json!({"type": "test"})).send().await.expect(202);
    server.succeed().await;
    let again = call("a1b2", json!({ "type" : "test" })).send().await;
    assert_eq!(again.header("idempotent-replayed"), Some("true"));
    let again = again.expect(202);
    assert_eq!((&again["jobId"], &again["status"]), (&first["jobId"], &json!("Completed")));
    assert_eq!(again["submittedAt"], first["submittedAt"]);
    let refused = call("a1b2", json!({"type": "other"})).send().await;
    denied(&refused, 409, "DUPLICATE_JOB");
    // Keys of one operation meet no keys of others, nor those of other clients.
    let elsewhere = client.call("POST", "/api/v1/jobs").header("idempotency-key", "a1b2");
    assert_ne!(elsewhere.json(json!({"type": "test"})).send().await.expect(202)["jobId"], first["jobId"]);
    let other = server.client().await;
    let other = other.call("POST", "/api/v1/reports/generate").header("idempotency-key", "a1b2");
    assert_ne!(other.json(json!({"type": "test"})).send().await.expect(202)["jobId"], first["jobId"]);
}

#[tokio::test]
async fn a_key_is_answered_with_the_execution_it_began_even_after_a_retry() {
    let settings = [("asyncops.retry_base_ms", "0"), ("retry.max_ms", "0"), ("retry.base_ms", "0")];
    let server = Server::with(&settings).await;
    let client = server.client().await;
    let body = json!({"type": "a", "work_kind": "FAIL_IMMEDIATE", "retry_mode": "manual"});
    let call = client.call("POST", "/api/v1/jobs").header("idempotency-key", "k").json(body);
    let id = text(&call.send().await.expect(202)["jobId"]);
    server.fail(Kind::HandlerError).await;
    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let again = call.send().await.expect(202);
    assert_eq!((&again["jobId"], &again["status"]), (&json!(id), &json!("Failed")));
}

/// AO §13.3.1.
#[tokio::test]
async fn a_hundred_at_once_are_all_accepted_with_ids_of_their_own_and_all_processed() {
    let server = Server::with(&[("sim.time_scale", "0")]).await;
    let client = server.client().await;
    server.app.work();
    let mut requests = JoinSet::new();
    for n in 0..100 {
        let call = client.call("POST", "/api/v1/reports/generate").json(json!({"type": format!("test-{n}")}));
        requests.spawn(async move { text(&call.send().await.expect(202)["jobId"]) });
    }
    let ids: BTreeSet<String> = requests.join_all().await.into_iter().collect();
    assert_eq!(ids.len(), 100);
    for id in ids {
        let call = client.call("GET", &format!("/api/v1/jobs/{id}")).header("prefer", "wait=20");
        assert_eq!(call.send().await.expect(200)["status"], "Completed");
    }
}

#[tokio::test]
async fn preferences_are_understood() {
    let server = Server::with(&[("sim.time_scale", "0")]).await;
    let client = server.client().await;
    let call = || client.call("POST", "/api/v1/reports/generate").json(json!({"type": "test"}));
    let answer = call().header("prefer", "respond-async").send().await;
    assert_eq!(answer.header("preference-applied"), Some("respond-async"));
    assert_eq!(answer.expect(202)["status"], "Queued");
    server.app.work();
    let answer = call().header("prefer", "wait=20").send().await;
    assert_eq!(answer.header("preference-applied"), Some("wait=20"));
    assert_eq!(answer.expect(202)["status"], "Completed");
}

#[tokio::test]
async fn a_submission_does_not_wait_for_the_work() {
    let server = Server::start().await;
    let client = server.client().await;
    server.app.work();
    let id = client.begun("SUCCESS_SLOW").await;
    client.poll(&id).await.expect(202);
}

fn text(value: &serde_json::Value) -> String {
    value.as_str().unwrap().to_owned()
}
