//! Spans as OTLP 1.x JSON: an `ExportTraceServiceRequest` with names in lowerCamelCase, ids in hex,
//! and 64-bit numbers as text.

use forgerun_core::time::Time;
use serde_json::{Value as Json, json};

use super::span::{AttributeValue, Span, SpanName};

/// The status of a request answered with 5xx; the log has the reason, under the request id.
pub(super) const SERVER_FAULT: &str = "the server could not do it";

const ERROR: u8 = 2;

/// The body of one request to a collector.
pub(super) fn document(spans: &[Span]) -> Vec<u8> {
    let version = env!("CARGO_PKG_VERSION");
    let document = json!({
        "resourceSpans": [{
            "resource": {"attributes": [
                {"key": "service.name", "value": {"stringValue": "forgerun"}},
                {"key": "service.version", "value": {"stringValue": version}},
            ]},
            "scopeSpans": [{
                "scope": {"name": "forgerun", "version": version},
                "spans": spans.iter().map(span).collect::<Vec<_>>(),
            }],
        }],
    });
    document.to_string().into_bytes()
}

fn span(span: &Span) -> Json {
    let name = match span.name {
        SpanName::Step(name) => name.to_owned(),
        SpanName::Request(method, route) => format!("{method} {route}"),
    };
    let mut json = json!({
        "traceId": trace_id(span.trace),
        "spanId": span_id(span.id),
        "name": name,
        "kind": span.kind as u8,
        "startTimeUnixNano": nanos(span.began),
        // If the clock went back, a span must not end before it began.
        "endTimeUnixNano": nanos(span.ended.max(span.began)),
        "attributes": span.attributes.iter().map(attribute).collect::<Vec<_>>(),
        "status": {},
    });
    if let Some(parent) = span.parent {
        json["parentSpanId"] = span_id(parent).into();
    }
    if let Some((trace, id)) = span.link {
        json["links"] = json!([{"traceId": trace_id(trace), "spanId": span_id(id)}]);
    }
    if let Some(error) = span.error {
        json["status"] = json!({"code": ERROR, "message": error});
    }
    json
}

fn attribute((key, value): &(&'static str, AttributeValue)) -> Json {
    let value = match value {
        AttributeValue::Word(word) => json!({"stringValue": word}),
        AttributeValue::Text(text) => json!({"stringValue": text}),
        AttributeValue::Number(number) => json!({"intValue": number.to_string()}),
    };
    json!({"key": key, "value": value})
}

fn trace_id(id: u128) -> String {
    format!("{id:032x}")
}

fn span_id(id: u64) -> String {
    format!("{id:016x}")
}

fn nanos(time: Time) -> String {
    let nanos = i128::from(time.as_micros().max(0)) * 1000;
    nanos.to_string()
}
