//! Whether and when to submit a failed job again.
//!
//! Pure functions: the time and the randomness are arguments, nothing sleeps, nothing is sent. The
//! advice keeps a consumer safe from a server that is wrong or malicious:
//!
//! - a job is submitted again only if the server says so (`retryable`); `retryAfter` alone is no
//!   permission;
//! - never more than [`Policy::attempts_max`] times;
//! - never sooner than [`Policy::floor`], even if `retryAfter` is 0;
//! - never before `retryAfter` has passed, counted from `completedAt` (or from the receipt, if that
//!   is missing);
//! - not at all if `retryAfter` is beyond [`Policy::ceiling`];
//! - later each time, and never at the same moment as everybody else.
//!
//! ```
//! use forgerun_problem::advice::{Advice, Policy, Situation};
//! use forgerun_problem::{Problem, Timestamp};
//!
//! let problem: Problem = serde_json::from_str(
//!     r#"{"jobStatus":"FAILED","completedAt":"2026-02-26T18:00:01Z","retryable":true,"retryAfter":60}"#,
//! )?;
//! let now = Timestamp::parse("2026-02-26T18:00:41Z")?;
//! let situation = Situation { received_at: now, now, retries_made: 0, random: 0.5 };
//! match Policy::default().advise(problem.job(), &situation) {
//!     Advice::RetryIn(wait) => assert_eq!(wait.as_millis(), 20_500),
//!     other => panic!("{other:?}"),
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use std::time::Duration;

use crate::job::Job;
use crate::job_status::JobStatus;
use crate::timestamp::Timestamp;

/// How careful a consumer is. The defaults are those the async-job draft suggests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// The least wait, whatever the server says: 1 s.
    pub floor: Duration,
    /// A longer `retryAfter` means that a retry is impractical; also the longest wait advised: 3600
    /// s.
    pub ceiling: Duration,
    /// How many times a job is submitted again: 5.
    pub attempts_max: u32,
    /// The backoff before the first retry lies between this and its double: 1 s. It doubles from
    /// retry to retry.
    pub backoff_base: Duration,
    /// Where doubling ends: 60 s.
    pub backoff_max: Duration,
    /// What to assume where the server does not say whether a failure is retryable: no.
    ///
    /// Some error catalogues give each code a default of its own; whoever knows the code sets it
    /// here.
    pub retryable_if_absent: bool,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            floor: Duration::from_secs(1),
            ceiling: Duration::from_secs(3_600),
            attempts_max: 5,
            backoff_base: Duration::from_secs(1),
            backoff_max: Duration::from_secs(60),
            retryable_if_absent: false,
        }
    }
}

/// What the advice depends on besides the job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Situation {
    /// When the report reached the consumer.
    pub received_at: Timestamp,
    /// The present.
    pub now: Timestamp,
    /// How often this work has been submitted again already.
    pub retries_made: u32,
    /// A random number from 0 (inclusive) to 1 (exclusive); others are brought into these bounds.
    pub random: f64,
}

/// What to do with the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Submit it again after this wait, as a new job with a new idempotency key.
    RetryIn(Duration),
    /// It is not finished: ask for its status again, see [`crate::polling`].
    KeepWaiting,
    /// Do not submit it again.
    GiveUp(Reason),
}

/// Why not to submit a job again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// It went well.
    Succeeded,
    /// The same input will fail in the same way, or the server does not say otherwise.
    NotRetryable,
    /// It has been submitted again often enough.
    AttemptsUsedUp,
    /// The server wants more patience than the policy has.
    TooFarAway,
}

