//! What bodies of requests have in common: read as an object, refused with everything that is wrong.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::limits::{EXECUTIONS_MAX, NAME_BYTES_MAX};
use forgerun_core::retry::Mode;
use forgerun_core::time::Time;
use forgerun_core::work::{Behaviour, WorkKind};
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::hint::nearest;
use crate::language::Language;
use crate::ojs::duration;
use crate::problem::{RefusedRequest, Violation, summary};
use crate::{readable, time};

/// The longest value of a client that a message quotes whole.
const QUOTED_CHARS_MAX: usize = 64;

/// Labels of one job on `/v1` and `/api/v1`.
pub const TAGS_MAX: usize = 16;

/// Bytes of one of them.
pub const TAG_BYTES_MAX: usize = 64;

/// The members of a body.
pub fn object(body: &[u8]) -> Result<Map<String, Value>, Box<RefusedRequest>> {
    let malformed = |detail: String| Box::new(RefusedRequest::new(Kind::MalformedRequest, detail));
    if body.trim_ascii().is_empty() {
        return Err(malformed("The body is empty; a JSON object is needed.".into()));
    }
    match serde_json::from_slice(body) {
        Ok(Value::Object(members)) => Ok(members),
        Ok(_) => Err(malformed("The body is not a JSON object.".into())),
        Err(error) => match std::str::from_utf8(body).ok().zip(readable::walk(body).unreadable) {
            Some((body, place)) if serde_json::from_str::<&RawValue>(body).is_ok() => {
                Err(readable::refused(body, place))
            }
            Some(_) | None => Err(malformed(format!("The body is not JSON: {error}."))),
        },
    }
}

/// A refusal that names everything that is wrong, in the order in which the members are documented.
pub fn refused(kind: Kind, mut violations: Vec<Violation>, documented: &[&str]) -> Box<RefusedRequest> {
    violations.sort_by_key(|violation| {
        documented.iter().position(|name| first_member(&violation.pointer) == *name)
    });
    Box::new(RefusedRequest::new(kind, summary(&violations, Language::English)).violations(violations))
}

fn first_member(pointer: &str) -> &str {
    pointer.trim_start_matches("#/").split('/').next().unwrap_or_default()
}

/// One thing wrong with a member; with the body itself if the name is empty.
pub fn violation(name: &str, detail: &str, constraint: &'static str) -> Violation {
    let pointer = if name.is_empty() { "#".to_owned() } else { format!("#/{name}") };
    Violation { pointer, detail: detail.into(), constraint }
}

/// A value of a client as a message quotes it: without control characters, and cut where it is long.
pub fn quoted(word: &str) -> String {
    let mut chars = word.chars().filter(|c| !c.is_control());
    let short: String = chars.by_ref().take(QUOTED_CHARS_MAX).collect();
    if chars.next().is_some() { format!("{short}…") } else { short }
}

/// The kind of work that a word names, in any case.
pub fn work_kind(word: &str) -> Result<WorkKind, Violation> {
    match WorkKind::parse(&word.to_ascii_uppercase()) {
        Some(kind) if kind.behaviour() == Behaviour::Refused => {
            let detail = "asks for a payload that is not valid, so it is refused";
            Err(violation("work_kind", detail, "payload"))
        }
        Some(kind) => Ok(kind),
        None => Err(violation("work_kind", &no_work_kind(word), "enum")),
    }
}

fn no_work_kind(word: &str) -> String {
    let word = quoted(word);
    let kinds = WorkKind::ALL.iter().map(|kind| kind.as_str());
    match nearest(&word, kinds) {
        Some(near) => format!("must be a kind of work, not `{word}`; did you mean `{near}`?"),
        None => format!("must be one of the kinds of work that /openapi.json lists, not `{word}`"),
    }
}

