//! CloudEvents 1.0 over HTTP: the body within an envelope (structured mode), or with envelope
//! headers (binary mode).

use axum::http::{HeaderName, HeaderValue};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde::Serialize;
use serde_json::value::RawValue;

/// Media type of an event in structured mode.
pub const STRUCTURED_MEDIA_TYPE: &str = "application/cloudevents+json";

/// The envelope of a body.
#[derive(Clone, Debug)]
pub struct CloudEvent {
    /// Unique together with the source: receivers detect repetitions by it.
    pub id: String,
    /// The public address of the server.
    pub source: String,
    /// `dev.forgerun.job.…`
    pub kind: String,
    pub subject: Option<String>,
    /// In RFC 3339.
    pub time: String,
}

#[derive(Serialize)]
struct StructuredCloudEvent<'a> {
    specversion: &'static str,
    id: &'a str,
    source: &'a str,
    r#type: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    subject: Option<&'a str>,
    time: &'a str,
    datacontenttype: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    data: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    data_base64: Option<String>,
}

const SPECVERSION: &str = "1.0";

impl CloudEvent {
    /// The body within the envelope. JSON stays JSON, byte for byte.
    pub fn structured(&self, content_type: &str, body: &[u8]) -> Bytes {
        let json = content_type.split(';').next().is_some_and(|essence| essence.trim().ends_with("json"));
        let data = if json { serde_json::from_slice::<&RawValue>(body).ok() } else { None };
        let document = StructuredCloudEvent {
            specversion: SPECVERSION,
            id: &self.id,
            source: &self.source,
            r#type: &self.kind,
            subject: self.subject.as_deref(),
            time: &self.time,
            datacontenttype: content_type,
            data,
            data_base64: data.is_none().then(|| STANDARD.encode(body)),
        };
        serde_json::to_vec(&document).expect("text and raw JSON can be written").into()
    }

    /// The attributes of the envelope, for brokers whose headers take any text.
    pub fn attributes(&self) -> Vec<(&'static str, String)> {
        let subject = self.subject.clone().map(|subject| ("subject", subject));
        let fixed = [
            ("specversion", SPECVERSION.to_owned()),
            ("id", self.id.clone()),
            ("source", self.source.clone()),
            ("type", self.kind.clone()),
            ("time", self.time.clone()),
        ];
        fixed.into_iter().chain(subject).collect()
    }

    /// The envelope as headers, with an unchanged body.
    pub fn headers(&self) -> Vec<(HeaderName, HeaderValue)> {
        let subject = self.subject.as_deref().map(|subject| ("ce-subject", subject));
        let fixed = [
            ("ce-specversion", SPECVERSION),
            ("ce-id", self.id.as_str()),
            ("ce-source", self.source.as_str()),
            ("ce-type", self.kind.as_str()),
            ("ce-time", self.time.as_str()),
        ];
        let header = |(name, value): (&'static str, &str)| {
            (HeaderName::from_static(name), HeaderValue::try_from(percent_encoded(value)).expect("ASCII"))
        };
        fixed.into_iter().chain(subject).map(header).collect()
    }
}

/// As in the HTTP binding: encodes everything that is not printable ASCII, and blanks, quotes and
/// percent signs.
fn percent_encoded(value: &str) -> String {
    let encode = |byte: u8| match byte {
        b'"' | b'%' | 0..=b' ' | 0x7f.. => format!("%{byte:02X}"),
        _ => char::from(byte).to_string(),
    };
    value.bytes().map(encode).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope() -> CloudEvent {
        CloudEvent {
            id: "e-1".into(),
            source: "https://jobs.example.org".into(),
            kind: "dev.forgerun.job.failed".into(),
            subject: Some("j-1".into()),
            time: "2026-01-01T00:00:00.000000Z".into(),
        }
    }

    #[test]
    fn a_structured_event_holds_the_body_byte_for_byte() {
        let body = br#"{ "b":1,"a":1.50 }"#;
        let text = envelope().structured("application/problem+json", body);
        let expected = r#"{"specversion":"1.0","id":"e-1","source":"https://jobs.example.org","type":"dev.forgerun.job.failed","subject":"j-1","time":"2026-01-01T00:00:00.000000Z","datacontenttype":"application/problem+json","data":{ "b":1,"a":1.50 }}"#;
        assert_eq!(text, expected);
    }

    #[test]
    fn a_body_that_is_no_json_is_wrapped_as_base64() {
        let text = envelope().structured("text/plain", b"hello");
        let event: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!((&event["data_base64"], event.get("data")), (&"aGVsbG8=".into(), None));
    }

    #[test]
    fn a_binary_event_has_its_envelope_in_headers() {
        let envelope = CloudEvent { source: "/fo\u{f6} \"%".into(), ..envelope() };
        let headers = envelope.headers();
        let header = |name: &str| {
            let found = headers.iter().find(|(header, _)| header == name);
            found.map(|(_, value)| value.to_str().unwrap().to_owned())
        };
        assert_eq!(header("ce-specversion").as_deref(), Some("1.0"));
        assert_eq!(header("ce-type").as_deref(), Some("dev.forgerun.job.failed"));
        assert_eq!(header("ce-source").as_deref(), Some("/fo%C3%B6%20%22%25"));
        assert_eq!(header("ce-subject").as_deref(), Some("j-1"));
        assert_eq!(headers.len(), 6);
    }
}
