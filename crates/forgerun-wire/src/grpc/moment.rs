//! Moments and spans as messages, both ways.

use std::time::Duration;

use forgerun_core::time::Time;

/// A moment.
pub fn timestamp(time: Time) -> prost_types::Timestamp {
    let micros = time.as_micros();
    prost_types::Timestamp {
        seconds: micros.div_euclid(1_000_000),
        nanos: micros.rem_euclid(1_000_000) as i32 * 1000,
    }
}

/// A span.
pub fn duration(span: Duration) -> prost_types::Duration {
    prost_types::Duration {
        seconds: i64::try_from(span.as_secs()).unwrap_or(i64::MAX),
        nanos: span.subsec_nanos() as i32,
    }
}

/// A span in whole milliseconds, cut off; below zero for one that is.
pub fn millis(span: &prost_types::Duration) -> i64 {
    span.seconds.saturating_mul(1000).saturating_add(i64::from(span.nanos) / 1_000_000)
}

/// A span in seconds, as a decimal number.
pub fn seconds(span: &prost_types::Duration) -> String {
    let (sign, seconds, nanos) = parts(span);
    format!("{sign}{seconds}.{nanos:09}")
}

/// A span as ISO 8601; one below zero is written as such, which nobody takes.
pub fn iso(span: &prost_types::Duration) -> String {
    let (sign, seconds, nanos) = parts(span);
    format!("{sign}PT{seconds}.{nanos:09}S")
}

fn parts(span: &prost_types::Duration) -> (&'static str, u64, u32) {
    let sign = if span.seconds < 0 || span.nanos < 0 { "-" } else { "" };
    (sign, span.seconds.unsigned_abs(), span.nanos.unsigned_abs().min(999_999_999))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_its_microseconds_on_both_sides_of_the_epoch() {
        let stamp = |micros| timestamp(Time::from_micros(micros));
        let moment = |seconds, nanos| prost_types::Timestamp { seconds, nanos };
        assert_eq!(stamp(1_700_000_000_123_456), moment(1_700_000_000, 123_456_000));
        assert_eq!(stamp(-1), moment(-1, 999_999_000));
    }

    #[test]
    fn a_span_is_written_in_three_ways() {
        let span = |seconds, nanos| prost_types::Duration { seconds, nanos };
        let half = span(1, 500_000_000);
        assert_eq!((seconds(&half).as_str(), iso(&half).as_str()), ("1.500000000", "PT1.500000000S"));
        assert_eq!(millis(&half), 1500);
        let back = span(-1, 0);
        assert_eq!((seconds(&back).as_str(), iso(&back).as_str()), ("-1.000000000", "-PT1.000000000S"));
        assert_eq!(millis(&back), -1000);
        assert_eq!(duration(Duration::from_millis(1500)), half);
    }
}
