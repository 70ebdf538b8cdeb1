//! A bug in a handler costs one request its answer, not the server its life.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

#[derive(Debug)]
pub(crate) struct Panicked;

/// Does the work, and survives it. Pinned by the caller, so that it is not copied once more: it is
/// some kilobytes.
pub(crate) async fn caught<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Result<T, Panicked> {
    // Whatever the work had in hand is dropped with it; what it shares with others has locks that
    // know of poison.
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}
