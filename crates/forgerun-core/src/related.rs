//! Related rows: rows that a batch needs besides those it names. Defined here, once; a store loads
//! and locks them.
//!
//! A store loads in this order, because each step uses the jobs of the steps before:
//!
//! 1. what [`Wants`] names, with the jobs that the keys it found point to;
//! 2. [`uniques`], with the jobs that hold them;
//! 3. [`limits`], with the jobs that wait for a place in them;
//! 4. [`webhooks_of`] and [`chains`], and the webhooks that due deliveries go to.

use alloc::collections::{BTreeMap, BTreeSet};

use crate::delivery::Chain;
use crate::id::{ClientId, WebhookId};
use crate::job::{Job, Lane, Name, Shelf};
use crate::rows::Wants;
use crate::webhook::Webhook;

/// Unique keys of jobs that may hold theirs again.
pub fn uniques(wants: &Wants, jobs: &[Job]) -> BTreeSet<[u8; 32]> {
    if wants.uniques_of.is_empty() {
        return BTreeSet::new();
    }
    let again = jobs.iter().filter(|job| wants.uniques_of.contains(&job.id));
    let keys = again.filter_map(|job| Some(job.head.unique.as_ref()?.key));
    keys.filter(|key| !wants.uniques.contains(key)).collect()
}

/// Limits, and the jobs that wait for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelatedLimits {
    /// The limits of all loaded jobs.
    pub keys: BTreeSet<Name>,
    /// Parked shelves of limits whose place a loaded job may free. Up to
    /// [`UNPARK_MAX`](crate::limits::UNPARK_MAX) jobs from the head of each.
    pub parked: BTreeSet<Shelf>,
}

/// The limits of the jobs.
pub fn limits(jobs: &[Job]) -> RelatedLimits {
    let mut found = RelatedLimits::default();
    for job in jobs {
        let Some(limit) = &job.head.limit else { continue };
        if job.state.is_active() {
            found.parked.insert(Shelf { lane: Lane::Parked, name: limit.key.clone() });
        }
        found.keys.insert(limit.key.clone());
    }
    found
}

/// Clients whose webhooks may get events.
pub fn webhooks_of(wants: &Wants, jobs: &[Job]) -> BTreeSet<ClientId> {
    let mut clients = wants.webhooks_of.clone();
    clients.extend(jobs.iter().map(|job| job.head.client));
    clients
}

/// Open deliveries to load of each chain, from its beginning: two if a delivery is about to be
/// settled, so that the next one can follow; one if the job may get another, to know that it must
/// wait.
pub fn chains(wants: &Wants, jobs: &[Job], webhooks: &[Webhook]) -> BTreeMap<Chain, usize> {
    let mut chains: BTreeMap<Chain, usize> = wants.chains.iter().map(|chain| (*chain, 2)).collect();
    for job in jobs {
        let of_client = webhooks.iter().filter(|webhook| webhook.client == job.head.client);
        let callback = job.head.callback.iter().map(|_| WebhookId::CALLBACK);
        for endpoint in of_client.map(|webhook| webhook.id).chain(callback) {
            chains.entry(Chain { job: job.id, endpoint }).or_insert(1);
        }
    }
    chains
}
