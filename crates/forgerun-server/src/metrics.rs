//! Metrics. Job metrics come from commits, so they count what is durable; their names are the
//! specification's. No label names a job or a client. A counter whose labels are a closed set
//! exists from the start, at zero, so that its first increase is visible.

mod queues;
mod text;

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use forgerun_core::Changes;
use forgerun_core::history::{Event, EventKind, EventName, JournalEntry, JournalSubject, RetryStatus};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_core::state::{Cause, State};
use forgerun_core::time::Time;
use forgerun_core::work::WorkKind;
use forgerun_engine::observer::{Commit, Observer};
use forgerun_store::Fault;
use forgerun_wire::words::forge_outcome;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::config::MetricsConfig;
use crate::sinks::SinkMetrics;
use crate::webhooks::WebhookMetrics;

pub(crate) use queues::OTHER;
pub use queues::QueueMetrics;
pub use text::Format;

/// `scenario` of a batch, whose items have kinds of their own.
const BATCH: &str = "batch";
/// `scenario` of real work.
const REAL: &str = "real";

const BY_USER: &str = "user";
const BY_POLICY: &str = "policy";

/// The work kind of a simulated job, or one of the two words above.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct Scenario {
    scenario: &'static str,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RetriedBy {
    by: &'static str,
}

/// The end of a job with more than one attempt.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndedLabel {
    outcome: &'static str,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FaultLabel {
    fault: &'static str,
}

/// Route and status of a request.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EndpointLabel {
    method: &'static str,
    /// The pattern of the route, never the path.
    route: &'static str,
    status: u16,
}

type Count<L> = Family<L, Counter>;

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    submitted: Count<Scenario>,
    queued: Count<Scenario>,
    running: Count<Scenario>,
    succeeded: Count<Scenario>,
    failed: Count<Scenario>,
    canceled: Count<Scenario>,
    timed_out: Count<Scenario>,
    retries: Count<RetriedBy>,
    retried_ends: Count<EndedLabel>,
    dead_letters: Counter,
    leases_lost: Counter,
    heartbeats: Counter,
    log_lines: Counter,
    queue_wait: Histogram,
    assigned_wait: Histogram,
    execution: Histogram,
    batch_commands: Histogram,
    commit: Histogram,
    store_errors: Count<FaultLabel>,
    idempotency_hits: Counter,
    idempotency_new: Counter,
    auth_failures: Counter,
    requests: Family<EndpointLabel, Histogram>,
    pub webhooks: WebhookMetrics,
    #[cfg(feature = "amqp")]
    pub(crate) bridge: crate::bridge::BridgeMetrics,
    pub sinks: SinkMetrics,
    /// Spans that no collector accepted.
    pub trace_spans_dropped: Counter,
    /// Open event streams.
    pub sse_streams_open: Gauge,
    /// Events sent to streams, counted once per stream.
    pub sse_events_sent: Counter,
    /// Streams closed because their queue was full.
    pub sse_streams_dropped: Counter,
    /// Seconds between an event and its delivery to streams.
    pub journal_lag: Gauge<f64, AtomicU64>,
    pub queues: QueueMetrics,
    /// Dead letters, up to a bound.
    pub dead_letter_depth: Gauge,
    /// Rows set aside, as last read from the store.
    pub rows_set_aside: Gauge,
    /// Busy slots of the built-in worker.
    pub worker_busy: Gauge,
    /// Slots of the built-in worker.
    pub worker_places: Gauge,
}

