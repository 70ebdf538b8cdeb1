//! Moments as text: RFC 3339, UTC, `Z`. Jobs have milliseconds, events microseconds.

use forgerun_core::time::Time;
use forgerun_problem::Timestamp;
use serde::{Serialize, Serializer};

/// With milliseconds. A moment outside the years that can be written is shown as the last one that can.
pub fn millis(time: Time) -> String {
    timestamp(time).to_string()
}

/// A moment with milliseconds in an answer, of which no text is made first.
#[derive(Clone, Copy, Debug)]
pub struct Millis(pub Time);

impl Serialize for Millis {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(&timestamp(self.0))
    }
}

/// With microseconds.
pub fn micros(time: Time) -> String {
    Timestamp::from_unix_micros(time.as_micros()).unwrap_or_else(|_| latest()).to_string()
}

/// The timestamp with milliseconds, as the async-job members want it.
pub fn timestamp(time: Time) -> Timestamp {
    Timestamp::from_unix_millis(time.as_micros().div_euclid(1000)).unwrap_or_else(|_| latest())
}

/// Reads RFC 3339 with any offset. What is finer than a microsecond is cut off.
pub fn parse(text: &str) -> Option<Time> {
    Timestamp::parse_any_offset(text).ok().map(|utc| Time::from_micros(utc.unix_micros()))
}

fn latest() -> Timestamp {
    Timestamp::from_unix_seconds(253_402_300_799).expect("the last second of the year 9999")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc_with_its_precision() {
        let time = Time::from_micros(1_700_000_000_123_456);
        assert_eq!(millis(time), "2023-11-14T22:13:20.123Z");
        assert_eq!(serde_json::to_value(Millis(time)).unwrap(), millis(time));
        assert_eq!(micros(time), "2023-11-14T22:13:20.123456Z");
        assert_eq!(millis(Time::MAX), "9999-12-31T23:59:59Z");
    }

    #[test]
    fn every_offset_is_read_and_nonsense_is_not() {
        let time = Time::from_millis(1_700_000_000_000);
        for text in ["2023-11-14T22:13:20Z", "2023-11-14T23:13:20+01:00", "2023-11-14T16:43:20.000-05:30"] {
            assert_eq!(parse(text), Some(time), "{text}");
        }
        for text in
            ["", "tomorrow", "2023-11-14", "2023-11-14T22:13:20", "2023-11-14T22:13:20+1:00", "é+01:00"]
        {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
