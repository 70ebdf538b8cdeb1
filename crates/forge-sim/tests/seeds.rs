//! A fixed set of seeds keeps every rule, the same seed tells the same story, and a rule broken on purpose is caught.

use forge_sim::{Sabotage, run};

/// Enough that every kind of trouble meets every kind of command; `make sim` plays more.
const N_SEEDS: u64 = 1000;

#[test]
fn a_thousand_seeds_keep_every_rule() {
    let play = |seeds: std::ops::Range<u64>| {
        let (mut n_jobs, mut n_outcomes) = (0, 0);
        for seed in seeds {
            match run(seed, None) {
                Ok(report) => {
                    n_jobs += report.n_jobs;
                    n_outcomes += report.n_outcomes;
                }
                Err(failure) => panic!("{failure}"),
            }
        }
        (n_jobs as u64, n_outcomes as u64)
    };
    let (n_jobs, n_outcomes) = std::thread::scope(|scope| {
        let half = scope.spawn(|| play(0..N_SEEDS / 2));
        let (jobs, outcomes) = play(N_SEEDS / 2..N_SEEDS);
        let (more_jobs, more_outcomes) = half.join().expect("a failing seed has told its story above");
        (jobs + more_jobs, outcomes + more_outcomes)
    });
    println!("{N_SEEDS} seeds: {n_jobs} jobs acknowledged, {n_outcomes} executions ended");
    // The checks mean nothing if nothing happens.
    assert!(n_jobs > 20 * N_SEEDS, "{n_jobs} jobs");
    assert!(n_outcomes > 20 * N_SEEDS, "{n_outcomes} outcomes");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..10 {
        let story = || format!("{:?}", run(seed, None).map_err(|failure| failure.to_string()));
        assert_eq!(story(), story(), "seed {seed}");
    }
}

#[test]
fn a_broken_rule_is_caught_and_its_seed_is_named() {
    use Sabotage::{FencingOff, LostClaim, LostEvent, LostWrite};
    for sabotage in [FencingOff, LostWrite, LostEvent, LostClaim] {
        let caught = (0..40).find_map(|seed| run(seed, Some(sabotage)).err());
        let failure = caught.unwrap_or_else(|| panic!("nobody noticed {sabotage:?}"));
        assert!(failure.to_string().contains(&format!("--seed {}", failure.seed)));
        assert!(!failure.story.is_empty());
    }
}
