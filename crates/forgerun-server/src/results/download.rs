//! The body of a stored result: read chunk by chunk, one ahead of what is being sent, so that disk
//! and network work in parallel. At most two chunks are in memory, whatever the size and however
//! slow the client.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::body::HttpBody;
use bytes::Bytes;
use forgerun_core::id::JobId;
use forgerun_store::{Boxed, Error, Source};
use http_body::{Frame, SizeHint};

use super::places::DownloadPlace;
use super::range::ByteRange;
use crate::limits::DOWNLOAD_CHUNK_BYTES;

/// A running download. Dropped when its client disconnects.
pub(super) struct Download {
    source: Arc<dyn Source>,
    /// The part that is not read yet.
    part: ByteRange,
    /// Bytes that are not sent yet.
    left: u64,
    ahead: ReadAhead,
    job: JobId,
    _place: DownloadPlace,
}

enum ReadAhead {
    NotBegun,
    Reading(Boxed<'static, Bytes>),
    Read(Result<Bytes, Error>),
}

impl Download {
    pub(super) fn new(
        source: Arc<dyn Source>,
        part: ByteRange,
        job: JobId,
        place: DownloadPlace,
    ) -> Download {
        Download { source, left: part.end - part.first, part, ahead: ReadAhead::NotBegun, job, _place: place }
    }

    /// Sends the next chunk, and begins reading another.
    fn advance(&mut self, context: &mut Context<'_>) {
        if matches!(self.ahead, ReadAhead::NotBegun) && self.part.first < self.part.end {
            let len = (self.part.end - self.part.first).min(DOWNLOAD_CHUNK_BYTES as u64) as usize;
            self.ahead = ReadAhead::Reading(self.source.read(self.part.first, len));
        }
        if let ReadAhead::Reading(reading) = &mut self.ahead
            && let Poll::Ready(read) = reading.as_mut().poll(context)
        {
            self.part.first += read.as_ref().map_or(0, Bytes::len) as u64;
            self.ahead = ReadAhead::Read(read);
        }
    }
}

impl HttpBody for Download {
    type Data = Bytes;
    type Error = Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Error>>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.advance(context);
        match std::mem::replace(&mut self.ahead, ReadAhead::NotBegun) {
            ReadAhead::Read(Ok(chunk)) => {
                self.left -= chunk.len() as u64;
                self.advance(context);
                Poll::Ready(Some(Ok(Frame::data(chunk))))
            }
            ReadAhead::Read(Err(error)) => {
                // The head is sent, so an error can only break the connection.
                tracing::error!(job.id = %self.job, %error, "download aborted");
                self.left = 0;
                Poll::Ready(Some(Err(error)))
            }
            other => {
                self.ahead = other;
                Poll::Pending
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
