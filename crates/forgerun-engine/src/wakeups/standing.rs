//! Standing claims. A worker that found nothing places its claim, and the batch with new jobs
//! executes it: the job is handed out in the transaction that writes it. So its row is written
//! once, and no worker is woken only to claim it.
//!
//! An optimisation only: jobs that no standing claim takes are announced like all others.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::Answer;
use forgerun_core::command::Claim;
use forgerun_core::job::{Lane, Shelf};
use forgerun_core::limits;
use tokio::sync::oneshot;

use super::{WaitingWorkers, Wakeups};
use crate::Error;
use crate::committer::{Reply, lost};

/// Standing claims that one batch executes. Each may name many queues to search; the jobs they
/// leave are announced.
pub(super) const TAKEN_ALONG_MAX: usize = 64;

/// A placed claim, and where to answer it.
pub(crate) struct LeftClaim {
    pub(crate) claim: Claim,
    pub(crate) reply: Reply,
}

/// Standing claims by the number of their waiter: the longest waiting first.
#[derive(Default)]
pub(super) struct StandingClaims {
    claims: BTreeMap<u64, LeftClaim>,
    /// Those for simulated work of any queue.
    built_in: BTreeSet<u64>,
}

/// A placed claim. Withdrawn when dropped.
pub(crate) struct StandingClaim {
    wakeups: Wakeups,
    number: u64,
    answer: oneshot::Receiver<Result<Answer, Error>>,
}

impl Wakeups {
    /// Places a claim of the built-in worker, for simulated work of any queue.
    pub(crate) fn leave_built_in(&self, claim: Claim) -> StandingClaim {
        let mut line = self.line();
        let number = line.number();
        line.standing.built_in.insert(number);
        self.place(&mut line, number, claim)
    }

    /// Places the claim of this waiter, which is in line.
    pub(super) fn place(&self, line: &mut WaitingWorkers, number: u64, claim: Claim) -> StandingClaim {
        let (reply, answer) = oneshot::channel();
        line.standing.claims.insert(number, LeftClaim { claim, reply });
        StandingClaim { wakeups: self.clone(), number, answer }
    }

    /// Whether there is any, so that the jobs of a batch matter.
    pub(crate) fn has_standing_claims(&self) -> bool {
        !self.line().standing.claims.is_empty()
    }

    /// Takes claims for so many jobs on each of these shelves, up to [`TAKEN_ALONG_MAX`].
    pub(crate) fn take_standing(&self, brought: &BTreeMap<Shelf, usize>) -> Vec<LeftClaim> {
        let mut line = self.line();
        let mut taken = Vec::new();
        let WaitingWorkers { shelves, standing, .. } = &mut *line;
        for (shelf, &n_jobs) in brought.iter().filter(|(shelf, _)| shelf.lane == Lane::External) {
            let waiters = shelves.get(shelf).into_iter().flat_map(|spot| spot.waiters.keys());
            standing.take(n_jobs, waiters.copied(), &mut taken);
        }
        let simulated = || brought.iter().filter(|(shelf, _)| shelf.lane == Lane::BuiltIn);
        let n_built_in = taken.len();
        let waiters = standing.built_in.clone();
        standing.take(simulated().map(|(_, n_jobs)| n_jobs).sum(), waiters, &mut taken);
        for left in &mut taken[n_built_in..] {
            let queues = simulated().map(|(shelf, _)| shelf.name.clone());
            left.claim.queues = queues.take(limits::CLAIM_QUEUES_MAX).collect();
        }
        taken
    }
}

impl StandingClaims {
    fn take(&mut self, n_jobs: usize, waiters: impl IntoIterator<Item = u64>, taken: &mut Vec<LeftClaim>) {
        let mut n_left = n_jobs;
        for number in waiters {
            if n_left == 0 || taken.len() >= TAKEN_ALONG_MAX {
                break;
            }
            if let Some(left) = self.remove(number) {
                n_left = n_left.saturating_sub(left.claim.limit);
                taken.push(left);
            }
        }
    }

    fn remove(&mut self, number: u64) -> Option<LeftClaim> {
        self.built_in.remove(&number);
        self.claims.remove(&number)
    }
}

impl StandingClaim {
    /// The result, once a batch has executed it. Cancel-safe.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Error> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(lost()))
    }

    /// The result, if a batch has executed it by now.
    pub(crate) fn try_answer(&mut self) -> Option<Result<Answer, Error>> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(lost())),
        }
    }

    /// Withdraws it. Returns false if a batch has taken it: then there will be a result.
    pub(crate) fn withdraw(&mut self) -> bool {
        self.wakeups.line().standing.remove(self.number).is_some()
    }
}

impl Drop for StandingClaim {
    fn drop(&mut self) {
        self.withdraw();
    }
}
