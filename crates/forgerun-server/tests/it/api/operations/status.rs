//! Polling: every status with the members of the pattern's document.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Extend, Note, Output, Succeed};
use serde_json::{Value, json};

use super::members;
use crate::api::http::shape;
use crate::api::server::{Server, held};

/// AO §5.1.2.
#[tokio::test]
async fn a_waiting_job_is_202_and_knows_its_place() {
    let server = Server::start().await;
    let client = server.client().await;
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(client.begun("SUCCESS_FAST").await);
    }
    for (place, id) in (1..).zip(&ids) {
        let answer = client.poll(id).await;
        assert_eq!((answer.status, answer.header("retry-after")), (202, Some("5")));
        assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
        assert_eq!(
            shape(answer.json()),
            json!({"jobId": "<id>", "status": "Queued", "type": "test", "simulated": true, "submittedAt": "<ms>", "updatedAt": "<ms>",
                   "queuePosition": place, "retryCount": 0, "maxRetries": 3, "jobStatus": "ACCEPTED",
                   "job_id": "<id>"})
        );
    }
    server.claim(true).await;
    assert_eq!(client.poll(&ids[2]).await.expect(202)["queuePosition"], 2);
}

/// AO §5.1.3.
#[tokio::test]
async fn a_running_job_is_202_with_progress_message_and_an_estimate() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_NORMAL").await;
    let job = server.claim(false).await;
    assert_eq!(client.poll(&id).await.expect(202)["status"], "Queued", "taken, but not begun");
    server.app.engine.act(Command::Start(held(&job))).await.unwrap();
    let message = Some("Processing data from external systems...".to_owned());
    let note = Some(Note::Progress { percent: 45, message });
    server.app.engine.act(Command::Extend(Extend { held: held(&job), lease: None, note })).await.unwrap();
    let answer = client.poll(&id).await;
    assert_eq!(answer.header("retry-after"), Some("5"));
    let seen = answer.expect(202);
    assert_eq!(
        shape(seen.clone()),
        json!({"jobId": "<id>", "status": "Running", "type": "test", "simulated": true, "progress": 45,
               "message": "Processing data from external systems...", "submittedAt": "<ms>", "startedAt": "<ms>",
               "updatedAt": "<ms>", "estimatedCompletionAt": "<ms>", "retryCount": 0, "maxRetries": 3,
               "jobStatus": "PROCESSING", "job_id": "<id>"})
    );
    let moment = |name: &str| forgerun_wire::time::parse(seen[name].as_str().unwrap()).unwrap();
    assert_eq!(moment("estimatedCompletionAt").since(moment("startedAt")), Duration::from_secs(10));
    server.clock.advance(Duration::from_secs(11));
    let seen = client.poll(&id).await.expect(202);
    assert!(seen.get("estimatedCompletionAt").is_none(), "a moment that has passed is no estimate");
}

/// AO §5.1.4 and §8.1.2.
#[tokio::test]
async fn a_completed_job_is_200_with_its_times_and_its_result() {
    let server = Server::start().await;
    server.clock.stop();
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    // The duration counts from the submission, not from the start.
    server.clock.advance(Duration::from_secs(5));
    let job = server.claim(true).await;
    server.clock.advance(Duration::from_secs(30));
    let bytes = b"%PDF-1.7".to_vec();
    let output = Output::inline("application/pdf", bytes);
    let succeed = Succeed { held: held(&job), output: Some(Arc::new(output)) };
    server.app.engine.act(Command::Succeed(succeed)).await.unwrap();
    let answer = client.poll(&id).await;
    assert_eq!((answer.status, answer.header("retry-after"), answer.header("problem")), (200, None, None));
    let path = format!("/api/v1/jobs/{id}/result");
    assert_eq!(answer.header("link"), Some(format!("<{path}>; rel=\"related\"").as_str()));
    assert_eq!(
        shape(answer.json()),
        json!({"jobId": "<id>", "status": "Completed", "type": "test", "simulated": true, "progress": 100, "submittedAt": "<ms>",
               "startedAt": "<ms>", "completedAt": "<ms>", "updatedAt": "<ms>", "duration": 35, "resultUrl": path,
               "resultType": "PDF", "resultSize": 8, "retryCount": 0, "maxRetries": 3, "expiresAt": "<ms>",
               "jobStatus": "COMPLETED", "job_id": "<id>"})
    );
    let result = client.call("GET", &path).header("accept", "application/pdf").send().await;
    assert_eq!((result.status, result.header("content-type")), (200, Some("application/pdf")));
    assert_eq!(result.body, b"%PDF-1.7");
}

