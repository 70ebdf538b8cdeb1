//! The client: where the server is, who is calling, how patient it is. Cheap to clone; clones share their connections.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use forgerun_problem::polling::Schedule;
use http::header::{ACCEPT, AUTHORIZATION, CONTENT_TYPE, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_rustls::rustls::RootCertStore;
use url::{ParseError, Url};

use crate::admin::Admin;
use crate::clock::{Clock, SystemClock, fraction, uuid};
use crate::error::{ApiError, Error};
use crate::forge::Forge;
use crate::limits::{
    ANSWER_BYTES_MAX, CONNECTIONS_DEFAULT, ERROR_BYTES_MAX, REQUEST_TIMEOUT, STREAMS_DEFAULT,
};
use crate::ojs::Ojs;
use crate::operations::Operations;
use crate::retry::{Repeat, RetryPolicy};
use crate::transport::{Answer, Body, Bounds, Class, Connector, Transport, trust};

/// The header that makes a repetition harmless.
pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

const TRACEPARENT: HeaderName = HeaderName::from_static("traceparent");
const TRACESTATE: HeaderName = HeaderName::from_static("tracestate");

const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// A client of one server.
#[derive(Clone)]
pub struct Client {
    shared: Arc<Shared>,
    /// `traceparent` and `tracestate` of the work that the calls belong to.
    trace: HeaderMap,
}

struct Shared {
    base: Url,
    trusted: Vec<url::Origin>,
    key: Option<HeaderValue>,
    #[cfg(feature = "grpc")]
    connector: Connector,
    transport: Transport,
    retry: RetryPolicy,
    on_retry: OnRetry,
    schedule: Schedule,
    clock: Arc<dyn Clock>,
}

/// Told why a request is sent again, and after which wait.
type OnRetry = Arc<dyn Fn(&Error, Duration) + Send + Sync>;

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client").field("base", &self.shared.base.as_str()).finish_non_exhaustive()
    }
}

/// How to make a client.
#[must_use]
pub struct Builder {
    url: String,
    trusted: Vec<String>,
    key: Option<String>,
    connections: usize,
    streams: usize,
    timeout: Duration,
    retry: RetryPolicy,
    on_retry: OnRetry,
    schedule: Schedule,
    roots: Option<RootCertStore>,
    ca: Option<PathBuf>,
    certificate: Option<(PathBuf, PathBuf)>,
    connector: Option<Connector>,
    clock: Arc<dyn Clock>,
}

impl Client {
    /// A client of the server at this address, such as `http://127.0.0.1:8080`. A path in it is kept: all routes lie below.
    pub fn builder(url: impl Into<String>) -> Builder {
        Builder {
            url: url.into(),
            trusted: Vec::new(),
            key: None,
            connections: CONNECTIONS_DEFAULT,
            streams: STREAMS_DEFAULT,
            timeout: REQUEST_TIMEOUT,
            retry: RetryPolicy::default(),
            on_retry: Arc::new(|_, _| {}),
            schedule: Schedule::default(),
            roots: None,
            ca: None,
            certificate: None,
            connector: None,
            clock: Arc::new(SystemClock),
        }
    }

