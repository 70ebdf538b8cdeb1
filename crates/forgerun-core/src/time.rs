//! Moments. The current time comes from outside, as an argument.

use core::fmt;
use core::ops::{Add, Sub};
use core::time::Duration;

/// Microseconds since the Unix epoch, UTC.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(i64);

impl Time {
    /// The epoch; earlier than every moment of a job.
    pub const ZERO: Time = Time(0);
    /// The latest moment: "never".
    pub const MAX: Time = Time(i64::MAX);

    pub const fn from_micros(micros: i64) -> Self {
        Self(micros)
    }

    pub const fn from_millis(millis: i64) -> Self {
        Self(millis.saturating_mul(1000))
    }

    pub const fn as_micros(self) -> i64 {
        self.0
    }

    /// Whole milliseconds since the epoch, as in version 7 ids; moments before the epoch count as
    /// the epoch.
    pub const fn unix_ms(self) -> u64 {
        if self.0 < 0 { 0 } else { (self.0 / 1000) as u64 }
    }

    /// Time since `earlier`; zero if that is later.
    pub const fn since(self, earlier: Time) -> Duration {
        if self.0 <= earlier.0 { Duration::ZERO } else { Duration::from_micros((self.0 - earlier.0) as u64) }
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    /// Saturates at [`Time::MAX`].
    fn add(self, span: Duration) -> Time {
        Time(self.0.saturating_add(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl Sub<Duration> for Time {
    type Output = Time;

    fn sub(self, span: Duration) -> Time {
        Time(self.0.saturating_sub(i64::try_from(span.as_micros()).unwrap_or(i64::MAX)))
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}s", self.0.div_euclid(1_000_000), self.0.rem_euclid(1_000_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_stops_at_the_end_of_time() {
        assert_eq!(Time::MAX + Duration::from_secs(1), Time::MAX);
        assert_eq!(Time::from_micros(5) + Duration::MAX, Time::MAX);
    }

    #[test]
    fn a_moment_is_never_negatively_after_another() {
        let (early, late) = (Time::from_millis(1), Time::from_millis(3));
        assert_eq!(late.since(early), Duration::from_millis(2));
        assert_eq!(early.since(late), Duration::ZERO);
    }
}
