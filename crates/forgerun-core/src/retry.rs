//! Retry rules: how many, when, and whether at all. Pure functions of the policy, the failure and a
//! random number.

use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;

use crate::codec::{Corrupt, Fields, Writer, micros};

/// The submitter's retry policy, fixed at submission.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    pub mode: Mode,
    /// Attempts in all, including the first; at least one.
    pub attempts_max: u32,
    pub strategy: Strategy,
    pub initial: Duration,
    /// Growth factor (exponential) or exponent (polynomial), in thousandths: 2000 doubles.
    pub coefficient_milli: u32,
    pub max: Duration,
    pub jitter: Jitter,
    /// Error classes and codes that are never retried; `prefix.*` matches all that begin with
    /// `prefix.`.
    pub non_retryable: Vec<String>,
    /// What happens to a job that the server gives up.
    pub on_exhaustion: Exhaustion,
}

/// Who starts the next attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// A client, with a retry call: the job stays FAILED until then.
    Manual = 0,
    /// The server, if the failure is retryable.
    Auto = 1,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strategy {
    Constant = 0,
    Linear = 1,
    Exponential = 2,
    Polynomial = 3,
}

/// Randomness of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Jitter {
    /// Exactly the computed wait.
    None = 0,
    /// Between zero and the computed wait.
    Full = 1,
    /// Between 0.5 and 1.5 times the computed wait, as OJS asks.
    Around = 2,
}

/// What happens to a job that the server gives up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhaustion {
    Discard = 0,
    /// A dead letter if its attempts are used up; a failure that is not worth a retry leaves none.
    DeadLetterIfExhausted = 1,
    /// A dead letter, whichever rule forbids the retry, as OJS asks.
    DeadLetter = 2,
}

impl Exhaustion {
    /// Whether a job that is given up becomes a dead letter.
    const fn keeps(self, exhausted: bool) -> bool {
        match self {
            Exhaustion::Discard => false,
            Exhaustion::DeadLetterIfExhausted => exhausted,
            Exhaustion::DeadLetter => true,
        }
    }
}

/// An explicit request of the handler; it overrides the policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetryVerdict {
    /// Retry while attempts are left, whatever the error.
    Retry,
    /// End without a dead letter.
    Discard,
    /// End as a dead letter.
    DeadLetter,
}

/// A failure, as the retry rules see it.
#[derive(Clone, Copy, Debug)]
pub struct AttemptFailure<'a> {
    /// From 1.
    pub attempt: u32,
    /// Whether this kind of failure is worth a retry.
    pub retryable: bool,
    pub verdict: Option<RetryVerdict>,
    pub code: &'a str,
    pub class: Option<&'a str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// The server retries after this long.
    RetryIn(Duration),
    /// No further attempt by the server.
    End {
        dead_letter: bool,
        /// Whether the policy's list of non-retryable errors decided it.
        listed: bool,
    },
}

impl RetryPolicy {
    /// The default of `/v1`: a client retries, up to three times, with exponential waits and full
    /// jitter.
    pub fn manual() -> RetryPolicy {
        RetryPolicy {
            mode: Mode::Manual,
            attempts_max: 4,
            strategy: Strategy::Exponential,
            initial: Duration::from_secs(1),
            coefficient_milli: 2000,
            max: Duration::from_secs(60),
            jitter: Jitter::Full,
            non_retryable: Vec::new(),
            on_exhaustion: Exhaustion::Discard,
        }
    }

    /// The default of `/api/v1`: the server retries retryable failures, and exhausted jobs become
    /// dead letters.
    pub fn auto() -> RetryPolicy {
        RetryPolicy {
            mode: Mode::Auto,
            initial: Duration::from_secs(2),
            on_exhaustion: Exhaustion::DeadLetterIfExhausted,
            ..RetryPolicy::manual()
        }
    }

    /// The wait before retry number `n` (1 follows the first failure).
    pub fn delay(&self, n: u32, random: u64) -> Duration {
        let n = f64::from(n.max(1));
        let coefficient = f64::from(self.coefficient_milli) / 1000.0;
        let growth = match self.strategy {
            Strategy::Constant => 1.0,
            Strategy::Linear => n,
            Strategy::Exponential => libm::pow(coefficient, n - 1.0),
            Strategy::Polynomial => libm::pow(n, coefficient),
        };
        let max = micros(self.max) as f64;
        let wait = (micros(self.initial) as f64 * growth).min(max);
        // 53 bits of the random number, as a fraction of one.
        let chance = (random >> 11) as f64 / (1u64 << 53) as f64;
        let wait = match self.jitter {
            Jitter::None => wait,
            Jitter::Full => wait * chance,
            Jitter::Around => (wait * (0.5 + chance)).min(max),
        };
        Duration::from_micros(wait as u64)
    }

