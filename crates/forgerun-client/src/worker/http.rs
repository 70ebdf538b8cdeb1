//! Work that is done behind a URL: each job is a POST of its input, and the answer says how it went.
//!
//! 2xx succeeds with the body as result. A problem object fails as its members say. 429 and 503 ask for a retry; other 4xx fail for
//! good; other 5xx, and no answer, ask for a retry.

use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use forgerun_problem::read::Reader;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use url::Url;

use super::handler::{Context, Failure, Handler, Output};
use super::spool::{Spool, SpoolError};
use crate::error::{Error, parse_retry_after};
use crate::limits::{ERROR_BYTES_MAX, HTTP_WORK_MAX, OUTPUT_BYTES_MAX};
use crate::ojs::ClaimedJob;
use crate::transport::{Answer, Body, Bounds, Class, Connector, Transport};

/// What is signed: the id of the message, the seconds since 1970, the body. Gives the value of `webhook-signature`.
pub type Sign = Arc<dyn Fn(&str, i64, &[u8]) -> String + Send + Sync>;

/// Does jobs by calling a URL.
#[derive(Clone)]
pub struct HttpHandler {
    url: Url,
    transport: Arc<Transport>,
    sign: Option<Sign>,
    envelope: bool,
}

impl HttpHandler {
    /// Calls this URL, for at most so many jobs at once, signed after Standard Webhooks if `sign` is given.
    ///
    /// # Errors
    /// [`Error::Usage`] if the URL will not do.
    pub fn new(url: &str, concurrency: usize, sign: Option<Sign>) -> Result<HttpHandler, Error> {
        let parsed = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"));
        let url = parsed.ok_or_else(|| Error::Usage(format!("{url:?} is no http or https URL")))?;
        let bounds = Bounds { connections: concurrency, streams: concurrency, timeout: HTTP_WORK_MAX };
        Ok(HttpHandler {
            url,
            transport: Arc::new(Transport::new(Connector::new(None), bounds)),
            sign,
            envelope: false,
        })
    }

    /// Whether to post `{"job", "input", "parents"}` instead of the bare input.
    #[must_use]
    pub fn envelope(mut self, envelope: bool) -> HttpHandler {
        self.envelope = envelope;
        self
    }

    async fn call(&self, job: &ClaimedJob, context: &Context) -> Result<Output, Failure> {
        let now = context.client.clock().now();
        let request = self.request(job, now)?;
        let sent = tokio::select! {
            sent = self.transport.send(request, Class::Short) => sent,
            _ = context.canceled() => return Err(Failure::new("the job was cancelled")),
        };
        let mut answer = sent.map_err(|error| Failure::new(error.to_string()).retry().class("NoAnswer"))?;
        if !answer.status.is_success() {
            return Err(refusal(answer, now).await);
        }
        let content_type = Some(answer.content_type().to_owned()).filter(|text| !text.is_empty());
        let mut spool = Spool::new(OUTPUT_BYTES_MAX);
        loop {
            let broken = |reason: String| Failure::new(format!("the answer broke off: {reason}")).retry();
            let Some(chunk) = answer.chunk().await.map_err(broken)? else { break };
            spool.write(&chunk).await.map_err(|error| match error {
                SpoolError::TooLarge => {
                    Failure::new(format!("the answer has more than {OUTPUT_BYTES_MAX} bytes")).never_again()
                }
                SpoolError::Disk(error) => Failure::new(error.to_string()).retry(),
            })?;
        }
        Ok(spool.finish(content_type.as_deref()).await?)
    }

    fn request(&self, job: &ClaimedJob, now: SystemTime) -> Result<Request<Body>, Failure> {
        let body = match self.envelope {
            true => enveloped(job)?.into(),
            false => Bytes::copy_from_slice(job.input().as_bytes()),
        };
        let mut headers = HeaderMap::new();
        let mut put = |name: &'static str, value: &str| {
            // What cannot be a header is left out; the body says it all.
            if let Ok(value) = HeaderValue::try_from(value) {
                headers.insert(HeaderName::from_static(name), value);
            }
        };
        put("forgerun-job-id", &job.id);
        put("forgerun-job-type", &job.job_type);
        put("forgerun-queue", &job.queue);
        put("forgerun-attempt", &job.attempt.to_string());
        if let Some(trace) = job.traceparent() {
            put("traceparent", trace);
        }
        if let Some(sign) = &self.sign {
            let id = format!("{}-{}", job.id, job.attempt);
            let seconds = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs() as i64;
            put("webhook-id", &id);
            put("webhook-timestamp", &seconds.to_string());
            put("webhook-signature", &sign(&id, seconds, &body));
        }
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(ACCEPT, HeaderValue::from_static("*/*"));
        headers.insert(
            USER_AGENT,
            HeaderValue::from_static(concat!("forgerun-client/", env!("CARGO_PKG_VERSION"))),
        );
        let mut request = Request::new(Body::whole(body));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.url.as_str().parse().map_err(Failure::from)?;
        *request.headers_mut() = headers;
        Ok(request)
    }
}

