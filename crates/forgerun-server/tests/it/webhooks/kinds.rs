//! The five WEBHOOK_ kinds of the catalogue, against receivers that succeed, are silent, are in
//! trouble, are slow, or never recover: the job succeeds every time, and the delivery goes as the
//! catalogue says.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use forgerun_engine::{Clock, SystemClock};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::receiver::{Receiver, read_request};
use crate::api::http::Call;
use crate::process::{Server, forgerun};

/// Far more than anything here takes, so that only a hang fails.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// What arrived: headers by name, and the body.
pub(super) struct Arrival {
    pub(super) head: String,
    pub(super) bytes: Vec<u8>,
    pub(super) body: Value,
}

impl Arrival {
    pub(super) fn header(&self, name: &str) -> &str {
        let line = self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.unwrap_or_else(|| panic!("no {name} in {}", self.head))
    }

    pub(super) fn headers(&self) -> HeaderMap {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines
            .map(|(name, value)| (HeaderName::try_from(name).unwrap(), HeaderValue::try_from(value).unwrap()))
            .collect()
    }
}

/// What a receiver does with its nth request.
#[derive(Clone, Copy)]
pub(super) enum Temper {
    /// Answers with this status.
    Answers(u16),
    /// Answers with this status after so many milliseconds.
    AnswersLate(u16, u64),
    /// Says nothing.
    Silent,
}

pub(super) struct Recorder {
    pub(super) receiver: Receiver,
    arrivals: mpsc::Receiver<Arrival>,
}

impl Recorder {
    /// Treats requests by their number, from 1.
    pub(super) async fn start(temper: fn(u32) -> Temper) -> Recorder {
        let (told, arrivals) = mpsc::channel(1000);
        let n_requests = Arc::new(AtomicU32::new(0));
        let receiver = Receiver::start(move |mut connection| {
            let (told, n_requests) = (told.clone(), n_requests.clone());
            async move {
                while let Some((head, bytes)) = read_request(&mut connection).await {
                    let n = n_requests.fetch_add(1, Ordering::SeqCst) + 1;
                    let body = serde_json::from_slice(&bytes).unwrap();
                    let _ = told.send(Arrival { head, bytes, body }).await;
                    let status = match temper(n) {
                        Temper::Answers(status) => status,
                        Temper::AnswersLate(status, millis) => {
                            SystemClock.sleep(Duration::from_millis(millis)).await;
                            status
                        }
                        Temper::Silent => {
                            // Until the sender gives up.
                            read_request(&mut connection).await;
                            return;
                        }
                    };
                    let answer = format!("HTTP/1.1 {status} -\r\ncontent-length: 0\r\n\r\n");
                    if connection.write_all(answer.as_bytes()).await.is_err() {
                        return;
                    }
                }
            }
        })
        .await;
        Recorder { receiver, arrivals }
    }

    pub(super) async fn next(&mut self) -> Arrival {
        timeout(PATIENCE, self.arrivals.recv()).await.expect("nothing arrives").expect("the receiver broke")
    }

    /// What else arrived up to now.
    pub(super) fn rest(&mut self) -> Vec<Arrival> {
        std::iter::from_fn(|| self.arrivals.try_recv().ok()).collect()
    }
}

/// A server whose jobs take no time and whose deliveries are tried three times. No receiver is too
/// slow for it.
pub(super) fn server() -> Server {
    server_that_waits(PATIENCE)
}

/// The same, giving receivers so much time to answer.
fn server_that_waits(span: Duration) -> Server {
    Server::start(
        forgerun(&["serve", "--listen", "127.0.0.1:0", "--database-url", "memory:"])
            .env("FORGERUN_AUTH__MODE", "open")
            .env("FORGERUN_SIM__TIME_SCALE", "0")
            .env("FORGERUN_WEBHOOKS__TIMEOUT_MS", span.as_millis().to_string())
            .env("FORGERUN_WEBHOOKS__MAX_RETRIES", "2")
            .env("FORGERUN_WEBHOOKS__BASE_MS", "20")
            .env("FORGERUN_WEBHOOKS__MAX_MS", "100"),
    )
}

/// Submits a job and waits for its end.
pub(super) async fn run(server: &Server, body: Value) -> Value {
    let job = Call::new(server.address, "POST", "/v1/jobs").json(body).send().await.expect(202);
    let path = format!("/v1/jobs/{}", job["job_id"].as_str().unwrap());
    let ended = Call::new(server.address, "GET", &path).header("prefer", "wait=30").send().await.expect(200);
    assert_ne!(ended["outcome"], Value::Null, "{ended}");
    ended
}

/// Runs a job of this kind that reports to the receiver. It succeeds, whatever the receiver does.
async fn succeed(server: &Server, kind: &str, url: &str) -> Value {
    let job = run(server, json!({"type": "EXECUTE", "work_kind": kind, "callback": url})).await;
    assert_eq!(job["state"], "SUCCEEDED");
    job
}

/// What is told of a job that succeeds.
const EVENTS: [&str; 5] = ["job_created", "job_queued", "job_assigned", "job_started", "job_succeeded"];