/// What is wrong with the text of a job's type under `/api/v1`, with the rule it breaks.
pub(crate) fn bad_job_type(text: &str) -> Option<(Kind, &'static str, &'static str)> {
    if text.len() > NAME_BYTES_MAX {
        return Some((Kind::JobTypeTooLong, "must have at most 255 bytes", "maxLength"));
    }
    let says_nothing = text.trim().is_empty() || text.chars().any(char::is_control);
    let detail = "must say something, without control characters";
    says_nothing.then_some((Kind::UnknownJobType, detail, "format"))
}

/// A priority within its bounds.
pub fn priority(number: i64) -> Result<i16, Violation> {
    let priority = i16::try_from(number).ok().filter(|priority| (-100..=100).contains(priority));
    priority.ok_or_else(|| violation("priority", "must lie between -100 and 100", "range"))
}

/// How often to retry, within its bounds.
pub fn max_retries(member: &str, number: i64) -> Result<u32, Violation> {
    let retries = u32::try_from(number).ok().filter(|retries| (*retries as usize) < EXECUTIONS_MAX);
    let detail = || format!("must lie between 0 and {}", EXECUTIONS_MAX - 1);
    retries.ok_or_else(|| violation(member, &detail(), "range"))
}

/// A span above zero, as people write it.
pub fn span(member: &str, text: &str) -> Result<Duration, Violation> {
    let span = duration::short(text).filter(|span| !span.is_zero() && *span <= duration::LONGEST);
    span.ok_or_else(|| {
        violation(member, "must be a duration above zero, such as 1500ms, 30s or 1h30m", "format")
    })
}

/// The moment by which a job must have ended, as a client gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deadline {
    /// So long after the submission.
    After(Duration),
    /// At this time.
    At(Time),
}

impl Deadline {
    /// The moment for a job that is submitted at `now`.
    pub fn moment(self, now: Time) -> Time {
        match self {
            Deadline::After(span) => now + span,
            Deadline::At(at) => at,
        }
    }
}

/// A deadline: a span above zero, read by `span`, or an RFC 3339 time.
pub(crate) fn parse_deadline(text: &str, span: fn(&str) -> Option<Duration>) -> Option<Deadline> {
    let after = span(text).filter(|span| !span.is_zero() && *span <= duration::LONGEST);
    after.map(Deadline::After).or_else(|| time::parse(text).map(Deadline::At))
}

/// A deadline as people write it.
pub fn deadline(text: &str) -> Result<Deadline, Violation> {
    let detail = "must be a duration above zero, such as 30s or 1h30m, or a time like 2030-01-31T12:00:00Z";
    parse_deadline(text, duration::short).ok_or_else(|| violation("deadline", detail, "format"))
}

/// Labels of a job, each once.
pub fn tags(tags: Vec<String>) -> Result<Vec<String>, Violation> {
    let is_tag_byte = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._:-".contains(&b);
    let is_tag = |tag: &String| (1..=TAG_BYTES_MAX).contains(&tag.len()) && tag.bytes().all(is_tag_byte);
    if tags.len() > TAGS_MAX {
        return Err(violation("tags", &format!("must be at most {TAGS_MAX}"), "maxItems"));
    }
    if let Some(place) = tags.iter().position(|tag| !is_tag(tag)) {
        let detail =
            format!("must have 1 to {TAG_BYTES_MAX} of the characters a-z, 0-9, `.`, `_`, `:` and `-`");
        return Err(violation(&format!("tags/{place}"), &detail, "pattern"));
    }
    if let Some(place) = (1..tags.len()).find(|&place| tags[..place].contains(&tags[place])) {
        return Err(violation(&format!("tags/{place}"), "is there twice", "uniqueItems"));
    }
    Ok(tags)
}

/// Who starts retries, by the word for it.
pub fn retry_mode(member: &str, word: &str) -> Result<Mode, Violation> {
    match word.to_ascii_lowercase().as_str() {
        "manual" => Ok(Mode::Manual),
        "auto" => Ok(Mode::Auto),
        _ => Err(violation(member, "must be manual or auto", "enum")),
    }
}
