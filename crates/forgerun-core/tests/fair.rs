//! Fair shares under random submissions, cancels and claims of several sizes: no key with waiting
//! jobs falls behind another by more than a turn of each.

mod world;

use std::collections::BTreeMap;

use forgerun_core::command::{Answer, NewJob};
use forgerun_core::fair::Fair;
use forgerun_core::id::JobId;
use forgerun_core::state::State;
use proptest::prelude::*;

use world::World;
use world::build::*;

const WEIGHTS: [u8; 4] = [1, 2, 5, 40];

/// Of the key with this number; the first has no name, and weight 1.
fn of_key(n: u128, key: usize) -> NewJob {
    job(n, |head| {
        head.fair = Fair::new(name(&format!("key {key}")), WEIGHTS[key]).filter(|_| key > 0);
        head.place = Some(JobId::v7(1, n));
    })
}

fn key_of(n: u128) -> usize {
    (n / 1_000_000) as usize
}

/// What keys have got since they have had jobs waiting without a break.
#[derive(Default)]
struct Shares {
    /// Turns, and those of the others when this one began to wait, each by weight.
    got: BTreeMap<usize, BTreeMap<usize, f64>>,
}

impl Shares {
    fn handed_out(&mut self, key: usize) {
        for got in self.got.values_mut() {
            *got.entry(key).or_default() += 1.0 / f64::from(WEIGHTS[key]);
        }
    }

    /// Keys that have nothing waiting are out of the comparison.
    fn waiting(&mut self, waiting: &[usize]) {
        self.got.retain(|key, _| waiting.contains(key));
        for &key in waiting {
            self.got.entry(key).or_default();
        }
        for got in self.got.values_mut() {
            got.retain(|key, _| waiting.contains(key));
        }
    }

    fn check(&self) {
        for (&key, got) in &self.got {
            let own = got.get(&key).copied().unwrap_or(0.0);
            for (&other, turns) in got {
                let most = 1.0 / f64::from(WEIGHTS[key]) + 1.0 / f64::from(WEIGHTS[other]);
                assert!(turns - own <= most * 1.01, "key {key} is behind key {other}: {own} and {turns}");
            }
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Submit(usize, u8),
    Claim(usize),
    Cancel(usize, u8),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0..WEIGHTS.len(), 1..20_u8).prop_map(|(key, n)| Step::Submit(key, n)),
        (1..12_usize).prop_map(Step::Claim),
        (1..12_usize).prop_map(Step::Claim),
        (0..WEIGHTS.len(), 1..9_u8).prop_map(|(key, n)| Step::Cancel(key, n)),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_key_falls_behind_its_share(steps in steps()) {
        let (mut world, mut shares) = (World::new(), Shares::default());
        let mut n_submitted = [0_u128; WEIGHTS.len()];
        for step in steps {
            match step {
                Step::Submit(key, n) => {
                    let from = n_submitted[key];
                    n_submitted[key] += u128::from(n);
                    let jobs = (from..n_submitted[key]).map(|n| of_key(key as u128 * 1_000_000 + n + 1, key));
                    world.ask(submit(jobs));
                }
                Step::Cancel(key, n) => {
                    let waits = |n: &u128| key_of(*n) == key && world.job(*n).state == State::Queued;
                    let waiting: Vec<u128> = world.jobs.keys().map(|id| id.as_u128()).filter(waits).collect();
                    world.apply(waiting.into_iter().step_by(2).take(n.into()).map(cancel).collect());
                }
                Step::Claim(limit) => {
                    let Answer::Claimed { jobs, .. } = world.ask(claim("q", limit)) else { panic!("refused") };
                    for job in jobs {
                        shares.handed_out(key_of(job.id.as_u128()));
                    }
                }
            }
            let queued = world.jobs.values().filter(|job| job.state == State::Queued);
            let mut waiting: Vec<usize> = queued.map(|job| key_of(job.id.as_u128())).collect();
            waiting.sort_unstable();
            waiting.dedup();
            shares.waiting(&waiting);
            shares.check();
        }
        let n_waiting = world.jobs.values().filter(|job| job.state == State::Queued).count();
        let mut n_handed = 0;
        while let Answer::Claimed { jobs, .. } = world.ask(claim("q", 50)) {
            if jobs.is_empty() {
                break;
            }
            n_handed += jobs.len();
        }
        prop_assert_eq!(n_handed, n_waiting);
    }
}
