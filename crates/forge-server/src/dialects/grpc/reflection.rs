//! Calls of reflection, which need no key: few bytes, for a while, and charged like all that strangers send.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use forge_engine::{Clock, SystemClock};
use http_body::{Body as HttpBody, Frame};
use hyper::body::Incoming;
use tonic::Status;

use crate::edge::byte_budget::Reservation;
use crate::limits::{REFLECTION_BYTES_MAX, REFLECTION_TIMEOUT};

/// What a client asks, message by message, within its bounds.
pub(super) struct ReflectionBody {
    body: Incoming,
    n_left: usize,
    deadline: Pin<Box<dyn Future<Output = ()> + Send>>,
    _reservation: Reservation,
}

impl ReflectionBody {
    pub(super) fn new(body: Incoming, reservation: Reservation) -> ReflectionBody {
        let deadline = SystemClock.sleep(REFLECTION_TIMEOUT);
        ReflectionBody { body, n_left: REFLECTION_BYTES_MAX, deadline, _reservation: reservation }
    }
}

impl HttpBody for ReflectionBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        if self.deadline.as_mut().poll(context).is_ready() {
            return Poll::Ready(Some(Err(Status::deadline_exceeded("The call lasts too long; call again."))));
        }
        let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(context) else { return Poll::Pending };
        let frame = polled.transpose().map_err(|error| Status::cancelled(error.to_string()))?;
        let n_bytes = frame.as_ref().and_then(Frame::data_ref).map_or(0, Bytes::len);
        match self.n_left.checked_sub(n_bytes) {
            Some(n_left) => self.n_left = n_left,
            None => {
                let detail = format!("A call of reflection may bring {REFLECTION_BYTES_MAX} bytes.");
                return Poll::Ready(Some(Err(Status::resource_exhausted(detail))));
            }
        }
        Poll::Ready(frame.map(Ok))
    }
}
