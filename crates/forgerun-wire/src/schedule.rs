//! What the dialects have in common about schedules: the words for when they tick, and how one is shown.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::job::{BadQueueName, Name};
use forgerun_core::limits::{CATCH_UP_MAX, JITTER_MAX, TEXT_BYTES_MAX};
use forgerun_core::schedule::{CatchUp, Overlap, TickSkip};
use serde_json::value::RawValue;

use crate::ojs::members::{Members, ViolationList};

/// When a schedule ticks, and what happens then, as its owner says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduleTerms {
    /// The cron expression.
    pub expression: String,
    /// The member it stood in.
    pub expression_member: &'static str,
    /// The time zone.
    pub zone: String,
    /// What happens while an earlier job has not ended.
    pub overlap: Overlap,
    /// What happens about missed ticks.
    pub catch_up: CatchUp,
    /// How long after its tick a job may come.
    pub jitter: Duration,
    /// Whether it makes jobs; `None` if it was not said.
    pub enabled: Option<bool>,
    /// For people.
    pub description: Option<String>,
}

/// The members that say so.
pub const TERM_MEMBERS: &[&str] = &[
    "name",
    "cron",
    "expression",
    "timezone",
    "overlap_policy",
    "catch_up",
    "catch_up_max",
    "jitter_ms",
    "enabled",
    "description",
];

/// Reads the name of a schedule.
pub fn read_name(members: &Members<'_>, violations: &mut ViolationList) -> Option<Name> {
    let kind = Kind::MalformedRequest;
    let Some(value) = members.get("name") else {
        violations.add(kind, "name", "is required", "required");
        return None;
    };
    let text: Option<String> = serde_json::from_str(value.get()).ok();
    let name = text.and_then(|text| Name::queue(&text).ok());
    if name.is_none() {
        violations.add_value(kind, "name", value, BadQueueName::RULE, "format");
    }
    name
}

/// Reads the terms of a schedule. Whether the expression and the zone mean something is not known here.
pub fn read_terms(members: &Members<'_>, violations: &mut ViolationList) -> ScheduleTerms {
    let kind = Kind::MalformedRequest;
    let expression_member = if members.get("expression").is_some() && members.get("cron").is_none() {
        "expression"
    } else {
        "cron"
    };
    let expression: Option<String> = violations.typed(
        Kind::InvalidCron,
        expression_member,
        members.get(expression_member),
        "a cron expression",
    );
    if members.get(expression_member).is_none() {
        violations.add(kind, "cron", "is required", "required");
    }
    let zone = violations.typed(kind, "timezone", members.get("timezone"), "the IANA name of a time zone");
    let description: Option<String> =
        violations.typed(kind, "description", members.get("description"), "a text");
    if description.as_ref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
        violations.add(kind, "description", format!("must have at most {TEXT_BYTES_MAX} bytes"), "maxLength");
    }
    ScheduleTerms {
        expression: expression.unwrap_or_default(),
        expression_member,
        zone: zone.unwrap_or_else(|| "UTC".to_owned()),
        overlap: overlap(members.get("overlap_policy"), violations),
        catch_up: catch_up(members, violations),
        jitter: jitter(members.get("jitter_ms"), violations),
        enabled: violations.typed(kind, "enabled", members.get("enabled"), "true or false"),
        description,
    }
}

/// One of a few words; a complaint counts as the first of them.
fn word<T: Copy>(
    name: &str,
    value: Option<&RawValue>,
    words: &[(&str, T)],
    violations: &mut ViolationList,
) -> Option<T> {
    let value = value?;
    let said: Option<String> = serde_json::from_str(value.get()).ok();
    let found = said.and_then(|said| words.iter().find(|(word, _)| *word == said)).map(|(_, meant)| *meant);
    if found.is_none() {
        let all: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        let detail = format!("must be one of {}", all.join(", "));
        violations.add_value(Kind::MalformedRequest, name, value, detail, "enum");
    }
    found
}

const OVERLAPS: [(&str, Overlap); 4] = [
    ("skip", Overlap::Skip),
    ("allow", Overlap::Allow),
    ("cancel_previous", Overlap::CancelPrevious),
    ("enqueue", Overlap::Enqueue),
];

fn overlap(value: Option<&RawValue>, violations: &mut ViolationList) -> Overlap {
    word("overlap_policy", value, &OVERLAPS, violations).unwrap_or_default()
}

fn catch_up(members: &Members<'_>, violations: &mut ViolationList) -> CatchUp {
    let words =
        [("none", CatchUp::Nothing), ("one", CatchUp::One), ("all", CatchUp::All(CATCH_UP_MAX as u32))];
    let policy = word("catch_up", members.get("catch_up"), &words, violations).unwrap_or_default();
    let Some(value) = members.get("catch_up_max") else { return policy };
    let max: Option<u32> = serde_json::from_str(value.get()).ok();
    match (policy, max) {
        (CatchUp::All(_), Some(max)) if (1..=CATCH_UP_MAX as u32).contains(&max) => CatchUp::All(max),
        (CatchUp::All(_), _) => {
            let detail = format!("must be a whole number between 1 and {CATCH_UP_MAX}");
            violations.add_value(Kind::MalformedRequest, "catch_up_max", value, detail, "range");
            policy
        }
        (CatchUp::Nothing | CatchUp::One, _) => {
            violations.add_value(
                Kind::MalformedRequest,
                "catch_up_max",
                value,
                "is for catch_up all",
                "forbidden",
            );
            policy
        }
    }
}