    /// ForgeRun's own dialect, `/v1`.
    pub fn forge(&self) -> Forge<'_> {
        Forge { client: self }
    }

    /// The async-operations pattern, `/api/v1`: ForgeRun's, or anybody's.
    pub fn operations(&self) -> Operations<'_> {
        Operations { client: self, prefix: "api/v1" }
    }

    /// The Open Job Spec dialect, `/ojs/v1`.
    pub fn ojs(&self) -> Ojs<'_> {
        Ojs { client: self }
    }

    /// The operator's API, `/admin/v1`.
    pub fn admin(&self) -> Admin<'_> {
        Admin { client: self }
    }

    /// The same client for work that belongs to a trace: `traceparent` (W3C) goes along with every call, and the server hands
    /// it on to the worker.
    ///
    /// # Errors
    /// [`Error::Usage`] if it is no header value.
    pub fn with_trace(&self, traceparent: &str, tracestate: Option<&str>) -> Result<Client, Error> {
        let wrong = |_| Error::Usage(format!("{traceparent:?} is no traceparent"));
        let mut trace = HeaderMap::new();
        trace.insert(TRACEPARENT, HeaderValue::try_from(traceparent).map_err(wrong)?);
        if let Some(state) = tracestate {
            trace.insert(TRACESTATE, HeaderValue::try_from(state).map_err(wrong)?);
        }
        Ok(Client { shared: self.shared.clone(), trace })
    }

    /// A new idempotency key: a random UUID. Keep it with the operation it belongs to, and give it again if you submit the
    /// operation again after a crash.
    pub fn new_key(&self) -> String {
        uuid(self.shared.clock.random())
    }

    /// The address of the server.
    pub fn base(&self) -> &Url {
        &self.shared.base
    }

    /// Connections like the client's own, for HTTP/2.
    #[cfg(feature = "grpc")]
    pub(crate) fn http2_connector(&self) -> Connector {
        self.shared.connector.for_http2()
    }

    /// Whether the server's process answers. Says nothing of its database.
    ///
    /// # Errors
    /// [`Error::Unreachable`] if it does not; [`Error::Protocol`] if what answers is no ForgeRun.
    pub async fn health(&self) -> Result<(), Error> {
        self.probe("health", "ok").await
    }

    /// Whether the server can do its work now: its database answers, its workers are there, and it is not stopping.
    ///
    /// # Errors
    /// [`Error::Backend`] if it cannot; further those of [`Client::health`].
    pub async fn ready(&self) -> Result<(), Error> {
        self.probe("ready", "ready").await
    }

    /// Asks once. A server that is not ready answers 503 with `{"status", "reason", "code"}`.
    async fn probe(&self, route: &str, expected: &str) -> Result<(), Error> {
        let call = self.get(route)?;
        let answer =
            self.shared.transport.send(self.request(&call, Body::whole(Bytes::new()))?, call.class).await?;
        let (status, headers, body) = answer.bytes(ERROR_BYTES_MAX).await?;
        let said = serde_json::from_slice::<Value>(&body).unwrap_or_default();
        if status.as_u16() < 400 {
            let is_expected = said["status"] == expected;
            let wrong = || Error::Protocol(format!("/{route} did not answer {expected:?}"));
            return is_expected.then_some(()).ok_or_else(wrong);
        }
        let mut error = ApiError::of_answer(status, &headers, &body, self.clock().now());
        if let Some(reason) = said["reason"].as_str() {
            error.message = format!("not ready: {reason}");
        }
        Err(error.into_error())
    }

    /// What the client is known by.
    #[cfg(feature = "grpc")]
    pub(crate) fn bearer(&self) -> Option<HeaderValue> {
        self.shared.key.clone()
    }

    pub(crate) fn clock(&self) -> &dyn Clock {
        self.shared.clock.as_ref()
    }

    /// Whether a request that the server holds could be sent at once.
    pub(crate) fn may_hold(&self) -> bool {
        self.shared.transport.may_hold()
    }

    pub(crate) fn schedule(&self) -> Schedule {
        self.shared.schedule
    }

    /// The address of a route, or of a link that the server gave.
    pub(crate) fn url(&self, reference: &str) -> Result<Url, Error> {
        let wrong = |error| Error::Protocol(format!("{reference:?} is no address: {error}"));
        self.shared.base.join(reference).map_err(wrong)
    }

    pub(crate) fn get(&self, route: &str) -> Result<Call, Error> {
        Ok(Call::new(Method::GET, self.url(route)?))
    }

    pub(crate) fn post(&self, route: &str) -> Result<Call, Error> {
        Ok(Call::new(Method::POST, self.url(route)?))
    }

    /// Sends, and sends again where that is harmless and promises something. An answer of 400 and above is an error.
    pub(crate) async fn send(&self, call: &Call) -> Result<Answer, Error> {
        let mut retries = 0;
        loop {
            let error = match self.send_once(call, Body::whole(call.body.clone())).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let random = fraction(self.clock().random());
            let Some(wait) = self.shared.retry.next(&error, call.repeat, retries, random) else {
                return Err(error);
            };
            tracing::debug!(%error, retries, wait_ms = wait.as_millis(), "a request is sent again");
            (self.shared.on_retry)(&error, wait);
            self.clock().sleep(wait).await;
            retries += 1;
        }
    }

    /// Sends once, with this body.
    pub(crate) async fn send_once(&self, call: &Call, body: Body) -> Result<Answer, Error> {
        let answer = self.shared.transport.send(self.request(call, body)?, call.class).await?;
        if answer.status.as_u16() < 400 {
            return Ok(answer);
        }
        let (status, headers, body) = answer.bytes(ERROR_BYTES_MAX).await?;
        Err(ApiError::of_answer(status, &headers, &body, self.clock().now()).into_error())
    }

    /// Sends, and reads the answer.
    pub(crate) async fn fetch<T: DeserializeOwned>(&self, call: &Call) -> Result<T, Error> {
        let (_, _, body) = self.send(call).await?.bytes(ANSWER_BYTES_MAX).await?;
        read(&body)
    }

    fn request(&self, call: &Call, body: Body) -> Result<Request<Body>, Error> {
        let mut headers = call.headers.clone();
        headers.entry(ACCEPT).or_insert(JSON);
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("forgerun-client/", env!("CARGO_PKG_VERSION"))),
        );
        headers.extend(self.trace.clone());
        // The key is for the server, not for whoever the server sends us to.
        if let Some(key) =
            self.shared.key.as_ref().filter(|_| self.shared.trusted.contains(&call.url.origin()))
        {
            headers.insert(AUTHORIZATION, key.clone());
        }
        let mut request = Request::new(body);
        *request.method_mut() = call.method.clone();
        let uri = call.url.as_str().split('#').next().unwrap_or_default().parse();
        *request.uri_mut() = uri.map_err(|error| Error::Protocol(format!("{}: {error}", call.url)))?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