    /// What follows a failure: first the handler's verdict, then the kind of failure, then the
    /// budget.
    pub fn after(&self, failure: AttemptFailure<'_>, random: u64) -> Next {
        let listed = self.lists(failure.code) || failure.class.is_some_and(|class| self.lists(class));
        let exhausted = failure.attempt >= self.attempts_max;
        let end = |dead_letter| Next::End { dead_letter, listed };
        match failure.verdict {
            Some(RetryVerdict::Discard) => return end(false),
            Some(RetryVerdict::DeadLetter) => return end(true),
            Some(RetryVerdict::Retry) => {}
            None if listed || !failure.retryable => return end(self.on_exhaustion.keeps(exhausted)),
            None => {}
        }
        match (self.mode, exhausted) {
            (_, true) => end(self.on_exhaustion.keeps(true)),
            (Mode::Manual, false) => end(false),
            (Mode::Auto, false) => Next::RetryIn(self.delay(failure.attempt, random)),
        }
    }

    /// What follows a failure when no time or attempt is left.
    pub(crate) fn exhausted(&self) -> Next {
        Next::End { dead_letter: self.on_exhaustion.keeps(true), listed: false }
    }

    fn lists(&self, name: &str) -> bool {
        self.non_retryable.iter().any(|entry| match entry.strip_suffix('*') {
            Some(prefix) => prefix.ends_with('.') && name.starts_with(prefix),
            None => entry == name,
        })
    }

