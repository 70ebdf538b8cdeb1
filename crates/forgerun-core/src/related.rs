//! Related rows: rows that a batch needs besides those it names. Defined here, once; a store loads
//! and locks them.
//!
//! A store loads in this order, because each step uses the jobs of the steps before:
//!
//! 1. what [`Wants`] names, with the jobs that the keys it found point to;
//! 2. [`uniques`], with the jobs that hold them;
//! 3. [`turns`], with the jobs that step forward;
//! 4. [`limits()`], with the jobs that wait for a place in them;
//! 5. [`webhooks_of`] and [`chains`], and the webhooks that due deliveries go to.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;

use crate::delivery::Chain;
use crate::fair::{self, TurnNames};
use crate::id::{ClientId, JobId, WebhookId};
use crate::job::{Job, Lane, Name, Shelf};
use crate::limits;
use crate::rows::Wants;
use crate::state::State;
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

/// What the turns of fair keys depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelatedTurns {
    /// Rows of limits.
    pub rows: BTreeSet<Name>,
    /// Shelves of jobs behind a loaded one that is in line, and how many from the head of each.
    pub behind: BTreeMap<Shelf, usize>,
    /// Shelves that may have jobs without a key behind those in line, and how many of this priority
    /// to load from [`Self::FIRST_PLACE`] on.
    pub without_key: BTreeMap<(Shelf, i16), usize>,
}

impl RelatedTurns {
    pub const FIRST_PLACE: JobId = fair::PLACES_WITHOUT_KEY;

    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// The turns of the jobs. `shelves` are those of [`Wants::shelves`], as they were found.
pub fn turns(wants: &Wants, shelves: &BTreeMap<Shelf, Vec<JobId>>, jobs: &[Job]) -> RelatedTurns {
    let mut found = RelatedTurns { rows: wants.limits.clone(), ..RelatedTurns::default() };
    let mut in_line: BTreeMap<Shelf, Vec<(&Job, TurnNames)>> = BTreeMap::new();
    for job in jobs {
        let Some(names) = TurnNames::of(&job.head) else { continue };
        if !matches!(job.state, State::Created | State::Queued) {
            continue;
        }
        found.rows.extend([names.queue.clone(), names.key.clone()]);
        // Each loaded job may leave the line, and the next one of its key follows.
        *found.behind.entry(names.shelf()).or_default() += 1;
        if job.turn.is_some() {
            in_line.entry(job.head.shelf()).or_default().push((job, names));
        }
    }
    let led: BTreeSet<Shelf> = in_line.values().flatten().map(|(_, names)| names.shelf()).collect();
    found.behind.retain(|shelf, _| led.contains(shelf));
    for (shelf, line) in in_line {
        let Some(&n) = wants.shelves.get(&shelf) else { continue };
        let keys = line.iter().map(|(job, _)| (job.turn.unwrap_or(0), job.head.fair_weight())).collect();
        for ((_, names), taken) in line.iter().zip(fair::jobs_of_turns(keys, n)) {
            *found.behind.entry(names.shelf()).or_default() += taken;
        }
        for (job, _) in &line {
            found.rows.insert(fair::names_without_key(&shelf.name, job.head.priority).key);
        }
        let last = shelves.get(&shelf).filter(|ids| ids.len() >= n).and_then(|ids| ids.last());
        if let Some((job, _)) = line.iter().find(|(job, _)| Some(&job.id) == last) {
            found.without_key.insert((shelf, job.head.priority), n);
        }
    }
    found.behind.values_mut().for_each(|n| *n = (*n).min(limits::CLAIM_JOBS_MAX));
    found
}

/// Limits, and the jobs that wait for them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RelatedLimits {
    /// The limits of all loaded jobs.
    pub keys: BTreeSet<Name>,
    /// Parked shelves of limits whose place a loaded job may free or leave. Up to
    /// [`UNPARK_MAX`](crate::limits::UNPARK_MAX) jobs from the head of each.
    pub parked: BTreeSet<Shelf>,
}

/// The limits of the jobs.
pub fn limits(jobs: &[Job]) -> RelatedLimits {
    let mut found = RelatedLimits::default();
    for job in jobs {
        for limit in &job.head.limits {
            // A job with several limits may leave room in one because another has none.
            if job.state.is_active() || (job.state == State::Queued && job.head.limits.len() > 1) {
                found.parked.insert(Shelf { lane: Lane::Parked, name: limit.key.clone() });
            }
            found.keys.insert(limit.key.clone());
        }
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
