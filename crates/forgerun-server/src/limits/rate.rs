//! Requests per minute: a token bucket in one atomic number, by the generic cell rate algorithm.
//!
//! The number is the *theoretical arrival time*: when the bucket is full again. Taking a token
//! moves it by one interval; it may not be more than a window ahead. Tokens taken on other nodes
//! move it too, possibly further: that debt is paid back first.

use std::fmt::{self, Write as _};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use axum::http::{HeaderMap, HeaderName, HeaderValue};
use forgerun_core::time::Time;

const MINUTE_NS: i64 = 60_000_000_000;

/// Requests per minute; as many may come at once.
#[derive(Clone, Debug)]
pub(crate) struct RateLimit {
    per_minute: u32,
    interval_ns: i64,
    /// All intervals of a minute together, without rounding.
    window_ns: i64,
    /// The policy header, the same in every answer. Copied into each: sharing a reference count
    /// between threads is slower.
    policy: String,
}

impl RateLimit {
    pub(crate) const fn limit(&self) -> u32 {
        self.per_minute
    }

    pub(crate) fn per_minute(n: u32) -> RateLimit {
        let per_minute = n.max(1);
        let interval_ns = (MINUTE_NS / i64::from(per_minute)).max(1);
        RateLimit {
            per_minute,
            interval_ns,
            window_ns: interval_ns * i64::from(per_minute),
            policy: format!("\"minute\";q={per_minute};w=60"),
        }
    }
}

/// The tokens of one caller; full at first.
#[derive(Debug, Default)]
pub(crate) struct Bucket {
    full_at_ns: AtomicI64,
    spent: AtomicU64,
    /// Tokens that were not reported to other nodes yet.
    told: AtomicU64,
}

/// The state of a limit after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RateStatus {
    pub(crate) limit: u32,
    /// Requests left now.
    pub(crate) remaining: u32,
    /// When all of them are available again, in seconds since the epoch.
    pub(crate) reset_unix_s: i64,
    pub(crate) reset_in_s: i64,
    /// Seconds until the next token, rounded up, if there was none.
    pub(crate) too_early_s: Option<u64>,
}

impl Bucket {
    /// Takes a token if there is one.
    pub(crate) fn take(&self, pace: &RateLimit, now: Time) -> RateStatus {
        let now_ns = now.as_micros().saturating_mul(1000);
        let mut too_early_ns = 0;
        let taken = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full_at_ns| {
            let next_ns = full_at_ns.max(now_ns) + pace.interval_ns;
            too_early_ns = next_ns - now_ns - pace.window_ns;
            (too_early_ns <= 0).then_some(next_ns)
        });
        let full_at_ns = match taken {
            Ok(before_ns) => {
                self.spent.fetch_add(1, Ordering::Relaxed);
                before_ns.max(now_ns) + pace.interval_ns
            }
            Err(before_ns) => before_ns,
        };
        let used_ns = full_at_ns - now_ns;
        RateStatus {
            limit: pace.per_minute,
            remaining: u32::try_from((pace.window_ns - used_ns).max(0) / pace.interval_ns)
                .map_or(pace.per_minute, |remaining| remaining.min(pace.per_minute)),
            reset_unix_s: seconds_up(full_at_ns),
            reset_in_s: seconds_up(used_ns),
            too_early_s: (too_early_ns > 0).then(|| seconds_up(too_early_ns).max(1) as u64),
        }
    }

    /// Whether dropping the bucket would have no effect.
    pub(crate) fn is_full(&self, now: Time) -> bool {
        self.full_at_ns.load(Ordering::Relaxed) <= now.as_micros().saturating_mul(1000)
    }

    /// When all tokens are available again.
    pub(crate) fn full_at(&self) -> Time {
        Time::from_micros(self.full_at_ns.load(Ordering::Relaxed) / 1000)
    }

    /// Tokens taken here since the last call. For a single caller.
    pub(crate) fn take_untold(&self) -> u64 {
        let spent = self.spent.load(Ordering::Relaxed);
        spent - self.told.swap(spent, Ordering::Relaxed)
    }

    /// Tokens were taken on other nodes. More than available makes a debt.
    pub(crate) fn spent_elsewhere(&self, pace: &RateLimit, n: u64, now: Time) {
        let now_ns = now.as_micros().saturating_mul(1000);
        let n_ns = i64::try_from(n).unwrap_or(i64::MAX).saturating_mul(pace.interval_ns);
        let moved = |full_at_ns: i64| Some(full_at_ns.max(now_ns).saturating_add(n_ns));
        let _ = self.full_at_ns.fetch_update(Ordering::Relaxed, Ordering::Relaxed, moved);
    }

    /// Another node knows that the bucket is not full before this.
    pub(crate) fn not_full_before(&self, full_at: Time) {
        self.full_at_ns.fetch_max(full_at.as_micros().saturating_mul(1000), Ordering::Relaxed);
    }
}

/// Room for two numbers and some letters: most answers have these headers, so they should not
/// reallocate.
const TEXT_BYTES: usize = 48;

