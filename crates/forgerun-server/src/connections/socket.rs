//! The socket of a connection, as HTTP writes to it: writes without progress time out, and small
//! writes are combined.
//!
//! HTTP passes head and body of an answer without copying, so that a shared body is in memory once.
//! A small answer is copied together first: one plain write is cheaper than one of several parts.

use std::cell::RefCell;
use std::io::{self, ErrorKind, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use forgerun_engine::{Clock, SystemClock};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tracing::debug;

use crate::limits::{GATHERED_BYTES_MAX, LINGER, LINGER_BYTES_MAX, LINGER_STALL};

thread_local! {
    /// One per thread, not per connection: it is empty between two writes.
    static GATHERED: RefCell<Vec<u8>> = RefCell::new(Vec::with_capacity(GATHERED_BYTES_MAX));
}

pub(super) struct Socket {
    stream: TcpStream,
    /// Timeout of a write without progress.
    stall: Duration,
    /// Set while a write waits.
    waiting: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

impl Socket {
    pub(super) fn new(stream: TcpStream, stall: Duration) -> Socket {
        // Answers are written whole; waiting for more to send would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            debug!(%error, "could not set TCP_NODELAY");
        }
        give_up_after(&stream, stall);
        Socket { stream, stall, waiting: None }
    }

    /// Processes the result of a write: the timeout runs while it waits.
    fn noted(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        if written.is_ready() {
            self.waiting = None;
            return written;
        }
        let stall = self.stall;
        let waiting = self.waiting.get_or_insert_with(|| SystemClock.sleep(stall));
        waiting.as_mut().poll(context).map(|()| Err(ErrorKind::TimedOut.into()))
    }
}

/// Closes the connection so that the client sees the last answer. The client may still be sending a
/// refused body; if the connection were closed at once, the client's system would discard the
/// answer. So nothing more is written, and incoming bytes are dropped for a while.
pub(super) async fn linger(mut stream: impl AsyncRead + AsyncWrite + Unpin) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut dropped = vec![0; GATHERED_BYTES_MAX];
    let drain = async {
        let mut n_bytes = 0;
        while n_bytes < LINGER_BYTES_MAX {
            match timeout(LINGER_STALL, stream.read(&mut dropped)).await {
                Ok(Ok(n @ 1..)) => n_bytes += n,
                Ok(Ok(0) | Err(_)) | Err(_) => return,
            }
        }
    };
    // Whatever came by then is enough.
    let _ = timeout(LINGER, drain).await;
}

/// The same timeout for the kernel's buffer: otherwise it keeps megabytes per connection for many
/// minutes, even of closed ones.
#[cfg(target_os = "linux")]
fn give_up_after(stream: &TcpStream, stall: Duration) {
    if let Err(error) = socket2::SockRef::from(stream).set_tcp_user_timeout(Some(stall)) {
        debug!(%error, "could not set TCP_USER_TIMEOUT");
    }
}

#[cfg(not(target_os = "linux"))]
fn give_up_after(_: &TcpStream, _: Duration) {}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.noted(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let n_bytes: usize = parts.iter().map(|part| part.len()).sum();
        let stream = Pin::new(&mut self.stream);
        let written = if n_bytes > GATHERED_BYTES_MAX {
            stream.poll_write_vectored(context, parts)
        } else {
            GATHERED.with_borrow_mut(|gathered| {
                gathered.clear();
                parts.iter().for_each(|part| gathered.extend_from_slice(part));
                stream.poll_write(context, gathered)
            })
        };
        self.noted(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
