//! Where a worker's result goes, in parts, before its outcome is reported: small ones stay in hand and travel with the report,
//! large ones go beside the rows as they come, and are durable before anybody is told of them. So a result is never whole in
//! memory, and the report stays small.
//!
//! Dropped anywhere, an intake leaves at most bytes that no result names, and those are swept.

use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::command::{Blob, Content, Output};
use forgerun_core::id::BlobId;
use forgerun_core::limits;
use forgerun_core::time::Time;
use forgerun_store::{Sink, Sweep};
use sha2::{Digest, Sha256};

use crate::committer::CommitContext;

/// Blobs that are deleted together with one that is discarded, if their own turn failed.
const DISCARDED_AT_ONCE_MAX: usize = 64;

/// A result on its way in.
pub struct Intake {
    context: Arc<CommitContext>,
    blob: BlobId,
    media_type: String,
    file_name: Option<String>,
    size: u64,
    size_max: u64,
    buffer: ResultBuffer,
}

enum ResultBuffer {
    InMemory(Vec<u8>),
    InBlob(Box<BlobStream>),
    /// A write failed: what came before it cannot be relied on.
    Broken,
}

struct BlobStream {
    sink: Box<dyn Sink>,
    digest: Sha256,
    /// When the store last heard that somebody is at it.
    touched: Time,
}

/// Why a result could not be kept.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// Larger than results may be. Trying again changes nothing.
    #[error("the result is larger than {max} bytes")]
    TooLarge {
        /// How large they may be.
        max: u64,
    },
    /// An earlier part was not kept, so the rest is of no use.
    #[error("an earlier part of the result was not kept")]
    Broken,
    /// The store failed.
    #[error(transparent)]
    Store(#[from] forgerun_store::Error),
}

impl Intake {
    pub(crate) fn new(
        context: Arc<CommitContext>,
        blob: BlobId,
        media_type: String,
        file_name: Option<String>,
        size_max: u64,
    ) -> Intake {
        Intake {
            context,
            blob,
            media_type,
            file_name,
            size: 0,
            size_max,
            buffer: ResultBuffer::InMemory(Vec::new()),
        }
    }

    /// Takes the next bytes.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), IntakeError> {
        let size = self.size.saturating_add(bytes.len() as u64);
        if size > self.size_max {
            self.buffer = ResultBuffer::Broken;
            return Err(IntakeError::TooLarge { max: self.size_max });
        }
        self.size = size;
        let (context, blob) = (&*self.context, self.blob);
        // Broken until it went well: cut off in between, nobody knows what was written.
        self.buffer = match std::mem::replace(&mut self.buffer, ResultBuffer::Broken) {
            ResultBuffer::InMemory(mut held) if size <= limits::INLINE_RESULT_BYTES_MAX as u64 => {
                held.extend_from_slice(&bytes);
                ResultBuffer::InMemory(held)
            }
            ResultBuffer::InMemory(held) => {
                let mut stream = BlobStream::begin(context, blob).await?;
                stream.put(context, blob, held.into()).await?;
                stream.put(context, blob, bytes).await?;
                ResultBuffer::InBlob(stream)
            }
            ResultBuffer::InBlob(mut stream) => {
                stream.put(context, blob, bytes).await?;
                ResultBuffer::InBlob(stream)
            }
            ResultBuffer::Broken => return Err(IntakeError::Broken),
        };
        Ok(())
    }

    /// Deletes what came in of an upload that broke off.
    pub async fn discard(self) -> Result<(), forgerun_store::Error> {
        match self.buffer {
            ResultBuffer::InMemory(_) => Ok(()),
            ResultBuffer::InBlob(stream) => {
                drop(stream);
                discard(&self.context, self.blob).await
            }
            ResultBuffer::Broken => discard(&self.context, self.blob).await,
        }
    }

    /// What came in, ready to be reported. Durable, but for what travels with the report.
    pub async fn finish(self) -> Result<Output, IntakeError> {
        let content = match self.buffer {
            ResultBuffer::InMemory(held) => Content::Inline(held),
            ResultBuffer::InBlob(stream) => {
                stream.sink.finish().await?;
                let digest = stream.digest.finalize().into();
                Content::Stored(Blob { id: self.blob, size: self.size, digest })
            }
            ResultBuffer::Broken => return Err(IntakeError::Broken),
        };
        Ok(Output { media_type: self.media_type, file_name: self.file_name, content })
    }
}

/// A moment before any clock: blobs that are loose since then are deleted, and no others.
const DISCARDED: Time = Time::from_micros(0);

/// Deletes a blob that no result names, without the hour that others may be at it.
pub(crate) async fn discard(context: &CommitContext, blob: BlobId) -> Result<(), forgerun_store::Error> {
    context.store.blobs().touch(blob, DISCARDED).await?;
    let sweep = Sweep { loose_before: Time::from_micros(1), ..Sweep::nothing(DISCARDED_AT_ONCE_MAX) };
    context.store.sweep(sweep).await.map(drop)
}

impl BlobStream {
    async fn begin(context: &CommitContext, blob: BlobId) -> Result<Box<BlobStream>, IntakeError> {
        let touched = context.clock.now();
        let sink = context.store.blobs().begin(blob, touched).await?;
        Ok(Box::new(BlobStream { sink, digest: Sha256::new(), touched }))
    }

    async fn put(&mut self, context: &CommitContext, blob: BlobId, bytes: Bytes) -> Result<(), IntakeError> {
        let now = context.clock.now();
        if now.since(self.touched) > limits::LOOSE_BLOB / 4 {
            context.store.blobs().touch(blob, now).await?;
            self.touched = now;
        }
        self.digest.update(&bytes);
        Ok(self.sink.write(bytes).await?)
    }
}
