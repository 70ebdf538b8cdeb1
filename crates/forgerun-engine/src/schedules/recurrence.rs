//! The recurrence of a schedule: a cron expression in a time zone.
//!
//! The expression is compared with local time. Around clock changes:
//!
//! - A local time that is skipped does not occur: `30 2 * * *` makes no job on the night on which 2
//!   o'clock is followed by 3.
//! - A local time that occurs twice counts once, the first time. Except if the expression covers
//!   every hour of the day (`*/15 * * * *`): then the second pass is an hour like any other,
//!   without a gap of an hour and a quarter.
//! - An interval (`@every 90m`) ignores local time.
//!
//! `jiff` reads the zones from the system's database, or from its own copy if there is none.

use forgerun_core::limits::EXPRESSION_BYTES_MAX;
use forgerun_core::schedule::Schedule;
use forgerun_core::time::Time;
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

use super::cron::{CronFields, YEARS_LOOKED_AHEAD};

const MICROS: i64 = 1_000_000;

/// The shortest and longest interval, in seconds.
const EVERY_S: std::ops::RangeInclusive<i64> = 1..=366 * 24 * 3600;

/// Clock changes and repeated local times that are examined for one tick.
const STEPS_MAX: usize = 20_000;

#[derive(Clone, Debug)]
pub struct Recurrence {
    pattern: Pattern,
    zone: TimeZone,
}

#[derive(Clone, Debug)]
enum Pattern {
    /// Interval in seconds.
    Every(i64),
    Cron(Box<CronFields>),
}

/// Why a recurrence is invalid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecurrenceError {
    /// The expression is invalid, or never matches.
    #[error("{0}")]
    Expression(String),
    #[error("{0}")]
    Zone(String),
}

impl Recurrence {
    /// Parses an expression and a zone name.
    pub fn parse(expression: &str, zone: &str) -> Result<Recurrence, RecurrenceError> {
        let zone = named_zone(zone)?;
        let pattern = pattern(expression).map_err(RecurrenceError::Expression)?;
        Ok(Recurrence { pattern, zone })
    }

    /// The recurrence of a stored schedule.
    pub fn of(schedule: &Schedule) -> Result<Recurrence, RecurrenceError> {
        Recurrence::parse(&schedule.expression, &schedule.zone)
    }

    /// The zone name as spelled in the database.
    pub fn zone_name(&self) -> &str {
        self.zone.iana_name().unwrap_or("UTC")
    }

    /// The first tick after a moment; intervals start at `anchor`. `None` if there is none within
    /// [`YEARS_LOOKED_AHEAD`].
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

    /// Up to `n` ticks after a moment.
    pub fn upcoming(&self, anchor: Time, after: Time, n: usize) -> Vec<Time> {
        let next = |tick: &Time| self.next_after(anchor, *tick);
        std::iter::successors(self.next_after(anchor, after), next).take(n).collect()
    }

    /// Steps from one clock change to the next: in between the offset is constant, so moments and
    /// local times correspond.
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

    /// Whether this local time occurs for the second time, with this `offset`.
    fn shows_again(&self, shown: i64, offset: Offset) -> bool {
        let Ok(shown) = Timestamp::from_second(shown) else { return false };
        let shown = Offset::UTC.to_datetime(shown);
        matches!(self.zone.to_ambiguous_timestamp(shown).offset(), AmbiguousOffset::Fold { after, .. } if after == offset)
    }
}

/// A zone by its IANA name. Offsets and abbreviations lack daylight saving rules, so they are
/// refused.
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

/// Parses an interval in Go's format: `1h30m`, `45s`.
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
