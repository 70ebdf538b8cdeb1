//! Messages become jobs.
//!
//! Arrived messages are submitted together, so that one transaction serves many; each is
//! acknowledged when its job is durable. If the store is full or fails, messages are held: no more
//! are consumed, and the surplus waits on the broker. After too long they are returned, so that
//! another node can try, and the broker does not consider this consumer hung. Messages beyond the
//! rate limit pass through a delay queue, unless the queue is bounded, since a broker drops what
//! returns to a full queue. Then they are held, too.

use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::command::Submit;
use forgerun_core::id::JobId;
use forgerun_core::job::Name;
use forgerun_engine::Error;
use forgerun_store::Fault;
use forgerun_wire::ojs::amqp::{DEAD, RETRY, delay_key, delay_ms, delay_step_ms, job_queue};
use forgerun_wire::problem::RefusedRequest;
use futures_core::Stream;
use lapin::message::Delivery;
use lapin::options::{BasicAckOptions, BasicConsumeOptions, BasicQosOptions};
use lapin::types::FieldTable;
use lapin::{Connection, Consumer};
use prometheus_client::metrics::gauge::Gauge;
use tracing::{debug, warn};

use super::BridgeContext;
use super::connection::{BridgeError, Publisher};
use super::incoming::{Incoming, NewMessage};
use super::metrics::MessageFate;
use super::properties;
use super::session::Backoff;
use crate::http::ApiError;
use crate::limits::{AMQP_HOLD_MAX, AMQP_HOLD_PAUSE, AMQP_PREFETCH, TROUBLE_AFTER_S};

/// Consumes the jobs of a queue until the bridge stops (`Ok`) or an error occurs.
pub(super) async fn run(
    context: &Arc<BridgeContext>,
    connection: &Connection,
    queue: &Name,
    wait: &mut Backoff,
) -> Result<(), BridgeError> {
    let mut deliveries = Deliveries::open(connection, job_queue(queue.as_str()), AMQP_PREFETCH).await?;
    let intake = QueueIntake { context, queue, publisher: Publisher::open(connection).await? };
    loop {
        let batch = tokio::select! {
            biased;
            () = context.stopping() => return Ok(()),
            batch = deliveries.next() => batch?,
        };
        intake.take_in(batch).await?;
        wait.reset();
    }
}

/// Deliveries from one queue.
pub(super) struct Deliveries {
    consumer: Consumer,
    queue: String,
}

impl Deliveries {
    /// Starts consuming, with at most `prefetch` unacknowledged messages.
    pub(super) async fn open(
        connection: &Connection,
        queue: String,
        prefetch: u16,
    ) -> Result<Deliveries, BridgeError> {
        let channel = connection.create_channel().await?;
        channel.basic_qos(prefetch, BasicQosOptions::default()).await?;
        let (options, arguments) = (BasicConsumeOptions::default(), FieldTable::default());
        let consumer = channel.basic_consume(queue.as_str().into(), "".into(), options, arguments).await?;
        Ok(Deliveries { consumer, queue })
    }

    /// All arrived messages, at least one. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Vec<Delivery>, BridgeError> {
        let mut batch = Vec::new();
        std::future::poll_fn(|context| {
            while batch.len() < usize::from(AMQP_PREFETCH) {
                match std::pin::Pin::new(&mut self.consumer).poll_next(context) {
                    Poll::Ready(Some(Ok(delivery))) => batch.push(delivery),
                    Poll::Ready(Some(Err(error))) => return Poll::Ready(Err(error.into())),
                    Poll::Ready(None) => return Poll::Ready(Err(BridgeError::Cancelled(self.queue.clone()))),
                    Poll::Pending if batch.is_empty() => return Poll::Pending,
                    Poll::Pending => break,
                }
            }
            Poll::Ready(Ok(()))
        })
        .await?;
        Ok(batch)
    }
}

pub(super) async fn acknowledge(delivery: &Delivery) -> Result<(), BridgeError> {
    delivery.ack(BasicAckOptions::default()).await?;
    Ok(())
}

struct QueueIntake<'a> {
    context: &'a Arc<BridgeContext>,
    queue: &'a Name,
    publisher: Publisher,
}

/// A message to be submitted.
struct Waiting {
    delivery: Delivery,
    new: Box<NewMessage>,
}

/// The store's answer about a message.
enum StoreAnswer {
    Done(MessageFate),
    Refused(Box<RefusedRequest>),
    Later(String),
}

