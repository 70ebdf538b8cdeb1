//! When a schedule ticks: a cron expression in a time zone.
//!
//! The expression is compared with the clock on the wall of the zone. Around changes of that clock:
//!
//! - A moment that the clock on the wall skips does not come: `30 2 * * *` makes no job on the night on which 2 o'clock is followed by 3.
//! - A moment that it shows twice comes once, the first time. Except where the expression is for every hour of the day (`*/15 * * * *`): the
//!   second pass is an hour like any other, and nobody who says every quarter of an hour wants to wait for an hour and a quarter.
//! - An interval (`@every 90m`) does not look at the clock on the wall.
//!
//! Zones are read by `jiff`: from the system's database, or from the one within the program where the system has none.

use forgerun_core::limits::EXPRESSION_BYTES_MAX;
use forgerun_core::schedule::Schedule;
use forgerun_core::time::Time;
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::cron::{CronFields, YEARS_LOOKED_AHEAD};

const MICROS: i64 = 1_000_000;

/// The shortest and the longest interval, in seconds.
const EVERY_S: std::ops::RangeInclusive<i64> = 1..=366 * 24 * 3600;

/// Changes of the clock on the wall, and moments shown twice, that are looked at to find one tick.
const STEPS_MAX: usize = 20_000;

/// When a schedule ticks.
#[derive(Clone, Debug)]
pub struct Recurrence {
    pattern: Pattern,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// Every so many seconds.
    Every(i64),
    Cron(Box<CronFields>),
}

/// Why there is no such recurrence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecurrenceError {
    /// The expression cannot be read, or never comes.
    #[error("{0}")]
    Expression(String),
    /// There is no such time zone.
    #[error("{0}")]
    Zone(String),
}

impl Recurrence {
    /// Reads an expression and the name of a zone.
    pub fn parse(expression: &str, zone: &str) -> Result<Recurrence, RecurrenceError> {
        let zone = named_zone(zone)?;
        let pattern = pattern(expression).map_err(RecurrenceError::Expression)?;
        Ok(Recurrence { pattern, zone })
    }

    /// The recurrence of a schedule.
    pub fn of(schedule: &Schedule) -> Result<Recurrence, RecurrenceError> {
        Recurrence::parse(&schedule.expression, &schedule.zone)
    }

    /// The name of the zone, as the database of zones spells it.
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The first tick after a moment; intervals are counted from `anchor`. `None` if there is none within [`YEARS_LOOKED_AHEAD`].
    pub fn next_after(&self, anchor: Time, after: Time) -> Option<Time> {
        match &self.pattern {
            Pattern::Every(seconds) => {
                let every = seconds * MICROS;
                let passed = (after.as_micros() - anchor.as_micros()).div_euclid(every).max(-1);
                Some(Time::from_micros(anchor.as_micros() + (passed + 1) * every))
            }
            Pattern::Cron(fields) => {
                let second = self.next_second(fields, after.as_micros().div_euclid(MICROS))?;
                Some(Time::from_micros(second * MICROS))
            }
        }
    }

    /// The next ticks after a moment, at most `n`.
    pub fn upcoming(&self, anchor: Time, after: Time, n: usize) -> Vec<Time> {
        let next = |tick: &Time| self.next_after(anchor, *tick);
        std::iter::successors(self.next_after(anchor, after), next).take(n).collect()
    }

    /// Walks from one change of the clock on the wall to the next: between two of them it is as far from UTC all the time, so that
    /// moments and what it shows are the same sequence.
    fn next_second(&self, fields: &CronFields, after: i64) -> Option<i64> {
        let last_year =
            Offset::UTC.to_datetime(Timestamp::from_second(after).ok()?).year() + YEARS_LOOKED_AHEAD;
        let (mut period, mut after) = (after, after);
        for _ in 0..STEPS_MAX {
            let began = Timestamp::from_second(period).ok()?;
            let offset = self.zone.to_offset(began);
            let ahead = i64::from(offset.seconds());
            let shown = fields.next_shown(after + ahead, last_year)?;
            let found = shown - ahead;
            let change = self.zone.following(began).next().map(|change| change.timestamp().as_second());
            match change {
                Some(change) if change <= found => (period, after) = (change, change - 1),
                _ if !fields.every_hour() && self.shows_again(shown, offset) => after = found,
                _ => return Some(found),
            }
        }
        None
    }

    /// Whether the clock on the wall shows this for the second time, being `offset` from UTC.
    fn shows_again(&self, shown: i64, offset: Offset) -> bool {
        let Ok(shown) = Timestamp::from_second(shown) else { return false };
        let shown = Offset::UTC.to_datetime(shown);
        matches!(self.zone.to_ambiguous_timestamp(shown).offset(), AmbiguousOffset::Fold { after, .. } if after == offset)
    }
}

/// A zone by its IANA name. Offsets and abbreviations do not know about summer time, so they are refused.
fn named_zone(name: &str) -> Result<TimeZone, RecurrenceError> {
    let unknown = || {
        RecurrenceError::Zone(format!(
            "must be the IANA name of a time zone, such as Europe/Berlin or UTC; {name:?} is none"
        ))
    };
    if name.eq_ignore_ascii_case("utc") {
        return Ok(TimeZone::UTC);
    }
    if !name.contains('/') || name.len() > 64 {
        return Err(unknown());
    }
    TimeZone::get(name).map_err(|_| unknown())
}

fn pattern(expression: &str) -> Result<Pattern, String> {
    if expression.len() > EXPRESSION_BYTES_MAX {
        return Err(format!("must have at most {EXPRESSION_BYTES_MAX} bytes"));
    }
    let expression = expression.trim_ascii();
    if let Some(interval) = expression.strip_prefix("@every ") {
        return Ok(Pattern::Every(seconds_of(interval.trim_ascii())?));
    }
    let plain = match expression {
        "@yearly" | "@annually" => "0 0 1 1 *",
        "@monthly" => "0 0 1 * *",
        "@weekly" => "0 0 * * 0",
        "@daily" | "@midnight" => "0 0 * * *",
        "@hourly" => "0 * * * *",
        macro_word if macro_word.starts_with('@') => {
            return Err("must be one of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly, \
                 @every 1h30m, or five or six fields"
                .into());
        }
        plain => plain,
    };
    Ok(Pattern::Cron(Box::new(CronFields::read(plain)?)))
}

/// An interval as Go writes it: `1h30m`, `45s`.
fn seconds_of(interval: &str) -> Result<i64, String> {
    let wrong = || {
        "must have an interval of whole seconds between 1s and 366 days behind @every, such as 1h30m or 45s"
            .to_owned()
    };
    let (mut total, mut rest) = (0i64, interval);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let (number, behind) = rest.split_at(digits);
        let number: i64 = number.parse().map_err(|_| wrong())?;
        let (unit_s, behind) = match behind.as_bytes().first() {
            Some(b'h') => (3600, &behind[1..]),
            Some(b'm') if !behind.starts_with("ms") => (60, &behind[1..]),
            Some(b's') => (1, &behind[1..]),
            _ => return Err(wrong()),
        };
        total = number.checked_mul(unit_s).and_then(|span| total.checked_add(span)).ok_or_else(wrong)?;
        rest = behind;
    }
    if EVERY_S.contains(&total) { Ok(total) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests;
