//! Judging someone's problem object: how far it conforms, what it breaks, and how to mend that.
//!
//! Readers forgive; this module does not. It looks at the raw JSON object and lists every broken
//! MUST and SHOULD it can see from the outside, each with the id of the requirement in the
//! project's catalogue (`PD-` for draft-ietf-httpapi-rfc7807bis-04, `AJ-` for the async-job draft)
//! and a sentence on how to mend it. What only the maker can know (is this the right title? is the
//! id unguessable?) is not judged.
//!
//! ```
//! use forgerun_problem::check::{Level, inspect_json};
//!
//! let report = inspect_json(br#"{"jobId": "42", "jobStatus": "PROCESSING", "completedAt": "2026-02-26T10:00:00Z"}"#)?;
//! assert_eq!(report.level, Level::Basic);
//! let finding = report.musts().next().unwrap();
//! assert_eq!((finding.requirement, finding.member.as_str()), ("AJ-AJM-09", "completedAt"));
//! println!("{finding}");
//! # Ok::<(), forgerun_problem::read::ReadError>(())
//! ```

mod batch;
mod job;
mod standard;

use std::fmt;

use serde_json::{Map, Value};

use crate::limits::{DOCUMENT_BYTES_MAX, FINDINGS_MAX};
use crate::member::JOB_NAMES;
use crate::problem::Problem;
use crate::read::{ReadError, Syntax};

/// How far an object uses the async-job members. Members of the wrong type do not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Not at all.
    None,
    /// At least one of them.
    Basic,
    /// `jobId`, `jobStatus` and `submittedAt`.
    Full,
}

/// How strongly a requirement is worded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Strength {
    /// MUST or MUST NOT.
    Must,
    /// SHOULD, SHOULD NOT or RECOMMENDED.
    Should,
}

/// A requirement the object breaks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The requirement's id.
    pub requirement: &'static str,
    /// How strongly it is worded.
    pub strength: Strength,
    /// The member it is about; empty for the object as a whole.
    pub member: String,
    /// How to mend it: one sentence.
    pub mend: &'static str,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let strength = match self.strength {
            Strength::Must => "MUST",
            Strength::Should => "SHOULD",
        };
        write!(f, "{strength} {} {}: {}", self.requirement, self.member, self.mend)
    }
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// How far the object uses the async-job members.
    pub level: Level,
    /// What it breaks, in the order of the checks; at most [`FINDINGS_MAX`].
    pub findings: Vec<Finding>,
}

impl Report {
    /// The broken MUSTs.
    pub fn musts(&self) -> impl Iterator<Item = &Finding> {
        self.findings.iter().filter(|finding| finding.strength == Strength::Must)
    }

    /// Whether no MUST is broken.
    #[must_use]
    pub fn conforms(&self) -> bool {
        self.musts().next().is_none()
    }
}

/// How the object travelled, as far as it matters for its members.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Carrier {
    /// Not known: nothing is said about `status`.
    #[default]
    Unknown,
    /// The response to a request that failed, with this status code.
    Response(u16),
    /// A stored report, message, webhook or event: `status` is the job's, not the carrier's.
    Report,
}

/// Judges an object of which nothing more is known.
#[must_use]
pub fn inspect(object: &Map<String, Value>) -> Report {
    inspect_on(object, Carrier::Unknown)
}

/// Judges an object and how it was carried.
#[must_use]
pub fn inspect_on(object: &Map<String, Value>, carrier: Carrier) -> Report {
    let mut inspection = Inspection { object, findings: Vec::new() };
    standard::inspect(&mut inspection, carrier);
    job::inspect(&mut inspection, carrier);
    batch::inspect(&mut inspection);
    Report { level: level(object), findings: inspection.findings }
}

/// Judges a JSON document.
///
/// # Errors
/// When the document is larger than [`DOCUMENT_BYTES_MAX`], not JSON or not an object.
pub fn inspect_json(document: &[u8]) -> Result<Report, ReadError> {
    if document.len() > DOCUMENT_BYTES_MAX {
        return Err(ReadError::TooLarge { bytes_max: DOCUMENT_BYTES_MAX });
    }
    match serde_json::from_slice(document) {
        Ok(Value::Object(object)) => Ok(inspect(&object)),
        Ok(_) => Err(ReadError::NotAProblem),
        Err(error) => Err(ReadError::Malformed { syntax: Syntax::Json, reason: error.to_string() }),
    }
}

/// Judges a problem of this library's making. It can not break a MUST, but it can be mended where
/// it breaks a SHOULD.
#[must_use]
pub fn inspect_problem(problem: &Problem) -> Report {
    match serde_json::to_value(problem) {
        Ok(Value::Object(object)) => inspect(&object),
        _ => unreachable!("a problem serialises to an object"),
    }
}

fn level(object: &Map<String, Value>) -> Level {
    let has = |name: &str| object.get(name).is_some_and(|value| has_defined_type(name, value));
    if ["jobId", "jobStatus", "submittedAt"].into_iter().all(has) {
        Level::Full
    } else if JOB_NAMES.into_iter().any(has) {
        Level::Basic
    } else {
        Level::None
    }
}

/// Whether a defined member has the JSON type its document gives it.
fn has_defined_type(name: &str, value: &Value) -> bool {
    match name {
        "status" => value.is_number(),
        "retryable" => value.is_boolean(),
        "retryAfter" => value.as_f64().is_some_and(|number| number >= 0.0 && number.fract() == 0.0),
        "results" => value.is_array(),
        _ => value.is_string(),
    }
}

/// An object being judged, and what was found so far.
struct Inspection<'a> {
    object: &'a Map<String, Value>,
    findings: Vec<Finding>,
}

impl<'a> Inspection<'a> {
    fn text(&self, name: &str) -> Option<&'a str> {
        self.object.get(name).and_then(Value::as_str)
    }

    fn must(&mut self, requirement: &'static str, member: &str, mend: &'static str) {
        self.find(Strength::Must, requirement, member, mend);
    }

    fn should(&mut self, requirement: &'static str, member: &str, mend: &'static str) {
        self.find(Strength::Should, requirement, member, mend);
    }

    fn find(&mut self, strength: Strength, requirement: &'static str, member: &str, mend: &'static str) {
        if self.findings.len() >= FINDINGS_MAX {
            return;
        }
        self.findings.push(Finding { requirement, strength, member: member.to_owned(), mend });
    }
}
