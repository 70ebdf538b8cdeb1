//! RabbitMQ: each message goes to a topic exchange, and counts once the broker has confirmed it.
//!
//! The broker confirms and drops messages without a bound queue: they have no subscribers. After
//! any failure the connection is dropped, and the next attempt reconnects.

use std::sync::Arc;

use forgerun_core::history::Event;
use forgerun_engine::sinks::{EventSink, SinkError, SinkEvent, SinkSending, SinkSent};
use forgerun_wire::ojs::amqp::header;
use lapin::options::{BasicPublishOptions, ConfirmSelectOptions, ExchangeDeclareOptions};
use lapin::types::{AMQPValue, FieldTable, ShortString};
use lapin::{
    BasicProperties, Channel, Confirmation, Connection, ConnectionProperties, ExchangeKind, PublisherConfirm,
};
use tokio::sync::Mutex;
use tokio::time::timeout;

use super::message::{SinkMessage, Wording};
use crate::config::{Amqp, Secret};
use crate::limits::AMQP_CONNECT_TIMEOUT;

/// Delivery mode: stored by the broker.
const PERSISTENT: u8 = 2;

/// The broker's text when it closes the channel because of a message above its `max_message_size`.
const TOO_LARGE: &str = "is larger than";

pub(super) struct RabbitSink {
    url: Secret,
    exchange: String,
    wording: Wording,
    /// The connection, once the exchange was declared; used by the sink loop only.
    link: Mutex<Option<RabbitLink>>,
}

/// A channel with confirms, and its connection.
struct RabbitLink {
    channel: Channel,
    /// Dropping it would close the channel.
    _connection: Connection,
}

impl RabbitSink {
    pub(super) fn configured(config: &Amqp, source: &str) -> Option<Arc<dyn EventSink>> {
        let (url, exchange) = (config.url.clone()?, config.results_exchange.clone()?);
        let wording =
            Wording { events: config.events, cloudevents: config.cloudevents, source: source.to_owned() };
        Some(Arc::new(RabbitSink { url, exchange, wording, link: Mutex::default() }))
    }

    async fn send_all(&self, events: &[SinkEvent]) -> Result<SinkSent, SinkError> {
        let mut kept = self.link.lock().await;
        let messages: Vec<SinkMessage> = events.iter().map(|told| self.wording.message(told)).collect();
        let (all, refused) = addressed(&messages);
        if all.is_empty() {
            return Ok(SinkSent { n_sent: 0, refused });
        }
        let mut sent = match self.send_together(&mut kept, &all).await {
            Ok(()) => SinkSent { n_sent: all.len(), refused: Vec::new() },
            Err(error) if error.0.contains(TOO_LARGE) => self.send_apart(&mut kept, &all).await?,
            Err(error) => return Err(error),
        };
        sent.refused.extend(refused);
        Ok(sent)
    }

