//! Points in time as the async-job members write them: RFC 3339, UTC, ending in `Z`.
//!
//! The type is small on purpose: it parses, prints, and converts to and from numbers. Calendars,
//! zones and arithmetic belong to a date library of the caller's choice.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A time in UTC between the years 0000 and 9999, with the number of fractional digits it was
/// written with.
///
/// Two timestamps are equal when their texts are: `10:00:00Z` and `10:00:00.000Z` are the same
/// moment but different bytes in a digest. Compare [`Timestamp::unix_micros`] to compare moments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp {
    /// Seconds since 1970, negative before.
    seconds: i64,
    /// 0 to 999 999 999, only the leading `digits` of its nine decimals are set.
    nanos: u32,
    /// How many fractional digits are written, 0 to 9.
    digits: u8,
}

/// 0000-01-01T00:00:00Z.
const SECONDS_MIN: i64 = -62_167_219_200;
/// 9999-12-31T23:59:59Z.
const SECONDS_MAX: i64 = 253_402_300_799;

impl Timestamp {
    /// A time with whole seconds.
    ///
    /// # Errors
    /// When the year would not have four digits.
    pub fn from_unix_seconds(seconds: i64) -> Result<Self, TimestampError> {
        Self::new(seconds, 0, 0)
    }

    /// A time with three fractional digits.
    ///
    /// # Errors
    /// When the year would not have four digits.
    pub fn from_unix_millis(millis: i64) -> Result<Self, TimestampError> {
        Self::new(millis.div_euclid(1_000), millis.rem_euclid(1_000) as u32 * 1_000_000, 3)
    }

    /// A time with six fractional digits.
    ///
    /// # Errors
    /// When the year would not have four digits.
    pub fn from_unix_micros(micros: i64) -> Result<Self, TimestampError> {
        Self::new(micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000) as u32 * 1_000, 6)
    }

    fn new(seconds: i64, nanos: u32, digits: u8) -> Result<Self, TimestampError> {
        if !(SECONDS_MIN..=SECONDS_MAX).contains(&seconds) {
            return Err(TimestampError::OutOfRange);
        }
        Ok(Self { seconds, nanos, digits })
    }

    /// Reads an RFC 3339 time that is in UTC and says so with `Z`.
    ///
    /// More than nine fractional digits are cut; a leap second counts as the second after it.
    ///
    /// # Errors
    /// When the text is no RFC 3339 time, or has another offset than `Z`.
    pub fn parse(text: &str) -> Result<Self, TimestampError> {
        match Self::parse_noting_offset(text)? {
            (time, Offset::Utc) => Ok(time),
            (_, Offset::Numeric) => Err(TimestampError::NotUtc),
        }
    }

    /// Reads any RFC 3339 time and converts it to UTC.
    ///
    /// # Errors
    /// When the text is no RFC 3339 time, or one outside the years 0000 to 9999.
    pub fn parse_any_offset(text: &str) -> Result<Self, TimestampError> {
        Self::parse_noting_offset(text).map(|(time, _)| time)
    }

    /// Reads any RFC 3339 time and converts it to UTC, saying whether it had to.
    pub(crate) fn parse_noting_offset(text: &str) -> Result<(Self, Offset), TimestampError> {
        let bytes = text.as_bytes();
        let (date, rest) = bytes.split_at_checked(19).ok_or(TimestampError::Malformed)?;
        let seconds = seconds_of(date).ok_or(TimestampError::Malformed)?;
        let (nanos, digits, zone) = fraction_of(rest).ok_or(TimestampError::Malformed)?;
        let (offset_seconds, offset) = offset_of(zone).ok_or(TimestampError::Malformed)?;
        Ok((Self::new(seconds - offset_seconds, nanos, digits)?, offset))
    }

    /// Seconds since 1970, rounded down.
    #[must_use]
    pub fn unix_seconds(self) -> i64 {
        self.seconds
    }

    /// Microseconds since 1970, rounded down.
    #[must_use]
    pub fn unix_micros(self) -> i64 {
        self.seconds * 1_000_000 + i64::from(self.nanos / 1_000)
    }

    /// The same moment cut to whole seconds, for those who do not want to reveal how long things
    /// take.
    #[must_use]
    pub fn cut_to_seconds(self) -> Self {
        Self { nanos: 0, digits: 0, ..self }
    }

    /// How long before `later` this was; zero if it was not.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        let micros = later.unix_micros().saturating_sub(self.unix_micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    }
}

impl TryFrom<SystemTime> for Timestamp {
    type Error = TimestampError;

