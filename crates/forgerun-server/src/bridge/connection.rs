//! A connection to the broker, and a channel with publisher confirms.

use std::time::Duration;

use forgerun_core::id::ClientId;
use forgerun_store::Fault;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::types::ShortString;
use lapin::{BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, PublisherConfirm};
use tokio::time::timeout;

use crate::config::Secret;
use crate::limits::{AMQP_CONFIRM_TIMEOUT, AMQP_CONNECT_TIMEOUT};

/// Why the bridge has failed for now.
#[derive(Debug, thiserror::Error)]
pub(super) enum BridgeError {
    #[error("{0}")]
    Broker(#[from] lapin::Error),
    #[error("{what} took longer than {} s", .limit.as_secs())]
    Timeout { what: &'static str, limit: Duration },
    /// A message cannot be routed: the queue is full or missing. OJS's QUEUE_FULL.
    #[error("QUEUE_FULL: no queue behind {exchange} took a message for {key}: {reason}")]
    Full { exchange: &'static str, key: String, reason: String },
    /// The broker cancelled the consumer, for example because the queue was deleted.
    #[error("the broker has cancelled the consumer of {0}")]
    Cancelled(String),
    /// The store does not accept the messages.
    #[error("the store has not taken messages of {queue} for {} s: {reason}", .held.as_secs())]
    NotTaken { queue: String, held: Duration, reason: String },
    /// An internal loop ended unexpectedly.
    #[error("a loop of the bridge broke off: {0}")]
    Broken(tokio::task::JoinError),
    /// The configured client does not exist.
    #[error("there is no client {0}, which amqp.client_id names")]
    NoClient(ClientId),
    /// The schemas of the client cannot be read, so no message can be validated.
    #[error("schemas of the client cannot be read ({0:?})")]
    NoSchemas(Fault),
    #[error("{0}")]
    Engine(#[from] forgerun_engine::Error),
}

impl From<forgerun_store::Error> for BridgeError {
    fn from(error: forgerun_store::Error) -> BridgeError {
        BridgeError::Engine(error.into())
    }
}

/// Connects. The URL may contain a password, so it is in no message.
pub(super) async fn connect(url: &Secret, name: &str) -> Result<Connection, BridgeError> {
    let properties = ConnectionProperties::default().with_connection_name(name.into());
    let connecting = Connection::connect(url.expose(), properties);
    within("connecting", AMQP_CONNECT_TIMEOUT, connecting).await
}

async fn within<T>(
    what: &'static str,
    limit: Duration,
    doing: impl Future<Output = lapin::Result<T>>,
) -> Result<T, BridgeError> {
    match timeout(limit, doing).await {
        Ok(done) => Ok(done?),
        Err(_) => Err(BridgeError::Timeout { what, limit }),
    }
}

/// Publishes, and awaits confirms.
pub(super) struct Publisher {
    channel: Channel,
}

/// A message that is not confirmed yet.
pub(super) struct SentMessage {
    exchange: &'static str,
    key: String,
    confirm: PublisherConfirm,
}

impl Publisher {
    pub(super) async fn open(connection: &Connection) -> Result<Publisher, BridgeError> {
        let channel = connection.create_channel().await?;
        channel.confirm_select(ConfirmSelectOptions::default()).await?;
        Ok(Publisher { channel })
    }

    pub(super) async fn publish(
        &self,
        exchange: &'static str,
        key: &str,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<(), BridgeError> {
        self.send(exchange, key, properties, body).await?.confirmed().await
    }

    /// Sends one message; its confirm is awaited separately. It must be routed to a queue.
    pub(super) async fn send(
        &self,
        exchange: &'static str,
        key: &str,
        properties: BasicProperties,
        body: &[u8],
    ) -> Result<SentMessage, BridgeError> {
        let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
        let sending =
            self.channel.basic_publish(ShortString::from(exchange), key.into(), options, body, properties);
        let confirm = within("publishing", AMQP_CONFIRM_TIMEOUT, sending).await?;
        Ok(SentMessage { exchange, key: key.to_owned(), confirm })
    }
}

impl SentMessage {
    /// Resolves when the broker has confirmed the message. A returned (no queue) or refused one
    /// (queue full) is an error (C-76).
    pub(super) async fn confirmed(self) -> Result<(), BridgeError> {
        let SentMessage { exchange, key, confirm } = self;
        let reason = match within("a confirm", AMQP_CONFIRM_TIMEOUT, confirm).await? {
            Confirmation::Ack(None) => return Ok(()),
            Confirmation::Ack(Some(returned)) => format!("returned, {}", returned.reply_text),
            Confirmation::Nack(_) => "refused, the queue is full".to_owned(),
            Confirmation::NotRequested => "the broker confirms nothing".to_owned(),
        };
        Err(BridgeError::Full { exchange, key, reason })
    }
}
