//! When a schedule ticks: a cron expression in a time zone.
//!
//! The expression is compared with the clock on the wall of the zone. Around changes of that clock:
//!
//! - A moment that the clock on the wall skips does not come: `30 2 * * *` makes no job on the night on which 2 o'clock is followed by 3.
//! - A moment that it shows twice comes once, the first time. Except where the expression is for every hour of the day (`*/15 * * * *`): the
//!   second pass is an hour like any other, and nobody who says every quarter of an hour wants to wait for an hour and a quarter.
//! - An interval (`@every 90m`) does not look at the clock on the wall.
//!
//! Fields and names are read by `cronexpr`, zones by `jiff`: from the system's database, or from the one within the program where the system has
//! none.

use cronexpr::{Crontab, MakeTimestamp, parse_crontab};
use forge_core::limits::EXPRESSION_BYTES_MAX;
use forge_core::schedule::Schedule;
use forge_core::time::Time;
use jiff::Timestamp;
use jiff::tz::{AmbiguousOffset, Offset, TimeZone};

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

#[derive(Clone, Debug)]
struct CronFields {
    /// All but the seconds, read on the clock of UTC: zones are our own business.
    minutes: Crontab,
    /// The seconds that match, as bits.
    seconds: u64,
    /// Every hour of the day matches.
    every_hour: bool,
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

    /// The first tick after a moment; intervals are counted from `anchor`. `None` if there is none within some years.
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
        let (mut period, mut after) = (after, after);
        for _ in 0..STEPS_MAX {
            let began = Timestamp::from_second(period).ok()?;
            let offset = self.zone.to_offset(began);
            let ahead = i64::from(offset.seconds());
            let shown = fields.next_shown(after + ahead)?;
            let found = shown - ahead;
            let change = self.zone.following(began).next().map(|change| change.timestamp().as_second());
            match change {
                Some(change) if change <= found => (period, after) = (change, change - 1),
                _ if !fields.every_hour && self.shows_again(shown, offset) => after = found,
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

impl CronFields {
    /// The first second after this one that matches, as the clock on the wall shows it.
    fn next_shown(&self, after: i64) -> Option<i64> {
        let minute = after.div_euclid(60) * 60;
        let later = self.seconds & (u64::MAX << (after - minute) << 1);
        if later != 0 && self.minutes.matches(MakeTimestamp::from_second(minute).ok()?).ok()? {
            return Some(minute + i64::from(later.trailing_zeros()));
        }
        let next = self.minutes.find_next(MakeTimestamp::from_second(after).ok()?).ok()?;
        Some(next.timestamp().as_second() + i64::from(self.seconds.trailing_zeros()))
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
    Ok(Pattern::Cron(Box::new(fields(plain)?)))
}

/// Five fields, or six of which the first has the seconds.
fn fields(expression: &str) -> Result<CronFields, String> {
    let words: Vec<&str> = expression.split_ascii_whitespace().collect();
    let (seconds, words) = match words.len() {
        5 => ("0", &words[..]),
        6 => (words[0], &words[1..]),
        n => {
            return Err(format!(
                "must have five fields (minute, hour, day, month, day of the week), or six with the seconds in front; this has {n}"
            ));
        }
    };
    let minutes = read(&words.join(" "), "")?;
    // Seconds have the grammar of minutes, and so has a field by itself.
    let seconds = read(&format!("{seconds} * * * *"), "the seconds: ")?;
    let hours = read(&format!("0 {} * * *", words[1]), "")?;
    let shown = |second: i64, crontab: &Crontab| {
        MakeTimestamp::from_second(second).is_ok_and(|at| crontab.matches(at).unwrap_or(false))
    };
    let bits = (0..60).filter(|second| shown(second * 60, &seconds)).map(|second| 1 << second);
    Ok(CronFields {
        minutes,
        seconds: bits.sum(),
        every_hour: (0..24).all(|hour| shown(hour * 3600, &hours)),
    })
}

fn read(fields: &str, of: &str) -> Result<Crontab, String> {
    parse_crontab(&format!("{fields} UTC")).map_err(|error| {
        // It draws the expression with a mark below; what is said behind the mark can stand alone.
        let text = error.to_string();
        format!("cannot be read: {of}{}", text.rsplit("^ ").next().unwrap_or(&text))
    })
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
