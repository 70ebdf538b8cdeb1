//! The jobs that a worker holds.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use super::handler::Canceled;
use crate::ojs::ClaimedJob;

/// The jobs that a worker holds, by their id.
#[derive(Default)]
pub(super) struct Active {
    jobs: Mutex<BTreeMap<String, Entry>>,
}

struct Entry {
    job: Arc<ClaimedJob>,
    cancel: watch::Sender<Option<Canceled>>,
}

impl Active {
    pub(super) fn add(&self, job: Arc<ClaimedJob>) -> watch::Receiver<Option<Canceled>> {
        let (cancel, canceled) = watch::channel(None);
        self.jobs().insert(job.id.clone(), Entry { job, cancel });
        canceled
    }

    /// Forgets a job, unless it was taken again in the meantime.
    pub(super) fn remove(&self, job: &ClaimedJob) {
        let mut jobs = self.jobs();
        if jobs.get(&job.id).is_some_and(|entry| entry.job.lease_token == job.lease_token) {
            jobs.remove(&job.id);
        }
    }

    /// Ids and tokens, as a heartbeat lists them.
    pub(super) fn tokens(&self) -> Vec<(String, Option<String>)> {
        self.jobs().values().map(|entry| (entry.job.id.clone(), entry.job.lease_token.clone())).collect()
    }

    /// Tells the handler of a job to stop, if it is still the same lease. The first reason counts.
    pub(super) fn cancel(&self, id: &str, token: Option<&str>, reason: Canceled) {
        if let Some(entry) = self.jobs().get(id).filter(|entry| entry.job.lease_token.as_deref() == token) {
            entry
                .cancel
                .send_if_modified(|canceled| canceled.is_none() && canceled.replace(reason).is_none());
        }
    }

    pub(super) fn cancel_all(&self, reason: Canceled) {
        for entry in self.jobs().values() {
            entry
                .cancel
                .send_if_modified(|canceled| canceled.is_none() && canceled.replace(reason).is_none());
        }
    }

    pub(super) fn len(&self) -> usize {
        self.jobs().len()
    }

    fn jobs(&self) -> MutexGuard<'_, BTreeMap<String, Entry>> {
        // Nothing panics while it holds the lock; if it did, the map is still a map.
        self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
