//! The shared state of all requests: engine, configuration, in-memory keys and counters.

mod bounds;

use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use forgerun_core::client::Client;
use forgerun_core::delivery::DeliveryPolicy;
use forgerun_core::id::ClientId;
use forgerun_core::job::{Name, ResultRetention};
use forgerun_core::node::Node;
use forgerun_core::retry::{Mode, RetryPolicy};
use forgerun_core::time::Time;
use forgerun_core::work::{Definition, WorkKind};
use forgerun_core::{Command, limits as core_limits};
use forgerun_engine::observer::Observer;
use forgerun_engine::{
    BuiltInWorker, Clock, DeliveryHandle, DeliveryLoop, DeliveryOptions, Engine, Options, RedriveHandle,
    RedriveLoop, WorkerHandle, WorkerOptions,
};
use forgerun_problem::{Digest, FieldType, FieldWriter};
use forgerun_store::Store;
use forgerun_wire::outcome::{Outcomes, ReportStatus};
use tokio::sync::watch;
use tokio::time::timeout;

use crate::attendance::Attendance;
use crate::audit::{self, WrongKeys};
use crate::auth::{ApiKeyCache, JobTokens, Sessions, oidc::Oidc};
use crate::client_names::ClientNames;
use crate::config::{Auth, AuthMode, Config, JobReportStatus, RetryMode, Secret};
use crate::events::sse::Hub;
use crate::http::{BodyCache, Unwritten};
use crate::job_log::JobLog;
use crate::limits::{ByteBudget, Limiter, NODE_BEAT, NODE_BEAT_MIN, READY_TIMEOUT, WEBHOOK_LEASE_MARGIN};
use crate::metrics::Metrics;
use crate::own_clients::DEFAULT_CLIENT;
use crate::results::{DownloadPlaces, ReadyResults, UploadPlaces};
use crate::schemas::SchemaCache;
use crate::sinks::SinkSet;
#[cfg(feature = "grpc")]
use crate::streamed_jobs::{StreamObserver, StreamedJobs};
use crate::tallies::NodeNews;
use crate::traces::{CommitObserver, Traces};
use crate::webhooks::{Sender, SenderOptions, SharedCourier, SigningKeys, WebhookCourier};

/// Re-exported, so that dialects need not depend on the store.
pub use forgerun_store::{DeliveriesOf, DeliveryFilter, Filter, IdSuffix, JobsAhead};

pub use bounds::Bounds;

/// The running server, as requests see it.
pub struct App {
    pub config: Config,
    pub engine: Engine,
    pub clock: Arc<dyn Clock>,
    pub metrics: Arc<Metrics>,
    /// Set if a trace collector is configured.
    pub traces: Option<Arc<Traces>>,
    /// Public base URL without a trailing slash; empty for relative references.
    pub base: String,
    pub outcomes: Outcomes,
    /// Timeouts.
    pub bounds: Bounds,
    pub api_keys: ApiKeyCache,
    pub(crate) job_tokens: JobTokens,
    pub limiter: Limiter,
    /// Answers that are not written yet.
    pub unwritten: Arc<Unwritten>,
    /// Memory budget for requests that are not answered yet.
    pub incoming: Arc<ByteBudget>,
    /// Memory budget for answers over HTTP/2 that clients do not read.
    pub unread: Arc<ByteBudget>,
    /// Rate limit for worker calls, if configured.
    pub worker_limiter: Option<Limiter>,
    /// Rate limit for broker messages, if it differs from that of their client.
    pub bridge_limiter: Option<Limiter>,
    /// Wrong keys that are not in the audit trail yet.
    pub wrong_keys: WrongKeys,
    /// News for other nodes.
    pub node_news: NodeNews,
    /// The queues for which workers asked this node.
    pub attendance: Arc<Attendance>,
    pub client_names: ClientNames,
    pub started_at: Time,
    /// Name of this process among the nodes; different with every start.
    pub node: Name,
    /// Slots for downloads of large results.
    pub downloads: Arc<DownloadPlaces>,
    /// Slots for uploads of results.
    pub uploads: Arc<UploadPlaces>,
    /// Recently serialised jobs.
    pub body_cache: BodyCache,
    /// Recently fetched small results.
    pub ready_results: ReadyResults,
    pub schemas: SchemaCache,
    pub hub: Hub,
    /// Jobs held by gRPC streaming workers.
    #[cfg(feature = "grpc")]
    pub streamed_jobs: Arc<StreamedJobs>,
    /// Client of requests without credentials, in open mode.
    pub default_client: Option<ClientId>,
    /// Queue of jobs that name none.
    pub default_queue: Name,
    /// Adds the `Problem` header to a 200 about a failed job, if configured.
    pub problem_field: FieldWriter,
    /// Signing keys for webhooks; `None` if signing is off.
    pub webhook_keys: Option<Arc<SigningKeys>>,
    /// Sinks for the events of all jobs.
    pub sinks: SinkSet,
    /// Operator sessions of the dashboard.
    pub sessions: Sessions,
    pub(crate) admin_digest: Option<[u8; 32]>,
    /// Single sign-on of operators, if configured.
    pub(crate) oidc: Option<Oidc>,
    /// The built-in worker, once started.
    worker: OnceLock<WorkerHandle>,
    /// The delivery loop, once started.
    deliveries: OnceLock<DeliveryHandle>,
    /// The redrive loop, once started.
    redrives: OnceLock<RedriveHandle>,
    stopping: watch::Sender<bool>,
    me: Weak<App>,
}

