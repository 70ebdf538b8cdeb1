//! NATS: each message is published to JetStream, which acknowledges it by a reply.
//!
//! A message has the id of its event as `Nats-Msg-Id`, so the server drops repetitions within the
//! stream's window. After any failure the connection is dropped, and the next attempt reconnects
//! and checks the stream.

use std::sync::Arc;
use std::time::Duration;

use async_nats::client::RequestErrorKind;
use async_nats::{Client, ConnectErrorKind, ConnectOptions, HeaderMap, Request, ServerAddr};
use forgerun_core::history::Event;
use forgerun_engine::sinks::{EventSink, SinkError, SinkEvent, SinkSending, SinkSent};
use futures_util::future::join_all;
use percent_encoding::percent_decode_str;
use serde::Deserialize;
use serde_json::json;
use tokio::sync::Mutex;

use super::message::{SinkMessage, Wording};
use crate::config::{Nats, NatsLogin, NatsTls, Secret};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Timeout of the acknowledgement.
const ACK_TIMEOUT: Duration = Duration::from_secs(10);

/// Deduplication window of streams created here.
const DUPLICATE_WINDOW: Duration = Duration::from_secs(120);

/// JetStream's code for a message beyond the stream's limit.
const MESSAGE_TOO_LARGE: u64 = 10054;

/// JetStream's code for a missing stream.
const STREAM_NOT_FOUND: u64 = 10059;

pub(super) struct NatsSink {
    url: Secret,
    login: NatsLogin,
    tls: NatsTls,
    subject: String,
    stream: String,
    wording: Wording,
    /// The connection, once the stream was checked; used by the sink loop only.
    client: Mutex<Option<Client>>,
}

impl NatsSink {
    pub(super) fn configured(config: &Nats, source: &str) -> Option<Arc<dyn EventSink>> {
        let url = config.url.clone()?;
        let wording =
            Wording { events: config.events, cloudevents: config.cloudevents, source: source.to_owned() };
        let Nats { login, tls, subject, stream, .. } = config.clone();
        Some(Arc::new(NatsSink { url, login, tls, subject, stream, wording, client: Mutex::default() }))
    }

    async fn send_all(&self, events: &[SinkEvent]) -> Result<SinkSent, SinkError> {
        let mut kept = self.client.lock().await;
        // Put back on success only: a failed connection is not reused.
        let client = match kept.take() {
            Some(client) => client,
            None => self.connect().await?,
        };
        let acknowledged = join_all(events.iter().map(|told| self.publish(&client, told))).await;
        let mut sent = SinkSent::default();
        for (index, acknowledged) in acknowledged.into_iter().enumerate() {
            match acknowledged? {
                Publication::Taken => sent.n_sent += 1,
                Publication::Refused(reason) => sent.refused.push((index, reason)),
            }
        }
        *kept = Some(client);
        Ok(sent)
    }

    async fn connect(&self) -> Result<Client, SinkError> {
        let servers: Vec<&str> = self.url.expose().split(',').map(str::trim).collect();
        let client = self.options(&servers).await?.connect(&servers[..]).await.map_err(|error| {
            // The error's source may quote the URL, which may contain a password.
            SinkError(match error.kind() {
                ConnectErrorKind::AuthorizationViolation => {
                    "the server refuses the credentials in nats.url, or those of the other keys of [nats]"
                        .to_owned()
                }
                kind => format!("could not connect to nats.url: {kind}"),
            })
        })?;
        self.ensure_stream(&client).await?;
        Ok(client)
    }

    async fn options(&self, servers: &[&str]) -> Result<ConnectOptions, SinkError> {
        let mut options = ConnectOptions::new()
            .name("forgerun")
            .connection_timeout(CONNECT_TIMEOUT)
            .request_timeout(Some(ACK_TIMEOUT));
        if let Some(ca) = &self.tls.ca {
            options = options.add_root_certificates(ca.clone());
        }
        if let (Some(cert), Some(key)) = (&self.tls.cert, &self.tls.key) {
            options = options.add_client_certificate(cert.clone(), key.clone());
        }
        let NatsLogin { username, password, token, credentials } = &self.login;
        if let (Some(username), Some(password)) = (username, password) {
            return Ok(options.user_and_password(username.clone(), password.expose().to_owned()));
        }
        if let Some(token) = token {
            return Ok(options.token(token.expose().to_owned()));
        }
        if let Some(path) = credentials {
            return options
                .credentials_file(path)
                .await
                .map_err(|error| SinkError(format!("could not read nats.credentials: {error}")));
        }
        Ok(match servers.iter().find_map(|url| login_of_url(url)) {
            Some((user, Some(password))) => options.user_and_password(user, password),
            Some((token, None)) => options.token(token),
            None => options,
        })
    }

