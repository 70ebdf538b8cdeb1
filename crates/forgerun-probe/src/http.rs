//! Plain HTTP/1.1: one request, one answer, any status. No redirects, retries or decompression.

use std::time::Duration;

use bytes::Bytes;
use forgerun_client::Unreachable;
use forgerun_client::raw::Connector;
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Request, Uri};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use serde_json::{Map, Value};
use tokio::time::timeout;

use crate::limits::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT};

/// A complete answer.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    /// A header field; empty if it is missing or not text.
    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The media type without parameters, in lower case.
    pub(crate) fn media_type(&self) -> String {
        let essence = self.header("content-type").split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    }

    /// The body as a JSON object; empty if it is not one.
    pub(crate) fn object(&self) -> Map<String, Value> {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

/// Sends a request to the host of its address, on a connection of its own.
pub(crate) async fn exchange(
    connector: &Connector,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Unreachable> {
    let host = request.uri().authority().map(ToString::to_string).unwrap_or_default();
    match timeout(ANSWER_TIMEOUT, exchange_unbounded(connector, request)).await {
        Ok(answer) => answer,
        Err(_) => Err(broken(&host, &format!("no answer within {}", seconds(ANSWER_TIMEOUT)))),
    }
}

async fn exchange_unbounded(
    connector: &Connector,
    request: Request<Full<Bytes>>,
) -> Result<Answer, Unreachable> {
    let uri = request.uri().clone();
    let host = uri.authority().map(ToString::to_string).unwrap_or_default();
    let failed = |error: &dyn std::error::Error| broken(&host, &innermost(error));
    let stream = connector.open(&uri).await?;
    let (mut requests, connection) = http1::handshake(stream).await.map_err(|error| failed(&error))?;
    // Connection errors are reported through the request below.
    let driver = tokio::spawn(connection);
    let answer = async {
        let response = requests.send_request(in_origin_form(request, &host)).await?;
        let (head, body) = response.into_parts();
        let body = Limited::new(body, ANSWER_BYTES_MAX).collect().await?.to_bytes();
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(Answer {
            status: head.status.as_u16(),
            headers: head.headers,
            body,
        })
    };
    let answer = answer.await;
    driver.abort();
    answer.map_err(|error| failed(error.as_ref()))
}

/// In origin form: the path in the request line, the host in a field.
fn in_origin_form(mut request: Request<Full<Bytes>>, host: &str) -> Request<Full<Bytes>> {
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    *request.uri_mut() = path.parse::<Uri>().unwrap_or_default();
    if let Ok(host) = HeaderValue::from_str(host) {
        request.headers_mut().entry(HOST).or_insert(host);
    }
    request
}

fn broken(host: &str, reason: &str) -> Unreachable {
    Unreachable::new(host, reason, true)
}

/// The innermost cause, which has the details.
fn innermost(error: &dyn std::error::Error) -> String {
    let mut error = error;
    while let Some(source) = error.source() {
        error = source;
    }
    error.to_string()
}

fn seconds(span: Duration) -> String {
    format!("{} s", span.as_secs())
}
