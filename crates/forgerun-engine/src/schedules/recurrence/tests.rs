//! What was expected here was worked out by another implementation of time zones, minute by minute.

use std::time::Duration;

use super::*;

fn time(text: &str) -> Time {
    let at: Timestamp = text.parse().unwrap();
    Time::from_micros(at.as_microsecond())
}

/// Day of the month, hour and minute, UTC.
fn shown(tick: &Time) -> String {
    Timestamp::from_microsecond(tick.as_micros()).unwrap().strftime("%dT%H:%M").to_string()
}

/// Zone, expression, moment, and the ticks after it.
type Case = (&'static str, &'static str, &'static str, &'static [&'static str]);

const AROUND_CHANGES: &[Case] = &[
    ("America/New_York", "30 2 * * *", "2026-03-07T12:00:00Z", &["09T06:30"]),
    ("America/New_York", "30 1 * * *", "2026-10-31T12:00:00Z", &["01T05:30", "02T06:30"]),
    (
        "America/Los_Angeles",
        "*/30 * * * *",
        "2026-03-08T08:00:00Z",
        &["08T08:30", "08T09:00", "08T09:30", "08T10:00", "08T10:30", "08T11:00", "08T11:30", "08T12:00"],
    ),
    (
        "America/Los_Angeles",
        "*/30 * * * *",
        "2026-11-01T07:30:00Z",
        &["01T08:00", "01T08:30", "01T09:00", "01T09:30", "01T10:00", "01T10:30", "01T11:00", "01T11:30"],
    ),
    ("America/Sao_Paulo", "0 0 * * *", "2018-11-02T12:00:00Z", &["03T03:00", "05T02:00"]),
    ("America/Sao_Paulo", "30 23 * * *", "2019-02-15T12:00:00Z", &["16T01:30", "17T01:30", "18T02:30"]),
    ("America/Havana", "15 0 * * *", "2026-03-06T12:00:00Z", &["07T05:15", "09T04:15"]),
    ("America/Havana", "15 0 * * *", "2026-10-30T12:00:00Z", &["31T04:15", "01T04:15", "02T05:15"]),
    ("Europe/Berlin", "30 2 * * *", "2026-03-27T12:00:00Z", &["28T01:30", "30T00:30"]),
    ("Europe/Berlin", "30 2 * * *", "2026-10-23T12:00:00Z", &["24T00:30", "25T00:30", "26T01:30"]),
    ("Europe/London", "0 1 * * *", "2026-03-28T12:00:00Z", &["30T00:00"]),
    (
        "Europe/London",
        "*/30 * * * *",
        "2026-10-24T22:00:00Z",
        &[
            "24T22:30", "24T23:00", "24T23:30", "25T00:00", "25T00:30", "25T01:00", "25T01:30", "25T02:00",
            "25T02:30", "25T03:00",
        ],
    ),
    ("Europe/Dublin", "59 1 * * *", "2026-10-23T12:00:00Z", &["24T00:59", "25T00:59", "26T01:59"]),
    ("Africa/Cairo", "30 0 * * *", "2026-04-22T12:00:00Z", &["22T22:30", "24T21:30"]),
    ("Africa/Cairo", "30 23 * * *", "2026-10-28T12:00:00Z", &["28T20:30", "29T20:30", "30T21:30"]),
    ("Africa/Casablanca", "30 2 * * *", "2026-02-13T12:00:00Z", &["14T01:30", "15T01:30", "16T02:30"]),
    ("Africa/Casablanca", "30 2 * * *", "2026-03-20T12:00:00Z", &["21T02:30", "23T01:30"]),
    ("Asia/Kolkata", "30 2 * * *", "2026-03-27T12:00:00Z", &["27T21:00", "28T21:00"]),
    ("Asia/Tehran", "30 0 * * *", "2022-03-20T12:00:00Z", &["20T21:00", "22T20:00"]),
    ("Asia/Tehran", "30 23 * * *", "2022-09-20T12:00:00Z", &["20T19:00", "21T19:00", "22T20:00"]),
    ("Australia/Lord_Howe", "15 2 * * *", "2026-10-02T12:00:00Z", &["02T15:45", "04T15:15"]),
    ("Australia/Lord_Howe", "45 1 * * *", "2026-04-03T12:00:00Z", &["03T14:45", "04T14:45", "05T15:15"]),
    ("Australia/Sydney", "30 2 * * *", "2026-10-02T12:00:00Z", &["02T16:30", "04T15:30"]),
    ("Australia/Sydney", "30 2 * * *", "2026-04-03T12:00:00Z", &["03T15:30", "04T15:30", "05T16:30"]),
    ("Pacific/Auckland", "0 2 * * *", "2026-09-25T12:00:00Z", &["25T14:00", "27T13:00"]),
    ("Pacific/Auckland", "59 2 * * *", "2026-04-03T12:00:00Z", &["03T13:59", "04T13:59", "05T14:59"]),
    ("Pacific/Apia", "0 6 * * *", "2011-12-28T12:00:00Z", &["28T16:00", "29T16:00", "30T16:00"]),
    ("UTC", "30 2 * * *", "2026-03-27T12:00:00Z", &["28T02:30", "29T02:30"]),
];

#[test]
fn around_changes_of_the_clock_on_the_wall_ticks_come_as_the_rule_says() {
    for (zone, expression, after, expected) in AROUND_CHANGES {
        let recurrence = Recurrence::parse(expression, zone).unwrap();
        let ticks = recurrence.upcoming(Time::ZERO, time(after), expected.len());
        let ticks: Vec<String> = ticks.iter().map(shown).collect();
        assert_eq!(ticks, *expected, "{expression} in {zone} after {after}");
    }
}

#[test]
fn a_tick_comes_after_the_moment_it_is_looked_for_from_wherever_that_lies() {
    for (zone, expression, after, _) in AROUND_CHANGES {
        let recurrence = Recurrence::parse(expression, zone).unwrap();
        let begin = time(after);
        let end = begin + Duration::from_secs(72 * 3600);
        let all = recurrence.upcoming(Time::ZERO, begin, 200);
        let mut at = begin;
        while at < end {
            let expected = all.iter().find(|tick| **tick > at).copied();
            let found = recurrence.next_after(Time::ZERO, at).filter(|tick| all.contains(tick));
            assert_eq!(found, expected, "{expression} in {zone} after {at:?}");
            at = at + Duration::from_secs(7 * 60);
        }
    }
}

#[test]
fn fields_names_and_macros_are_read() {
    // A Monday.
    let after = time("2026-03-02T10:20:30Z");
    let cases = [
        ("*/15 * * * *", "02T10:30"),
        ("1,2 11 * * *", "02T11:01"),
        ("0 9-17/4 * * *", "02T13:00"),
        ("0 0 * * SUN", "08T00:00"),
        ("0 0 * * 7", "08T00:00"),
        ("0 0 * * 0", "08T00:00"),
        ("0 0 * jun mon-fri", "01T00:00"),
        ("0 0 L * *", "31T00:00"),
        ("0 0 15W * *", "16T00:00"),
        ("0 0 * * 5#3", "20T00:00"),
        ("0 0 * * 5L", "27T00:00"),
        ("0 0 31 4,5 *", "31T00:00"),
        ("@yearly", "01T00:00"),
        ("@annually", "01T00:00"),
        ("@monthly", "01T00:00"),
        ("@weekly", "08T00:00"),
        ("@daily", "03T00:00"),
        ("@midnight", "03T00:00"),
        ("@hourly", "02T11:00"),
        (" 0  12\t* * * ", "02T12:00"),
    ];
    for (expression, expected) in cases {
        let recurrence = Recurrence::parse(expression, "UTC").unwrap();
        assert_eq!(
            recurrence.next_after(Time::ZERO, after).as_ref().map(shown).unwrap(),
            expected,
            "{expression}"
        );
    }
}

#[test]
fn with_six_fields_the_first_has_the_seconds() {
    let recurrence = Recurrence::parse("5,*/20 30 10 * * *", "UTC").unwrap();
    let seconds: Vec<i64> = recurrence
        .upcoming(Time::ZERO, time("2026-03-02T10:29:59Z"), 5)
        .iter()
        .map(|tick| tick.as_micros() / MICROS - time("2026-03-02T10:30:00Z").as_micros() / MICROS)
        .collect();
    assert_eq!(seconds, [0, 5, 20, 40, 24 * 3600]);
    let halfway = recurrence.next_after(Time::ZERO, time("2026-03-02T10:30:05.5Z"));
    assert_eq!(halfway, Some(time("2026-03-02T10:30:20Z")));
}

#[test]
fn intervals_are_counted_from_their_anchor_and_know_no_summer_time() {
    let anchor = time("2026-03-29T00:10:00Z");
    let recurrence = Recurrence::parse("@every 1h30m", "Europe/Berlin").unwrap();
    let ticks = recurrence.upcoming(anchor, anchor, 3);
    assert_eq!(ticks.iter().map(shown).collect::<Vec<_>>(), ["29T01:40", "29T03:10", "29T04:40"]);
    assert_eq!(recurrence.next_after(anchor, ticks[1]), Some(ticks[2]));
    assert_eq!(recurrence.next_after(anchor, anchor - Duration::from_secs(86_400)), Some(anchor));
}

#[test]
fn what_cannot_be_read_is_refused_with_a_reason() {
    let bad = [
        "",
        " ",
        "not a valid cron",
        "0 0 0 0 0 0 0",
        "99 25 32 13 8",
        "*/0 * * * *",
        "60 * * * *",
        "* * * *",
        "* * * * * * UTC",
        "0 0 * * mon-",
        "5-1 * * * *",
        "60 * * * * *",
        "@fortnightly",
        "@every",
        "@every 0s",
        "@every 500ms",
        "@every 1x",
        "@every -1h",
        "@every 99999999999999999999h",
        "@every 9999h",
        "@daily 5",
        "0 0 0 * *",
        "0 0 * 0 *",
    ];
    for expression in bad {
        let refused = Recurrence::parse(expression, "UTC").unwrap_err();
        assert!(
            matches!(&refused, RecurrenceError::Expression(why) if why.starts_with("must") || why.starts_with("cannot")),
            "{expression}: {refused}"
        );
        assert!(!refused.to_string().contains('\n'), "{expression}: {refused}");
    }
    for (expression, field) in [
        ("60 * * * *", "minute `60`"),
        ("0 25 * * *", "hour `25`"),
        ("0 0 32 * *", "day of month `32`"),
        ("0 0 * 13 *", "month `13`"),
        ("0 0 * * mon-", "day of week `mon-`"),
        ("61 0 0 * * *", "second `61`"),
        ("99 25 32 13 8", "minute `99`"),
    ] {
        let refused = Recurrence::parse(expression, "UTC").unwrap_err().to_string();
        assert!(refused.starts_with(&format!("cannot be read: {field}: ")), "{expression}: {refused}");
    }
    let long = format!("{} * * * *", "1,".repeat(300));
    assert!(Recurrence::parse(&long, "UTC").is_err());
    for zone in
        ["", "EST", "CET", "+05:00", "UTC+5", "Europe/Atlantis", "../../etc/passwd", "Europe/Berlin\n"]
    {
        let refused = Recurrence::parse("@daily", zone).unwrap_err();
        assert!(matches!(refused, RecurrenceError::Zone(_)), "{zone}: {refused}");
    }
}

#[test]
fn a_day_that_never_comes_has_no_tick() {
    assert_eq!(
        Recurrence::parse("0 0 30 2 *", "Europe/Berlin").unwrap().next_after(Time::ZERO, Time::ZERO),
        None
    );
    let leap = Recurrence::parse("0 0 29 2 *", "Europe/Berlin").unwrap();
    assert_eq!(leap.next_after(Time::ZERO, time("2026-03-01T00:00:00Z")), Some(time("2028-02-28T23:00:00Z")));
    // The clock on the wall never shows it: that is the hour which is left out.
    let left_out = Recurrence::parse("30 2 * 3 0L", "Europe/Berlin").unwrap();
    assert_eq!(left_out.next_after(Time::ZERO, time("2026-03-01T00:00:00Z")), None);
}

#[test]
fn a_day_that_comes_once_in_many_years_is_found() {
    let cases: &[(&str, &str, &[&str])] = &[
        ("0 0 L * *", "2026-11-01", &["2026-11-30", "2026-12-31", "2027-01-31"]),
        ("0 0 L 12 *", "2026-11-01", &["2026-12-31", "2027-12-31"]),
        ("0 0 * * 5L", "2026-11-01", &["2026-11-27", "2026-12-25", "2027-01-29"]),
        ("0 0 * 12 5L", "2026-11-01", &["2026-12-25", "2027-12-31"]),
        ("0 0 * 12 5#5", "2026-11-01", &["2027-12-31", "2028-12-29", "2032-12-31"]),
        ("0 0 * 2 1#5", "2026-11-01", &["2044-02-29", "2072-02-29", "2112-02-29"]),
        ("0 0 29 2 *", "2096-03-01", &["2104-02-29"]),
    ];
    for (expression, after, expected) in cases {
        let recurrence = Recurrence::parse(expression, "UTC").unwrap();
        let ticks = recurrence.upcoming(Time::ZERO, time(&format!("{after}T00:00:00Z")), expected.len());
        let days: Vec<String> = ticks
            .iter()
            .map(|tick| Timestamp::from_microsecond(tick.as_micros()).unwrap().strftime("%F").to_string())
            .collect();
        assert_eq!(days, *expected, "{expression}");
    }
}

#[test]
fn zones_are_known_by_the_spelling_of_the_database() {
    assert_eq!(Recurrence::parse("@daily", "europe/berlin").unwrap().zone_name(), "Europe/Berlin");
    assert_eq!(Recurrence::parse("@daily", "utc").unwrap().zone_name(), "UTC");
}
