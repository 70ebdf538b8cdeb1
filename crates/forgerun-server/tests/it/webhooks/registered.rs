//! Registered webhooks, from the registration to a receiver and back: what arrives is judged by
//! libraries that are not ours.

use std::time::Duration;

use axum::http::Request;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use forgerun_engine::{Clock, SystemClock};
use forgerun_server::app::{DeliveriesOf, DeliveryFilter};
use http_body_util::Full;
use httpsig_hyper::prelude::{AlgorithmName, PublicKey};
use httpsig_hyper::{MessageSignatureReq, RequestContentDigest};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::kinds::{Arrival, PATIENCE, Recorder, Temper};
use crate::api::server::{Client, Server};

const PROBLEM: &str = "application/problem+json";

/// A server that works and delivers without waiting, and tries each delivery so many times.
pub(super) async fn server(attempts: u32) -> Server {
    let retries = (attempts - 1).to_string();
    let server = Server::with(&[
        ("sim.time_scale", "0"),
        ("webhooks.max_retries", &retries),
        ("webhooks.base_ms", "20"),
        ("webhooks.max_ms", "100"),
        ("limits.rate_per_minute", "6000"),
    ])
    .await;
    server.app.work();
    server.app.deliver();
    server
}

pub(super) async fn register(client: &Client, body: Value) -> Value {
    client.call("POST", "/v1/webhooks").json(body).send().await.expect(201)
}

fn path(webhook: &Value, rest: &str) -> String {
    format!("/v1/webhooks/{}{rest}", webhook["webhook_id"].as_str().unwrap())
}

pub(super) async fn submit(client: &Client, kind: &str) -> String {
    client.job_like(json!({"type": "EXECUTE", "work_kind": kind})).await
}

pub(super) async fn change(client: &Client, webhook: &Value, body: Value) -> Value {
    client.call("PATCH", &path(webhook, "")).json(body).send().await.expect(200)
}

/// The failure object as it is stored.
pub(super) async fn stored(client: &Client, job: &str) -> Vec<u8> {
    let answer = client.call("GET", &format!("/v1/jobs/{job}")).header("accept", PROBLEM).send().await;
    assert_eq!(answer.header("content-type"), Some(PROBLEM));
    answer.body
}