/// Reads JSON of the server.
pub(crate) fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(body).map_err(|error| Error::Protocol(format!("the body of the answer: {error}")))
}

/// A request about to be sent.
#[derive(Clone)]
pub(crate) struct Call {
    method: Method,
    url: Url,
    headers: HeaderMap,
    body: Bytes,
    class: Class,
    repeat: Repeat,
}

impl Call {
    pub(crate) fn new(method: Method, url: Url) -> Call {
        let repeat = match method {
            Method::POST => Repeat::OnlyIfNotSent,
            _ => Repeat::Harmless,
        };
        Call { method, url, headers: HeaderMap::new(), body: Bytes::new(), class: Class::Short, repeat }
    }

    pub(crate) fn url_mut(&mut self) -> &mut Url {
        &mut self.url
    }

    /// A second one does no harm, whatever the method.
    pub(crate) fn harmless(mut self) -> Call {
        self.repeat = Repeat::Harmless;
        self
    }

    pub(crate) fn long(mut self, held: Duration) -> Call {
        self.class = Class::Long(held);
        self
    }

    /// A worker's request for jobs.
    pub(crate) fn work(mut self, held: Duration) -> Call {
        self.class = Class::Work(held);
        self
    }

    pub(crate) fn header(mut self, name: HeaderName, value: &str) -> Result<Call, Error> {
        let wrong = |_| Error::Usage(format!("{value:?} is no value for the header {name}"));
        self.headers.insert(&name, HeaderValue::try_from(value).map_err(wrong)?);
        Ok(self)
    }

