//! A request and its answer, for display.

use serde_json::{Map, Value};
use url::Url;

use super::run::Ask;
use crate::http::Answer;
use crate::limits::SHOWN_CHARS_MAX;

/// A request and its answer.
#[derive(Clone, Debug)]
pub(super) struct Exchange {
    request: String,
    pub(super) answer: Answer,
    object: Map<String, Value>,
}

/// Header fields of an answer that are shown.
const SHOWN: [&str; 8] = [
    "content-type",
    "location",
    "retry-after",
    "problem",
    "link",
    "allow",
    "www-authenticate",
    "x-correlation-id",
];

impl Exchange {
    pub(super) fn new(ask: &Ask, url: &Url, answer: Answer) -> Exchange {
        let path = url.query().map_or(url.path().to_owned(), |query| format!("{}?{query}", url.path()));
        let mut request = format!("{} {path}", ask.method);
        for (name, value) in &ask.headers {
            request += &format!("\n{name}: {value}");
        }
        if let Some(body) = &ask.body {
            request += &format!("\n\n{}", String::from_utf8_lossy(body));
        }
        let object = answer.object();
        Exchange { request: cut(&request), answer, object }
    }

    pub(super) fn status(&self) -> u16 {
        self.answer.status
    }

    pub(super) fn header(&self, name: &str) -> &str {
        self.answer.header(name)
    }

    /// The body as a JSON object; empty if it is not one.
    pub(super) fn object(&self) -> &Map<String, Value> {
        &self.object
    }

    /// A text member; empty if it is missing or not text.
    pub(super) fn text(&self, name: &str) -> &str {
        self.object.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// The request, without the key.
    pub(super) fn sent(&self) -> String {
        self.request.clone()
    }

    /// The answer: status, relevant header fields, body.
    pub(super) fn got(&self) -> String {
        let mut got = format!("{}", self.answer.status);
        for name in SHOWN {
            if let Some(value) = self.answer.headers.get(name) {
                got += &format!("\n{name}: {}", String::from_utf8_lossy(value.as_bytes()));
            }
        }
        if !self.answer.body.is_empty() {
            got += &format!("\n\n{}", String::from_utf8_lossy(&self.answer.body));
        }
        cut(&got)
    }
}

fn cut(text: &str) -> String {
    match text.char_indices().nth(SHOWN_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