fn node_name(clock: &dyn Clock) -> Name {
    Name::new(&format!("node-{:08x}", clock.random() as u32)).expect("a short name")
}

const DEFAULT_QUEUE: &str = "default";

impl App {
    /// Starts the engine on a store, and its companions.
    pub async fn start(
        config: Config,
        store: Arc<dyn Store>,
        clock: Arc<dyn Clock>,
        bounds: Bounds,
    ) -> Result<Arc<App>, forgerun_engine::Error> {
        let base = config.server.public_base_url.clone().unwrap_or_default();
        let outcomes = outcomes(&config);
        let metrics = Arc::new(Metrics::new(config.metrics));
        let traces = Traces::start(&config.telemetry, clock.clone(), metrics.trace_spans_dropped.clone());
        let traces = traces.map(Arc::new);
        let counts: Arc<dyn Observer> = match &traces {
            Some(traces) => Arc::new(CommitObserver { metrics: metrics.clone(), traces: traces.clone() }),
            None => metrics.clone(),
        };
        let counts: Arc<dyn Observer> = Arc::new(JobLog::new(counts));
        #[cfg(feature = "grpc")]
        let streamed_jobs = Arc::new(StreamedJobs::default());
        #[cfg(feature = "grpc")]
        let counts: Arc<dyn Observer> = Arc::new(StreamObserver { counts, held: streamed_jobs.clone() });
        let options = Options { observer: counts, ..engine_options(&config) };
        let engine = Engine::start(store, clock.clone(), Arc::new(outcomes.clone()), options);
        let default_client = match config.auth.mode {
            AuthMode::Keys => None,
            AuthMode::Open => Some(default_client(&engine).await?),
        };
        let admin_digest =
            config.auth.admin_token.as_ref().map(|token| Digest::of(token.expose().as_bytes()).0);
        let signing_keys = || Arc::new(SigningKeys::new(engine.clone(), clock.clone()));
        let webhook_keys = config.webhooks.sign.then(signing_keys);
        let hub = Hub::start(engine.clone(), clock.clone(), metrics.clone(), bounds.stream_events_waiting);
        Ok(Arc::new_cyclic(|me| App {
            me: me.clone(),
            hub,
            #[cfg(feature = "grpc")]
            streamed_jobs,
            limiter: Limiter::new(&config.limits),
            worker_limiter: Limiter::of_workers(&config.limits),
            bridge_limiter: Limiter::of_bridge(&config.limits, config.amqp.rate_per_minute),
            wrong_keys: WrongKeys::default(),
            node_news: NodeNews::default(),
            attendance: Arc::new(Attendance::new(clock.clone(), config.alerts.no_worker)),
            client_names: ClientNames::default(),
            started_at: clock.now(),
            node: node_name(&*clock),
            api_keys: ApiKeyCache::default(),
            job_tokens: JobTokens::default(),
            body_cache: BodyCache::default(),
            ready_results: ReadyResults::default(),
            schemas: SchemaCache::default(),
            unwritten: Arc::default(),
            incoming: Arc::new(ByteBudget::incoming(&config.limits)),
            unread: Arc::new(ByteBudget::unread()),
            downloads: Arc::default(),
            uploads: Arc::new(UploadPlaces::new(config.limits.max_result_bytes)),
            sessions: Sessions::new(
                &session_secret(&config.auth, admin_digest).unwrap_or_else(|| chance(&*clock)),
            ),
            oidc: Oidc::new(&config.auth.oidc),
            default_queue: Name::new(DEFAULT_QUEUE).expect("a short name"),
            problem_field: problem_field(),
            sinks: SinkSet::default(),
            worker: OnceLock::new(),
            deliveries: OnceLock::new(),
            redrives: OnceLock::new(),
            stopping: watch::Sender::new(false),
            config,
            engine,
            clock,
            metrics,
            traces,
            base,
            outcomes,
            bounds,
            default_client,
            webhook_keys,
            admin_digest,
        }))
    }

