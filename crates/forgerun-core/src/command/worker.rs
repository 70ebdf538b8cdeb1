//! What workers outside say of themselves, and what they are told.

use alloc::vec::Vec;
use core::time::Duration;

use super::LeaseProof;
use crate::id::JobId;
use crate::worker::{Worker, WorkerFacts, WorkerId, WorkerState};

/// Something about a worker outside.
#[derive(Clone, Debug)]
pub enum WorkerCommand {
    /// It is alive.
    Heartbeat(Heartbeat),
    /// It shall take no more work, or end, or go on.
    Direct {
        /// Which worker.
        worker: WorkerId,
        /// What it is told with its next heartbeat.
        to: WorkerState,
    },
    /// It is gone: what it holds is taken back.
    Lost(WorkerLost),
}

impl WorkerCommand {
    /// The worker it is about.
    pub const fn worker(&self) -> &WorkerId {
        match self {
            WorkerCommand::Heartbeat(heartbeat) => &heartbeat.worker,
            WorkerCommand::Direct { worker, .. } => worker,
            WorkerCommand::Lost(lost) => &lost.worker,
        }
    }
}

/// A heartbeat.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    /// Who.
    pub worker: WorkerId,
    /// What it says it does; `None` if it does not say.
    pub state: Option<WorkerState>,
    /// What it says about itself.
    pub facts: WorkerFacts,
    /// The jobs it works on, each with the proof. A job that it does not hold is passed over.
    pub jobs: Vec<(JobId, LeaseProof)>,
    /// Hold them for this long from now; `None` for as long as the claim said.
    pub lease: Option<Duration>,
}

/// What became of a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeartbeatAnswer {
    /// The worker, with what it is told.
    pub worker: Worker,
    /// The jobs it goes on holding.
    pub extended: Vec<JobId>,
    /// Those of its jobs that were cancelled.
    pub canceled: Vec<JobId>,
}

/// A worker that is gone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerLost {
    /// Who.
    pub worker: WorkerId,
    /// What it held, as far as is known.
    pub jobs: Vec<JobId>,
}
