//! What the engine acknowledged to clients and workers, and what must follow from it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard};

use forgerun_core::id::{ClientId, ExecutionId, JobId};
use forgerun_core::job::Job;
use forgerun_core::state::State;

use crate::run_log::RunLog;

pub(crate) struct Acknowledged {
    log: RunLog,
    inner: Mutex<AcknowledgedState>,
}

#[derive(Default)]
struct AcknowledgedState {
    /// Acknowledged jobs and their clients.
    jobs: BTreeMap<JobId, ClientId>,
    keys: BTreeMap<(ClientId, String), JobId>,
    /// Fencing tokens of acknowledged claims.
    claims: BTreeMap<JobId, BTreeSet<u64>>,
    /// Attempts whose end was acknowledged to a worker.
    ends: BTreeMap<(ExecutionId, u32), u64>,
    /// Executions whose final state was acknowledged.
    ended: BTreeMap<ExecutionId, (JobId, State)>,
}

impl Acknowledged {
    pub(crate) fn new(log: RunLog) -> Acknowledged {
        Acknowledged { log, inner: Mutex::default() }
    }

    fn inner(&self) -> MutexGuard<'_, AcknowledgedState> {
        self.inner.lock().expect("no code panics while noting")
    }

    /// The acceptance of a job was acknowledged to its client.
    pub(crate) fn acknowledged(&self, job: &Job, key: Option<&str>) {
        let mut inner = self.inner();
        inner.jobs.insert(job.id, job.head.client);
        let Some(key) = key else { return };
        let first = *inner.keys.entry((job.head.client, key.into())).or_insert(job.id);
        drop(inner);
        if first != job.id {
            self.log.broken(format!("key {key} made job {first} and job {}", job.id));
        }
    }

    /// A claim was acknowledged to a worker.
    pub(crate) fn claimed(&self, job: &Job, worker: &str) {
        self.log.note(|| format!("{worker} holds {} (attempt {}, token {})", job.id, job.attempt, job.fence));
        if !self.inner().claims.entry(job.id).or_default().insert(job.fence) {
            self.log.broken(format!("job {} was handed out twice under token {}", job.id, job.fence));
        }
    }

    /// The end of an attempt was acknowledged to the worker that claimed with `token`.
    pub(crate) fn ended(&self, execution: ExecutionId, attempt: u32, token: u64, job: &Job) {
        let mut inner = self.inner();
        let newest = inner.claims.get(&job.id).and_then(|tokens| tokens.last().copied()).unwrap_or(0);
        let before = inner.ends.insert((execution, attempt), token);
        if job.state.is_final() {
            inner.ended.insert(job.execution, (job.id, job.state));
        }
        drop(inner);
        if newest > token {
            self.log
                .broken(format!("job {}: token {token} ended an attempt that token {newest} held", job.id));
        }
        if let Some(before) = before {
            self.log
                .broken(format!("attempt {attempt} of {execution} was ended by tokens {before} and {token}"));
        }
    }

    /// A cancel was acknowledged to a client; the job ends once its compensations are done.
    pub(crate) fn canceled(&self, job: &Job) {
        self.inner().ended.insert(job.execution, (job.id, State::Canceled));
    }

    /// A random acknowledged job of the client.
    pub(crate) fn some_job_of(&self, client: ClientId, lot: u64) -> Option<JobId> {
        let inner = self.inner();
        let own: Vec<JobId> =
            inner.jobs.iter().filter(|(_, owner)| **owner == client).map(|(id, _)| *id).collect();
        own.get((lot % own.len().max(1) as u64) as usize).copied()
    }

    pub(crate) fn jobs(&self) -> BTreeMap<JobId, ClientId> {
        self.inner().jobs.clone()
    }

    pub(crate) fn ended_executions(&self) -> BTreeMap<ExecutionId, (JobId, State)> {
        self.inner().ended.clone()
    }
}
