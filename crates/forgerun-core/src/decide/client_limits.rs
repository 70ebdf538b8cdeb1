//! Limits of clients. They are exact: the counts of a limited client are locked before they are
//! compared. Other clients cost one more record to look for.
//!
//! Steps of workflows that were accepted, retries and results are always taken, so usage may exceed
//! a limit.

use alloc::string::ToString;

use super::working_set::{Slot, WorkingSet};
use crate::client_limits::{ClientLimit, ClientLimits, ClientUsage};
use crate::command::{Answer, Refusal};
use crate::id::ClientId;
use crate::job::Job;
use crate::record::Stored;
use crate::rows::Wants;
use crate::state::Facet;

pub(super) fn wants(client: ClientId, wants: &mut Wants) {
    wants.records.insert(ClientLimits::record_key(client.to_string()));
}

/// What a job in this facet uses beside its bytes.
pub(super) fn usage_of(job: &Job, facet: Facet) -> ClientUsage {
    let is_active = matches!(facet, Facet::Assigned | Facet::Running);
    let is_real = !job.head.is_simulated() && job.head.workflow_head.is_none();
    ClientUsage {
        waiting: i64::from(matches!(facet, Facet::Available | Facet::Waiting)),
        active: i64::from(is_active && is_real),
        bytes: 0,
    }
}

impl WorkingSet<'_> {
    pub(super) fn limit_client(&mut self, limits: &ClientLimits) -> Result<Answer, Refusal> {
        self.clients.get(&limits.client).ok_or(Refusal::ClientNotFound)?;
        match limits.is_none() {
            true => self.remove_record(ClientLimits::record_key(limits.key())),
            false => self.put_record(limits),
        }
        Ok(Answer::Settled)
    }

    pub(super) fn client_limit(&self, client: ClientId, limit: ClientLimit) -> Option<u64> {
        // Called for every job of a batch, and mostly nothing is set.
        if self.records.is_empty() {
            return None;
        }
        self.record::<ClientLimits>(client.to_string())?.get(limit)
    }

    /// Refuses one more of something that is counted elsewhere, and lets concurrent batches with
    /// the same limit be decided one after the other.
    pub(super) fn check_client_limit(
        &mut self,
        client: ClientId,
        limit: ClientLimit,
        used: u64,
    ) -> Result<(), Refusal> {
        let Some(limits) = self.record::<ClientLimits>(client.to_string()) else { return Ok(()) };
        let Some(max) = limits.get(limit) else { return Ok(()) };
        self.put_record(&limits);
        if used < max { Ok(()) } else { Err(Refusal::OverLimit { limit, used, max }) }
    }

    /// Refuses `more` of a counted limit if there is no room for all of it.
    pub(super) fn check_usage(
        &mut self,
        client: ClientId,
        limit: ClientLimit,
        more: u64,
    ) -> Result<(), Refusal> {
        let Some(max) = self.client_limit(client, limit).filter(|_| more > 0) else { return Ok(()) };
        let used = self.exact_usage(client).of(limit).unwrap_or_default();
        let is_within = used.checked_add(more).is_some_and(|sum| sum <= max);
        if is_within { Ok(()) } else { Err(Refusal::OverLimit { limit, used, max }) }
    }

    /// The exact usage of a client. If its counts are not loaded and locked yet, the batch is
    /// decided again.
    fn exact_usage(&mut self, client: ClientId) -> ClientUsage {
        let key = ClientUsage::key(client);
        if self.uncertain.queues.contains(&key) {
            self.changes.exact.queues.insert(key.clone());
        }
        match self.seek_counts(&key) {
            Some(counts) => ClientUsage::from_counts(&counts),
            None => ClientUsage::default(),
        }
    }

    /// Refuses new jobs for which their client has no room. `n_waiting` of them wait for a worker
    /// only.
    pub(super) fn check_client_room(
        &mut self,
        client: ClientId,
        n_waiting: u64,
        bytes: u64,
    ) -> Result<(), Refusal> {
        self.check_usage(client, ClientLimit::MaxWaiting, n_waiting)?;
        self.check_usage(client, ClientLimit::StorageBytes, bytes)
    }

    /// Adds to the usage of a client.
    pub(super) fn add_usage(&mut self, client: ClientId, usage: ClientUsage) {
        if usage != ClientUsage::default() {
            self.add_counts(ClientUsage::key(client), &usage.to_counts());
        }
    }

    /// Counts bytes that the store keeps for a job from now on; negative for what it drops.
    pub(super) fn charge(&mut self, slot: Slot, bytes: i64) {
        if bytes != 0 {
            let job = self.change(slot);
            job.stored_bytes = job.stored_bytes.saturating_add_signed(bytes);
            let client = job.head.client;
            self.add_usage(client, ClientUsage { bytes, ..ClientUsage::default() });
        }
    }
}