/// Looks until what is there is as it should be.
async fn until(client: &Client, path: &str, good: impl Fn(&Value) -> bool) -> Value {
    let looking = async {
        loop {
            let shown = client.get(path).await.expect(200);
            if good(&shown) {
                return shown;
            }
            SystemClock.sleep(Duration::from_millis(30)).await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("{path} does not get there"))
}

/// Waits until so many deliveries to the webhook have this status; the newest first.
pub(super) async fn settled(client: &Client, webhook: &Value, status: &str, n: usize) -> Vec<Value> {
    let path = path(webhook, &format!("/deliveries?status={status}"));
    let page = until(client, &path, |page| page["deliveries"].as_array().unwrap().len() == n).await;
    page["deliveries"].as_array().unwrap().clone()
}

/// What the owner of a receiver knows: the URL, the secret, and where the public keys are.
struct Owner {
    url: String,
    secret: String,
    keys: Value,
}

impl Owner {
    async fn of(server: &Server, webhook: &Value) -> Owner {
        let keys = server.call("GET", "/.well-known/forgerun/webhook-keys").send().await.expect(200);
        let text = |name: &str| webhook[name].as_str().unwrap().to_owned();
        Owner { url: text("url"), secret: text("secret"), keys }
    }

    /// RFC 9421, with the key that the signature names.
    async fn accepts_message(&self, arrival: &Arrival) -> bool {
        let named = format!("keyid=\"{}\"", self.keys["keys"][0]["kid"].as_str().unwrap());
        assert!(arrival.header("signature-input").contains(&named), "{}", arrival.head);
        let bytes = URL_SAFE_NO_PAD.decode(self.keys["keys"][0]["x"].as_str().unwrap()).unwrap();
        let key = PublicKey::from_bytes(&AlgorithmName::Ed25519, &bytes).unwrap();
        let body = Full::new(Bytes::from(arrival.bytes.clone()));
        let mut request = Request::post(&self.url).body(body).unwrap();
        *request.headers_mut() = arrival.headers();
        let Ok(request) = request.verify_content_digest().await else { return false };
        request.verify_message_signature(&key, None).await.is_ok()
    }

    /// Standard Webhooks, with the secret.
    fn accepts_secret(&self, arrival: &Arrival) -> bool {
        let theirs = standardwebhooks::Webhook::new(&self.secret).unwrap();
        theirs.verify(&arrival.bytes, &arrival.headers()).is_ok()
    }

    async fn accepts_both(&self, arrival: &Arrival) -> bool {
        self.accepts_message(arrival).await && self.accepts_secret(arrival)
    }
}

#[tokio::test]
async fn a_failed_job_arrives_signed_twice_and_is_sent_again_when_asked_for() {
    let server = server(1).await;
    let client = server.client().await;
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let webhook = register(&client, json!({"url": recorder.receiver.url(), "events": ["job_failed"]})).await;
    let owner = Owner::of(&server, &webhook).await;
    let job = submit(&client, "FAIL_IMMEDIATE").await;
    let first = recorder.next().await;
    assert_eq!((first.header("content-type"), first.header("x-forgerun-event")), (PROBLEM, "job_failed"));
    assert_eq!(first.bytes, stored(&client, &job).await, "byte for byte");
    assert!(owner.accepts_both(&first).await, "{}", first.head);

    let [delivery] = &settled(&client, &webhook, "delivered", 1).await[..] else { panic!("one delivery") };
    assert_eq!(
        (&delivery["delivery_id"], &delivery["job_id"]),
        (&json!(first.header("webhook-id")), &json!(job))
    );
    assert_eq!(delivery["log"][0]["response_status"], 204);
    let again = format!("/deliveries/{}/redeliver", first.header("webhook-id"));
    client.post(&path(&webhook, &again)).await.expect(202);
    let second = recorder.next().await;
    assert_eq!(second.header("webhook-id"), first.header("webhook-id"), "a receiver can tell a repetition");
    assert_eq!(second.bytes, first.bytes);
    assert!(owner.accepts_both(&second).await, "{}", second.head);
    let [delivery] = &settled(&client, &webhook, "delivered", 1).await[..] else { panic!("one delivery") };
    assert_eq!(delivery["log"].as_array().unwrap().len(), 2, "{delivery}");

    let forged = Arrival { bytes: b"{\"status\":200}".to_vec(), ..first };
    assert!(!owner.accepts_message(&forged).await && !owner.accepts_secret(&forged));
    assert_eq!(recorder.rest().len(), 0);
}

#[tokio::test]
async fn both_secrets_sign_while_one_takes_over_from_the_other() {
    let server = server(1).await;
    let client = server.client().await;
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let webhook = register(&client, json!({"url": recorder.receiver.url(), "events": ["*"]})).await;
    let old = Owner::of(&server, &webhook).await;
    let rotate = client.call("POST", &path(&webhook, "/rotate-secret")).json(json!({"overlap_s": 60}));
    let new = Owner::of(&server, &rotate.send().await.expect(200)).await;

    let test = client.post(&path(&webhook, "/test")).await.expect(202);
    let during = recorder.next().await;
    assert_eq!(during.header("webhook-signature").split(' ').count(), 2);
    assert!(old.accepts_both(&during).await && new.accepts_both(&during).await, "{}", during.head);
    assert_eq!(during.header("webhook-id"), test["delivery_id"].as_str().unwrap());
    assert_eq!(during.header("x-forgerun-event"), "webhook_test");
    assert_eq!(
        (&during.body["event_name"], &during.body["webhook_id"]),
        (&json!("webhook_test"), &webhook["webhook_id"])
    );

    server.clock.advance(Duration::from_secs(61));
    client.post(&path(&webhook, "/test")).await.expect(202);
    let after = recorder.next().await;
    assert_eq!(after.header("webhook-signature").split(' ').count(), 1);
    assert!(new.accepts_both(&after).await && !old.accepts_secret(&after), "{}", after.head);
}

#[tokio::test]
async fn an_endpoint_that_wants_cloud_events_gets_them_around_the_body_or_in_headers() {
    let server = server(1).await;
    let client = server.client().await;
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let wanted = json!({"url": recorder.receiver.url(), "events": ["job_failed"], "envelope": "cloudevents"});
    let webhook = register(&client, wanted).await;
    let owner = Owner::of(&server, &webhook).await;

    let job = submit(&client, "FAIL_IMMEDIATE").await;
    let structured = recorder.next().await;
    assert_eq!(structured.header("content-type"), "application/cloudevents+json");
    let object = stored(&client, &job).await;
    let event: Value = serde_json::from_slice(&object).unwrap();
    assert_eq!(
        structured.body,
        json!({
            "specversion": "1.0", "id": event["event_id"], "source": "/", "type": "dev.forgerun.job.failed",
            "subject": job, "time": event["timestamp"], "datacontenttype": PROBLEM, "data": event,
        })
    );
    let text = std::str::from_utf8(&structured.bytes).unwrap();
    assert!(text.contains(std::str::from_utf8(&object).unwrap()), "{text}");
    assert!(owner.accepts_both(&structured).await, "{}", structured.head);

    change(&client, &webhook, json!({"envelope": "cloudevents-binary"})).await;
    let job = submit(&client, "FAIL_IMMEDIATE").await;
    let binary = recorder.next().await;
    assert_eq!(binary.header("content-type"), PROBLEM);
    assert_eq!(binary.bytes, stored(&client, &job).await, "byte for byte");
    for (name, value) in [
        ("ce-specversion", "1.0"),
        ("ce-id", binary.body["event_id"].as_str().unwrap()),
        ("ce-source", "/"),
        ("ce-type", "dev.forgerun.job.failed"),
        ("ce-subject", &job),
        ("ce-time", binary.body["timestamp"].as_str().unwrap()),
    ] {
        assert_eq!(binary.header(name), value, "{name}");
        assert!(binary.header("signature-input").contains(&format!("\"{name}\"")), "{name} is signed");
    }
    assert!(owner.accepts_both(&binary).await, "{}", binary.head);
}

#[tokio::test]
async fn a_callback_with_the_url_of_a_webhook_hears_of_each_event_once() {
    let server = server(1).await;
    let client = server.client().await;
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let url = recorder.receiver.url();
    register(&client, json!({"url": url, "events": ["job_started", "job_failed"]})).await;
    let spelled = url.replace("http://", "HTTP://") + "#again";
    let job =
        client.job_like(json!({"type": "EXECUTE", "work_kind": "FAIL_IMMEDIATE", "callback": spelled})).await;
    assert_eq!(client.get(&format!("/v1/jobs/{job}")).await.expect(200)["callback"], url);
    let mut heard = Vec::new();
    for _ in 0..5 {
        let arrival = recorder.next().await;
        let to_webhook = arrival.headers().contains_key("webhook-signature");
        heard.push((arrival.header("x-forgerun-event").to_owned(), to_webhook));
    }
    heard.sort();
    let expected = [
        ("job_assigned", false),
        ("job_created", false),
        ("job_failed", true),
        ("job_queued", false),
        ("job_started", true),
    ];
    assert_eq!(heard, expected.map(|(event, to_webhook)| (event.to_owned(), to_webhook)));
    let of = DeliveriesOf::Job(job.parse().unwrap());
    let filter = DeliveryFilter { of, status: None, before: None, limit: 100, look_max: usize::MAX };
    assert_eq!(
        server.app.engine.store().deliveries(filter).await.unwrap().len(),
        5,
        "and nothing more is meant to"
    );
}

#[tokio::test]
async fn a_filter_lets_through_what_it_names_of_its_own_client() {
    let server = server(1).await;
    let (client, other) = (server.client().await, server.client().await);
    let mut failures = Recorder::start(|_| Temper::Answers(204)).await;
    let mut timeouts = Recorder::start(|_| Temper::Answers(204)).await;
    register(&client, json!({"url": failures.receiver.url(), "events": ["job_failed"]})).await;
    register(&client, json!({"url": timeouts.receiver.url(), "events": ["job_timed_out"]})).await;
    submit(&other, "FAIL_IMMEDIATE").await;
    submit(&client, "SUCCESS_FAST").await;
    for (kind, event) in [("FAIL_IMMEDIATE", "job_failed"), ("RUNS_OVER_TIMEOUT", "job_timed_out")] {
        let job = submit(&client, kind).await;
        let arrival = failures.next().await;
        assert_eq!((arrival.header("x-forgerun-event"), &arrival.body["job_id"]), (event, &json!(job)));
        assert_eq!(arrival.header("content-type"), PROBLEM);
    }
    let arrival = timeouts.next().await;
    assert_eq!(
        (arrival.header("x-forgerun-event"), &arrival.body["jobStatus"]),
        ("job_timed_out", &json!("TIMED_OUT"))
    );
    assert_eq!((failures.rest().len(), timeouts.rest().len()), (0, 0));
}

#[tokio::test]
async fn a_mixed_batch_arrives_as_a_problem_with_207_and_its_failed_items() {
    let server = server(1).await;
    let client = server.client().await;
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let webhook = register(&client, json!({"url": recorder.receiver.url(), "events": ["job_failed"]})).await;
    let owner = Owner::of(&server, &webhook).await;
    // As many as in the draft's example of a webhook: those that failed are listed, and no other.
    let kind = |n: usize| if n == 6 || n == 8 { "FAIL_IMMEDIATE" } else { "SUCCESS_FAST" };
    let items: Vec<Value> =
        (0..10).map(|n| json!({"itemId": format!("rec-{n}"), "work_kind": kind(n)})).collect();
    let batch = client.call("POST", "/v1/jobs/batch").json(json!({"items": items})).send().await.expect(202);
    let arrival = recorder.next().await;
    assert_eq!(arrival.header("content-type"), PROBLEM);
    assert_eq!(arrival.bytes, stored(&client, batch["job_id"].as_str().unwrap()).await, "byte for byte");
    let told = &arrival.body;
    assert_eq!((&told["status"], &told["jobStatus"]), (&json!(207), &json!("COMPLETED_WITH_ERRORS")));
    assert!(told["detail"].as_str().unwrap().starts_with("8 of 10 items completed"), "{told}");
    let listed: Vec<_> =
        told["results"].as_array().unwrap().iter().map(|item| (&item["itemId"], &item["status"])).collect();
    assert_eq!(listed, [(&json!("rec-6"), &json!("FAILED")), (&json!("rec-8"), &json!("FAILED"))]);
    assert!(told["completedAt"].is_string());
    assert!(owner.accepts_both(&arrival).await, "{}", arrival.head);
}

#[tokio::test]
async fn what_is_shown_of_a_delivery_is_what_arrived_and_no_signature() {
    let server = server(1).await;
    let client = server.client().await;
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let webhook = json!({"url": recorder.receiver.url(), "events": ["job_started", "job_failed"]});
    let webhook = register(&client, webhook).await;
    for envelope in ["none", "cloudevents", "cloudevents-binary"] {
        change(&client, &webhook, json!({"envelope": envelope})).await;
        let job = submit(&client, "FAIL_IMMEDIATE").await;
        for arrival in [recorder.next().await, recorder.next().await] {
            let address = format!("/v1/jobs/{job}/deliveries/{}", arrival.header("webhook-id"));
            let shown = client.get(&address).await;
            let embedded = [b"\"body\":", &arrival.bytes[..], b"}"].concat();
            let found = shown.body.windows(embedded.len()).any(|bytes| bytes == embedded);
            assert!(found, "{envelope}: byte for byte in {}", shown.text());
            let headers = shown.expect(200)["request"]["headers"].as_object().unwrap().clone();
            for (name, value) in &headers {
                assert_eq!(value, arrival.header(name), "{envelope}: {name}");
            }
            let mut names: Vec<&str> = headers.keys().map(String::as_str).collect();
            names.retain(|name| !name.starts_with("ce-"));
            assert_eq!(names, ["content-digest", "content-type", "webhook-id", "x-forgerun-event"]);
            let in_headers = envelope == "cloudevents-binary";
            assert_eq!(headers.len() - names.len(), if in_headers { 6 } else { 0 }, "{headers:?}");
        }
    }
}

#[tokio::test]
async fn what_was_given_up_since_a_moment_is_sent_again() {
    let server = server(2).await;
    let client = server.client().await;
    // Two attempts at each of two deliveries, then it has recovered.
    let mut recorder = Recorder::start(|n| Temper::Answers(if n <= 4 { 500 } else { 204 })).await;
    let webhook = register(&client, json!({"url": recorder.receiver.url(), "events": ["job_failed"]})).await;
    let early = submit(&client, "FAIL_IMMEDIATE").await;
    settled(&client, &webhook, "failed", 1).await;
    server.clock.advance(Duration::from_secs(3600));
    let late = submit(&client, "FAIL_IMMEDIATE").await;
    let failed = settled(&client, &webhook, "failed", 2).await;
    assert_eq!((&failed[0]["job_id"], &failed[0]["reason"]), (&json!(late), &json!("exhausted")));
    let attempts: Vec<_> =
        recorder.rest().iter().map(|arrival| arrival.header("x-forgerun-attempt").to_owned()).collect();
    assert_eq!(attempts, ["1", "2", "1", "2"]);

    let again = client.call("POST", &path(&webhook, "/redeliver"));
    let since = json!({"since": failed[0]["settled_at"]});
    assert_eq!(again.clone().json(since).send().await.expect(202)["redelivered"], 1);
    assert_eq!(recorder.next().await.body["job_id"], json!(late));
    settled(&client, &webhook, "delivered", 1).await;
    assert_eq!(again.send().await.expect(202)["redelivered"], 1);
    assert_eq!(recorder.next().await.body["job_id"], json!(early));
    settled(&client, &webhook, "delivered", 2).await;
    let health = client.get(&path(&webhook, "")).await.expect(200)["health"].clone();
    assert_eq!((&health["failures_in_a_row"], &health["failing_since"]), (&json!(0), &Value::Null));
    assert_eq!(recorder.rest().len(), 0);
}

#[tokio::test]
async fn a_receiver_that_answers_410_is_left_alone_until_its_owner_enables_it() {
    let server = server(3).await;
    let client = server.client().await;
    let mut recorder = Recorder::start(|n| Temper::Answers(if n == 1 { 410 } else { 204 })).await;
    let webhook = register(&client, json!({"url": recorder.receiver.url(), "events": ["job_failed"]})).await;
    submit(&client, "FAIL_IMMEDIATE").await;
    let gone = until(&client, &path(&webhook, ""), |shown| shown["enabled"] == false).await;
    assert_eq!((&gone["disabled_reason"], &gone["health"]["failures_in_a_row"]), (&json!("gone"), &json!(1)));
    assert!(gone["disabled_at"].is_string() && gone["health"]["last_failure_at"].is_string(), "{gone}");
    let metrics = server.call("GET", "/metrics").send().await;
    assert!(metrics.text().lines().any(|line| line == "webhook_disabled_total 1"), "{}", metrics.text());
    let [delivery] = &settled(&client, &webhook, "failed", 1).await[..] else { panic!("one delivery") };
    assert_eq!(
        (&delivery["reason"], &delivery["attempts"]),
        (&json!("gone"), &json!(1)),
        "no second attempt"
    );

    let again =
        path(&webhook, &format!("/deliveries/{}/redeliver", delivery["delivery_id"].as_str().unwrap()));
    client.post(&again).await.refused(409, "RFA_JOB_CONFLICT");
    client.post(&path(&webhook, "/test")).await.refused(409, "RFA_JOB_CONFLICT");
    assert_eq!(change(&client, &webhook, json!({"enabled": true})).await["enabled"], true);
    client.post(&again).await.expect(202);
    let (first, second) = (recorder.next().await, recorder.next().await);
    assert_eq!(first.header("webhook-id"), second.header("webhook-id"));
    settled(&client, &webhook, "delivered", 1).await;
}

#[tokio::test]
async fn another_receiver_hears_that_one_was_disabled() {
    let server = server(1).await;
    let client = server.client().await;
    let deaf = Recorder::start(|_| Temper::Answers(410)).await;
    let mut recorder = Recorder::start(|_| Temper::Answers(204)).await;
    let gone = register(&client, json!({"url": deaf.receiver.url(), "events": ["*"]})).await;
    let events = json!(["webhook_disabled"]);
    let webhook = json!({"url": recorder.receiver.url(), "events": events, "envelope": "cloudevents-binary"});
    let webhook = register(&client, webhook).await;
    let owner = Owner::of(&server, &webhook).await;
    client.post(&path(&gone, "/test")).await.expect(202);

    let arrival = recorder.next().await;
    assert!(owner.accepts_both(&arrival).await, "{}", arrival.head);
    assert_eq!(arrival.header("content-type"), "application/json");
    assert_eq!(arrival.header("x-forgerun-event"), "webhook_disabled");
    assert_eq!(arrival.header("ce-type"), "dev.forgerun.webhook.disabled");
    assert_eq!(json!(arrival.header("ce-subject")), gone["webhook_id"]);
    let page = client.get("/v1/events").await.expect(200);
    assert_eq!(arrival.body, page["events"][0], "the same object as on other roads");
    assert_eq!((&arrival.body["webhook_id"], &arrival.body["reason"]), (&gone["webhook_id"], &json!("gone")));
    settled(&client, &webhook, "delivered", 1).await;
}

#[tokio::test]
async fn a_receiver_that_fails_for_a_day_is_left_alone() {
    let server = server(1).await;
    let client = server.client().await;
    let recorder = Recorder::start(|_| Temper::Answers(500)).await;
    let webhook = register(&client, json!({"url": recorder.receiver.url(), "events": ["*"]})).await;
    let fail = async |n: u32| {
        client.post(&path(&webhook, "/test")).await.expect(202);
        until(&client, &path(&webhook, ""), |shown| shown["health"]["given_up_in_a_row"] == n).await
    };
    let mut shown = Value::Null;
    for n in 1..=10 {
        shown = fail(n).await;
    }
    assert_eq!(
        (&shown["enabled"], &shown["disabled_reason"]),
        (&json!(true), &Value::Null),
        "it may be a bad hour"
    );
    assert!(shown["health"]["failing_since"].is_string(), "{shown}");
    server.clock.advance(Duration::from_secs(24 * 3600));
    let shown = fail(11).await;
    assert_eq!((&shown["enabled"], &shown["disabled_reason"]), (&json!(false), &json!("failing")));
}

#[tokio::test]
async fn how_long_a_receiver_may_fail_is_the_operators_choice() {
    let settings = [("webhooks.max_retries", "0"), ("webhooks.disable_after_s", "0")];
    let server = Server::with(&settings).await;
    server.app.deliver();
    let client = server.client().await;
    let recorder = Recorder::start(|_| Temper::Answers(500)).await;
    let webhook = register(&client, json!({"url": recorder.receiver.url(), "events": ["*"]})).await;
    for n in 1..=10 {
        client.post(&path(&webhook, "/test")).await.expect(202);
        let given_up = |shown: &Value| shown["health"]["given_up_in_a_row"] == n;
        let shown = until(&client, &path(&webhook, ""), given_up).await;
        assert_eq!(shown["enabled"], n < 10, "with the tenth that is given up, however soon");
    }
}
