//! Deliveries: what may be asked, and what is shown.

use std::collections::BTreeMap;

use forgerun_core::delivery::{
    Delivery, DeliveryFailure, DeliveryStage, DeliveryStatus, DeliverySubject, Endpoint,
};
use serde::Serialize;
use serde_json::value::{RawValue, to_raw_value};

use crate::{time, words};

/// What was to be told to an endpoint, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct DeliveryView {
    pub delivery_id: String,
    pub webhook_id: Option<String>,
    pub job_id: Option<String>,
    pub event: &'static str,
    pub event_id: Option<String>,
    pub request: RequestView,
    pub status: &'static str,
    pub reason: Option<&'static str>,
    pub attempts: u32,
    pub created_at: String,
    pub next_attempt_at: Option<String>,
    pub settled_at: Option<String>,
    pub log: Vec<AttemptView>,
}

/// What an attempt sends: the same with every one. Headers and body only where one delivery is looked at.
#[derive(Clone, Debug, Serialize)]
pub struct RequestView {
    pub method: &'static str,
    pub url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub body: Option<Box<RawValue>>,
}

/// One attempt.
#[derive(Clone, Debug, Serialize)]
pub struct AttemptView {
    pub at: String,
    pub duration_ms: u64,
    pub response_status: Option<u16>,
    pub error: Option<String>,
}

/// The word for how far a delivery is.
pub(crate) const fn delivery_status(status: DeliveryStatus) -> &'static str {
    match status {
        DeliveryStatus::Pending => "pending",
        DeliveryStatus::Delivered => "delivered",
        DeliveryStatus::Failed => "failed",
    }
}

/// The status that a word stands for.
pub fn parse_delivery_status(word: &str) -> Option<DeliveryStatus> {
    [DeliveryStatus::Pending, DeliveryStatus::Delivered, DeliveryStatus::Failed]
        .into_iter()
        .find(|status| delivery_status(*status) == word)
}

impl DeliveryView {
    /// The delivery as it stands, and where it goes if that is known.
    pub fn new(delivery: &Delivery, url: Option<&str>) -> DeliveryView {
        let event_id = match &delivery.about {
            DeliverySubject::Event { job, event } => Some(event.id(*job)),
            DeliverySubject::Notice(notice) => Some(notice.id()),
            DeliverySubject::Test => None,
        };
        let reason = match delivery.stage {
            DeliveryStage::Failed(_, DeliveryFailure::Exhausted) => Some("exhausted"),
            DeliveryStage::Failed(_, DeliveryFailure::Gone) => Some("gone"),
            DeliveryStage::Failed(_, DeliveryFailure::Disabled) => Some("disabled"),
            DeliveryStage::Failed(_, DeliveryFailure::Deleted) => Some("deleted"),
            DeliveryStage::Blocked => Some("in_order"),
            DeliveryStage::Taken(_) => Some("under_way"),
            DeliveryStage::Waiting(_) | DeliveryStage::Delivered(_) => None,
        };
        let next = match delivery.stage {
            DeliveryStage::Waiting(at) => Some(at),
            DeliveryStage::Blocked
            | DeliveryStage::Taken(_)
            | DeliveryStage::Delivered(_)
            | DeliveryStage::Failed(..) => None,
        };
        DeliveryView {
            delivery_id: delivery.id.to_string(),
            webhook_id: match &delivery.to {
                Endpoint::Webhook(id) => Some(id.to_string()),
                Endpoint::Callback(_) => None,
            },
            job_id: delivery.job().map(|job| job.to_string()),
            event: words::told_name(&delivery.about),
            event_id: event_id.map(|id| id.to_string()),
            request: RequestView { method: "POST", url: url.map(str::to_owned), headers: None, body: None },
            status: delivery_status(delivery.status()),
            reason,
            attempts: delivery.attempts,
            created_at: time::millis(delivery.created_at),
            next_attempt_at: next.map(time::millis),
            settled_at: delivery.settled_at().map(time::millis),
            log: delivery.log.iter().map(AttemptView::new).collect(),
        }
    }

    /// The same with what every attempt sends. The body stays as it is, byte for byte; one that is no JSON becomes a text.
    #[must_use]
    pub fn showing<'a>(
        mut self,
        headers: impl IntoIterator<Item = (&'a str, &'a str)>,
        body: &[u8],
    ) -> DeliveryView {
        let text = String::from_utf8_lossy(body).into_owned();
        let embedded = RawValue::from_string(text.clone()).or_else(|_| to_raw_value(&text));
        let header = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.request.headers = Some(headers.into_iter().map(header).collect());
        self.request.body = embedded.ok();
        self
    }
}

impl AttemptView {
    fn new(attempt: &forgerun_core::delivery::DeliveryAttempt) -> AttemptView {
        AttemptView {
            at: time::millis(attempt.at),
            duration_ms: u64::try_from(attempt.took.as_millis()).unwrap_or(u64::MAX),
            response_status: attempt.status,
            error: attempt.error.clone(),
        }
    }
}

/// A page of deliveries, newest first.
#[derive(Clone, Debug, Serialize)]
pub struct DeliveriesView {
    /// The deliveries.
    pub deliveries: Vec<DeliveryView>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// What was given up is on its way again.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct RedeliveredView {
    /// How many deliveries.
    pub redelivered: usize,
    /// Whether asking again finds more.
    pub more: bool,
}
