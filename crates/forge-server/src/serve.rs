//! The running server: listen, serve, stop.
//!
//! ```text
//!   signals installed ─► bound ─► ready(address) ─► serving ─► SIGTERM/SIGINT ─► no new connections ─► done
//!                                                                   └─ second signal or STOP_GRACE: leave the rest
//! ```
//!
//! The handlers for signals are in place before anybody is told that the server is ready, so that whoever stops it
//! at that very moment gets a graceful stop.

use std::future::IntoFuture;
use std::io;
use std::net::SocketAddr;
use std::pin::pin;

use axum::Router;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::config::Config;
use crate::limits::STOP_GRACE;

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The address is taken, or is not ours.
    #[error("could not listen on {address}: {source}")]
    Listen {
        /// What was asked for.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// No handler for signals: the server could not be stopped gracefully.
    #[error("could not wait for signals: {0}")]
    Signals(#[source] io::Error),
    /// Connections can no longer be accepted.
    #[error("could not go on serving: {0}")]
    Serving(#[source] io::Error),
}

/// Runs the server until it is asked to stop. `ready` is called once, with the address it listens on, as soon as it
/// can serve.
pub async fn serve(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let mut stop = StopSignals::install().map_err(ServeError::Signals)?;
    let (listener, address) = listen(config.server.listen).await?;
    let (stopping, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, router()).with_graceful_shutdown(async {
        // A dropped sender means that `serve` was dropped: stopping is right then too.
        let _ = stopped.await;
    });
    let mut server = pin!(server.into_future());
    info!(address = %address, version = env!("CARGO_PKG_VERSION"), "listening");
    ready(address);

    tokio::select! {
        ended = &mut server => return ended.map_err(ServeError::Serving),
        signal = stop.next() => info!(signal, "stopping"),
    }
    let _ = stopping.send(());
    tokio::select! {
        ended = timeout(STOP_GRACE, server) => match ended {
            Ok(ended) => ended.map_err(ServeError::Serving)?,
            Err(_) => warn!(grace_s = STOP_GRACE.as_secs(), "stopped with connections still open"),
        },
        signal = stop.next() => warn!(signal, "stopped at once"),
    }
    info!("stopped");
    Ok(())
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

fn router() -> Router {
    Router::new().route("/health", get(health))
}

/// Alive: the process answers. Says nothing of the store; that is `/ready`.
async fn health() -> Response {
    let headers = [(CONTENT_TYPE, "application/json"), (CACHE_CONTROL, "no-store")];
    (headers, "{\"status\":\"ok\"}\n").into_response()
}

/// The signals that ask for a stop.
struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    fn install() -> io::Result<StopSignals> {
        Ok(StopSignals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    /// Waits for the next of them. Safe to cancel: a signal that nobody took stays pending.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
