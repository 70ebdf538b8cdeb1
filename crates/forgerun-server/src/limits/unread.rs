//! Unread answers. An HTTP/2 client can request much and read nothing: its window stays closed, and
//! every answer waits in memory. The memory is charged to the client ([`super::byte_budget`]), and
//! a connection with an answer that makes no progress is closed.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::BoxError;
use axum::http::Response;
use bytes::Buf;
use forgerun_core::time::Time;
use forgerun_engine::{Clock, SystemClock};
use http_body::{Body as HttpBody, Frame, SizeHint};

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
    /// Whether an answer must progress even if it is small or not begun. Not on gRPC, where workers
    /// hold back messages on purpose.
    all_must_progress: bool,
    waiting: Mutex<(u64, HashMap<u64, UnreadAnswer>)>,
}

/// An answer that waits for its reader.
struct UnreadAnswer {
    /// Its last progress.
    since: Time,
    n_holds: usize,
}

impl UnreadAnswers {
    pub(crate) fn new(budget: Arc<ByteBudget>, all_must_progress: bool) -> UnreadAnswers {
        UnreadAnswers { budget, all_must_progress, waiting: Mutex::default() }
    }

    /// Charges an answer to its caller; further pieces are charged as they come. Small ones always
    /// pass, so that a refusal can be sent.
    pub(crate) fn begin(
        self: &Arc<Self>,
        holder: ByteHolder,
        n_bytes: usize,
    ) -> Result<AnswerCharge, ApiError> {
        let mut reservation = self.budget.open(holder);
        if n_bytes > UNWRITTEN_FREE_BYTES {
            reservation.grow(n_bytes)?;
        }
        let mut charge = self.open(Some(holder));
        charge.first = (n_bytes > 0).then(|| (self.hold(charge.id), Some(reservation)));
        Ok(AnswerCharge(Arc::new(Mutex::new(Some(charge)))))
    }

    /// The same for an answer whose body is shared with others and so charged to none.
    pub(crate) fn begin_shared(self: &Arc<Self>) -> AnswerCharge {
        AnswerCharge(Arc::new(Mutex::new(Some(self.open(None)))))
    }

    fn open(self: &Arc<Self>, holder: Option<ByteHolder>) -> Charge {
        let id = {
            let mut waiting = self.lock();
            waiting.0 += 1;
            waiting.0
        };
        let blocked = self.all_must_progress.then(|| self.hold(id));
        Charge { holder, id, first: None, blocked, unread: self.clone() }
    }

    fn hold(self: &Arc<Self>, id: u64) -> Hold {
        let now = SystemClock.now();
        self.lock().1.entry(id).or_insert(UnreadAnswer { since: now, n_holds: 0 }).n_holds += 1;
        Hold { unread: self.clone(), id }
    }

    /// Resolves when an answer has made no progress for this long.
    pub(crate) async fn stalled(&self, stall: Duration) {
        loop {
            SystemClock.sleep(LOOK_EVERY.min(stall)).await;
            let oldest = self.lock().1.values().map(|waiting| waiting.since).min();
            if oldest.is_some_and(|oldest| SystemClock.now().since(oldest) >= stall) {
                return;
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, (u64, HashMap<u64, UnreadAnswer>)> {
        // Never half changed, so a panic elsewhere is harmless.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// As long as it exists, its answer must make progress.
struct Hold {
    unread: Arc<UnreadAnswers>,
    id: u64,
}

impl Hold {
    fn made_progress(&self) {
        if let Some(waiting) = self.unread.lock().1.get_mut(&self.id) {
            waiting.since = SystemClock.now();
        }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut waiting = self.unread.lock();
        if let Some(answer) = waiting.1.get_mut(&self.id) {
            answer.n_holds -= 1;
            if answer.n_holds == 0 {
                waiting.1.remove(&self.id);
            }
        }
    }
}

/// The charge of an answer. It passes the encoder with the response, to the connection.
#[derive(Clone)]
pub(crate) struct AnswerCharge(Arc<Mutex<Option<Charge>>>);

type PieceCharge = (Hold, Option<Reservation>);

struct Charge {
    /// `None` if its bytes are not charged.
    holder: Option<ByteHolder>,
    id: u64,
    /// The charge of its first piece.
    first: Option<PieceCharge>,
    /// Set while the connection does not accept more of the body.
    blocked: Option<Hold>,
    unread: Arc<UnreadAnswers>,
}

impl Charge {
    /// The charge of the next piece; `Err` if it is too much.
    fn of_piece(&mut self, n_bytes: usize) -> Result<Option<PieceCharge>, ApiError> {
        if let Some(first) = self.first.take() {
            return Ok(Some(first));
        }
        if n_bytes <= UNWRITTEN_FREE_BYTES && !self.unread.all_must_progress {
            return Ok(None);
        }
        let mut reservation = self.holder.map(|holder| self.unread.budget.open(holder));
        if let Some(reservation) = reservation.as_mut().filter(|_| n_bytes > UNWRITTEN_FREE_BYTES) {
            reservation.grow(n_bytes)?;
        }
        Ok(Some((self.unread.hold(self.id), reservation)))
    }

    /// Notes whether the body itself is not ready, so that the reader is not to blame.
    fn note(&mut self, is_idle: bool) {
        if is_idle {
            self.blocked = None;
        } else if self.unread.all_must_progress {
            let hold = self.blocked.take().unwrap_or_else(|| self.unread.hold(self.id));
            hold.made_progress();
            self.blocked = Some(hold);
        }
    }
}

/// The body of an answer, whose pieces are charged until they are written.
pub struct UnreadBody<B> {
    body: B,
    /// `None` for an answer that is not charged.
    charge: Option<Charge>,
}

impl<B> UnreadBody<B> {
    pub(crate) fn of(mut response: Response<B>) -> Response<UnreadBody<B>> {
        let charge = response.extensions_mut().remove::<AnswerCharge>();
        let charge = charge.and_then(|charge| charge.0.lock().unwrap_or_else(PoisonError::into_inner).take());
        response.map(|body| UnreadBody { body, charge })
    }
}

impl<B> HttpBody for UnreadBody<B>
where
    B: HttpBody + Unpin,
    B::Error: Into<BoxError>,
{
    type Data = AnswerPiece<B::Data>;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BoxError>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if let Some(charge) = &mut self.charge {
            charge.note(!matches!(polled, Poll::Ready(Some(_))));
        }
        let Poll::Ready(polled) = polled else { return Poll::Pending };
        let Some(frame) = polled.transpose().map_err(Into::into)? else { return Poll::Ready(None) };
        let data = match frame.into_data() {
            Ok(data) => data,
            Err(frame) => {
                return Poll::Ready(Some(Ok(frame.map_data(|data| AnswerPiece { data, charge: None }))));
            }
        };
        let charge = match &mut self.charge {
            None => None,
            // A client that does not read its streams loses them, and can reopen them.
            Some(charge) => charge.of_piece(data.remaining()).map_err(|_| "too much was not read")?,
        };
        Poll::Ready(Some(Ok(Frame::data(AnswerPiece { data, charge }))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A piece of an answer. It is dropped when its last byte is written.
pub struct AnswerPiece<D> {
    data: D,
    charge: Option<PieceCharge>,
}

impl<D: Buf> Buf for AnswerPiece<D> {
    fn remaining(&self) -> usize {
        self.data.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.data.chunk()
    }

    fn advance(&mut self, n_bytes: usize) {
        self.data.advance(n_bytes);
        if let Some((hold, _)) = &self.charge {
            hold.made_progress();
        }
    }
}
