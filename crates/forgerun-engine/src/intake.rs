//! Receives a worker's result in parts, before its end is reported. Small results stay in memory
//! and are written with the report; large ones are streamed to a blob, which is durable before it
//! is reported. So a large result is never whole in memory, and reports stay small.
//!
//! A dropped intake leaves at most a blob without a result, which is swept.

use std::sync::Arc;

use bytes::Bytes;
use forgerun_core::command::{Blob, Content, Output};
use forgerun_core::id::BlobId;
use forgerun_core::limits;
use forgerun_core::time::Time;
use forgerun_store::{Sink, Sweep};
use sha2::{Digest, Sha256};

use crate::committer::CommitContext;

/// Earlier failed discards that are retried with the next one.
const DISCARDED_AT_ONCE_MAX: usize = 64;

/// A result being received.
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
    /// A write failed, so earlier parts cannot be relied on.
    Broken,
}

struct BlobStream {
    sink: Box<dyn Sink>,
    digest: Sha256,
    /// When the blob was last marked as in use.
    touched: Time,
}

/// Why a result was not stored.
#[derive(Debug, thiserror::Error)]
pub enum IntakeError {
    /// Larger than the limit. A retry changes nothing.
    #[error("the result is larger than {max} bytes")]
    TooLarge { max: u64 },
    /// An earlier part was not stored.
    #[error("an earlier part of the result was not kept")]
    Broken,
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

    pub async fn write(&mut self, bytes: Bytes) -> Result<(), IntakeError> {
        let size = self.size.saturating_add(bytes.len() as u64);
        if size > self.size_max {
            self.buffer = ResultBuffer::Broken;
            return Err(IntakeError::TooLarge { max: self.size_max });
        }
        self.size = size;
        let (context, blob) = (&*self.context, self.blob);
        // Broken until it succeeds: if cancelled in between, the written length is unknown.
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

    /// Deletes the received bytes of a cancelled upload.
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

    /// The complete result, ready to be reported. Durable, unless it is small enough to be written
    /// with the report.
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

/// Earlier than any clock: only blobs marked with it are deleted.
const DISCARDED: Time = Time::from_micros(0);

/// Deletes a blob without a result at once, without the retention for readers.
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
