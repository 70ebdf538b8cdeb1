//! Messages that cancel jobs: type `ojs.control.cancel`, body `{"job_id": …}`.
//!
//! A cancel may overtake its job, since they come through different queues. So a cancel of an
//! unknown job is kept for a while and then becomes a dead letter, where an operator can see that
//! it had no effect.

use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Cancel, Owned};
use forgerun_core::id::JobId;
use forgerun_core::job::Name;
use forgerun_core::{Command, Refusal};
use forgerun_engine::Error;
use forgerun_wire::ojs::amqp::{CANCEL, control_queue, read_control};
use forgerun_wire::problem::RefusedRequest;
use lapin::Connection;
use lapin::message::Delivery;
use lapin::types::ShortString;
use tokio::task::JoinSet;

use super::BridgeContext;
use super::connection::{BridgeError, Publisher};
use super::intake::{Deliveries, acknowledge, bury, is_final};
use super::metrics::MessageFate;
use super::session::Backoff;
use crate::http::ApiError;
use crate::limits::{AMQP_CANCEL_WAIT, AMQP_CONTROL_PREFETCH, AMQP_HOLD_PAUSE, TROUBLE_AFTER_S};

/// Cancel reason.
const REASON: &str = "cancelled by a message on its control queue";

/// Processes the cancels of a queue until the bridge stops (`Ok`) or an error occurs.
pub(super) async fn run(
    context: &Arc<BridgeContext>,
    connection: &Connection,
    queue: &Name,
    wait: &mut Backoff,
) -> Result<(), BridgeError> {
    let mut deliveries =
        Deliveries::open(connection, control_queue(queue.as_str()), AMQP_CONTROL_PREFETCH).await?;
    let publisher = Arc::new(Publisher::open(connection).await?);
    // As many as the broker sends before the first is acknowledged.
    let mut commands: JoinSet<Result<(), BridgeError>> = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            // Waiting cancels come again.
            () = context.stopping() => return Ok(()),
            Some(done) = commands.join_next() => {
                done.unwrap_or_else(|error| Err(BridgeError::Broken(error)))?;
                wait.reset();
            }
            batch = deliveries.next() => {
                for delivery in batch? {
                    commands.spawn(obey(context.clone(), publisher.clone(), queue.clone(), delivery));
                }
            }
        }
    }
}

async fn obey(
    context: Arc<BridgeContext>,
    publisher: Arc<Publisher>,
    queue: Name,
    delivery: Delivery,
) -> Result<(), BridgeError> {
    let obeyed = match delivery.properties.kind().as_ref().map(ShortString::as_str) {
        Some(CANCEL) => match read_control(&delivery.data) {
            Ok(job) => cancel(&context, job).await,
            Err(refused) => Err(refused),
        },
        _ => {
            let detail = format!("A control message must have the type {CANCEL}.");
            Err(Box::new(RefusedRequest::new(Kind::UnsupportedFeature, detail).fact("supported", CANCEL)))
        }
    };
    match obeyed {
        Ok(()) => {
            acknowledge(&delivery).await?;
            context.app.metrics.bridge.count(MessageFate::Obeyed);
            Ok(())
        }
        Err(refused) => bury(&context, &queue, &publisher, &delivery, &refused).await,
    }
}

/// Cancels a job. An ended job is left alone.
async fn cancel(context: &BridgeContext, job: JobId) -> Result<(), Box<RefusedRequest>> {
    let (mut waited, mut pause) = (Duration::ZERO, AMQP_HOLD_PAUSE);
    loop {
        let cancel = Cancel {
            owned: Owned { job, client: Some(context.owner.client) },
            execution: None,
            by: "user".to_owned(),
            reason: REASON.to_owned(),
            compensate: true,
        };
        let error = match context.app.engine.act(Command::Cancel(cancel)).await {
            Ok(_) | Err(Error::Refused(Refusal::AlreadyCompleted(_) | Refusal::AlreadyCanceled)) => {
                return Ok(());
            }
            Err(error) => error,
        };
        match &error {
            Error::Refused(Refusal::NotFound) if waited < AMQP_CANCEL_WAIT => {}
            Error::Refused(_) => return Err(Box::new(ApiError::from(error).into_parts().0)),
            // Its job cannot be read.
            Error::Store(failed) if is_final(failed.fault) => {
                let detail = "The store cannot cancel this job.";
                return Err(Box::new(RefusedRequest::new(Kind::StorageError, detail)));
            }
            // An error of the store is not the message's fault: it waits.
            Error::Overloaded | Error::Stopped | Error::Store(_) => {}
        }
        context.pause(pause).await;
        if context.is_stopping() {
            // The loop ends, and the message comes again.
            std::future::pending::<()>().await;
        }
        waited += pause;
        pause = (pause * 2).min(Duration::from_secs(TROUBLE_AFTER_S));
    }
}