impl Policy {
    /// The advice for this job in this situation.
    #[must_use]
    pub fn advise(&self, job: &Job, situation: &Situation) -> Advice {
        match job.status() {
            Some(JobStatus::Completed) => return Advice::GiveUp(Reason::Succeeded),
            Some(status) if !status.is_terminal() => return Advice::KeepWaiting,
            Some(_) | None => {}
        }
        let retry_after = Duration::from_secs(job.retry_after_s().unwrap_or(0));
        if !job.retryable().unwrap_or(self.retryable_if_absent) {
            Advice::GiveUp(Reason::NotRetryable)
        } else if situation.retries_made >= self.attempts_max {
            Advice::GiveUp(Reason::AttemptsUsedUp)
        } else if retry_after > self.ceiling {
            Advice::GiveUp(Reason::TooFarAway)
        } else {
            Advice::RetryIn(self.wait(remaining(job, retry_after, situation), situation))
        }
    }

    /// At least the floor and what the server still asks for; at least the backoff, plus up to as
    /// much again.
    fn wait(&self, remaining: Duration, situation: &Situation) -> Duration {
        let doublings = situation.retries_made.min(31);
        let backoff = self.backoff_base.saturating_mul(1 << doublings).min(self.backoff_max);
        let random = if situation.random >= 0.0 { situation.random.min(1.0) } else { 0.0 };
        let jitter = Duration::try_from_secs_f64(backoff.as_secs_f64() * random).unwrap_or(backoff);
        let least = self.floor.max(remaining).max(backoff);
        least.saturating_add(jitter).min(self.ceiling.max(self.floor))
    }
}

