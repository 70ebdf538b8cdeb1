//! The running server: opens the store, starts the engine, listens, serves, stops.
//!
//! ```text
//!   signals installed ─► store open ─► engine ─► bound ─► ready(address) ─► serving ─► SIGTERM/SIGINT
//!   ─► no new connections, waiting requests let go, work finished or handed back ─► engine writes what it accepted
//!                                                        └─ second signal or STOP_GRACE: leave the rest
//!   ─► the last traces are sent ─► done
//! ```
//!
//! The signal handlers are installed before the server reports that it is ready, so that even an
//! immediate stop is graceful.

mod sharing;
mod tls;

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;

use forgerun_engine::{Clock, StoreClock};
use forgerun_store::backup::BackupPlace;
use forgerun_store::memory::Memory;
#[cfg(feature = "s3")]
use forgerun_store::objects::{S3, S3Options};
use forgerun_store::postgres::{Options as PostgresOptions, Postgres};
use forgerun_store::sealed::SealedStore;
use forgerun_store::sqlite::{Options as SqliteOptions, Sqlite};
use forgerun_store::{Fault, ObjectPlace, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;
use tracing::{debug, info, warn};

use crate::Running;
use crate::app::{App, Bounds};
use crate::config::{BadKeys, Config, Database, ResultStore, Results};
use crate::connections::{self, ConnectionTerms, TlsIdentity, TlsPort};
use crate::http::HttpService;
#[cfg(feature = "grpc")]
use crate::limits::GRPC_CONNECTIONS_MAX;
use crate::limits::{AUDIT_STOP_GRACE, STOP_GRACE};
use crate::pages;
use crate::tallies::TallyHandle;
use sharing::DatabaseUse;

/// Why the server could not start or go on.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("could not open the store: {0}")]
    Store(#[source] forgerun_store::Error),
    /// The object store for large results refuses the credentials.
    #[error("could not use results.store: {0}")]
    Objects(#[source] forgerun_store::Error),
    /// The file of encryption keys has changed since the configuration was checked.
    #[error("could not read the encryption keys: {0}")]
    Keys(#[from] BadKeys),
    /// No database file at this path.
    #[error("there is no store at {}; forgerun serve makes one", .0.display())]
    NoStore(PathBuf),
    #[error("could not start: {0}")]
    Start(#[source] forgerun_engine::Error),
    /// The address is in use, or not available.
    #[error("could not listen on {address}: {source}{}", listen_hint(setting, address, source))]
    Listen {
        /// What chose the address: a flag or a configuration key.
        setting: &'static str,
        address: SocketAddr,
        source: io::Error,
    },
    /// TLS is configured, but its certificate or key cannot be used.
    #[error("could not serve TLS: {0}")]
    Certificate(String),
    /// A vital part failed; the log says which.
    #[error("the engine broke down")]
    Broken,
    /// Signal handlers could not be installed, so the server could not be stopped gracefully.
    #[error("could not wait for signals: {0}")]
    Signals(#[source] io::Error),
}

impl ServeError {
    /// Whether the database does not answer.
    pub fn is_unreachable(&self) -> bool {
        matches!(self, ServeError::Store(error) if matches!(error.fault, Fault::Unavailable | Fault::Timeout))
    }
}

#[derive(Clone, Copy, Debug)]
pub struct ServerAddresses {
    pub http: SocketAddr,
    /// Whether HTTP is served over TLS.
    pub is_tls: bool,
    /// gRPC, if enabled.
    pub grpc: Option<SocketAddr>,
}

/// Called once the server listens.
pub type Ready = Box<dyn FnOnce(ServerAddresses)>;

/// Runs the server until it is stopped. `ready` is called once, with the listen addresses.
pub fn serve(config: Config, ready: Ready) -> Running<'static, Result<(), ServeError>> {
    Box::pin(run(config, ready))
}

async fn run(mut config: Config, ready: Ready) -> Result<(), ServeError> {
    let mut stop = StopSignals::install().map_err(ServeError::Signals)?;
    // Bound first: if the address is in use, the database must stay untouched.
    let (listener, address) = listen("--listen", config.server.listen).await?;
    let tls = tls::main_port(&config)?;
    let grpc = GrpcListener::bind(&mut config).await?;
    let addresses = ServerAddresses {
        http: address,
        is_tls: tls.is_some(),
        grpc: grpc.as_ref().map(|grpc| grpc.address),
    };
    let clock = Arc::new(StoreClock::default());
    let store = open(&config, &*clock).await?;
    clock.compare(&*store).await.map_err(ServeError::Store)?;
    let timekeeper = tokio::spawn(clock.clone().follow(store.clone()));
    let _use = database_use(&config.server.database);
    let app = App::start(config, store, clock, Bounds::default()).await.map_err(ServeError::Start)?;
    if app.config.registers_nobody() {
        warn!("registration impossible: it needs the operator's token, and auth.admin_token is not set");
    }
    if app.config.sim.enabled {
        info!(
            "simulation is on: jobs with a work_kind, and jobs of /v1 without job_type, are simulated and run nothing of yours; \
             turn it off with sim.enabled = false (FORGERUN_SIM__ENABLED=false)"
        );
    } else {
        info!(
            "simulation is off: requests for simulated work are refused; set sim.enabled = true to allow them"
        );
    }
    app.work();
    app.deliver();
    app.redrive();
    app.show_up();
    let audit = app.audit();
    let tallies = TallyHandle::start(&app).await;
    #[cfg(feature = "amqp")]
    let bridge = crate::bridge::Bridge::start(&app);
    let leave_brokers = async {
        #[cfg(feature = "amqp")]
        if let Some(bridge) = bridge {
            bridge.stop().await;
        }
    };
    app.start_sinks();
    let followers =
        tls::follow(&app.clock, tls.iter().map(|port| &port.identity).chain(grpc_identity(&grpc)));
    let ended = listening(&app, (listener, tls), grpc, &mut stop, leave_brokers, || {
        let grpc = addresses.grpc.map(tracing::field::display);
        info!(address = %address, grpc, version = env!("CARGO_PKG_VERSION"), "listening");
        ready(addresses);
    })
    .await;
    if let Some(tallies) = tallies {
        tallies.stop().await;
    }
    // Records what it has counted.
    let _ = timeout(AUDIT_STOP_GRACE, audit).await;
    app.engine.stop().await;
    app.stop_traces().await;
    timekeeper.abort();
    drop(followers);
    info!("stopped");
    ended
}

/// Logs whether other servers use the same file; to be kept while this one does.
fn database_use(database: &Database) -> Option<DatabaseUse> {
    let Database::Sqlite(path) = database else { return None };
    match DatabaseUse::beside(path) {
        Ok(database_use) => {
            if database_use.is_shared {
                warn!(database = %path.display(), "database file shared: another server uses it, too, and both share its jobs");
            }
            Some(database_use)
        }
        Err(error) => {
            // Some network file systems have no such locks; everything else works.
            debug!(database = %path.display(), %error, "database file: check for other servers failed");
            None
        }
    }
}

/// Serves connections until stopped, then lets them end. `leave_brokers` stops other inputs.
async fn listening(
    app: &Arc<App>,
    (listener, tls): (TcpListener, Option<TlsPort>),
    grpc: Option<GrpcListener>,
    stop: &mut StopSignals,
    leave_brokers: impl Future<Output = ()>,
    ready: impl FnOnce(),
) -> Result<(), ServeError> {
    let (stopping, stopped) = watch::channel(false);
    let told = || {
        let mut stopped = stopped.clone();
        async move {
            // A dropped sender means that `serve` was dropped: stop, too.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        }
    };
    let service = HttpService::new(app.clone(), pages::router(app));
    let terms = connection_terms(app, grpc.is_some());
    let over_grpc = async {
        if let Some(grpc) = grpc {
            grpc.serve(app.clone(), terms, told()).await;
        }
    };
    let mut server = pin!(async {
        let over_http = async {
            match tls {
                None => connections::serve(listener, service, terms, told()).await,
                Some(port) => connections::serve_tls(listener, service, terms, port, told()).await,
            }
        };
        tokio::join!(over_http, over_grpc);
    });
    ready();

    let ended = tokio::select! {
        () = &mut server => unreachable!("it ends when it is told to"),
        signal = stop.next() => {
            info!(signal, "stopping");
            Ok(())
        }
        // The supervisor restarts the process.
        () = app.engine.stopping() => Err(ServeError::Broken),
    };
    app.begin_stop();
    stopping.send_replace(true);
    let drained = async {
        tokio::join!(
            server,
            app.stop_work(),
            app.stop_deliveries(),
            app.stop_redrives(),
            app.stop_sinks(),
            leave_brokers
        )
    };
    tokio::select! {
        drained = timeout(STOP_GRACE, drained) => if drained.is_err() {
            warn!(grace_s = STOP_GRACE.as_secs(), "stopped with connections still open");
        },
        signal = stop.next() => warn!(signal, "stopped at once"),
    }
    ended
}

/// The configured terms, with no more connections than descriptors allow. gRPC gets a quarter of
/// these.
fn connection_terms(app: &App, with_grpc: bool) -> ConnectionTerms {
    let terms = ConnectionTerms::new(&app.config.limits);
    let Some(n) = connections::n_by_descriptors() else { return terms };
    let n_max = terms.n_max.min(if with_grpc { n - n / 4 } else { n });
    if n_max < terms.n_max {
        info!(connections = n_max, "connections limited by the number of open files (ulimit -n)");
    }
    ConnectionTerms { n_max, ..terms }
}

/// Opens an existing store: a mistyped path must not create an empty one.
pub(crate) async fn open_existing(config: &Config, clock: &dyn Clock) -> Result<Arc<dyn Store>, ServeError> {
    sealed(config, open_unsealed(config, clock).await?).await
}

/// Opens an existing store whose contents stay as they are stored.
pub(crate) async fn open_unsealed(config: &Config, clock: &dyn Clock) -> Result<Arc<dyn Store>, ServeError> {
    match &config.server.database {
        Database::Sqlite(path) if !path.exists() => Err(ServeError::NoStore(path.clone())),
        Database::Sqlite(_) | Database::Postgres(_) | Database::Memory => open_database(config, clock).await,
    }
}

/// Opens the configured store, upgrades its schema, and encrypts its contents if so configured.
async fn open(config: &Config, clock: &dyn Clock) -> Result<Arc<dyn Store>, ServeError> {
    sealed(config, open_database(config, clock).await?).await
}

async fn sealed(config: &Config, store: Arc<dyn Store>) -> Result<Arc<dyn Store>, ServeError> {
    SealedStore::around(store, config.encryption.key_ring()?).await.map_err(ServeError::Store)
}

async fn open_database(config: &Config, clock: &dyn Clock) -> Result<Arc<dyn Store>, ServeError> {
    let objects = objects(&config.results).await.map_err(ServeError::Objects)?;
    open_with(&config.server.database, clock, objects).await.map_err(ServeError::Store)
}

async fn open_with(
    database: &Database,
    clock: &dyn Clock,
    objects: Option<Arc<dyn ObjectPlace>>,
) -> Result<Arc<dyn Store>, forgerun_store::Error> {
    match database {
        Database::Memory => Ok(Arc::new(Memory::new())),
        Database::Sqlite(path) => {
            let path = path.clone();
            let options = SqliteOptions { objects, ..SqliteOptions::default() };
            let opened = spawn_blocking(move || Sqlite::open_with(&path, options)).await;
            let store = opened.map_err(|error| forgerun_store::Error::new(Fault::Unavailable, error))??;
            Ok(Arc::new(store))
        }
        Database::Postgres(url) => {
            let options = PostgresOptions { objects, ..PostgresOptions::new(clock.random() as u64) };
            Ok(Arc::new(Postgres::connect(url.expose(), options).await?))
        }
    }
}

/// The object store for large results. If it is down, the server starts anyway: everything else
/// works. If it refuses the credentials, the configuration is wrong.
#[cfg(feature = "s3")]
pub(crate) async fn objects(
    results: &Results,
) -> Result<Option<Arc<dyn ObjectPlace>>, forgerun_store::Error> {
    let Some(store) = results.store.clone() else { return Ok(None) };
    let objects = s3(results, store)?;
    match objects.check().await {
        Err(error) if error.fault == Fault::Rejected => return Err(error),
        Err(error) => warn!(%error, "object store unreachable: large results are refused until it answers"),
        Ok(()) => {}
    }
    Ok(Some(Arc::new(objects)))
}

/// A part of an object store, with the address and key of `results.*`.
#[cfg(feature = "s3")]
fn s3(results: &Results, store: ResultStore) -> Result<S3, forgerun_store::Error> {
    let secret = results.secret_access_key.as_ref().map(|secret| secret.expose().to_owned());
    S3::new(S3Options {
        bucket: store.bucket,
        prefix: store.prefix,
        endpoint: results.endpoint.clone(),
        region: results.region.clone(),
        key: results.access_key_id.clone().zip(secret),
    })
}

/// A place for a backup in an object store; `None` if this build has none.
#[cfg(feature = "s3")]
pub(crate) fn open_object_store(
    results: &Results,
    store: ResultStore,
) -> Result<Option<BackupPlace>, forgerun_store::Error> {
    s3(results, store).map(|objects| Some(BackupPlace::Objects(objects)))
}

#[cfg(not(feature = "s3"))]
pub(crate) fn open_object_store(
    _: &Results,
    _: ResultStore,
) -> Result<Option<BackupPlace>, forgerun_store::Error> {
    Ok(None)
}

/// `None`: this build has no object store.
#[cfg(not(feature = "s3"))]
pub(crate) async fn objects(_: &Results) -> Result<Option<Arc<dyn ObjectPlace>>, forgerun_store::Error> {
    Ok(None)
}

/// Advice for an address that cannot be used.
fn listen_hint(setting: &str, address: &SocketAddr, source: &io::Error) -> String {
    if source.kind() != io::ErrorKind::AddrInUse {
        return String::new();
    }
    let other = SocketAddr::new(address.ip(), address.port().checked_add(1).unwrap_or(0));
    format!("; choose another with {setting}, such as {other}")
}

async fn listen(setting: &'static str, address: SocketAddr) -> Result<(TcpListener, SocketAddr), ServeError> {
    let failed = |source| ServeError::Listen { setting, address, source };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// The gRPC listener and its TLS identity.
struct GrpcListener {
    address: SocketAddr,
    #[cfg(feature = "grpc")]
    listener: TcpListener,
    tls: Option<TlsIdentity>,
}

impl GrpcListener {
    /// Binds the configured address. If a default address is in use, there is no gRPC.
    #[cfg(feature = "grpc")]
    async fn bind(config: &mut Config) -> Result<Option<GrpcListener>, ServeError> {
        let tls = tls::grpc_port(config)?;
        let grpc = &mut config.grpc;
        let Some(address) = grpc.addr else { return Ok(None) };
        match listen("grpc.addr", address).await {
            Ok((listener, address)) => Ok(Some(GrpcListener { address, listener, tls })),
            Err(error) if grpc.is_optional => {
                info!(%error, "gRPC is not served");
                grpc.addr = None;
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// `None`: this build has no gRPC.
    #[cfg(not(feature = "grpc"))]
    async fn bind(_: &mut Config) -> Result<Option<GrpcListener>, ServeError> {
        Ok(None)
    }

    #[cfg(feature = "grpc")]
    async fn serve(self, app: Arc<App>, terms: ConnectionTerms, stopping: impl Future<Output = ()>) {
        let service = crate::dialects::grpc::GrpcService::new(app);
        let n_max = connections::n_by_descriptors().map_or(GRPC_CONNECTIONS_MAX, |n| (n / 4).max(1));
        let terms = ConnectionTerms { n_max: n_max.min(GRPC_CONNECTIONS_MAX), ..terms };
        connections::serve_grpc(self.listener, service, terms, self.tls, stopping).await;
    }

    #[cfg(not(feature = "grpc"))]
    async fn serve(self, _: Arc<App>, _: ConnectionTerms, _: impl Future<Output = ()>) {}
}

fn grpc_identity(grpc: &Option<GrpcListener>) -> Option<&TlsIdentity> {
    grpc.as_ref().and_then(|grpc| grpc.tls.as_ref())
}

/// The stop signals.
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

    /// Waits for the next signal. Cancel-safe: a pending signal is not lost.
    async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
