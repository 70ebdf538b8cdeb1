//! Declares the topology: three exchanges, and per bridged queue one for jobs, one for dead
//! letters, one for commands and some for delays. Existing ones with other settings are used as
//! they are: an operator may want quorum queues or bounds.

use forgerun_wire::ojs::amqp::{
    DEAD, DELAY_STEPS_MS, DIRECT, RETRY, control_queue, dead_queue, delay_key, delay_queue, job_queue,
};
use lapin::options::{ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions};
use lapin::types::{AMQPValue, FieldTable};
use lapin::{Channel, Connection, ErrorKind, ExchangeKind};
use tracing::warn;

use super::connection::BridgeError;

/// AMQP's code for an existing object with other settings.
const PRECONDITION_FAILED: u16 = 406;

/// Declares what is missing for a queue.
pub(super) async fn declare(
    connection: &Connection,
    queue: &str,
    length_max: Option<u32>,
) -> Result<(), BridgeError> {
    let mut declarer = Declarer { connection, channel: connection.create_channel().await? };
    for exchange in [DIRECT, RETRY, DEAD] {
        declarer.exchange(exchange).await?;
    }
    // Without a dead-letter exchange of its own: refused messages are published with headers that
    // state the reason, which a broker cannot add (C-76).
    declarer.queue(job_queue(queue), bounded(length_max)).await?;
    declarer.bind(job_queue(queue), DIRECT, queue).await?;
    declarer.queue(dead_queue(queue), FieldTable::default()).await?;
    declarer.bind(dead_queue(queue), DEAD, queue).await?;
    declarer.queue(control_queue(queue), FieldTable::default()).await?;
    for step_ms in DELAY_STEPS_MS {
        let name = delay_queue(queue, step_ms);
        declarer.queue(name.clone(), delaying(queue, step_ms)).await?;
        declarer.bind(name, RETRY, &delay_key(queue, step_ms)).await?;
    }
    declarer.channel.close(200, "done".into()).await?;
    Ok(())
}

/// A full queue refuses producers, instead of dropping the oldest message.
fn bounded(length_max: Option<u32>) -> FieldTable {
    let mut arguments = FieldTable::default();
    if let Some(length_max) = length_max {
        arguments.insert("x-max-length".into(), AMQPValue::LongLongInt(i64::from(length_max)));
        arguments.insert("x-overflow".into(), AMQPValue::LongString("reject-publish".into()));
    }
    arguments
}

/// A queue that returns messages to the jobs queue when they expire.
fn delaying(queue: &str, step_ms: u64) -> FieldTable {
    let mut arguments = FieldTable::default();
    let step_ms = i64::try_from(step_ms).expect("an hour at most");
    arguments.insert("x-message-ttl".into(), AMQPValue::LongLongInt(step_ms));
    arguments.insert("x-dead-letter-exchange".into(), AMQPValue::LongString(DIRECT.into()));
    arguments.insert("x-dead-letter-routing-key".into(), AMQPValue::LongString(queue.into()));
    arguments
}

struct Declarer<'a> {
    connection: &'a Connection,
    channel: Channel,
}

impl Declarer<'_> {
    async fn exchange(&self, name: &str) -> Result<(), BridgeError> {
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        let declaring =
            self.channel.exchange_declare(name.into(), ExchangeKind::Direct, options, FieldTable::default());
        Ok(declaring.await?)
    }

    async fn queue(&mut self, name: String, arguments: FieldTable) -> Result<(), BridgeError> {
        let options = QueueDeclareOptions { durable: true, ..QueueDeclareOptions::default() };
        let Err(error) = self.channel.queue_declare(name.as_str().into(), options, arguments).await else {
            return Ok(());
        };
        if code(&error) != Some(PRECONDITION_FAILED) {
            return Err(error.into());
        }
        warn!(queue = name, "bridge: queue exists with other settings and is used unchanged");
        // The broker has closed the channel.
        self.channel = self.connection.create_channel().await?;
        Ok(())
    }

    async fn bind(&self, queue: String, exchange: &str, key: &str) -> Result<(), BridgeError> {
        let (options, arguments) = (QueueBindOptions::default(), FieldTable::default());
        Ok(self.channel.queue_bind(queue.into(), exchange.into(), key.into(), options, arguments).await?)
    }
}

/// The broker's error code.
fn code(error: &lapin::Error) -> Option<u16> {
    match error.kind() {
        ErrorKind::ProtocolError(error) => Some(error.get_id()),
        _ => None,
    }
}
