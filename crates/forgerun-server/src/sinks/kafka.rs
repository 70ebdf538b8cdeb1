//! Apache Kafka, by librdkafka: an idempotent producer that waits for all replicas.
//!
//! The key of a message is the `jobId` in its value. Its partition follows from the job, so that
//! all executions of a job stay in order, whatever their keys. librdkafka reconnects by itself; the
//! topic is checked at the start and after every failure, because then the error can be described
//! clearly.

use std::sync::{Arc, Mutex as StdMutex, PoisonError};
use std::time::Duration;

use forgerun_core::history::Event;
use forgerun_core::id::JobId;
use forgerun_engine::sinks::{EventSink, SinkError, SinkEvent, SinkSending, SinkSent};
use futures_util::future::join_all;
use rdkafka::ClientConfig;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer};
use tokio::sync::Mutex;
use tokio::time::{sleep, timeout};

use super::message::{SinkMessage, Wording};
use crate::config::Kafka;

/// Partitions of a topic created here.
const PARTITIONS: i32 = 6;

/// Timeout of the brokers' metadata.
const METADATA_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause between two checks of a new topic.
const METADATA_PAUSE: Duration = Duration::from_millis(100);

/// How long librdkafka retries before a message counts as failed; shorter than the sink loop's
/// timeout.
const MESSAGE_TIMEOUT_MS: &str = "20000";

/// Maximum bytes of a message; the broker may have a lower limit.
const MESSAGE_BYTES_MAX: &str = "16777216";

pub(super) struct KafkaSink {
    config: Kafka,
    brokers: String,
    wording: Wording,
    /// The connection, once there was something to send; used by the sink loop only.
    connection: Mutex<Option<KafkaConnection>>,
}

/// A producer and its error log. Kept as long as possible: dropping one waits for its thread.
struct KafkaConnection {
    producer: FutureProducer<KafkaErrors>,
    heard: KafkaErrors,
    /// Partitions of the topic; `None` if it must be checked before the next send.
    n_partitions: Option<i32>,
}

impl KafkaSink {
    pub(super) fn configured(config: &Kafka, source: &str) -> Option<Arc<dyn EventSink>> {
        let brokers = config.brokers.clone()?;
        let wording =
            Wording { events: config.events, cloudevents: config.cloudevents, source: source.to_owned() };
        Some(Arc::new(KafkaSink { config: config.clone(), brokers, wording, connection: Mutex::default() }))
    }

    async fn send_all(&self, events: &[SinkEvent]) -> Result<SinkSent, SinkError> {
        let mut kept = self.connection.lock().await;
        let connection = match &mut *kept {
            Some(connection) => connection,
            none => none.insert(self.connect()?),
        };
        if let Some((_, reason)) = connection.producer.client().fatal_error() {
            self.replace(connection)?;
            return Err(SinkError(format!("the producer had to be given up: {reason}")));
        }
        // Stored again on success only: after a failure or cancellation the topic is checked again.
        let n_partitions = match connection.n_partitions.take() {
            Some(n_partitions) => n_partitions,
            None => self.find_topic(connection).await?,
        };
        let (producer, heard) = (&connection.producer, &connection.heard);
        let messages: Vec<SinkMessage> = events.iter().map(|told| self.wording.message(told)).collect();
        let delivered =
            join_all(messages.iter().map(|message| self.produce(producer, n_partitions, message))).await;
        let mut sent = SinkSent::default();
        for (index, delivered) in delivered.into_iter().enumerate() {
            // A batch can be too large although its messages are not, so each is retried alone.
            let delivered = match delivered {
                Err(error) if is_too_large(&error) => {
                    self.produce(producer, n_partitions, &messages[index]).await
                }
                delivered => delivered,
            };
            match delivered {
                Ok(()) => sent.n_sent += 1,
                Err(error) if is_too_large(&error) => sent.refused.push((index, error.to_string())),
                Err(error) => return Err(heard.explain(&format!("{}: {}", self.config.topic, said(&error)))),
            }
        }
        connection.n_partitions = Some(n_partitions);
        Ok(sent)
    }

