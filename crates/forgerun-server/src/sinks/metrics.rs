//! Metrics of sinks, by sink.

use std::sync::atomic::{AtomicU64, Ordering};

use forgerun_engine::sinks::SinkHandle;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct SinkLabel {
    sink: String,
}

/// The metrics of all sinks. A node without sinks shows none.
#[derive(Clone, Debug, Default)]
pub struct SinkMetrics {
    lag_events: Family<SinkLabel, Gauge>,
    lag_seconds: Family<SinkLabel, Gauge<f64, AtomicU64>>,
    sent: Family<SinkLabel, Counter>,
    errors: Family<SinkLabel, Counter>,
    skipped: Family<SinkLabel, Counter>,
    refused: Family<SinkLabel, Counter>,
    dropped: Family<SinkLabel, Counter>,
}

impl SinkMetrics {
    pub fn new(registry: &mut Registry) -> SinkMetrics {
        let metrics = SinkMetrics::default();
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("sink_lag_events", "Events that wait to be sent", self.lag_events.clone());
        registry.register("sink_lag_seconds", "How long the oldest of them waits", self.lag_seconds.clone());
        registry.register("sink_sent", "Events that the broker confirmed", self.sent.clone());
        registry.register("sink_errors", "Sends that failed; they are repeated", self.errors.clone());
        registry.register("sink_skipped", "Events whose job was deleted before", self.skipped.clone());
        registry.register("sink_refused", "Events that the broker never takes", self.refused.clone());
        registry.register("sink_dropped", "Events deleted before they were sent", self.dropped.clone());
    }

    /// Copies the counters of a sink loop.
    pub fn update(&self, handle: &SinkHandle) {
        let label = SinkLabel { sink: handle.name().to_owned() };
        let counters = handle.counters();
        for (metric, counter) in [
            (&self.sent, &counters.sent),
            (&self.errors, &counters.errors),
            (&self.skipped, &counters.skipped),
            (&self.refused, &counters.refused),
        ] {
            metric.get_or_create(&label).inner().store(counter.load(Ordering::Relaxed), Ordering::Relaxed);
        }
        drop(self.dropped.get_or_create(&label));
        let events = counters.lag_events.load(Ordering::Relaxed);
        self.lag_events.get_or_create(&label).set(i64::try_from(events).unwrap_or(i64::MAX));
        let seconds = counters.lag_ms.load(Ordering::Relaxed) as f64 / 1000.0;
        self.lag_seconds.get_or_create(&label).set(seconds);
    }

    /// Counts events that were deleted before a sink had sent them.
    pub fn dropped(&self, sink: &str, n_events: u64) {
        self.dropped.get_or_create(&SinkLabel { sink: sink.to_owned() }).inc_by(n_events);
    }
}
