//! A receiver for trying things out: prints each delivery and whether its signatures hold.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::header::{CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use forge_engine::{Clock, SystemClock};
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::fetch::{self, KeySource};
use super::keys::PublicKey;
use super::standard::WebhookSecret;
use super::verify::{self, ReceivedDelivery, SignatureReport, VerifyOptions};
use crate::limits::{LISTEN_BODY_BYTES_MAX, LISTEN_IDS_MAX, LISTEN_SHOWN_CHARS_MAX, WEBHOOK_TOLERANCE};

/// How to listen.
#[derive(Clone, Debug)]
pub struct ListenOptions {
    /// On loopback; 0 takes a free one.
    pub port: u16,
    /// Secrets of the webhook.
    pub secrets: Vec<WebhookSecret>,
    /// Where the public keys of the server are.
    pub keys: Option<KeySource>,
    /// What to answer.
    pub answer: StatusCode,
}

struct Receiver {
    options: ListenOptions,
    state: Mutex<ReceiverState>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct ReceiverState {
    keys: Vec<PublicKey>,
    /// Deliveries that were here before, the latest last.
    seen: VecDeque<String>,
}

/// Listens until `stop` is ready. `ready` is told the address, `tell` what to show of each delivery.
pub async fn listen(
    options: ListenOptions,
    ready: impl FnOnce(SocketAddr),
    tell: impl Fn(&str) + Send + Sync + 'static,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let taken =
        |error: io::Error| io::Error::new(error.kind(), format!("could not listen on {address}: {error}"));
    let listener = TcpListener::bind(address).await.map_err(taken)?;
    ready(listener.local_addr()?);
    let receiver = Arc::new(Receiver { options, state: Mutex::default(), tell: Box::new(tell) });
    let router = Router::new().fallback(receive).with_state(receiver);
    // Connections that a sender keeps open for the next delivery must not hold up the end.
    let serving = axum::serve(listener, router).into_future();
    tokio::select! {
        ended = serving => ended,
        () = stop => Ok(()),
    }
}

async fn receive(State(receiver): State<Arc<Receiver>>, request: Request<Body>) -> StatusCode {
    let (head, body) = request.into_parts();
    let Ok(body) = to_bytes(body, LISTEN_BODY_BYTES_MAX).await else {
        (receiver.tell)(&format!(
            "{} {}: too large or cut off, not looked at\n",
            head.method,
            head.uri.path()
        ));
        return StatusCode::PAYLOAD_TOO_LARGE;
    };
    let host = head.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or("localhost");
    let url = format!("http://{host}{}", head.uri.path_and_query().map_or("/", |path| path.as_str()));
    let delivery =
        ReceivedDelivery { method: head.method.as_str(), url: &url, headers: &head.headers, body: &body };
    let text = receiver.report(&delivery).await;
    (receiver.tell)(&text);
    receiver.options.answer
}

impl Receiver {
    async fn report(&self, delivery: &ReceivedDelivery<'_>) -> String {
        let mut state = self.state.lock().await;
        let mut text = heading(delivery, &mut state.seen);
        text += &shown_body(delivery);
        if let Err(trouble) = self.refresh_keys(&mut state, delivery.headers).await {
            let _ = writeln!(text, "  {trouble}");
        }
        let means = VerifyOptions {
            secrets: &self.options.secrets,
            keys: &state.keys,
            now: Some(SystemClock.now()),
            tolerance: WEBHOOK_TOLERANCE,
        };
        text += &match means.keys {
            [] => not_checked("RFC 9421", "give --keys URL to check it"),
            _ => checked("RFC 9421", &verify::message_signature(delivery, &means)),
        };
        text += &match means.secrets {
            [] => not_checked("Standard Webhooks", "give --secret whsec_… to check it"),
            _ => checked("Standard Webhooks", &verify::standard_signature(delivery, &means)),
        };
        text
    }

    /// Fetches the keys when there are none, or when the delivery was signed with one that is not among them.
    async fn refresh_keys(
        &self,
        state: &mut ReceiverState,
        headers: &HeaderMap,
    ) -> Result<(), fetch::NoKeys> {
        let Some(source) = &self.options.keys else { return Ok(()) };
        let wanted = verify::key_id(headers);
        if wanted.is_some_and(|id| state.keys.iter().all(|key| key.id != id)) {
            state.keys = fetch::keys(source).await?;
        }
        Ok(())
    }
}

fn heading(delivery: &ReceivedDelivery<'_>, seen: &mut VecDeque<String>) -> String {
    let header = |name: &str| delivery.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or("–");
    let id = header("webhook-id").to_owned();
    let again = if seen.contains(&id) { ", seen before" } else { "" };
    let heading = format!(
        "\n{} {}\n  {}, attempt {}, delivery {id}{again}\n",
        delivery.method,
        delivery.url,
        header("x-forgerun-event"),
        header("x-forgerun-attempt"),
    );
    if seen.len() >= LISTEN_IDS_MAX {
        seen.pop_front();
    }
    seen.push_back(id);
    heading
}

/// JSON with line breaks, other text as it is, both cut off; control characters never reach the terminal.
fn shown_body(delivery: &ReceivedDelivery<'_>) -> String {
    let content_type =
        delivery.headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or("no type");
    let body = Bytes::copy_from_slice(delivery.body);
    let json = serde_json::from_slice::<serde_json::Value>(&body).ok();
    let pretty = json.and_then(|json| serde_json::to_string_pretty(&json).ok());
    let text = pretty.unwrap_or_else(|| String::from_utf8_lossy(&body).into_owned());
    let mut shown = format!("  {content_type}, {} bytes\n", body.len());
    let cut: String =
        text.chars().filter(|c| *c == '\n' || !c.is_control()).take(LISTEN_SHOWN_CHARS_MAX).collect();
    for line in cut.lines() {
        let _ = writeln!(shown, "  | {line}");
    }
    if cut.len() < text.len() {
        shown += "  | …\n";
    }
    shown
}

fn checked(name: &str, report: &SignatureReport) -> String {
    match report.objection() {
        None => format!("  {name} signature: holds\n"),
        Some(_) => format!("  {name} signature: DOES NOT HOLD\n{report}"),
    }
}

fn not_checked(name: &str, how: &str) -> String {
    format!("  {name} signature: not checked; {how}\n")
}
