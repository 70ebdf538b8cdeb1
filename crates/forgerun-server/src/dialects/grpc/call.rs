//! One call: an [`Exchange`] like any other request, the same checks in the same order, and an
//! answer with a gRPC status.
//!
//! Metadata are header fields. Those with other names than on `/ojs/v1` are renamed here, once.

use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::http::header::{AUTHORIZATION, HOST, HeaderMap, HeaderName, HeaderValue, RETRY_AFTER};
use axum::http::{Method, StatusCode, Uri, Version};
use bytes::Bytes;
use forgerun_core::catalog::Kind;
use forgerun_core::job::Dialect;
use forgerun_core::scope::KeyScopes;
use forgerun_engine::audited;
use forgerun_wire::body::violation;
use forgerun_wire::ojs::error::ErrorContext;
use forgerun_wire::ojs::server::CONFORMANCE_LEVEL;
use forgerun_wire::problem::RefusedRequest;
use forgerun_wire::{grpc, status};
use prost::Message;
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use super::OjsOverGrpc;
use super::feed::{self, MessageFeed, Messages};
use crate::app::App;
use crate::audit;
use crate::auth::Who;
use crate::dialects::ojs::refusals;
use crate::http::{
    ApiError, Exchange, Panicked, body, caught,
    exchange::REQUEST_ID,
    finish,
    routing::{Call, RateCount, RouteAccess},
    timed_out,
};
use crate::limits::byte_budget::{ByteHolder, Reservation};
use crate::limits::unread::UnreadAnswers;

/// Properties of a call before its message is decoded.
pub(super) struct Rpc {
    /// Also its name in metrics and traces.
    pub(super) path: &'static str,
    /// Its name in the log.
    pub(super) action: &'static str,
    /// Whether it only reads.
    pub(super) reads: bool,
    pub(super) access: RouteAccess,
    pub(super) scopes: KeyScopes,
    pub(super) rate: RateCount,
    /// Its timeout, if longer than usual.
    pub(super) timeout: Option<Duration>,
    pub(super) size: MessageSize,
}

/// Size bound of a call's message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MessageSize {
    /// At most one job.
    One,
    /// Many jobs, one in each of its fields.
    Many,
}

/// The origin of a call.
pub(super) struct CallOrigin {
    pub(super) address: IpAddr,
    /// The requested host: in HTTP/2 it is not a header field.
    pub(super) authority: Option<HeaderValue>,
    /// Unread answers of its connection.
    pub(super) unread: Arc<UnreadAnswers>,
}

/// Boxed, so that a call uses the memory of its own handler and not of the largest one.
pub(super) type RpcAnswering<'a, A> = Pin<Box<dyn Future<Output = Result<A, ApiError>> + Send + 'a>>;