impl Handler for HttpHandler {
    fn run(
        &self,
        job: ClaimedJob,
        context: Context,
    ) -> Pin<Box<dyn Future<Output = Result<Output, Failure>> + Send>> {
        let handler = self.clone();
        Box::pin(async move { handler.call(&job, &context).await })
    }
}

/// A job with its input and the results of the steps that it waited for.
fn enveloped(job: &ClaimedJob) -> Result<Vec<u8>, Failure> {
    #[derive(Serialize)]
    struct Envelope<'a> {
        job: Value,
        input: &'a RawValue,
        parents: BTreeMap<&'a str, Option<&'a RawValue>>,
    }
    let facts = json!({"id": job.id, "type": job.job_type, "queue": job.queue, "attempt": job.attempt});
    let input: &RawValue = serde_json::from_str(job.input())?;
    Ok(serde_json::to_vec(&Envelope { job: facts, input, parents: job.parents() })?)
}

async fn refusal(answer: Answer, now: SystemTime) -> Failure {
    let content_type = answer.content_type().to_owned();
    let after = answer.header(RETRY_AFTER).and_then(|text| parse_retry_after(text, now));
    let status = answer.status;
    let body = answer.bytes(ERROR_BYTES_MAX).await.map(|(_, _, body)| body).unwrap_or_default();
    judge(status, &content_type, after, &body)
}

/// What an answer that is no success means.
fn judge(status: StatusCode, content_type: &str, after: Option<Duration>, body: &[u8]) -> Failure {
    let read = Reader::new().response(status.as_u16(), content_type, body).ok().flatten();
    let problem = read.map(|read| read.reading.problem);
    let again = matches!(status.as_u16(), 429 | 503) || status.is_server_error();
    let said = problem.as_ref().and_then(|problem| problem.job().retryable());
    let text = problem.as_ref().and_then(|problem| problem.detail().or_else(|| problem.title()));
    let failure = Failure::new(text.map_or_else(|| format!("the answer was {status}"), str::to_owned));
    let failure = failure.class(format!("http.{}", status.as_u16())).detail("status", status.as_u16());
    let failure = match said.unwrap_or(again) {
        true => failure.retry(),
        false => failure.never_again(),
    };
    let member = problem.as_ref().and_then(|problem| problem.job().retry_after_s());
    match member.map(Duration::from_secs).or(after) {
        Some(wait) => failure.retry_after(wait),
        None => failure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::worker::RetryAdvice;

    #[test]
    fn the_answer_decides_whether_the_job_is_tried_again() {
        let problem = "application/problem+json";
        for (status, content_type, body, retry, message) in [
            (400, "", "", RetryAdvice::Never, "the answer was 400 Bad Request"),
            (404, "text/html", "<html>", RetryAdvice::Never, "the answer was 404 Not Found"),
            (429, "", "", RetryAdvice::Retry, "the answer was 429 Too Many Requests"),
            (503, "", "", RetryAdvice::Retry, "the answer was 503 Service Unavailable"),
            (500, "", "", RetryAdvice::Retry, "the answer was 500 Internal Server Error"),
            (302, "", "", RetryAdvice::Never, "the answer was 302 Found"),
            (500, problem, r#"{"detail":"no paper","retryable":false}"#, RetryAdvice::Never, "no paper"),
            (422, problem, r#"{"title":"Busy","retryable":true}"#, RetryAdvice::Retry, "Busy"),
            (422, problem, r#"{"title":"Wrong"}"#, RetryAdvice::Never, "Wrong"),
        ] {
            let failure = judge(StatusCode::from_u16(status).unwrap(), content_type, None, body.as_bytes());
            assert_eq!((failure.retry, failure.message.as_str()), (retry, message), "{status} {body}");
        }
        let after = judge(StatusCode::TOO_MANY_REQUESTS, "", Some(Duration::from_secs(7)), b"");
        assert_eq!(after.retry_after, Some(Duration::from_secs(7)));
        let member =
            judge(StatusCode::SERVICE_UNAVAILABLE, problem, None, br#"{"title":"Busy","retryAfter":2}"#);
        assert_eq!(member.retry_after, Some(Duration::from_secs(2)));
    }
}