    /// Sends one message after the other, each on a working channel: a too large one closes its
    /// channel.
    async fn send_apart(
        &self,
        kept: &mut Option<RabbitLink>,
        messages: &[AddressedMessage<'_>],
    ) -> Result<SinkSent, SinkError> {
        let mut sent = SinkSent::default();
        for message in messages {
            match self.send_together(kept, std::slice::from_ref(message)).await {
                Ok(()) => sent.n_sent += 1,
                Err(error) if error.0.contains(TOO_LARGE) => sent.refused.push((message.index, error.0)),
                Err(error) => return Err(error),
            }
        }
        Ok(sent)
    }

    /// Sends all, then awaits all confirms. The channel is kept on success only.
    async fn send_together(
        &self,
        kept: &mut Option<RabbitLink>,
        messages: &[AddressedMessage<'_>],
    ) -> Result<(), SinkError> {
        let link = match kept.take() {
            Some(link) => link,
            None => self.connect().await?,
        };
        let mut confirms = Vec::with_capacity(messages.len());
        for message in messages {
            confirms.push(self.publish(&link.channel, message).await.map_err(|error| said(&error))?);
        }
        for confirm in confirms {
            match confirm.await.map_err(|error| said(&error))? {
                Confirmation::Ack(_) => {}
                Confirmation::Nack(_) => {
                    return Err(SinkError("the broker refuses a message; is a queue full?".to_owned()));
                }
                Confirmation::NotRequested => {
                    return Err(SinkError("the broker confirms nothing".to_owned()));
                }
            }
        }
        *kept = Some(link);
        Ok(())
    }

    async fn connect(&self) -> Result<RabbitLink, SinkError> {
        let properties = ConnectionProperties::default().with_connection_name("forgerun results".into());
        let connecting = Connection::connect(self.url.expose(), properties);
        // The library's errors contain no URL, so no password.
        let failed = |what: String| SinkError(format!("could not connect to amqp.url: {what}"));
        let connection = match timeout(AMQP_CONNECT_TIMEOUT, connecting).await {
            Ok(connected) => connected.map_err(|error| failed(error.to_string()))?,
            Err(_) => return Err(failed("no answer".to_owned())),
        };
        let channel = connection.create_channel().await.map_err(|error| said(&error))?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(|error| said(&error))?;
        let options = ExchangeDeclareOptions { durable: true, ..ExchangeDeclareOptions::default() };
        channel
            .exchange_declare(
                self.exchange.as_str().into(),
                ExchangeKind::Topic,
                options,
                FieldTable::default(),
            )
            .await
            .map_err(|error| SinkError(format!("could not declare exchange {}: {error}", self.exchange)))?;
        Ok(RabbitLink { channel, _connection: connection })
    }

    async fn publish(
        &self,
        channel: &Channel,
        addressed: &AddressedMessage<'_>,
    ) -> lapin::Result<PublisherConfirm> {
        let AddressedMessage { key, message, .. } = addressed;
        let options = BasicPublishOptions::default();
        let exchange = self.exchange.as_str().into();
        channel.basic_publish(exchange, key.clone(), options, &message.body, properties(message)).await
    }
}

impl EventSink for RabbitSink {
    fn name(&self) -> &str {
        "amqp"
    }

    fn kind(&self) -> &'static str {
        "amqp"
    }

    fn wants(&self, event: &Event) -> bool {
        self.wording.wants(event)
    }

    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a> {
        Box::pin(self.send_all(events))
    }
}

/// A message with its routing key.
struct AddressedMessage<'a> {
    /// Position in its wave.
    index: usize,
    key: ShortString,
    message: &'a SinkMessage,
}

/// The messages with their routing keys, and those whose key exceeds AMQP's 255 bytes because of a
/// long queue name.
fn addressed(messages: &[SinkMessage]) -> (Vec<AddressedMessage<'_>>, Vec<(usize, String)>) {
    let (mut all, mut refused) = (Vec::with_capacity(messages.len()), Vec::new());
    for (index, message) in messages.iter().enumerate() {
        match ShortString::try_new(format!("{}.{}", message.queue, message.event)) {
            Ok(key) => all.push(AddressedMessage { index, key, message }),
            Err(_) => refused.push((index, "the routing key would be longer than 255 bytes".to_owned())),
        }
    }
    (all, refused)
}

fn said(error: &lapin::Error) -> SinkError {
    SinkError(error.to_string())
}

fn properties(message: &SinkMessage) -> BasicProperties {
    let mut headers = FieldTable::default();
    // The content type has a property of its own.
    for (name, value) in message.headers("cloudEvents_").filter(|(name, _)| name != "content-type") {
        headers.insert(name.as_str().into(), AMQPValue::LongString(value.into()));
    }
    let text = |text: &str| AMQPValue::LongString(text.into());
    headers.insert(header::JOB_ID.into(), text(&message.job.to_string()));
    headers.insert(header::QUEUE.into(), text(&message.queue_name));
    headers.insert(
        header::ATTEMPT.into(),
        AMQPValue::LongInt(i32::try_from(message.attempt).unwrap_or(i32::MAX)),
    );
    BasicProperties::default()
        .with_content_type(message.content_type.into())
        .with_message_id(message.id.as_str().into())
        .with_type(message.event.into())
        .with_app_id("forgerun".into())
        .with_delivery_mode(PERSISTENT)
        .with_headers(headers)
}
