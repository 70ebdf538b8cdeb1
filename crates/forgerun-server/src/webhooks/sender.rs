//! Sends a request to a receiver, within bounds: one deadline for everything, no redirects, no
//! proxy, no cookies, no decompression, and no more of the answer than its status needs.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderMap, Request};
use bytes::Bytes;
use forgerun_core::time::Time;
use forgerun_engine::Clock;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use tokio::time::timeout;
use tokio_rustls::rustls::RootCertStore;

use super::dial::{Dialler, Resolve, SystemResolver};
use super::pool::ConnectionPool;
use super::send_error::SendError;
use super::target::Target;
use crate::config::PrivateTargets;
use crate::http_client::HttpConnection;
use crate::limits::{WEBHOOK_ANSWER_BODY_BYTES_MAX, WEBHOOK_DRAIN, WEBHOOK_RETRY_AFTER_MAX};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendVerdict {
    Delivered(u16),
    /// The receiver wants no more deliveries (410).
    Gone,
    /// The attempt failed.
    Failed {
        error: SendError,
        /// The requested wait, within bounds.
        retry_after: Option<Duration>,
    },
}

impl SendVerdict {
    const fn failed(error: SendError) -> SendVerdict {
        SendVerdict::Failed { error, retry_after: None }
    }
}

pub struct SenderOptions {
    /// Timeout from the look-up of the name to the last header of the answer.
    pub timeout: Duration,
    /// Whether private addresses may be called.
    pub private: PrivateTargets,
    pub resolver: Arc<dyn Resolve>,
    /// Trusted certificates; `None` for the system's.
    pub roots: Option<RootCertStore>,
}

impl SenderOptions {
    /// The options of a server.
    pub fn new(timeout: Duration, private: PrivateTargets) -> SenderOptions {
        SenderOptions { timeout, private, resolver: Arc::new(SystemResolver::default()), roots: None }
    }
}

/// Sends requests. Cheap to share; reuses connections.
pub struct Sender {
    dialler: Dialler,
    pool: ConnectionPool,
    timeout: Duration,
    clock: Arc<dyn Clock>,
}

impl Sender {
    pub fn new(options: SenderOptions, clock: Arc<dyn Clock>) -> Sender {
        let dialler = Dialler::new(options.resolver, options.private, options.roots);
        Sender { dialler, pool: ConnectionPool::default(), timeout: options.timeout, clock }
    }

    /// Sends, and returns the result. Dropping it closes the connection.
    pub async fn send(&self, target: &Target, request: Request<Full<Bytes>>) -> SendVerdict {
        match timeout(self.timeout, self.exchange(target, request)).await {
            Ok(Ok((head, connection))) => {
                self.return_connection(target, connection).await;
                head
            }
            Ok(Err(error)) => SendVerdict::failed(error),
            Err(_) => SendVerdict::failed(SendError::Slow),
        }
    }

    /// Closes idle connections.
    pub fn close(&self) {
        self.pool.clear();
    }

    async fn exchange(
        &self,
        target: &Target,
        request: Request<Full<Bytes>>,
    ) -> Result<(SendVerdict, Answered), SendError> {
        if let Some(connection) = self.pool.take(&target.origin(), self.clock.now()) {
            // The receiver may have closed it just now. Deliveries may be repeated, so a second
            // attempt is allowed.
            match self.ask(connection, request.clone()).await {
                Err(SendError::Closed) => {}
                answered => return answered,
            }
        }
        self.ask(self.dialler.dial(target).await?, request).await
    }

    async fn ask(
        &self,
        mut connection: HttpConnection,
        request: Request<Full<Bytes>>,
    ) -> Result<(SendVerdict, Answered), SendError> {
        let answer = connection.requests.send_request(request).await.map_err(|error| {
            if error.is_parse() || error.is_parse_too_large() {
                SendError::NotHttp
            } else {
                SendError::Closed
            }
        })?;
        let (head, body) = answer.into_parts();
        let verdict = judge(head.status.as_u16(), &head.headers, self.clock.now());
        Ok((verdict, Answered { connection, body }))
    }

    /// Keeps the connection if the rest of the answer is short and comes at once; only the status
    /// matters.
    async fn return_connection(&self, target: &Target, answered: Answered) {
        let Answered { mut connection, body } = answered;
        let read =
            timeout(WEBHOOK_DRAIN, async { drain(body).await && connection.requests.ready().await.is_ok() });
        if read.await == Ok(true) {
            self.pool.put(target.origin(), connection, self.clock.now());
        }
    }
}

/// A connection whose answer body is not read yet.
struct Answered {
    connection: HttpConnection,
    body: Incoming,
}

/// Whether the body ended within its bound.
async fn drain(mut body: Incoming) -> bool {
    let mut n_bytes = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        n_bytes += frame.data_ref().map_or(0, Bytes::len);
        if n_bytes > WEBHOOK_ANSWER_BODY_BYTES_MAX {
            return false;
        }
    }
    true
}

fn judge(status: u16, headers: &HeaderMap, now: Time) -> SendVerdict {
    match status {
        200..=299 => SendVerdict::Delivered(status),
        410 => SendVerdict::Gone,
        300..=399 => SendVerdict::failed(SendError::Redirect(status)),
        429 | 503 => {
            SendVerdict::Failed { error: SendError::Status(status), retry_after: retry_after(headers, now) }
        }
        _ => SendVerdict::failed(SendError::Status(status)),
    }
}

/// Seconds or a date; `None` for anything else.
fn retry_after(headers: &HeaderMap, now: Time) -> Option<Duration> {
    let text = headers.get(RETRY_AFTER)?.to_str().ok()?.trim();
    let wait = match text.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => {
            let at = httpdate::parse_http_date(text).ok()?.duration_since(UNIX_EPOCH).ok()?;
            (Time::ZERO + at).since(now)
        }
    };
    Some(wait.min(WEBHOOK_RETRY_AFTER_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_judged_and_its_retry_after_heard_within_bounds() {
        let now = Time::from_millis(784_111_770_000);
        let failed = |status, seconds: Option<u64>| SendVerdict::Failed {
            error: SendError::Status(status),
            retry_after: seconds.map(Duration::from_secs),
        };
        for (status, retry_after, expected) in [
            (200, None, SendVerdict::Delivered(200)),
            (204, Some("5"), SendVerdict::Delivered(204)),
            (410, None, SendVerdict::Gone),
            (302, Some("5"), SendVerdict::failed(SendError::Redirect(302))),
            (404, Some("5"), failed(404, None)),
            (500, Some("5"), failed(500, None)),
            (429, Some("5"), failed(429, Some(5))),
            (503, Some(" 7 "), failed(503, Some(7))),
            (503, None, failed(503, None)),
            (503, Some("soon"), failed(503, None)),
            (503, Some("-1"), failed(503, None)),
            (503, Some("99999999999999"), failed(503, Some(3600))),
            (503, Some("Sun, 06 Nov 1994 08:49:37 GMT"), failed(503, Some(7))),
            (503, Some("Sun, 06 Nov 1994 08:49:00 GMT"), failed(503, Some(0))),
            (503, Some("Sat, 06 Nov 2094 08:49:37 GMT"), failed(503, Some(3600))),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = retry_after {
                headers.insert(RETRY_AFTER, value.parse().unwrap());
            }
            assert_eq!(judge(status, &headers, now), expected, "{status} {retry_after:?}");
        }
    }
}