    /// Starts the built-in worker. A second call has no effect.
    pub fn work(&self) {
        self.worker.get_or_init(|| {
            let workers = &self.config.workers;
            let node = format!("builtin-{:08x}", self.clock.random() as u32);
            let options = WorkerOptions {
                count: workers.count,
                concurrency: workers.concurrency,
                lease: workers.lease,
                heartbeat: workers.heartbeat,
                time_scale: self.config.sim.time_scale,
                active_max: Some(self.config.limits.max_active_jobs),
                max_runtime: self.config.exec.max_runtime,
                node: Name::new(&node).expect("a short name"),
                compose: forgerun_wire::operations::report,
            };
            BuiltInWorker::start(self.engine.clone(), options)
        });
    }

    /// The built-in worker, if it was started.
    pub fn worker(&self) -> Option<&WorkerHandle> {
        self.worker.get()
    }

    /// Starts the delivery loop. A second call has no effect.
    pub fn deliver(&self) {
        self.deliveries.get_or_init(|| {
            let webhooks = &self.config.webhooks;
            let courier = WebhookCourier {
                sender: Sender::new(
                    SenderOptions::new(webhooks.timeout, webhooks.private_targets),
                    self.clock.clone(),
                ),
                keys: self.webhook_keys.clone(),
                private: webhooks.private_targets,
                source: self.source().to_owned(),
                metrics: self.metrics.webhooks.clone(),
                traces: self.traces.clone(),
                clock: self.clock.clone(),
            };
            let defaults = DeliveryOptions::default();
            let policy =
                DeliveryPolicy { schedule: webhooks.schedule.clone(), disable_after: webhooks.disable_after };
            let lease = webhooks.timeout + WEBHOOK_LEASE_MARGIN;
            let options = DeliveryOptions { policy, lease, ..defaults };
            DeliveryLoop::start(self.engine.clone(), Arc::new(SharedCourier(Arc::new(courier))), options)
        });
    }

    /// Starts the redrive loop. A second call has no effect.
    pub fn redrive(&self) {
        self.redrives.get_or_init(|| RedriveLoop::start(self.engine.clone()));
    }

    /// Sends node heartbeats until the server stops.
    pub fn show_up(&self) {
        let app = self.shared();
        tokio::spawn(async move {
            let mut stopping = app.stopping.subscribe();
            loop {
                let version = env!("CARGO_PKG_VERSION").to_owned();
                let (started_at, seen_at) = (app.started_at, app.clock.now());
                let (queues, has_built_in) = (app.attendance.alive(), app.worker().is_some());
                let id = app.node.to_string();
                let node = Node { id, version, started_at, seen_at, queues, has_built_in };
                if let Err(error) = app.engine.run(Command::Node(node)).await {
                    tracing::debug!(%error, "node heartbeat failed");
                }
                // Soon after news, but once for several that come together.
                let pause = async {
                    tokio::select! {
                        () = app.clock.sleep(NODE_BEAT) => {}
                        () = app.attendance.news() => app.clock.sleep(NODE_BEAT_MIN).await,
                    }
                };
                tokio::select! {
                    _ = stopping.wait_for(|stopping| *stopping) => return,
                    () = pause => {}
                }
            }
        });
    }

    /// Records wrong keys in the audit trail until the server stops.
    pub fn audit(&self) -> tokio::task::JoinHandle<()> {
        let app = self.shared();
        tokio::spawn(async move { audit::follow_wrong_keys(&app).await })
    }

