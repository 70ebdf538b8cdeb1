//! Days are compared with a calendar that counts them one by one.

use super::*;

/// Whether an item of the day of the month means this day.
fn in_day_item(item: &str, date: Date) -> bool {
    let last = date.days_in_month();
    if item == "L" {
        return date.day() == last;
    }
    let Some(wanted) = item.strip_suffix('W') else { return item.parse() == Ok(date.day()) };
    let wanted: i8 = wanted.parse().unwrap();
    if wanted > last {
        return false;
    }
    let distance = |day: i8| (day - wanted).abs();
    let working_days = (1..=last).filter(|day| {
        let weekday = date.with().day(*day).build().unwrap().weekday();
        !matches!(weekday, Weekday::Saturday | Weekday::Sunday)
    });
    working_days.min_by_key(|day| distance(*day)) == Some(date.day())
}

/// Whether an item of the day of the week means this day.
fn in_weekday_item(item: &str, date: Date) -> bool {
    let (weekday, which) = item.split_at(1);
    let weekday: i8 = weekday.parse().unwrap();
    if date.weekday().to_sunday_zero_offset() != weekday % 7 {
        return false;
    }
    match which {
        "" => true,
        "L" => date.day() + 7 > date.days_in_month(),
        nth => nth.strip_prefix('#').unwrap().parse() == Ok((date.day() + 6) / 7),
    }
}

fn in_fields(day: &str, month: &str, weekday: &str, date: Date) -> bool {
    let any = |field: &str, is_in: fn(&str, Date) -> bool| field.split(',').any(|item| is_in(item, date));
    let in_month = month == "*" || month.split(',').any(|item| item.parse() == Ok(date.month()));
    in_month
        && match (day, weekday) {
            ("*", weekday) => any(weekday, in_weekday_item),
            (day, "*") => any(day, in_day_item),
            (day, weekday) => any(day, in_day_item) || any(weekday, in_weekday_item),
        }
}

fn days(from: Date, until: Date) -> impl Iterator<Item = Date> {
    from.series(1.day()).take_while(move |date| *date < until)
}

const DAYS: &[(&str, &str)] = &[
    ("L", "*"),
    ("1,L", "*"),
    ("29", "*"),
    ("31", "*"),
    ("1W", "*"),
    ("15W", "*"),
    ("30W", "*"),
    ("31W,L", "*"),
    ("*", "0L"),
    ("*", "1L"),
    ("*", "5L"),
    ("*", "6L,7L"),
    ("*", "1#1"),
    ("*", "5#3"),
    ("*", "5#5"),
    ("*", "0#5,3L"),
    ("L", "5L"),
    ("15W", "1#5"),
    ("31", "3"),
];

#[test]
fn the_days_of_thirty_years_are_those_of_the_calendar() {
    for (from, until) in [
        (Date::constant(2024, 1, 1), Date::constant(2055, 1, 1)),
        // A leap year that is none.
        (Date::constant(2099, 11, 1), Date::constant(2101, 2, 1)),
    ] {
        for (day, weekday) in DAYS {
            for month in ["*", "2,12"] {
                let expression = format!("0 0 {day} {month} {weekday}");
                let fields = CronFields::read(&expression).unwrap();
                let mut after = seconds_since_epoch(from) - 1;
                for expected in days(from, until).filter(|date| in_fields(day, month, weekday, *date)) {
                    let found = fields.next_shown(after, until.year()).unwrap();
                    assert_eq!(found, seconds_since_epoch(expected), "{expression}: {expected}");
                    after = found;
                }
                let next = fields.next_shown(after, until.year());
                assert!(next.is_none_or(|next| next >= seconds_since_epoch(until)), "{expression}");
            }
        }
    }
}

#[test]
fn the_time_of_day_is_found_from_every_second_before_it() {
    let cases = [
        ("*/25 7,23 * * *", "0"),
        ("0 0 * * *", "0"),
        ("59 23 * * *", "0"),
        ("30,31 */7 * * *", "1,58"),
        ("* * * * *", "59"),
    ];
    for (expression, seconds) in cases {
        let fields = CronFields::read(&format!("{seconds} {expression}")).unwrap();
        let expected: Vec<i64> = (0..2 * DAY_S)
            .filter(|second| {
                has(fields.hours, second / 3600 % 24)
                    && has(fields.minutes, second / 60 % 60)
                    && seconds.split(',').any(|item| item.parse() == Ok(second % 60))
            })
            .collect();
        for after in (-1..DAY_S).step_by(7) {
            let next = expected.iter().find(|second| **second > after).copied();
            assert_eq!(fields.next_shown(after, 1970), next, "{seconds} {expression} after {after}");
        }
    }
}

#[test]
fn the_month_that_stands_for_december_has_its_shape() {
    for year in 2000..2400 {
        let december = Date::constant(year, 12, 1);
        let other = not_in_december(december);
        assert_eq!((other.weekday(), other.days_in_month()), (december.weekday(), 31), "{year}");
        assert_ne!(other.month(), 12);
    }
}
