//! Slots for uploads of results: one per job, a share per client, and a total. A slot is freed when
//! the upload is stored, or when its bytes are deleted; so clients that cancel and restart never
//! use more disk space than clients that wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forgerun_core::catalog::Kind;
use forgerun_core::id::{ClientId, JobId};
use forgerun_wire::problem::RefusedRequest;

use crate::http::ApiError;
use crate::limits::{LARGEST_UPLOADS_PER_CLIENT, TROUBLE_AFTER_S, UPLOADS_MAX, UPLOADS_PER_CLIENT_MAX};

#[derive(Debug)]
pub struct UploadPlaces {
    taken: Mutex<HashMap<JobId, UnderWay>>,
    /// Total bytes of the uploads of one client.
    client_bytes_max: u64,
}

#[derive(Debug)]
struct UnderWay {
    client: ClientId,
    n_bytes: u64,
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub(crate) struct UploadPlace {
    places: Arc<UploadPlaces>,
    job: JobId,
    client: ClientId,
}

impl UploadPlaces {
    /// Slots for results of up to `result_bytes_max` bytes, with a share per client.
    pub(crate) fn new(result_bytes_max: u64) -> UploadPlaces {
        let client_bytes_max = result_bytes_max.saturating_mul(LARGEST_UPLOADS_PER_CLIENT);
        UploadPlaces { taken: Mutex::default(), client_bytes_max }
    }

    /// A slot for the result of a job, within the bounds.
    pub(crate) fn take(self: &Arc<Self>, job: JobId, client: ClientId) -> Result<UploadPlace, ApiError> {
        let mut taken = self.lock();
        let n_of_client = taken.values().filter(|upload| upload.client == client).count();
        let (kind, max, detail) = if taken.contains_key(&job) {
            (Kind::RateLimited, 1, "A result of this job is being uploaded already.")
        } else if n_of_client >= UPLOADS_PER_CLIENT_MAX {
            (
                Kind::RateLimited,
                UPLOADS_PER_CLIENT_MAX,
                "The client uploads as many results as it may at once.",
            )
        } else if taken.len() >= UPLOADS_MAX {
            (Kind::QueueFull, UPLOADS_MAX, "More results are being uploaded than the server takes on.")
        } else {
            taken.insert(job, UnderWay { client, n_bytes: 0 });
            return Ok(UploadPlace { places: self.clone(), job, client });
        };
        Err(RefusedRequest::new(kind, detail).limited(max as u64, "at once", TROUBLE_AFTER_S).into())
    }

    pub fn n_taken(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, UnderWay>> {
        // Never half changed, so a panic elsewhere is harmless.
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UploadPlace {
    /// Counts received bytes; refused if the client's uploads exceed their total.
    pub(crate) fn grow(&self, n_bytes: usize) -> Result<(), ApiError> {
        let mut taken = self.places.lock();
        let of_client = taken.values().filter(|upload| upload.client == self.client);
        let total = of_client.map(|upload| upload.n_bytes).sum::<u64>() + n_bytes as u64;
        let max = self.places.client_bytes_max;
        if total > max {
            let detail = "The uploads of the client have more bytes than they may have at once.";
            let refused = RefusedRequest::new(Kind::RateLimited, detail);
            return Err(refused.limited(max, "bytes at once", TROUBLE_AFTER_S).into());
        }
        if let Some(upload) = taken.get_mut(&self.job) {
            upload.n_bytes += n_bytes as u64;
        }
        Ok(())
    }
}

impl Drop for UploadPlace {
    fn drop(&mut self) {
        self.places.lock().remove(&self.job);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_has_one_upload_and_a_client_its_share() {
        let places = Arc::new(UploadPlaces::new(100));
        let take = |job: u128, client| places.take(JobId::from_u128(job), ClientId::from_u128(client));
        let mut taken = vec![take(0, 0).unwrap()];
        assert_eq!(take(0, 0).unwrap_err().kind(), Kind::RateLimited, "the job's");
        taken.extend((1..UPLOADS_PER_CLIENT_MAX).map(|n| take(n as u128, 0).unwrap()));
        assert_eq!(take(999, 0).unwrap_err().kind(), Kind::RateLimited, "the client's");
        taken.extend((UPLOADS_PER_CLIENT_MAX..UPLOADS_MAX).map(|n| take(n as u128, n as u128).unwrap()));
        assert_eq!(take(999, 999).unwrap_err().kind(), Kind::QueueFull);
        drop(taken);
        assert_eq!(places.n_taken(), 0);
    }
    #[test]
    fn uploads_of_a_client_have_so_many_bytes_together() {
        let places = Arc::new(UploadPlaces::new(100));
        let take =
            |job: u128, client| places.take(JobId::from_u128(job), ClientId::from_u128(client)).unwrap();
        let max = 100 * LARGEST_UPLOADS_PER_CLIENT as usize;
        let (first, second, other) = (take(1, 1), take(2, 1), take(3, 2));
        first.grow(max - 1).unwrap();
        second.grow(1).unwrap();
        assert_eq!(second.grow(1).unwrap_err().kind(), Kind::RateLimited);
        other.grow(max).unwrap();
        drop(first);
        second.grow(1).unwrap();
    }
}