    /// Repeatable, because the server knows the key.
    pub(crate) fn idempotent(self, key: &str) -> Result<Call, Error> {
        Ok(self.header(IDEMPOTENCY_KEY, key)?.harmless())
    }

    pub(crate) fn json(mut self, body: &impl Serialize) -> Result<Call, Error> {
        let bytes = serde_json::to_vec(body).map_err(|error| Error::Usage(format!("the body: {error}")))?;
        self.body = bytes.into();
        self.headers.insert(CONTENT_TYPE, JSON);
        Ok(self)
    }
}

/// A value as JSON that is sent as it is.
pub(crate) fn raw(value: &Value) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).expect("a value has only strings as keys")
}

impl Builder {
    /// The API key.
    pub fn key(mut self, key: impl Into<String>) -> Builder {
        self.key = Some(key.into());
        self
    }

    /// Another address by which the server is known, whose links get the key too: its public address, where the client uses
    /// an internal one.
    pub fn also_known_as(mut self, url: impl Into<String>) -> Builder {
        self.trusted.push(url.into());
        self
    }

    /// How many requests may be under way at once: 16.
    pub fn connections(mut self, n: usize) -> Builder {
        self.connections = n;
        self
    }

    /// How many streams and held requests may be open at once, beside the others: 32.
    pub fn streams(mut self, n: usize) -> Builder {
        self.streams = n;
        self
    }

    /// How long an answer may take to begin: 40 s.
    pub fn timeout(mut self, timeout: Duration) -> Builder {
        self.timeout = timeout;
        self
    }

    /// When a request is sent again by itself.
    pub fn retry(mut self, policy: RetryPolicy) -> Builder {
        self.retry = policy;
        self
    }

    /// What is told before the wait, whenever a request is to be sent again: why, and how long it waits.
    pub fn on_retry(mut self, told: impl Fn(&Error, Duration) + Send + Sync + 'static) -> Builder {
        self.on_retry = Arc::new(told);
        self
    }

    /// How often a job is asked for while it is waited for.
    pub fn polling(mut self, schedule: Schedule) -> Builder {
        self.schedule = schedule;
        self
    }

    /// Whom to trust for https instead of the certificates of the system.
    pub fn roots(mut self, roots: RootCertStore) -> Builder {
        self.roots = Some(roots);
        self
    }

    /// The same by a file: certificate authorities in PEM.
    pub fn ca(mut self, file: impl Into<PathBuf>) -> Builder {
        self.ca = Some(file.into());
        self
    }

    /// The client's own certificate chain and its key, files in PEM, for servers that ask for one.
    pub fn certificate(mut self, chain: impl Into<PathBuf>, key: impl Into<PathBuf>) -> Builder {
        self.certificate = Some((chain.into(), key.into()));
        self
    }

    /// Another source of time and randomness: for tests.
    pub fn clock(mut self, clock: Arc<dyn Clock>) -> Builder {
        self.clock = clock;
        self
    }

    /// Connections as another builder makes them, with its certificates.
    pub fn over(mut self, connector: Connector) -> Builder {
        self.connector = Some(connector);
        self
    }

    /// What makes connections for this client.
    ///
    /// # Errors
    /// [`Error::Usage`] if a file will not do.
    pub fn connector(&self) -> Result<Connector, Error> {
        if let Some(connector) = &self.connector {
            return Ok(connector.clone());
        }
        let roots = self.ca.as_deref().map(trust::roots).transpose()?.or_else(|| self.roots.clone());
        let files = self.certificate.as_ref();
        let identity = files.map(|(chain, key)| trust::identity(chain, key)).transpose()?;
        Ok(Connector::new(roots).with_identity(identity))
    }

