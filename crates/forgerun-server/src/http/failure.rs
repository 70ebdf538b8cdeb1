//! Failed jobs in the forms shared by all dialects: the stored failure object byte for byte, its
//! XML, and a header field beside the dialect's own JSON (C-08).

use axum::http::header::{CONTENT_LANGUAGE, RETRY_AFTER};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::Response;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Job;
use forgerun_core::rows::Outcome;
use forgerun_problem::read::Reader;
use forgerun_problem::{MEDIA_TYPE_JSON, MEDIA_TYPE_XML, Problem};
use forgerun_wire::outcome;

use crate::app::App;
use crate::http::{ApiError, accept::FailureFormat, respond};
use crate::limits::PROBLEM_FIELD_BYTES_MAX;

const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");
const PROBLEM: HeaderName = HeaderName::from_static("problem");

/// The failure object of the job's current or last execution, in this form; `None` for the
/// dialect's JSON, and if there is none, as for a job of an older store.
pub(crate) async fn last_word(
    app: &App,
    job: &Job,
    form: FailureFormat,
) -> Result<Option<Response>, ApiError> {
    if form == FailureFormat::Json {
        return Ok(None);
    }
    let Some(found) = app.engine.store().outcome(job.execution).await? else { return Ok(None) };
    let (kind, _) = outcome::what_went_wrong(job);
    let retry_after_s = outcome::retryable(job, kind).then(|| outcome::retry_after_s(job));
    show(found, form, retry_after_s).map(Some)
}

/// A stored failure object as a problem. The header agrees with the object about when to submit
/// again (C-34).
pub(crate) fn show(
    found: Outcome,
    form: FailureFormat,
    retry_after_s: Option<u64>,
) -> Result<Response, ApiError> {
    let language = outcome::language(&found.object.bytes).tag();
    let mut response = match form {
        FailureFormat::ProblemXml => {
            let media_type = HeaderValue::from_static(MEDIA_TYPE_XML);
            respond::with_type(StatusCode::OK, media_type, read(&found)?.to_xml())
        }
        FailureFormat::Json | FailureFormat::ProblemJson => {
            let digest = format!("sha-256=:{}:", STANDARD.encode(found.object.digest));
            let media_type = HeaderValue::from_static(MEDIA_TYPE_JSON);
            let mut response = respond::with_type(StatusCode::OK, media_type, found.object.bytes);
            response.headers_mut().insert(CONTENT_DIGEST, respond::value(digest));
            response
        }
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_LANGUAGE, HeaderValue::from_static(language));
    headers.extend(retry_after_s.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
    Ok(response)
}

/// Parses a stored failure object.
pub(crate) fn read(outcome: &Outcome) -> Result<Problem, ApiError> {
    let reading = Reader::new().json(&outcome.object.bytes);
    Ok(reading.map_err(|error| ApiError::internal(Kind::StorageError, error))?.problem)
}

/// Adds the `Problem` header to a 200 about a failed job, if configured.
pub(crate) fn add_field(app: &App, response: &mut Response, problem: impl FnOnce() -> Problem) {
    if !app.config.problem.header_field {
        return;
    }
    let field = app.problem_field.write(&problem()).filter(|field| field.len() <= PROBLEM_FIELD_BYTES_MAX);
    let field = field.and_then(|field| HeaderValue::try_from(field).ok());
    response.headers_mut().extend(field.map(|field| (PROBLEM, field)));
}