/// AO §5.1.5, §8.1.3 and §12.2.1.
#[tokio::test]
async fn a_failed_job_is_200_with_the_error_in_the_body() {
    let server = Server::start().await;
    server.clock.stop();
    let client = server.client().await;
    let id = client.begun("FAIL_IMMEDIATE").await;
    server.fail(Kind::HandlerError).await;
    let answer = client.poll(&id).await;
    assert_eq!((answer.status, answer.header("retry-after")), (200, None));
    assert_eq!(answer.header("content-type"), Some("application/json; charset=utf-8"));
    let seen = answer.json();
    assert_eq!(
        shape(seen.clone()),
        json!({"jobId": "<id>", "status": "Failed", "type": "test", "simulated": true, "submittedAt": "<ms>", "startedAt": "<ms>",
               "failedAt": "<ms>", "completedAt": "<ms>", "updatedAt": "<ms>", "duration": 0,
               "error": {"type": "HandlerError", "message": "Job Failed", "detail": "it went wrong",
                         "errorCode": "HANDLER_ERROR", "retryable": false, "timestamp": "<ms>"},
               "retryCount": 0, "maxRetries": 3, "expiresAt": "<ms>", "jobStatus": "FAILED", "retryable": false,
               "retriesLeft": 3, "processingStage": "processing", "job_id": "<id>"})
    );
    assert_eq!(seen["failedAt"], seen["completedAt"]);
    let field = answer.header("problem").unwrap();
    for part in ["type=\"/problems/job-failed\"", "code=\"HANDLER_ERROR\"", "job_status=\"FAILED\""] {
        assert!(field.contains(part), "{part} in {field}");
    }
}

/// AO §5.1.6.
#[tokio::test]
async fn a_cancelled_job_tells_who_and_why() {
    let server = Server::start().await;
    server.clock.stop();
    let client = server.client().await;
    for (method, tail, body, reason) in [
        ("DELETE", "", json!(null), "User-initiated cancellation"),
        ("POST", "/cancel", json!(null), "User-initiated cancellation"),
        ("POST", "/cancel", json!({"reason": "ordered twice"}), "ordered twice"),
        ("DELETE", "", json!({"reason": null}), "User-initiated cancellation"),
    ] {
        let id = client.begun("SUCCESS_FAST").await;
        let call = client.call(method, &format!("/api/v1/jobs/{id}{tail}"));
        let call = if body.is_null() { call } else { call.json(body) };
        let cancelled = call.send().await.expect(200);
        assert_eq!(cancelled, client.poll(&id).await.expect(200));
        assert_eq!(
            shape(cancelled.clone()),
            json!({"jobId": "<id>", "status": "Cancelled", "type": "test", "simulated": true, "submittedAt": "<ms>",
                   "cancelledAt": "<ms>", "completedAt": "<ms>", "updatedAt": "<ms>", "cancelledBy": "user",
                   "reason": reason, "duration": 0, "error": cancelled_error(&cancelled), "retryCount": 0,
                   "maxRetries": 3, "expiresAt": "<ms>", "jobStatus": "CANCELLED", "retryable": false,
                   "processingStage": "queuing", "job_id": "<id>"}),
            "{method}"
        );
    }
}

fn cancelled_error(cancelled: &Value) -> Value {
    let error = shape(cancelled["error"].clone());
    assert_eq!((&error["type"], &error["errorCode"]), (&json!("Cancelled"), &json!("JOB_CANCELLED")));
    error
}

#[tokio::test]
async fn cancelling_what_has_ended_changes_nothing_and_tells_how_it_stands() {
    let server = Server::start().await;
    let client = server.client().await;
    for end in ["Completed", "Failed", "Cancelled"] {
        let id = client.begun("SUCCESS_FAST").await;
        match end {
            "Completed" => drop(server.succeed().await),
            "Failed" => drop(server.fail(Kind::HandlerError).await),
            _ => drop(client.call("DELETE", &format!("/api/v1/jobs/{id}")).send().await.expect(200)),
        }
        let (before, traces) = (client.poll(&id).await.json(), server.traces().await);
        for (method, tail) in [("DELETE", ""), ("POST", "/cancel")] {
            let again = client.call(method, &format!("/api/v1/jobs/{id}{tail}")).send().await.expect(200);
            assert_eq!((&again["status"], &again), (&json!(end), &before));
        }
        assert_eq!(server.traces().await, traces);
    }
}

/// AO §9.3.1: transient failures are retried by the server, and seen from outside as one Running
/// job.
#[tokio::test]
async fn automatic_retries_are_one_running_execution_until_the_last_word() {
    let server =
        Server::with(&[("asyncops.retry_base_ms", "0"), ("retry.max_ms", "0"), ("retry.base_ms", "0")]).await;
    let client = server.client().await;
    let id = client.begun("FAIL_AFTER_RETRYABLE").await;
    for attempt in 1..=3 {
        let job = server.claim(false).await;
        let before = client.poll(&id).await.expect(202);
        assert_eq!(before["status"], if attempt == 1 { "Queued" } else { "Running" });
        server.app.engine.act(Command::Start(held(&job))).await.unwrap();
        server.fail_held(&job, Kind::HandlerTransient).await;
        let between = client.poll(&id).await.expect(202);
        assert_eq!((&between["status"], &between["jobStatus"]), (&json!("Running"), &json!("PROCESSING")));
        assert_eq!(between["retryCount"], attempt);
        assert_eq!(between["message"], format!("Attempt {attempt} of 4 failed; the next one follows."));
        assert!(between["startedAt"].is_string() && between.get("completedAt").is_none(), "{between}");
        assert!(between.get("queuePosition").is_none(), "{between}");
    }
    server.fail(Kind::HandlerTransient).await;
    let seen = client.poll(&id).await.expect(200);
    assert_eq!(
        (&seen["status"], &seen["retryCount"], &seen["maxRetries"]),
        (&json!("Failed"), &json!(3), &json!(3))
    );
    let job = server.app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
    assert!(job.dead_lettered_at.is_some(), "after the last retry it is a dead letter");
}

