//! Metrics of the bridge.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// The result of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageFate {
    /// It became a job.
    Taken,
    /// Its job existed.
    Joined,
    /// It was about an ended attempt or a deleted job.
    Stale,
    /// It exceeded the rate limit, and was delayed.
    Delayed,
    DeadLettered,
    /// A cancel was carried out, or came too late.
    Obeyed,
}

impl MessageFate {
    const ALL: [MessageFate; 6] = [
        MessageFate::Taken,
        MessageFate::Joined,
        MessageFate::Stale,
        MessageFate::Delayed,
        MessageFate::DeadLettered,
        MessageFate::Obeyed,
    ];

    const fn label(self) -> &'static str {
        match self {
            MessageFate::Taken => "taken",
            MessageFate::Joined => "joined",
            MessageFate::Stale => "stale",
            MessageFate::Delayed => "delayed",
            MessageFate::DeadLettered => "dead_lettered",
            MessageFate::Obeyed => "obeyed",
        }
    }
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct FateLabel {
    fate: &'static str,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct BridgeMetrics {
    messages: Family<FateLabel, Counter>,
    pub(super) connected: Gauge,
    errors: Counter,
    pub(super) queues_held: Gauge,
}

impl BridgeMetrics {
    /// All at zero, and registered.
    pub(crate) fn new(registry: &mut Registry) -> BridgeMetrics {
        let metrics = BridgeMetrics::default();
        for fate in MessageFate::ALL {
            drop(metrics.messages.get_or_create(&FateLabel { fate: fate.label() }));
        }
        metrics.register(registry);
        metrics
    }

    fn register(&self, registry: &mut Registry) {
        registry.register(
            "amqp_bridge_messages",
            "Messages from bridged queues, by what became of them",
            self.messages.clone(),
        );
        registry.register(
            "amqp_bridge_connected",
            "1 while the bridge is connected to the broker",
            self.connected.clone(),
        );
        registry.register(
            "amqp_bridge_errors",
            "Connections and channels of the bridge that broke or could not be opened",
            self.errors.clone(),
        );
        registry.register(
            "amqp_bridge_queues_held",
            "Bridged queues whose messages wait because the store does not take them",
            self.queues_held.clone(),
        );
    }

    pub(super) fn broke(&self) {
        self.errors.inc();
    }

    pub(super) fn count(&self, fate: MessageFate) {
        self.messages.get_or_create(&FateLabel { fate: fate.label() }).inc();
    }
}
