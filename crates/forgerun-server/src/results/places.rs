//! Slots for downloads of stored results: a total, and a share per client, so that no client delays
//! another by its downloads. A slot is freed with the last byte, or when its connection ends, also
//! because the client read nothing for `limits.write_stall_s`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use forgerun_core::catalog::Kind;
use forgerun_core::id::ClientId;
use forgerun_wire::problem::RefusedRequest;

use crate::http::ApiError;
use crate::limits::{DOWNLOADS_MAX, DOWNLOADS_PER_CLIENT_MAX, TROUBLE_AFTER_S};

#[derive(Debug, Default)]
pub struct DownloadPlaces(Mutex<PlacesTaken>);

#[derive(Debug, Default)]
struct PlacesTaken {
    n: usize,
    by_client: HashMap<ClientId, usize>,
}

/// A slot, until it is dropped.
#[derive(Debug)]
pub struct DownloadPlace {
    places: Arc<DownloadPlaces>,
    client: ClientId,
}

impl DownloadPlaces {
    /// A slot for a client, within the bounds.
    pub fn take(self: &Arc<Self>, client: ClientId) -> Result<DownloadPlace, ApiError> {
        // Counters are never half changed, so a panic elsewhere is harmless.
        let mut taken = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.by_client.get(&client).is_some_and(|n| *n >= DOWNLOADS_PER_CLIENT_MAX) {
            let detail = format!(
                "The client downloads {DOWNLOADS_PER_CLIENT_MAX} large results already, and may have no more."
            );
            let refused = RefusedRequest::new(Kind::RateLimited, detail);
            return Err(refused.limited(DOWNLOADS_PER_CLIENT_MAX as u64, "at once", TROUBLE_AFTER_S).into());
        }
        if taken.n >= DOWNLOADS_MAX {
            let detail = "More results are being downloaded than the server takes on.";
            let refused = RefusedRequest::new(Kind::QueueFull, detail);
            return Err(refused.limited(DOWNLOADS_MAX as u64, "at once", TROUBLE_AFTER_S).into());
        }
        taken.n += 1;
        *taken.by_client.entry(client).or_default() += 1;
        Ok(DownloadPlace { places: self.clone(), client })
    }

    pub fn n_taken(&self) -> usize {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).n
    }
}

impl Drop for DownloadPlace {
    fn drop(&mut self) {
        let mut taken = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        taken.n -= 1;
        if let Some(n) = taken.by_client.get_mut(&self.client) {
            *n -= 1;
            if *n == 0 {
                taken.by_client.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_its_share_and_all_of_them_no_more_than_there_is() {
        let places = Arc::new(DownloadPlaces::default());
        let client = |n: usize| ClientId::v4(n as u128);
        let take = |n| places.take(client(n));
        let mut taken: Vec<_> = (0..DOWNLOADS_PER_CLIENT_MAX).map(|_| take(0).unwrap()).collect();
        assert_eq!(take(0).unwrap_err().kind(), Kind::RateLimited);
        taken.extend((DOWNLOADS_PER_CLIENT_MAX..DOWNLOADS_MAX).map(|n| take(n).unwrap()));
        assert_eq!(take(1).unwrap_err().kind(), Kind::QueueFull);
        taken.remove(0);
        assert!(take(0).is_ok());
        drop(taken);
        assert_eq!(places.n_taken(), 0);
        assert!(places.0.lock().unwrap().by_client.is_empty(), "nobody is remembered");
    }
}
