//! Sinks: brokers that get the events of all jobs.
//!
//! The loop, its position in the journal and its guarantees are `forgerun_engine::sinks`. Here is
//! what depends on the broker: the form of messages, sending, and confirmation.
//!
//! | file | subject |
//! |---|---|
//! | `message.rs` | the message about an event, for all brokers |
//! | `kafka.rs` | Apache Kafka (feature `kafka`) |
//! | `nats.rs` | NATS JetStream (feature `nats`) |
//! | `rabbitmq.rs` | RabbitMQ (feature `amqp`) |
//! | `metrics.rs` | metrics |

#[cfg(feature = "kafka")]
mod kafka;
#[cfg(any(feature = "amqp", feature = "kafka", feature = "nats"))]
mod message;
mod metrics;
#[cfg(feature = "nats")]
mod nats;
#[cfg(feature = "amqp")]
mod rabbitmq;

use std::sync::{Arc, Mutex, PoisonError};

use forgerun_engine::sinks::{EventSink, SinkHandle, SinkLoop, SinkOptions};
use forgerun_wire::admin::{AdminSink, AdminSinkLag};

use crate::app::App;
pub use metrics::SinkMetrics;

/// The sinks of this node.
#[derive(Debug, Default)]
pub struct SinkSet(Mutex<Vec<Arc<SinkHandle>>>);

impl SinkSet {
    /// Starts the configured sinks.
    pub(crate) fn start_configured(&self, app: &App) {
        for sink in configured(app) {
            self.start(app, sink);
        }
    }

    /// Starts one sink.
    pub(crate) fn start(&self, app: &App, sink: Arc<dyn EventSink>) {
        let handle = SinkLoop::start(app.engine.clone(), sink, SinkOptions::new(app.node.clone()));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::new(handle));
    }

    pub(crate) fn handles(&self) -> Vec<Arc<SinkHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops sending: another node may continue at once.
    pub(crate) async fn stop(&self) {
        for handle in self.handles() {
            handle.stop().await;
        }
    }

    /// Every sink as a view for the operator.
    pub(crate) async fn look(&self, app: &App) -> Result<Vec<AdminSink>, forgerun_engine::Error> {
        let mut sinks = Vec::new();
        for handle in self.handles() {
            let Some((cursor, lag)) = handle.look().await? else { continue };
            let lag = AdminSinkLag { events: lag.events, age: lag.age };
            sinks.push(AdminSink::new(&cursor, lag, app.clock.now()));
        }
        Ok(sinks)
    }
}

/// The configured sinks. A configured sink that is not built in has prevented the start.
fn configured(app: &App) -> Vec<Arc<dyn EventSink>> {
    let sinks: Vec<Option<Arc<dyn EventSink>>> = vec![
        #[cfg(feature = "kafka")]
        kafka::KafkaSink::configured(&app.config.kafka, app.source()),
        #[cfg(feature = "nats")]
        nats::NatsSink::configured(&app.config.nats, app.source()),
        #[cfg(feature = "amqp")]
        rabbitmq::RabbitSink::configured(&app.config.amqp, app.source()),
    ];
    #[cfg(not(any(feature = "amqp", feature = "kafka", feature = "nats")))]
    let _ = app;
    sinks.into_iter().flatten().collect()
}
