//! Spans and moments as OJS writes them: ISO 8601 durations, the short spellings of its examples, RFC 3339 moments, and
//! moments counted from now (`+PT2S`).

use std::fmt::Write;
use std::time::Duration;

use forgerun_core::time::Time;

use crate::time;

/// No span is longer: a century. Nobody waits longer, and sums of such spans cannot overflow.
pub const LONGEST: Duration = Duration::from_secs(36_525 * 24 * 3600);

/// A span: `PT1M30S`, `P1DT2H`, `PT0.5S`, or as the examples have it `1s`, `500ms`, `2m`, `1h`, `1d`. Years and months have no
/// fixed length and are not understood.
pub fn parse(text: &str) -> Option<Duration> {
    let span = match text.strip_prefix('P') {
        Some(rest) => iso(rest)?,
        None => short(text)?,
    };
    (span <= LONGEST).then_some(span)
}

fn iso(rest: &str) -> Option<Duration> {
    let (days, clock) = match rest.split_once('T') {
        Some((_, "")) => return None,
        Some((days, clock)) => (days, clock),
        None => (rest, ""),
    };
    if days.is_empty() && clock.is_empty() {
        return None;
    }
    let days = units(days, &[('W', 7 * 24 * 3600), ('D', 24 * 3600)])?;
    days.checked_add(units(clock, &[('H', 3600), ('M', 60), ('S', 1)])?)
}

/// Numbers with their units, each at most once and in this order; only seconds may have a fraction.
fn units(mut text: &str, known: &[(char, u64)]) -> Option<Duration> {
    let mut sum = Duration::ZERO;
    let mut known = known.iter();
    while !text.is_empty() {
        let end = text.find(|c: char| c.is_ascii_alphabetic())?;
        let (number, rest) = text.split_at(end);
        let unit = rest.chars().next()?;
        let &(_, seconds) = known.find(|(name, _)| *name == unit)?;
        sum = sum.checked_add(amount(number, Duration::from_secs(seconds), seconds == 1)?)?;
        text = &rest[1..];
    }
    Some(sum)
}

/// A span in the spelling that [`short`] reads, such as `1h30m`.
pub fn short_text(span: Duration) -> String {
    let mut rest_ms = span.as_millis();
    let mut text = String::new();
    for (unit, ms) in [("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1000), ("ms", 1)] {
        if rest_ms >= ms {
            let _ = write!(text, "{}{unit}", rest_ms / ms);
            rest_ms %= ms;
        }
    }
    if text.is_empty() { "0s".into() } else { text }
}

/// A span as people write it: `500ms`, `10s`, `1h30m`; the larger unit before the smaller, and only the last may have a fraction.
pub fn short(text: &str) -> Option<Duration> {
    let (mut rest, mut sum, mut larger) = (text, None, Duration::MAX);
    while !rest.is_empty() {
        let (number, behind) = rest.split_at(rest.find(|c: char| c.is_ascii_alphabetic())?);
        let end = behind.find(|c: char| !c.is_ascii_alphabetic()).unwrap_or(behind.len());
        let (unit, behind) = behind.split_at(end);
        let unit = match unit {
            "ms" => Duration::from_millis(1),
            "s" => Duration::from_secs(1),
            "m" => Duration::from_secs(60),
            "h" => Duration::from_secs(3600),
            "d" => Duration::from_secs(24 * 3600),
            _ => return None,
        };
        if unit >= larger {
            return None;
        }
        let fraction_allowed = behind.is_empty() && unit <= Duration::from_secs(1);
        sum = Some(sum.unwrap_or(Duration::ZERO).checked_add(amount(number, unit, fraction_allowed)?)?);
        (rest, larger) = (behind, unit);
    }
    sum
}

/// So many units; digits, and where a fraction is allowed up to nine digits behind a point or a comma.
fn amount(number: &str, unit: Duration, fraction_allowed: bool) -> Option<Duration> {
    let (whole, fraction) = match number.split_once(['.', ',']) {
        Some((whole, fraction)) if fraction_allowed && !fraction.is_empty() => (whole, fraction),
        Some(_) => return None,
        None => (number, ""),
    };
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return None;
    }
    let whole = u32::try_from(whole.parse::<u64>().ok()?).ok()?;
    let parts = if fraction.is_empty() { 0 } else { fraction.parse::<u32>().ok()? };
    let part = unit.checked_mul(parts)? / 10u32.pow(fraction.len() as u32);
    unit.checked_mul(whole)?.checked_add(part)
}

