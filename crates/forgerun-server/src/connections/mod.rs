//! Connections: accepted up to a bound, each with a service of its own, and closed gracefully on
//! stop.
//!
//! A loop of our own instead of axum's, for a bound on connections, and an end to those that never
//! finish a request's head or never read an answer.

#[cfg(feature = "grpc")]
mod grpc;
mod http2;
mod https;
mod places;
mod socket;
mod tls;

use std::convert::Infallible;
use std::error::Error as StdError;
use std::future::poll_fn;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use axum::http::{Request, Response};
use forgerun_engine::{Clock, SystemClock};
use http_body::Body as HttpBody;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tracing::{debug, warn};

use crate::config::Limits;
use crate::http::HttpService;
use crate::limits::{CONNECTIONS_MAX, GRPC_IDLE, HEAD_BYTES_MAX, HEAD_TIMEOUT, WRITE_STALL};
#[cfg(feature = "grpc")]
pub use grpc::serve_grpc;
pub(crate) use http2::StreamActivity;
pub use https::{HTTP_PROTOCOLS, TlsPort, serve_tls};
use places::AddressPlaces;
pub(crate) use places::n_by_descriptors;
use socket::{Socket, linger};
pub use tls::{BadCertificate, TlsFiles, TlsIdentity};

/// The answer to a connection beyond the limit of its address.
const TOO_MANY: &[u8] = b"HTTP/1.1 429 Too Many Requests\r\nconnection: close\r\nretry-after: 1\r\ncontent-type: application/problem+json\r\n\
content-length: 100\r\n\r\n{\"title\":\"Too Many Requests\",\"status\":429,\"detail\":\"Too many connections are open at this address.\"}";

/// Wait when the system has no more descriptors or memory for a connection.
const PAUSE: Duration = Duration::from_millis(100);

/// Timeouts of connections. Not configurable; tests use shorter ones.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionTerms {
    pub n_max: usize,
    /// Timeout of a request's head.
    pub head_timeout: Duration,
    /// Timeout of a write without progress.
    pub write_stall: Duration,
    /// How long a gRPC connection without calls is kept. One of HTTP is kept for `head_timeout`.
    pub grpc_idle: Duration,
}

impl ConnectionTerms {
    /// As configured.
    pub fn new(limits: &Limits) -> ConnectionTerms {
        ConnectionTerms { write_stall: limits.write_stall, ..ConnectionTerms::default() }
    }
}

impl Default for ConnectionTerms {
    fn default() -> Self {
        ConnectionTerms {
            n_max: CONNECTIONS_MAX,
            head_timeout: HEAD_TIMEOUT,
            write_stall: WRITE_STALL,
            grpc_idle: GRPC_IDLE,
        }
    }
}

/// Serves until `stopping` resolves, then until the last connection has ended. Dropping it detaches
/// the open connections.
pub async fn serve(
    listener: TcpListener,
    service: HttpService,
    terms: ConnectionTerms,
    stopping: impl Future<Output = ()>,
) {
    let places = AddressPlaces::new(service.config(), terms.n_max);
    accept(listener, terms.n_max, stopping, |stream, address, stop, place| {
        match places.enter(address) {
            Some(of_address) => {
                let place = (place, of_address);
                let socket = Socket::new(stream, terms.write_stall);
                tokio::spawn(speak_http1(socket, service.open(address), terms, stop, place));
            }
            // Written if the system takes it at once; the client has probably not sent its request
            // yet.
            None => drop(stream.try_write(TOO_MANY)),
        }
    })
    .await;
}

/// Accepts connections, at most `n_max` at once, and passes each to `begin` with a stop signal and
/// its place; until `stopping` resolves, then until the last connection has dropped both.
async fn accept(
    listener: TcpListener,
    n_max: usize,
    stopping: impl Future<Output = ()>,
    begin: impl Fn(TcpStream, IpAddr, watch::Receiver<bool>, OwnedSemaphorePermit),
) {
    let room = Arc::new(Semaphore::new(n_max));
    // Every connection holds a receiver: it signals the stop, and the end of the last connection.
    let stop = watch::Sender::new(false);
    let mut stopping = pin!(stopping);
    loop {
        let taken = async {
            let place = room.clone().acquire_owned().await.expect("the semaphore is never closed");
            (place, listener.accept().await)
        };
        let (place, accepted) = tokio::select! {
            biased;
            () = &mut stopping => break,
            taken = taken => taken,
        };
        match accepted {
            Ok((stream, address)) => begin(stream, address.ip(), stop.subscribe(), place),
            Err(error) => pause_for(&error).await,
        }
    }
    drop(listener);
    stop.send_replace(true);
    stop.closed().await;
}

/// One connection of HTTP/1, request by request. `place` is held as long as it lasts.
///
/// Not an `async fn`, which would keep its arguments beside what is made of them: the future of
/// every open connection would be larger by a third.
fn speak_http1<S, B>(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    service: S,
    terms: ConnectionTerms,
    mut stop: watch::Receiver<bool>,
    place: impl Send,
) -> impl Future<Output = ()> + Send
where
    S: Service<Request<Incoming>, Response = Response<B>, Error = Infallible> + Send + Unpin,
    S::Future: Send + Unpin,
    B: HttpBody + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn StdError + Send + Sync>>,
{
    let mut http = http1::Builder::new();
    // Bodies are not copied before they are written, so that a body for many clients is in memory
    // once. The socket copies small ones.
    http.writev(true)
        .timer(TokioTimer::new())
        .header_read_timeout(terms.head_timeout)
        .max_buf_size(HEAD_BYTES_MAX);
    let mut connection = http.serve_connection(TokioIo::new(stream), service);
    async move {
        let stopped = async {
            // A dropped sender means stop, too.
            let _ = stop.wait_for(|stopping| *stopping).await;
        };
        let ended = tokio::select! {
            ended = poll_fn(|context| connection.poll_without_shutdown(context)) => Some(ended),
            () = stopped => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                Pin::new(&mut connection).graceful_shutdown();
                poll_fn(|context| connection.poll_without_shutdown(context)).await
            }
        };
        match ended {
            // Boxed, so that other connections need no memory for it.
            Ok(()) => Box::pin(linger(connection.into_parts().io.into_inner())).await,
            Err(error) => debug!(%error, "connection aborted"),
        }
        drop(place);
    }
}

/// A connection that broke before it was accepted needs no wait; a lack of descriptors passes.
async fn pause_for(error: &std::io::Error) {
    use std::io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    if !matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset) {
        warn!(%error, "could not accept a connection");
        SystemClock.sleep(PAUSE).await;
    }
}
