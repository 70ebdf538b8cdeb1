//! The plan of one client, determined by the seed and its number, so that no answer of the server
//! changes it.

use std::rc::Rc;
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::scenario::Phase;
use crate::limits::{BATCH_ITEMS, CANCEL_WITHIN, REPEATS};

/// How a client learns of the end of its job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Poll,
    Stream,
    Webhook,
    /// It does not.
    Abandon,
}

/// What a client does.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Story {
    /// One job of this kind.
    Single(Rc<str>),
    /// One job with several items.
    Batch(Vec<Rc<str>>),
    /// An abusive request, by its index.
    Nonsense(usize),
    /// A new client that rotates its key.
    Rotate(Rc<str>),
    Work,
    /// A workflow.
    Flow,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Plan {
    /// Its number in the run, from 0.
    pub(super) n: u64,
    /// Index of the client.
    pub(super) client: usize,
    pub(super) story: Story,
    pub(super) way: Way,
    /// When it cancels, counted from the acceptance.
    pub(super) cancel_after: Option<Duration>,
    pub(super) retry: bool,
    /// Number of concurrent submissions.
    pub(super) n_submissions: usize,
    /// Whether it opens a stream that it never reads.
    pub(super) slow: bool,
    /// How often its receiver fails at first.
    pub(super) n_failures_of_receiver: u32,
    pub(super) poll_every: Option<Duration>,
}

/// Draws plans for the journeys of a phase.
pub(super) struct Planner<'a> {
    phase: &'a Phase,
    seed: u64,
    n_clients: usize,
    kinds: Vec<(Rc<str>, f64)>,
    weight: f64,
}

impl<'a> Planner<'a> {
    pub(super) fn new(phase: &'a Phase, seed: u64, n_clients: usize) -> Planner<'a> {
        let kinds: Vec<_> =
            phase.kinds.iter().map(|(kind, weight)| (Rc::from(kind.as_str()), *weight)).collect();
        let weight = kinds.iter().map(|(_, weight)| weight).sum();
        Planner { phase, seed, n_clients, kinds, weight }
    }

    /// The plan of a journey. All numbers are drawn, needed or not, so that changing one share does
    /// not change the rest.
    pub(super) fn plan(&self, n: u64) -> Plan {
        let mut dice = journey_dice(self.seed, n);
        let shares = &self.phase.behaviour;
        let client = dice.random_range(0..self.n_clients);
        let kind = self.kind(&mut dice);
        let items = (0..dice.random_range(BATCH_ITEMS)).map(|_| self.kind(&mut dice)).collect();
        let which = dice.random_range(0..usize::MAX);
        let way = way(&mut dice, self.phase);
        let mut drawn = |share: f64| dice.random::<f64>() < share;
        let [nonsense, batch, rotate, work] =
            [shares.nonsense, shares.batch, shares.rotate, shares.work].map(&mut drawn);
        let [cancel, retry, repeat, slow, flaky] =
            [shares.cancel, shares.retry, shares.repeat, shares.slow, shares.flaky].map(&mut drawn);
        // Early moments are drawn more often: that is where races are.
        let after = CANCEL_WITHIN.mul_f64(dice.random::<f64>().powi(2));
        let n_repeats = dice.random_range(REPEATS);
        let n_failures = dice.random_range(1..=2);
        let story = match () {
            () if dice.random::<f64>() < shares.flow => Story::Flow,
            () if nonsense => Story::Nonsense(which),
            () if work => Story::Work,
            () if rotate => Story::Rotate(kind),
            () if batch => Story::Batch(items),
            () => Story::Single(kind),
        };
        Plan {
            n,
            client,
            story,
            way,
            cancel_after: cancel.then_some(after),
            retry,
            n_submissions: if repeat { n_repeats } else { 1 },
            slow,
            n_failures_of_receiver: if flaky { n_failures } else { 0 },
            poll_every: self.phase.poll_every,
        }
    }

    fn kind(&self, dice: &mut StdRng) -> Rc<str> {
        let mut left = dice.random::<f64>() * self.weight;
        for (kind, weight) in &self.kinds {
            left -= weight;
            if left < 0.0 {
                return kind.clone();
            }
        }
        self.kinds.last().expect("a phase has kinds").0.clone()
    }
}

fn way(dice: &mut StdRng, phase: &Phase) -> Way {
    let shares = &phase.behaviour;
    let mut left = dice.random::<f64>();
    for (way, share) in
        [(Way::Stream, shares.stream), (Way::Webhook, shares.webhook), (Way::Abandon, shares.abandon)]
    {
        left -= share;
        if left < 0.0 {
            return way;
        }
    }
    Way::Poll
}

fn journey_dice(seed: u64, n: u64) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(n))
}

/// Start times of journeys, relative to their phase: a Poisson process of this rate, as of
/// independent clients.
pub(super) struct Arrivals {
    dice: StdRng,
    rate: f64,
    next_s: f64,
}

impl Arrivals {
    pub(super) fn new(seed: u64, phase: usize, rate: f64) -> Arrivals {
        Arrivals { dice: journey_dice(seed ^ 0xa11, phase as u64), rate, next_s: 0.0 }
    }
}

impl Iterator for Arrivals {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        let uniform: f64 = self.dice.random();
        self.next_s += -(1.0 - uniform).ln() / self.rate;
        Some(Duration::from_secs_f64(self.next_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::traffic::scenario::Scenario;

    fn mixed() -> Scenario {
        Scenario::built_in().find(|scenario| scenario.name == "mixed").unwrap()
    }

    #[test]
    fn the_seed_decides_all_plans_and_arrivals() {
        let scenario = mixed();
        let plans = |seed| -> Vec<Plan> {
            let planner = Planner::new(&scenario.phase[0], seed, 8);
            (0..200).map(|n| planner.plan(n)).collect()
        };
        assert_eq!(plans(7), plans(7));
        assert_ne!(plans(7), plans(8));
        let moments = |seed| Arrivals::new(seed, 0, 100.0).take(50).collect::<Vec<_>>();
        assert_eq!(moments(7), moments(7));
        assert_ne!(moments(7), moments(8));
    }

    #[test]
    fn shares_and_weights_come_true() {
        let scenario = mixed();
        let planner = Planner::new(&scenario.phase[0], 1, 8);
        let plans: Vec<Plan> = (0..10_000).map(|n| planner.plan(n)).collect();
        let share = |wanted: &dyn Fn(&Plan) -> bool| {
            plans.iter().filter(|plan| wanted(plan)).count() as f64 / 10_000.0
        };
        for (found, expected) in [
            (share(&|plan| plan.way == Way::Stream), 0.2),
            (share(&|plan| plan.way == Way::Poll), 0.5),
            (share(&|plan| plan.cancel_after.is_some()), 0.1),
            (share(&|plan| matches!(plan.story, Story::Nonsense(_))), 0.05),
            (share(&|plan| plan.story == Story::Single("SUCCESS_FAST".into())), 8.0 / 19.0 * 0.95 * 0.95),
        ] {
            assert!((found - expected).abs() < 0.02, "{found} instead of {expected}");
        }
    }

    #[test]
    fn arrivals_keep_their_rate_whatever_happens_in_between() {
        let last = Arrivals::new(3, 0, 1000.0).nth(9_999).unwrap();
        assert!((last.as_secs_f64() - 10.0).abs() < 0.5, "{last:?}");
    }
}
