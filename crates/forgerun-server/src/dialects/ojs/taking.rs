//! Jobs between their claim and the answer to their worker. A request can end in between, by a
//! deadline or because its client is gone; what was taken for it then goes back at once and not
//! when its lease ends.

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

/// A claim under way. One that is dropped is waited for in the background, for a moment, since what
/// is being written cannot be called off.
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

    /// What was claimed; nothing, if that was told before. Being dropped is safe.
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

/// Jobs that were taken for a worker, in the order in which it gets them. When this is dropped,
/// they go back.
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

/// Puts a job that its worker never got back to where it was. It does not count as an attempt.
pub(in crate::dialects) fn hand_back(app: &App, job: JobId, fence: u64) {
    app.engine.enqueue(Command::HandBack(HeldJob { job, proof: LeaseProof::Token(fence), client: None }));
}