    pub(crate) fn encode(&self, out: &mut Writer<'_>) {
        out.number(1, self.mode as u64);
        out.number(2, u64::from(self.attempts_max));
        out.number(3, self.strategy as u64);
        out.number(4, micros(self.initial));
        out.number(5, u64::from(self.coefficient_milli));
        out.number(6, micros(self.max));
        out.number(7, self.jitter as u64);
        self.non_retryable.iter().for_each(|entry| out.text(8, Some(entry)));
        out.number(9, self.on_exhaustion as u64);
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<RetryPolicy, Corrupt> {
        // Every number starts from zero, because zero is what is omitted.
        let mut policy = RetryPolicy {
            mode: Mode::Manual,
            attempts_max: 0,
            strategy: Strategy::Constant,
            initial: Duration::ZERO,
            coefficient_milli: 0,
            max: Duration::ZERO,
            jitter: Jitter::None,
            non_retryable: Vec::new(),
            on_exhaustion: Exhaustion::Discard,
        };
        for field in Fields(bytes) {
            let field = field?;
            match field.tag {
                1 => policy.mode = *[Mode::Manual, Mode::Auto].get(field.small::<usize>()?).ok_or(Corrupt)?,
                2 => policy.attempts_max = field.small()?,
                3 => {
                    use Strategy::{Constant, Exponential, Linear, Polynomial};
                    let all = [Constant, Linear, Exponential, Polynomial];
                    policy.strategy = *all.get(field.small::<usize>()?).ok_or(Corrupt)?;
                }
                4 => policy.initial = Duration::from_micros(field.number()?),
                5 => policy.coefficient_milli = field.small()?,
                6 => policy.max = Duration::from_micros(field.number()?),
                7 => {
                    let all = [Jitter::None, Jitter::Full, Jitter::Around];
                    policy.jitter = *all.get(field.small::<usize>()?).ok_or(Corrupt)?;
                }
                8 => policy.non_retryable.push(field.text()?),
                9 => {
                    use Exhaustion::{DeadLetter, DeadLetterIfExhausted, Discard};
                    let all = [Discard, DeadLetterIfExhausted, DeadLetter];
                    policy.on_exhaustion = *all.get(field.small::<usize>()?).ok_or(Corrupt)?;
                }
                _ => {}
            }
        }
        Ok(policy)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec;

    fn failure(attempt: u32) -> AttemptFailure<'static> {
        AttemptFailure { attempt, retryable: true, verdict: None, code: "handler_error", class: None }
    }

    fn exact(strategy: Strategy, coefficient_milli: u32) -> RetryPolicy {
        RetryPolicy { strategy, coefficient_milli, jitter: Jitter::None, ..RetryPolicy::auto() }
    }

    #[test]
    fn waits_grow_by_their_formula_up_to_the_maximum() {
        let secs = |policy: &RetryPolicy| [1, 2, 3, 9].map(|n| policy.delay(n, 0).as_secs_f64());
        let initial = |policy: RetryPolicy| RetryPolicy { initial: Duration::from_secs(1), ..policy };
        assert_eq!(secs(&initial(exact(Strategy::Constant, 1000))), [1.0, 1.0, 1.0, 1.0]);
        assert_eq!(secs(&initial(exact(Strategy::Linear, 1000))), [1.0, 2.0, 3.0, 9.0]);
        assert_eq!(secs(&initial(exact(Strategy::Exponential, 2000))), [1.0, 2.0, 4.0, 60.0]);
        assert_eq!(secs(&initial(exact(Strategy::Polynomial, 2000))), [1.0, 4.0, 9.0, 60.0]);
    }

    #[test]
    fn jitter_stays_in_its_bounds() {
        let wait = Duration::from_secs(4);
        for random in [0, 1, u64::MAX / 3, u64::MAX] {
            let full = RetryPolicy { jitter: Jitter::Full, ..exact(Strategy::Constant, 1000) };
            let full = RetryPolicy { initial: wait, ..full }.delay(1, random);
            assert!(full <= wait);
            let around = RetryPolicy { jitter: Jitter::Around, ..exact(Strategy::Constant, 1000) };
            let around = RetryPolicy { initial: wait, ..around }.delay(1, random);
            assert!(around >= wait / 2 && around <= wait * 3 / 2, "{around:?}");
        }
    }

    #[test]
    fn a_manual_policy_never_retries_by_itself() {
        assert_eq!(
            RetryPolicy::manual().after(failure(1), 0),
            Next::End { dead_letter: false, listed: false }
        );
    }

    #[test]
    fn an_automatic_policy_retries_until_its_attempts_are_used_up() {
        let policy = exact(Strategy::Exponential, 2000);
        assert_eq!(policy.after(failure(1), 0), Next::RetryIn(Duration::from_secs(2)));
        assert_eq!(policy.after(failure(3), 0), Next::RetryIn(Duration::from_secs(8)));
        assert_eq!(policy.after(failure(4), 0), Next::End { dead_letter: true, listed: false });
    }

    /// A failure that is not worth a retry, by its kind and by the policy's list: the policy, the
    /// attempt of four, and whether a dead letter remains.
    #[test]
    fn a_failure_that_is_not_worth_it_is_a_dead_letter_if_the_policy_keeps_all() {
        for (on_exhaustion, attempt, dead_letter) in [
            (Exhaustion::Discard, 1, false),
            (Exhaustion::Discard, 4, false),
            (Exhaustion::DeadLetterIfExhausted, 1, false),
            (Exhaustion::DeadLetterIfExhausted, 4, true),
            (Exhaustion::DeadLetter, 1, true),
            (Exhaustion::DeadLetter, 4, true),
        ] {
            let policy =
                RetryPolicy { on_exhaustion, non_retryable: vec!["Gone".into()], ..RetryPolicy::auto() };
            let by_kind = AttemptFailure { retryable: false, ..failure(attempt) };
            assert_eq!(policy.after(by_kind, 0), Next::End { dead_letter, listed: false });
            let by_list = AttemptFailure { class: Some("Gone"), ..failure(attempt) };
            assert_eq!(policy.after(by_list, 0), Next::End { dead_letter, listed: true });
        }
    }

    #[test]
    fn listed_classes_and_prefixes_end_the_job() {
        let policy =
            RetryPolicy { non_retryable: vec!["Gone".into(), "auth.*".into()], ..RetryPolicy::auto() };
        for (class, listed) in
            [("Gone", true), ("auth.expired", true), ("authority", false), ("Gone2", false)]
        {
            let next = policy.after(AttemptFailure { class: Some(class), ..failure(1) }, 0);
            assert_eq!(matches!(next, Next::End { listed: true, .. }), listed, "{class}");
        }
    }

    #[test]
    fn the_verdict_of_the_handler_goes_first() {
        let policy = RetryPolicy { non_retryable: vec!["handler_error".into()], ..RetryPolicy::auto() };
        let with = |verdict| AttemptFailure { verdict: Some(verdict), retryable: false, ..failure(1) };
        assert!(matches!(policy.after(with(RetryVerdict::Retry), 0), Next::RetryIn(_)));
        assert!(matches!(policy.after(with(RetryVerdict::Discard), 0), Next::End { dead_letter: false, .. }));
        assert!(matches!(
            policy.after(with(RetryVerdict::DeadLetter), 0),
            Next::End { dead_letter: true, .. }
        ));
    }

    #[test]
    fn a_policy_comes_back_as_it_was_stored() {
        let odd = RetryPolicy {
            mode: Mode::Auto,
            attempts_max: 7,
            strategy: Strategy::Constant,
            coefficient_milli: 1500,
            jitter: Jitter::None,
            non_retryable: vec!["a".into(), "b.*".into()],
            on_exhaustion: Exhaustion::DeadLetter,
            initial: Duration::ZERO,
            max: Duration::from_millis(1),
        };
        for policy in [RetryPolicy::manual(), RetryPolicy::auto(), odd] {
            let mut bytes = Vec::new();
            policy.encode(&mut Writer(&mut bytes));
            assert_eq!(RetryPolicy::decode(&bytes), Ok(policy));
        }
    }
}