    /// Stops the redrive loop: running redrives are handed back.
    pub async fn stop_redrives(&self) {
        if let Some(redrives) = self.redrives.get() {
            redrives.stop().await;
        }
    }

    /// Starts the configured sinks.
    pub fn start_sinks(&self) {
        self.sinks.start_configured(self);
    }

    /// Stops the sinks: another node may continue at once.
    pub async fn stop_sinks(&self) {
        self.sinks.stop().await;
    }

    /// The `source` of CloudEvents.
    pub fn source(&self) -> &str {
        if self.base.is_empty() { "/" } else { &self.base }
    }

    /// Stops the delivery loop: running sends get a moment to end, the rest is sent by another node
    /// or after a restart.
    pub async fn stop_deliveries(&self) {
        if let Some(deliveries) = self.deliveries.get() {
            deliveries.stop().await;
        }
    }

    /// Stops the built-in worker: nearly finished jobs are finished, the others handed back.
    pub async fn stop_work(&self) {
        if let Some(worker) = self.worker.get() {
            worker.stop().await;
        }
    }

    /// Sends the remaining traces, after the engine has stopped.
    pub async fn stop_traces(&self) {
        if let Some(traces) = &self.traces {
            traces.stop().await;
        }
    }

    /// Retry policy for a simulated job of `/v1`.
    pub fn retry_policy(&self, mode: Option<Mode>) -> RetryPolicy {
        let retry = &self.config.retry;
        self.policy(mode.unwrap_or(by_default(retry.mode.v1)), retry.max, retry.wait_base)
    }

    /// Retry policy for real work of `/v1`: this many automatic retries, none by default.
    pub fn real_policy(&self, mode: Option<Mode>, retries: Option<u32>) -> RetryPolicy {
        let retry = &self.config.retry;
        match retries {
            Some(retries) => self.policy(mode.unwrap_or(Mode::Auto), retries, retry.wait_base),
            None => self.policy(mode.unwrap_or(Mode::Manual), retry.max, retry.wait_base),
        }
    }

    /// Retry policy for a job of `/api/v1`, with longer waits (C-24).
    pub fn operation_policy(&self, mode: Option<Mode>, retries: Option<u32>) -> RetryPolicy {
        let retry = &self.config.retry;
        let mode = mode.unwrap_or(by_default(retry.mode.api));
        self.policy(mode, retries.unwrap_or(retry.max), self.config.asyncops.retry_base)
    }

    fn policy(&self, mode: Mode, retries: u32, initial: Duration) -> RetryPolicy {
        let retry = &self.config.retry;
        let policy = match mode {
            Mode::Manual => RetryPolicy::manual(),
            Mode::Auto => RetryPolicy::auto(),
        };
        let attempts_max = retries.saturating_add(1).min(core_limits::EXECUTIONS_MAX as u32);
        RetryPolicy { attempts_max, initial, max: retry.wait_max, jitter: retry.jitter, ..policy }
    }

    /// The definition of a simulated job of this kind.
    pub fn simulated(&self, kind: WorkKind) -> Definition {
        Definition::of(kind, self.max_runtime_ms())
    }

    /// Limit of a simulated attempt, in milliseconds.
    pub fn max_runtime_ms(&self) -> u32 {
        u32::try_from(self.config.exec.max_runtime.as_millis()).unwrap_or(u32::MAX)
    }

    /// Retention of results, by size. Records have one retention for all (C-72, C-110).
    pub fn result_retention(&self) -> ResultRetention {
        let kept = &self.config.job_retention;
        ResultRetention {
            small: kept.completed_small,
            medium: kept.completed_default,
            large: kept.completed_large,
        }
    }

