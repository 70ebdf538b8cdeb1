//! When a failed request is sent again by itself. A pure decision; [`crate::Client`] acts on it.
//!
//! - Errors of the caller (validation, conflict, credentials) are never repeated, whatever the server says.
//! - Trouble of the server, and limits that pass, are repeated with growing, jittered waits; `Retry-After` is the least wait.
//! - A request that may have arrived is repeated only if a second one does no harm: reads, and whatever carries an idempotency
//!   key or is idempotent by itself.

use std::time::Duration;

use crate::error::Error;

/// How often and how patiently a request is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Repetitions after the first try: 5.
    pub retries_max: u32,
    /// The wait before the first repetition lies between this and its double: 100 ms. It doubles from one to the next.
    pub first: Duration,
    /// Where doubling ends: 10 s.
    pub longest: Duration,
    /// A longer `Retry-After` is not waited for; the error is returned and says how long: 60 s.
    pub patience: Duration,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        RetryPolicy {
            retries_max: 5,
            first: Duration::from_millis(100),
            longest: Duration::from_secs(10),
            patience: Duration::from_secs(60),
        }
    }
}

/// Whether a request may be sent twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// A second one does no harm.
    Harmless,
    /// A second one does the thing twice.
    OnlyIfNotSent,
}

impl RetryPolicy {
    /// No repetition at all.
    pub const NEVER: RetryPolicy = RetryPolicy {
        retries_max: 0,
        first: Duration::ZERO,
        longest: Duration::ZERO,
        patience: Duration::ZERO,
    };

    /// The wait before the next try; `None` to give up. `random` lies between 0 and 1.
    pub(crate) fn next(
        &self,
        error: &Error,
        repeat: Repeat,
        retries_made: u32,
        random: f64,
    ) -> Option<Duration> {
        if retries_made >= self.retries_max {
            return None;
        }
        let retry_after = match error {
            Error::Unreachable(unreachable) if unreachable.maybe_sent && repeat == Repeat::OnlyIfNotSent => {
                return None;
            }
            Error::Unreachable(unreachable) if unreachable.other_scheme.is_some() => return None,
            Error::Unreachable(_) => Duration::ZERO,
            other => {
                let said = other.api().filter(|said| said.retryable)?;
                // The server answered that it did not take the request; but a gateway may say so of one that it passed on.
                if repeat == Repeat::OnlyIfNotSent && matches!(said.status, Some(500 | 502 | 504)) {
                    return None;
                }
                said.retry_after.unwrap_or_default()
            }
        };
        if retry_after > self.patience {
            return None;
        }
        let backoff = self.first.saturating_mul(1 << retries_made.min(20)).min(self.longest);
        Some(backoff.max(retry_after).saturating_add(backoff.mul_f64(random.clamp(0.0, 1.0))))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::codes::Report;
    use crate::error::{ApiError, Unreachable};

    const POLICY: RetryPolicy = RetryPolicy {
        retries_max: 5,
        first: Duration::from_millis(100),
        longest: Duration::from_secs(10),
        patience: Duration::from_secs(60),
    };

    fn said(status: u16, body: serde_json::Value) -> Error {
        ApiError::of_report(Report::from_json(&body), Some(status)).into_error()
    }

    fn unreachable(maybe_sent: bool) -> Error {
        Error::Unreachable(Unreachable::new("a", "refused", maybe_sent))
    }

    fn ms(ms: u64) -> Option<Duration> {
        Some(Duration::from_millis(ms))
    }

    #[test]
    fn errors_of_the_caller_are_never_repeated_even_if_flagged() {
        for code in ["INVALID_ARGS", "DUPLICATE_JOB", "UNAUTHENTICATED", "TENANT_ACCESS_DENIED"] {
            let error = said(503, json!({"code": code, "retryable": true}));
            assert_eq!(POLICY.next(&error, Repeat::Harmless, 0, 0.0), None, "{code}");
        }
    }

    #[test]
    fn backend_errors_wait_100_ms_and_twice_as_long_each_time_with_jitter_five_times() {
        let error = said(503, json!({"code": "BACKEND_UNAVAILABLE"}));
        let waits: Vec<_> = (0..6).map(|n| POLICY.next(&error, Repeat::Harmless, n, 0.0)).collect();
        assert_eq!(waits, [ms(100), ms(200), ms(400), ms(800), ms(1600), None]);
        assert_eq!(POLICY.next(&error, Repeat::Harmless, 1, 0.5), ms(300));
    }

    #[test]
    fn retry_after_is_the_least_wait_and_too_long_a_one_ends_it() {
        let after = |seconds: u64| said(429, json!({"code": "RATE_LIMITED", "retryAfter": seconds}));
        assert_eq!(POLICY.next(&after(7), Repeat::Harmless, 0, 0.0), ms(7000));
        assert_eq!(POLICY.next(&after(61), Repeat::Harmless, 0, 0.0), None);
    }

    #[test]
    fn unknown_codes_are_final_unless_the_server_says_otherwise() {
        assert_eq!(POLICY.next(&said(500, json!({"code": "ACME_X"})), Repeat::Harmless, 0, 0.0), None);
        let flagged = said(500, json!({"code": "ACME_X", "retryable": true}));
        assert_eq!(POLICY.next(&flagged, Repeat::Harmless, 0, 0.0), ms(100));
    }

    #[test]
    fn what_may_have_arrived_is_not_sent_twice_unless_that_is_harmless() {
        let cases = [
            (unreachable(false), Repeat::OnlyIfNotSent, ms(100)),
            (unreachable(true), Repeat::OnlyIfNotSent, None),
            (unreachable(true), Repeat::Harmless, ms(100)),
            (said(500, json!({})), Repeat::OnlyIfNotSent, None),
            (said(503, json!({})), Repeat::OnlyIfNotSent, ms(100)),
            (said(502, json!({})), Repeat::Harmless, ms(100)),
        ];
        for (error, repeat, expected) in cases {
            assert_eq!(POLICY.next(&error, repeat, 0, 0.0), expected, "{error} {repeat:?}");
        }
    }

    #[test]
    fn a_policy_of_never_never_repeats() {
        assert_eq!(RetryPolicy::NEVER.next(&unreachable(false), Repeat::Harmless, 0, 0.0), None);
    }
}
