//! A collector of traces that reads OTLP over HTTP as strictly as its specification: every name, id
//! and number must be what the JSON encoding of `ExportTraceServiceRequest` says, and nothing else
//! may be there.

use std::time::Duration;

use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Far more than anything here takes, so that only a hang fails.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Export {
    resource_spans: Vec<ResourceSpans>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceSpans {
    resource: Resource,
    scope_spans: Vec<ScopeSpans>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Resource {
    attributes: Vec<Attribute>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<Span>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Scope {
    name: String,
    #[serde(rename = "version")]
    _version: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Span {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
    pub(crate) parent_span_id: Option<String>,
    pub(crate) name: String,
    pub(crate) kind: u8,
    start_time_unix_nano: String,
    end_time_unix_nano: String,
    attributes: Vec<Attribute>,
    pub(crate) status: Status,
    #[serde(default)]
    pub(crate) links: Vec<Link>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Status {
    #[serde(default)]
    pub(crate) code: u8,
    pub(crate) message: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Link {
    pub(crate) trace_id: String,
    pub(crate) span_id: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Attribute {
    key: String,
    value: AnyValue,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
enum AnyValue {
    StringValue(String),
    IntValue(String),
}

impl Span {
    pub(crate) fn attribute(&self, key: &str) -> Option<&str> {
        let attribute = self.attributes.iter().find(|attribute| attribute.key == key)?;
        match &attribute.value {
            AnyValue::StringValue(text) | AnyValue::IntValue(text) => Some(text),
        }
    }

    /// When it began and ended, in nanoseconds.
    pub(crate) fn span(&self) -> (u64, u64) {
        (self.start_time_unix_nano.parse().unwrap(), self.end_time_unix_nano.parse().unwrap())
    }

    fn check(&self) {
        let ids = [(Some(&self.trace_id), 32), (Some(&self.span_id), 16), (self.parent_span_id.as_ref(), 16)];
        for (id, length) in ids.into_iter().filter_map(|(id, length)| Some((id?, length))) {
            let hex = id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
            assert!(hex && id.len() == length && id.bytes().any(|byte| byte != b'0'), "{self:?}");
        }
        let (began, ended) = self.span();
        assert!(began > 1_700_000_000_000_000_000 && began <= ended, "{self:?}");
        assert!(!self.name.is_empty() && (1..=5).contains(&self.kind) && self.status.code <= 2, "{self:?}");
        for attribute in &self.attributes {
            if let AnyValue::IntValue(number) = &attribute.value {
                number.parse::<i64>().unwrap();
            }
        }
    }
}

/// What servers send to.
pub(crate) struct Collector {
    pub(crate) endpoint: String,
    batches: mpsc::Receiver<(String, Vec<Span>)>,
    pub(crate) spans: Vec<Span>,
    /// Every body as it came.
    pub(crate) raw: String,
}

impl Collector {
    pub(crate) async fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let endpoint = format!("http://{}/otlp", listener.local_addr().unwrap());
        let (sender, batches) = mpsc::channel(1000);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                let batch = receive(connection).await;
                if sender.send(batch).await.is_err() {
                    return;
                }
            }
        });
        Collector { endpoint, batches, spans: Vec::new(), raw: String::new() }
    }

    /// Takes spans until there are enough of them.
    pub(crate) async fn until(&mut self, enough: impl Fn(&[Span]) -> bool) {
        while !enough(&self.spans) {
            let batch = timeout(PATIENCE, self.batches.recv()).await;
            let batch = batch.unwrap_or_else(|_| panic!("nothing but {:#?}", self.spans));
            let (raw, spans) = batch.expect("the collector broke on what it was sent");
            self.raw += &raw;
            self.spans.extend(spans);
        }
    }

    /// The spans of a trace, in the order of their beginning.
    pub(crate) fn trace(&self, id: &str) -> Vec<Span> {
        let mut spans: Vec<Span> = self.spans.iter().filter(|span| span.trace_id == id).cloned().collect();
        spans.sort_by_key(Span::span);
        spans
    }

    /// The only span with this name in the trace.
    #[track_caller]
    pub(crate) fn only(&self, trace: &str, name: &str) -> Span {
        let mut found = self.trace(trace);
        found.retain(|span| span.name == name);
        assert_eq!(found.len(), 1, "{name} in {:#?}", self.trace(trace));
        found.remove(0)
    }
}

/// One request, answered as a collector does.
async fn receive(mut connection: TcpStream) -> (String, Vec<Span>) {
    let mut bytes = Vec::new();
    let (head, mut body) = loop {
        assert_ne!(connection.read_buf(&mut bytes).await.unwrap(), 0, "a request that ends early");
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end {
            let body = bytes.split_off(end + 4);
            break (String::from_utf8(bytes).unwrap(), body);
        }
    };
    assert!(head.starts_with("POST /otlp/v1/traces HTTP/1.1\r\nhost: 127.0.0.1:"), "{head}");
    assert!(head.contains("\r\ncontent-type: application/json\r\n"), "{head}");
    let length = head.split("content-length: ").nth(1).unwrap().split("\r\n").next().unwrap();
    let length: usize = length.parse().unwrap();
    while body.len() < length {
        assert_ne!(connection.read_buf(&mut body).await.unwrap(), 0, "a body that ends early");
    }
    let answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 2\r\n\r\n{}";
    connection.write_all(answer).await.unwrap();
    let raw = String::from_utf8(body).unwrap();
    let spans = read(&raw);
    (raw, spans)
}

fn read(raw: &str) -> Vec<Span> {
    let export: Export = serde_json::from_str(raw).unwrap_or_else(|error| panic!("{error} in {raw}"));
    let mut spans = Vec::new();
    for of_resource in export.resource_spans {
        let name = &of_resource.resource.attributes[0];
        assert_eq!(name.key, "service.name");
        assert!(matches!(&name.value, AnyValue::StringValue(name) if name == "forgerun"), "{name:?}");
        for of_scope in of_resource.scope_spans {
            assert_eq!(of_scope.scope.name, "forgerun");
            spans.extend(of_scope.spans);
        }
    }
    spans.iter().for_each(Span::check);
    spans
}