    async fn produce(
        &self,
        producer: &FutureProducer<KafkaErrors>,
        n_partitions: i32,
        message: &SinkMessage,
    ) -> Result<(), KafkaError> {
        let headers = message.headers("ce_").fold(OwnedHeaders::new(), |headers, (name, value)| {
            headers.insert(Header { key: &name, value: Some(value) })
        });
        let record = FutureRecord::to(&self.config.topic)
            .partition(partition(message.job, n_partitions))
            .key(&message.key)
            .payload(&message.body[..])
            .headers(headers);
        let delivery = producer.send_result(record).map_err(|(error, _)| error)?;
        match delivery.await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err((error, _))) => Err(error),
            Err(_) => Err(KafkaError::Canceled),
        }
    }

    fn connect(&self) -> Result<KafkaConnection, SinkError> {
        let heard = KafkaErrors::default();
        let producer = self
            .settings()
            .create_with_context(heard.clone())
            .map_err(|error| SinkError(format!("the settings of kafka do not work: {error}")))?;
        Ok(KafkaConnection { producer, heard, n_partitions: None })
    }

    /// Replaces the producer. The old one ends on a thread where it may block.
    fn replace(&self, connection: &mut KafkaConnection) -> Result<(), SinkError> {
        let old = std::mem::replace(connection, self.connect()?);
        drop(tokio::task::spawn_blocking(move || drop(old.producer)));
        Ok(())
    }

    /// The partitions of the topic, which is created if it is missing and that is allowed.
    async fn find_topic(&self, connection: &KafkaConnection) -> Result<i32, SinkError> {
        if let Some(n_partitions) = self.partitions(connection).await? {
            return Ok(n_partitions);
        }
        let topic = &self.config.topic;
        if !self.config.create_topic {
            return Err(SinkError(format!(
                "topic {topic} does not exist; make it, or set kafka.create_topic"
            )));
        }
        self.make_topic(&connection.heard).await?;
        // A new topic takes a moment to be known to all brokers.
        timeout(METADATA_TIMEOUT, self.wait_for_topic(connection))
            .await
            .unwrap_or_else(|_| Err(SinkError(format!("topic {topic} was made and is not there yet"))))
    }

    /// Waits until the topic exists. Cancel-safe.
    #[expect(clippy::disallowed_methods, reason = "waits for another process, which gives no other sign")]
    async fn wait_for_topic(&self, connection: &KafkaConnection) -> Result<i32, SinkError> {
        loop {
            if let Some(n_partitions) = self.partitions(connection).await? {
                return Ok(n_partitions);
            }
            sleep(METADATA_PAUSE).await;
        }
    }

    /// The partitions of the topic; `None` if it does not exist.
    async fn partitions(&self, connection: &KafkaConnection) -> Result<Option<i32>, SinkError> {
        let (producer, heard) = (connection.producer.clone(), &connection.heard);
        // All topics: naming one would create it, on brokers that do so.
        let asked =
            tokio::task::spawn_blocking(move || producer.client().fetch_metadata(None, METADATA_TIMEOUT))
                .await;
        let metadata = asked
            .map_err(|_| SinkError("the look at the topic broke off".to_owned()))?
            .map_err(|error| heard.explain(&format!("could not ask the brokers for topics: {error}")))?;
        let topic = metadata.topics().iter().find(|topic| topic.name() == self.config.topic);
        let n_partitions = topic.map_or(0, |topic| topic.partitions().len());
        Ok(i32::try_from(n_partitions).ok().filter(|n| *n > 0))
    }

    async fn make_topic(&self, heard: &KafkaErrors) -> Result<(), SinkError> {
        let topic = &self.config.topic;
        let failed = |what: &str| heard.explain(&format!("could not make topic {topic}: {what}"));
        let admin: AdminClient<KafkaErrors> =
            self.settings().create_with_context(heard.clone()).map_err(|error| failed(&error.to_string()))?;
        let new = NewTopic::new(topic, PARTITIONS, TopicReplication::Fixed(-1));
        let options = AdminOptions::new()
            .request_timeout(Some(METADATA_TIMEOUT))
            .operation_timeout(Some(METADATA_TIMEOUT));
        let made = admin.create_topics([&new], &options).await.map_err(|error| failed(&error.to_string()))?;
        match made.into_iter().next() {
            Some(Ok(_)) => {
                tracing::info!(topic, partitions = PARTITIONS, "topic for job events created");
                Ok(())
            }
            // Another node was faster.
            Some(Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => Ok(()),
            Some(Err((_, code))) => Err(failed(&code.to_string())),
            None => Err(failed("no answer")),
        }
    }

    fn settings(&self) -> ClientConfig {
        let Kafka { tls, sasl, .. } = &self.config;
        let mut settings = ClientConfig::new();
        settings.set("bootstrap.servers", &self.brokers);
        settings.set("client.id", "forgerun");
        settings.set("enable.idempotence", "true");
        settings.set("acks", "all");
        settings.set("linger.ms", "1");
        settings.set("batch.size", "900000");
        settings.set("compression.type", "lz4");
        settings.set("message.timeout.ms", MESSAGE_TIMEOUT_MS);
        settings.set("message.max.bytes", MESSAGE_BYTES_MAX);
        settings.set("reconnect.backoff.max.ms", "2000");
        let protocol = match (tls.enabled, sasl.mechanism.is_some()) {
            (false, false) => "plaintext",
            (true, false) => "ssl",
            (false, true) => "sasl_plaintext",
            (true, true) => "sasl_ssl",
        };
        settings.set("security.protocol", protocol);
        let files = [
            ("ssl.ca.location", &tls.ca),
            ("ssl.certificate.location", &tls.cert),
            ("ssl.key.location", &tls.key),
        ];
        if tls.enabled && tls.ca.is_none() {
            // Systems differ in where they keep trusted certificates; librdkafka knows the usual
            // places.
            settings.set("ssl.ca.location", "probe");
        }
        for (name, path) in files.into_iter().filter_map(|(name, path)| Some((name, path.as_ref()?))) {
            settings.set(name, path.to_string_lossy());
        }
        if let Some(mechanism) = sasl.mechanism {
            settings.set("sasl.mechanism", mechanism);
            settings.set("sasl.username", &sasl.username);
            settings.set("sasl.password", sasl.password.as_ref().map_or("", |password| password.expose()));
        }
        settings
    }
}