fn text(text: fmt::Arguments<'_>) -> HeaderValue {
    let mut out = String::with_capacity(TEXT_BYTES);
    out.write_fmt(text).expect("a string takes everything");
    HeaderValue::try_from(out).expect("digits and ASCII signs")
}

fn seconds_up(ns: i64) -> i64 {
    ns.saturating_add(999_999_999).div_euclid(1_000_000_000)
}

impl RateStatus {
    /// Writes both families of headers (ruling C-91).
    pub(crate) fn write(&self, pace: &RateLimit, headers: &mut HeaderMap) {
        const LIMIT: HeaderName = HeaderName::from_static("x-ratelimit-limit");
        const REMAINING: HeaderName = HeaderName::from_static("x-ratelimit-remaining");
        const RESET: HeaderName = HeaderName::from_static("x-ratelimit-reset");
        const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");
        const POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
        headers.insert(LIMIT, HeaderValue::from(self.limit));
        headers.insert(REMAINING, HeaderValue::from(self.remaining));
        headers.insert(RESET, HeaderValue::from(self.reset_unix_s));
        headers
            .insert(RATE_LIMIT, text(format_args!("\"minute\";r={};t={}", self.remaining, self.reset_in_s)));
        headers.insert(POLICY, HeaderValue::from_str(&pace.policy).expect("digits and ASCII signs"));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const NOON: Time = Time::from_millis(1_780_000_000_000);

    #[test]
    fn exactly_the_limit_passes_at_once_and_one_more_does_not() {
        for n in [1, 3, 7, 600, 999_999] {
            let (bucket, pace) = (Bucket::default(), RateLimit::per_minute(n));
            for taken in 1..=n {
                let rate_status = bucket.take(&pace, NOON);
                assert_eq!(
                    (rate_status.too_early_s, rate_status.remaining),
                    (None, n - taken),
                    "{taken} of {n}"
                );
            }
            let refused = bucket.take(&pace, NOON);
            assert_eq!((refused.limit, refused.remaining), (n, 0));
            assert!(refused.too_early_s.is_some_and(|seconds| (1..=60).contains(&seconds)));
        }
    }

    #[test]
    fn a_refused_request_costs_nothing_and_waiting_as_told_helps() {
        let (bucket, pace) = (Bucket::default(), RateLimit::per_minute(2));
        bucket.take(&pace, NOON);
        bucket.take(&pace, NOON);
        let told = bucket.take(&pace, NOON).too_early_s;
        assert_eq!(told, Some(30));
        assert_eq!(bucket.take(&pace, NOON).too_early_s, told);
        assert_eq!(bucket.take(&pace, NOON + Duration::from_secs(30)).too_early_s, None);
    }

    #[test]
    fn the_reset_is_when_the_bucket_is_full_again() {
        let (bucket, pace) = (Bucket::default(), RateLimit::per_minute(60));
        let rate_status = bucket.take(&pace, NOON);
        assert_eq!((rate_status.reset_in_s, rate_status.reset_unix_s), (1, 1_780_000_001));
        assert!(!bucket.is_full(NOON));
        assert!(bucket.is_full(NOON + Duration::from_secs(1)));
    }

    #[test]
    fn what_others_gave_away_is_gone_here_too_and_too_much_is_paid_back() {
        let (bucket, pace) = (Bucket::default(), RateLimit::per_minute(60));
        assert_eq!(bucket.take(&pace, NOON).remaining, 59);
        bucket.spent_elsewhere(&pace, 58, NOON);
        assert_eq!(bucket.take(&pace, NOON).remaining, 0);
        assert_eq!(bucket.take_untold(), 2, "what others took is told by them");
        assert_eq!(bucket.take_untold(), 0);
        bucket.spent_elsewhere(&pace, 10, NOON);
        let refused = bucket.take(&pace, NOON);
        assert_eq!((refused.remaining, refused.too_early_s, refused.reset_in_s), (0, Some(11), 70));
        assert_eq!(bucket.take(&pace, NOON + Duration::from_secs(11)).too_early_s, None);
    }

    #[test]
    fn a_node_that_has_just_begun_takes_over_what_others_know() {
        let (here, there, pace) = (Bucket::default(), Bucket::default(), RateLimit::per_minute(60));
        there.spent_elsewhere(&pace, 40, NOON);
        here.not_full_before(there.full_at());
        here.not_full_before(NOON);
        assert_eq!(here.take(&pace, NOON).remaining, 19);
    }

    #[test]
    fn both_families_of_headers_say_the_same() {
        let mut headers = HeaderMap::new();
        let pace = RateLimit::per_minute(60);
        Bucket::default().take(&pace, NOON).write(&pace, &mut headers);
        let of = |name: &str| headers[name].to_str().unwrap().to_owned();
        assert_eq!(of("x-ratelimit-limit"), "60");
        assert_eq!(of("x-ratelimit-remaining"), "59");
        assert_eq!(of("x-ratelimit-reset"), "1780000001");
        assert_eq!(of("ratelimit"), "\"minute\";r=59;t=1");
        assert_eq!(of("ratelimit-policy"), "\"minute\";q=60;w=60");
    }
}