impl Metrics {
    pub fn new(bounds: MetricsConfig) -> Metrics {
        let mut registry = Registry::default();
        let webhooks = WebhookMetrics::new(&mut registry, seconds());
        #[cfg(feature = "amqp")]
        let bridge = crate::bridge::BridgeMetrics::new(&mut registry);
        let sinks = SinkMetrics::new(&mut registry);
        let queues = QueueMetrics::new(&mut registry, bounds);
        let mut metrics = Metrics {
            registry,
            #[cfg(feature = "amqp")]
            bridge,
            webhooks,
            sinks,
            submitted: Family::default(),
            queued: Family::default(),
            running: Family::default(),
            succeeded: Family::default(),
            failed: Family::default(),
            canceled: Family::default(),
            timed_out: Family::default(),
            retries: Family::default(),
            retried_ends: Family::default(),
            dead_letters: Counter::default(),
            leases_lost: Counter::default(),
            heartbeats: Counter::default(),
            log_lines: Counter::default(),
            queue_wait: seconds(),
            assigned_wait: seconds(),
            execution: seconds(),
            batch_commands: Histogram::new([
                1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0,
            ]),
            commit: seconds(),
            store_errors: Family::default(),
            idempotency_hits: Counter::default(),
            idempotency_new: Counter::default(),
            auth_failures: Counter::default(),
            requests: Family::new_with_constructor(seconds),
            trace_spans_dropped: Counter::default(),
            sse_streams_open: Gauge::default(),
            sse_events_sent: Counter::default(),
            sse_streams_dropped: Counter::default(),
            journal_lag: Gauge::default(),
            queues,
            dead_letter_depth: Gauge::default(),
            rows_set_aside: Gauge::default(),
            worker_busy: Gauge::default(),
            worker_places: Gauge::default(),
        };
        metrics.begin_at_zero();
        metrics.register_jobs();
        metrics.register_server();
        metrics
    }

    /// Creates the counters of all known labels.
    fn begin_at_zero(&self) {
        let scenarios = WorkKind::ALL.iter().map(|kind| kind.as_str()).chain([BATCH, REAL]);
        for scenario in scenarios.map(|scenario| Scenario { scenario }) {
            for counter in [
                &self.submitted,
                &self.queued,
                &self.running,
                &self.succeeded,
                &self.failed,
                &self.canceled,
                &self.timed_out,
            ] {
                drop(counter.get_or_create(&scenario));
            }
        }
        for by in [BY_USER, BY_POLICY] {
            drop(self.retries.get_or_create(&RetriedBy { by }));
        }
        for outcome in State::ALL.iter().filter_map(|state| forge_outcome(*state)) {
            drop(self.retried_ends.get_or_create(&EndedLabel { outcome }));
        }
        for fault in Fault::ALL.map(fault_label) {
            drop(self.store_errors.get_or_create(&FaultLabel { fault }));
        }
    }

    /// The encoder adds `_total` to the name of a counter.
    fn register_jobs(&mut self) {
        let registry = &mut self.registry;
        registry.register("jobs_submitted", "Jobs accepted", self.submitted.clone());
        registry.register("jobs_queued", "Entries of jobs into QUEUED", self.queued.clone());
        registry.register("jobs_running", "Entries of jobs into RUNNING", self.running.clone());
        registry.register("jobs_succeeded", "Jobs that ended well", self.succeeded.clone());
        registry.register("jobs_failed", "Failed attempts, timeouts included", self.failed.clone());
        registry.register("jobs_canceled", "Jobs that were canceled", self.canceled.clone());
        registry.register("jobs_timed_out", "Attempts that ran too long", self.timed_out.clone());
        registry.register("job_retries", "Retries, by who asked for them", self.retries.clone());
        registry.register(
            "jobs_retried_ended",
            "Ends of jobs that were tried more than once",
            self.retried_ends.clone(),
        );
        registry.register("job_dead_letters", "Jobs that became dead letters", self.dead_letters.clone());
        registry.register(
            "job_dead_letter_depth",
            "Dead letters that need attention",
            self.dead_letter_depth.clone(),
        );
        registry.register(
            "rows_set_aside",
            "Jobs and deliveries that cannot be read or decided on, and take no part any more",
            self.rows_set_aside.clone(),
        );
        registry.register("job_leases_lost", "Leases that ran out", self.leases_lost.clone());
        registry.register(
            "worker_heartbeats",
            "Signs of life of workers that hold a job",
            self.heartbeats.clone(),
        );
        registry.register(
            "forgerun_job_log_lines",
            "Log lines of jobs that were stored",
            self.log_lines.clone(),
        );
        registry.register("job_queue_wait_seconds", "From claimable to claimed", self.queue_wait.clone());
        registry.register("job_assigned_seconds", "From claimed to begun", self.assigned_wait.clone());
        registry.register("job_execution_seconds", "From begun to ended", self.execution.clone());
    }

