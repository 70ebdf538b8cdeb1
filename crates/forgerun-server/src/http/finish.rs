//! Turns results into responses: common headers, and the form of refusals. The only place that
//! does.

use std::error::Error as StdError;

use axum::http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::id::JobId;
use forgerun_core::job::Dialect;
use forgerun_problem::MEDIA_TYPE_JSON;
use forgerun_problem::axum::{Preferences, ProblemResponse};
use forgerun_wire::hint::nearest;
use forgerun_wire::ojs::error::ErrorContext;
use forgerun_wire::ojs::{self, MEDIA_TYPE};
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::status;
use forgerun_wire::words::forge_state;

use crate::app::App;
use crate::http::{ApiError, Exchange, accept, cors, respond};
use crate::limits::TROUBLE_AFTER_S;
use crate::traces::RequestSubject;

/// The response to a request.
pub(crate) fn finish(app: &App, exchange: &Exchange, answer: Result<Response, ApiError>) -> Response {
    let answer = answer.and_then(|response| app.unwritten.admit(response));
    let mut response = match answer.and_then(|response| exchange.charge(response)) {
        Ok(response) => {
            log_done(exchange, response.status());
            spoken(app, exchange, response)
        }
        Err(error) => {
            if let Some(fault) = error.read_fault() {
                app.metrics.store_error(fault);
            }
            refuse(app, exchange, counted(app, exchange, error))
        }
    };
    let headers = response.headers_mut();
    exchange.write_ids(headers);
    if let Some(api) = exchange.api {
        api.add_headers(app, exchange, headers);
    }
    cors::add_headers(app, exchange, headers);
    // Answers about jobs are private and change (C-87).
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    if let Some(rate_status) = &exchange.rate_status {
        let of_workers = app.worker_limiter.as_ref().filter(|_| exchange.is_worker_call);
        of_workers.unwrap_or(&app.limiter).write(rate_status, headers);
    }
    note_answer(app, exchange, response.status().as_u16());
    response
}

/// Counts and logs an answer.
pub(crate) fn note_answer(app: &App, exchange: &Exchange, status: u16) {
    let now = app.clock.now();
    app.metrics.request(exchange.method.as_str(), exchange.route, status, now.since(exchange.began));
    if let Some(traces) = &app.traces {
        traces.request(exchange, status, now);
    }
}

/// A refusal for a protocol with a form of its own: counted, worded and logged like any other.
#[cfg(feature = "grpc")]
pub(crate) fn refused(app: &App, exchange: &Exchange, error: ApiError) -> RefusedRequest {
    if let Some(fault) = error.read_fault() {
        app.metrics.store_error(fault);
    }
    let (refused, _, cause) = counted(app, exchange, error).into_parts();
    let refused = worded(app, exchange, refused);
    let status = status::http(refused.kind, exchange.dialect);
    log(app, exchange, &refused, status, cause.as_deref());
    note_answer(app, exchange, status);
    refused
}

/// The router's 404 and 405 have no body; ours have one.
fn spoken(app: &App, exchange: &Exchange, response: Response) -> Response {
    if response.headers().contains_key(CONTENT_TYPE) {
        return response;
    }
    match response.status() {
        StatusCode::NOT_FOUND => refuse(app, exchange, ApiError::route()),
        StatusCode::METHOD_NOT_ALLOWED => {
            let allow = response.headers().get(ALLOW).cloned();
            let methods = allow.as_ref().and_then(|allow| allow.to_str().ok()).unwrap_or("nothing");
            let detail = format!("Allowed here: {}.", methods.replace(',', ", "));
            let mut refused = refuse(app, exchange, ApiError::new(Kind::MethodNotAllowed, detail));
            refused.headers_mut().extend(allow.map(|allow| (ALLOW, allow)));
            refused
        }
        _ => response,
    }
}

