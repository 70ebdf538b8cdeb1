//! The interface to couriers, which send deliveries.

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

/// A send under way. Dropping it cancels it.
pub type Sending = Pin<Box<dyn Future<Output = AttemptReport> + Send>>;

/// Sends deliveries. Builds, signs and sends a request; the delivery loop decides whether, when and
/// how often.
pub trait Courier: Send + Sync + 'static {
    /// Makes one attempt. Ends within the lease of the delivery loop, whatever the endpoint does.
    fn send(&self, prepared: PreparedDelivery) -> Sending;
}

/// A delivery with all rows that its message needs.
#[derive(Clone, Debug)]
pub struct PreparedDelivery {
    /// `attempts` is the number of this attempt.
    pub delivery: Delivery,
    /// `None` for a job's callback.
    pub webhook: Option<Arc<Webhook>>,
    /// The job in its current state; `None` if the delivery is not about a job.
    pub job: Option<Arc<Job>>,
    /// The outcome, if the event ended an execution.
    pub outcome: Option<Arc<Outcome>>,
}

impl PreparedDelivery {
    pub fn url(&self) -> &str {
        match (&self.webhook, &self.delivery.to) {
            (Some(webhook), _) => &webhook.url,
            (None, Endpoint::Callback(url)) => url,
            (None, Endpoint::Webhook(_)) => "",
        }
    }

    /// Loads the rows for a delivery that is shown; `None` if its job was deleted.
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

    /// The job event; `None` if the delivery is not about a job.
    pub fn event(&self) -> Option<&Event> {
        match &self.delivery.about {
            DeliverySubject::Event { event, .. } => Some(event),
            DeliverySubject::Notice(_) | DeliverySubject::Test => None,
        }
    }
}

/// The result of one attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttemptReport {
    pub verdict: AttemptVerdict,
    /// HTTP status of the answer.
    pub status: Option<u16>,
    /// Error in English, without secrets of the URL.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttemptVerdict {
    Delivered,
    Failed {
        /// How long the endpoint asked not to be called.
        retry_after: Option<Duration>,
    },
    Gone,
}

impl AttemptReport {
    /// Converts it for the core.
    pub(super) fn into_sent(self, at: Time, took: Duration) -> SendResult {
        let attempt = DeliveryAttempt { at, took, status: self.status, error: self.error };
        match self.verdict {
            AttemptVerdict::Delivered => SendResult::Delivered(attempt),
            AttemptVerdict::Failed { retry_after } => SendResult::Failed { attempt, retry_after },
            AttemptVerdict::Gone => SendResult::Gone(attempt),
        }
    }
}
