//! A fixed set of seeds keeps every rule, the same seed tells the same story, and a rule broken on
//! purpose is caught.

use forgerun_sim::{Sabotage, SimReport, run};

/// Enough that every kind of trouble meets every kind of command; `make sim` plays more.
const N_SEEDS: u64 = 1000;

#[test]
fn a_thousand_seeds_keep_every_rule() {
    let play = |seeds: std::ops::Range<u64>| {
        let mut sum = [0; 6];
        for seed in seeds {
            match run(seed, None) {
                Ok(SimReport { n_jobs, n_outcomes, n_sends, n_at_broker, n_ticks, n_turns, .. }) => {
                    let numbers = [n_jobs as u64, n_outcomes as u64, n_sends, n_at_broker, n_ticks, n_turns];
                    sum.iter_mut().zip(numbers).for_each(|(sum, n)| *sum += n);
                }
                Err(failure) => panic!("{failure}"),
            }
        }
        sum
    };
    let [n_jobs, n_outcomes, n_sends, n_at_broker, n_ticks, n_turns] = std::thread::scope(|scope| {
        let half = scope.spawn(|| play(0..N_SEEDS / 2));
        let rest = play(N_SEEDS / 2..N_SEEDS);
        let half = half.join().expect("a failing seed has told its story above");
        std::array::from_fn(|n| half[n] + rest[n])
    });
    println!(
        "{N_SEEDS} seeds: {n_jobs} jobs acknowledged, {n_outcomes} executions ended, {n_sends} deliveries sent, {n_at_broker} events at brokers, {n_ticks} ticks"
    );
    // The checks mean nothing if nothing happens.
    assert!(n_jobs > 20 * N_SEEDS, "{n_jobs} jobs");
    assert!(n_outcomes > 20 * N_SEEDS, "{n_outcomes} outcomes");
    assert!(n_sends > 10 * N_SEEDS, "{n_sends} deliveries sent");
    assert!(n_at_broker > 10 * N_SEEDS, "{n_at_broker} events at brokers");
    assert!(n_ticks > N_SEEDS, "{n_ticks} ticks made a job");
    assert!(n_turns > N_SEEDS, "{n_turns} turns of fair keys were checked");
}

#[test]
fn the_same_seed_tells_the_same_story() {
    for seed in 0..60 {
        let story = || format!("{:?}", run(seed, None).map_err(|failure| failure.to_string()));
        assert_eq!(story(), story(), "seed {seed}");
    }
}

#[test]
fn a_broken_rule_is_caught_and_its_seed_is_named() {
    use Sabotage::{
        FencingOff, HastyDelivery, HastySink, LostClaim, LostDelivery, LostEvent, LostStep, LostWrite,
        OwnershipOff, RepeatedTick, SharedDelivery,
    };
    let of_jobs = [FencingOff, OwnershipOff, LostWrite, LostEvent, LostClaim, LostStep];
    let of_deliveries = [LostDelivery, SharedDelivery, HastyDelivery];
    for sabotage in of_jobs.into_iter().chain(of_deliveries).chain([HastySink, RepeatedTick]) {
        let caught = (0..40).find_map(|seed| run(seed, Some(sabotage)).err());
        let failure = caught.unwrap_or_else(|| panic!("nobody noticed {sabotage:?}"));
        assert!(failure.to_string().contains(&format!("--seed {}", failure.seed)));
        assert!(!failure.log.is_empty());
    }
}
