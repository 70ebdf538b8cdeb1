//! The bridge to a RabbitMQ broker: OJS jobs published there become jobs here, and their failures
//! are published there.
//!
//! ```text
//!   ojs.queue.{name} ─► intake ─► engine.submit ─► commit ─► basic.ack
//!                         │ garbage ─► ojs.exchange.dlx         (then basic.ack)
//!                         │ too fast ─► ojs.exchange.retry      (then basic.ack)
//!   ojs.queue.control.{name} ─► control ─► cancel
//!   journal ─► failures ─► ojs.exchange.retry or ojs.exchange.dlx, confirmed before the place in the journal moves
//! ```
//!
//! | file | subject |
//! |---|---|
//! | `connection.rs` | connects, and publishes with confirms |
//! | `topology.rs` | declares exchanges and queues |
//! | `session.rs` | one connection and its loops, and reconnecting |
//! | `intake.rs`, `incoming.rs` | messages become jobs |
//! | `control.rs` | messages that cancel jobs |
//! | `failures.rs` | failed jobs are published |
//! | `properties.rs` | converts message properties |
//!
//! Guarantee: a message is acknowledged only after its job is durable, or after the broker has
//! confirmed that it is stored elsewhere. A repeated message, after a crash of the server or
//! broker, finds its job, by the job's id or by its own. The store alone decides about retries
//! (C-109): a message from a delay queue changes nothing. A message that cannot become a job goes
//! to the dead letters of its queue and delays no other.

mod connection;
mod control;
mod failures;
mod incoming;
mod intake;
mod metrics;
mod properties;
mod session;
mod topology;

use std::sync::Arc;

use forgerun_core::job::Name;
use forgerun_core::queue::Owner;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::app::App;
use crate::config::Secret;
use crate::own_clients::BRIDGE_CLIENT;

pub(crate) use metrics::BridgeMetrics;

/// Shared by the loops of the bridge.
struct BridgeContext {
    app: Arc<App>,
    url: Secret,
    queues: Vec<Name>,
    owner: Owner,
    queue_length_max: Option<u32>,
    stop: watch::Receiver<bool>,
}

impl BridgeContext {
    fn is_stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Resolves when the bridge stops. Cancel-safe.
    async fn stopping(&self) {
        // A dropped handle means the same.
        let _ = self.stop.clone().wait_for(|stopping| *stopping).await;
    }
}

/// Owner of the jobs from the broker.
pub(crate) fn owner(app: &App) -> Owner {
    let client = app.config.amqp.client_id.or(app.default_client).unwrap_or(BRIDGE_CLIENT);
    Owner { client, tenant: None }
}

/// The running bridge. Dropping it cuts it off: unacknowledged messages come again.
pub struct Bridge {
    stop: watch::Sender<bool>,
    loops: JoinHandle<()>,
}

impl Bridge {
    /// Starts consuming, if a broker and queues are configured. Failures are published by a sink of
    /// the server, which stops with the others.
    pub fn start(app: &Arc<App>) -> Option<Bridge> {
        let amqp = &app.config.amqp;
        let url = amqp.url.clone().filter(|_| !amqp.queues.is_empty())?;
        let (stop, stopped) = watch::channel(false);
        let context = BridgeContext {
            url,
            queues: amqp.queues.clone(),
            owner: owner(app),
            queue_length_max: amqp.queue_length_max,
            stop: stopped,
            app: app.clone(),
        };
        app.sinks.start(app, failures::sink(&context));
        Some(Bridge { stop, loops: tokio::spawn(session::run(Arc::new(context))) })
    }

    /// Stops consuming, and returns when all received messages are acknowledged.
    pub async fn stop(mut self) {
        self.stop.send_replace(true);
        let _ = (&mut self.loops).await;
    }
}

impl Drop for Bridge {
    fn drop(&mut self) {
        self.loops.abort();
    }
}