    fn register_server(&mut self) {
        let registry = &mut self.registry;
        registry.register("commit_commands", "Commands per transaction", self.batch_commands.clone());
        registry.register("commit_seconds", "How long a transaction took", self.commit.clone());
        registry.register(
            "store_errors",
            "Batches the store did not write, and requests for which it did not read",
            self.store_errors.clone(),
        );
        registry.register("idempotency_hits", "Submissions that repeated one", self.idempotency_hits.clone());
        registry.register("idempotency_new", "Keys used for the first time", self.idempotency_new.clone());
        registry.register(
            "auth_failures",
            "Requests refused for their credentials",
            self.auth_failures.clone(),
        );
        registry.register("http_request_seconds", "How long requests took", self.requests.clone());
        registry.register(
            "trace_spans_dropped",
            "Spans that no collector took",
            self.trace_spans_dropped.clone(),
        );
        registry.register("sse_streams_open", "Open streams of events", self.sse_streams_open.clone());
        registry.register("sse_events_sent", "Events given to streams", self.sse_events_sent.clone());
        registry.register(
            "journal_lag_seconds",
            "How old the newest event was when streams were told of it",
            self.journal_lag.clone(),
        );
        registry.register(
            "sse_streams_dropped",
            "Streams ended because they did not keep up",
            self.sse_streams_dropped.clone(),
        );
        registry.register("worker_busy", "Busy places of the built-in worker", self.worker_busy.clone());
        registry.register("worker_places", "Places of the built-in worker", self.worker_places.clone());
    }

    pub fn text(&self, format: Format) -> String {
        let mut text = String::new();
        encode(&mut text, &self.registry).expect("writing to a string does not fail");
        match format {
            Format::OpenMetrics => text,
            Format::Prometheus => text::prometheus(&text),
        }
    }

    pub fn store_error(&self, fault: Fault) {
        self.store_errors.get_or_create(&FaultLabel { fault: fault_label(fault) }).inc();
    }

    pub fn request(&self, method: &str, route: &'static str, status: u16, took: Duration) {
        let endpoint = EndpointLabel { method: known_method(method), route, status };
        self.requests.get_or_create(&endpoint).observe(took.as_secs_f64());
    }

    /// Counts a submission with an idempotency key.
    pub fn idempotency(&self, existing: bool) {
        if existing {
            self.idempotency_hits.inc()
        } else {
            self.idempotency_new.inc()
        };
    }

    /// Counts a request with refused credentials.
    pub fn auth_failure(&self) {
        self.auth_failures.inc();
    }

    fn retried(&self, by: &'static str) {
        self.retries.get_or_create(&RetriedBy { by }).inc();
    }

    fn event(&self, job: &Job, event: &Event) {
        let EventKind::Moved { cause, to, retry_status, .. } = event.kind else { return };
        self.queues.event(job, event);
        if let Some(outcome) = forge_outcome(to).filter(|_| retry_status != RetryStatus::WillRetry) {
            if event.attempt > 1 {
                self.retried_ends.get_or_create(&EndedLabel { outcome }).inc();
            }
            if job.dead_lettered_at == Some(event.at) {
                self.dead_letters.inc();
            }
        }
        let scenario = Scenario { scenario: scenario(job) };
        let add = |counter: &Count<Scenario>| {
            counter.get_or_create(&scenario).inc();
        };
        match event.name() {
            EventName::Created => add(&self.submitted),
            EventName::Queued => add(&self.queued),
            EventName::Requeued => add(&self.queued),
            EventName::Assigned => self.queue_wait.observe(between(job.queued_at, event.at)),
            EventName::Started => add(&self.running),
            EventName::Succeeded => add(&self.succeeded),
            // Handed back work did not fail; it only passes through FAILED on its way to the queue.
            EventName::Failed if cause == Cause::HandBack => {}
            EventName::Failed | EventName::Mixed => add(&self.failed),
            EventName::TimedOut => {
                add(&self.failed);
                add(&self.timed_out);
            }
            EventName::Canceled => add(&self.canceled),
            EventName::Progress | EventName::Emitted => {}
        }
        match cause {
            Cause::RetryByUser => self.retried(BY_USER),
            Cause::RetryByPolicy => self.retried(BY_POLICY),
            Cause::LeaseExpired | Cause::RunnerLost => {
                self.leases_lost.inc();
            }
            Cause::Start => self.assigned_wait.observe(between(last_before(job, event), event.at)),
            Cause::Finish | Cause::Fail | Cause::Mixed | Cause::Timeout => {
                self.execution.observe(between(job.started_at, event.at));
            }
            _ => {}
        }
    }
}

