//! Plays seeds: `forgerun-sim --seed N` plays one and prints its log if it fails; `forgerun-sim
//! --seeds N [--from M]` plays many, and stops at the first failure.

use std::process::ExitCode;

use forgerun_sim::run;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |name: &str| -> Option<u64> {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse().ok()
    };
    let (from, n_seeds) = match (number("--seed"), number("--seeds")) {
        (Some(seed), None) => (seed, 1),
        (None, Some(n_seeds)) => (number("--from").unwrap_or(0), n_seeds),
        _ => {
            eprintln!("usage: forgerun-sim --seed N | --seeds N [--from M]");
            return ExitCode::from(2);
        }
    };
    let (mut n_jobs, mut n_commits, mut n_events, mut n_sends, mut n_at_broker, mut n_ticks) =
        (0, 0, 0, 0, 0, 0);
    for seed in from..from + n_seeds {
        match run(seed, None) {
            Ok(report) => {
                n_jobs += report.n_jobs;
                n_commits += report.n_commits;
                n_events += report.n_events;
                n_sends += report.n_sends;
                n_at_broker += report.n_at_broker;
                n_ticks += report.n_ticks;
            }
            Err(failure) => {
                println!("{failure}");
                return ExitCode::FAILURE;
            }
        }
    }
    println!(
        "{n_seeds} seeds from {from} kept every rule: {n_jobs} jobs, {n_commits} commits, {n_events} events, \
         {n_sends} deliveries sent, {n_at_broker} events at brokers, {n_ticks} ticks"
    );
    ExitCode::SUCCESS
}
