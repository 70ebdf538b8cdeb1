//! A failing job's object on its way to a receiver: what arrives, how it is verified, and that a
//! crash does not lose it.

use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use forgerun_server::webhooks::keys::read_document;
use forgerun_server::webhooks::verify::{ReceivedDelivery, VerifyOptions, message_signature};
use serde_json::json;

use super::kinds::{Arrival, Recorder, Temper, run, server};
use crate::api::http::Call;
use crate::process::{Server, forgerun};

/// The arrival with this event; those before it are dropped.
async fn event(recorder: &mut Recorder, name: &str) -> Arrival {
    loop {
        let arrival = recorder.next().await;
        if arrival.header("x-forgerun-event") == name {
            return arrival;
        }
    }
}

#[tokio::test]
async fn the_object_of_a_failed_job_arrives_byte_for_byte_and_signed() {
    let server = server();
    let mut recorder = Recorder::start(|_| Temper::Answers(200)).await;
    let url = recorder.receiver.url();
    let job = run(&server, json!({"type": "EXECUTE", "work_kind": "FAIL_IMMEDIATE", "callback": url})).await;
    let arrival = event(&mut recorder, "job_failed").await;
    assert_eq!(arrival.header("content-type"), "application/problem+json");
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    let stored =
        Call::new(server.address, "GET", &path).header("accept", "application/problem+json").send().await;
    assert_eq!(String::from_utf8_lossy(&arrival.bytes), stored.text());
    assert_eq!(arrival.body["jobStatus"], "FAILED");
    // What the body says of status and waiting is about the job; the delivery was answered with 200
    // and is over.
    assert_eq!(arrival.body["status"], 500, "{}", arrival.body);

    let document = Call::new(server.address, "GET", "/.well-known/forgerun/webhook-keys").send().await;
    let keys = read_document(&document.body).unwrap();
    let means = VerifyOptions {
        secrets: &[],
        keys: &keys,
        now: Some(SystemClock.now()),
        tolerance: Duration::from_secs(300),
    };
    let headers = arrival.headers();
    let delivery = ReceivedDelivery { method: "POST", url: &url, headers: &headers, body: &arrival.bytes };
    let report = message_signature(&delivery, &means);
    assert!(report.holds(), "{report}");
    assert!(!headers.contains_key("webhook-signature"), "a callback has no secret");
}

#[tokio::test]
async fn the_receiver_is_told_its_place_in_the_trace_of_the_job() {
    let server = server();
    let mut recorder = Recorder::start(|_| Temper::Answers(200)).await;
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "callback": recorder.receiver.url()});
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    Call::new(server.address, "POST", "/v1/jobs")
        .header("traceparent", traceparent)
        .json(body)
        .send()
        .await
        .expect(202);
    let (first, second) = (recorder.next().await, recorder.next().await);
    let places = [first.header("traceparent"), second.header("traceparent")];
    for place in places {
        assert!(
            place.starts_with("00-4bf92f3577b34da6a3ce929d0e0e4736-") && place.ends_with("-01"),
            "{place}"
        );
    }
    assert_ne!(places[0], places[1]);
}

#[tokio::test]
async fn what_was_not_delivered_before_a_crash_is_delivered_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let start = || {
        let mut command = forgerun(&["serve", "--listen", "127.0.0.1:0", "--data", data]);
        command.env("FORGERUN_AUTH__MODE", "open").env("FORGERUN_SIM__TIME_SCALE", "0");
        command.env("FORGERUN_WEBHOOKS__TIMEOUT_MS", "500").env("FORGERUN_WEBHOOKS__MAX_RETRIES", "20");
        Server::start(&mut command)
    };
    // In trouble at first, well after a while: the crash falls between.
    let mut recorder = Recorder::start(|n| Temper::Answers(if n < 3 { 503 } else { 200 })).await;
    let server = start();
    let body = json!({"type": "EXECUTE", "work_kind": "SUCCESS_FAST", "callback": recorder.receiver.url()});
    let job = run(&server, body).await;
    assert_eq!(recorder.next().await.header("x-forgerun-event"), "job_created");
    server.signal("KILL");
    assert_eq!(server.wait().code, None);
    let _server = start();
    let mut events: Vec<String> = Vec::new();
    while events.last().is_none_or(|last| last != "job_succeeded") {
        let arrival = recorder.next().await;
        assert_eq!(arrival.body["job_id"], job["job_id"]);
        events.push(arrival.header("x-forgerun-event").to_owned());
    }
    events.dedup();
    let expected = ["job_created", "job_queued", "job_assigned", "job_started", "job_succeeded"];
    assert_eq!(events, expected, "in order, however often each was tried");
}
