//! A small HTTP client: one connection per request, every header visible.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Far more than anything here takes, so that only a hang fails.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request about to be sent.
#[derive(Clone)]
pub(crate) struct Call {
    address: SocketAddr,
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Call {
    pub(crate) fn new(address: SocketAddr, method: &str, path: &str) -> Call {
        Call { address, method: method.into(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Call {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Call {
        self.headers.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self
    }

    /// A JSON body, said to be one.
    pub(crate) fn json(self, body: impl ToString) -> Call {
        self.header("content-type", "application/json").body(body.to_string())
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Call {
        self.body = body.into();
        self
    }

    /// Whether it only looks.
    pub(crate) fn is_read(&self) -> bool {
        self.method == "GET"
    }

    pub(crate) async fn send(&self) -> Answer {
        timeout(PATIENCE, self.exchange()).await.expect("an answer in time")
    }

    async fn exchange(&self) -> Answer {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        let mut head = format!("{} {} HTTP/1.1\r\nconnection: close\r\n", self.method, self.path);
        if !self.headers.iter().any(|(name, _)| name == "host") {
            head += "host: localhost\r\n";
        }
        for (name, value) in &self.headers {
            head += &format!("{name}: {value}\r\n");
        }
        let says_length = |(name, _): &(String, String)| {
            name.eq_ignore_ascii_case("content-length") || name.eq_ignore_ascii_case("transfer-encoding")
        };
        if !self.body.is_empty() && !self.headers.iter().any(says_length) {
            head += &format!("content-length: {}\r\n", self.body.len());
        }
        let request = [head.as_bytes(), b"\r\n", &self.body].concat();
        // A server that refuses early may stop reading; its answer is there all the same.
        let _ = connection.write_all(&request).await;
        let mut bytes = Vec::new();
        let _ = connection.read_to_end(&mut bytes).await;
        Answer::parse(&bytes)
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn parse(bytes: &[u8]) -> Answer {
        let end = bytes.windows(4).position(|window| window == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| panic!("no answer but {:?}", String::from_utf8_lossy(bytes)));
        let head = std::str::from_utf8(&bytes[..end]).unwrap();
        let mut lines = head.split("\r\n");
        let status = lines.next().unwrap().split(' ').nth(1).unwrap().parse().unwrap();
        let header = |line: &str| {
            let (name, value) = line.split_once(':').unwrap();
            (name.to_ascii_lowercase(), value.trim().to_owned())
        };
        Answer { status, headers: lines.map(header).collect(), body: bytes[end + 4..].to_vec() }
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|_| panic!("not JSON: {self:?}"))
    }

    /// The body, if the status is the expected one.
    #[track_caller]
    pub(crate) fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", String::from_utf8_lossy(&self.body));
        self.json()
    }

    /// The body of a refusal, which must be a whole problem.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, code: &str) -> Value {
        let problem = self.expect(status);
        assert_eq!(self.header("content-type"), Some("application/problem+json"));
        assert_eq!(self.header("cache-control"), Some("no-store"));
        assert_eq!(self.header("content-language"), Some("en"));
        assert_eq!(problem["status"], status, "{problem}");
        assert_eq!(problem["code"], code, "{problem}");
        assert_eq!(problem["rfa_code"], code);
        for member in ["type", "title", "detail", "instance", "ojs_code", "message", "doc_url"] {
            assert!(problem[member].is_string(), "{member} in {problem}");
        }
        assert!(problem["retryable"].is_boolean() && problem["details"].is_object(), "{problem}");
        let instance = format!("urn:uuid:{}", self.header("x-request-id").unwrap());
        assert_eq!(problem["instance"], instance);
        assert_eq!(self.header("www-authenticate"), (status == 401).then_some("Bearer"));
        assert_eq!(self.header("allow").is_some(), status == 405);
        if matches!(status, 429 | 503) {
            assert!(self.header("retry-after").unwrap().parse::<u64>().unwrap() >= 1);
        }
        if status == 429 {
            self.tells_the_limit(&problem["details"]);
        }
        problem
    }
}

impl Answer {
    /// Whoever is told to slow down is told how much is allowed, over which span, and when to ask
    /// again.
    #[track_caller]
    pub(crate) fn tells_the_limit(&self, details: &Value) {
        assert!(details["limit"].as_u64().is_some_and(|limit| limit > 0), "{details}");
        assert!(["60s", "at once", "in all"].contains(&details["window"].as_str().unwrap()), "{details}");
        let after_s = self.header("retry-after").unwrap();
        assert_eq!(details["retry_after_seconds"].to_string(), after_s, "{details}");
    }
}

/// The value with everything that differs from run to run named instead.
pub(crate) fn shape(value: Value) -> Value {
    match value {
        Value::String(text) => Value::String(shape_of_text(&text)),
        Value::Array(items) => Value::Array(items.into_iter().map(shape).collect()),
        Value::Object(members) => {
            Value::Object(members.into_iter().map(|(name, value)| (name, shape(value))).collect())
        }
        other => other,
    }
}

fn shape_of_text(text: &str) -> String {
    if text.parse::<forgerun_core::id::JobId>().is_ok() {
        return "<id>".into();
    }
    match (forgerun_wire::time::parse(text), text.len()) {
        (Some(_), 24) => "<ms>".into(),
        (Some(_), 27) => "<us>".into(),
        (_, _) => text.to_owned(),
    }
}
