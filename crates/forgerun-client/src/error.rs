//! Why a call failed, typed by category: what a program wants to `match` on.

use std::fmt;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use forgerun_problem::Problem;
use forgerun_problem::read::Reader;
use http::header::RETRY_AFTER;
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::codes::{Category, Report, is_retryable};

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The input must be corrected first.
    #[error("{0}")]
    Validation(Box<ApiError>),
    /// Something that exists already stands in the way.
    #[error("{0}")]
    Conflict(Box<ApiError>),
    /// Credentials or rights are missing.
    #[error("{0}")]
    Auth(Box<ApiError>),
    /// A limit, a queue, or something that is not there.
    #[error("{0}")]
    Resource(Box<ApiError>),
    /// The run of a job went wrong.
    #[error("{0}")]
    Execution(Box<ApiError>),
    /// The server, or something it needs, failed.
    #[error("{0}")]
    Backend(Box<ApiError>),
    /// The server reported a code that is not known here.
    #[error("{0}")]
    Unknown(Box<ApiError>),
    /// No answer came.
    #[error("{0}")]
    Unreachable(Unreachable),
    /// The job did not end within the time that the wait was given. It goes on; ask again.
    #[error("the job {job_id} did not end within {} s", waited.as_secs())]
    TimedOut {
        /// Which job.
        job_id: String,
        /// How long it was waited for.
        waited: Duration,
    },
    /// The server answered something that cannot be understood.
    #[error("could not understand the server: {0}")]
    Protocol(String),
    /// A file on this machine could not be written.
    #[error("could not write {}: {reason}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        reason: String,
    },
    /// The call itself is wrong; nothing was sent.
    #[error("{0}")]
    Usage(String),
}

/// No answer came.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unreachable {
    /// Host and port that were asked.
    pub host: String,
    /// What went wrong.
    pub reason: String,
    /// Whether the request may have reached the server all the same.
    pub maybe_sent: bool,
    /// The address to use instead, where the server speaks http and not https, or the other way round.
    pub other_scheme: Option<String>,
}

impl Unreachable {
    /// No answer came from this host.
    pub fn new(host: impl Into<String>, reason: impl Into<String>, maybe_sent: bool) -> Unreachable {
        Unreachable { host: host.into(), reason: reason.into(), maybe_sent, other_scheme: None }
    }
}

impl fmt::Display for Unreachable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unreachable { host, reason, .. } = self;
        match &self.other_scheme {
            Some(url) if url.starts_with("http:") => {
                write!(f, "the server at {host} answers plain http; use {url}")
            }
            Some(url) => {
                write!(f, "the server at {host} does not answer plain http; if it speaks TLS, use {url}")
            }
            None if host.is_empty() => write!(f, "the connection broke: {reason}"),
            None => write!(f, "could not reach {host}: {reason}"),
        }
    }
}

/// What the server said about a request that failed, or about a job that did.
#[derive(Clone, Debug)]
pub struct ApiError {
    /// The HTTP status; `None` for what did not come over HTTP.
    pub status: Option<u16>,
    /// The group of the error.
    pub category: Category,
    /// The code as the server wrote it; `HTTP_` and the status where there was none.
    pub code: String,
    /// The canonical code of the Open Job Spec, where there is one.
    pub canonical: Option<String>,
    /// What happened, in English.
    pub message: String,
    /// Facts about it.
    pub details: Map<String, Value>,
    /// Whether the same request may succeed later. Never true for errors of the caller.
    pub retryable: bool,
    /// How long to wait before that.
    pub retry_after: Option<Duration>,
    /// The whole problem object, as far as the answer was one.
    pub problem: Problem,
    /// What an operator finds the request by.
    pub request_id: Option<String>,
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.message, self.code)
    }
}

impl ApiError {
    /// Reads the answer to a request that failed. The code in the body decides; without one the HTTP status only groups it.
    pub(crate) fn of_answer(
        status: StatusCode,
        headers: &HeaderMap,
        body: &[u8],
        now: SystemTime,
    ) -> ApiError {
        let value = serde_json::from_slice::<Value>(body).unwrap_or_default();
        let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
        let content_type = text(http::header::CONTENT_TYPE).unwrap_or_default();
        let reader = Reader::new();
        let read = match reader.response(status.as_u16(), content_type, body) {
            Ok(Some(read)) => Some(read.reading.problem),
            Ok(None) | Err(_) => reader.json(body).ok().map(|reading| reading.problem),
        };
        let report = match (&value, &read) {
            // What came as XML is read into the same model.
            (Value::Null, Some(problem)) => {
                Report::from_json(&serde_json::to_value(problem).unwrap_or_default())
            }
            (value, _) => Report::from_json(value),
        };
        let after = text(RETRY_AFTER).and_then(|text| parse_retry_after(text, now));
        let mut error = ApiError::of_report(report, Some(status.as_u16()));
        error.retry_after = after.or(error.retry_after);
        error.problem = read.unwrap_or_default();
        error.request_id = text(HeaderName::from_static("x-request-id")).map(str::to_owned);
        error
    }

