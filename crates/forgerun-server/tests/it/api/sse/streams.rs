//! What streams tell, and when they end.

use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Extend, HeldJob, LeaseProof, Note};
use forgerun_server::Bounds;
use serde_json::{Value, json};
use std::sync::Arc;

use super::reader::Opening;
use super::{names, of_client, of_job, opened, progress};
use crate::api::server::{Client, Server};

#[tokio::test]
async fn a_stream_tells_the_life_of_a_job_in_order_and_ends_with_it() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client
        .job_like(json!({"type": "EXECUTE", "work_kind": "FAIL_IMMEDIATE", "correlation_id": "c-1"}))
        .await;
    let mut stream = of_job(&client, &id).await;
    assert_eq!(stream.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.header("cache-control"), Some("no-store"));
    assert_eq!(stream.header("x-accel-buffering"), Some("no"));
    assert!(stream.header("x-request-id").is_some() && stream.header("x-ratelimit-limit").is_some());
    let mut messages = stream.take(2).await;
    assert_eq!(stream.retry_ms(), Some(3000));
    server.fail(Kind::HandlerError).await;
    messages.extend(stream.rest().await);
    assert_eq!(names(&messages), ["job-created", "job-queued", "job-assigned", "job-started", "job-failed"]);

    let page = client.get(&format!("/v1/jobs/{id}/events")).await.expect(200);
    let ids: Vec<&str> = messages.iter().map(|message| message.id.as_str()).collect();
    let told: Vec<&str> =
        page["events"].as_array().unwrap().iter().map(|event| event["event_id"].as_str().unwrap()).collect();
    assert_eq!(ids, told);
    for (message, event) in messages.iter().zip(page["events"].as_array().unwrap()) {
        let data = message.json();
        for (name, value) in event.as_object().unwrap() {
            assert_eq!(&data[name], value, "{name} of {data}");
        }
        assert_eq!((&data["jobId"], &data["correlationId"]), (&json!(id), &json!("c-1")));
        assert_eq!(data["completedAt"].is_null(), message.name != "job-failed", "{data}");
    }
    let statuses: Vec<Value> = messages.iter().map(|message| message.json()["jobStatus"].clone()).collect();
    assert_eq!(statuses, ["ACCEPTED", "ACCEPTED", "ACCEPTED", "PROCESSING", "FAILED"]);
    assert_eq!(messages[4].json()["status"], 500, "the job's, not the stream's");
}

#[tokio::test]
async fn the_failure_on_a_stream_is_the_stored_object_byte_for_byte() {
    let server = Server::start().await;
    let client = server.client().await;
    for kind in [Kind::HandlerError, Kind::HandlerTransient, Kind::HandlerTimeout] {
        let id = client.job().await;
        let mut stream = of_job(&client, &id).await;
        server.fail(kind).await;
        let last = stream.rest().await.pop().unwrap();
        let path = format!("/v1/jobs/{id}");
        let polled = client.call("GET", &path).header("accept", "application/problem+json").send().await;
        assert_eq!(last.data.as_bytes(), polled.body, "{kind:?}");
        let data = last.json();
        let status = if kind == Kind::HandlerError {
            500
        } else if kind == Kind::HandlerTimeout {
            504
        } else {
            503
        };
        assert_eq!(data["status"], status);
        assert_eq!(data["retryAfter"].is_null(), kind == Kind::HandlerError, "only inside the data: {data}");
        assert_eq!(stream.retry_ms(), Some(3000), "the stream's own wait is the same whatever the job says");
    }
    let id = client.job().await;
    let mut stream = of_job(&client, &id).await;
    client.post(&format!("/v1/jobs/{id}/cancel")).await.expect(200);
    let last = stream.rest().await.pop().unwrap();
    assert_eq!((last.name.as_str(), &last.json()["jobStatus"]), ("job-cancelled", &json!("CANCELLED")));
}

