//! Commands about external workers: heartbeats, directives, losses.

use alloc::vec::Vec;
use core::time::Duration;

use super::LeaseProof;
use crate::id::JobId;
use crate::worker::{Worker, WorkerFacts, WorkerId, WorkerState};

#[derive(Clone, Debug)]
pub enum WorkerCommand {
    Heartbeat(Heartbeat),
    /// Directs the worker to stop fetching, to terminate, or to go on.
    Direct {
        worker: WorkerId,
        /// The directive, delivered with the next heartbeat.
        to: WorkerState,
    },
    /// The worker is gone: its jobs are taken back.
    Lost(WorkerLost),
    /// Forget a worker that holds no jobs. It is known again with its next heartbeat.
    Forget(WorkerLost),
}

impl WorkerCommand {
    pub const fn worker(&self) -> &WorkerId {
        match self {
            WorkerCommand::Heartbeat(heartbeat) => &heartbeat.worker,
            WorkerCommand::Direct { worker, .. } => worker,
            WorkerCommand::Lost(lost) | WorkerCommand::Forget(lost) => &lost.worker,
        }
    }
}

#[derive(Clone, Debug)]
pub struct Heartbeat {
    pub worker: WorkerId,
    /// State reported by the worker, if any.
    pub state: Option<WorkerState>,
    /// What the worker reports about itself.
    pub facts: WorkerFacts,
    /// The jobs it works on, each with its proof. A job that it does not hold is skipped.
    pub jobs: Vec<(JobId, LeaseProof)>,
    /// New lease; `None` uses that of the claim.
    pub lease: Option<Duration>,
}

/// Answer to a heartbeat: the worker's directive, and which jobs were extended or cancelled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The worker, with its directive.
    pub worker: Worker,
    pub extended: Vec<JobId>,
    /// Its jobs that were cancelled.
    pub canceled: Vec<JobId>,
    /// Those of the extended ones that are paused.
    pub paused: Vec<JobId>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerLost {
    pub worker: WorkerId,
    /// The jobs it held, as far as known.
    pub jobs: Vec<JobId>,
}
