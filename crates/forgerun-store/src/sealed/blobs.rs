//! Large results, sealed in chunks, so that any part can be read without the rest:
//!
//! ```text
//!   beginning of the sealed form, without a nonce │ chunk │ chunk │ … │ last chunk
//!                                                   └ length of the clear bytes (4) │ AES-256-GCM, with its tag
//! ```
//!
//! All chunks but the last are equally long. A chunk is sealed under its number, and the key is the blob's own.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use forgerun_core::id::BlobId;
use forgerun_core::time::Time;

use super::SealedStore;
use super::keys::ChunkKey;
use crate::{Blobs, Boxed, Error, Fault, Sink, Source};

/// Clear bytes of a chunk.
const CHUNK: usize = 256 * 1024;

/// Bytes of the length before a chunk.
const LENGTH: usize = 4;

/// What a whole chunk takes.
const FRAME: u64 = (LENGTH + CHUNK + ChunkKey::OVERHEAD) as u64;

impl Blobs for SealedStore {
    fn begin(&self, blob: BlobId, now: Time) -> Boxed<'_, Box<dyn Sink>> {
        Box::pin(async move {
            let sink = self.inner.blobs().begin(blob, now).await?;
            if !self.seals.ring.seals() {
                return Ok(sink);
            }
            let key = ChunkKey::new(&self.seals.ring, blob.to_bytes());
            let frames = key.head().to_vec();
            Ok(Box::new(SealingSink { sink, key, clear: Vec::new(), frames, n: 0 }) as Box<dyn Sink>)
        })
    }

    fn touch(&self, blob: BlobId, now: Time) -> Boxed<'_, ()> {
        self.inner.blobs().touch(blob, now)
    }

    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>> {
        Box::pin(async move {
            let source = self.inner.blobs().open(blob).await?;
            let head = beginning(&*source).await?;
            let Some(key) = ChunkKey::open(&self.seals.ring, blob.to_bytes(), &head)? else {
                return Ok(source);
            };
            let opened = SealedBlob { source, key, last: Mutex::default() };
            Ok(Arc::new(OpeningSource(Arc::new(opened))) as Arc<dyn Source>)
        })
    }
}

impl SealedStore {
    /// Whether a blob is sealed with the key that seals now. One that no key opens is [`Fault::Sealed`].
    pub(super) async fn is_blob_current(&self, blob: BlobId) -> Result<bool, Error> {
        let source = self.inner.blobs().open(blob).await?;
        let head = beginning(&*source).await?;
        Ok(match ChunkKey::open(&self.seals.ring, blob.to_bytes(), &head)? {
            Some(_) => self.seals.ring.is_current(&head),
            None => false,
        })
    }
}

/// The first bytes of a blob. A sealed one has more than its head.
async fn beginning(source: &dyn Source) -> Result<Vec<u8>, Error> {
    let mut head = source.read(0, ChunkKey::PEEK).await?.to_vec();
    while head.len() < ChunkKey::PEEK
        && let Ok(more) = source.read(head.len() as u64, ChunkKey::PEEK - head.len()).await
    {
        head.extend_from_slice(&more);
    }
    Ok(head)
}

struct SealingSink {
    sink: Box<dyn Sink>,
    key: ChunkKey,
    /// Clear bytes that do not fill a chunk yet.
    clear: Vec<u8>,
    /// Sealed bytes to be written.
    frames: Vec<u8>,
    n: u64,
}

impl SealingSink {
    fn seal_chunk(&mut self, clear: &[u8]) {
        self.frames.extend_from_slice(&(clear.len() as u32).to_be_bytes());
        self.frames.extend(self.key.seal_chunk(self.n, clear));
        self.n += 1;
    }

    fn seal_whole_chunks(&mut self, bytes: &[u8]) {
        self.clear.extend_from_slice(bytes);
        while self.clear.len() >= CHUNK {
            let rest = self.clear.split_off(CHUNK);
            let chunk = std::mem::replace(&mut self.clear, rest);
            self.seal_chunk(&chunk);
        }
    }
}

impl Sink for SealingSink {
    fn write(&mut self, bytes: Bytes) -> Boxed<'_, ()> {
        Box::pin(async move {
            self.seal_whole_chunks(&bytes);
            if self.n > 0 && !self.frames.is_empty() {
                self.sink.write(std::mem::take(&mut self.frames).into()).await?;
            }
            Ok(())
        })
    }

    fn finish(mut self: Box<Self>) -> Boxed<'static, ()> {
        Box::pin(async move {
            let rest = std::mem::take(&mut self.clear);
            if !rest.is_empty() {
                self.seal_chunk(&rest);
            }
            self.sink.write(self.frames.into()).await?;
            self.sink.finish().await
        })
    }
}

struct SealedBlob {
    source: Arc<dyn Source>,
    key: ChunkKey,
    /// The chunk that was read last: readers come back for the rest of it.
    last: Mutex<(u64, Bytes)>,
}

struct OpeningSource(Arc<SealedBlob>);

impl Source for OpeningSource {
    fn read(&self, offset: u64, len: usize) -> Boxed<'static, Bytes> {
        let blob = self.0.clone();
        Box::pin(async move {
            let n = offset / CHUNK as u64;
            let from = (offset % CHUNK as u64) as usize;
            let chunk = blob.chunk(n).await?;
            if from >= chunk.len() {
                return Err(Error::new(Fault::Corrupt, format!("a blob has no byte {offset}")));
            }
            Ok(chunk.slice(from..chunk.len().min(from.saturating_add(len))))
        })
    }
}

impl SealedBlob {
    async fn chunk(&self, n: u64) -> Result<Bytes, Error> {
        {
            let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
            if last.0 == n && !last.1.is_empty() {
                return Ok(last.1.clone());
            }
        }
        let at = self.key.head().len() as u64 + n * FRAME;
        let length = self.exactly(at, LENGTH).await?;
        let length = u32::from_be_bytes(length.try_into().expect("four bytes were read")) as usize;
        if length == 0 || length > CHUNK {
            return Err(Error::new(Fault::Sealed, format!("chunk {n} of a blob was changed")));
        }
        let sealed = self.exactly(at + LENGTH as u64, length + ChunkKey::OVERHEAD).await?;
        let chunk = Bytes::from(self.key.open_chunk(n, sealed)?);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = (n, chunk.clone());
        Ok(chunk)
    }

    async fn exactly(&self, at: u64, len: usize) -> Result<Vec<u8>, Error> {
        let mut found = Vec::with_capacity(len);
        while found.len() < len {
            let part = self.source.read(at + found.len() as u64, len - found.len()).await?;
            found.extend_from_slice(&part);
        }
        Ok(found)
    }
}
