//! A receiver for testing: prints each delivery and checks its signatures; saves and forwards it,
//! if requested.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::State;
use axum::http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, TRANSFER_ENCODING};
use axum::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use forgerun_engine::{Clock, SystemClock};
use http_body_util::Full;
use tokio::net::TcpListener;
use tokio::sync::Mutex;

use super::fetch::{self, KeySource};
use super::keys::PublicKey;
use super::send_error::SendError;
use super::sender::{SendVerdict, Sender, SenderOptions};
use super::standard::WebhookSecret;
use super::target::Target;
use super::verify::{self, ReceivedDelivery, SignatureReport, VerifyOptions};
use crate::config::PrivateTargets;
use crate::limits::{
    LISTEN_BODY_BYTES_MAX, LISTEN_IDS_MAX, LISTEN_NAME_CHARS_MAX, LISTEN_SHOWN_CHARS_MAX, WEBHOOK_TOLERANCE,
};

/// Timeout of `--forward`. The server itself gives up after 5 s.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct ListenOptions {
    pub secrets: Vec<WebhookSecret>,
    /// Source of the server's public keys.
    pub keys: Option<KeySource>,
    /// The answer, unless the delivery is forwarded.
    pub answer: StatusCode,
    /// Target of forwarding; its answer is returned.
    pub forward: Option<Target>,
    /// The folder for deliveries, in the form that `verify` reads.
    pub save: Option<PathBuf>,
}

/// A bound receiver.
pub struct WebhookListener {
    socket: TcpListener,
    pub address: SocketAddr,
}

struct Receiver {
    options: ListenOptions,
    sender: Sender,
    state: Mutex<ReceiverState>,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

#[derive(Default)]
struct ReceiverState {
    keys: Vec<PublicKey>,
    /// Earlier deliveries, the latest last.
    seen: VecDeque<String>,
}

impl WebhookListener {
    /// Binds a port on loopback; 0 picks a free one.
    ///
    /// # Errors
    /// If the port is in use.
    pub async fn bind(port: u16) -> io::Result<WebhookListener> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let taken = |error: io::Error| {
            io::Error::new(error.kind(), format!("could not listen on {address}: {error}"))
        };
        let socket = TcpListener::bind(address).await.map_err(taken)?;
        let address = socket.local_addr()?;
        Ok(WebhookListener { socket, address })
    }

    /// Receives until `stop` resolves. `tell` gets the text about each delivery.
    ///
    /// # Errors
    pub async fn receive(
        self,
        options: ListenOptions,
        tell: impl Fn(&str) + Send + Sync + 'static,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> io::Result<()> {
        let sender =
            Sender::new(SenderOptions::new(FORWARD_TIMEOUT, PrivateTargets::Allow), Arc::new(SystemClock));
        let receiver = Arc::new(Receiver { options, sender, state: Mutex::default(), tell: Box::new(tell) });
        let router = Router::new().fallback(receive).with_state(receiver);
        // Idle connections of senders must not delay the end.
        let serving = axum::serve(self.socket, router).into_future();
        tokio::select! {
            ended = serving => ended,
            () = stop => Ok(()),
        }
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
    let mut text = receiver.report(&delivery).await;
    if let Some(folder) = &receiver.options.save {
        text += &match save(folder, &delivery) {
            Ok(path) => format!("  kept as {}.headers and .body\n", path.display()),
            Err(error) => format!("  could not be kept in {}: {error}\n", folder.display()),
        };
    }
    let answer = match &receiver.options.forward {
        Some(target) => receiver.forward(target, &delivery).await,
        None => receiver.options.answer,
    };
    if receiver.options.forward.is_some() {
        let _ = writeln!(text, "  handed on: {answer}");
    }
    (receiver.tell)(&text);
    answer
}

/// Writes headers and body side by side, named after the delivery.
fn save(folder: &Path, delivery: &ReceivedDelivery<'_>) -> io::Result<PathBuf> {
    let id = delivery.headers.get("webhook-id").and_then(|id| id.to_str().ok()).unwrap_or("unnamed");
    // A sender must not choose the folder.
    let safe = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    let path = folder.join(id.chars().take(LISTEN_NAME_CHARS_MAX).map(safe).collect::<String>());
    let mut head = Vec::new();
    for (name, value) in delivery.headers {
        head.extend_from_slice(name.as_str().as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value.as_bytes());
        head.push(b'\n');
    }
    std::fs::create_dir_all(folder)?;
    std::fs::write(path.with_extension("headers"), head)?;
    std::fs::write(path.with_extension("body"), delivery.body)?;
    Ok(path)
}

impl Receiver {
    /// Forwards the delivery unchanged; returns the status of the answer.
    async fn forward(&self, target: &Target, delivery: &ReceivedDelivery<'_>) -> StatusCode {
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(delivery.body)));
        *request.method_mut() = Method::try_from(delivery.method).unwrap_or(Method::POST);
        *request.uri_mut() = target.path_and_query().parse().unwrap_or_default();
        *request.headers_mut() = delivery.headers.clone();
        for name in [CONNECTION, TRANSFER_ENCODING, CONTENT_LENGTH] {
            request.headers_mut().remove(name);
        }
        if let Ok(host) = target.authority().parse() {
            request.headers_mut().insert(HOST, host);
        }
        let status = match self.sender.send(target, request).await {
            SendVerdict::Delivered(status) => status,
            SendVerdict::Gone => 410,
            SendVerdict::Failed { error: SendError::Status(status), .. } => status,
            SendVerdict::Failed { .. } => 502,
        };
        StatusCode::from_u16(status).unwrap_or(StatusCode::BAD_GATEWAY)
    }

    async fn report(&self, delivery: &ReceivedDelivery<'_>) -> String {
        let mut state = self.state.lock().await;
        let mut text = heading(delivery, &mut state.seen);
        text += &shown_body(delivery);
        if let Err(error) = self.refresh_keys(&mut state, delivery.headers).await {
            let _ = writeln!(text, "  {error}");
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
            // The callback of a job has no secret and no such signature, so no key is needed.
            [] if !delivery.headers.contains_key("webhook-signature") => String::new(),
            [] => not_checked("Standard Webhooks", "give --secret whsec_… to check it"),
            _ => checked("Standard Webhooks", &verify::standard_signature(delivery, &means)),
        };
        text
    }

    /// Fetches the keys if there are none, or the delivery's key is unknown.
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

/// JSON with line breaks, other text unchanged, both cut off; without control characters.
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
