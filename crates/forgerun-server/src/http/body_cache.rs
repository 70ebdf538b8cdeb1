//! A cache of serialised jobs: an unchanged job is not serialised again for each request.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use forgerun_core::id::JobId;
use forgerun_core::job::{Dialect, Job};

/// Cached bodies, of about a kilobyte each. When full, the cache is cleared.
const BODIES_MAX: usize = 4096;

/// Bodies by dialect and job.
#[derive(Default)]
pub struct BodyCache(RwLock<HashMap<(Dialect, JobId), CachedBody>>);

struct CachedBody {
    job: Arc<Job>,
    place: Option<u64>,
    bytes: Bytes,
}

impl BodyCache {
    /// The body by `write` of the job at its queue position. It must depend on nothing else.
    pub(crate) fn of(
        &self,
        dialect: Dialect,
        job: &Arc<Job>,
        place: Option<u64>,
        write: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        // A store without a job cache returns another instance next time.
        if Arc::strong_count(job) == 1 {
            return write().into();
        }
        let key = (dialect, job.id);
        let bodies = self.0.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(body) = bodies.get(&key)
            && Arc::ptr_eq(&body.job, job)
            && body.place == place
        {
            return body.bytes.clone();
        }
        drop(bodies);
        let bytes = Bytes::from(write());
        let mut bodies = self.0.write().unwrap_or_else(PoisonError::into_inner);
        if bodies.len() >= BODIES_MAX {
            bodies.clear();
        }
        bodies.insert(key, CachedBody { job: job.clone(), place, bytes: bytes.clone() });
        bytes
    }
}
