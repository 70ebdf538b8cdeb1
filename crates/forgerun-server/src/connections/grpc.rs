//! Connections of the gRPC listener: HTTP/2 from the first byte, over TLS if there is a
//! certificate.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicU64, Ordering};

use forgerun_engine::{Clock, SystemClock};
use hyper::rt::{Read, Write};
use hyper::server::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::places::AddressPlaces;
use super::socket::Socket;
use super::{ConnectionTerms, TlsIdentity, accept};
use crate::dialects::grpc::{GrpcConnection, GrpcService};
use crate::limits::{
    GRPC_CALL_WINDOW_BYTES, GRPC_CALLS_PER_CONNECTION_MAX, GRPC_CONNECTION_WINDOW_BYTES, GRPC_HEAD_BYTES_MAX,
    GRPC_PING_EVERY, GRPC_PING_TIMEOUT, GRPC_SEND_BUFFER_BYTES_MAX, TLS_HANDSHAKE_TIMEOUT,
};

/// Serves until `stopping` resolves, then until the last connection has ended. With `tls`,
/// plaintext is refused.
pub async fn serve_grpc(
    listener: TcpListener,
    service: GrpcService,
    terms: ConnectionTerms,
    tls: Option<TlsIdentity>,
    stopping: impl Future<Output = ()>,
) {
    let acceptor = tls.map(|identity| identity.acceptor());
    let places = AddressPlaces::new(service.config(), terms.n_max);
    accept(listener, terms.n_max, stopping, |stream, address, stop, place| {
        let Some(of_address) = places.enter(address) else { return };
        let (service, acceptor) = (service.open(address), acceptor.clone());
        tokio::spawn(async move {
            converse(stream, service, acceptor, terms, stop).await;
            drop((place, of_address));
        });
    })
    .await;
}

async fn converse(
    stream: TcpStream,
    service: GrpcConnection,
    acceptor: Option<TlsAcceptor>,
    terms: ConnectionTerms,
    mut stop: watch::Receiver<bool>,
) {
    // A connection without any bytes is not worth its buffers.
    let spoken = poll_fn(|context| stream.poll_read_ready(context));
    match timeout(terms.head_timeout, spoken).await {
        Ok(Ok(())) => {}
        Ok(Err(_)) | Err(_) => return,
    }
    let socket = Socket::new(stream, terms.write_stall);
    let Some(acceptor) = acceptor else {
        return speak(TokioIo::new(socket), service, terms, &mut stop).await;
    };
    match timeout(TLS_HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => Box::pin(speak(TokioIo::new(stream), service, terms, &mut stop)).await,
        Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
        Err(_) => debug!("TLS handshake timed out"),
    }
}

/// One connection, many concurrent calls.
async fn speak(
    stream: impl Read + Write + Unpin + Send + 'static,
    service: GrpcConnection,
    terms: ConnectionTerms,
    stop: &mut watch::Receiver<bool>,
) {
    let (n_calls, unread) = (service.n_calls(), service.unread());
    let mut http = http2::Builder::new(TokioExecutor::new());
    http.timer(TokioTimer::new())
        .max_concurrent_streams(GRPC_CALLS_PER_CONNECTION_MAX)
        .max_header_list_size(GRPC_HEAD_BYTES_MAX)
        .initial_stream_window_size(GRPC_CALL_WINDOW_BYTES)
        .initial_connection_window_size(GRPC_CONNECTION_WINDOW_BYTES)
        .max_send_buf_size(GRPC_SEND_BUFFER_BYTES_MAX)
        .keep_alive_interval(GRPC_PING_EVERY)
        .keep_alive_timeout(GRPC_PING_TIMEOUT);
    let mut connection = pin!(http.serve_connection(stream, service));
    let stopped = async {
        // A dropped sender means stop, too.
        let _ = stop.wait_for(|stopping| *stopping).await;
    };
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopped => None,
        () = unread.stalled(terms.write_stall) => return debug!("gRPC connection closed: answers not read"),
        silence = silence(&n_calls, terms) => match silence {
            Silence::NoCall => return debug!("gRPC connection closed: no call"),
            Silence::Idle => None,
        },
    };
    let ended = match ended {
        Some(ended) => ended,
        None => {
            Pin::as_mut(&mut connection).graceful_shutdown();
            tokio::select! {
                ended = connection => ended,
                () = unread.stalled(terms.write_stall) => return,
            }
        }
    };
    if let Err(error) = ended {
        debug!(%error, "gRPC connection aborted");
    }
}

/// Why a connection is closed.
enum Silence {
    /// No call was ever made on it.
    NoCall,
    /// No call began for a long time.
    Idle,
}

/// Resolves when a connection has been silent for too long.
async fn silence(n_calls: &AtomicU64, terms: ConnectionTerms) -> Silence {
    SystemClock.sleep(terms.head_timeout).await;
    let mut n_seen = n_calls.load(Ordering::Relaxed);
    if n_seen == 0 {
        return Silence::NoCall;
    }
    loop {
        SystemClock.sleep(terms.grpc_idle).await;
        let n = n_calls.load(Ordering::Relaxed);
        if n == n_seen {
            return Silence::Idle;
        }
        n_seen = n;
    }
}
