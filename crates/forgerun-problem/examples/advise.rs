//! Shows when a consumer would submit a failed job again, and when it would poll a running one.
//!
//! `cargo run -p forgerun-problem --example advise`

use std::time::Duration;

use forgerun_problem::advice::{Policy, Situation};
use forgerun_problem::polling::{Poll, Schedule};
use forgerun_problem::{Job, JobStatus, Timestamp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let completed_at = Timestamp::parse("2026-02-26T18:00:01Z")?;
    let job =
        Job::builder().status(JobStatus::Failed).completed_at(completed_at).retryable(true).retry_after_s(5);
    let job = job.build()?;

    println!("submitting again, the report two seconds old each time:");
    let now = Timestamp::from_unix_seconds(completed_at.unix_seconds() + 2)?;
    for retries_made in 0..=5 {
        let situation = Situation { received_at: now, now, retries_made, random: 0.25 };
        println!("  after {retries_made} retries: {:?}", Policy::default().advise(&job, &situation));
    }

    println!("polling:");
    let (mut waited, mut polls) = (Duration::ZERO, 0);
    while let Poll::After(wait) = Schedule::default().next(polls, waited, None) {
        polls += 1;
        waited += wait;
        println!("  poll {polls} after {wait:?}, {waited:?} in all");
    }
    Ok(())
}
