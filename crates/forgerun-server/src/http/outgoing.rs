//! Memory of answers that are not written yet.
//!
//! A connection writes one answer after the other, and takes no more of a body than its buffer
//! holds; a piece in memory is taken whole. So a connection holds little more than one answer. The
//! total is bounded here: while too much is unread, further large answers are refused. Small ones
//! always pass, so that refusals can be sent.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use axum::body::{Body, HttpBody};
use axum::response::Response;
use bytes::{Buf, Bytes};
use forgerun_core::catalog::Kind;
use forgerun_wire::problem::RefusedRequest;
use http_body::{Frame, SizeHint};

use crate::http::ApiError;
use crate::limits::{TROUBLE_AFTER_S, UNWRITTEN_BYTES_MAX, UNWRITTEN_FREE_BYTES};

/// Unwritten bytes of large answers.
#[derive(Debug, Default)]
pub struct Unwritten(AtomicUsize);

impl Unwritten {
    pub fn n_bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The answer, unless it is large and the bound is reached.
    pub(crate) fn admit(&self, response: Response) -> Result<Response, ApiError> {
        let is_large = response.body().size_hint().lower() > UNWRITTEN_FREE_BYTES as u64;
        if is_large && self.n_bytes() >= UNWRITTEN_BYTES_MAX {
            let detail = "More is waiting to be written to slow readers than the server holds.";
            let refused = RefusedRequest::new(Kind::QueueFull, detail);
            return Err(refused.limited(UNWRITTEN_BYTES_MAX as u64, "at once", TROUBLE_AFTER_S).into());
        }
        Ok(response)
    }

    fn hold(self: &Arc<Self>, bytes: &Bytes) -> Option<UnwrittenBytes> {
        // Shared memory, such as a public document, exists anyway.
        if bytes.len() <= UNWRITTEN_FREE_BYTES || !bytes.is_unique() {
            return None;
        }
        self.0.fetch_add(bytes.len(), Ordering::Relaxed);
        Some(UnwrittenBytes { unwritten: self.clone(), n_bytes: bytes.len() })
    }
}

/// A body that counts its pieces until they are written.
pub struct Outgoing {
    body: Body,
    unwritten: Arc<Unwritten>,
}

impl Outgoing {
    pub(crate) fn new(body: Body, unwritten: Arc<Unwritten>) -> Outgoing {
        Outgoing { body, unwritten }
    }
}

impl HttpBody for Outgoing {
    type Data = Piece;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Piece>, axum::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        polled.map_ok(|frame| {
            frame.map_data(|bytes| {
                let hold = self.unwritten.hold(&bytes);
                Piece { bytes, _hold: hold }
            })
        })
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A piece of a body. It is dropped when its last byte is written.
pub struct Piece {
    bytes: Bytes,
    _hold: Option<UnwrittenBytes>,
}

struct UnwrittenBytes {
    unwritten: Arc<Unwritten>,
    n_bytes: usize,
}

impl Drop for UnwrittenBytes {
    fn drop(&mut self) {
        self.unwritten.0.fetch_sub(self.n_bytes, Ordering::Relaxed);
    }
}

impl Buf for Piece {
    fn remaining(&self) -> usize {
        self.bytes.remaining()
    }

    fn chunk(&self) -> &[u8] {
        self.bytes.chunk()
    }

    fn advance(&mut self, n_bytes: usize) {
        self.bytes.advance(n_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn large() -> Bytes {
        Bytes::from(vec![0; UNWRITTEN_FREE_BYTES + 1])
    }

    #[test]
    fn only_what_nobody_else_holds_is_counted_and_until_it_is_dropped() {
        let unwritten = Arc::new(Unwritten::default());
        let (shared, small) = (large(), Bytes::from(vec![0; UNWRITTEN_FREE_BYTES]));
        let _copy = shared.clone();
        assert!(unwritten.hold(&shared).is_none() && unwritten.hold(&small).is_none());
        let bytes = large();
        let hold = unwritten.hold(&bytes);
        let piece = Piece { bytes, _hold: hold };
        assert_eq!(unwritten.n_bytes(), piece.remaining());
        drop(piece);
        assert_eq!(unwritten.n_bytes(), 0);
    }

    #[test]
    fn large_answers_are_refused_while_too_much_waits_and_small_ones_are_not() {
        let unwritten = Unwritten(AtomicUsize::new(UNWRITTEN_BYTES_MAX));
        let answer = |bytes: Bytes| unwritten.admit(Response::new(Body::from(bytes)));
        assert_eq!(answer(large()).unwrap_err().kind(), Kind::QueueFull);
        assert!(answer(Bytes::from_static(b"small")).is_ok());
        unwritten.0.store(UNWRITTEN_BYTES_MAX - 1, Ordering::Relaxed);
        assert!(unwritten.admit(Response::new(Body::from(large()))).is_ok());
    }
}
