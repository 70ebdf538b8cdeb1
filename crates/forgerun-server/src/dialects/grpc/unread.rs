//! Unread answers. An HTTP/2 client can request much and read nothing: its window stays closed, and
//! every answer waits in memory. The memory is charged to the client
//! ([`crate::limits::byte_budget`]), and a connection with an answer that makes no progress is
//! closed.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::http::Response;
use bytes::{Buf, Bytes};
use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tonic::Status;
use tonic::body::Body;

use crate::http::ApiError;
use crate::limits::{
    UNWRITTEN_FREE_BYTES,
    byte_budget::{ByteBudget, ByteHolder, Reservation},
};

/// Check interval.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// The answers of one connection that are not written yet.
pub(crate) struct UnreadAnswers {
    budget: Arc<ByteBudget>,
    /// Last progress of each.
    waiting: Mutex<(u64, HashMap<u64, Time>)>,
}

impl UnreadAnswers {
    pub(super) fn new(budget: Arc<ByteBudget>) -> UnreadAnswers {
        UnreadAnswers { budget, waiting: Mutex::default() }
    }

    /// Charges an answer to its caller; further pieces are charged as they come. Small ones always
    /// pass, so that a refusal can be sent.
    pub(super) fn begin(
        self: &Arc<Self>,
        holder: ByteHolder,
        n_bytes: usize,
    ) -> Result<AnswerCharge, ApiError> {
        let first = if n_bytes > 0 { Some(self.wait_for(holder, n_bytes)?) } else { None };
        let charge = Charge { holder, first, unread: self.clone() };
        Ok(AnswerCharge(Arc::new(Mutex::new(Some(charge)))))
    }

    fn wait_for(self: &Arc<Self>, holder: ByteHolder, n_bytes: usize) -> Result<UnreadPiece, ApiError> {
        let mut reservation = self.budget.open(holder);
        if n_bytes > UNWRITTEN_FREE_BYTES {
            reservation.grow(n_bytes)?;
        }
        let mut waiting = self.lock();
        let id = waiting.0;
        waiting.0 += 1;
        waiting.1.insert(id, SystemClock.now());
        Ok(UnreadPiece { unread: self.clone(), id, _reservation: reservation })
    }

    /// Resolves when an answer has made no progress for this long.
    pub(crate) async fn stalled(&self, stall: Duration) {
        loop {
            SystemClock.sleep(LOOK_EVERY.min(stall)).await;
            let oldest = self.lock().1.values().min().copied();
            if oldest.is_some_and(|oldest| SystemClock.now().since(oldest) >= stall) {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, Time>)> {
        // Never half changed, so a panic elsewhere is harmless.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An answer, or a piece of one, that is not written yet.
struct UnreadPiece {
    unread: Arc<UnreadAnswers>,
    id: u64,
    _reservation: Reservation,
}

impl UnreadPiece {
    fn made_progress(&self) {
        self.unread.lock().1.insert(self.id, SystemClock.now());
    }
}

impl Drop for UnreadPiece {
    fn drop(&mut self) {
        self.unread.lock().1.remove(&self.id);
    }
}

/// The charge of an answer. It passes the encoder with the response, to the connection.
#[derive(Clone)]
pub(super) struct AnswerCharge(Arc<Mutex<Option<Charge>>>);

struct Charge {
    holder: ByteHolder,
    /// The charge of its first piece.
    first: Option<UnreadPiece>,
    unread: Arc<UnreadAnswers>,
}

/// The body of an answer, whose pieces are charged until they are written.
pub struct GrpcAnswer {
    body: Body,
    /// `None` for an answer without a message.
    charge: Option<Charge>,
}

impl GrpcAnswer {
    pub(super) fn of(mut response: Response<Body>) -> Response<GrpcAnswer> {
        let charge = response.extensions_mut().remove::<AnswerCharge>();
        let charge = charge.and_then(|charge| charge.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        response.map(|body| GrpcAnswer { body, charge })
    }
}

impl HttpBody for GrpcAnswer {
    type Data = AnswerPiece;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<AnswerPiece>, Status>>> {
        let Poll::Ready(polled) = Pin::new(&mut self.body).poll_frame(context) else { return Poll::Pending };
        let Some(frame) = polled.transpose()? else { return Poll::Ready(None) };
        let bytes = match frame.into_data() {
            Ok(bytes) => bytes,
            Err(frame) => {
                return Poll::Ready(Some(Ok(frame.map_data(|bytes| AnswerPiece { bytes, waiting: None }))));
            }
        };
        let waiting = match &mut self.charge {
            None => None,
            Some(charge) => match charge.first.take() {
                Some(first) => Some(first),
                // A client that does not read its streams loses them, and can reopen them.
                None if bytes.len() > UNWRITTEN_FREE_BYTES => {
                    let waiting = charge.unread.wait_for(charge.holder, bytes.len());
                    Some(waiting.map_err(|_| Status::resource_exhausted("Too much was not read."))?)
                }
                None => None,
            },
        };
        Poll::Ready(Some(Ok(Frame::data(AnswerPiece { bytes, waiting }))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A piece of an answer. It is dropped when its last byte is written.
pub struct AnswerPiece {
    bytes: Bytes,
    waiting: Option<UnreadPiece>,
}

impl Buf for AnswerPiece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, n_bytes: usize) {
        self.bytes.advance(n_bytes);
        if let Some(waiting) = &self.waiting {
            waiting.made_progress();
        }
    }
}