    /// The error behind a problem that is part of an answer.
    pub(crate) fn of_problem(problem: Option<&RawValue>, status: u16) -> ApiError {
        let text = problem.map_or("{}", RawValue::get);
        let value = serde_json::from_str::<Value>(text).unwrap_or_default();
        let mut error = ApiError::of_report(Report::from_json(&value), Some(status));
        error.problem =
            Reader::new().json(text.as_bytes()).map(|reading| reading.problem).unwrap_or_default();
        error
    }

    /// The error behind a report that some binding carried.
    pub fn of_report(report: Report, status: Option<u16>) -> ApiError {
        let category = report.category().unwrap_or_else(|| category_of_status(status));
        // Without a code the status stands in for one: only where waiting helps.
        let said = report.retryable.or_else(|| match report.code {
            Some(_) => None,
            None => status.map(|status| matches!(status, 408 | 425 | 429 | 500 | 502..=504)),
        });
        let code = report.code.unwrap_or_else(|| match status {
            Some(status) => format!("HTTP_{status}"),
            None => "UNKNOWN".to_owned(),
        });
        let reason = status.and_then(|status| StatusCode::from_u16(status).ok()?.canonical_reason());
        ApiError {
            status,
            category,
            retryable: is_retryable(category, report.canonical.as_deref(), said),
            message: report
                .message
                .or(reason.map(str::to_owned))
                .unwrap_or_else(|| "no reason given".to_owned()),
            code,
            canonical: report.canonical,
            details: report.details,
            retry_after: report.retry_after,
            problem: Problem::default(),
            request_id: None,
        }
    }

    /// The error behind a job that ended without success: in this state, with this problem object. `None` if it left none.
    pub(crate) fn of_job(state: &str, problem: Option<&[u8]>) -> ApiError {
        let value = problem.and_then(|bytes| serde_json::from_slice::<Value>(bytes).ok());
        let mut report = Report::from_json(&value.unwrap_or_default());
        report.message.get_or_insert_with(|| format!("the job ended as {state}"));
        let mut error = ApiError::of_report(report, None);
        let reading = problem.and_then(|bytes| Reader::new().json(bytes).ok());
        error.problem = reading.map(|reading| reading.problem).unwrap_or_default();
        // Whatever went wrong, it is the job that failed, and not this request.
        error.category = Category::Execution;
        if state == "CANCELED" {
            error.canonical = Some("JOB_CANCELLED".to_owned());
        }
        error
    }

    /// The name of the error's class in the SDKs of other languages: `ConflictError`, `JobFailed`.
    pub fn class(&self) -> &'static str {
        match (self.category, self.canonical.as_deref()) {
            (Category::Validation, _) => "ValidationError",
            (Category::Conflict, _) => "ConflictError",
            (Category::Auth, _) => "AuthError",
            (Category::Resource, _) => "ResourceError",
            (Category::Execution, Some("HANDLER_TIMEOUT")) => "JobTimedOut",
            (Category::Execution, Some("JOB_CANCELLED")) => "JobCancelled",
            (Category::Execution, _) => "JobFailed",
            (Category::Backend, _) => "BackendError",
            (Category::Unknown, _) => "UnknownError",
        }
    }

    pub(crate) fn into_error(self) -> Error {
        let category = self.category;
        let error = Box::new(self);
        match category {
            Category::Validation => Error::Validation(error),
            Category::Conflict => Error::Conflict(error),
            Category::Auth => Error::Auth(error),
            Category::Resource => Error::Resource(error),
            Category::Execution => Error::Execution(error),
            Category::Backend => Error::Backend(error),
            Category::Unknown => Error::Unknown(error),
        }
    }
}

impl Error {
    /// What the server said, if it said anything.
    pub fn api(&self) -> Option<&ApiError> {
        match self {
            Error::Validation(error)
            | Error::Conflict(error)
            | Error::Auth(error)
            | Error::Resource(error)
            | Error::Execution(error)
            | Error::Backend(error)
            | Error::Unknown(error) => Some(error),
            Error::Unreachable(_)
            | Error::TimedOut { .. }
            | Error::Protocol(_)
            | Error::File { .. }
            | Error::Usage(_) => None,
        }
    }

    /// Whether the same call may succeed later.
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Unreachable(away) => away.other_scheme.is_none(),
            Error::TimedOut { .. } => true,
            Error::Protocol(_) | Error::File { .. } | Error::Usage(_) => false,
            other => other.api().is_some_and(|error| error.retryable),
        }
    }

    /// Whether the server says that there is no such thing, or not any more.
    pub fn is_not_found(&self) -> bool {
        self.api().is_some_and(|error| {
            error.canonical.as_deref() == Some("NOT_FOUND") || matches!(error.status, Some(404 | 410))
        })
    }
}