    /// Whether the server is ready; otherwise why not.
    pub async fn readiness(&self) -> Result<(), NotReady> {
        if self.is_stopping() {
            return Err(NotReady::Stopping);
        }
        // A node without a built-in worker is ready; a node whose worker has stopped is not (C-51).
        if self.worker().is_some_and(WorkerHandle::is_over) {
            return Err(NotReady::Workers);
        }
        if let Some(damage) = self.engine.store().damage() {
            return Err(NotReady::Damaged(damage.to_owned()));
        }
        // The cheapest query: it proves a connection and a schema.
        match timeout(READY_TIMEOUT, self.engine.store().journal_end()).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(error)) => Err(NotReady::Store(error)),
            Err(_) => Err(NotReady::StoreSilent),
        }
    }

    /// Ends waiting requests and streams and reports the server as not ready. The engine still
    /// runs.
    pub fn begin_stop(&self) {
        self.stopping.send_replace(true);
        self.hub.close();
    }

    /// Drops the cached keys of a client, because one of them has changed.
    pub fn keys_changed(&self, client: ClientId) {
        self.keys_changed_elsewhere(client);
        self.node_news.key_changed(client);
    }

    /// The same, after a change on another node.
    pub(crate) fn keys_changed_elsewhere(&self, client: ClientId) {
        self.api_keys.forget(client);
        self.hub.keys_changed(client);
    }

    pub(crate) fn limiters(&self) -> impl Iterator<Item = &Limiter> {
        [Some(&self.limiter), self.worker_limiter.as_ref(), self.bridge_limiter.as_ref()]
            .into_iter()
            .flatten()
    }

    /// For tasks that outlive their request.
    pub(crate) fn shared(&self) -> Arc<App> {
        self.me.upgrade().expect("the caller holds it")
    }

    pub fn is_stopping(&self) -> bool {
        *self.stopping.borrow()
    }

    /// Resolves when the server begins to stop. Cancel-safe.
    pub async fn stopping(&self) {
        // The sender is part of the app, so it still exists.
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}

#[derive(Debug)]
pub enum NotReady {
    Stopping,
    Workers,
    /// The store answers with an error.
    Store(forgerun_store::Error),
    StoreSilent,
    /// The store has reported corruption: only a restart makes the server ready again.
    Damaged(String),
}

const fn by_default(mode: RetryMode) -> Mode {
    match mode {
        RetryMode::Auto => Mode::Auto,
        RetryMode::Manual | RetryMode::Policy => Mode::Manual,
    }
}

/// A random secret of this process.
/// What signs sessions: it changes with the operator's token and with the terms of single sign-on.
fn session_secret(auth: &Auth, admin_digest: Option<[u8; 32]>) -> Option<[u8; 32]> {
    let oidc = &auth.oidc;
    let Some(issuer) = &oidc.issuer else { return admin_digest };
    let terms = (
        issuer,
        &oidc.client_id,
        oidc.client_secret.as_ref().map(Secret::expose),
        &oidc.role_claim,
        &oidc.roles,
    );
    Some(Digest::of(format!("{admin_digest:?} {terms:?}").as_bytes()).0)
}

fn chance(clock: &dyn Clock) -> [u8; 32] {
    let mut bytes = [0; 32];
    bytes[..16].copy_from_slice(&clock.random().to_be_bytes());
    bytes[16..].copy_from_slice(&clock.random().to_be_bytes());
    bytes
}

/// Registers the client of open mode, unless an earlier start has.
async fn default_client(engine: &Engine) -> Result<ClientId, forgerun_engine::Error> {
    if engine.store().client(DEFAULT_CLIENT).await?.is_none() {
        let client = Client::new(DEFAULT_CLIENT, engine.now());
        engine.run(Command::Register(client)).await?;
    }
    Ok(DEFAULT_CLIENT)
}

pub(crate) fn engine_options(config: &Config) -> Options {
    Options {
        tombstone_keep: config.retention.tombstones,
        revoked_key_keep: config.retention.revoked_keys,
        delivery_keep: config.retention.deliveries,
        result_bytes_max: config.limits.max_result_bytes,
        log_bytes_max: config.limits.log_bytes,
        sink_lag_max: config.sinks.max_lag,
        queue_max: Some(config.limits.queue_size),
        ..Options::default()
    }
}

/// The renderer of outcomes, as configured.
pub(crate) fn outcomes(config: &Config) -> Outcomes {
    Outcomes {
        base: config.server.public_base_url.clone().unwrap_or_default(),
        status: match config.problem.job_report_status {
            JobReportStatus::Equivalent => ReportStatus::Equivalent,
            JobReportStatus::Http => ReportStatus::Http,
            JobReportStatus::Omit => ReportStatus::Omit,
        },
        coarse_times: config.problem.coarse_times,
    }
}

fn problem_field() -> FieldWriter {
    let codes = ["code", "rfa_code", "ojs_code"];
    codes
        .into_iter()
        .fold(FieldWriter::new(200).job_members(), |writer, code| writer.extension(code, FieldType::String))
}
