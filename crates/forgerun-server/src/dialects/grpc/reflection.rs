//! Reflection calls, which need no key: few bytes, for a limited time, charged like all anonymous
//! input.
//!
//! The library ends a call with an unreadable message as a success. So refusals are recorded here
//! and set the status.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use axum::http::HeaderMap;
use bytes::Bytes;
use forgerun_engine::{Clock, SystemClock};
use http_body::{Body as HttpBody, Frame};
use hyper::body::Incoming;
use tonic::Status;
use tonic::body::Body;

use crate::limits::{
    REFLECTION_BYTES_MAX, REFLECTION_MESSAGE_BYTES_MAX, REFLECTION_TIMEOUT, byte_budget::Reservation,
};

/// Prefix of a message: compression flag and length.
const MESSAGE_HEAD: usize = 5;

/// The error of a call whose messages were not read to their end; `None` once they were.
#[derive(Clone)]
struct Unread(Arc<Mutex<Option<Status>>>);

impl Unread {
    fn new() -> Unread {
        Unread(Arc::new(Mutex::new(Some(Status::invalid_argument("A message cannot be read.")))))
    }

    fn set(&self, status: Option<Status>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = status;
    }

    fn get(&self) -> Option<Status> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The client's messages, within bounds.
pub(super) struct ReflectionBody {
    body: Incoming,
    n_left: usize,
    head: Vec<u8>,
    /// Bytes left of the current message.
    n_of_message: usize,
    deadline: Pin<Box<dyn Future<Output = ()> + Send>>,
    unread: Unread,
    _reservation: Reservation,
}

/// The answers to a [`ReflectionBody`].
pub(super) struct ReflectionAnswer {
    body: Body,
    unread: Unread,
}

impl ReflectionBody {
    pub(super) fn new(body: Incoming, reservation: Reservation) -> ReflectionBody {
        ReflectionBody {
            body,
            n_left: REFLECTION_BYTES_MAX,
            head: Vec::with_capacity(MESSAGE_HEAD),
            n_of_message: 0,
            deadline: SystemClock.sleep(REFLECTION_TIMEOUT),
            unread: Unread::new(),
            _reservation: reservation,
        }
    }

    /// Sets the recorded refusal as the status of the library's answer.
    pub(super) fn answered(&self) -> impl FnOnce(Body) -> Body + use<> {
        let unread = self.unread.clone();
        move |body| Body::new(ReflectionAnswer { body, unread })
    }

    /// Whether these bytes are within the bounds.
    fn count(&mut self, mut bytes: &[u8]) -> Result<(), Status> {
        self.n_left = self.n_left.checked_sub(bytes.len()).ok_or_else(|| {
            let detail = format!("A call of reflection may bring {REFLECTION_BYTES_MAX} bytes.");
            Status::resource_exhausted(detail)
        })?;
        while let Some((first, rest)) = bytes.split_first() {
            if self.n_of_message > 0 {
                let n_here = self.n_of_message.min(bytes.len());
                self.n_of_message -= n_here;
                bytes = &bytes[n_here..];
                continue;
            }
            self.head.push(*first);
            bytes = rest;
            if let [_, a, b, c, d] = self.head[..] {
                self.head.clear();
                self.n_of_message = u32::from_be_bytes([a, b, c, d]) as usize;
                if self.n_of_message > REFLECTION_MESSAGE_BYTES_MAX {
                    let detail =
                        format!("A message to reflection may have {REFLECTION_MESSAGE_BYTES_MAX} bytes.");
                    return Err(Status::resource_exhausted(detail));
                }
            }
        }
        Ok(())
    }

    fn refuse(&self, status: Status) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        self.unread.set(Some(status.clone()));
        Poll::Ready(Some(Err(status)))
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
            return self.refuse(Status::deadline_exceeded("The call lasts too long; call again."));
        }
        let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(context) else { return Poll::Pending };
        let frame = match polled {
            None => {
                let is_whole = self.head.is_empty() && self.n_of_message == 0;
                if is_whole {
                    self.unread.set(None);
                }
                return Poll::Ready(None);
            }
            Some(Err(error)) => return self.refuse(Status::cancelled(error.to_string())),
            Some(Ok(frame)) => frame,
        };
        if let Some(bytes) = frame.data_ref()
            && let Err(status) = self.count(bytes)
        {
            return self.refuse(status);
        }
        Poll::Ready(Some(Ok(frame)))
    }
}

impl HttpBody for ReflectionAnswer {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(context) else { return Poll::Pending };
        let Some(status) = self.unread.get() else { return Poll::Ready(polled) };
        Poll::Ready(polled.map(|frame| match frame?.into_trailers() {
            Ok(_) => {
                let mut trailers = HeaderMap::new();
                status.add_header(&mut trailers)?;
                Ok(Frame::trailers(trailers))
            }
            Err(frame) => Ok(frame),
        }))
    }
}
