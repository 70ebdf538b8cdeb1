//! The contents of a delivery: the same for every attempt, so its owner can see them at any time.
//! The time and signatures of an attempt belong to the [`DeliveryRequest`](super::DeliveryRequest).

use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, HeaderName, HeaderValue};
use bytes::Bytes;
use forgerun_core::delivery::{Delivery, DeliverySubject};
use forgerun_core::id::EventId;
use forgerun_core::time::Time;
use forgerun_core::webhook::{Envelope as Wrapping, Events};
use forgerun_engine::PreparedDelivery;
use forgerun_wire::event::{EventBody, JSON};
use forgerun_wire::ojs::event::event_for;
use forgerun_wire::{time, words};
use serde_json::json;

use super::cloud_event::{CloudEvent, STRUCTURED_MEDIA_TYPE};
use super::request::put;
use super::signature::content_digest;

/// The CloudEvent `type` of a test.
const TEST_KIND: &str = "dev.forgerun.webhook.test";

/// The contents of a delivery.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Receivers detect repetitions by it.
    pub id: String,
    /// The event's name: `job_failed`.
    pub event: &'static str,
    /// Media type of the body.
    pub content_type: &'static str,
    pub body: Bytes,
    /// The envelope, if it is in headers.
    pub envelope: Vec<(HeaderName, HeaderValue)>,
}

impl Contents {
    /// The contents of a delivery from the server at `source`, in the current format of its
    /// webhook.
    pub fn new(prepared: &PreparedDelivery, source: &str) -> Contents {
        let PlainContents { content_type, body, envelope } = PlainContents::new(prepared, source);
        let wrapping = prepared.webhook.as_ref().map_or(Wrapping::None, |webhook| webhook.envelope);
        let (content_type, body, envelope) = match wrapping {
            Wrapping::None => (content_type, body, Vec::new()),
            Wrapping::Structured => {
                (STRUCTURED_MEDIA_TYPE, envelope.structured(content_type, &body), Vec::new())
            }
            Wrapping::Binary => (content_type, body, envelope.headers()),
            Wrapping::Ojs => of_ojs(prepared, &envelope),
        };
        let event = words::told_name(&prepared.delivery.about);
        Contents { id: prepared.delivery.id.to_string(), event, content_type, body, envelope }
    }

    /// Whether the body is an event of Open Job Spec.
    pub fn is_of_ojs(&self) -> bool {
        self.envelope.iter().any(|(name, _)| *name == OJS_EVENT_TYPE)
    }

    /// Header fields of every attempt.
    pub fn headers(&self) -> HeaderMap {
        let mut headers = HeaderMap::new();
        put(&mut headers, CONTENT_TYPE.as_str(), self.content_type);
        put(&mut headers, "content-digest", &content_digest(&self.body));
        put(&mut headers, "webhook-id", &self.id);
        put(&mut headers, "x-forgerun-event", self.event);
        headers.extend(self.envelope.iter().cloned());
        headers
    }
}

const OJS_EVENT_TYPE: HeaderName = HeaderName::from_static("x-ojs-event-type");
const OJS_DELIVERY: HeaderName = HeaderName::from_static("x-ojs-delivery-id");
const OJS_SUBSCRIPTION: HeaderName = HeaderName::from_static("x-ojs-subscription-id");

/// An Open Job Spec event, with the header fields of its webhooks.
fn of_ojs(
    prepared: &PreparedDelivery,
    envelope: &CloudEvent,
) -> (&'static str, Bytes, Vec<(HeaderName, HeaderValue)>) {
    let wanted = prepared.webhook.as_ref().map_or(Events::ALL, |webhook| webhook.events);
    let told = match (&prepared.delivery.about, prepared.job.as_deref()) {
        (DeliverySubject::Event { event, .. }, Some(job)) => event_for(event, job, wanted).body,
        (about, _) => json!({
            "specversion": "1.0",
            "id": envelope.id,
            "type": if matches!(about, DeliverySubject::Test) { "webhook.test" } else { "webhook.disabled" },
            "source": "ojs://forgerun/server",
            "time": envelope.time,
            "subject": prepared.delivery.to.key().to_string(),
            "data": {},
        }),
    };
    let texts = [
        (OJS_EVENT_TYPE, told["type"].as_str().unwrap_or_default().to_owned()),
        (OJS_DELIVERY, prepared.delivery.id.to_string()),
        (OJS_SUBSCRIPTION, prepared.delivery.to.key().to_string()),
    ];
    let headers = texts.map(|(name, text)| (name, HeaderValue::try_from(text).expect("ASCII")));
    (JSON, told.to_string().into(), headers.to_vec())
}

/// Body and envelope attributes.
struct PlainContents {
    content_type: &'static str,
    body: Bytes,
    envelope: CloudEvent,
}

impl PlainContents {
    fn new(prepared: &PreparedDelivery, source: &str) -> PlainContents {
        match &prepared.delivery.about {
            DeliverySubject::Event { job: id, event } => {
                let job = prepared.job.as_deref().expect("what is about a job comes with it");
                let body =
                    EventBody::new(job, event, prepared.outcome.as_deref().map(|outcome| &outcome.object));
                PlainContents::of_event(body, event.id(*id), id.to_string(), event.at, source)
            }
            DeliverySubject::Notice(notice) => {
                let (id, webhook) = (notice.id(), notice.webhook.to_string());
                PlainContents::of_event(EventBody::of_notice(notice), id, webhook, notice.disabled.at, source)
            }
            DeliverySubject::Test => PlainContents::of_test(&prepared.delivery, source),
        }
    }

    fn of_event(body: EventBody, id: EventId, subject: String, at: Time, source: &str) -> PlainContents {
        let envelope = CloudEvent {
            id: id.to_string(),
            source: source.to_owned(),
            kind: body.word.cloud_event().to_owned(),
            subject: Some(subject),
            time: time::micros(at),
        };
        PlainContents { content_type: body.media_type, body: body.bytes.into(), envelope }
    }

    fn of_test(delivery: &Delivery, source: &str) -> PlainContents {
        let at = time::micros(delivery.created_at);
        let webhook = delivery.to.key().to_string();
        let body = json!({"event_name": words::WEBHOOK_TEST, "webhook_id": webhook, "timestamp": at});
        let envelope = CloudEvent {
            id: delivery.id.to_string(),
            source: source.to_owned(),
            kind: TEST_KIND.to_owned(),
            subject: None,
            time: at,
        };
        PlainContents { content_type: JSON, body: body.to_string().into(), envelope }
    }
}