    /// Keeps microseconds.
    fn try_from(time: SystemTime) -> Result<Self, TimestampError> {
        let micros = match time.duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).ok(),
            Err(before) => i64::try_from(before.duration().as_micros()).ok().map(|micros| -micros),
        };
        Self::from_unix_micros(micros.ok_or(TimestampError::OutOfRange)?)
    }
}

impl std::str::FromStr for Timestamp {
    type Err = TimestampError;

    fn from_str(text: &str) -> Result<Self, TimestampError> {
        Self::parse(text)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text(&mut [0; TEXT_BYTES]))
    }
}

/// The longest text: nine fractional digits.
pub(crate) const TEXT_BYTES: usize = 30;

impl Timestamp {
    /// Prints into `buffer`: the JSON writer has no time for formatting machinery.
    pub(crate) fn text<'a>(&self, buffer: &'a mut [u8; TEXT_BYTES]) -> &'a str {
        let days = self.seconds.div_euclid(86_400);
        let second_of_day = self.seconds.rem_euclid(86_400) as u32;
        let (year, month, day) = civil_of_days(days);
        buffer[..19].copy_from_slice(b"0000-00-00T00:00:00");
        print_digits(&mut buffer[..4], year);
        print_digits(&mut buffer[5..7], month);
        print_digits(&mut buffer[8..10], day);
        print_digits(&mut buffer[11..13], second_of_day / 3_600);
        print_digits(&mut buffer[14..16], second_of_day / 60 % 60);
        print_digits(&mut buffer[17..19], second_of_day % 60);
        let mut end = 19;
        if self.digits > 0 {
            let digits = usize::from(self.digits);
            buffer[19] = b'.';
            print_digits(&mut buffer[20..20 + digits], self.nanos / 10_u32.pow(9 - u32::from(self.digits)));
            end = 20 + digits;
        }
        buffer[end] = b'Z';
        std::str::from_utf8(&buffer[..=end]).expect("only ASCII was printed")
    }
}

fn print_digits(place: &mut [u8], mut number: u32) {
    for digit in place.iter_mut().rev() {
        *digit = b'0' + (number % 10) as u8;
        number /= 10;
    }
}

/// Whether the text said UTC by `Z` or gave a numeric offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Offset {
    Utc,
    Numeric,
}

/// Why a text is no UTC timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TimestampError {
    /// Not an RFC 3339 date and time.
    #[error("not an RFC 3339 time; write it like 2026-02-26T10:00:00Z")]
    Malformed,
    /// A numeric offset, even if it is zero.
    #[error("not in UTC; convert the time and end it with Z")]
    NotUtc,
    /// The year does not have four digits.
    #[error("outside the years 0000 to 9999")]
    OutOfRange,
}

/// `YYYY-MM-DDThh:mm:ss` as seconds since 1970.
fn seconds_of(date: &[u8]) -> Option<i64> {
    let separators = [(4, b"--"), (7, b"--"), (10, b"Tt"), (13, b"::"), (16, b"::")];
    if !separators.iter().all(|(at, either)| either.contains(&date[*at])) {
        return None;
    }
    let (year, month, day) = (number(&date[..4])?, number(&date[5..7])?, number(&date[8..10])?);
    let (hour, minute, second) = (number(&date[11..13])?, number(&date[14..16])?, number(&date[17..19])?);
    let leap_second_possible = minute == 59;
    let date_fits = (1..=12).contains(&month) && (1..=days_in(year, month)).contains(&day);
    let time_fits = hour < 24 && minute < 60 && (second < 60 || (second == 60 && leap_second_possible));
    let seconds = days_of_civil(year, month, day) * 86_400 + i64::from(hour * 3_600 + minute * 60 + second);
    (date_fits && time_fits).then_some(seconds)
}

/// `.123456789Z` as nanoseconds, number of digits kept, and what follows.
fn fraction_of(rest: &[u8]) -> Option<(u32, u8, &[u8])> {
    let Some(fraction) = rest.strip_prefix(b".") else {
        return Some((0, 0, rest));
    };
    let length = fraction.iter().take_while(|byte| byte.is_ascii_digit()).count();
    if length == 0 {
        return None;
    }
    let digits = length.min(9);
    let nanos = number(&fraction[..digits])? * 10_u32.pow(9 - digits as u32);
    Some((nanos, digits as u8, &fraction[length..]))
}

/// `Z` or `+hh:mm` as seconds east of UTC.
fn offset_of(zone: &[u8]) -> Option<(i64, Offset)> {
    match zone {
        b"Z" | b"z" => Some((0, Offset::Utc)),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[*h1, *h2])?, number(&[*m1, *m2])?);
            let seconds = i64::from(hours * 3_600 + minutes * 60);
            let seconds = if *sign == b'-' { -seconds } else { seconds };
            (hours < 24 && minutes < 60).then_some((seconds, Offset::Numeric))
        }
        _ => None,
    }
}

