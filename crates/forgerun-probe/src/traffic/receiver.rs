//! A webhook receiver in this process: each journey has a path of its own. Some fail at first, as
//! real ones do.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::io;
use std::rc::Rc;

use bytes::Bytes;
use forgerun_problem::MEDIA_TYPE_JSON;
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::limits::{ANSWER_BYTES_MAX, DELIVERIES_PER_JOB_MAX};

/// Deliveries of one journey.
#[derive(Default)]
struct Inbox {
    n_failures_left: u32,
    seen: HashSet<String>,
    last_event: String,
    result: WebhookResult,
    ended: bool,
    end: Rc<Notify>,
}

/// The result of a journey's deliveries.
#[derive(Default)]
pub(super) struct WebhookResult {
    /// The failure object, if the job failed.
    pub(super) failure: Option<Bytes>,
    /// Whether an event came after a later one.
    pub(super) out_of_order: bool,
}

pub(super) struct Receiver {
    base: String,
    inboxes: RefCell<HashMap<u64, Inbox>>,
    n_deliveries: std::cell::Cell<u64>,
}

impl Receiver {
    /// Listens on a free local port.
    pub(super) async fn start() -> io::Result<Rc<Receiver>> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let base = format!("http://{}", listener.local_addr()?);
        let receiver = Rc::new(Receiver { base, inboxes: RefCell::default(), n_deliveries: 0.into() });
        let serving = receiver.clone();
        tokio::task::spawn_local(async move {
            // Ends with the run.
            while let Ok((stream, _)) = listener.accept().await {
                let receiver = serving.clone();
                let service = service_fn(move |request| {
                    let receiver = receiver.clone();
                    async move { Ok::<_, Infallible>(receiver.answer(request).await) }
                });
                tokio::task::spawn_local(
                    http1::Builder::new().serve_connection(TokioIo::new(stream), service),
                );
            }
        });
        Ok(receiver)
    }

    /// Callback URL for a journey whose first deliveries fail.
    pub(super) fn expect(&self, journey: u64, n_failures: u32) -> String {
        let inbox = Inbox { n_failures_left: n_failures, ..Inbox::default() };
        self.inboxes.borrow_mut().insert(journey, inbox);
        format!("{}/{journey}", self.base)
    }

    /// Waits until the end of the journey's job was delivered.
    pub(super) async fn end_of(&self, journey: u64) {
        let end = match self.inboxes.borrow().get(&journey) {
            Some(inbox) if !inbox.ended => inbox.end.clone(),
            _ => return,
        };
        end.notified().await;
    }

    /// Closes the inbox. Later deliveries are accepted and ignored.
    pub(super) fn close(&self, journey: u64) -> WebhookResult {
        self.inboxes.borrow_mut().remove(&journey).map(|inbox| inbox.result).unwrap_or_default()
    }

    pub(super) fn n_deliveries(&self) -> u64 {
        self.n_deliveries.get()
    }

    async fn answer(&self, request: Request<Incoming>) -> Response<Empty<Bytes>> {
        let (head, body) = request.into_parts();
        let journey = head.uri.path().trim_start_matches('/').parse().unwrap_or(u64::MAX);
        let text = |name: &str| {
            head.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default().to_owned()
        };
        let status = match Limited::new(body, ANSWER_BYTES_MAX).collect().await {
            Ok(body) => {
                let is_failure = text("content-type") == MEDIA_TYPE_JSON;
                self.take(journey, text("webhook-id"), is_failure, body.to_bytes())
            }
            Err(_) => StatusCode::BAD_REQUEST,
        };
        let mut response = Response::new(Empty::new());
        *response.status_mut() = status;
        response
    }

    fn take(&self, journey: u64, delivery: String, is_failure: bool, body: Bytes) -> StatusCode {
        self.n_deliveries.set(self.n_deliveries.get() + 1);
        let mut inboxes = self.inboxes.borrow_mut();
        let Some(inbox) = inboxes.get_mut(&journey) else {
            return StatusCode::NO_CONTENT;
        };
        if inbox.n_failures_left > 0 {
            inbox.n_failures_left -= 1;
            return StatusCode::INTERNAL_SERVER_ERROR;
        }
        // A repeated delivery is ignored.
        if inbox.seen.len() >= DELIVERIES_PER_JOB_MAX || !inbox.seen.insert(delivery) {
            return StatusCode::NO_CONTENT;
        }
        let event: Value = serde_json::from_slice(&body).unwrap_or_default();
        let id = event["event_id"].as_str().unwrap_or_default();
        inbox.result.out_of_order |= id <= inbox.last_event.as_str();
        id.clone_into(&mut inbox.last_event);
        let name = event["event_name"].as_str().unwrap_or_default();
        let ends = ["job_succeeded", "job_failed", "job_timed_out", "job_canceled"];
        if ends.contains(&name) && event["will_retry"] != true {
            inbox.result.failure = is_failure.then_some(body);
            inbox.ended = true;
            inbox.end.notify_one();
        }
        StatusCode::NO_CONTENT
    }
}
