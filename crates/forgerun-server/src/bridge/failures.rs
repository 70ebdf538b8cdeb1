//! Publishes failed jobs: to the retry exchange if another attempt follows, else to the dead-letter
//! exchange. A discarded job is not published here; its end is on the results exchange, like any
//! other.
//!
//! A sink of the journal. So every failure is published at least once, in order per job, by one
//! node at a time, however long the broker was down; the position moves only after the broker has
//! confirmed.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use forgerun_core::catalog::Kind;
use forgerun_core::history::{Event, EventKind, EventName, RetryStatus};
use forgerun_core::id::{EventId, JobId};
use forgerun_core::job::{AttemptError, Input, Job, Name};
use forgerun_core::queue::{Owner, QueueId};
use forgerun_core::state::{Cause, State};
use forgerun_engine::Engine;
use forgerun_engine::sinks::{EventSink, SinkError, SinkEvent, SinkSending, SinkSent};
use forgerun_store::Store;
use forgerun_wire::ojs::amqp::{
    AfterFailure, DEAD, MessageHead, RETRY, delay_key, delay_step_ms, failure_body,
};
use futures_util::future::try_join_all;
use lapin::Connection;
use tokio::sync::Mutex;

use super::connection::{BridgeError, Publisher, connect};
use super::{properties, topology};
use crate::config::Secret;
use crate::limits::AMQP_DECLARE_AT_ONCE;

/// Publishes failures of jobs in bridged queues.
pub(super) struct FailureSink {
    pub(super) engine: Engine,
    pub(super) url: Secret,
    pub(super) owner: Owner,
    pub(super) queues: Vec<Name>,
    pub(super) queue_length_max: Option<u32>,
    pub(super) link: Mutex<Link>,
}

/// A connection kept between sends.
#[derive(Default)]
pub(super) struct Link {
    open: Option<(Connection, Publisher)>,
    /// Confirmed events of the current wave: if one of its messages fails, the repetition does not
    /// publish the others again.
    confirmed: HashSet<EventId>,
    /// Queues that a cancelled attempt to connect has declared.
    declared: HashSet<Name>,
}

impl EventSink for FailureSink {
    fn name(&self) -> &str {
        "amqp-bridge"
    }

    fn kind(&self) -> &'static str {
        "amqp"
    }

    /// A job that its worker hands back has not failed.
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
        let is_bridged = |event: &&SinkEvent| self.is_bridged(&event.job);
        let ids: Vec<JobId> = events.iter().filter(is_bridged).map(|event| event.job.id).collect();
        if ids.is_empty() {
            return Ok(SinkSent::default());
        }
        let inputs = inputs(&**self.engine.store(), ids).await?;
        let (mut failures, mut refused) = (Vec::new(), Vec::new());
        for (index, event) in events.iter().enumerate().filter(|(_, event)| self.is_bridged(&event.job)) {
            match inputs.get(&event.job.id) {
                Some(None) => refused.push((index, "the input of the job cannot be read".to_owned())),
                Some(Some(input)) => failures.extend(FailureMessage::new(event, input)),
                None => failures.extend(FailureMessage::new(event, &Input::default())),
            }
        }
        let mut link = self.link.lock().await;
        self.publish_over(&mut link, &failures).await?;
        link.confirmed.clear();
        Ok(SinkSent { n_sent: failures.len(), refused })
    }

    async fn publish_over(&self, link: &mut Link, failures: &[FailureMessage]) -> Result<(), BridgeError> {
        // Put back only on success: after any error or cancellation a new connection declares the
        // topology again.
        let (connection, publisher) = match link.open.take() {
            Some(open) => open,
            None => self.connect(&mut link.declared).await?,
        };
        let mut sent = Vec::with_capacity(failures.len());
        for message in failures.iter().filter(|message| !link.confirmed.contains(&message.event)) {
            let properties = properties::of_message(&message.head);
            let sending = publisher.send(message.exchange, &message.key, properties, &message.body);
            sent.push((message.event, sending.await?));
        }
        let mut ended = Ok(());
        for (event, message) in sent {
            match message.confirmed().await {
                Ok(()) => {
                    link.confirmed.insert(event);
                }
                Err(error) => ended = Err(error),
            }
        }
        ended?;
        link.open = Some((connection, publisher));
        Ok(())
    }

    /// Connects, and declares what is missing for all queues. A cancelled attempt leaves its
    /// progress in `declared`: with a distant broker and many queues one attempt may not suffice.
    async fn connect(&self, declared: &mut HashSet<Name>) -> Result<(Connection, Publisher), BridgeError> {
        let connection = connect(&self.url, "forgerun bridge failures").await?;
        let missing: Vec<&Name> = self.queues.iter().filter(|queue| !declared.contains(*queue)).collect();
        for some in missing.chunks(AMQP_DECLARE_AT_ONCE) {
            let declaring = some
                .iter()
                .map(|queue| topology::declare(&connection, queue.as_str(), self.queue_length_max));
            try_join_all(declaring).await?;
            declared.extend(some.iter().map(|queue| (*queue).clone()));
        }
        let publisher = Publisher::open(&connection).await?;
        // The next connection checks all of them again: the broker may have lost them by then.
        declared.clear();
        Ok((connection, publisher))
    }
}

/// Inputs of jobs; `None` for an unreadable one.
async fn inputs(store: &dyn Store, ids: Vec<JobId>) -> Result<HashMap<JobId, Option<Input>>, BridgeError> {
    match store.inputs(ids.clone()).await {
        Ok(found) => Ok(found.into_iter().map(|(id, input)| (id, Some(input))).collect()),
        Err(error) if error.fault.is_unreadable() => {
            let mut inputs = HashMap::new();
            for id in ids {
                match store.inputs(vec![id]).await {
                    Ok(found) => inputs.extend(found.into_iter().map(|(id, input)| (id, Some(input)))),
                    Err(error) if error.fault.is_unreadable() => drop(inputs.insert(id, None)),
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(inputs)
        }
        Err(error) => Err(error.into()),
    }
}

/// The message about a failure, and its exchange.
struct FailureMessage {
    event: EventId,
    exchange: &'static str,
    key: String,
    head: MessageHead,
    body: Vec<u8>,
}

impl FailureMessage {
    /// `None` for a discarded job.
    fn new(failure: &SinkEvent, input: &Input) -> Option<FailureMessage> {
        let (job, event) = (&failure.job, &failure.event);
        let known =
            job.errors.iter().rev().find(|error| error.attempt == event.attempt && error.at == event.at);
        let error = known.cloned().unwrap_or_else(|| forgotten(event));
        if error.discarded {
            return None;
        }
        let queue = job.head.queue.as_str();
        let will_retry = matches!(event.kind, EventKind::Moved { retry_status: RetryStatus::WillRetry, .. });
        let (after, exchange, key) = if will_retry {
            let wait = error.wait.unwrap_or_default();
            (AfterFailure::Retry(wait), RETRY, delay_key(queue, delay_step_ms(wait)))
        } else {
            (AfterFailure::Dead, DEAD, queue.to_owned())
        };
        let id = event.id(job.id);
        Some(FailureMessage {
            event: id,
            head: MessageHead::of_failure(job, &error, after, id),
            body: failure_body(job, input, &error),
            exchange,
            key,
        })
    }
}

/// A failure that the job no longer lists, because it has failed too often since.
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
        discarded: false,
        execution: event.execution,
    }
}

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