impl EventSink for KafkaSink {
    fn name(&self) -> &str {
        "kafka"
    }

    fn kind(&self) -> &'static str {
        "kafka"
    }

    fn wants(&self, event: &Event) -> bool {
        self.wording.wants(event)
    }

    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a> {
        Box::pin(self.send_all(events))
    }
}

/// The same partition for all executions of a job. Ids are random where it matters.
fn partition(job: JobId, n_partitions: i32) -> i32 {
    (job.as_u128() as u64 % n_partitions as u64) as i32
}

fn is_too_large(error: &KafkaError) -> bool {
    matches!(error.rdkafka_error_code(), Some(RDKafkaErrorCode::MessageSizeTooLarge))
}

/// The error text without the wrapper's.
fn said(error: &KafkaError) -> String {
    error.rdkafka_error_code().map_or_else(|| error.to_string(), |code| code.to_string())
}

/// Records why librdkafka cannot connect: the final error is only a timeout.
#[derive(Clone, Default)]
struct KafkaErrors {
    last: Arc<StdMutex<Option<String>>>,
}

impl KafkaErrors {
    /// The error with its last recorded cause, which is then cleared.
    fn explain(&self, what: &str) -> SinkError {
        let heard = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        SinkError(heard.map_or_else(|| what.to_owned(), |heard| format!("{what} ({heard})")))
    }
}

impl ClientContext for KafkaErrors {
    fn log(&self, level: RDKafkaLogLevel, fac: &str, message: &str) {
        tracing::debug!(?level, fac, message, "librdkafka");
    }

    fn error(&self, error: KafkaError, reason: &str) {
        tracing::debug!(%error, reason, "librdkafka");
        // "All brokers down" follows from earlier errors.
        if error.rdkafka_error_code() != Some(RDKafkaErrorCode::AllBrokersDown) {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason.to_owned());
        }
    }
}
