//! The fields of a cron expression, as sets of days and local times. Time zones are not known here.
//!
//! `cronexpr` parses the fields and matches days. The search for the next moment is our own, for
//! two reasons: the crate searches four years ahead, and a Monday on the 29th of February may be
//! forty years away; and it misses the last day of December, because it tests whether the following
//! month has a higher number.

use cronexpr::{Crontab, MakeTimestamp, parse_crontab};
use jiff::ToSpan;
use jiff::civil::{Date, Weekday};

const DAY_S: i64 = 24 * 3600;

/// A date that does not occur within this many years never does: the weekdays of the 29th of
/// February repeat after 28 years, or after 40 around 2100.
pub(super) const YEARS_LOOKED_AHEAD: i16 = 41;

#[derive(Clone, Debug)]
pub(super) struct CronFields {
    /// Days of month and week; its other fields are stars.
    days: Crontab,
    /// Matching months, hours, minutes and seconds, as bits.
    months: u64,
    hours: u64,
    minutes: u64,
    seconds: u64,
}

impl CronFields {
    /// Parses five fields, or six with the seconds first.
    pub(super) fn read(expression: &str) -> Result<CronFields, String> {
        let words: Vec<&str> = expression.split_ascii_whitespace().collect();
        let (second, words) = match words.len() {
            5 => ("0", &words[..]),
            6 => (words[0], &words[1..]),
            n => {
                return Err(format!(
                    "must have five fields (minute, hour, day of month, month, day of week), or six with the seconds in front; this has {n}"
                ));
            }
        };
        let [minute, hour, day, month, weekday] = words else { unreachable!("five words were counted") };
        // Seconds have the grammar of minutes, so the field is parsed as one.
        let seconds = read("second", second, &format!("{second} * * * *"))?;
        let minutes = read("minute", minute, &format!("{minute} * * * *"))?;
        let hours = read("hour", hour, &format!("* {hour} * * *"))?;
        read("day of month", day, &format!("* * {day} * *"))?;
        let months = read("month", month, &format!("* * * {month} *"))?;
        Ok(CronFields {
            days: read("day of week", weekday, &format!("* * {day} * {weekday}"))?,
            months: bits(1..13, |month| matches(&months, Date::constant(2000, month as i8, 1), 0)),
            hours: bits(0..24, |hour| matches(&hours, EPOCH, hour * 3600)),
            minutes: bits(0..60, |minute| matches(&minutes, EPOCH, minute * 60)),
            seconds: bits(0..60, |second| matches(&seconds, EPOCH, second * 60)),
        })
    }

    pub(super) fn every_hour(&self) -> bool {
        (0..24).all(|hour| has(self.hours, hour))
    }

    /// The first matching second after this one, both in local time counted like UTC. `None` if
    /// there is none until the end of the year `last_year`.
    pub(super) fn next_shown(&self, after: i64, last_year: i16) -> Option<i64> {
        let day = after.div_euclid(DAY_S);
        let mut date = EPOCH.checked_add(day.days()).ok()?;
        if self.has_day(date)
            && let Some(second) = self.later_that_day(after.rem_euclid(DAY_S))
        {
            return Some(day * DAY_S + second);
        }
        date = date.tomorrow().ok()?;
        while date.year() <= last_year {
            if !has(self.months, date.month().into()) {
                date = date.last_of_month().tomorrow().ok()?;
            } else if self.has_day(date) {
                return Some(seconds_since_epoch(date) + self.time_of_day(first(self.hours)));
            } else {
                date = date.tomorrow().ok()?;
            }
        }
        None
    }

    fn has_day(&self, date: Date) -> bool {
        has(self.months, date.month().into()) && matches(&self.days, not_in_december(date), 0)
    }

    /// The first matching second of the day after this one.
    fn later_that_day(&self, after: i64) -> Option<i64> {
        let (hour, minute, second) = (after / 3600, after / 60 % 60, after % 60);
        if has(self.hours, hour) {
            let this_hour = hour * 3600;
            if has(self.minutes, minute)
                && let Some(second) = above(self.seconds, second)
            {
                return Some(this_hour + minute * 60 + second);
            }
            if let Some(minute) = above(self.minutes, minute) {
                return Some(this_hour + minute * 60 + first(self.seconds));
            }
        }
        above(self.hours, hour).map(|hour| self.time_of_day(hour))
    }

    /// The first matching second of an hour.
    fn time_of_day(&self, hour: i64) -> i64 {
        hour * 3600 + first(self.minutes) * 60 + first(self.seconds)
    }
}

const EPOCH: Date = Date::constant(1970, 1, 1);

/// The same day in a month of the same length and first weekday that is not December. Whether `L`,
/// `5L`, `5#3` or `15W` matches depends on these two alone.
fn not_in_december(date: Date) -> Date {
    if date.month() != 12 {
        return date;
    }
    let year = match date.first_of_month().weekday() {
        Weekday::Monday => 2018,
        Weekday::Tuesday => 2019,
        Weekday::Wednesday => 2020,
        Weekday::Thursday => 2015,
        Weekday::Friday => 2016,
        Weekday::Saturday => 2011,
        Weekday::Sunday => 2017,
    };
    Date::constant(year, 1, date.day())
}

fn matches(crontab: &Crontab, date: Date, second_of_day: i64) -> bool {
    MakeTimestamp::from_second(seconds_since_epoch(date) + second_of_day)
        .is_ok_and(|at| crontab.matches(at).unwrap_or(false))
}

fn seconds_since_epoch(date: Date) -> i64 {
    date.duration_since(EPOCH).as_secs()
}

fn bits(numbers: std::ops::Range<i64>, is_in: impl Fn(i64) -> bool) -> u64 {
    numbers.filter(|number| is_in(*number)).map(|number| 1 << number).sum()
}

fn has(bits: u64, number: i64) -> bool {
    bits >> number & 1 == 1
}

/// No field is empty: each item of one has at least one number.
fn first(bits: u64) -> i64 {
    i64::from(bits.trailing_zeros())
}

/// The lowest number above this one, which is below 60.
fn above(bits: u64, number: i64) -> Option<i64> {
    let above = bits & (u64::MAX << number << 1);
    (above != 0).then(|| first(above))
}

/// Parses an expression with stars for all other fields.
fn read(name: &str, field: &str, expression: &str) -> Result<Crontab, String> {
    parse_crontab(&format!("{expression} UTC")).map_err(|error| {
        // The crate marks the place below the expression; the text behind the mark stands alone.
        let text = error.to_string();
        let reason = text.rsplit("^ ").next().unwrap_or(&text);
        format!("cannot be read: {name} `{field}`: {reason}")
    })
}

#[cfg(test)]
mod tests;
