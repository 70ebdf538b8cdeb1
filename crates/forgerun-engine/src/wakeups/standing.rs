//! Claims that stand. A worker that found nothing leaves its claim with the line, and the batch that brings work takes it along: the job
//! is handed out in the transaction that writes it. So its row is written once instead of twice, and nobody is woken only to ask for it.
//!
//! Nothing depends on this. What a batch brings and no claim takes is announced, like everything else.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::Answer;
use forgerun_core::command::Claim;
use forgerun_core::job::{Lane, Shelf};
use forgerun_core::limits;
use tokio::sync::oneshot;

use super::{WaitingWorkers, Wakeups};
use crate::Error;
use crate::committer::{Reply, lost};

/// Claims that one batch takes along. Each may name many queues, all of which are looked at; what these claims leave is announced.
pub(super) const TAKEN_ALONG_MAX: usize = 64;

/// A claim that somebody left, and where to answer it.
pub(crate) struct LeftClaim {
    pub(crate) claim: Claim,
    pub(crate) reply: Reply,
}

/// The claims that stand, by the number of who left them: the longest waiting first.
#[derive(Default)]
pub(super) struct StandingClaims {
    claims: BTreeMap<u64, LeftClaim>,
    /// Those that take simulated work of whatever queue.
    built_in: BTreeSet<u64>,
}

/// A claim that one has left. Withdrawn when dropped.
pub(crate) struct StandingClaim {
    wakeups: Wakeups,
    number: u64,
    answer: oneshot::Receiver<Result<Answer, Error>>,
}

impl Wakeups {
    /// Leaves a claim of the built-in worker, for simulated work of whatever queue.
    pub(crate) fn leave_built_in(&self, claim: Claim) -> StandingClaim {
        let mut line = self.line();
        let number = line.number();
        line.standing.built_in.insert(number);
        self.place(&mut line, number, claim)
    }

    /// Leaves the claim of the waiter with this number, who stands in line.
    pub(super) fn place(&self, line: &mut WaitingWorkers, number: u64, claim: Claim) -> StandingClaim {
        let (reply, answer) = oneshot::channel();
        line.standing.claims.insert(number, LeftClaim { claim, reply });
        StandingClaim { wakeups: self.clone(), number, answer }
    }

    /// Whether it matters what a batch brings.
    pub(crate) fn has_standing_claims(&self) -> bool {
        !self.line().standing.claims.is_empty()
    }

    /// Takes as many claims as it needs for so many jobs on each of these shelves, or as there are, up to [`TAKEN_ALONG_MAX`].
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
    /// What became of it, once a batch has carried it out. Safe to drop.
    pub(crate) async fn answer(&mut self) -> Result<Answer, Error> {
        (&mut self.answer).await.unwrap_or_else(|_| Err(lost()))
    }

    /// The same if a batch has carried it out by now.
    pub(crate) fn try_answer(&mut self) -> Option<Result<Answer, Error>> {
        match self.answer.try_recv() {
            Ok(answer) => Some(answer),
            Err(oneshot::error::TryRecvError::Empty) => None,
            Err(oneshot::error::TryRecvError::Closed) => Some(Err(lost())),
        }
    }

    /// Takes it back. Too late if a batch has it: then there will be an answer.
    pub(crate) fn withdraw(&mut self) -> bool {
        self.wakeups.line().standing.remove(self.number).is_some()
    }
}

impl Drop for StandingClaim {
    fn drop(&mut self) {
        self.withdraw();
    }
}
