//! How often to ask whether a job is done.
//!
//! The n-th question comes after `max(Retry-After, min(30 s, 2 s · 2^(n−1)))`: 2, 4, 8, 16, 30, 30
//! … seconds, the first wait before the first question, for five minutes in all. A `Retry-After` of
//! a status response is about asking again; it is not the `retryAfter` member, which is about
//! submitting again (see [`crate::advice`]).

use std::time::Duration;

/// How patiently a job is polled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Schedule {
    /// The wait before the first question: 2 s. It doubles from question to question.
    pub first: Duration,
    /// Where doubling ends: 30 s. A longer `Retry-After` is still obeyed.
    pub longest: Duration,
    /// How long to ask in all: 5 min. Jobs scheduled for later need more.
    pub total: Duration,
}

impl Default for Schedule {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(2),
            longest: Duration::from_secs(30),
            total: Duration::from_secs(300),
        }
    }
}

/// What to do next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Poll {
    /// Wait this long, then ask.
    After(Duration),
    /// The next question would come after the total; report a timeout.
    TimedOut,
}

impl Schedule {
    /// The wait before the next question.
    ///
    /// `polls_made` counts the questions asked so far, `waited` the time since the job was
    /// submitted, `retry_after` is the header of the last response.
    #[must_use]
    pub fn next(&self, polls_made: u32, waited: Duration, retry_after: Option<Duration>) -> Poll {
        let backoff = self.first.saturating_mul(1 << polls_made.min(31)).min(self.longest);
        let wait = backoff.max(retry_after.unwrap_or(Duration::ZERO));
        if waited.saturating_add(wait) > self.total { Poll::TimedOut } else { Poll::After(wait) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_TIME: Duration = Duration::ZERO;

    fn after(seconds: u64) -> Poll {
        Poll::After(Duration::from_secs(seconds))
    }

    #[test]
    fn waits_double_from_2_to_30_seconds_and_the_first_comes_before_the_first_poll() {
        let waits: Vec<_> = (0..7).map(|n| Schedule::default().next(n, NO_TIME, None)).collect();
        assert_eq!(waits, [2, 4, 8, 16, 30, 30, 30].map(after));
        assert_eq!(Schedule::default().next(u32::MAX, NO_TIME, None), after(30));
    }

    #[test]
    fn retry_after_is_the_least_wait_and_backoff_may_exceed_it() {
        let next = |n| Schedule::default().next(n, NO_TIME, Some(Duration::from_secs(5)));
        assert_eq!([next(0), next(1), next(2)], [5, 5, 8].map(after));
        assert_eq!(Schedule::default().next(0, NO_TIME, Some(Duration::from_secs(45))), after(45));
    }

    #[test]
    fn polling_ends_after_five_minutes() {
        let mut waited = NO_TIME;
        let mut polls = 0;
        while let Poll::After(wait) = Schedule::default().next(polls, waited, None) {
            waited += wait;
            polls += 1;
        }
        assert_eq!((polls, waited), (13, Duration::from_secs(300)));
        assert_eq!(Schedule::default().next(0, NO_TIME, Some(Duration::MAX)), Poll::TimedOut);
    }

    #[test]
    fn patience_can_be_configured() {
        let patient = Schedule { total: Duration::from_secs(86_400), ..Schedule::default() };
        assert_eq!(patient.next(20, Duration::from_secs(4_000), None), after(30));
    }
}