impl Observer for Metrics {
    fn committed(&self, commit: &Commit<'_>) {
        self.batch_commands.observe(commit.n_commands as f64);
        self.commit.observe(commit.took.as_secs_f64());
        self.heartbeats.inc_by(commit.n_heartbeats as u64);
        for (job, event) in events(commit.changes) {
            self.event(job, event);
        }
        for entry in &commit.changes.journal {
            if matches!(entry.about, JournalSubject::Webhook(_)) {
                self.webhooks.disabled.inc();
            }
        }
    }

    fn failed(&self, fault: Fault, _: usize) {
        self.store_error(fault);
    }

    fn dropped(&self, sink: &str, n_events: u64) {
        self.sinks.dropped(sink, n_events);
    }

    fn logged(&self, n_lines: u64) {
        self.log_lines.inc_by(n_lines);
    }
}

/// The events of a commit, each with its job. Events of deleted jobs are skipped.
pub(crate) fn events(changes: &Changes) -> impl Iterator<Item = (&Job, &Event)> {
    let jobs = changes.inserted.iter().map(|(job, _)| job).chain(&changes.updated);
    let mut jobs: Vec<&Job> = jobs.collect();
    // Nearly sorted already, since new jobs have ascending ids; a map would hash every id twice.
    jobs.sort_unstable_by_key(|job| job.id);
    let find = move |id: JobId| jobs.binary_search_by_key(&id, |job| job.id).ok().map(|at| jobs[at]);
    changes
        .journal
        .iter()
        .filter_map(JournalEntry::job_event)
        .filter_map(move |(job, event)| Some((find(job)?, event)))
}

const fn fault_label(fault: Fault) -> &'static str {
    match fault {
        Fault::Unavailable => "unavailable",
        Fault::Timeout => "timeout",
        Fault::Busy => "busy",
        Fault::Full => "full",
        Fault::Corrupt => "corrupt",
        Fault::Sealed => "sealed",
        Fault::Rejected => "rejected",
        Fault::TooNew => "too_new",
        Fault::Unknown => "unknown",
    }
}

/// Clients may send any method; labels are limited to known ones.
fn known_method(method: &str) -> &'static str {
    let known = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    known.into_iter().find(|name| *name == method).unwrap_or("other")
}

pub(crate) fn scenario(job: &Job) -> &'static str {
    match (&job.head.definition, &job.head.items) {
        (Some(definition), _) => definition.work_kind.as_str(),
        (None, Some(_)) => BATCH,
        (None, None) => REAL,
    }
}

fn last_before(job: &Job, event: &Event) -> Option<Time> {
    job.history.events().take_while(|before| before.n < event.n).last().map(|before| before.at)
}

fn between(from: Option<Time>, to: Time) -> f64 {
    from.map_or(0.0, |from| to.since(from).as_secs_f64())
}

/// From half a millisecond (a commit) to ten minutes (twice the wait that needs attention).
fn seconds() -> Histogram {
    Histogram::new([
        0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0,
        120.0, 300.0, 600.0,
    ])
}
