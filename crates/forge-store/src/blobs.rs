//! Bytes beside the rows: where the content of large results lives. Written once, in order, then named by a result, then
//! read in parts by anybody, without a lock and without ever being whole in memory.
//!
//! ```text
//!   begin ─► write … ─► finish ─► a result names it ─► the result expires or its job is forgotten
//!     │                  durable        │                        │
//!     └──────── loose ──────────────────┘                        └── loose ──► swept
//! ```
//!
//! A blob that no result names is *loose*, and a sweep removes it after a while ([`LOOSE_BLOB`]): so a process that is
//! killed between the bytes and the row leaves nothing for ever, and a reader who is at it while its result expires can
//! come to the end. A blob that was swept cannot be named any more.
//!
//! [`LOOSE_BLOB`]: forge_core::limits::LOOSE_BLOB

use std::sync::Arc;

use bytes::Bytes;
use forge_core::id::BlobId;
use forge_core::time::Time;

use crate::Boxed;

/// The bytes beside the rows of a store.
pub trait Blobs: Send + Sync {
    /// Begins a blob, loose since `now`.
    fn begin(&self, blob: BlobId, now: Time) -> Boxed<'_, Box<dyn Sink>>;

    /// Says that a loose blob is still being written, so that it is not swept.
    fn touch(&self, blob: BlobId, now: Time) -> Boxed<'_, ()>;

    /// Opens a finished blob. One that is not there is [`Fault::Corrupt`](crate::Fault::Corrupt).
    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>>;
}

/// Where the bytes of a new blob go, in order. Dropped before [`Sink::finish`], it leaves a loose blob.
pub trait Sink: Send {
    /// Takes the next bytes.
    fn write(&mut self, bytes: Bytes) -> Boxed<'_, ()>;

    /// Durable when it returns.
    fn finish(self: Box<Self>) -> Boxed<'static, ()>;
}

/// A blob that is open for reading.
pub trait Source: Send + Sync {
    /// Some of the bytes from `offset` on: at least one and at most `len`. There must be one there.
    fn read(&self, offset: u64, len: usize) -> Boxed<'static, Bytes>;
}
