//! Refusals in OJS's form: states, details, headers.

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use axum::response::Response;
use forgerun_core::Refusal;
use forgerun_core::catalog::Kind;
use forgerun_core::state::State;
use forgerun_engine::Error;
use forgerun_wire::ojs::error::{self, ErrorContext};
use forgerun_wire::problem::RefusedRequest;
use serde_json::Value;

use crate::app::App;
use crate::http::{ApiError, Exchange, accept, finish};

const QUEUE_DEPTH: HeaderName = HeaderName::from_static("x-ojs-queue-depth");
const QUEUE_BOUND: HeaderName = HeaderName::from_static("x-ojs-queue-bound");
const QUEUE_PRESSURE: HeaderName = HeaderName::from_static("x-ojs-queue-pressure");

/// The answer to a refused request: OJS's object, or a problem if the client asks for one.
pub(super) fn response(app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Response {
    if accept::names(&exchange.headers, "application/problem+json")
        || accept::names(&exchange.headers, "application/problem+xml")
    {
        return finish::problem(app, exchange, refused);
    }
    let status = error::status(refused.kind, app.config.ojs.strict_catalog);
    let refused = &detailed(refused);
    let mut response = finish::ojs_error(app, exchange, refused, status);
    let headers = response.headers_mut();
    for (name, fact) in [(QUEUE_DEPTH, "depth"), (QUEUE_BOUND, "bound")] {
        let number = refused.details.get(fact).and_then(serde_json::Value::as_u64);
        headers.extend(number.map(|number| (name, HeaderValue::from(number))));
    }
    if headers.contains_key(QUEUE_BOUND) {
        headers.insert(QUEUE_PRESSURE, HeaderValue::from_static("critical"));
    }
    response
}

/// The object of a refusal within an answer.
pub(super) fn object(app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Value {
    let instance = format!("urn:uuid:{}", exchange.request_id());
    let status = error::status(refused.kind, app.config.ojs.strict_catalog);
    let context =
        ErrorContext { base: &app.base, instance: &instance, request_id: exchange.request_id(), status };
    error::body(&detailed(refused), context)
}

/// Adds the details that OJS's documents require.
pub(in crate::dialects) fn detailed(refused: &RefusedRequest) -> RefusedRequest {
    let mut refused = refused.clone();
    match refused.kind {
        Kind::JobNotFound | Kind::Expired => {
            refused.details.entry("resource_type").or_insert("job".into());
        }
        Kind::QueueFull => {
            let facts = [("depth", "waiting"), ("bound", "max")];
            for (name, known) in facts {
                let number = refused.details.get(known).cloned();
                refused.details.extend(number.map(|number| (name.to_owned(), number)));
            }
        }
        _ => {}
    }
    refused
}

/// Maps errors of the engine.
pub(in crate::dialects) fn of_engine(app: &App, error: Error) -> ApiError {
    let Error::Refused(refusal) = &error else { return error.into() };
    let refused = |kind: Kind, detail: &str| RefusedRequest::new(kind, detail);
    match refusal {
        Refusal::Foreign if app.config.auth.hide_foreign => Error::Refused(Refusal::NotFound).into(),
        Refusal::Foreign | Refusal::NotFound => error.into(),
        Refusal::LeaseLost => refused(refusal.kind(), "The worker does not hold the job, or no longer.")
            .fact("reason", "lease_lost")
            .into(),
        Refusal::WrongState(state) => wrong_state(word(*state)),
        Refusal::AlreadyCompleted(state) => {
            let state = word(*state);
            refused(refusal.kind(), &format!("The job has ended and is {state}."))
                .fact("current_state", state)
                .into()
        }
        Refusal::AlreadyCanceled => {
            refused(refusal.kind(), "The job was cancelled.").fact("current_state", "cancelled").into()
        }
        _ => error.into(),
    }
}

/// The operation is not possible in this state.
pub(super) fn wrong_state(state: &str) -> ApiError {
    let detail = format!("The job is {state}, and this cannot be done to it now.");
    RefusedRequest::new(Kind::IllegalTransition, detail).fact("current_state", state).into()
}

/// The job has ended (C-22).
pub(super) fn ended(state: &str) -> ApiError {
    let kind = if state == "cancelled" { Kind::AlreadyCancelled } else { Kind::IllegalTransition };
    RefusedRequest::new(kind, format!("The job has ended and is {state}."))
        .fact("current_state", state)
        .into()
}

/// OJS's name for a state without a facet.
const fn word(state: State) -> &'static str {
    match state {
        State::Created => "scheduled",
        State::Queued => "available",
        State::Assigned | State::Running => "active",
        State::Succeeded => "completed",
        State::Failed => "discarded",
        State::Canceled => "cancelled",
    }
}

/// Adds the headers about a queue's depth.
pub(super) fn add_pressure(headers: &mut HeaderMap, depth: u64, bound: u64) {
    headers.insert(QUEUE_DEPTH, HeaderValue::from(depth));
    headers.insert(QUEUE_BOUND, HeaderValue::from(bound));
    let pressure = match depth.saturating_mul(100) / bound.max(1) {
        0..80 => "normal",
        80..100 => "warning",
        _ => "critical",
    };
    headers.insert(QUEUE_PRESSURE, HeaderValue::from_static(pressure));
}