/// Counts an answer that helps guessing; too many of them are replaced.
fn counted(app: &App, exchange: &Exchange, error: ApiError) -> ApiError {
    let guess = match error.kind() {
        Kind::JobNotFound => exchange.subject.is_some() || exchange.caller.is_some(),
        Kind::ForeignResource
        | Kind::ClientNotFound
        | Kind::KeyNotFound
        | Kind::WebhookNotFound
        | Kind::WorkerNotFound
        | Kind::ScheduleNotFound
        | Kind::DeliveryNotFound => true,
        _ => false,
    };
    if !guess {
        return error;
    }
    let now = exchange.began;
    let missed = match &exchange.caller {
        Some(caller) => app.limiter.miss(&caller.account, now),
        None => app.limiter.miss(&app.limiter.address(exchange.address, now), now),
    };
    missed.err().unwrap_or(error)
}

fn refuse(app: &App, exchange: &Exchange, error: ApiError) -> Response {
    let (refused, header, cause) = error.into_parts();
    let refused = worded(app, exchange, refused);
    let mut response = match exchange.api {
        Some(api) => api.refusal(app, exchange, &refused),
        None => problem(app, exchange, &refused),
    };
    let status = response.status().as_u16();
    log(app, exchange, &refused, status, cause.as_deref());
    let headers = response.headers_mut();
    headers.extend(header);
    match status {
        401 => drop(headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"))),
        429 | 503 | 504 => {
            let seconds = refused.retry_after_s.unwrap_or(TROUBLE_AFTER_S);
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        _ if refused.is_early => {
            headers.extend(refused.retry_after_s.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
        }
        _ => {}
    }
    response
}

/// A refusal as a problem, in the requested form.
pub(crate) fn problem(app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Response {
    // A client that accepts OJS gets it everywhere (C-12).
    if accept::prefers(&exchange.headers, MEDIA_TYPE, MEDIA_TYPE_JSON) && exchange.dialect != Dialect::Ojs {
        return ojs_error(app, exchange, refused, status::http(refused.kind, exchange.dialect));
    }
    let instance = format!("urn:uuid:{}", exchange.request_id());
    let problem = refused.problem(exchange.dialect, &app.base, &instance);
    // The status of the response is the problem's own.
    ProblemResponse::new(problem)
        .wanted(&Preferences::of(&exchange.headers))
        .in_language(refused.language.tag())
        .into_response()
}

/// A refusal as OJS's object, with this status.
pub(crate) fn ojs_error(app: &App, exchange: &Exchange, refused: &RefusedRequest, status: u16) -> Response {
    let instance = format!("urn:uuid:{}", exchange.request_id());
    let shown = exchange.shown_request_id();
    let request_id = shown.to_str().unwrap_or_default();
    let context = ErrorContext { base: &app.base, instance: &instance, request_id, status };
    let status = StatusCode::from_u16(status).expect("statuses of ours are statuses");
    let media_type = HeaderValue::from_static(MEDIA_TYPE);
    respond::with_type(status, media_type, respond::written(&ojs::error::body(refused, context)))
}

/// The refusal as worded for this request.
fn worded(app: &App, exchange: &Exchange, mut refused: RefusedRequest) -> RefusedRequest {
    if refused.kind == Kind::ForeignResource && app.config.auth.hide_foreign {
        // As if it did not exist, whatever the path names.
        let hidden = match exchange.subject {
            Some(_) => Refusal::NotFound,
            None if exchange.parameter("webhook_id").is_some() => Refusal::WebhookNotFound,
            None => Refusal::ClientNotFound,
        };
        refused = ApiError::from(forgerun_engine::Error::Refused(hidden)).into_parts().0;
    }
    if let (Kind::JobNotFound, Some(job), false) = (refused.kind, exchange.subject, refused.is_blank) {
        refused.detail = format!("There is no job {job}.");
    }
    if let (Kind::RouteNotFound, Some(hint)) = (refused.kind, hint_at(exchange.uri.path())) {
        refused.detail = hint;
    }
    // Every server error has `Retry-After`, in the body too if submitting again is meant (C-34).
    let status = status::http(refused.kind, exchange.dialect);
    if matches!(status, 429 | 500..=599) && refused.retry_after_s.is_none() {
        refused.retry_after_s = Some(TROUBLE_AFTER_S);
    }
    refused.is_poll = exchange.is_read();
    refused.correlation_id = exchange.correlation(None);
    refused.language = exchange.language();
    refused.traceparent = (exchange.dialect == Dialect::Operations).then(|| exchange.traceparent());
    refused
}

/// Logs a refusal once, with details that the caller does not get. `error` for server errors,
/// `warn` for what may need attention; rate limiting is not logged, or a flood would fill the disk
/// too.
fn log(
    app: &App,
    exchange: &Exchange,
    refused: &RefusedRequest,
    status: u16,
    cause: Option<&(dyn StdError + Send + Sync + 'static)>,
) {
    macro_rules! line {
        ($level:ident, $message:literal $(, $field:ident = $value:expr)*) => {
            tracing::$level!(
                request_id = exchange.request_id(),
                client_id = exchange.caller.as_ref().map(|caller| tracing::field::display(caller.client)),
                job_id = exchange.subject.map(tracing::field::display),
                current_state = exchange.request_subject().and_then(RequestSubject::state).map(forge_state),
                correlation_id = refused.correlation_id.as_ref().map(|id| id.as_str()),
                action = word(exchange.action),
                route = word(exchange.route),
                status,
                error_code = refused.kind.entry().rfa,
                error_message = refused.detail,
                cause = cause.map(tracing::field::display),
                $($field = $value,)*
                $message
            )
        };
    }
    match status {
        401 | 403 => {
            app.metrics.auth_failure();
            // One line per minute, with the client if known, else the address.
            let account = match &exchange.caller {
                Some(caller) => caller.account.clone(),
                None => app.limiter.address(exchange.address, exchange.began),
            };
            if let Some(n) = account.auth_failures_to_log(exchange.began) {
                let (address, count) = (tracing::field::display(exchange.address), n);
                line!(warn, "request not authorised", address = address, count = count);
            }
        }
        429 => line!(debug, "request refused"),
        500.. if cause.is_some() => line!(error, "request failed"),
        500.. => line!(warn, "request failed"),
        _ => line!(info, "request refused"),
    }
}

const ROOTS: [&str; 4] = ["/v1/", "/api/v1/", "/ojs/v1/", "/admin/v1/"];

/// The collections in most addresses.
const COLLECTIONS: [&str; 9] =
    ["jobs", "clients", "webhooks", "workflows", "schedules", "events", "queues", "workers", "failures"];

/// The address that was probably meant.
fn hint_at(path: &str) -> Option<String> {
    if path.len() > 1 && path.ends_with('/') {
        return Some("There is nothing at this address; try it without the slash at its end.".to_owned());
    }
    let root = ROOTS.into_iter().find(|root| path.starts_with(root))?;
    let first = path[root.len()..].split('/').next().unwrap_or_default();
    if let Some(meant) = nearest(first, COLLECTIONS.into_iter()).filter(|meant| *meant != first) {
        return Some(format!("There is nothing at this address; did you mean `{root}{meant}`?"));
    }
    // Where configured operations are.
    let (resource, action) = path.strip_prefix("/api/v1/")?.split_once('/')?;
    let is_operation = resource != "jobs" && !action.contains('/');
    let hint = "There is no such operation on this server; /openapi.json lists those there are.";
    is_operation.then(|| hint.to_owned())
}

/// One line per successful request: `info` for changes, `debug` for reads and for heartbeats, which
/// come every few seconds. Nothing is formatted for a disabled level.
pub(crate) fn log_done(exchange: &Exchange, status: StatusCode) {
    if exchange.action.is_empty() {
        return;
    }
    macro_rules! line {
        ($level:ident) => {
            tracing::$level!(
                request_id = exchange.request_id(),
                client_id = exchange.caller.as_ref().map(|caller| tracing::field::display(caller.client)),
                job_id = subject(exchange).map(tracing::field::display),
                action = exchange.action,
                status = status.as_u16(),
                current_state = exchange.request_subject().and_then(RequestSubject::state).map(forge_state),
                correlation_id = exchange.correlation(None).as_ref().map(|id| id.as_str()),
                "request done"
            )
        };
    }
    let is_routine = exchange.is_read() || matches!(exchange.action, "heartbeat" | "exchange");
    if is_routine { line!(debug) } else { line!(info) }
}

fn subject(exchange: &Exchange) -> Option<JobId> {
    exchange.request_subject().and_then(RequestSubject::job_id).or(exchange.subject)
}

/// `None` if empty.
fn word(word: &'static str) -> Option<&'static str> {
    (!word.is_empty()).then_some(word)
}
