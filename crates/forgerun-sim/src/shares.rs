//! The auditor's ledger of fair keys: while two keys of a line have claimable jobs, neither falls
//! behind the other by more than a turn of each.

use std::collections::{BTreeMap, BTreeSet};

use forgerun_core::fair::Fair;
use forgerun_core::id::JobId;
use forgerun_core::job::{Job, Name, Shelf};
use forgerun_core::state::State;

/// Keys that clients use, with their weights.
const KEYS: [(&str, u8); 3] = [("thin", 1), ("fair", 2), ("thick", 4)];

/// What a job of weight 1 costs; of other weights, a whole part of it.
const TURN: i64 = 1000;

pub(crate) fn key(n: u64) -> Option<Fair> {
    let (key, weight) = KEYS[(n % 3) as usize];
    Fair::new(Name::new(key)?, weight)
}

/// A priority of a queue.
type Line = (Shelf, i16);

#[derive(Default)]
pub(crate) struct ShareLedger {
    lines: BTreeMap<Line, LineLedger>,
    /// The newest claim of each job.
    fences: BTreeMap<JobId, u64>,
    n_turns: u64,
}

#[derive(Default)]
struct LineLedger {
    waiting: BTreeMap<Name, BTreeSet<JobId>>,
    /// By how much the first key is ahead of the second, since both wait.
    ahead: BTreeMap<(Name, Name), i64>,
}

impl LineLedger {
    /// Keys that wait, pair by pair.
    fn pairs(&self) -> BTreeSet<(Name, Name)> {
        let keys = || self.waiting.keys().cloned();
        keys().flat_map(|key| keys().map(move |other| (key.clone(), other))).filter(|(a, b)| a < b).collect()
    }

    fn handed_out(&mut self, fair: &Fair) {
        let turn = TURN / i64::from(fair.weight);
        for ((first, second), ahead) in &mut self.ahead {
            *ahead += if *first == fair.key { turn } else { 0 } - if *second == fair.key { turn } else { 0 };
        }
    }
}

fn weight(key: &Name) -> i64 {
    KEYS.iter().find(|(known, _)| *known == key.as_str()).map_or(1, |(_, weight)| i64::from(*weight))
}

impl ShareLedger {
    /// Turns that were taken while another key waited.
    pub(crate) fn n_turns(&self) -> u64 {
        self.n_turns
    }

    /// Enters the jobs of a commit.
    pub(crate) fn see<'a>(&mut self, jobs: impl Iterator<Item = &'a Job> + Clone, broken: &mut Vec<String>) {
        let keyed = jobs.filter_map(|job| Some((job, job.head.fair.as_ref()?)));
        for (job, fair) in keyed.clone() {
            let line = (job.head.shelf(), job.head.priority);
            let fence_before = self.fences.insert(job.id, job.fence).unwrap_or(0);
            if job.fence > fence_before && job.state.is_active() {
                let line = self.lines.entry(line).or_default();
                self.n_turns += u64::from(!line.ahead.is_empty());
                line.handed_out(fair);
            }
        }
        for (job, fair) in keyed {
            let line = (job.head.shelf(), job.head.priority);
            let waits = job.state == State::Queued && !job.paused && job.available_at.is_none();
            let ledger = self.lines.entry(line).or_default();
            if waits {
                ledger.waiting.entry(fair.key.clone()).or_default().insert(job.id);
            } else {
                ledger.waiting.entry(fair.key.clone()).or_default().remove(&job.id);
            }
        }
        for ((shelf, priority), line) in &mut self.lines {
            line.waiting.retain(|_, jobs| !jobs.is_empty());
            let pairs = line.pairs();
            line.ahead.retain(|pair, _| pairs.contains(pair));
            for pair in pairs {
                line.ahead.entry(pair).or_default();
            }
            for ((first, second), ahead) in &line.ahead {
                let most = TURN / weight(first) + TURN / weight(second);
                if ahead.abs() > most {
                    broken.push(format!(
                        "{} of priority {priority}: key {first} is {ahead} ahead of {second}, of at most {most}",
                        shelf.name
                    ));
                }
            }
        }
    }
}
