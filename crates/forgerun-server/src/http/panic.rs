//! Catches panics of handlers, so that a bug fails one request only.

use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::Poll;

#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs `work`. Pinned by the caller, so that it is not copied again: it has some kilobytes.
pub(crate) async fn caught<T>(mut work: Pin<&mut impl Future<Output = T>>) -> Result<T, Panicked> {
    // The state of the work is dropped; shared locks handle poison.
    poll_fn(move |context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Ready(done)) => Poll::Ready(Ok(done)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(Err(Panicked)),
    })
    .await
}
