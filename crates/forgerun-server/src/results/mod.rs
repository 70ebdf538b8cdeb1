//! The result of a job over HTTP, for all dialects: whole or in part, streamed, resumable,
//! verifiable.
//!
//! - The content of a result never changes, so its digest is its strong `ETag`, and an interrupted
//!   download continues with `Range` and `If-Range`. `Repr-Digest` verifies the whole, however many
//!   parts it came in.
//! - A client that does not accept the type of a result, but names `application/octet-stream`, gets
//!   the same bytes as a file.
//! - A stored result is never whole in memory ([`download`]); concurrent downloads are bounded, in
//!   total and per client ([`places`]). The request timeout covers the head only: a long download
//!   is interrupted only by the server's stop or a client that does not read.

pub(crate) mod disposition;
mod download;
mod places;
mod range;
mod ready;
mod upload_places;

use std::sync::Arc;

use axum::body::Body;
use axum::http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE,
    CONTENT_SECURITY_POLICY, CONTENT_TYPE, ETAG, IF_NONE_MATCH, VARY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::response::Response;
use forgerun_core::catalog::Kind;
use forgerun_core::job::{Dialect, Job, is_json, is_media_type};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::words::forge_state;

use crate::app::App;
use crate::http::{ApiError, Exchange, accept, exchange::BodyMemory, precondition, respond};
use crate::limits::POLL_AFTER_S;
use download::Download;
pub(crate) use places::DownloadPlaces;
use range::{ByteRange, RangeRequest};
pub(crate) use ready::ReadyResults;
pub(crate) use ready::{ReadyContent, ReadyResult};
pub(crate) use upload_places::UploadPlace;
pub(crate) use upload_places::UploadPlaces;

const REPR_DIGEST: HeaderName = HeaderName::from_static("repr-digest");
const CONTENT_DIGEST: HeaderName = HeaderName::from_static("content-digest");

const FILE: &str = "application/octet-stream";

/// The requested form of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResultFormat {
    /// Its own type, or as `Accept` says.
    AsAsked,
    /// A file to be saved.
    File,
}

/// Answers `GET` or `HEAD` for the result of a visible job. Before the end, and after a failure,
/// there is none (C-69).
pub(crate) async fn answer(
    app: &App,
    exchange: &Exchange,
    job: &Job,
    form: ResultFormat,
) -> Result<Response, ApiError> {
    let result = ready(app, job).await?;
    let (form, size) = (agreed(exchange, &result.media_type, form)?, result.size);
    let etag = match form {
        ResultFormat::AsAsked => &result.etag,
        ResultFormat::File => &result.etag_as_file,
    };
    let mut headers = HeaderMap::with_capacity(16);
    headers.insert(ETAG, etag.clone());
    headers.insert(VARY, HeaderValue::from_static("Accept"));
    // Private like all answers about jobs (C-87). If a proxy compressed it, ranges could not be
    // resumed.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store, no-transform"));
    precondition::check(&exchange.headers, etag.to_str().unwrap_or_default())?;
    if is_known(&exchange.headers, etag) {
        return Ok(finished(StatusCode::NOT_MODIFIED, headers, Body::empty()));
    }
    describe(&mut headers, job, &result, exchange.dialect, form);
    let wanted = match exchange.method {
        Method::GET => range::wanted(&exchange.headers, etag, size),
        _ => RangeRequest::Whole,
    };
    let (status, part) = match wanted {
        RangeRequest::Whole => (StatusCode::OK, ByteRange { first: 0, end: size }),
        RangeRequest::Part(part) => (StatusCode::PARTIAL_CONTENT, part),
        RangeRequest::Nothing => return Err(ApiError::beyond(size)),
    };
    headers.insert(CONTENT_LENGTH, HeaderValue::from(part.end - part.first));
    if status == StatusCode::PARTIAL_CONTENT {
        let range = format!("bytes {}-{}/{size}", part.first, part.end - 1);
        headers.insert(CONTENT_RANGE, respond::value(range));
    }
    if exchange.method != Method::GET {
        return Ok(finished(status, headers, Body::empty()));
    }
    if status == StatusCode::OK {
        headers.insert(CONTENT_DIGEST, result.digest_field.clone());
    }
    Ok(finished(status, headers, body(app, job, &result.content, part).await?))
}

/// The result of a job. Before the end, and after a failure, there is none (C-69).
pub(crate) async fn ready(app: &App, job: &Job) -> Result<Arc<ReadyResult>, ApiError> {
    if job.state != State::Succeeded {
        let state = forge_state(job.state);
        let detail = format!("The job is {state}; only a job that SUCCEEDED has a result.");
        let refused = RefusedRequest::new(Kind::ResultNotReady, detail).fact("state", state);
        let is_over = job.state.is_final();
        return Err(if is_over { refused } else { refused.early(POLL_AFTER_S) }.into());
    }
    let result = match app.ready_results.get(job.execution) {
        Some(result) => result,
        None => looked_up(app, job).await?,
    };
    match result.is_expired(app.clock.now()) {
        false => Ok(result),
        true => Err(expired(job, result.expires_at)),
    }
}