const SERVER_VERSION: HeaderName = HeaderName::from_static("x-ojs-server-version");
const LEVEL: HeaderName = HeaderName::from_static("x-ojs-conformance-level");
const OJS_REQUEST_ID: HeaderName = HeaderName::from_static("x-ojs-request-id");
const OJS_API_KEY: HeaderName = HeaderName::from_static("x-ojs-api-key");
const OJS_IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("x-ojs-idempotency-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
const RATE_LIMIT: HeaderName = HeaderName::from_static("x-ojs-ratelimit-limit");
const RATE_REMAINING: HeaderName = HeaderName::from_static("x-ojs-ratelimit-remaining");
const RATE_RESET: HeaderName = HeaderName::from_static("x-ojs-ratelimit-reset");
pub(super) const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

impl OjsOverGrpc {
    /// A call with one answer. `subject` is the id of the job in its message, if it is about one.
    pub(super) async fn unary<Q: Send, A: Message>(
        &self,
        request: Request<Q>,
        rpc: &'static Rpc,
        subject: fn(&Q) -> &str,
        answer: for<'a> fn(Call<'a>, Q) -> RpcAnswering<'a, A>,
    ) -> Result<Response<A>, Status> {
        self.answered(request, rpc, subject, answer, A::encoded_len).await
    }

    /// The same for an answer that is not a message; `size` counts its bytes, those of a stream as
    /// they come.
    pub(super) async fn answered<Q: Send, A>(
        &self,
        request: Request<Q>,
        rpc: &'static Rpc,
        subject: fn(&Q) -> &str,
        answer: for<'a> fn(Call<'a>, Q) -> RpcAnswering<'a, A>,
        size: fn(&A) -> usize,
    ) -> Result<Response<A>, Status> {
        let app = &*self.app;
        let (_, extensions, message) = request.into_parts();
        let entered = extensions.get::<EnteredCall>().and_then(EnteredCall::take);
        let Entered { mut exchange, who, reservation, unread } =
            entered.ok_or_else(|| Status::internal("a call did not come by its entry"))?;
        exchange.subject = subject(&message).parse().ok();
        let holder = ByteHolder::new(&who, exchange.address);
        let span = within(&exchange, rpc.timeout.unwrap_or(app.bounds.request_timeout));
        let done = {
            let scope = audit::scope(app, &exchange, rpc.scopes, &who);
            let call = Call { app, exchange: &exchange, who, body: Bytes::new() };
            let answer = async {
                match scope {
                    None => answer(call, message).await,
                    Some(scope) => Box::pin(audited(scope, answer(call, message))).await,
                }
            };
            let work = pin!(timeout(span, answer));
            caught(work).await
        };
        let answer = match done {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(timed_out(&exchange)),
            Err(Panicked) => Err(ApiError::internal(Kind::Internal, "a handler panicked")),
        };
        drop(reservation);
        let answer = answer.and_then(|answer| Ok((unread.begin(holder, size(&answer))?, answer)));
        match answer {
            Ok((unread, answer)) => {
                let mut response = Response::new(answer);
                response.extensions_mut().insert(unread);
                succeeded(app, &exchange, response.metadata_mut().as_mut());
                Ok(response)
            }
            Err(error) => Err(refused(app, &exchange, error)),
        }
    }

    /// A call that is answered with a stream. All checks run before it begins; it lasts until its
    /// deadline, if it has one.
    pub(super) async fn stream<Q: Send, F: MessageFeed>(
        &self,
        request: Request<Q>,
        rpc: &'static Rpc,
        open: for<'a> fn(Call<'a>, Q) -> RpcAnswering<'a, F>,
    ) -> Result<Response<Messages<F::Message>>, Status> {
        let deadline = deadline(request.metadata().as_ref());
        let opened = self.answered(request, rpc, |_| "", open, |_| 0).await?;
        let deadline = deadline.map(|span| self.app.clock.sleep(span));
        let (metadata, feed, extensions) = opened.into_parts();
        Ok(Response::from_parts(metadata, feed::stream(feed, deadline), extensions))
    }
}

/// An authenticated call. It passes the decoder with the request to the handler.
#[derive(Clone)]
pub(super) struct EnteredCall(Arc<Mutex<Option<Entered>>>);

pub(super) struct Entered {
    pub(super) exchange: Exchange,
    pub(super) who: Who,
    /// Memory of its metadata and message, until it is answered.
    pub(super) reservation: Reservation,
    /// Unread answers of its connection.
    pub(super) unread: Arc<UnreadAnswers>,
}

impl EnteredCall {
    pub(super) fn new(entered: Entered) -> EnteredCall {
        EnteredCall(Arc::new(Mutex::new(Some(entered))))
    }

