//! The message about an event, for all brokers: value and headers.

use bytes::Bytes;
use forgerun_core::history::Event;
use forgerun_core::id::JobId;
use forgerun_engine::sinks::SinkEvent;
use forgerun_wire::event::EventBody;
use forgerun_wire::{time, words};

use crate::config::{CloudEvents, SinkEvents};
use crate::webhooks::cloud_event::{CloudEvent, STRUCTURED_MEDIA_TYPE};

/// Common properties of a sink's messages.
#[derive(Clone, Debug)]
pub(super) struct Wording {
    pub(super) events: SinkEvents,
    pub(super) cloudevents: CloudEvents,
    /// `source` of CloudEvents.
    pub(super) source: String,
}

/// A message for a broker.
#[derive(Clone, Debug)]
pub(super) struct SinkMessage {
    /// The job: its messages stay in order.
    pub(super) job: JobId,
    /// The `jobId` in the value: the execution.
    pub(super) key: String,
    /// The queue, without characters that are special to brokers.
    pub(super) queue: String,
    /// The queue's name.
    pub(super) queue_name: String,
    /// From 1; 0 before the first attempt.
    pub(super) attempt: u32,
    /// The event's name: `job_failed`.
    pub(super) event: &'static str,
    /// The same for repetitions.
    pub(super) id: String,
    pub(super) content_type: &'static str,
    /// Language of a failure.
    pub(super) language: Option<String>,
    /// Trace of the job.
    pub(super) traceparent: Option<String>,
    /// CloudEvent attributes in binary mode; empty otherwise.
    pub(super) attributes: Vec<(&'static str, String)>,
    pub(super) body: Bytes,
}

impl Wording {
    pub(super) fn wants(&self, event: &Event) -> bool {
        match self.events {
            SinkEvents::Results => event.ends(),
            SinkEvents::All => true,
        }
    }

    pub(super) fn message(&self, told: &SinkEvent) -> SinkMessage {
        let SinkEvent { job, event, outcome } = told;
        let body = EventBody::new(job, event, outcome.as_ref());
        let id = event.id(job.id).to_string();
        let key = job.execution_id(event.execution).map_or_else(|| job.id.to_string(), |id| id.to_string());
        let is_failure = body.word.is_failure();
        let envelope = CloudEvent {
            id: id.clone(),
            source: self.source.clone(),
            kind: body.word.cloud_event().to_owned(),
            subject: Some(job.id.to_string()),
            time: time::micros(event.at),
        };
        let value = Bytes::from(body.bytes);
        let (content_type, value, attributes) = match self.cloudevents {
            CloudEvents::Off => (body.media_type, value, Vec::new()),
            CloudEvents::Binary => (body.media_type, value, envelope.attributes()),
            CloudEvents::Structured => {
                (STRUCTURED_MEDIA_TYPE, envelope.structured(body.media_type, &value), Vec::new())
            }
        };
        SinkMessage {
            job: job.id,
            key,
            queue: encoded(job.head.queue.as_str()),
            queue_name: job.head.queue.as_str().to_owned(),
            attempt: event.attempt,
            event: words::event_name(event),
            id,
            content_type,
            language: is_failure.then(|| job.head.language.clone().unwrap_or_else(|| "en".to_owned())),
            traceparent: job.head.traceparent.clone(),
            attributes,
            body: value,
        }
    }
}

impl SinkMessage {
    /// All headers; CloudEvent attributes have the prefix of the broker.
    pub(super) fn headers(&self, prefix: &str) -> impl Iterator<Item = (String, &str)> {
        let fixed = [
            Some(("content-type", self.content_type)),
            self.language.as_deref().map(|language| ("content-language", language)),
            self.traceparent.as_deref().map(|traceparent| ("traceparent", traceparent)),
        ];
        let fixed = fixed.into_iter().flatten().map(|(name, value)| (name.to_owned(), value));
        let attributes =
            self.attributes.iter().map(move |(name, value)| (format!("{prefix}{name}"), value.as_str()));
        fixed.chain(attributes)
    }
}

/// A name without characters that are special to brokers: dots separate words, `*`, `>` and `#` are
/// wildcards.
fn encoded(name: &str) -> String {
    let encode = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' => char::from(byte).to_string(),
        _ => format!("%{byte:02X}"),
    };
    name.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::encoded;

    #[test]
    fn what_a_broker_gives_a_meaning_is_encoded() {
        for (name, expected) in [
            ("default", "default"),
            ("mail.out", "mail%2Eout"),
            ("a*b>c#d", "a%2Ab%3Ec%23d"),
            ("50%", "50%25"),
        ] {
            assert_eq!(encoded(name), expected);
        }
    }
}
