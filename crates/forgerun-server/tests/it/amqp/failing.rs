//! What becomes of jobs that fail: another attempt by way of a delay queue, or the dead letters;
//! with the headers that OJS asks for.

use serde_json::{Value, json};

use super::{World, id, messages};

/// A job that is tried again after so many milliseconds.
fn retried(n: u64, wait_ms: u64) -> Value {
    let retry =
        json!({"max_attempts": 2, "initial_interval_ms": wait_ms, "backoff": "constant", "jitter": false});
    json!({"body": {"id": id(n), "type": "email.send", "args": [n], "options": {"retry": retry}}})
}

fn details(message: &Value) -> Value {
    serde_json::from_str(message["headers"]["x-ojs-error-details"].as_str().unwrap()).unwrap()
}

#[tokio::test]
async fn a_failed_attempt_waits_in_a_delay_queue_with_the_headers_of_ojs() {
    let world = World::start().await;
    world.publish(json!([retried(1, 60_000)])).await;
    let job = world.fetch_all(1).await.remove(0);
    let error = json!({"code": "HANDLER_ERROR", "type": "SmtpConnectionError", "message": "SMTP connection refused", "retryable": true});
    world.nack(&job, error).await;
    let message = world.take("ojs.queue.retry.emails.64000", 1).await.remove(0);
    let headers = &message["headers"];
    assert_eq!(
        (&headers["x-ojs-job-id"], &headers["x-ojs-queue"]),
        (&json!(id(1)), &json!("emails")),
        "{message}"
    );
    assert_eq!((&headers["x-ojs-attempt"], &headers["x-ojs-max-attempts"]), (&json!(2), &json!(2)));
    assert_eq!(headers["x-ojs-error-code"], "HANDLER_ERROR");
    assert_eq!(headers["x-ojs-error-message"], "SMTP connection refused");
    assert_eq!(
        (&details(&message)["type"], &details(&message)["attempt"]),
        (&json!("SmtpConnectionError"), &json!(1))
    );
    assert_eq!(details(&message)["occurred_at"], world.job(&id(1)).await["errors"][0]["occurred_at"]);
    assert_eq!((&message["expiration"], &message["message_id"]), (&json!("60000"), &json!(id(1))));
    assert_eq!((&message["type"], &message["delivery_mode"]), (&json!("email.send"), &json!(2)));
    assert_eq!(message["content_type"], "application/openjobspec+json");
    let body: Value = serde_json::from_str(message["body"].as_str().unwrap()).unwrap();
    assert_eq!((&body["id"], &body["args"], &body["attempt"]), (&json!(id(1)), &json!([1]), &json!(1)));
}

#[tokio::test]
async fn an_attempt_that_ran_out_of_time_waits_too() {
    let world = World::start().await;
    world.publish(json!([retried(1, 3000)])).await;
    let job = world.fetch_all(1).await.remove(0);
    world.nack(&job, json!({"code": "HANDLER_TIMEOUT", "message": "too slow", "retryable": true})).await;
    let message = world.take("ojs.queue.retry.emails.4000", 1).await.remove(0);
    assert_eq!(message["headers"]["x-ojs-error-code"], "HANDLER_TIMEOUT", "{message}");
    assert_eq!((&message["expiration"], &message["headers"]["x-ojs-attempt"]), (&json!("3000"), &json!(2)));
}

