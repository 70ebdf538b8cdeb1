//! What the operator asks.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::failure::FailureId;
use forgerun_core::id::JobId;
use forgerun_core::job::Name;
use forgerun_core::rows::{Activity, Minute};

use super::Tables;
use crate::{OperatorQuery, Page};

impl Tables {
    pub(super) fn answer_operator(&self, query: OperatorQuery) -> Page {
        match query {
            OperatorQuery::ActivityByQueue { since } => {
                let mut sums: BTreeMap<Name, Activity> = BTreeMap::new();
                for ((queue, _), activity) in self.activity.iter().filter(|((_, minute), _)| *minute >= since)
                {
                    sums.entry(queue.clone()).or_default().merge(*activity);
                }
                Page::ActivityByQueue(sums.into_iter().collect())
            }
            OperatorQuery::ActivityByMinute { since } => {
                let mut sums: BTreeMap<Minute, Activity> = BTreeMap::new();
                for ((_, minute), activity) in
                    self.activity.iter().filter(|((_, minute), _)| *minute >= since)
                {
                    sums.entry(*minute).or_default().merge(*activity);
                }
                Page::ActivityByMinute(sums.into_iter().collect())
            }
            OperatorQuery::Clients { after, limit } => {
                let clients = self.clients.values().filter(|client| Some(client.id) > after);
                Page::Clients(clients.take(limit).copied().collect())
            }
            OperatorQuery::ApiKeysOf(client) => {
                let keys = self.api_keys.values().filter(|key| key.client == client);
                Page::ApiKeys(keys.cloned().collect())
            }
            OperatorQuery::Webhooks { after, limit } => {
                Page::Webhooks(self.delivery_tables.all_webhooks(after, limit))
            }
            OperatorQuery::FailedJobs { failure, after, limit } => {
                let ids: BTreeSet<JobId> = self.failed(failure).filter(|id| Some(*id) > after).collect();
                Page::Jobs(ids.iter().take(limit).filter_map(|id| self.readable(id)).cloned().collect())
            }
            OperatorQuery::CountFailed { failure, limit } => {
                Page::Count(self.failed(failure).take(limit).count() as u64)
            }
        }
    }

    fn failed(&self, failure: FailureId) -> impl Iterator<Item = JobId> {
        let shelves = failure.shelves().into_iter().filter_map(|shelf| self.shelves.get(&shelf));
        shelves.flatten().map(|&(_, id)| id)
    }
}
