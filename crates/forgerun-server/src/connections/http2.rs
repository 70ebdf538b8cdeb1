//! HTTP/2 on a connection: many requests at once, within bounds of its own.

use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::BoxError;
use axum::http::{Request, Response};
use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper::rt::{Read, Write};
use hyper::server::conn::http2;
use hyper::service::Service;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio::time::timeout;
use tracing::debug;

use super::ConnectionTerms;
use crate::limits::unread::UnreadAnswers;
use crate::limits::{
    HTTP2_LOCAL_RESETS_MAX, HTTP2_PING_EVERY, HTTP2_PING_TIMEOUT, HTTP2_RESETS_MAX, HTTP2_RESETS_PENDING_MAX,
    HTTP2_RESETS_SPAN, HTTP2_SEND_BUFFER_BYTES_MAX,
};

/// Bounds that differ between HTTP and gRPC.
#[derive(Clone, Copy, Debug)]
pub(super) struct Http2Bounds {
    pub(super) n_streams: u32,
    pub(super) head_bytes: u32,
    pub(super) stream_window_bytes: u32,
    pub(super) connection_window_bytes: u32,
    /// How long a connection without requests is kept.
    pub(super) idle: Duration,
}

/// What happens on a connection.
#[derive(Default)]
pub(crate) struct StreamActivity {
    n_begun: AtomicU64,
    n_open: AtomicUsize,
    /// Streams that the client reset before their end, since this time.
    resets: Mutex<(Option<Time>, u32)>,
    too_many_resets: Notify,
}

impl StreamActivity {
    /// Counts a request whose end is not noted.
    pub(crate) fn begin(&self) {
        self.n_begun.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a request until the guard is dropped.
    pub(super) fn open(self: &Arc<Self>) -> OpenStream {
        self.begin();
        self.n_open.fetch_add(1, Ordering::Relaxed);
        OpenStream { activity: self.clone(), is_done: false }
    }

    fn n_begun(&self) -> u64 {
        self.n_begun.load(Ordering::Relaxed)
    }

    fn note_reset(&self, now: Time) {
        let mut resets = self.resets.lock().unwrap_or_else(PoisonError::into_inner);
        if resets.0.is_none_or(|since| now.since(since) >= HTTP2_RESETS_SPAN) {
            *resets = (Some(now), 0);
        }
        resets.1 += 1;
        if resets.1 > HTTP2_RESETS_MAX {
            self.too_many_resets.notify_one();
        }
    }
}

/// A request that is not answered completely.
pub(super) struct OpenStream {
    activity: Arc<StreamActivity>,
    pub(super) is_done: bool,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.activity.n_open.fetch_sub(1, Ordering::Relaxed);
        if !self.is_done {
            self.activity.note_reset(SystemClock.now());
        }
    }
}

/// The first byte, which is not taken; a connection without any is not worth its buffers. `None` if
/// none came in time.
pub(super) async fn first_byte(stream: &TcpStream, terms: ConnectionTerms) -> Option<u8> {
    let mut first = [0];
    match timeout(terms.head_timeout, stream.peek(&mut first)).await {
        Ok(Ok(1)) => Some(first[0]),
        Ok(Ok(_) | Err(_)) | Err(_) => None,
    }
}

/// Serves a connection until it ends, breaks its bounds, or `stop` asks for an end.
pub(super) async fn speak<S, B>(
    stream: impl Read + Write + Unpin + Send + 'static,
    service: S,
    (activity, unread): (Arc<StreamActivity>, Arc<UnreadAnswers>),
    bounds: Http2Bounds,
    terms: ConnectionTerms,
    stop: &mut watch::Receiver<bool>,
) where
    S: Service<Request<Incoming>, Response = Response<B>> + Send,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
{
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(bounds.n_streams)
        .max_header_list_size(bounds.head_bytes)
        .initial_stream_window_size(bounds.stream_window_bytes)
        .initial_connection_window_size(bounds.connection_window_bytes)
        .max_send_buf_size(HTTP2_SEND_BUFFER_BYTES_MAX)
        .max_pending_accept_reset_streams(HTTP2_RESETS_PENDING_MAX)
        .max_local_error_reset_streams(HTTP2_LOCAL_RESETS_MAX)
        .keep_alive_interval(HTTP2_PING_EVERY)
        .keep_alive_timeout(HTTP2_PING_TIMEOUT);
    let mut connection = pin!(http.serve_connection(stream, service));
    let broken = async {
        tokio::select! {
            () = unread.stalled(terms.write_stall) => "answers not read",
            () = activity.too_many_resets.notified() => "too many requests reset",
        }
    };
    let mut broken = pin!(broken);
    let stopped = async {
        // A dropped sender means stop, too.
        let _ = stop.wait_for(|stopping| *stopping).await;
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopped => None,
        why = &mut broken => return debug!(why, "HTTP/2 connection closed"),
        silence = silence(&activity, bounds.idle, terms) => match silence {
            Silence::NoRequest => return debug!(why = "no request", "HTTP/2 connection closed"),
            Silence::Idle => None,
        },
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            Pin::as_mut(&mut connection).graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                why = &mut broken => return debug!(why, "HTTP/2 connection closed"),
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "HTTP/2 connection aborted");
    }
}

/// Why a connection is closed.
enum Silence {
    /// No request was ever made on it.
    NoRequest,
    /// No request began for a long time, and none is open.
    Idle,
}

/// Resolves when a connection has been silent for too long.
async fn silence(activity: &StreamActivity, idle: Duration, terms: ConnectionTerms) -> Silence {
    SystemClock.sleep(terms.head_timeout).await;
    let mut n_seen = activity.n_begun();
    if n_seen == 0 {
        return Silence::NoRequest;
    }
    loop {
        SystemClock.sleep(idle).await;
        let n = activity.n_begun();
        if n == n_seen && activity.n_open.load(Ordering::Relaxed) == 0 {
            return Silence::Idle;
        }
        n_seen = n;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn as_many_resets_as_the_bound_within_its_span_are_allowed_and_one_more_is_not() {
        let activity = Arc::new(StreamActivity::default());
        let now = Time::from_millis(1_000_000);
        for _ in 0..HTTP2_RESETS_MAX {
            activity.note_reset(now);
        }
        let is_over = async || timeout(Duration::ZERO, activity.too_many_resets.notified()).await.is_ok();
        assert!(!is_over().await);
        activity.note_reset(now + HTTP2_RESETS_SPAN);
        assert!(!is_over().await, "a new span has begun");
        for _ in 0..HTTP2_RESETS_MAX {
            activity.note_reset(now + HTTP2_RESETS_SPAN);
        }
        assert!(is_over().await);
    }

    #[test]
    fn a_stream_that_is_done_is_no_reset() {
        let activity = Arc::new(StreamActivity::default());
        let mut open = activity.open();
        assert_eq!(activity.n_open.load(Ordering::Relaxed), 1);
        open.is_done = true;
        drop(open);
        assert_eq!(activity.n_open.load(Ordering::Relaxed), 0);
        assert_eq!(activity.resets.lock().unwrap().1, 0);
        drop(activity.open());
        assert_eq!(activity.resets.lock().unwrap().1, 1);
    }
}
