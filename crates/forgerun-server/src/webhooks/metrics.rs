//! Metrics of deliveries. The first two names are the specification's. No label names a receiver or
//! a client.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use super::send_error::SendError;
use super::sender::SendVerdict;

/// The receiver is gone for good.
const GONE: &str = "gone";

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

#[derive(Clone, Debug)]
pub struct WebhookMetrics {
    deliveries: Counter,
    failures: Family<ReasonLabel, Counter>,
    seconds: Histogram,
    pub in_flight: Gauge,
    /// Seconds for which the oldest due delivery has waited.
    pub lag: Gauge,
    /// Webhooks disabled by the server.
    pub disabled: Counter,
}

impl WebhookMetrics {
    pub fn new(registry: &mut Registry, seconds: Histogram) -> WebhookMetrics {
        let metrics = WebhookMetrics {
            deliveries: Counter::default(),
            failures: Family::default(),
            seconds,
            in_flight: Gauge::default(),
            lag: Gauge::default(),
            disabled: Counter::default(),
        };
        for reason in SendError::LABELS.into_iter().chain([GONE]) {
            drop(metrics.failures.get_or_create(&ReasonLabel { reason }));
        }
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("webhook_deliveries", "Attempts to deliver", self.deliveries.clone());
        registry.register("webhook_failures", "Attempts that failed, by reason", self.failures.clone());
        registry.register("webhook_attempt_seconds", "How long attempts took", self.seconds.clone());
        registry.register("webhook_in_flight", "Attempts under way", self.in_flight.clone());
        registry.register("webhook_lag_seconds", "How late the next delivery is", self.lag.clone());
        registry.register("webhook_disabled", "Webhooks no longer called", self.disabled.clone());
    }

    pub fn attempt(&self, verdict: &SendVerdict, took: Duration) {
        self.deliveries.inc();
        self.seconds.observe(took.as_secs_f64());
        let reason = match verdict {
            SendVerdict::Delivered(_) => return,
            SendVerdict::Gone => GONE,
            SendVerdict::Failed { error, .. } => error.label(),
        };
        self.failures.get_or_create(&ReasonLabel { reason }).inc();
    }
}
