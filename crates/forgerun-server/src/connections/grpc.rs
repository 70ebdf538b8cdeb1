//! Connections of the gRPC listener: HTTP/2 from the first byte, over TLS if there is a
//! certificate.

use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tracing::debug;

use super::http2::{Http2Bounds, first_byte, speak};
use super::places::AddressPlaces;
use super::socket::Socket;
use super::{ConnectionTerms, TlsIdentity, accept};
use crate::dialects::grpc::{GrpcConnection, GrpcService};
use crate::limits::{
    GRPC_CALL_WINDOW_BYTES, GRPC_CALLS_PER_CONNECTION_MAX, GRPC_CONNECTION_WINDOW_BYTES, GRPC_HEAD_BYTES_MAX,
    TLS_HANDSHAKE_TIMEOUT,
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
    let places = AddressPlaces::new(service.config(), terms.n_max);
    accept(listener, terms.n_max, stopping, |stream, address, stop, place| {
        let Some(of_address) = places.enter(address) else { return };
        let (service, acceptor) = (service.open(address), tls.as_ref().map(TlsIdentity::acceptor));
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
    if first_byte(&stream, terms).await.is_none() {
        return;
    }
    let bounds = Http2Bounds {
        n_streams: GRPC_CALLS_PER_CONNECTION_MAX,
        head_bytes: GRPC_HEAD_BYTES_MAX,
        stream_window_bytes: GRPC_CALL_WINDOW_BYTES,
        connection_window_bytes: GRPC_CONNECTION_WINDOW_BYTES,
        idle: terms.grpc_idle,
    };
    let watched = (service.activity(), service.unread());
    let socket = Socket::new(stream, terms.write_stall);
    let Some(acceptor) = acceptor else {
        return speak(TokioIo::new(socket), service, watched, bounds, terms, &mut stop).await;
    };
    match timeout(TLS_HANDSHAKE_TIMEOUT, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => {
            Box::pin(speak(TokioIo::new(stream), service, watched, bounds, terms, &mut stop)).await;
        }
        Ok(Err(error)) => debug!(%error, "TLS handshake failed"),
        Err(_) => debug!("TLS handshake timed out"),
    }
}
