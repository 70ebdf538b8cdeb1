//! Jobs that failed are published: to the retry exchange if another attempt follows, to the dead-letter exchange if none does.
//!
//! A sink of the journal. So every failure is published at least once, in order per job, by one node at a time, however long the
//! broker was away; and the place in the journal moves only after the broker has confirmed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use forge_core::catalog::Kind;
use forge_core::history::{Event, EventKind, EventName, Outlook};
use forge_core::id::{EventId, JobId};
use forge_core::job::{AttemptError, Input, Job, Name};
use forge_core::queue::{Owner, QueueId};
use forge_core::state::{Cause, State};
use forge_engine::Engine;
use forge_engine::sinks::{EventSink, SinkError, SinkEvent, SinkSending, SinkSent};
use forge_wire::ojs::amqp::{AfterFailure, DEAD, MessageHead, RETRY, delay_key, delay_step_ms, failure_body};
use lapin::Connection;
use tokio::sync::Mutex;

use super::connection::{BridgeError, Publisher, connect};
use super::{properties, topology};
use crate::config::Secret;

/// Publishes failures of jobs in bridged queues.
pub(super) struct FailureSink {
    pub(super) engine: Engine,
    pub(super) url: Secret,
    pub(super) owner: Owner,
    pub(super) queues: Vec<Name>,
    pub(super) queue_length_max: Option<u32>,
    pub(super) link: Mutex<Link>,
}

/// A connection that lasts from one send to the next.
#[derive(Default)]
pub(super) struct Link {
    open: Option<(Connection, Publisher)>,
    /// Events of the wave under way that the broker has: a wave that is repeated because of one of its messages does not publish
    /// all the others again.
    confirmed: HashSet<EventId>,
}

impl EventSink for FailureSink {
    fn name(&self) -> &str {
        "amqp-bridge"
    }

    fn kind(&self) -> &'static str {
        "amqp"
    }

    /// A worker that hands its job back has not failed.
    fn wants(&self, event: &Event) -> bool {
        matches!(event.kind, EventKind::Moved { to: State::Failed, cause, .. } if cause != Cause::HandBack)
    }

    fn send<'a>(&'a self, events: &'a [SinkEvent]) -> SinkSending<'a> {
        Box::pin(async move { self.publish(events).await.map_err(|error| SinkError(error.to_string())) })
    }
}

impl FailureSink {
    fn is_bridged(&self, job: &Job) -> bool {
        let QueueId { owner, name } = job.head.queue_id();
        owner.as_ref() == Some(&self.owner) && self.queues.contains(&name)
    }

    async fn publish(&self, events: &[SinkEvent]) -> Result<SinkSent, BridgeError> {
        let failures: Vec<&SinkEvent> = events.iter().filter(|event| self.is_bridged(&event.job)).collect();
        if failures.is_empty() {
            return Ok(SinkSent::default());
        }
        let ids = failures.iter().map(|failure| failure.job.id).collect();
        let inputs: HashMap<JobId, Input> = self.engine.store().inputs(ids).await?.into_iter().collect();
        let mut link = self.link.lock().await;
        let published = self.publish_over(&mut link, &failures, &inputs).await;
        match published {
            Ok(()) => link.confirmed.clear(),
            // Whatever is wrong, a new connection begins with the topology.
            Err(_) => link.open = None,
        }
        published.map(|()| SinkSent { n_sent: failures.len(), ..SinkSent::default() })
    }

    async fn publish_over(
        &self,
        link: &mut Link,
        failures: &[&SinkEvent],
        inputs: &HashMap<JobId, Input>,
    ) -> Result<(), BridgeError> {
        let Link { open, confirmed } = link;
        let publisher = match open {
            Some((_, publisher)) => publisher,
            None => &open.insert(self.connect().await?).1,
        };
        let nothing = Input::default();
        let mut sent = Vec::with_capacity(failures.len());
        for failure in failures {
            let id = failure.event.id(failure.job.id);
            if !confirmed.contains(&id) {
                let message = FailureMessage::new(failure, inputs.get(&failure.job.id).unwrap_or(&nothing));
                let properties = properties::of_message(&message.head);
                sent.push((
                    id,
                    publisher.send(message.exchange, &message.key, properties, &message.body).await?,
                ));
            }
        }
        let mut ended = Ok(());
        for (id, message) in sent {
            match message.confirmed().await {
                Ok(()) => {
                    confirmed.insert(id);
                }
                Err(error) => ended = Err(error),
            }
        }
        ended
    }

    async fn connect(&self) -> Result<(Connection, Publisher), BridgeError> {
        let connection = connect(&self.url, "forgerun bridge failures").await?;
        for queue in &self.queues {
            topology::declare(&connection, queue.as_str(), self.queue_length_max).await?;
        }
        let publisher = Publisher::open(&connection).await?;
        Ok((connection, publisher))
    }
}

/// What is published about a failure, and where to.
struct FailureMessage {
    exchange: &'static str,
    key: String,
    head: MessageHead,
    body: Vec<u8>,
}

impl FailureMessage {
    fn new(failure: &SinkEvent, input: &Input) -> FailureMessage {
        let (job, event) = (&failure.job, &failure.event);
        let known =
            job.errors.iter().rev().find(|error| error.attempt == event.attempt && error.at == event.at);
        let error = known.cloned().unwrap_or_else(|| forgotten(event));
        let queue = job.head.queue.as_str();
        let will_retry = matches!(event.kind, EventKind::Moved { outlook: Outlook::WillRetry, .. });
        let (after, exchange, key) = if will_retry {
            let wait = error.wait.unwrap_or_default();
            (AfterFailure::Retry(wait), RETRY, delay_key(queue, delay_step_ms(wait)))
        } else {
            (AfterFailure::Dead, DEAD, queue.to_owned())
        };
        FailureMessage {
            head: MessageHead::of_failure(job, &error, after, event.id(job.id)),
            body: failure_body(job, input, &error),
            exchange,
            key,
        }
    }
}

/// A failure of which the job knows no more: it has failed too often since, or was revived with a clean record.
fn forgotten(event: &Event) -> AttemptError {
    let kind = if event.name() == EventName::TimedOut { Kind::HandlerTimeout } else { Kind::HandlerError };
    AttemptError {
        attempt: event.attempt,
        at: event.at,
        kind,
        code: kind.entry().ojs_or_custom().to_owned(),
        message: String::new(),
        class: None,
        retryable: kind.entry().retryable,
        details: Vec::new(),
        wait: None,
    }
}

/// The sink of this server.
pub(super) fn sink(context: &super::BridgeContext) -> Arc<FailureSink> {
    Arc::new(FailureSink {
        engine: context.app.engine.clone(),
        url: context.url.clone(),
        owner: context.owner.clone(),
        queues: context.queues.clone(),
        queue_length_max: context.queue_length_max,
        link: Mutex::default(),
    })
}