/// Up to nine ASCII digits.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |sum, byte| byte.is_ascii_digit().then(|| sum * 10 + u32::from(byte - b'0')))
}

fn days_in(year: u32, month: u32) -> u32 {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days since 1970 of a date. Years are counted from March, so that the leap day comes last.
fn days_of_civil(year: u32, month: u32, day: u32) -> i64 {
    let year = i64::from(year) - i64::from(month <= 2);
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_from_march = i64::from((month + 9) % 12);
    let day_of_year = (153 * month_from_march + 2) / 5 + i64::from(day) - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

/// The date of a day since 1970; the reverse of [`days_of_civil`].
fn civil_of_days(days: i64) -> (u32, u32, u32) {
    let days = days + 719_468;
    let (era, day_of_era) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year as u32, month as u32, day as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_utc_time_is_printed_as_it_was_read() {
        for text in [
            "2026-02-26T10:00:00Z",
            "2026-02-26T10:00:00.000Z",
            "2024-02-29T23:59:59.123456789Z",
            "1969-12-31T23:59:59.9Z",
            "0000-01-01T00:00:00Z",
            "9999-12-31T23:59:59Z",
        ] {
            assert_eq!(Timestamp::parse(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn known_moments_have_their_known_numbers() {
        let time = Timestamp::parse("2009-02-13T23:31:30Z").unwrap();
        assert_eq!(time.unix_seconds(), 1_234_567_890);
        assert_eq!(Timestamp::from_unix_millis(-1).unwrap().to_string(), "1969-12-31T23:59:59.999Z");
        assert_eq!(Timestamp::from_unix_micros(0).unwrap().to_string(), "1970-01-01T00:00:00.000000Z");
        assert_eq!(Timestamp::try_from(UNIX_EPOCH).unwrap(), Timestamp::from_unix_micros(0).unwrap());
        assert_eq!(Timestamp::parse("2016-12-31T23:59:60Z").unwrap().to_string(), "2017-01-01T00:00:00Z");
    }

    #[test]
    fn a_time_that_is_not_utc_is_refused() {
        for text in ["2026-02-26T10:00:00+02:00", "2026-02-26T10:00:00+00:00", "2026-02-26T10:00:00-00:00"] {
            assert_eq!(Timestamp::parse(text), Err(TimestampError::NotUtc), "{text}");
        }
    }

    #[test]
    fn a_tolerant_reader_can_convert_an_offset() {
        let (time, offset) = Timestamp::parse_noting_offset("2026-02-26T01:30:00.5+02:00").unwrap();
        assert_eq!((time.to_string().as_str(), offset), ("2026-02-25T23:30:00.5Z", Offset::Numeric));
    }

    #[test]
    fn what_is_no_time_is_refused() {
        for text in [
            "",
            "2026-02-26",
            "2026-02-26 10:00:00Z",
            "2026-02-30T10:00:00Z",
            "2025-02-29T10:00:00Z",
            "2026-13-01T10:00:00Z",
            "2026-02-26T24:00:00Z",
            "2026-02-26T10:00:60Z",
            "2026-02-26T10:00:00",
            "2026-02-26T10:00:00.Z",
            "2026-02-26T10:00:00ZZ",
            "+026-02-26T10:00:00Z",
            "2026-02-26T10:00:0\u{e9}Z",
        ] {
            assert_eq!(Timestamp::parse(text), Err(TimestampError::Malformed), "{text}");
        }
        assert_eq!(Timestamp::from_unix_seconds(SECONDS_MAX + 1), Err(TimestampError::OutOfRange));
        assert_eq!(Timestamp::from_unix_micros(i64::MAX), Err(TimestampError::OutOfRange));
    }

    #[test]
    fn days_throughout_ten_millennia_survive_printing_and_parsing() {
        for day in (SECONDS_MIN / 86_400..SECONDS_MAX / 86_400).step_by(97) {
            let time = Timestamp::from_unix_seconds(day * 86_400 + 86_399).unwrap();
            assert_eq!(Timestamp::parse(&time.to_string()), Ok(time));
        }
    }

    #[test]
    fn a_moment_can_be_cut_to_seconds() {
        let time = Timestamp::parse("2026-02-26T10:00:00.987Z").unwrap();
        assert_eq!(time.cut_to_seconds().to_string(), "2026-02-26T10:00:00Z");
    }
}
