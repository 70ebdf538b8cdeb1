//! Blobs in memory: for tests, the simulator and `forgerun dev`. Whoever reads one keeps it alive.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use forgerun_core::id::BlobId;
use forgerun_core::time::Time;

use crate::{Blobs, Boxed, Error, Fault, Sink, Source};

/// All blobs.
#[derive(Default)]
pub(super) struct BlobTable(Mutex<BTreeMap<BlobId, BlobEntry>>);

#[derive(Default)]
struct BlobEntry {
    /// Since when no result names it; `None` while one does.
    loose_at: Option<Time>,
    /// Empty until it is finished.
    parts: Arc<BlobParts>,
}

/// The bytes as they came, with the place of each part.
#[derive(Default)]
struct BlobParts(Vec<(u64, Bytes)>);

impl BlobTable {
    fn entries(&self) -> MutexGuard<'_, BTreeMap<BlobId, BlobEntry>> {
        // Nothing can panic while the map is being changed.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Results name these from now on: all or none.
    pub(super) fn name(&self, blobs: impl Iterator<Item = BlobId> + Clone) -> Result<(), Error> {
        let mut entries = self.entries();
        let is_loose = |blob: &BlobId| entries.get(blob).is_some_and(|entry| entry.loose_at.is_some());
        if let Some(blob) = blobs.clone().find(|blob| !is_loose(blob)) {
            return Err(Error::new(Fault::Rejected, format!("there is no blob {blob} to be named")));
        }
        for blob in blobs {
            if let Some(entry) = entries.get_mut(&blob) {
                entry.loose_at = None;
            }
        }
        Ok(())
    }

    /// It is not loose before this moment.
    pub(super) fn hold(&self, blob: BlobId, until: Time) {
        if let Some(entry) = self.entries().get_mut(&blob) {
            entry.loose_at = entry.loose_at.and(Some(until));
        }
    }

    /// No result names it any more.
    pub(super) fn release(&self, blob: Option<BlobId>, now: Time) {
        let mut entries = self.entries();
        if let Some(entry) = blob.and_then(|blob| entries.get_mut(&blob)) {
            entry.loose_at = Some(now);
        }
    }

    /// Deletes what has been loose for long.
    pub(super) fn sweep(&self, loose_before: Time, limit: usize) -> usize {
        let mut entries = self.entries();
        let is_old = |entry: &BlobEntry| entry.loose_at.is_some_and(|at| at < loose_before);
        let old: Vec<BlobId> =
            entries.iter().filter(|(_, entry)| is_old(entry)).map(|(id, _)| *id).take(limit).collect();
        old.iter().for_each(|blob| drop(entries.remove(blob)));
        old.len()
    }
}

impl Blobs for Arc<BlobTable> {
    fn begin(&self, blob: BlobId, now: Time) -> Boxed<'_, Box<dyn Sink>> {
        self.entries().insert(blob, BlobEntry { loose_at: Some(now), ..BlobEntry::default() });
        let sink = MemorySink { blobs: self.clone(), blob, size: 0, parts: BlobParts::default() };
        Box::pin(async { Ok(Box::new(sink) as Box<dyn Sink>) })
    }

    fn touch(&self, blob: BlobId, now: Time) -> Boxed<'_, ()> {
        self.hold(blob, now);
        Box::pin(async { Ok(()) })
    }

    fn open(&self, blob: BlobId) -> Boxed<'_, Arc<dyn Source>> {
        let found = self.entries().get(&blob).map(|entry| entry.parts.clone());
        let missing = move || Error::new(Fault::Corrupt, format!("blob {blob} is missing"));
        Box::pin(async move { found.map(|parts| parts as Arc<dyn Source>).ok_or_else(missing) })
    }
}

struct MemorySink {
    blobs: Arc<BlobTable>,
    blob: BlobId,
    size: u64,
    parts: BlobParts,
}

impl Sink for MemorySink {
    fn write(&mut self, bytes: Bytes) -> Boxed<'_, ()> {
        let start = self.size;
        self.size += bytes.len() as u64;
        self.parts.0.push((start, bytes));
        Box::pin(async { Ok(()) })
    }

    fn finish(self: Box<Self>) -> Boxed<'static, ()> {
        if let Some(entry) = self.blobs.entries().get_mut(&self.blob) {
            entry.parts = Arc::new(self.parts);
        }
        Box::pin(async { Ok(()) })
    }
}

impl Source for BlobParts {
    fn read(&self, offset: u64, len: usize) -> Boxed<'static, Bytes> {
        let behind = self.0.partition_point(|(start, _)| *start <= offset);
        let found = behind.checked_sub(1).and_then(|at| {
            let (start, part) = &self.0[at];
            let from = usize::try_from(offset - start).ok().filter(|&from| from < part.len())?;
            Some(part.slice(from..part.len().min(from.saturating_add(len))))
        });
        let beyond = move || Error::new(Fault::Corrupt, format!("a blob has no byte {offset}"));
        Box::pin(async move { found.ok_or_else(beyond) })
    }
}
