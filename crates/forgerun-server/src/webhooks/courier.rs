//! The engine's courier: builds and sends the request of a delivery, counts and logs the attempt,
//! and reports the result.

use std::sync::Arc;

use forgerun_core::delivery::Endpoint;
use forgerun_engine::{AttemptReport, AttemptVerdict as Meaning, Clock, Courier, PreparedDelivery, Sending};
use forgerun_wire::words;

use super::contents::Contents;
use super::metrics::WebhookMetrics;
use super::request::DeliveryRequest;
use super::send_error::SendError;
use super::sender::{SendVerdict, Sender};
use super::signing_keys::SigningKeys;
use super::standard::WebhookSecret;
use super::target::Target;
use crate::config::PrivateTargets;
use crate::metrics::scenario;
use crate::traces::{AttemptRecord, AttemptSpan, Traces};

/// Sends deliveries for the engine.
pub struct WebhookCourier {
    pub sender: Sender,
    /// Signing keys; `None` if signing is off.
    pub keys: Option<Arc<SigningKeys>>,
    /// Whether private addresses may be called.
    pub private: PrivateTargets,
    /// Public address of the server; `/` if it has none.
    pub source: String,
    pub metrics: WebhookMetrics,
    /// Set if a trace collector is configured.
    pub traces: Option<Arc<Traces>>,
    pub clock: Arc<dyn Clock>,
}

/// Cheap to clone, since every send needs one.
#[derive(Clone)]
pub struct SharedCourier(pub Arc<WebhookCourier>);

impl Courier for SharedCourier {
    fn send(&self, prepared: PreparedDelivery) -> Sending {
        let courier = self.0.clone();
        Box::pin(async move { courier.carry(&prepared).await })
    }
}

impl WebhookCourier {
    async fn carry(&self, prepared: &PreparedDelivery) -> AttemptReport {
        let place = prepared.job.as_deref().zip(prepared.event()).map(|(job, event)| {
            AttemptSpan::new(job, event, prepared.delivery.id.as_u128(), prepared.delivery.attempts)
        });
        let began = self.clock.now();
        self.metrics.in_flight.inc();
        let under_way = InFlight(&self.metrics);
        let verdict = self.deliver(prepared, place.as_ref()).await;
        drop(under_way);
        let ended = self.clock.now();
        self.metrics.attempt(&verdict, ended.since(began));
        log(prepared, &verdict, ended.since(began));
        if let (Some(traces), Some(place)) = (&self.traces, &place) {
            let (status, error) = match verdict {
                SendVerdict::Delivered(status) => (Some(status), None),
                SendVerdict::Gone => (Some(410), Some("gone")),
                SendVerdict::Failed { error, .. } => (error.status(), Some(error.label())),
            };
            let job = prepared.delivery.job().map(|job| job.to_string()).unwrap_or_default();
            let (delivery, n) = (prepared.delivery.id.to_string(), prepared.delivery.attempts);
            traces.attempt(place, AttemptRecord { delivery, job, n, began, ended, status, error });
        }
        report(&verdict)
    }

    async fn deliver(&self, prepared: &PreparedDelivery, place: Option<&AttemptSpan>) -> SendVerdict {
        let failed = |error| SendVerdict::Failed { error, retry_after: None };
        // Checked again: the address rules may have changed since the registration.
        let Ok(target) = Target::parse(prepared.url(), self.private) else {
            return failed(SendError::BadTarget);
        };
        let keys = match &self.keys {
            None => None,
            Some(signing_keys) => match signing_keys.current().await {
                Ok(keys) => Some(keys),
                Err(error) => {
                    tracing::error!(%error, "webhook signing keys unavailable");
                    return failed(SendError::NoKeys);
                }
            },
        };
        let delivery = self.delivery(prepared, target, place);
        let request = delivery.request(self.clock.now(), keys.as_deref().map(|keys| &keys.signing));
        self.sender.send(&delivery.target, request).await
    }

    fn delivery(
        &self,
        prepared: &PreparedDelivery,
        target: Target,
        place: Option<&AttemptSpan>,
    ) -> DeliveryRequest {
        let now = self.clock.now();
        let secrets = prepared.webhook.iter().flat_map(|webhook| webhook.secrets.at(now));
        DeliveryRequest {
            target,
            contents: Contents::new(prepared, &self.source),
            attempt: prepared.delivery.attempts,
            secrets: secrets.map(WebhookSecret::stored).collect(),
            traceparent: place.map(AttemptSpan::traceparent),
        }
    }
}

/// Counts down also when a send is cancelled.
struct InFlight<'a>(&'a WebhookMetrics);

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.in_flight.dec();
    }
}

fn report(verdict: &SendVerdict) -> AttemptReport {
    match verdict {
        SendVerdict::Delivered(status) => {
            AttemptReport { verdict: Meaning::Delivered, status: Some(*status), error: None }
        }
        SendVerdict::Gone => {
            let error = Some("answered with status 410: it wants no more deliveries".to_owned());
            AttemptReport { verdict: Meaning::Gone, status: Some(410), error }
        }
        SendVerdict::Failed { error, retry_after } => AttemptReport {
            verdict: Meaning::Failed { retry_after: *retry_after },
            status: error.status(),
            error: Some(error.to_string()),
        },
    }
}

/// One line per attempt, with the URL's origin only: path and query may be secrets of the receiver.
fn log(prepared: &PreparedDelivery, verdict: &SendVerdict, took: std::time::Duration) {
    let (status, error) = match verdict {
        SendVerdict::Delivered(status) => (Some(*status), None),
        SendVerdict::Gone => (Some(410), Some("gone".to_owned())),
        SendVerdict::Failed { error, .. } => (error.status(), Some(error.to_string())),
    };
    let delivery = &prepared.delivery;
    let job = prepared.job.as_deref();
    let webhook_id = match &delivery.to {
        Endpoint::Webhook(id) => Some(id.to_string()),
        Endpoint::Callback(_) => None,
    };
    tracing::info!(
        delivery_id = %delivery.id,
        webhook_id = webhook_id.as_deref(),
        client_id = %delivery.client,
        job_id = job.map(|job| job.id.to_string()).as_deref(),
        event = words::told_name(&delivery.about),
        scenario = job.map(scenario),
        correlation_id = job.and_then(|job| job.head.correlation_id.as_deref()),
        receiver = origin(prepared.url()).as_deref(),
        attempt = delivery.attempts,
        status,
        duration_ms = took.as_millis() as u64,
        error_message = error.as_deref(),
        "webhook attempt"
    );
}

fn origin(url: &str) -> Option<String> {
    Some(url::Url::parse(url).ok()?.origin().ascii_serialization())
}
