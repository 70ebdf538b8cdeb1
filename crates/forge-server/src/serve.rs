//! The running server: open the store, start the engine, listen, serve, stop.
//!
//! ```text
//!   signals installed ─► store open ─► engine ─► bound ─► ready(address) ─► serving ─► SIGTERM/SIGINT
//!   ─► no new connections, waiting requests let go, work finished or handed back ─► engine writes what it accepted
//!                                                        └─ second signal or STOP_GRACE: leave the rest
//!   ─► the last traces are sent ─► done
//! ```
//!
//! The handlers for signals are in place before anybody is told that the server is ready, so that whoever stops it
//! at that very moment gets a graceful stop.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use forge_engine::{Clock, SystemClock};
use forge_store::memory::Memory;
use forge_store::postgres::{Options as PostgresOptions, Postgres};
use forge_store::sqlite::Sqlite;
use forge_store::{Fault, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::app::{App, Bounds};
use crate::config::{Config, Database};
use crate::connections::{self, ConnectionTerms};
use crate::edge::HttpService;
use crate::limits::STOP_GRACE;
use crate::pages;

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The store cannot be opened.
    #[error("could not open the store: {0}")]
    Store(#[source] forge_store::Error),
    /// There is none to do something to.
    #[error("there is no store at {}; forgerun serve makes one", .0.display())]
    NoStore(PathBuf),
    /// The engine did not start.
    #[error("could not start: {0}")]
    Start(#[source] forge_engine::Error),
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
}

/// Runs the server until it is asked to stop. `ready` is called once, with the address it listens on, as soon as it
/// can serve.
pub async fn serve(config: Config, ready: impl FnOnce(SocketAddr)) -> Result<(), ServeError> {
    let mut stop = StopSignals::install().map_err(ServeError::Signals)?;
    // Bound first: an address that is taken is no reason to touch a database.
    let (listener, address) = listen(config.server.listen).await?;
    let clock = Arc::new(SystemClock);
    let store = open(&config.server.database, &*clock).await.map_err(ServeError::Store)?;
    let app = App::start(config, store, clock, Bounds::default()).await.map_err(ServeError::Start)?;
    if app.config.registers_nobody() {
        warn!(
            "no client can be registered: that needs the operator's token, and auth.admin_token is not set"
        );
    }
    app.work();
    app.deliver();
    listening(&app, listener, &mut stop, || {
        info!(address = %address, version = env!("CARGO_PKG_VERSION"), "listening");
        ready(address);
    })
    .await;
    app.engine.stop().await;
    app.stop_traces().await;
    info!("stopped");
    Ok(())
}

/// Serves connections until told to stop, then lets them end.
async fn listening(app: &Arc<App>, listener: TcpListener, stop: &mut StopSignals, ready: impl FnOnce()) {
    let (stopping, stopped) = oneshot::channel::<()>();
    let service = HttpService::new(app.clone(), pages::router(app));
    let mut server =
        pin!(connections::serve(listener, service, ConnectionTerms::new(&app.config.limits), async {
            // A dropped sender means that `serve` was dropped: stopping is right then too.
            let _ = stopped.await;
        }));
    ready();

    tokio::select! {
        () = &mut server => unreachable!("it ends when it is told to"),
        signal = stop.next() => info!(signal, "stopping"),
    }
    app.begin_stop();
    let _ = stopping.send(());
    let drained = async { tokio::join!(server, app.stop_work(), app.stop_deliveries()) };
    tokio::select! {
        drained = timeout(STOP_GRACE, drained) => if drained.is_err() {
            warn!(grace_s = STOP_GRACE.as_secs(), "stopped with connections still open");
        },
        signal = stop.next() => warn!(signal, "stopped at once"),
    }
}

/// Opens a store that is there already: a mistyped path must not pass for a store with nothing in it.
pub(crate) async fn open_existing(
    database: &Database,
    clock: &dyn Clock,
) -> Result<Arc<dyn Store>, ServeError> {
    match database {
        Database::Sqlite(path) if !path.exists() => Err(ServeError::NoStore(path.clone())),
        Database::Sqlite(_) | Database::Postgres(_) | Database::Memory => {
            open(database, clock).await.map_err(ServeError::Store)
        }
    }
}

/// Opens the store that the configuration names, and brings its schema up to date.
async fn open(database: &Database, clock: &dyn Clock) -> Result<Arc<dyn Store>, forge_store::Error> {
    match database {
        Database::Memory => Ok(Arc::new(Memory::new())),
        Database::Sqlite(path) => {
            let path = path.clone();
            let opened = spawn_blocking(move || Sqlite::open(&path)).await;
            let store = opened.map_err(|error| forge_store::Error::new(Fault::Unavailable, error))??;
            Ok(Arc::new(store))
        }
        Database::Postgres(url) => {
            let options = PostgresOptions::new(clock.random() as u64);
            Ok(Arc::new(Postgres::connect(url.expose(), options).await?))
        }
    }
}

async fn listen(address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
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
