//! Bytes beside the rows: where the content of large results lives. Written once, in order, then named by a result, then
//! read in parts by anybody, without a lock and without ever being whole in memory.
//!
//! ```text
//!   begin ─► write … ─► finish ─► a result names it ─► the result expires or its job is forgotten
//!     │                  durable        │                        │
//!     └──────── loose ──────────────────┘                        └── loose ──► swept
//! ```
//!
//! The bytes are where the store keeps them (files, chunks in a table), or in an object store; the row of a blob says where.
//!
//! A blob that no result names is *loose*, and a sweep removes it after a while ([`LOOSE_BLOB`]): so a process that is
//! killed between the bytes and the row leaves nothing for ever, and a reader who is at it while its result expires can
//! come to the end. One that a worker has uploaded before its attempt ends counts as loose from the end of its lease on. A blob that was swept cannot be
//! named any more.
//!
//! [`LOOSE_BLOB`]: forgerun_core::limits::LOOSE_BLOB

use std::fmt::Debug;
use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::id::BlobId;
use forgerun_core::time::Time;

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

    /// How many bytes there are; `None` where only the row of the result says so.
    fn size(&self) -> Option<u64> {
        None
    }
}

/// A place for the bytes of blobs that is neither the database nor its machine: an object store.
pub trait ObjectPlace: Debug + Send + Sync {
    /// The part of it that belongs to the database with this id.
    fn below(&self, database: u128) -> Arc<dyn ObjectPlace>;

    /// Begins an object. `note` is told of an upload in parts before the first part is sent, and when it is over.
    fn create(&self, blob: BlobId, note: NoteUpload) -> Box<dyn Sink>;

    /// Opens a finished object. One that is not there is [`Fault::Corrupt`](crate::Fault::Corrupt).
    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>>;

    /// Deletes objects, and what was sent of those that were not finished. What is not there was deleted before.
    fn delete(&self, blobs: Vec<DoomedBlob>) -> Boxed<'_, ()>;

    /// Some of the objects that are there, others with each call, in the end all. None if it was called a moment before `now`.
    fn some(&self, now: Time) -> Boxed<'_, Vec<BlobId>>;
}

/// Notes the upload in parts that is under way for a blob; `None` if it is over.
pub type NoteUpload = Box<dyn Fn(Option<String>) -> Boxed<'static, ()> + Send + Sync>;

/// Where the bytes of a blob are. The numbers are in the databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BlobPlace {
    /// With the database: a file beside it, or chunks in it.
    Beside = 0,
    /// In the object store.
    Objects = 1,
}

/// A blob that is to be deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoomedBlob {
    /// Which.
    pub id: BlobId,
    /// Where its bytes are.
    pub place: BlobPlace,
    /// The upload in parts that was under way, if any.
    pub upload: Option<String>,
}

#[cfg(any(feature = "sqlite", feature = "postgres"))]
impl BlobPlace {
    /// What the number in a database stands for.
    pub(crate) fn of(number: i16) -> Result<BlobPlace, crate::Error> {
        match number {
            0 => Ok(BlobPlace::Beside),
            1 => Ok(BlobPlace::Objects),
            _ => Err(crate::Error::new(
                crate::Fault::Corrupt,
                format!("a blob is in an unknown place, {number}"),
            )),
        }
    }

    /// Where new blobs go.
    pub(crate) fn of_new(objects: Option<&Arc<dyn ObjectPlace>>) -> BlobPlace {
        if objects.is_some() { BlobPlace::Objects } else { BlobPlace::Beside }
    }
}

/// Deletes those of `blobs` that are objects, and says which of all are gone from there.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) async fn delete_objects(
    objects: Option<&Arc<dyn ObjectPlace>>,
    blobs: Vec<DoomedBlob>,
) -> Vec<DoomedBlob> {
    let Some(objects) = objects.filter(|_| !blobs.is_empty()) else { return Vec::new() };
    match objects.delete(blobs.clone()).await {
        Ok(()) => blobs,
        // The rows stay, and the next sweep tries again. Whatever else it sweeps must not wait for that.
        Err(error) => {
            tracing::warn!(%error, "could not delete objects; trying again later");
            Vec::new()
        }
    }
}

/// A blob that was written when there was an object store.
#[cfg(feature = "postgres")]
pub(crate) fn no_objects(blob: BlobId) -> crate::Error {
    let text = format!("blob {blob} is in an object store, and none is configured (results.store)");
    crate::Error::new(crate::Fault::Unavailable, text)
}

/// Some objects that are there, for somebody to find out which of them no row names.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
pub(crate) async fn some_objects(objects: Option<&Arc<dyn ObjectPlace>>, now: Time) -> Vec<BlobId> {
    let Some(objects) = objects else { return Vec::new() };
    objects.some(now).await.unwrap_or_else(|error| {
        tracing::warn!(%error, "could not list objects; trying again later");
        Vec::new()
    })
}