/// The span in ISO 8601, to the microsecond.
pub fn write(span: Duration) -> String {
    let (seconds, micros) = (span.as_secs(), span.subsec_micros());
    let (days, hours, minutes, rest) =
        (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    let mut text = String::from("P");
    if days > 0 {
        put(&mut text, days, 'D');
    }
    if hours == 0 && minutes == 0 && rest == 0 && micros == 0 && days > 0 {
        return text;
    }
    text.push('T');
    for (number, unit) in [(hours, 'H'), (minutes, 'M')] {
        if number > 0 {
            put(&mut text, number, unit);
        }
    }
    if micros > 0 {
        let fraction = format!("{micros:06}");
        text.push_str(&format!("{rest}.{}S", fraction.trim_end_matches('0')));
    } else if rest > 0 || text.ends_with('T') {
        put(&mut text, rest, 'S');
    }
    text
}

fn put(text: &mut String, number: u64, unit: char) {
    write!(text, "{number}{unit}").expect("a text takes everything");
}

/// A moment that a client gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moment {
    /// When.
    pub at: Time,
    /// How the client wrote it, where that was a moment and no span: it is shown as it was given (C-106).
    pub given: Option<String>,
}

/// A moment: RFC 3339 with a zone, or `+` and a span from `now`.
pub fn moment(text: &str, now: Time) -> Option<Moment> {
    match text.strip_prefix('+') {
        Some(span) => Some(Moment { at: now + parse(span)?, given: None }),
        None => Some(Moment { at: time::parse(text)?, given: Some(text.to_owned()) }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_is_written_as_it_can_be_read() {
        for text in ["0s", "1ms", "90s", "1h30m", "3d2h", "1d1h1m1s1ms"] {
            let span = short(text).unwrap();
            assert_eq!(short(&short_text(span)), Some(span), "{text}");
        }
        assert_eq!(short_text(Duration::from_secs(5400)), "1h30m");
    }

    #[test]
    fn spans_are_read_in_both_spellings() {
        let cases = [
            ("PT1S", 1_000),
            ("PT0.5S", 500),
            ("PT1,25S", 1_250),
            ("PT5M", 300_000),
            ("PT1M30S", 90_000),
            ("P1DT2H", 93_600_000),
            ("P1W", 604_800_000),
            ("P2D", 172_800_000),
            ("PT0S", 0),
            ("1s", 1_000),
            ("1h30m", 5_400_000),
            ("1d2h3m4s5ms", 93_784_005),
            ("1.5s", 1_500),
            ("500ms", 500),
            ("2m", 120_000),
            ("1h", 3_600_000),
        ];
        for (text, ms) in cases {
            assert_eq!(parse(text), Some(Duration::from_millis(ms)), "{text}");
        }
    }

    #[test]
    fn what_is_no_span_is_none() {
        let nonsense = [
            "",
            "P",
            "PT",
            "P1DT",
            "1",
            "s",
            "-1s",
            "PT-1S",
            "P1Y",
            "P1M",
            "PT1.5M",
            "PT1S1M",
            "PT1S1S",
            "PTS",
            "PT.5S",
            "PT1.S",
            "pt1s",
            "1 s",
            "P200000D",
            "PT99999999999S",
            "PT1S ",
            "PT1.0000000001S",
            "ünf",
            "P1é",
        ];
        for text in nonsense {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn a_span_is_written_as_it_is_read() {
        for text in ["PT1S", "PT0S", "PT5M", "PT1M30S", "P1DT2H", "P2D", "PT0.5S", "PT1H0.000001S", "P1DT1S"]
        {
            assert_eq!(write(parse(text).unwrap()), text);
        }
    }

    #[test]
    fn a_moment_is_absolute_or_counted_from_now() {
        let now = Time::from_millis(1_700_000_000_000);
        let soon = moment("+PT2S", now).unwrap();
        assert_eq!((soon.at, soon.given), (now + Duration::from_secs(2), None));
        let text = "2099-12-31T23:59:59Z";
        assert_eq!(moment(text, now).unwrap().given.as_deref(), Some(text));
        assert!(moment("0001-01-01T00:00:00Z", now).unwrap().at < now, "a clock of another century");
        for text in ["", "+", "PT2S", "-PT2S", "+-PT2S", "tomorrow", "2099-12-31T23:59:59", "2099-12-31"] {
            assert_eq!(moment(text, now), None, "{text}");
        }
    }
}
