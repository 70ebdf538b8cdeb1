//! What a request carries: nothing, bytes, or an upload that comes piece by piece.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::Full;
use tokio::sync::mpsc;

use crate::limits::UPLOAD_CHUNKS_MAX;

/// The body of a request.
pub(crate) enum Body {
    Whole(Full<Bytes>),
    Pieces(Pieces),
}

/// Pieces of a body whose size is known.
pub(crate) struct Pieces {
    receiver: mpsc::Receiver<io::Result<Bytes>>,
    left: u64,
}

impl Body {
    pub(crate) fn whole(bytes: Bytes) -> Body {
        Body::Whole(Full::new(bytes))
    }

    /// A body of `size` bytes, and where to write them. Fewer bytes break the request off, so that the server does not take a
    /// part for the whole.
    pub(crate) fn pieces(size: u64) -> (mpsc::Sender<io::Result<Bytes>>, Body) {
        let (sender, receiver) = mpsc::channel(UPLOAD_CHUNKS_MAX);
        (sender, Body::Pieces(Pieces { receiver, left: size }))
    }
}

impl Pieces {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.receiver.poll_recv(context).map(|piece| match piece {
            Some(Ok(piece)) => {
                self.left = self.left.saturating_sub(piece.len() as u64);
                Some(Ok(Frame::data(piece)))
            }
            Some(Err(error)) => Some(Err(error)),
            None => Some(Err(io::Error::other("the upload is shorter than announced"))),
        })
    }
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        match self.get_mut() {
            Body::Whole(bytes) => {
                let frame = Pin::new(bytes).poll_frame(context);
                frame.map(|frame| frame.map(|frame| frame.map_err(|never: Infallible| match never {})))
            }
            Body::Pieces(pieces) => pieces.poll(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Body::Whole(bytes) => bytes.is_end_stream(),
            Body::Pieces(pieces) => pieces.left == 0,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => bytes.size_hint(),
            Body::Pieces(pieces) => SizeHint::with_exact(pieces.left),
        }
    }
}
