//! Traces over OTLP, if `telemetry.otlp_endpoint` is set; otherwise none of this exists at run
//! time.
//!
//! ```text
//!   request ──finish──► one span per submit, cancel, retry, key ─┐
//!   commit ──observer─► one span per state a job leaves,         ├─► bounded queue ─► exporter ─► POST {endpoint}/v1/traces
//!                       its execution, its report                │   full: dropped and counted
//!   webhook attempt ───► one span                                ┘
//! ```
//!
//! One job, one trace, from its submission to its end, retries included. Its id is that of the
//! client's `traceparent`, or the job's own. Span ids are computed from their subjects, and times
//! come from the job's history: no span is kept open, so a job may begin on one node and end on
//! another, a year or a restart later.
//!
//! ```text
//!   (client's span) ─► POST /v1/jobs ─► execution ─► enqueue · assign · start · run · report
//!                                    ├► execution (of a retry) ─► retry · assign · start · run · report
//!                                    └► POST /v1/jobs/{job_id}/cancel, …/retry (in the trace of their caller, if it has one)
//! ```
//!
//! Written by hand instead of with the `opentelemetry` crates: they make spans from live objects,
//! which do not exist here, and would add a dozen crates and an HTTP client to every build. What
//! remains is one JSON document of the OTLP specification and one HTTP request.

mod collector;
mod context;
mod delivery;
mod event_spans;
mod exporter;
mod otlp;
mod request;
mod span;

use std::sync::{Arc, Mutex, PoisonError};

use forgerun_engine::Clock;
use forgerun_engine::observer::{Commit, Observer};
use forgerun_store::{Fault, Swept};
use prometheus_client::metrics::counter::Counter;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::warn;

use crate::config::Telemetry;
use crate::limits::{TRACE_SPANS_WAITING_MAX, TRACE_STOP_GRACE};
use crate::metrics::Metrics;
use collector::Collector;
pub(crate) use delivery::{AttemptRecord, AttemptSpan};
use exporter::SpanExporter;
pub(crate) use request::RequestSubject;
use span::Span;

/// Accepts spans without blocking.
#[derive(Debug)]
pub struct Traces {
    spans: mpsc::Sender<Span>,
    dropped: Counter,
    stop: watch::Sender<bool>,
    sending: Mutex<Option<JoinHandle<()>>>,
}

impl Traces {
    /// Starts exporting, if a collector is configured. Ends with [`Traces::stop`].
    pub(crate) fn start(to: &Telemetry, clock: Arc<dyn Clock>, dropped: Counter) -> Option<Traces> {
        let endpoint = to.otlp_endpoint.as_deref()?;
        let collector = Collector::new(endpoint, &to.otlp_headers, None);
        let (spans, waiting) = mpsc::channel(TRACE_SPANS_WAITING_MAX);
        let (stop, stopped) = watch::channel(false);
        let exporter = SpanExporter::new(collector, clock, dropped.clone());
        let sending = tokio::spawn(exporter.run(waiting, stopped));
        Some(Traces { spans, dropped, stop, sending: Mutex::new(Some(sending)) })
    }

    fn put(&self, span: Span) {
        if self.spans.try_send(span).is_err() {
            self.dropped.inc();
        }
    }

    /// Sends the buffered spans, within a timeout, and ends.
    pub(crate) async fn stop(&self) {
        self.stop.send_replace(true);
        let sending = self.sending.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut sending) = sending else { return };
        if timeout(TRACE_STOP_GRACE, &mut sending).await.is_err() {
            sending.abort();
            warn!("stopped with unsent traces");
        }
    }
}

/// Counts commits and exports their spans.
#[derive(Debug)]
pub(crate) struct CommitObserver {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) traces: Arc<Traces>,
}

impl Observer for CommitObserver {
    fn committed(&self, commit: &Commit<'_>) {
        self.metrics.committed(commit);
        event_spans::of_commit(commit, |span| self.traces.put(span));
    }

    fn failed(&self, fault: Fault, n_commands: usize) {
        self.metrics.failed(fault, n_commands);
    }

    fn swept(&self, swept: &Swept) {
        self.metrics.swept(swept);
    }

    fn dropped(&self, sink: &str, n_events: u64) {
        self.metrics.dropped(sink, n_events);
    }

    fn logged(&self, n_lines: u64) {
        self.metrics.logged(n_lines);
    }
}
