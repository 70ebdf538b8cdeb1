//! Workers outside as the operator sees them.

use forgerun_core::id::JobId;
use forgerun_core::job::Name;
use forgerun_core::time::Time;
use forgerun_core::worker::Worker;
use serde::{Deserialize, Serialize};

use crate::ojs::worker::state_word;
use crate::time;

/// A worker outside that makes itself known by heartbeats.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AdminWorker {
    /// What it calls itself. Two clients may both have a worker of this name.
    pub id: String,
    /// Whose jobs it works on.
    pub client: String,
    /// What people call that client.
    #[serde(default)]
    pub client_name: Option<String>,
    /// Which of the client's tenants.
    pub tenant: Option<String>,
    /// What it last said it does: running, quiet or terminate.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Directive"))]
    pub state: String,
    /// What it is told to do.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::Directive"))]
    pub directive: String,
    /// The machine it runs on.
    pub hostname: Option<String>,
    /// Its process there.
    pub pid: Option<u32>,
    /// The queues it serves.
    pub queues: Vec<String>,
    /// How many jobs it works on at once.
    pub concurrency: Option<u32>,
    /// The jobs it holds, as far as it said so.
    pub jobs: Vec<String>,
    /// When it was first seen.
    pub started_at: String,
    /// When it was last seen.
    pub last_seen_at: String,
    /// How long ago that is, in seconds.
    pub silent_s: u64,
}

impl AdminWorker {
    /// The worker at this moment.
    pub fn new(worker: &Worker, now: Time) -> AdminWorker {
        AdminWorker {
            id: worker.id.name.as_str().to_owned(),
            client: worker.id.owner.client.to_string(),
            client_name: None,
            tenant: worker.id.owner.tenant.as_ref().map(|tenant| tenant.as_str().to_owned()),
            state: state_word(worker.state).to_owned(),
            directive: state_word(worker.directive).to_owned(),
            hostname: worker.facts.hostname.clone(),
            pid: worker.facts.pid,
            queues: worker.facts.queues.iter().map(Name::to_string).collect(),
            concurrency: worker.facts.concurrency,
            jobs: worker.jobs.iter().map(JobId::to_string).collect(),
            started_at: time::millis(worker.started_at),
            last_seen_at: time::millis(worker.seen_at),
            silent_s: now.since(worker.seen_at).as_secs(),
        }
    }
}