/// Waits until a metric has reached this value.
async fn until_metric(server: &Server, name: &str, least: u32) {
    let value_in = |metrics: &str| -> Option<u32> {
        metrics.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    };
    let looking = async {
        while value_in(&metrics(server).await).is_none_or(|value| value < least) {
            SystemClock.sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("no {name} {least}"));
}

async fn metrics(server: &Server) -> String {
    Call::new(server.address, "GET", "/metrics").send().await.text().to_owned()
}

#[tokio::test]
async fn webhook_success_tells_every_change_in_order() {
    let server = server();
    let mut recorder = Recorder::start(|_| Temper::Answers(200)).await;
    let job = succeed(&server, "WEBHOOK_SUCCESS", &recorder.receiver.url()).await;
    for event in EVENTS {
        let arrival = recorder.next().await;
        assert_eq!(arrival.header("x-forgerun-event"), event);
        assert_eq!(arrival.header("content-type"), "application/json");
        assert_eq!(arrival.header("x-forgerun-attempt"), "1");
        assert_eq!(arrival.body["event_name"], event, "{}", arrival.body);
        assert_eq!(arrival.body["job_id"], job["job_id"], "{}", arrival.body);
        assert_eq!(arrival.body["scenario"], "WEBHOOK_SUCCESS", "{}", arrival.body);
        let ended = event == "job_succeeded";
        assert_eq!(arrival.body.get("completedAt").is_some(), ended, "{}", arrival.body);
    }
    until_metric(&server, "webhook_deliveries_total", 5).await;
    assert_eq!(recorder.rest().len(), 0);
}

/// Three attempts at the same delivery.
async fn three_attempts(recorder: &mut Recorder, event: &str) {
    let attempts = [recorder.next().await, recorder.next().await, recorder.next().await];
    let numbers = attempts.each_ref().map(|attempt| attempt.header("x-forgerun-attempt"));
    assert_eq!(numbers, ["1", "2", "3"]);
    for attempt in &attempts {
        assert_eq!(attempt.header("x-forgerun-event"), event);
        assert_eq!(attempt.header("webhook-id"), attempts[0].header("webhook-id"));
        assert_eq!(attempt.bytes, attempts[0].bytes);
    }
}

#[tokio::test]
async fn webhook_timeout_is_retried_and_the_job_succeeds() {
    let server = server_that_waits(Duration::from_millis(300));
    let mut recorder = Recorder::start(|_| Temper::Silent).await;
    succeed(&server, "WEBHOOK_TIMEOUT", &recorder.receiver.url()).await;
    three_attempts(&mut recorder, "job_created").await;
    until_metric(&server, "webhook_failures_total{reason=\"timeout\"}", 3).await;
}

#[tokio::test]
async fn webhook_5xx_is_retried_until_the_receiver_recovers() {
    let server = server();
    let mut recorder = Recorder::start(|n| Temper::Answers(if n < 3 { 500 } else { 200 })).await;
    succeed(&server, "WEBHOOK_5XX", &recorder.receiver.url()).await;
    three_attempts(&mut recorder, EVENTS[0]).await;
    for event in &EVENTS[1..] {
        let arrival = recorder.next().await;
        assert_eq!((arrival.header("x-forgerun-event"), arrival.header("x-forgerun-attempt")), (*event, "1"));
    }
    until_metric(&server, "webhook_deliveries_total", 7).await;
    assert_eq!(recorder.rest().len(), 0);
}

#[tokio::test]
async fn webhook_retries_exhausted_is_given_up_counted_and_logged() {
    let server = server();
    let mut recorder = Recorder::start(|_| Temper::Answers(503)).await;
    let url = format!("{}?token=secret", recorder.receiver.url());
    let job = succeed(&server, "WEBHOOK_RETRIES_EXHAUSTED", &url).await;
    for event in EVENTS {
        three_attempts(&mut recorder, event).await;
    }
    until_metric(&server, "webhook_failures_total{reason=\"status_5xx\"}", 15).await;
    let metrics = metrics(&server).await;
    for line in ["webhook_deliveries_total 15", "webhook_attempt_seconds_count 15", "webhook_in_flight 0"] {
        assert!(metrics.lines().any(|found| found == line), "{line} in {metrics}");
    }
    assert_eq!(recorder.rest().len(), 0, "one attempt and two retries for each event");
    server.signal("TERM");
    let log = server.wait().stderr;
    assert!(!log.contains("token=secret"), "{log}");
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let attempts: Vec<Value> = lines.filter(|line| line["message"] == "webhook attempt").collect();
    assert_eq!(attempts.len(), 15, "{log}");
    for line in attempts {
        assert_eq!((&line["job_id"], &line["status"]), (&job["job_id"], &json!(503)), "{line}");
        assert_eq!(line["error_message"], "answered with status 503", "{line}");
        for field in ["client_id", "delivery_id", "event", "attempt", "duration_ms", "receiver", "scenario"] {
            assert!(!line[field].is_null(), "{field} of {line}");
        }
    }
}

#[tokio::test]
async fn webhook_slow_receiver_delays_its_deliveries_and_neither_the_job_nor_others() {
    let server = server();
    let mut slow = Recorder::start(|_| Temper::AnswersLate(200, 200)).await;
    let mut quick = Recorder::start(|_| Temper::Answers(200)).await;
    succeed(&server, "WEBHOOK_SLOW_RECEIVER", &slow.receiver.url()).await;
    succeed(&server, "WEBHOOK_SUCCESS", &quick.receiver.url()).await;
    for event in EVENTS {
        assert_eq!(quick.next().await.header("x-forgerun-event"), event);
    }
    for event in EVENTS {
        let arrival = slow.next().await;
        assert_eq!((arrival.header("x-forgerun-event"), arrival.header("x-forgerun-attempt")), (event, "1"));
    }
    until_metric(&server, "webhook_deliveries_total", 10).await;
    assert_eq!((slow.rest().len(), quick.rest().len()), (0, 0));
}

#[tokio::test]
async fn an_unreachable_receiver_is_retried_to_the_limit_and_the_job_succeeds() {
    let server = server();
    let gone = Recorder::start(|_| Temper::Answers(200)).await.receiver.url();
    succeed(&server, "WEBHOOK_SUCCESS", &gone).await;
    until_metric(&server, "webhook_failures_total{reason=\"connect\"}", 15).await;
}
