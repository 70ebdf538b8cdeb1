//! Jobs between their claim and the answer to their worker. A request can end in between, by a
//! deadline or a disconnect; its jobs then go back at once instead of when their lease ends.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::Command;
use forgerun_core::command::{Claim, HeldJob, LeaseProof};
use forgerun_core::id::JobId;
use forgerun_core::job::Job;
use forgerun_engine::Error;
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::work::AssignedJob;
use crate::app::App;
use crate::limits::STREAM_CLAIM_GRACE;

type ClaimResult = Result<Vec<Job>, Error>;

/// A running claim. If dropped, it is awaited in the background for a moment, since a claim that is
/// being written cannot be cancelled.
pub(super) struct FetchClaim {
    app: Arc<App>,
    /// `None` once it is done.
    claim: Option<Pin<Box<dyn Future<Output = ClaimResult> + Send>>>,
}

impl FetchClaim {
    pub(super) fn begin(app: &App, claim: Claim, wait: Duration) -> FetchClaim {
        let app = app.shared();
        let (engine, asking) = (app.engine.clone(), app.attendance.asks(&claim));
        let claim = Box::pin(async move {
            let claimed = engine.claim(claim, wait).await;
            drop(asking);
            claimed
        });
        FetchClaim { app, claim: Some(claim) }
    }

    /// The claimed jobs; none if they were returned before. Cancel-safe.
    pub(super) async fn claimed(&mut self) -> ClaimResult {
        let Some(claim) = &mut self.claim else { return Ok(Vec::new()) };
        let claimed = claim.await;
        self.claim = None;
        claimed
    }
}

impl Drop for FetchClaim {
    fn drop(&mut self) {
        let (Some(claim), Ok(runtime)) = (self.claim.take(), Handle::try_current()) else { return };
        let app = self.app.clone();
        runtime.spawn(async move {
            if let Ok(Ok(jobs)) = timeout(STREAM_CLAIM_GRACE, claim).await {
                jobs.iter().for_each(|job| hand_back(&app, job.id, job.fence));
            }
        });
    }
}

/// Claimed jobs in the order in which the worker gets them. Handed back on drop.
pub(super) struct HandBackGuard {
    app: Arc<App>,
    jobs: Vec<(JobId, u64)>,
}

impl HandBackGuard {
    pub(super) fn new(app: &App) -> HandBackGuard {
        HandBackGuard { app: app.shared(), jobs: Vec::new() }
    }

    pub(super) fn add(&mut self, jobs: &[Job]) {
        self.jobs.extend(jobs.iter().map(|job| (job.id, job.fence)));
    }

    /// These stay with their worker.
    pub(super) fn confirm(mut self, handed_out: &[AssignedJob]) {
        self.jobs.retain(|(id, _)| handed_out.iter().all(|of| of.job.id != *id));
    }
}

impl Drop for HandBackGuard {
    fn drop(&mut self) {
        self.jobs.iter().for_each(|(job, fence)| hand_back(&self.app, *job, *fence));
    }
}

/// Hands a job back that its worker never got. It does not count as an attempt.
pub(in crate::dialects) fn hand_back(app: &App, job: JobId, fence: u64) {
    app.engine.enqueue(Command::HandBack(HeldJob { job, proof: LeaseProof::Token(fence), client: None }));
}
