//! One connection and its loops, and reconnecting.
//!
//! Each queue has channels of its own, so an error about one queue closes nothing else: its loop
//! reopens them, with a growing wait. A broken connection ends all loops; the next one declares the
//! topology again, since the broker may have lost it.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::client::Client;
use forgerun_core::job::Name;
use lapin::Connection;
use tokio::task::JoinSet;
use tracing::{info, warn};

use super::connection::{BridgeError, connect};
use super::{BridgeContext, control, intake, topology};
use crate::limits::{AMQP_WAIT_BASE, AMQP_WAIT_MAX};
use crate::own_clients::BRIDGE_CLIENT;

/// Keeps a session up until the bridge stops.
pub(super) async fn run(context: Arc<BridgeContext>) {
    let mut wait = Backoff::default();
    while !context.is_stopping() {
        let Err(error) = session(&context, &mut wait).await else { return };
        let metrics = &context.app.metrics.bridge;
        metrics.connected.set(0);
        metrics.broke();
        let pause = wait.next(context.app.clock.random());
        warn!(%error, retry_in_ms = pause.as_millis() as u64, "AMQP bridge down");
        context.pause(pause).await;
    }
}

impl BridgeContext {
    /// Waits, at most until the bridge stops.
    pub(super) async fn pause(&self, span: Duration) {
        tokio::select! {
            () = self.app.clock.sleep(span) => {}
            () = self.stopping() => {}
        }
    }

    /// Checks that the configured client exists.
    async fn check_client(&self) -> Result<(), BridgeError> {
        let (engine, client) = (&self.app.engine, self.owner.client);
        if engine.store().client(client).await?.is_some() {
            return Ok(());
        }
        if client != BRIDGE_CLIENT {
            return Err(BridgeError::NoClient(client));
        }
        engine.run(Command::Register(Client::new(client, engine.now()))).await?;
        Ok(())
    }
}

/// Waits that double, with a quarter of jitter: servers that lost the same broker must not all
/// reconnect at once.
#[derive(Default)]
pub(super) struct Backoff {
    n_failures: u32,
}

impl Backoff {
    pub(super) fn next(&mut self, random: u128) -> Duration {
        let wait = AMQP_WAIT_BASE.saturating_mul(1 << self.n_failures.min(16)).min(AMQP_WAIT_MAX);
        self.n_failures = self.n_failures.saturating_add(1);
        let per_mille = 750 + u32::try_from(random % 501).expect("at most 500");
        wait * per_mille / 1000
    }

    pub(super) fn reset(&mut self) {
        self.n_failures = 0;
    }
}

/// Connects and works until the bridge stops (`Ok`) or the connection breaks.
async fn session(context: &Arc<BridgeContext>, wait: &mut Backoff) -> Result<(), BridgeError> {
    context.check_client().await?;
    let connection = Arc::new(connect(&context.url, "forgerun bridge").await?);
    wait.reset();
    context.app.metrics.bridge.connected.set(1);
    info!(client.id = %context.owner.client, queues = context.queues.len(), "AMQP bridge up");
    let mut loops = JoinSet::new();
    for queue in &context.queues {
        loops.spawn(keep_up(context.clone(), connection.clone(), queue.clone(), Direction::Jobs));
        loops.spawn(keep_up(context.clone(), connection.clone(), queue.clone(), Direction::Control));
    }
    while let Some(done) = loops.join_next().await {
        if let Err(error) = done.unwrap_or_else(|error| Err(BridgeError::Broken(error))) {
            // All unacknowledged messages come again.
            loops.shutdown().await;
            return Err(error);
        }
    }
    // A polite close; if it gets lost, the broker notices anyway.
    let _ = connection.close(200, "stopping".into()).await;
    Ok(())
}

/// Jobs or commands of a queue.
#[derive(Clone, Copy)]
enum Direction {
    Jobs,
    Control,
}

/// Serves one queue while the connection lasts, reopening its channels.
async fn keep_up(
    context: Arc<BridgeContext>,
    connection: Arc<Connection>,
    queue: Name,
    direction: Direction,
) -> Result<(), BridgeError> {
    let mut wait = Backoff::default();
    while !context.is_stopping() {
        let Err(error) = work(&context, &connection, &queue, direction, &mut wait).await else {
            return Ok(());
        };
        if !connection.status().connected() {
            return Err(error);
        }
        context.app.metrics.bridge.broke();
        let pause = wait.next(context.app.clock.random());
        warn!(%error, queue = queue.as_str(), retry_in_ms = pause.as_millis() as u64, "AMQP bridge: queue restarted");
        context.pause(pause).await;
        if !connection.status().connected() {
            return Err(error);
        }
    }
    Ok(())
}

async fn work(
    context: &Arc<BridgeContext>,
    connection: &Connection,
    queue: &Name,
    direction: Direction,
    wait: &mut Backoff,
) -> Result<(), BridgeError> {
    topology::declare(connection, queue.as_str(), context.queue_length_max).await?;
    match direction {
        Direction::Jobs => intake::run(context, connection, queue, wait).await,
        Direction::Control => control::run(context, connection, queue, wait).await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_bound_give_or_take_a_quarter() {
        let mut wait = Backoff::default();
        let middle: Vec<u128> = (0..9).map(|_| wait.next(250).as_millis()).collect();
        assert_eq!(middle, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000, 60_000]);
        assert_eq!((wait.next(0).as_secs(), wait.next(500).as_secs()), (45, 75));
        wait.reset();
        assert_eq!(wait.next(250), Duration::from_secs(1));
    }
}