/// The group of a status, for answers without a code.
fn category_of_status(status: Option<u16>) -> Category {
    match status {
        Some(401 | 403) => Category::Auth,
        Some(409 | 412) => Category::Conflict,
        Some(404 | 408 | 410 | 413 | 425 | 429) => Category::Resource,
        Some(400..=499) => Category::Validation,
        Some(500..=599) => Category::Backend,
        Some(_) | None => Category::Unknown,
    }
}

/// `Retry-After`: seconds, or a date.
pub(crate) fn parse_retry_after(text: &str, now: SystemTime) -> Option<Duration> {
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = httpdate::parse_http_date(text.trim()).ok()?;
    Some(date.duration_since(now).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use serde_json::json;

    use super::*;

    fn of(status: u16, headers: &[(&'static str, &str)], body: &Value) -> Error {
        let pair =
            |(name, value): &(&'static str, &str)| (HeaderName::from_static(name), value.parse().unwrap());
        let headers: HeaderMap = headers.iter().map(pair).collect();
        let status = StatusCode::from_u16(status).unwrap();
        ApiError::of_answer(status, &headers, body.to_string().as_bytes(), UNIX_EPOCH).into_error()
    }

    #[test]
    fn the_code_decides_and_the_status_only_groups_what_has_none() {
        assert!(matches!(
            of(503, &[], &json!({"code": "INVALID_PAYLOAD", "retryable": true})),
            Error::Validation(_)
        ));
        assert!(matches!(of(400, &[], &json!({"code": "BACKEND_ERROR"})), Error::Backend(_)));
        assert!(matches!(of(500, &[], &json!({"code": "ACME_NO_PAPER"})), Error::Unknown(_)));
        for (status, category) in [
            (400, Category::Validation),
            (403, Category::Auth),
            (409, Category::Conflict),
            (429, Category::Resource),
            (502, Category::Backend),
        ] {
            assert_eq!(of(status, &[], &json!({})).api().unwrap().category, category, "{status}");
        }
    }

    #[test]
    fn an_error_shows_all_that_the_server_said() {
        let body = json!({"type": "https://a.example/problems/queue-full", "title": "Queue Full", "status": 503,
            "code": "RFA_EXEC_QUEUE_FULL", "ojs_code": "QUEUE_FULL", "message": "The queue is full.",
            "details": {"queue": "q"}, "retryable": true, "retryAfter": 7});
        let headers = [("content-type", "application/problem+json"), ("x-request-id", "r-1")];
        let error = of(503, &headers, &body);
        let said = error.api().unwrap();
        assert_eq!(
            (said.code.as_str(), said.canonical.as_deref()),
            ("RFA_EXEC_QUEUE_FULL", Some("QUEUE_FULL"))
        );
        assert_eq!((said.message.as_str(), said.retryable), ("The queue is full.", true));
        assert_eq!(said.details["queue"], "q");
        assert_eq!(said.retry_after, Some(Duration::from_secs(7)));
        assert_eq!(said.problem.type_uri(), "https://a.example/problems/queue-full");
        assert_eq!((said.status, said.request_id.as_deref()), (Some(503), Some("r-1")));
    }

    #[test]
    fn problems_in_xml_are_read_into_the_same_model() {
        let problem = Problem::untyped().title("Slow down").status(429).extension("code", "RATE_LIMITED");
        let xml = problem.build().unwrap().to_xml();
        let headers =
            HeaderMap::from_iter([(http::header::CONTENT_TYPE, "application/problem+xml".parse().unwrap())]);
        let error = ApiError::of_answer(StatusCode::TOO_MANY_REQUESTS, &headers, xml.as_bytes(), UNIX_EPOCH);
        assert_eq!((error.category, error.retryable), (Category::Resource, true));
    }

    #[test]
    fn retry_after_is_read_as_seconds_and_as_a_date() {
        let date = httpdate::fmt_http_date(UNIX_EPOCH + Duration::from_secs(90));
        for (text, expected) in
            [("7", Some(7)), (" 0 ", Some(0)), (date.as_str(), Some(90)), ("soon", None), ("-3", None)]
        {
            assert_eq!(parse_retry_after(text, UNIX_EPOCH), expected.map(Duration::from_secs), "{text}");
        }
        let past = httpdate::fmt_http_date(UNIX_EPOCH);
        let later = UNIX_EPOCH + Duration::from_secs(500);
        assert_eq!(parse_retry_after(&past, later), Some(Duration::ZERO));
    }

    #[test]
    fn answers_that_are_no_json_still_make_an_error() {
        let status = StatusCode::BAD_GATEWAY;
        let error = ApiError::of_answer(status, &HeaderMap::new(), b"<html>", UNIX_EPOCH);
        assert_eq!(
            (error.code.as_str(), error.message.as_str(), error.retryable),
            ("HTTP_502", "Bad Gateway", true)
        );
    }
}
