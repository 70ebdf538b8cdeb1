//! Jobs as they were last written out: a job that has not changed since is not written out again
//! for everyone who asks.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use bytes::Bytes;
use forgerun_core::id::JobId;
use forgerun_core::job::{Dialect, Job};

/// Bodies kept, of about a kilobyte each. When there are more, it starts over.
const BODIES_MAX: usize = 4096;

/// Bodies of answers, by dialect and job.
#[derive(Default)]
pub struct BodyCache(RwLock<HashMap<(Dialect, JobId), CachedBody>>);

struct CachedBody {
    job: Arc<Job>,
    place: Option<u64>,
    bytes: Bytes,
}

impl BodyCache {
    /// What `write` makes of the job at its place in the queue. It must depend on nothing else.
    pub(crate) fn of(
        &self,
        dialect: Dialect,
        job: &Arc<Job>,
        place: Option<u64>,
        write: impl FnOnce() -> Vec<u8>,
    ) -> Bytes {
        // A store that does not keep the job hands out another one next time.
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