    pub(super) fn take(&self) -> Option<Entered> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// Metadata with the names of `/ojs/v1`.
pub(super) fn as_over_http(mut headers: HeaderMap, origin: &CallOrigin) -> HeaderMap {
    if let (false, Some(authority)) = (headers.contains_key(HOST), &origin.authority) {
        headers.insert(HOST, authority.clone());
    }
    for (theirs, ours) in [(OJS_REQUEST_ID, REQUEST_ID), (OJS_IDEMPOTENCY_KEY, IDEMPOTENCY_KEY)] {
        if let Some(value) = headers.remove(theirs) {
            headers.entry(ours).or_insert(value);
        }
    }
    if let Some(bearer) = headers.remove(OJS_API_KEY).and_then(|key| bearer(&key)) {
        headers.entry(AUTHORIZATION).or_insert(bearer);
    }
    headers
}

/// The exchange of a call with these header fields.
pub(super) fn exchange(app: &App, rpc: &Rpc, headers: HeaderMap, address: IpAddr) -> Exchange {
    let (mut parts, ()) = axum::http::Request::new(()).into_parts();
    // As the same request over HTTP: reads are logged and counted as reads.
    parts.method = if rpc.reads { Method::GET } else { Method::POST };
    parts.uri = Uri::from_static(rpc.path);
    parts.version = Version::HTTP_2;
    parts.headers = headers;
    let mut exchange = Exchange::begin(app, parts, address);
    exchange.dialect = Dialect::Ojs;
    exchange.route = rpc.path;
    exchange.action = rpc.action;
    exchange
}

fn bearer(key: &HeaderValue) -> Option<HeaderValue> {
    HeaderValue::from_bytes(&[b"Bearer ", key.as_bytes()].concat()).ok()
}

/// Timeout of the call: the server's, or less if the client's deadline is earlier.
fn within(exchange: &Exchange, span: Duration) -> Duration {
    deadline(&exchange.headers).map_or(span, |deadline| deadline.min(span))
}

/// The client's deadline in gRPC's format: up to eight digits and a unit. `None` if it is
/// malformed.
fn deadline(headers: &HeaderMap) -> Option<Duration> {
    let text = headers.get(GRPC_TIMEOUT)?.to_str().ok()?;
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if digits.is_empty() || digits.len() > 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let n: u64 = digits.parse().ok()?;
    match unit {
        "H" => Some(Duration::from_secs(n * 3600)),
        "M" => Some(Duration::from_secs(n * 60)),
        "S" => Some(Duration::from_secs(n)),
        "m" => Some(Duration::from_millis(n)),
        "u" => Some(Duration::from_micros(n)),
        "n" => Some(Duration::from_nanos(n)),
        _ => None,
    }
}

fn write_metadata(exchange: &Exchange, headers: &mut HeaderMap) {
    headers.insert(SERVER_VERSION, HeaderValue::from_static(env!("CARGO_PKG_VERSION")));
    headers.insert(LEVEL, HeaderValue::from(u16::from(CONFORMANCE_LEVEL)));
    headers.insert(OJS_REQUEST_ID, exchange.shown_request_id());
    if let Some(rate_status) = &exchange.rate_status {
        headers.insert(RATE_LIMIT, HeaderValue::from(rate_status.limit));
        headers.insert(RATE_REMAINING, HeaderValue::from(rate_status.remaining));
        headers.insert(RATE_RESET, HeaderValue::from(rate_status.reset_unix_s));
    }
}

fn succeeded(app: &App, exchange: &Exchange, headers: &mut HeaderMap) {
    finish::log_done(exchange, StatusCode::OK);
    write_metadata(exchange, headers);
    finish::note_answer(app, exchange, StatusCode::OK.as_u16());
}

pub(super) fn refused(app: &App, exchange: &Exchange, error: ApiError) -> Status {
    let refused = refusals::detailed(&finish::refused(app, exchange, error));
    let mut status = status_of(app, exchange, &refused);
    let headers = status.metadata_mut().as_mut();
    write_metadata(exchange, headers);
    headers.extend(refused.retry_after_s.map(|seconds| (RETRY_AFTER, HeaderValue::from(seconds))));
    status
}

fn status_of(app: &App, exchange: &Exchange, refused: &RefusedRequest) -> Status {
    let shown = exchange.shown_request_id();
    status_for(app, exchange.request_id(), shown.to_str().unwrap_or_default(), refused)
}

/// The status that ends a stream. The call was answered and counted when the stream began.
pub(super) fn late(app: &App, request_id: &str, error: ApiError) -> Status {
    let (refused, _, cause) = error.into_parts();
    let cause = cause.as_deref().map(tracing::field::display);
    tracing::debug!(request_id, error_message = refused.detail, cause, "stream given up");
    status_for(app, request_id, request_id, &refusals::detailed(&refused))
}

fn status_for(app: &App, id: &str, request_id: &str, refused: &RefusedRequest) -> Status {
    let instance = format!("urn:uuid:{id}");
    let status = status::http(refused.kind, Dialect::Ojs);
    grpc::error::status(refused, ErrorContext { base: &app.base, instance: &instance, request_id, status })
}

/// The call with the body of `/ojs/v1`, unless that is too large.
pub(super) fn with_body<'a>(call: Call<'a>, body: String, bytes_max: usize) -> Result<Call<'a>, ApiError> {
    if body.len() > bytes_max {
        Err(body::too_large(bytes_max))
    } else {
        Ok(Call { body: body.into(), ..call })
    }
}

/// Refuses a message without a job id. A malformed one is an unknown id (C-52).
pub(super) fn needs_job(job_id: &str) -> Result<(), ApiError> {
    if !job_id.is_empty() {
        return Ok(());
    }
    let violations = vec![violation("job_id", "is required", "required")];
    Err(forgerun_wire::body::refused(Kind::MalformedRequest, violations, &[]).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_is_read_as_grpc_writes_it() {
        let read = |text: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(GRPC_TIMEOUT, HeaderValue::from_str(text).unwrap());
            deadline(&headers)
        };
        for (text, span) in [
            ("1H", Duration::from_secs(3600)),
            ("2M", Duration::from_secs(120)),
            ("3S", Duration::from_secs(3)),
            ("500m", Duration::from_millis(500)),
            ("7u", Duration::from_micros(7)),
            ("99999999n", Duration::from_nanos(99_999_999)),
        ] {
            assert_eq!(read(text), Some(span), "{text}");
        }
        for text in ["", "S", "1", "1s", "123456789S", "-1S", "1.5S", "1 S"] {
            assert_eq!(read(text), None, "{text:?}");
        }
    }
}
