//! What a courier is given, and what it says.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::command::SendResult;
use forgerun_core::delivery::{Delivery, DeliveryAttempt, DeliverySubject, Endpoint};
use forgerun_core::history::Event;
use forgerun_core::job::Job;
use forgerun_core::rows::Outcome;
use forgerun_core::time::Time;
use forgerun_core::webhook::Webhook;
use forgerun_store::Store;

/// A send under way. Dropping it breaks it off.
pub type Sending = Pin<Box<dyn Future<Output = AttemptReport> + Send>>;

/// Brings deliveries to their endpoints. Knows how to build, sign and send a request; whether, when and how often is not its
/// affair.
pub trait Courier: Send + Sync + 'static {
    /// One attempt. Ends within the lease of the delivery loop, whatever the endpoint does.
    fn send(&self, prepared: PreparedDelivery) -> Sending;
}

/// One delivery with all that is needed to tell it.
#[derive(Clone, Debug)]
pub struct PreparedDelivery {
    /// The delivery; its `attempts` is the number of this attempt.
    pub delivery: Delivery,
    /// The webhook it goes to; `None` for a job's callback.
    pub webhook: Option<Arc<Webhook>>,
    /// The job it is about, as it stands by now; `None` for what is about none.
    pub job: Option<Arc<Job>>,
    /// The outcome of the execution whose end it tells of.
    pub outcome: Option<Arc<Outcome>>,
}

impl PreparedDelivery {
    /// Where it goes.
    pub fn url(&self) -> &str {
        match (&self.webhook, &self.delivery.to) {
            (Some(webhook), _) => &webhook.url,
            (None, Endpoint::Callback(url)) => url,
            (None, Endpoint::Webhook(_)) => "",
        }
    }

    /// The delivery with what is read for it, to look at: `None` if its job is forgotten.
    pub async fn read(
        store: &dyn Store,
        delivery: Delivery,
        webhook: Option<Arc<Webhook>>,
    ) -> Result<Option<PreparedDelivery>, forgerun_store::Error> {
        let DeliverySubject::Event { job, event } = delivery.about else {
            return Ok(Some(PreparedDelivery { delivery, webhook, job: None, outcome: None }));
        };
        let Some(job) = store.job(job).await? else { return Ok(None) };
        let outcome = match job.execution_ended(&event) {
            Some(execution) => store.outcome(execution).await?.map(Arc::new),
            None => None,
        };
        Ok(Some(PreparedDelivery { delivery, webhook, job: Some(job), outcome }))
    }

    /// The event of a job that it tells of; `None` for what is about none.
    pub fn event(&self) -> Option<&Event> {
        match &self.delivery.about {
            DeliverySubject::Event { event, .. } => Some(event),
            DeliverySubject::Notice(_) | DeliverySubject::Test => None,
        }
    }
}

/// What a courier says about one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReport {
    /// What it means.
    pub verdict: AttemptVerdict,
    /// The status that the endpoint answered with, if it did.
    pub status: Option<u16>,
    /// What went wrong, in English, without secrets of the URL.
    pub error: Option<String>,
}

/// What an attempt means for its delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptVerdict {
    /// The endpoint has it.
    Delivered,
    /// Try again.
    Failed {
        /// How long the endpoint asked to be left alone.
        retry_after: Option<Duration>,
    },
    /// The endpoint is gone for good.
    Gone,
}

impl AttemptReport {
    /// The same in the words of the core.
    pub(super) fn into_sent(self, at: Time, took: Duration) -> SendResult {
        let attempt = DeliveryAttempt { at, took, status: self.status, error: self.error };
        match self.verdict {
            AttemptVerdict::Delivered => SendResult::Delivered(attempt),
            AttemptVerdict::Failed { retry_after } => SendResult::Failed { attempt, retry_after },
            AttemptVerdict::Gone => SendResult::Gone(attempt),
        }
    }
}
