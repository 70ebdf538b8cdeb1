//! Results ready to be sent, and a cache of recently fetched ones.
//!
//! The content of a result never changes, and another execution has another result. So a cached
//! copy is valid until the result expires or the job is deleted; and the job is loaded each time.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use axum::http::HeaderValue;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use forgerun_core::command::{Blob, Content};
use forgerun_core::id::ExecutionId;
use forgerun_core::time::Time;
use forgerun_problem::Digest;
use forgerun_store::StoredResult;

use crate::http::respond;
use crate::limits::READY_RESULTS_BYTES_MAX;

/// A result, with its derived headers.
pub(crate) struct ReadyResult {
    pub(crate) media_type: String,
    pub(crate) file_name: Option<String>,
    pub(crate) size: u64,
    pub(crate) content: ReadyContent,
    pub(super) expires_at: Option<Time>,
    /// Strong: distinct for different contents, and for the two forms of one content.
    pub(super) etag: HeaderValue,
    pub(super) etag_as_file: HeaderValue,
    /// `Repr-Digest`, and for the whole also `Content-Digest`.
    pub(super) digest_field: HeaderValue,
}

pub(crate) enum ReadyContent {
    Inline(Bytes),
    Stored(Blob),
}

impl ReadyResult {
    pub(super) fn new(stored: StoredResult, content: Content) -> ReadyResult {
        let (content, digest) = match content {
            Content::Inline(bytes) => {
                let digest = Digest::of(&bytes).0;
                (ReadyContent::Inline(bytes.into()), digest)
            }
            Content::Stored(blob) => (ReadyContent::Stored(blob), blob.digest),
        };
        let StoredResult { media_type, file_name, size, expires_at, .. } = stored;
        let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        ReadyResult {
            media_type,
            file_name,
            size,
            content,
            expires_at,
            etag: respond::value(format!("\"{hex}\"")),
            etag_as_file: respond::value(format!("\"{hex}-file\"")),
            digest_field: respond::value(format!("sha-256=:{}:", STANDARD.encode(digest))),
        }
    }

    /// Whether its retention is over.
    pub(super) fn is_expired(&self, now: Time) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }

    /// Approximate bytes of a copy; `None` for a stored result, which is not cached.
    fn weight(&self) -> Option<usize> {
        const FIXED_BYTES: usize = 512;
        match &self.content {
            ReadyContent::Inline(bytes) => Some(bytes.len() + self.media_type.len() + FIXED_BYTES),
            ReadyContent::Stored(_) => None,
        }
    }
}

/// A cache of recently fetched small results.
#[derive(Default)]
pub struct ReadyResults(RwLock<KeptResults>);

#[derive(Default)]
struct KeptResults {
    by_execution: HashMap<ExecutionId, Arc<ReadyResult>>,
    n_bytes: usize,
}

impl ReadyResults {
    /// The cached result of a successful execution.
    pub(super) fn get(&self, execution: ExecutionId) -> Option<Arc<ReadyResult>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).by_execution.get(&execution).cloned()
    }

    /// Caches a small result. When full, the cache is cleared.
    pub(super) fn insert(&self, execution: ExecutionId, result: &Arc<ReadyResult>) {
        let Some(weight) = result.weight() else { return };
        let mut kept = self.0.write().unwrap_or_else(PoisonError::into_inner);
        // Two concurrent fetches: the content is the same.
        if kept.by_execution.contains_key(&execution) {
            return;
        }
        if kept.n_bytes + weight > READY_RESULTS_BYTES_MAX {
            *kept = KeptResults::default();
        }
        kept.n_bytes += weight;
        kept.by_execution.insert(execution, result.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(n_bytes: usize) -> Arc<ReadyResult> {
        let (media_type, size) = ("text/plain".into(), n_bytes as u64);
        let stored = StoredResult { media_type, file_name: None, size, expires_at: None, content: None };
        Arc::new(ReadyResult::new(stored, Content::Inline(vec![b'x'; n_bytes])))
    }

    #[test]
    fn it_starts_over_before_it_grows_too_large() {
        let results = ReadyResults::default();
        let large = READY_RESULTS_BYTES_MAX / 4;
        let ids: Vec<_> = (1..=4).map(ExecutionId::from_u128).collect();
        for id in &ids[..3] {
            results.insert(*id, &result(large));
            // Inserted again, it is counted once.
            results.insert(*id, &result(large));
        }
        assert!(ids[..3].iter().all(|id| results.get(*id).is_some()));
        results.insert(ids[3], &result(large));
        let found: Vec<bool> = ids.iter().map(|id| results.get(*id).is_some()).collect();
        assert_eq!(found, [false, false, false, true]);
    }
}