    /// The client.
    ///
    /// # Errors
    /// [`Error::Usage`] if the address, the key or a file will not do.
    pub fn build(self) -> Result<Client, Error> {
        let base = parse_base(&self.url)?;
        let connector = self.connector()?;
        let mut trusted = vec![base.origin()];
        for url in &self.trusted {
            trusted.push(parse_base(url)?.origin());
        }
        let key = self.key.map(|key| {
            let mut value = HeaderValue::try_from(format!("Bearer {key}"))
                .map_err(|_| Error::Usage("the API key has characters that no header can hold".to_owned()))?;
            value.set_sensitive(true);
            Ok::<_, Error>(value)
        });
        let bounds = Bounds { connections: self.connections, streams: self.streams, timeout: self.timeout };
        let shared = Shared {
            base,
            trusted,
            key: key.transpose()?,
            #[cfg(feature = "grpc")]
            connector: connector.clone(),
            transport: Transport::new(connector, bounds),
            retry: self.retry,
            on_retry: self.on_retry,
            schedule: self.schedule,
            clock: self.clock,
        };
        Ok(Client { shared: Arc::new(shared), trace: HeaderMap::new() })
    }
}

/// An address that routes can be appended to.
fn parse_base(text: &str) -> Result<Url, Error> {
    let wrong = |reason: &str| Error::Usage(format!("{text:?} is no address of a server: {reason}"));
    const SCHEME: &str = "it must begin with http:// or https://";
    let mut url = Url::parse(text).map_err(|error| match error {
        ParseError::RelativeUrlWithoutBase => wrong(SCHEME),
        other => wrong(&other.to_string()),
    })?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong(SCHEME));
    }
    if !url.path().ends_with('/') {
        let path = format!("{}/", url.path());
        url.set_path(&path);
    }
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_keeps_its_path_and_must_be_one_of_the_web() {
        let url =
            |text: &str, route: &str| Client::builder(text).build().unwrap().url(route).unwrap().to_string();
        assert_eq!(url("http://a:8080", "v1/jobs"), "http://a:8080/v1/jobs");
        assert_eq!(url("https://a/jobs/", "v1/jobs"), "https://a/jobs/v1/jobs");
        assert_eq!(url("https://a/jobs?x#y", "v1/jobs"), "https://a/jobs/v1/jobs");
        assert_eq!(url("https://a/jobs", "/api/v1/jobs/7"), "https://a/api/v1/jobs/7");
        assert_eq!(url("https://a", "https://b/c"), "https://b/c");
        for bad in ["", "a:8080", "127.0.0.1:8080", "ftp://a", "http://"] {
            let error = Client::builder(bad).build().unwrap_err();
            assert!(matches!(error, Error::Usage(_)), "{bad}");
            assert!(bad == "http://" || error.to_string().contains("must begin with http://"), "{error}");
        }
        assert!(matches!(Client::builder("http://a").key("a\nb").build(), Err(Error::Usage(_))));
    }

    #[test]
    fn the_key_goes_to_the_server_and_to_nobody_else() {
        let client =
            Client::builder("http://a").key("k").also_known_as("https://jobs.example").build().unwrap();
        let has_key = |reference: &str| {
            let call = client.get(reference).unwrap();
            let request = client.request(&call, Body::whole(Bytes::new())).unwrap();
            request.headers().contains_key(AUTHORIZATION)
        };
        assert!(has_key("v1/jobs"));
        assert!(has_key("https://jobs.example/api/v1/jobs/1"));
        assert!(!has_key("https://storage.example/file?signature=x"));
        assert!(!has_key("http://a:81/v1/jobs"));
    }

    #[test]
    fn the_trace_goes_along_with_every_call() {
        let client = Client::builder("http://a").build().unwrap();
        let traced = client
            .with_trace("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", Some("a=b"))
            .unwrap();
        let request = traced.request(&traced.get("v1/jobs").unwrap(), Body::whole(Bytes::new())).unwrap();
        assert_eq!(request.headers()[TRACESTATE], "a=b");
        assert!(request.headers().contains_key(TRACEPARENT));
        assert!(client.with_trace("a\nb", None).is_err());
    }
}
