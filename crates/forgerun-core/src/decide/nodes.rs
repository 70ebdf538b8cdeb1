//! Nodes: heartbeats, tallies, and quotas that all nodes share. A silent node is forgotten.

use alloc::vec::Vec;

use super::working_set::WorkingSet;
use crate::command::Answer;
use crate::quota::QuotaCount;
use crate::record::{RecordKey, Stored};
use crate::token_key::TokenKey;

impl WorkingSet<'_> {
    /// Stores a record of a node unchanged.
    pub(super) fn store_record<T: Stored>(&mut self, value: &T) -> Answer {
        self.put_record(value);
        Answer::Settled
    }

    /// Stores the key of job tokens, unless there is one.
    pub(super) fn ensure_token_key(&mut self, key: &TokenKey) -> Answer {
        if self.record::<TokenKey>(key.key()).is_none() {
            self.put_record(key);
        }
        Answer::Settled
    }

    pub(super) fn spend(&mut self, counts: &[QuotaCount]) -> Answer {
        let mut spent = Vec::with_capacity(counts.len());
        for added in counts {
            let before = self.record::<QuotaCount>(added.key()).map_or(0, |count| count.n_requests);
            let count =
                QuotaCount { n_requests: before.saturating_add(added.n_requests), client: added.client };
            self.put_record(&count);
            spent.push(count);
        }
        Answer::Spent(spent)
    }

    /// Deletes an expired record. An unreadable one would be due for ever, so it goes, too.
    pub(super) fn drop_overdue<T: Stored>(&mut self, key: RecordKey) {
        let known: Option<T> = self.record(key.key.clone());
        if known.as_ref().and_then(Stored::due_at).is_none_or(|due_at| due_at <= self.now) {
            self.remove_record(key);
        }
    }
}