/// `retryAfter` less the time that has passed since the job ended. A `completedAt` in the future is
/// a clock that disagrees with ours: nothing has passed then, but nothing is added either.
fn remaining(job: &Job, retry_after: Duration, situation: &Situation) -> Duration {
    let since = job.completed_at().unwrap_or(situation.received_at);
    retry_after.saturating_sub(since.until(situation.now))
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMPLETED: &str = "2026-02-26T18:00:01Z";

    fn at(text: &str) -> Timestamp {
        Timestamp::parse(text).unwrap()
    }

    fn seconds_later(seconds: i64) -> Situation {
        let now = Timestamp::from_unix_seconds(at(COMPLETED).unix_seconds() + seconds).unwrap();
        Situation { received_at: now, now, retries_made: 0, random: 0.0 }
    }

    fn failed(retryable: Option<bool>, retry_after_s: Option<u64>) -> Job {
        let mut job = Job::builder().status(JobStatus::Failed).completed_at(at(COMPLETED));
        if let Some(retryable) = retryable {
            job = job.retryable(retryable);
        }
        if let Some(seconds) = retry_after_s {
            job = job.retry_after_s(seconds);
        }
        job.build().unwrap()
    }

    fn retry_in(seconds: u64) -> Advice {
        Advice::RetryIn(Duration::from_secs(seconds))
    }

    fn advise(job: &Job, situation: &Situation) -> Advice {
        Policy::default().advise(job, situation)
    }

    #[test]
    fn the_wait_is_counted_from_completed_at() {
        let job = failed(Some(true), Some(60));
        assert_eq!(advise(&job, &seconds_later(0)), retry_in(60));
        assert_eq!(advise(&job, &seconds_later(40)), retry_in(20));
        assert_eq!(advise(&job, &seconds_later(500)), retry_in(1));
    }

    #[test]
    fn without_completed_at_the_wait_is_counted_from_the_receipt() {
        let job = Job::builder().status(JobStatus::Failed).retryable(true).retry_after_s(60).build().unwrap();
        let received = seconds_later(0);
        assert_eq!(advise(&job, &received), retry_in(60));
        let later = Situation { now: seconds_later(25).now, ..received };
        assert_eq!(advise(&job, &later), retry_in(35));
    }

    #[test]
    fn a_clock_that_runs_ahead_does_not_lengthen_the_wait() {
        assert_eq!(advise(&failed(Some(true), Some(60)), &seconds_later(-900)), retry_in(60));
    }

    #[test]
    fn retry_after_0_is_never_now() {
        for random in [0.0, 0.3, 0.999, f64::NAN, -5.0] {
            let situation = Situation { random, ..seconds_later(10_000) };
            let Advice::RetryIn(wait) = advise(&failed(Some(true), Some(0)), &situation) else { panic!() };
            assert!(wait >= Duration::from_secs(1), "{random}: {wait:?}");
        }
    }

    #[test]
    fn after_five_retries_it_is_enough() {
        let job = failed(Some(true), Some(1));
        let after = |retries_made| advise(&job, &Situation { retries_made, ..seconds_later(0) });
        assert!(matches!(after(4), Advice::RetryIn(_)));
        assert_eq!(after(5), Advice::GiveUp(Reason::AttemptsUsedUp));
        assert_eq!(after(u32::MAX), Advice::GiveUp(Reason::AttemptsUsedUp));
    }

    #[test]
    fn successive_retries_back_off_exponentially_with_jitter() {
        let job = failed(Some(true), None);
        for (retries_made, least) in [(0, 1), (1, 2), (2, 4), (3, 8), (4, 16)] {
            let wait = |random| match advise(&job, &Situation { retries_made, random, ..seconds_later(0) }) {
                Advice::RetryIn(wait) => wait,
                other => panic!("{other:?}"),
            };
            assert_eq!(wait(0.0), Duration::from_secs(least));
            assert_eq!(wait(0.5), Duration::from_millis(least * 1_500));
            assert!(wait(0.999) < Duration::from_secs(2 * least));
        }
    }

    #[test]
    fn jitter_is_added_to_what_the_server_asks_for() {
        let situation = Situation { random: 0.5, ..seconds_later(0) };
        let advice = advise(&failed(Some(true), Some(60)), &situation);
        assert_eq!(advice, Advice::RetryIn(Duration::from_millis(60_500)));
    }

    #[test]
    fn absurd_policies_do_not_overflow() {
        let endless = Duration::MAX;
        let policy = Policy { floor: endless, ceiling: endless, backoff_max: endless, ..Policy::default() };
        let policy = Policy { backoff_base: endless, attempts_max: u32::MAX, ..policy };
        let situation = Situation { random: 1.0, retries_made: 40, ..seconds_later(0) };
        assert_eq!(policy.advise(&failed(Some(true), Some(1)), &situation), Advice::RetryIn(endless));
    }

    #[test]
    fn a_retry_after_beyond_the_ceiling_means_impractical() {
        assert_eq!(
            advise(&failed(Some(true), Some(4_000)), &seconds_later(0)),
            Advice::GiveUp(Reason::TooFarAway)
        );
        assert_eq!(advise(&failed(Some(true), Some(3_600)), &seconds_later(0)), retry_in(3_600));
        let huge = failed(Some(true), Some((1 << 53) - 1));
        assert_eq!(advise(&huge, &seconds_later(0)), Advice::GiveUp(Reason::TooFarAway));
    }

    #[test]
    fn absent_retryable_means_no_and_retry_after_alone_is_no_permission() {
        for job in [failed(None, None), failed(None, Some(30)), failed(Some(false), Some(30))] {
            assert_eq!(advise(&job, &seconds_later(0)), Advice::GiveUp(Reason::NotRetryable));
        }
    }

    #[test]
    fn whoever_knows_the_code_can_supply_its_default() {
        let policy = Policy { retryable_if_absent: true, ..Policy::default() };
        assert_eq!(policy.advise(&failed(None, Some(30)), &seconds_later(0)), retry_in(30));
        let said_no = policy.advise(&failed(Some(false), Some(30)), &seconds_later(0));
        assert_eq!(said_no, Advice::GiveUp(Reason::NotRetryable));
    }

    #[test]
    fn an_unfinished_job_is_waited_for_and_a_good_one_left_alone() {
        for status in [JobStatus::Processing, JobStatus::new("SOMETHING_NEW")] {
            let job = Job::builder().status(status).retryable(true).build().unwrap();
            assert_eq!(advise(&job, &seconds_later(0)), Advice::KeepWaiting);
        }
        let job = Job::builder().status(JobStatus::Completed).retryable(true).build().unwrap();
        assert_eq!(advise(&job, &seconds_later(0)), Advice::GiveUp(Reason::Succeeded));
    }
}