#[tokio::test]
async fn one_good_attempt_completes_the_job() {
    let server =
        Server::with(&[("asyncops.retry_base_ms", "0"), ("retry.max_ms", "0"), ("retry.base_ms", "0")]).await;
    let client = server.client().await;
    let id = client.begun("RETRY_ON_FAIL").await;
    server.fail(Kind::HandlerTransient).await;
    server.succeed().await;
    let seen = client.poll(&id).await.expect(200);
    assert_eq!((&seen["status"], &seen["retryCount"]), (&json!("Completed"), &json!(1)));
}

#[tokio::test]
async fn waits_between_retries_begin_at_two_seconds_and_double() {
    let server = Server::with(&[("retry.jitter", "none")]).await;
    let client = server.client().await;
    client.begun("FAIL_AFTER_RETRYABLE").await;
    for seconds in [2, 4, 8] {
        let job = server.fail(Kind::HandlerTransient).await;
        let wait = job.available_at.unwrap().since(job.errors.last().unwrap().at);
        assert_eq!(wait.as_secs_f64().round(), f64::from(seconds));
        server.clock.advance(wait);
        server.app.engine.run(Command::Due(10)).await.unwrap();
    }
}

#[tokio::test]
async fn the_number_of_retries_and_who_starts_them_can_be_asked_for() {
    let server = Server::start().await;
    let client = server.client().await;
    let body = json!({"type": "a", "work_kind": "FAIL_AFTER_RETRYABLE", "maxRetries": 0});
    let id = client.begin(body).await.expect(202)["jobId"].as_str().unwrap().to_owned();
    server.fail(Kind::HandlerTransient).await;
    let seen = client.poll(&id).await.expect(200);
    assert_eq!((&seen["status"], &seen["maxRetries"]), (&json!("Failed"), &json!(0)));
    let body = json!({"type": "a", "work_kind": "FAIL_AFTER_RETRYABLE", "retry_mode": "manual"});
    let id = client.begin(body).await.expect(202)["jobId"].as_str().unwrap().to_owned();
    server.fail(Kind::HandlerTransient).await;
    assert_eq!(client.poll(&id).await.expect(200)["status"], "Failed");
}

#[tokio::test]
async fn a_job_handed_back_while_it_ran_does_not_go_back_to_queued() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    let job = server.claim(true).await;
    server.app.engine.act(Command::HandBack(held(&job))).await.unwrap();
    assert_eq!(client.poll(&id).await.expect(202)["status"], "Running");
    let waiting = client.begun("SUCCESS_FAST").await;
    server.succeed().await;
    let job = server.claim(false).await;
    server.app.engine.act(Command::HandBack(held(&job))).await.unwrap();
    assert_eq!(client.poll(&waiting).await.expect(202)["status"], "Queued", "it never ran");
}

#[tokio::test]
async fn extended_words_are_for_those_who_want_them() {
    let server = Server::with(&[("asyncops.extended_statuses", "true")]).await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    assert_eq!(client.poll(&id).await.expect(202)["status"], "Queued");
    server.claim(false).await;
    assert_eq!(client.poll(&id).await.expect(202)["status"], "Preparing");
}

#[tokio::test]
async fn a_look_can_be_held_until_the_job_has_ended() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begun("SUCCESS_FAST").await;
    let call = client.call("GET", &format!("/api/v1/jobs/{id}")).header("prefer", "wait=20");
    let waiting = tokio::spawn(async move { call.send().await });
    server.succeed().await;
    let answer = waiting.await.unwrap();
    assert_eq!(answer.header("preference-applied"), Some("wait=20"));
    assert_eq!(answer.expect(200)["status"], "Completed");
}

#[tokio::test]
async fn a_job_that_left_nothing_names_no_result() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.begin(json!({"type": "a"})).await.expect(202)["jobId"].as_str().unwrap().to_owned();
    let job = server.claim_outside("default").await;
    server.app.engine.act(Command::Succeed(Succeed { held: held(&job), output: None })).await.unwrap();
    let seen = client.poll(&id).await.expect(200);
    assert_eq!(seen["status"], "Completed");
    assert!(!members(&seen).contains(&"resultUrl"), "{seen}");
    let refused = client.get(&format!("/api/v1/jobs/{id}/result")).await;
    super::denied(&refused, 404, "NOT_FOUND");
}