async fn looked_up(app: &App, job: &Job) -> Result<Arc<ReadyResult>, ApiError> {
    let Some(mut stored) = app.engine.store().result(job.execution).await? else {
        return Err(ApiError::new(Kind::ResultNotFound, "The job left no result."));
    };
    let Some(content) = stored.content.take() else { return Err(expired(job, stored.expires_at)) };
    let result = Arc::new(ReadyResult::new(*stored, content));
    app.ready_results.insert(job.execution, &result);
    Ok(result)
}

/// A link from a job's status to its result: a registered relation, and with a known public URL a
/// more specific extension relation (AJ §6.5: others are not allowed).
pub(crate) fn link(app: &App, path: &str) -> HeaderValue {
    let base = &app.base;
    match base.is_empty() {
        true => respond::value(format!("<{path}>; rel=\"related\"")),
        false => respond::value(format!("<{base}{path}>; rel=\"related {base}/rels/job-result\"")),
    }
}

/// The form that the client accepts; otherwise a refusal.
fn agreed(exchange: &Exchange, media_type: &str, form: ResultFormat) -> Result<ResultFormat, ApiError> {
    match form {
        ResultFormat::File => Ok(form),
        // Accepting problems implies JSON (C-48).
        ResultFormat::AsAsked if is_json(media_type) && accept::require_json(&exchange.headers).is_ok() => {
            Ok(form)
        }
        ResultFormat::AsAsked => match accept::require_type(&exchange.headers, media_type) {
            Ok(()) => Ok(form),
            Err(_) if accept::names(&exchange.headers, FILE) => Ok(ResultFormat::File),
            Err(error) => Err(error),
        },
    }
}

fn expired(job: &Job, expires_at: Option<Time>) -> ApiError {
    let Some(at) = expires_at else {
        return ApiError::new(Kind::ResultExpired, "The content of the result was removed.");
    };
    let days = job.finished_at.map(|finished| at.since(finished)).unwrap_or_default().as_secs() / 86_400;
    let moment = forgerun_wire::time::millis(at);
    let detail = format!("The result was kept until {moment}, which is {days} d after the end of the job.");
    RefusedRequest::new(Kind::ResultExpired, detail).fact("expired_at", moment).into()
}

/// Whether the client has this content. Weak comparison suffices here.
fn is_known(headers: &HeaderMap, etag: &HeaderValue) -> bool {
    let etag = etag.to_str().unwrap_or_default();
    let lines = headers.get_all(IF_NONE_MATCH).iter().filter_map(|line| line.to_str().ok());
    let mut tags = lines.flat_map(|line| line.split(',')).map(str::trim);
    tags.any(|tag| tag == "*" || tag.strip_prefix("W/").unwrap_or(tag) == etag)
}

/// The type of a result in this dialect: `/api/v1` adds the charset to all its JSON, as its
/// document does.
fn labelled(media_type: &str, dialect: Dialect) -> &str {
    match dialect {
        Dialect::Operations if media_type.eq_ignore_ascii_case("application/json") => {
            "application/json; charset=utf-8"
        }
        Dialect::Forge | Dialect::Operations | Dialect::Ojs => media_type,
    }
}

fn describe(headers: &mut HeaderMap, job: &Job, result: &ReadyResult, dialect: Dialect, form: ResultFormat) {
    let media_type = labelled(&result.media_type, dialect);
    // The type that a worker gives is not trusted.
    let own_type = HeaderValue::try_from(media_type).ok().filter(|_| is_media_type(media_type));
    let content_type = match form {
        ResultFormat::AsAsked => own_type.unwrap_or(HeaderValue::from_static(FILE)),
        ResultFormat::File => HeaderValue::from_static(FILE),
    };
    let is_plain_json = form != ResultFormat::File && result.file_name.is_none() && is_json(media_type);
    let disposition = match is_plain_json {
        true => HeaderValue::from_static("inline"),
        false => disposition::attachment(&disposition::name(result.file_name.as_deref(), job.id, media_type)),
    };
    headers.insert(CONTENT_DISPOSITION, disposition);
    // A browser that shows the result inline runs no script of it.
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static("sandbox"));
    headers.insert(CONTENT_TYPE, content_type);
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    headers.insert(REPR_DIGEST, result.digest_field.clone());
}

async fn body(app: &App, job: &Job, content: &ReadyContent, part: ByteRange) -> Result<Body, ApiError> {
    match content {
        ReadyContent::Inline(bytes) => {
            let range = usize::try_from(part.first).ok().zip(usize::try_from(part.end).ok());
            let (first, end) = range.expect("what is in memory can be counted");
            Ok(Body::from(bytes.slice(first..end)))
        }
        ReadyContent::Stored(blob) => {
            let place = app.downloads.take(job.head.client)?;
            let source = app.engine.store().blobs().open(blob.id).await?;
            Ok(Body::new(Download::new(source, part, job.id, place)))
        }
    }
}

fn finished(status: StatusCode, headers: HeaderMap, body: Body) -> Response {
    let mut response = Response::new(body);
    response.extensions_mut().insert(BodyMemory::Streamed);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    response
}