fn jitter(value: Option<&RawValue>, violations: &mut ViolationList) -> Duration {
    let Some(value) = value else { return Duration::ZERO };
    let max = JITTER_MAX.as_millis() as u64;
    let millis: Option<u64> = serde_json::from_str(value.get()).ok().filter(|millis| *millis <= max);
    if millis.is_none() {
        let detail = format!("must be a whole number of milliseconds, at most {max}");
        violations.add_value(Kind::MalformedRequest, "jitter_ms", value, detail, "range");
    }
    Duration::from_millis(millis.unwrap_or(0))
}

/// The word for what happens while an earlier job has not ended.
pub const fn overlap_word(overlap: Overlap) -> &'static str {
    match overlap {
        Overlap::Skip => "skip",
        Overlap::Allow => "allow",
        Overlap::CancelPrevious => "cancel_previous",
        Overlap::Enqueue => "enqueue",
    }
}

/// The word for what happens about missed ticks, and how many are made up for at most.
pub const fn catch_up_word(catch_up: CatchUp) -> (&'static str, Option<u32>) {
    match catch_up {
        CatchUp::Nothing => ("none", None),
        CatchUp::One => ("one", None),
        CatchUp::All(max) => ("all", Some(max)),
    }
}

/// The word for why a tick made no job.
pub const fn skip_word(why: TickSkip) -> &'static str {
    match why {
        TickSkip::Overlap => "overlap_skip",
        TickSkip::Duplicate => "duplicate",
        TickSkip::Refused => "refused",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(body: &str) -> Result<ScheduleTerms, (Kind, Vec<String>)> {
        let members = Members::of_body(body.as_bytes()).unwrap();
        let mut violations = ViolationList::default();
        read_name(&members, &mut violations);
        let terms = read_terms(&members, &mut violations);
        violations.settle(Some(terms)).map_err(|refused| {
            (refused.kind, refused.violations.iter().map(|violation| violation.pointer.clone()).collect())
        })
    }

    #[test]
    fn what_is_left_out_has_a_default() {
        let terms = read(r#"{"name":"nightly","cron":"@daily"}"#).unwrap();
        let expected = ScheduleTerms {
            expression: "@daily".into(),
            expression_member: "cron",
            zone: "UTC".into(),
            overlap: Overlap::Skip,
            catch_up: CatchUp::One,
            jitter: Duration::ZERO,
            enabled: None,
            description: None,
        };
        assert_eq!(terms, expected);
        assert_eq!(read(r#"{"name":"a","expression":"@daily"}"#).unwrap().expression_member, "expression");
    }

    #[test]
    fn all_words_are_read_and_said_again() {
        for (said, overlap) in OVERLAPS {
            let body = format!(r#"{{"name":"a","cron":"@daily","overlap_policy":"{said}"}}"#);
            assert_eq!(read(&body).unwrap().overlap, overlap);
            assert_eq!(overlap_word(overlap), said);
        }
        for (said, expected) in [
            (r#""none""#, ("none", None)),
            (r#""one""#, ("one", None)),
            (r#""all""#, ("all", Some(100))),
            (r#""all","catch_up_max":7"#, ("all", Some(7))),
        ] {
            let body = format!(r#"{{"name":"a","cron":"@daily","catch_up":{said}}}"#);
            assert_eq!(catch_up_word(read(&body).unwrap().catch_up), expected);
        }
    }

    #[test]
    fn everything_that_is_wrong_is_named() {
        let cases = [
            (r#"{}"#, Kind::MalformedRequest, vec!["#/name", "#/cron"]),
            (r#"{"name":"A b","cron":5}"#, Kind::MalformedRequest, vec!["#/name", "#/cron"]),
            (r#"{"name":"a","cron":5}"#, Kind::InvalidCron, vec!["#/cron"]),
            (
                r#"{"name":"a","cron":"@daily","timezone":1,"overlap_policy":"x","catch_up":"y","jitter_ms":-1,"enabled":"no","description":[]}"#,
                Kind::MalformedRequest,
                vec![
                    "#/timezone",
                    "#/description",
                    "#/overlap_policy",
                    "#/catch_up",
                    "#/jitter_ms",
                    "#/enabled",
                ],
            ),
            (
                r#"{"name":"a","cron":"@daily","catch_up":"all","catch_up_max":101}"#,
                Kind::MalformedRequest,
                vec!["#/catch_up_max"],
            ),
            (
                r#"{"name":"a","cron":"@daily","catch_up_max":1}"#,
                Kind::MalformedRequest,
                vec!["#/catch_up_max"],
            ),
        ];
        for (body, kind, pointers) in cases {
            let pointers: Vec<String> = pointers.into_iter().map(str::to_owned).collect();
            assert_eq!(read(body), Err((kind, pointers)), "{body}");
        }
    }
}