#[tokio::test]
async fn progress_notifications_and_retries_are_told_as_they_come() {
    let server = Server::with(&[("retry.base_ms", "0"), ("retry.max_ms", "0")]).await;
    let client = server.client().await;
    let mut all = of_client(&client).await;
    let id = client.job_like(json!({"type": "EMIT_EVENT", "retry_mode": "auto"})).await;
    let mut one = of_job(&client, &id).await;
    let job = server.claim(true).await;
    progress(&server, &job, 40).await;
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
    let emitted = Extend { held, lease: None, note: Some(Note::Emitted) };
    server.app.engine.act(Command::Extend(emitted)).await.unwrap();
    let error = forgerun_core::command::WorkError::new(Kind::HandlerTransient, "not now");
    let held = HeldJob { job: job.id, proof: LeaseProof::Token(job.fence), client: None };
    server.app.engine.act(Command::Fail(forgerun_core::command::Fail { held, error })).await.unwrap();
    server.succeed().await;

    let messages = one.rest().await;
    let expected = [
        "job-created",
        "job-queued",
        "job-assigned",
        "job-started",
        "job-progress",
        "job-event-emitted",
        "job-retrying",
        "job-queued",
        "job-assigned",
        "job-started",
        "job-completed",
    ];
    assert_eq!(names(&messages), expected);
    assert_eq!(all.take(expected.len()).await, messages, "a client hears the same of its job");
    assert_eq!(messages[4].json()["progress"], 40);
    let retrying = messages[6].json();
    assert_eq!((&retrying["event_name"], &retrying["will_retry"]), (&json!("job_failed"), &json!(true)));
    assert_eq!((&retrying["retryable"], &retrying["retryAfter"]), (&json!(true), &json!(1)));
    assert_eq!(retrying["attempt"], 1);
    for (n, message) in messages.iter().enumerate() {
        let data = message.json();
        let status = ["ACCEPTED", "PROCESSING", "COMPLETED"][(n > 2) as usize + (n > 9) as usize];
        assert_eq!(data["jobStatus"], status, "{data}");
        assert_eq!(data["completedAt"].is_null(), n < 10, "{data}");
    }
}

#[tokio::test]
async fn the_stream_of_an_ended_job_replays_it_and_says_204_to_whoever_knows_all() {
    let server = Server::with(&[("retry.base_ms", "0"), ("retry.max_ms", "0")]).await;
    let client = server.client().await;
    let id = client.job().await;
    server.fail(Kind::HandlerError).await;
    let path = format!("/v1/jobs/{id}/events");
    let messages = of_job(&client, &id).await.rest().await;
    assert_eq!(messages.len(), 5);
    assert_eq!(of_job(&client, &id).await.rest().await, messages, "as often as one likes");
    let last = &messages[4].id;
    let answer = Opening::new(&client, &path).after(last).open().await.err().unwrap();
    assert_eq!((answer.status, answer.body.len()), (204, 0));
    let rest = opened(Opening::new(&client, &path).after(&messages[2].id)).await.rest().await;
    assert_eq!(rest, messages[3..]);

    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let mut stream = opened(Opening::new(&client, &path).after(last)).await;
    server.succeed().await;
    let again = stream.rest().await;
    assert_eq!(names(&again), ["job-queued", "job-assigned", "job-started", "job-completed"]);
    let whole = of_job(&client, &id).await.rest().await;
    assert_eq!(whole, [messages, again].concat(), "each execution with its own id and outcome");
    assert_ne!(whole[8].json()["jobId"], json!(id));
}

#[tokio::test]
async fn a_silent_stream_gives_signs_of_life_and_outlives_the_patience_for_requests() {
    let bounds = Bounds {
        request_timeout: Duration::from_secs(2),
        stream_heartbeat: Duration::from_millis(40),
        ..Bounds::default()
    };
    let server = Server::on(Arc::new(forgerun_store::memory::Memory::new()), &[], bounds).await;
    let client = server.client().await;
    let mut stream = of_client(&client).await;
    stream.comments(60).await;
    let id = client.job().await;
    let messages = stream.take(2).await;
    assert!(messages.iter().all(|message| message.json()["job_id"] == json!(id)));
}

#[tokio::test]
async fn a_stream_ends_when_its_key_is_revoked() {
    let bounds = Bounds { stream_heartbeat: Duration::from_millis(20), ..Bounds::default() };
    let server = Server::on(Arc::new(forgerun_store::memory::Memory::new()), &[], bounds).await;
    let (client, other) = (server.client().await, server.client().await);
    let (mut stream, mut others) = (of_client(&client).await, of_client(&other).await);
    let revoke = format!("{}/revoke", client.keys_path());
    client.call("POST", &revoke).json(json!({"key_id": client.key_id})).send().await.expect(200);
    assert_eq!(stream.next().await, None);
    others.comments(3).await;
}

/// Less than a heartbeat, and far more than it takes to be told.
const AT_ONCE: Duration = Duration::from_secs(12);