impl QueueIntake<'_> {
    /// Processes every message of a batch, however long that takes.
    async fn take_in(&self, batch: Vec<Delivery>) -> Result<(), BridgeError> {
        let mut waiting = Vec::with_capacity(batch.len());
        let mut too_fast_s = None;
        for delivery in batch {
            let read = Incoming::read(self.context, self.queue, &delivery.properties, &delivery.data);
            match read.await? {
                Incoming::New(new) => match self.count() {
                    Ok(()) => waiting.push(Waiting { delivery, new }),
                    Err(refused) if self.context.queue_length_max.is_some() => {
                        self.submit(std::mem::take(&mut waiting)).await?;
                        if !self.wait_for_turn(refused).await? {
                            return Ok(());
                        }
                        waiting.push(Waiting { delivery, new });
                    }
                    Err(refused) => {
                        too_fast_s = too_fast_s.max(Some(wait_s(&refused)));
                        self.put_off(&delivery, &refused).await?;
                    }
                },
                Incoming::Returning { job, attempt } => {
                    let fate = self.returned(job, attempt).await?;
                    self.settle(&delivery, fate).await?;
                }
                Incoming::Refused(refused) => self.bury(&delivery, &refused).await?,
            }
        }
        self.submit(waiting).await?;
        // Otherwise messages would circulate faster than they may come in.
        if let Some(seconds) = too_fast_s {
            self.context.pause(Duration::from_secs(seconds)).await;
        }
        Ok(())
    }

    /// Waits until a message within the rate limit. `false` if the bridge stops: the message is
    /// returned.
    async fn wait_for_turn(&self, mut refused: Box<RefusedRequest>) -> Result<bool, BridgeError> {
        let mut waited = Duration::ZERO;
        while !self.context.is_stopping() {
            if waited >= AMQP_HOLD_MAX {
                let (queue, reason) = (self.queue.to_string(), refused.detail.clone());
                return Err(BridgeError::NotTaken { queue, held: waited, reason });
            }
            let pause = Duration::from_secs(wait_s(&refused));
            self.context.pause(pause).await;
            waited += pause;
            match self.count() {
                Ok(()) => return Ok(true),
                Err(again) => refused = again,
            }
        }
        Ok(false)
    }

    /// Submits messages until the store has answered all of them.
    async fn submit(&self, mut waiting: Vec<Waiting>) -> Result<(), BridgeError> {
        let (mut waited, mut pause, mut held) = (Duration::ZERO, AMQP_HOLD_PAUSE, None);
        while let Some(reason) = self.submit_once(&mut waiting).await? {
            // Returned without an error when the server stops: the next consumer gets them.
            if self.context.is_stopping() {
                return Ok(());
            }
            if held.is_none() {
                held = Some(HeldQueue::count(&self.context.app.metrics.bridge.queues_held));
                warn!(
                    queue = self.queue.as_str(),
                    reason, "bridge: messages held, the store does not accept them"
                );
            }
            if waited >= AMQP_HOLD_MAX {
                return Err(BridgeError::NotTaken { queue: self.queue.to_string(), held: waited, reason });
            }
            self.context.pause(pause).await;
            waited += pause;
            pause = (pause * 2).min(Duration::from_secs(TROUBLE_AFTER_S));
        }
        Ok(())
    }

    /// Submits the waiting messages; those that the store cannot take now stay. Returns the reason,
    /// if any stay.
    async fn submit_once(&self, waiting: &mut Vec<Waiting>) -> Result<Option<String>, BridgeError> {
        let submits: Vec<Submit> = waiting.iter().map(|waiting| waiting.new.submit.clone()).collect();
        let answers = self.context.app.engine.submit_each(submits).await;
        let mut later = None;
        for (mut message, answer) in std::mem::take(waiting).into_iter().zip(answers) {
            let taken = match answer {
                Ok((_, existing)) => {
                    StoreAnswer::Done(if existing { MessageFate::Joined } else { MessageFate::Taken })
                }
                Err(error) => self.answered(message.new.id, error).await?,
            };
            match taken {
                StoreAnswer::Done(fate) => self.settle(&message.delivery, fate).await?,
                StoreAnswer::Refused(refused) => self.bury(&message.delivery, &refused).await?,
                StoreAnswer::Later(reason) => {
                    later.get_or_insert(reason);
                    message.new.may_be_there();
                    waiting.push(message);
                }
            }
        }
        Ok(later)
    }

    /// The meaning of an engine error for a message.
    async fn answered(&self, id: Option<JobId>, error: Error) -> Result<StoreAnswer, BridgeError> {
        if let Error::Refused(Refusal::Duplicate { existing, .. }) = &error
            && Some(*existing) == id
            && self.is_ours(*existing).await?
        {
            return Ok(StoreAnswer::Done(MessageFate::Joined));
        }
        Ok(match error {
            Error::Refused(Refusal::QueueFull { .. } | Refusal::QueuePaused { .. })
            | Error::Overloaded
            | Error::Stopped => StoreAnswer::Later(error.to_string()),
            // The store will never write this one, or cannot read a row it needs.
            Error::Store(error) if is_final(error.fault) => StoreAnswer::Refused(Box::new(
                RefusedRequest::new(Kind::StorageError, "The store does not take this job."),
            )),
            Error::Store(error) => StoreAnswer::Later(error.to_string()),
            error @ Error::Refused(_) => StoreAnswer::Refused(Box::new(ApiError::from(error).into_parts().0)),
        })
    }

    /// Whether a job belongs to the bridge's client. An unreadable one may be any client's.
    async fn is_ours(&self, job: JobId) -> Result<bool, BridgeError> {
        match self.context.app.engine.store().job(job).await {
            Ok(found) => Ok(found.is_some_and(|job| job.head.client == self.context.owner.client)),
            Err(error) if error.fault == Fault::Corrupt => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// A message from a delay queue has no effect, since the store has its own clock (C-109).
    async fn returned(&self, job: JobId, attempt: Option<u32>) -> Result<MessageFate, BridgeError> {
        let found = match self.context.app.engine.store().job(job).await {
            Ok(found) => found,
            // It exists, and its message changes nothing whatever it contains.
            Err(error) if error.fault == Fault::Corrupt => return Ok(MessageFate::Joined),
            Err(error) => return Err(error.into()),
        };
        let joins = found.is_some_and(|job| attempt.is_none_or(|attempt| attempt >= job.attempt));
        Ok(if joins { MessageFate::Joined } else { MessageFate::Stale })
    }

    /// Counts a message as a request of its client.
    fn count(&self) -> Result<(), Box<RefusedRequest>> {
        let (app, now) = (&self.context.app, self.context.app.clock.now());
        let limiter = app.bridge_limiter.as_ref().unwrap_or(&app.limiter);
        let account = limiter.client(self.context.owner.client, now);
        let (_, counted) = limiter.request(&account, now);
        counted.map_err(|error| Box::new(error.into_parts().0))
    }

    async fn settle(&self, delivery: &Delivery, fate: MessageFate) -> Result<(), BridgeError> {
        acknowledge(delivery).await?;
        self.context.app.metrics.bridge.count(fate);
        Ok(())
    }

    /// Sends a message through a delay queue because of the rate limit.
    async fn put_off(&self, delivery: &Delivery, refused: &RefusedRequest) -> Result<(), BridgeError> {
        let wait = Duration::from_secs(wait_s(refused));
        let now = self.context.app.clock.now();
        let queue = self.queue.as_str();
        let properties =
            properties::of_refused(&delivery.properties, queue, refused, now, Some(delay_ms(wait)));
        let key = delay_key(queue, delay_step_ms(wait));
        self.publisher.publish(RETRY, &key, properties, &delivery.data).await?;
        self.settle(delivery, MessageFate::Delayed).await
    }

    async fn bury(&self, delivery: &Delivery, refused: &RefusedRequest) -> Result<(), BridgeError> {
        bury(self.context, self.queue, &self.publisher, delivery, refused).await
    }
}

/// Whether the store would always answer the same.
pub(super) fn is_final(fault: Fault) -> bool {
    fault == Fault::Rejected || fault.is_unreadable()
}

/// Seconds to wait after exceeding the rate limit.
fn wait_s(refused: &RefusedRequest) -> u64 {
    refused.retry_after_s.unwrap_or(TROUBLE_AFTER_S)
}

/// Counts as a held queue while it lives.
struct HeldQueue(Gauge);

impl HeldQueue {
    fn count(gauge: &Gauge) -> HeldQueue {
        gauge.inc();
        HeldQueue(gauge.clone())
    }
}

impl Drop for HeldQueue {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Moves a message to the dead letters of its queue, with the reason.
pub(super) async fn bury(
    context: &BridgeContext,
    queue: &Name,
    publisher: &Publisher,
    delivery: &Delivery,
    refused: &RefusedRequest,
) -> Result<(), BridgeError> {
    let code = refused.kind.entry().ojs_or_custom();
    debug!(queue = queue.as_str(), code, "bridge: message dead-lettered");
    let now = context.app.clock.now();
    let properties = properties::of_refused(&delivery.properties, queue.as_str(), refused, now, None);
    publisher.publish(DEAD, queue.as_str(), properties, &delivery.data).await?;
    acknowledge(delivery).await?;
    context.app.metrics.bridge.count(MessageFate::DeadLettered);
    Ok(())
}