#[tokio::test]
async fn a_failure_for_good_is_a_dead_letter() {
    let world = World::start().await;
    let timing_out = json!({"body": {"id": id(2), "type": "email.send", "args": [], "options": {"retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}}});
    world.publish(json!([retried(1, 60_000), timing_out])).await;
    for job in world.fetch_all(2).await {
        let error = if job["id"] == id(1) {
            json!({"code": "NON_RETRYABLE_ERROR", "message": "no such address", "retryable": false})
        } else {
            json!({"code": "HANDLER_TIMEOUT", "message": "too slow"})
        };
        world.nack(&job, error).await;
    }
    let dead = world.take("ojs.queue.dlx.emails", 2).await;
    for (message, expected) in dead.iter().zip([(id(1), "NON_RETRYABLE_ERROR"), (id(2), "HANDLER_TIMEOUT")]) {
        let headers = &message["headers"];
        assert_eq!(
            (&headers["x-ojs-job-id"], &headers["x-ojs-error-code"]),
            (&json!(expected.0), &json!(expected.1)),
            "{message}"
        );
        assert_eq!((&headers["x-ojs-attempt"], &message["expiration"]), (&json!(1), &Value::Null));
    }
    assert_eq!(world.job(&id(1)).await["state"], "discarded");
    let sinks = world.server.call("GET", "/admin/v1/sinks").send().await.expect(200);
    let sink = &sinks["items"][0];
    assert_eq!(
        (&sink["name"], &sink["kind"], &sink["last_error"]),
        (&json!("amqp-bridge"), &json!("amqp"), &Value::Null),
        "{sinks}"
    );
}

#[tokio::test]
async fn a_discarded_job_is_no_dead_letter() {
    let world = World::start().await;
    let exhausted = json!({"body": {"id": id(2), "type": "email.send", "args": [],
        "options": {"retry": {"max_attempts": 1, "on_exhaustion": "discard"}}}});
    world.publish(json!([plain_for_good(1), exhausted, plain_for_good(3)])).await;
    for job in world.fetch_all(3).await {
        let code = if job["id"] == id(1) { "DISCARD" } else { "HANDLER_ERROR" };
        world.nack(&job, json!({"code": code, "message": "no", "retryable": true})).await;
    }
    // The last one is published, so those before would be too.
    assert_eq!(world.take("ojs.queue.dlx.emails", 1).await[0]["message_id"], id(3));
    assert_eq!(world.depth("ojs.queue.dlx.emails").await, 0);
    for n in [1, 2] {
        assert_eq!(world.job(&id(n)).await["state"], "discarded");
    }
}

#[tokio::test]
async fn a_message_that_comes_back_joins_its_job_and_makes_no_second() {
    let mut world = World::start().await;
    world.publish(json!([retried(1, 200)])).await;
    let first = world.fetch_all(1).await.remove(0);
    world.nack(&first, json!({"code": "HANDLER_ERROR", "message": "once", "retryable": true})).await;
    let second = world.fetch_all(1).await.remove(0);
    assert_eq!((&second["id"], &second["attempt"]), (&first["id"], &json!(2)));
    // Its message is back by now, or will be, and finds the job in work or done.
    world.wait_for_metric(&messages("joined"), 1).await;
    world.ack(&second).await;
    assert_eq!((world.n_jobs().await, world.metric(&messages("taken")).await), (1, 1));
    // And again, long after: for an attempt that is over, and for a job that nobody knows.
    let event = json!({"x-ojs-job-id": id(1), "x-ojs-attempt": 1, "x-forgerun-event-id": id(9)});
    let unknown = json!({"x-ojs-job-id": id(7), "x-ojs-attempt": 2, "x-forgerun-event-id": id(9)});
    let again = json!([{"body": {}, "headers": event}, {"body": {"type": "email.send", "args": []}, "headers": unknown}]);
    world.publish(again).await;
    world.wait_for_metric(&messages("stale"), 2).await;
    world.stop_bridge().await;
    assert_eq!((world.n_jobs().await, world.depth("ojs.queue.emails").await), (1, 0));
    assert_eq!(world.job(&id(1)).await["state"], "completed");
}

#[tokio::test]
async fn jobs_of_other_queues_and_clients_are_not_published() {
    let mut world = World::start().await;
    world.publish(json!([plain_for_good(1)])).await;
    let other = world.server.client().await;
    for (queue, id) in [("emails", id(2)), ("letters", id(3))] {
        let body = json!({"id": id, "type": "email.send", "args": [], "options": {"queue": queue, "retry": {"max_attempts": 1, "on_exhaustion": "dead_letter"}}});
        other.call("POST", "/ojs/v1/jobs").json(body).send().await.expect(201);
        let fetch = json!({"queues": [queue], "worker_id": "w-2"});
        other.call("POST", "/ojs/v1/workers/fetch").json(fetch).send().await.expect(200);
        let nack = json!({"job_id": id, "error": {"code": "HANDLER_ERROR", "message": "no"}});
        other.call("POST", "/ojs/v1/workers/nack").json(nack).send().await.expect(200);
    }
    let job = world.fetch_all(1).await.remove(0);
    world.nack(&job, json!({"code": "HANDLER_ERROR", "message": "no"})).await;
    // The last of them is there, so those before would be too.
    assert_eq!(world.take("ojs.queue.dlx.emails", 1).await[0]["message_id"], id(1));
    world.stop_bridge().await;
    assert_eq!(world.depth("ojs.queue.dlx.emails").await, 0);
}

fn plain_for_good(n: u64) -> Value {
    let retry = json!({"max_attempts": 1, "on_exhaustion": "dead_letter"});
    json!({"body": {"id": id(n), "type": "email.send", "args": [], "options": {"retry": retry}}})
}
