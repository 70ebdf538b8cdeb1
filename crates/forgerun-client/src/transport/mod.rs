//! One request, one answer. Connections are used again and bounded; a redirect is an answer like any other and not followed;
//! nothing is decompressed.

mod body;
mod connect;
pub(crate) mod trust;

use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, Request, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;
use tokio_rustls::rustls;

use crate::error::{Error, Unreachable};
use crate::limits::{IDLE_TIMEOUT, STALL_TIMEOUT};

pub(crate) use body::Body;
pub use connect::{Connector, Stream};

/// How long a request keeps its connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Answered soon.
    Short,
    /// A stream, or a request that the server holds. The span is how long the answer may take to begin.
    Long(Duration),
    /// A worker's request for jobs, which the server holds. Counted apart, so that a program that waits for many jobs never keeps its
    /// own worker from doing them.
    Work(Duration),
}

/// Sends requests.
pub(crate) struct Transport {
    http: legacy::Client<Connector, Body>,
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
    work: Arc<Semaphore>,
    timeout: Duration,
}

/// How many connections there may be, and how patient they are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    pub(crate) connections: usize,
    pub(crate) streams: usize,
    pub(crate) timeout: Duration,
}

impl Transport {
    pub(crate) fn new(connector: Connector, bounds: Bounds) -> Transport {
        let http = legacy::Client::builder(TokioExecutor::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(IDLE_TIMEOUT)
            .pool_max_idle_per_host(bounds.connections)
            .build(connector);
        let permits = |n: usize| Arc::new(Semaphore::new(n.max(1)));
        Transport {
            http,
            short: permits(bounds.connections),
            long: permits(bounds.streams),
            work: permits(bounds.streams),
            timeout: bounds.timeout,
        }
    }

    /// Whether a request that the server holds could be sent at once.
    pub(crate) fn may_hold(&self) -> bool {
        self.long.available_permits() > 0
    }

    /// Waits for a free connection, sends, and returns the answer as soon as its head is there.
    pub(crate) async fn send(&self, request: Request<Body>, class: Class) -> Result<Answer, Error> {
        let (permits, patience) = match class {
            Class::Short => (&self.short, self.timeout),
            Class::Long(held) => (&self.long, self.timeout + held),
            Class::Work(held) => (&self.work, self.timeout + held),
        };
        let permit = permits.clone().acquire_owned().await.expect("the semaphore is never closed");
        let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
        let scheme = request.uri().scheme_str().map(str::to_owned);
        match timeout(patience, self.http.request(request)).await {
            Ok(Ok(response)) => Ok(Answer::new(response, permit)),
            Ok(Err(error)) => {
                let other_scheme = other_scheme(&error, scheme.as_deref(), &host);
                let away = Unreachable::new(host, innermost(&error), !error.is_connect());
                Err(Error::Unreachable(Unreachable { other_scheme, ..away }))
            }
            Err(_) => {
                let reason = format!("no answer within {} s", patience.as_secs());
                Err(Error::Unreachable(Unreachable::new(host, reason, true)))
            }
        }
    }
}

/// The cause at the bottom, which is the one that says something: "connection refused", not "client error".
fn innermost(error: &dyn StdError) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

/// The address of a server that speaks the other of http and https, as far as the error shows: it answered a TLS handshake with
/// something else, or plain http with something that is no HTTP, such as an alert of TLS.
fn other_scheme(error: &(dyn StdError + 'static), scheme: Option<&str>, host: &str) -> Option<String> {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    match scheme {
        Some("https") => causes.any(is_no_tls).then(|| format!("http://{host}")),
        Some("http") => causes
            .any(|cause| cause.downcast_ref::<hyper::Error>().is_some_and(hyper::Error::is_parse))
            .then(|| format!("https://{host}")),
        Some(_) | None => None,
    }
}

fn is_no_tls(cause: &(dyn StdError + 'static)) -> bool {
    // The error of an `io::Error` is not among its sources.
    let inner = cause.downcast_ref::<std::io::Error>().and_then(|error| error.get_ref());
    let tls = match inner {
        Some(inner) => inner.downcast_ref::<rustls::Error>(),
        None => cause.downcast_ref::<rustls::Error>(),
    };
    matches!(tls, Some(rustls::Error::InvalidMessage(_)))
}

/// An answer whose body is still to be read. Keeps its place among the connections until it is dropped.
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    body: Incoming,
    _permit: OwnedSemaphorePermit,
}

impl Answer {
    fn new(response: Response<Incoming>, permit: OwnedSemaphorePermit) -> Answer {
        let (head, body) = response.into_parts();
        Answer { status: head.status, headers: head.headers, body, _permit: permit }
    }

    /// A header field that is text.
    pub(crate) fn header(&self, name: impl Into<HeaderName>) -> Option<&str> {
        self.headers.get(name.into()).and_then(|value| value.to_str().ok())
    }

    pub(crate) fn content_type(&self) -> &str {
        self.header(CONTENT_TYPE).unwrap_or_default()
    }

    /// The next piece of the body; `None` at its end.
    pub(crate) async fn chunk(&mut self) -> Result<Option<Bytes>, String> {
        loop {
            let frame = match timeout(STALL_TIMEOUT, self.body.frame()).await {
                Ok(Some(Ok(frame))) => frame,
                Ok(Some(Err(error))) => return Err(innermost(&error)),
                Ok(None) => return Ok(None),
                Err(_) => return Err(format!("nothing came for {} s", STALL_TIMEOUT.as_secs())),
            };
            // Trailers say nothing that we need.
            if let Ok(data) = frame.into_data() {
                return Ok(Some(data));
            }
        }
    }

    /// The whole body, if it has no more than `bytes_max`.
    pub(crate) async fn bytes(mut self, bytes_max: usize) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        let mut whole = Vec::new();
        loop {
            match self.chunk().await {
                Ok(Some(chunk)) if whole.len() + chunk.len() > bytes_max => {
                    return Err(Error::Protocol(format!("the answer has more than {bytes_max} bytes")));
                }
                Ok(Some(chunk)) => whole.extend_from_slice(&chunk),
                Ok(None) => return Ok((self.status, self.headers, whole.into())),
                Err(reason) => {
                    return Err(Error::Unreachable(Unreachable::new("", reason, true)));
                }
            }
        }
    }
}
