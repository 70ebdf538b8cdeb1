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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Delivery"))]
pub struct DeliveryView {
    /// The same with every attempt; receivers see it as `webhook-id`.
    pub delivery_id: String,
    /// The webhook.
    pub webhook_id: Option<String>,
    /// The job; null for a test.
    pub job_id: Option<String>,
    /// What happened, or `webhook_test`.
    pub event: &'static str,
    /// The event.
    pub event_id: Option<String>,
    /// What every attempt sends.
    pub request: RequestView,
    /// How far it is.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::DeliveryStatus"))]
    pub status: &'static str,
    /// Why it waits without a moment of its own, or why it was given up.
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::schema::DeliveryReason>"))]
    pub reason: Option<&'static str>,
    /// Attempts begun since it was made, or asked for again.
    pub attempts: u32,
    /// When it was written.
    pub created_at: String,
    /// When it is tried next.
    pub next_attempt_at: Option<String>,
    /// When it arrived or was given up.
    pub settled_at: Option<String>,
    /// The newest attempts.
    pub log: Vec<AttemptView>,
}

/// What an attempt sends: the same with every one. Headers and body only where one delivery is looked at.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DeliveryRequest"))]
pub struct RequestView {
    /// Always `POST`.
    pub method: &'static str,
    /// Where it goes; null if the webhook was deleted.
    pub url: Option<String>,
    /// The header fields that are the same with every attempt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub headers: Option<BTreeMap<String, String>>,
    /// The body, byte for byte: the event, the failure object, or either in its envelope.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "serde_json::Value"))]
    pub body: Option<Box<RawValue>>,
}

/// One attempt.
#[derive(Clone, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "DeliveryAttempt"))]
pub struct AttemptView {
    /// When it began.
    pub at: String,
    /// How long it took.
    pub duration_ms: u64,
    /// What the receiver answered.
    pub response_status: Option<u16>,
    /// What went wrong.
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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Deliveries"))]
pub struct DeliveriesView {
    /// The deliveries.
    pub deliveries: Vec<DeliveryView>,
    /// Where the next page begins.
    pub next_cursor: Option<String>,
}

/// What was given up is on its way again.
#[derive(Clone, Copy, Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "Redelivered"))]
pub struct RedeliveredView {
    /// How many deliveries.
    pub redelivered: usize,
    /// Whether asking again finds more.
    pub more: bool,
}
