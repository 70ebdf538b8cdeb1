//! Questions that only the operator asks: about everything there is, whoever owns it. Each is answered along an index, a page at a time.

use forgerun_core::client::{ApiKey, Client};
use forgerun_core::failure::FailureId;
use forgerun_core::id::{ClientId, JobId, WebhookId};
use forgerun_core::job::{Job, Name};
use forgerun_core::rows::{Activity, Minute};
use forgerun_core::webhook::Webhook;

use crate::query::page;
use crate::{Error, Page, Query, Store};

/// One question of the operator.
#[derive(Clone, Copy, Debug)]
pub enum OperatorQuery {
    ActivityByQueue { since: Minute },
    ActivityByMinute { since: Minute },
    Clients { after: Option<ClientId>, limit: usize },
    ApiKeysOf(ClientId),
    Webhooks { after: Option<WebhookId>, limit: usize },
    FailedJobs { failure: FailureId, after: Option<JobId>, limit: usize },
    CountFailed { failure: FailureId, limit: usize },
}

impl dyn Store {
    /// What happened in each queue since a minute, by its key. Queues in which nothing happened are left out.
    pub async fn activity_by_queue(&self, since: Minute) -> Result<Vec<(Name, Activity)>, Error> {
        page!(self, Query::Operator(OperatorQuery::ActivityByQueue { since }), ActivityByQueue)
    }

    /// What happened in all queues together since a minute, minute by minute. Minutes in which nothing happened are left out.
    pub async fn activity_by_minute(&self, since: Minute) -> Result<Vec<(Minute, Activity)>, Error> {
        page!(self, Query::Operator(OperatorQuery::ActivityByMinute { since }), ActivityByMinute)
    }

    /// A page of all clients, by id, after the one that ended the last page.
    pub async fn all_clients(&self, after: Option<ClientId>, limit: usize) -> Result<Vec<Client>, Error> {
        page!(self, Query::Operator(OperatorQuery::Clients { after, limit }), Clients)
    }

    /// The API keys of a client, good or not, oldest first.
    pub async fn api_keys_of(&self, client: ClientId) -> Result<Vec<ApiKey>, Error> {
        page!(self, Query::Operator(OperatorQuery::ApiKeysOf(client)), ApiKeys)
    }

    /// A page of all webhooks, oldest first, after the one that ended the last page.
    pub async fn all_webhooks(&self, after: Option<WebhookId>, limit: usize) -> Result<Vec<Webhook>, Error> {
        page!(self, Query::Operator(OperatorQuery::Webhooks { after, limit }), Webhooks)
    }

    /// A page of the jobs that failed for a reason, dead letters or not, oldest first, after the one that ended the last page.
    pub async fn failed_jobs(
        &self,
        failure: FailureId,
        after: Option<JobId>,
        limit: usize,
    ) -> Result<Vec<Job>, Error> {
        page!(self, Query::Operator(OperatorQuery::FailedJobs { failure, after, limit }), Jobs)
    }

    /// How many jobs failed for a reason and still stand like that; counting ends at `limit`.
    pub async fn count_failed(&self, failure: FailureId, limit: usize) -> Result<u64, Error> {
        page!(self, Query::Operator(OperatorQuery::CountFailed { failure, limit }), Count)
    }
}
