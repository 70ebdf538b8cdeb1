//! Problems as responses of axum handlers.
//!
//! A [`Problem`] returned from a handler becomes JSON with its own status code. With
//! [`Preferences`] as an extractor the client gets the representation it asks for:
//!
//! ```
//! use forgerun_problem::Problem;
//! use forgerun_problem::axum::{ProblemResponse, Preferences};
//!
//! async fn purchase(preferences: Preferences) -> ProblemResponse {
//!     let language = preferences.language("en", &["de"]);
//!     let title = if language == "de" { "Nicht genug Guthaben" } else { "Not enough credit" };
//!     let problem = Problem::builder("https://example.com/probs/out-of-credit").title(title).status(403).build();
//!     ProblemResponse::new(problem.expect("type and status are valid")).wanted(&preferences).in_language(language)
//! }
//! ```

use std::convert::Infallible;

use axum_core::body::Body;
use axum_core::extract::FromRequestParts;
use axum_core::response::{IntoResponse, IntoResponseParts, Response, ResponseParts};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};

use crate::field::FieldWriter;
use crate::negotiate::{self, Representation};
use crate::problem::{MEDIA_TYPE_JSON, MEDIA_TYPE_XML, Problem};

/// What the client wants, taken from its headers. Never fails.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Preferences {
    accept: Option<String>,
    accept_language: Option<String>,
}

impl Preferences {
    /// Takes the wishes out of a request's headers; several lines of a header count as one.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let joined = |name: HeaderName| {
            let lines: Vec<_> = headers.get_all(name).iter().filter_map(|line| line.to_str().ok()).collect();
            (!lines.is_empty()).then(|| lines.join(","))
        };
        Self { accept: joined(header::ACCEPT), accept_language: joined(header::ACCEPT_LANGUAGE) }
    }

    /// The representation the client wants.
    #[must_use]
    pub fn representation(&self) -> Representation {
        negotiate::representation(self.accept.as_deref())
    }

    /// The language the client wants, out of those available.
    #[must_use]
    pub fn language<'a>(&self, default: &'a str, others: &[&'a str]) -> &'a str {
        negotiate::language(self.accept_language.as_deref(), default, others)
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Preferences {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Infallible> {
        Ok(Self::of(&parts.headers))
    }
}

/// A response that carries a problem.
#[derive(Debug, Clone)]
pub struct ProblemResponse {
    problem: Problem,
    code: StatusCode,
    representation: Representation,
    language: Option<HeaderValue>,
}

impl ProblemResponse {
    /// The answer to a failed request. Its code is the problem's `status`, so that they always
    /// agree; 500 if there is none or it is not final (1xx).
    #[must_use]
    pub fn new(problem: Problem) -> Self {
        let status = problem.status().map_or(500, |status| status.code());
        let code = if status >= 200 { status } else { 500 };
        let problem = if problem.status().is_some_and(|status| status.code() != code) {
            problem.into_builder().status(code).build().expect("only the status changed, to a valid one")
        } else {
            problem
        };
        let code = StatusCode::from_u16(code).expect("a status is between 100 and 599");
        Self { problem, code, representation: Representation::Json, language: None }
    }

    /// A stored report, fetched with success: the response is 200 and the problem keeps its own
    /// `status`.
    #[must_use]
    pub fn report(problem: Problem) -> Self {
        Self { problem, code: StatusCode::OK, representation: Representation::Json, language: None }
    }

    /// Uses the representation the client wants.
    #[must_use]
    pub fn wanted(mut self, preferences: &Preferences) -> Self {
        self.representation = preferences.representation();
        self
    }

    /// Says in which language title and detail are; nothing is said if that is no text for a
    /// header.
    #[must_use]
    pub fn in_language(mut self, language: &str) -> Self {
        self.language = HeaderValue::from_str(language).ok();
        self
    }
}

impl IntoResponse for ProblemResponse {
    fn into_response(self) -> Response {
        let (media_type, body) = match self.representation {
            Representation::Json => (MEDIA_TYPE_JSON, self.problem.to_json()),
            Representation::Xml => (MEDIA_TYPE_XML, self.problem.to_xml()),
        };
        let mut response = Response::new(Body::from(body));
        *response.status_mut() = self.code;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
        headers.insert(header::VARY, HeaderValue::from_static("Accept, Accept-Language"));
        if let Some(language) = self.language {
            headers.insert(header::CONTENT_LANGUAGE, language);
        }
        if let Some(seconds) = self.problem.job().retry_after_s() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        // What is known about a job is private and changes; it has no place in a cache.
        if !self.problem.job().is_empty() {
            headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
        }
        response
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        ProblemResponse::new(self).into_response()
    }
}

impl From<Problem> for ProblemResponse {
    fn from(problem: Problem) -> Self {
        Self::new(problem)
    }
}

/// A `Problem` field beside another response, for what went wrong without spoiling it.
///
/// The field belongs to draft -04 and is not in RFC 9457.
#[derive(Debug, Clone)]
pub struct ProblemField(Option<HeaderValue>);

impl ProblemField {
    /// Writes the field; it is left out if there is nothing to say.
    #[must_use]
    pub fn new(problem: &Problem, writer: &FieldWriter) -> Self {
        let value = writer.write(problem);
        Self(value.map(|value| HeaderValue::from_str(&value).expect("a structured field is plain ASCII")))
    }
}

impl IntoResponseParts for ProblemField {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        if let Some(value) = self.0 {
            response.headers_mut().insert(HeaderName::from_static("problem"), value);
        }
        Ok(response)
    }
}