#[tokio::test]
async fn a_stream_ends_with_its_key_and_not_with_the_next_heartbeat() {
    let store = Arc::new(forgerun_store::memory::Memory::new());
    let server = Server::on(store.clone(), &[("auth.key_ttl_days", "1")], Bounds::default()).await;
    let other_node = Server::on(store, &[], Bounds::default()).await;
    let revoked = async |client: &Client, by: &Server| {
        let path = format!("{}/revoke", client.keys_path());
        let call = by.call("POST", &path).header("authorization", &format!("Bearer {}", client.key));
        call.json(json!({"key_id": client.key_id})).send().await.expect(200);
    };
    for by in [&server, &other_node] {
        let client = server.client().await;
        let job = client.job().await;
        let (mut all, mut one) = (of_client(&client).await, of_job(&client, &job).await);
        revoked(&client, by).await;
        let over = async { (all.rest().await, one.rest().await) };
        tokio::time::timeout(AT_ONCE, over).await.expect("both have ended");
    }
    let client = server.client().await;
    server.clock.advance(Duration::from_secs(24 * 3600 - 8));
    let mut stream = of_client(&client).await;
    let over = tokio::time::timeout(AT_ONCE, stream.rest()).await;
    assert_eq!(over.expect("the key has expired"), []);
}

#[tokio::test]
async fn a_stop_ends_streams_at_once_and_refuses_new_ones() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job().await;
    let (mut all, mut one) = (of_client(&client).await, of_job(&client, &id).await);
    server.app.begin_stop();
    assert_eq!(all.rest().await, []);
    assert_eq!(names(&one.rest().await), ["job-created", "job-queued"]);
    let refused = Opening::new(&client, "/v1/events").open().await.err().unwrap();
    refused.refused(503, "RFA_STORAGE_UNAVAILABLE");
}

#[tokio::test]
async fn a_head_request_tells_what_a_stream_would_be() {
    let server = Server::start().await;
    let client = server.client().await;
    let path = format!("/v1/jobs/{}/events", client.job().await);
    for path in [path.as_str(), "/v1/events"] {
        let answer = client.call("HEAD", path).header("accept", "text/event-stream").send().await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("text/event-stream")));
        assert!(answer.body.is_empty());
    }
}

/// Lost events are lost, but nothing else is: the job can be read, watched and finished.
#[tokio::test]
async fn a_job_without_its_events_is_still_served_and_goes_on() {
    let server = Server::start().await;
    let client = server.client().await;
    let id = client.job().await;
    let store = server.app.engine.store();
    let mut job = (*store.job(id.parse().unwrap()).await.unwrap().unwrap()).clone();
    job.history = Default::default();
    let lost = forgerun_core::Changes { updated: vec![job], ..Default::default() };
    store.transact(Default::default(), Box::new(move |_| lost.clone())).await.unwrap();
    let path = format!("/v1/jobs/{id}");
    assert_eq!(client.get(&path).await.expect(200)["state"], "QUEUED");
    assert_eq!(client.get(&format!("{path}/events")).await.expect(200)["events"], json!([]));
    let mut stream = of_job(&client, &id).await;
    server.succeed().await;
    assert_eq!(names(&stream.rest().await), ["job-assigned", "job-started", "job-completed"]);
    assert_eq!(client.get(&path).await.expect(200)["state"], "SUCCEEDED");
    client.get(&format!("{path}/report")).await.expect(200);
}

/// What `/api/v1` calls a job is one execution: a retry is another one, with a stream of its own.
#[tokio::test]
async fn on_the_operations_dialect_a_stream_is_that_of_one_execution() {
    let server = Server::with(&[("retry.base_ms", "0"), ("retry.max_ms", "0")]).await;
    let client = server.client().await;
    let id = client.job().await;
    let path = format!("/api/v1/jobs/{id}/events");
    let mut first = opened(Opening::new(&client, &path)).await;
    server.fail(Kind::HandlerError).await;
    let told = first.rest().await;
    assert_eq!(names(&told), ["job-created", "job-queued", "job-assigned", "job-started", "job-failed"]);
    client.post(&format!("/v1/jobs/{id}/retry")).await.expect(200);
    let job = server.app.engine.store().job(id.parse().unwrap()).await.unwrap().unwrap();
    let mut second = opened(Opening::new(&client, &format!("/api/v1/jobs/{}/events", job.execution))).await;
    server.succeed().await;
    let again = second.rest().await;
    assert_eq!(names(&again), ["job-queued", "job-assigned", "job-started", "job-completed"]);
    assert!(again.iter().all(|message| message.json()["jobId"] == json!(job.execution.to_string())));
    assert_eq!(opened(Opening::new(&client, &path)).await.rest().await, told, "the first stays as it was");
    let answer = Opening::new(&client, &path).after(&told[4].id).open().await.err().unwrap();
    assert_eq!(answer.status, 204);
    let page = client.get(&path).await.expect(200);
    assert_eq!(page["events"].as_array().unwrap().len(), 5);
    let other = server.client().await;
    let refused = Opening::new(&other, &path).open().await.err().unwrap();
    assert_eq!((refused.status, refused.json()["code"].as_str()), (403, Some("TENANT_ACCESS_DENIED")));
    client.call("GET", &path).header("accept", "image/png").send().await.expect(406);
}
