//! Places for uploads of results: one per job, so many per client and in all. A place is given back when the upload is kept, or when what
//! came of it is deleted; so clients that break off and begin again never have more on the disk than clients that wait.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_core::catalog::Kind;
use forge_core::id::{ClientId, JobId};
use forge_wire::problem::Refused;

use crate::edge::refusal::ApiError;
use crate::limits::{TROUBLE_AFTER_S, UPLOADS_MAX, UPLOADS_PER_CLIENT_MAX};

/// The uploads under way, and the clients of their jobs.
#[derive(Debug, Default)]
pub struct UploadPlaces(Mutex<HashMap<JobId, ClientId>>);

/// A place, until it is dropped.
#[derive(Debug)]
pub(crate) struct UploadPlace {
    places: Arc<UploadPlaces>,
    job: JobId,
}

impl UploadPlaces {
    /// A place for the result of a job, if it and its client may have another one.
    pub(crate) fn take(self: &Arc<Self>, job: JobId, client: ClientId) -> Result<UploadPlace, ApiError> {
        let mut taken = self.lock();
        let n_of_client = taken.values().filter(|owner| **owner == client).count();
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
            taken.insert(job, client);
            return Ok(UploadPlace { places: self.clone(), job });
        };
        Err(Refused::new(kind, detail).limited(max as u64, "at once", TROUBLE_AFTER_S).into())
    }

    /// How many are taken.
    pub fn n_taken(&self) -> usize {
        self.lock().len()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<JobId, ClientId>> {
        // Never half changed, so a panic elsewhere is no reason to stop.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        let places = Arc::new(UploadPlaces::default());
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
}