    /// Creates the stream if it is missing. An existing one keeps its settings.
    async fn ensure_stream(&self, client: &Client) -> Result<(), SinkError> {
        let stream = &self.stream;
        let found = self.ask(client, &format!("$JS.API.STREAM.INFO.{stream}"), String::new()).await?;
        match found.error {
            None => return Ok(()),
            Some(error) if error.err_code == STREAM_NOT_FOUND => {}
            Some(error) => return Err(SinkError(format!("could not look at stream {stream}: {error}"))),
        }
        let settings = json!({
            "name": stream,
            "subjects": [format!("{}.>", self.subject)],
            "retention": "limits",
            "storage": "file",
            "num_replicas": 1,
            "duplicate_window": DUPLICATE_WINDOW.as_nanos() as u64,
        });
        let made = self.ask(client, &format!("$JS.API.STREAM.CREATE.{stream}"), settings.to_string()).await?;
        match made.error {
            None => {
                tracing::info!(stream, subject = self.subject, "stream for job events created");
                Ok(())
            }
            Some(error) => Err(SinkError(format!("could not make stream {stream}: {error}"))),
        }
    }

    async fn ask(&self, client: &Client, subject: &str, body: String) -> Result<ApiReply, SinkError> {
        let reply = client.request(subject.to_owned(), body.into()).await.map_err(|error| {
            SinkError(match error.kind() {
                RequestErrorKind::NoResponders => {
                    "the server has no JetStream; start it with JetStream, or give the account access"
                        .to_owned()
                }
                kind => format!("the server does not answer about streams: {kind}"),
            })
        })?;
        ApiReply::read(&reply.payload)
    }

    async fn publish(&self, client: &Client, told: &SinkEvent) -> Result<Publication, SinkError> {
        let message = self.wording.message(told);
        let subject = format!("{}.{}.{}", self.subject, message.queue, message.event);
        let request = Request::new().headers(headers(&message)).payload(message.body);
        let reply = match client.send_request(subject, request).await {
            Ok(reply) => ApiReply::read(&reply.payload)?,
            Err(error) => match error.kind() {
                RequestErrorKind::MaxPayloadExceeded => {
                    return Ok(Publication::Refused("longer than the server's max_payload".to_owned()));
                }
                RequestErrorKind::NoResponders => {
                    let (stream, subject) = (&self.stream, &self.subject);
                    let text =
                        format!("no stream takes {subject}.>; does stream {stream} have this subject?");
                    return Err(SinkError(text));
                }
                kind => return Err(SinkError(format!("no acknowledgement: {kind}"))),
            },
        };
        match reply.error {
            None => Ok(Publication::Taken),
            Some(error) if error.err_code == MESSAGE_TOO_LARGE => Ok(Publication::Refused(error.to_string())),
            Some(error) => Err(SinkError(format!("stream {} refuses a message: {error}", self.stream))),
        }
    }
}

impl EventSink for NatsSink {
    fn name(&self) -> &str {
        "nats"
    }

    fn kind(&self) -> &'static str {
        "nats"
    }

    fn wants(&self, event: &Event) -> bool {
        self.wording.wants(event)
    }

    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a> {
        Box::pin(self.send_all(events))
    }
}

/// User and password in a URL; a name without a password is a token, as in other NATS clients. The
/// library sends neither.
fn login_of_url(url: &str) -> Option<(String, Option<String>)> {
    let address: ServerAddr = url.parse().ok()?;
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    Some((decoded(address.username()?), address.password().map(decoded)))
}

enum Publication {
    Taken,
    Refused(String),
}

fn headers(message: &SinkMessage) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert("Nats-Msg-Id", message.id.as_str());
    for (name, value) in message.headers("ce-") {
        // Invalid header values are dropped: the value has all of it as well.
        if let (Ok(name), Ok(value)) =
            (name.parse::<async_nats::HeaderName>(), value.parse::<async_nats::HeaderValue>())
        {
            headers.insert(name, value);
        }
    }
    headers
}

/// JetStream's answer about a stream or message.
#[derive(Deserialize)]
struct ApiReply {
    error: Option<ApiFailure>,
}

#[derive(Debug, Deserialize, thiserror::Error)]
#[error("{description}")]
struct ApiFailure {
    #[serde(default)]
    err_code: u64,
    #[serde(default)]
    description: String,
}

impl ApiReply {
    fn read(bytes: &[u8]) -> Result<ApiReply, SinkError> {
        let unreadable = |error| SinkError(format!("the server answers what is no JetStream: {error}"));
        serde_json::from_slice(bytes).map_err(unreadable)
    }
}
