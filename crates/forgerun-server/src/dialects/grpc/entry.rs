//! Checks of a call before its message is decoded: authentication, rate limit, timeout and size. A
//! decoded message can take a hundred times as much memory, so anonymous callers must not make the
//! server decode one.

use std::pin::pin;

use axum::http::header::{HeaderMap, HeaderName};
use axum::http::{Request, Response};
use bytes::{Buf, Bytes};
use forgerun_core::catalog::Kind;
use forgerun_wire::body::violation;
use http_body_util::Full;
use hyper::body::Incoming;
use prost::encoding::{WireType, decode_key, decode_varint};
use tokio::time::timeout;
use tonic::body::Body;

use super::call::{
    CallOrigin, Entered, EnteredCall, GRPC_TIMEOUT, MessageSize, Rpc, as_over_http, exchange, refused,
};
use crate::app::App;
use crate::auth::{OperatorRole, Who};
use crate::http::{ApiError, Exchange, Panicked, body, caught, routing};
use crate::limits::{
    GRPC_CALL_BYTES, GRPC_ENTRIES_MAX, GRPC_MESSAGE_BYTES_MAX, GRPC_MESSAGE_OF_ONE_BYTES_MAX,
    byte_budget::{ByteHolder, Reservation},
};

const GRPC_ENCODING: HeaderName = HeaderName::from_static("grpc-encoding");

/// Prefix of a message: compression flag and length.
const PREFIX_BYTES: usize = 5;

/// The request with its whole message, or the answer of a refusal.
pub(super) async fn enter(
    app: &App,
    rpc: &Rpc,
    request: Request<Incoming>,
    origin: &CallOrigin,
) -> Result<Request<Full<Bytes>>, Response<Body>> {
    let (mut parts, body) = request.into_parts();
    let headers = std::mem::take(&mut parts.headers);
    // The header fields that are used from here on.
    for name in [&GRPC_ENCODING, &GRPC_TIMEOUT] {
        parts.headers.extend(headers.get(name).map(|value| (name.clone(), value.clone())));
    }
    let mut exchange = exchange(app, rpc, as_over_http(headers, origin), origin.address);
    let done = {
        let work = pin!(timeout(app.bounds.request_timeout, message(app, &mut exchange, rpc, body)));
        caught(work).await
    };
    let message = match done {
        Ok(Ok(message)) => message,
        Ok(Err(_)) => {
            Err(ApiError::new(Kind::OperationTimeout, "The message took longer than the server waits."))
        }
        Err(Panicked) => Err(ApiError::internal(Kind::Internal, "a check panicked")),
    };
    match message {
        Ok((who, reservation, message)) => {
            let unread = origin.unread.clone();
            parts.extensions.insert(EnteredCall::new(Entered { exchange, who, reservation, unread }));
            Ok(Request::from_parts(parts, Full::new(message)))
        }
        Err(error) => Err(refused(app, &exchange, error).into_http()),
    }
}

async fn message(
    app: &App,
    exchange: &mut Exchange,
    rpc: &Rpc,
    body: Incoming,
) -> Result<(Who, Reservation, Bytes), ApiError> {
    let who = routing::enter(app, exchange, rpc.access, rpc.scopes, OperatorRole::Admin, rpc.rate).await?;
    let mut reservation = app.incoming.open(ByteHolder::new(&who, exchange.address));
    reservation.grow(GRPC_CALL_BYTES + head_bytes(&exchange.headers))?;
    let bytes_max = match rpc.size {
        MessageSize::One => GRPC_MESSAGE_OF_ONE_BYTES_MAX,
        MessageSize::Many => GRPC_MESSAGE_BYTES_MAX,
    };
    let bytes_max = body::bytes_max_of(&who, bytes_max);
    let message = match body::gather(body, bytes_max + PREFIX_BYTES, &mut reservation).await {
        Ok(message) => message,
        Err(error) if error.kind() == Kind::BodyTooLarge => return Err(body::too_large(bytes_max)),
        Err(error) => return Err(error),
    };
    if rpc.size == MessageSize::Many {
        check_entries(message.get(PREFIX_BYTES..).unwrap_or_default())?;
    }
    Ok((who, reservation, message))
}

pub(super) fn head_bytes(headers: &HeaderMap) -> usize {
    headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum()
}

/// Refuses a message with more fields than could be accepted: each may become a job, and takes
/// hundreds of bytes even if it is empty.
fn check_entries(message: &[u8]) -> Result<(), ApiError> {
    match n_fields(message) {
        // The decoder reports the error in detail.
        Some(n) if n <= GRPC_ENTRIES_MAX => Ok(()),
        Some(_) => Err(malformed(&format!("must have at most {GRPC_ENTRIES_MAX} entries"))),
        None => Err(malformed("cannot be read")),
    }
}

fn malformed(detail: &str) -> ApiError {
    let violations = vec![violation("message", detail, "maxItems")];
    forgerun_wire::body::refused(Kind::MalformedRequest, violations, &[]).into()
}

/// Number of top-level fields; `None` if the message is malformed. Groups, which our messages do
/// not have, count as malformed.
fn n_fields(mut message: &[u8]) -> Option<usize> {
    let mut n = 0;
    while message.has_remaining() {
        let (_, wire_type) = decode_key(&mut message).ok()?;
        let n_bytes = match wire_type {
            WireType::Varint => {
                decode_varint(&mut message).ok()?;
                0
            }
            WireType::SixtyFourBit => 8,
            WireType::LengthDelimited => usize::try_from(decode_varint(&mut message).ok()?).ok()?,
            WireType::ThirtyTwoBit => 4,
            WireType::StartGroup | WireType::EndGroup => return None,
        };
        message = message.get(n_bytes..)?;
        n += 1;
    }
    Some(n)
}

#[cfg(test)]
mod tests {
    use forgerun_wire::grpc::v1;
    use prost::Message;

    use super::*;

    #[test]
    fn fields_of_a_message_are_counted_without_those_inside() {
        let entry = |n: usize| v1::BatchJobEntry {
            r#type: "a".into(),
            args: vec![prost_types::Value::default(); n],
            ..Default::default()
        };
        let message =
            v1::EnqueueBatchRequest { jobs: vec![entry(0), entry(3), entry(9)], ..Default::default() };
        assert_eq!(n_fields(&message.encode_to_vec()), Some(3));
        assert_eq!(n_fields(&[]), Some(0));
        assert_eq!(n_fields(&[0x0a, 0x00].repeat(7)), Some(7));
        for unreadable in [&[0x0a][..], &[0x0a, 5, 1], &[0x0b, 0x0c], &[0x00]] {
            assert_eq!(n_fields(unreadable), None, "{unreadable:?}");
        }
    }
}
