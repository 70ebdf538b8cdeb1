//! Redrives: what is asked, and what is answered.

use forgerun_core::catalog::Kind;
use forgerun_core::job::Job;
use forgerun_core::redrive::RedriveTerms;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::rate::read_rate;
use crate::body::{self, violation};
use crate::problem::{RefusedRequest, Violation};
use crate::request_body;

request_body! {
    /// How to try again.
    pub REDRIVE = "RedriveRequest" {
        /// Only report what would be done.
        "dry_run": or(maybe(truth()), false),
        /// At most so many jobs.
        "limit": maybe(at_least(1)),
        /// So many per second; as fast as possible if absent.
        "rate_per_s": rate(),
        /// Stop once so many have failed again; null for never.
        "max_failures": or(maybe(at_least(1)), FAILURES_MAX),
    }
    ; examples {
        "preview": {"value": {"dry_run": true}},
        "slowly": {"value": {"limit": 100, "rate_per_s": 0.5, "max_failures": 3}},
    }
}

/// How many redriven jobs may fail again before a redrive stops, unless the request says otherwise.
const FAILURES_MAX: u64 = 10;

/// A redrive to be, whose shape is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedriveRequest {
    /// Only say what would be done.
    pub dry_run: bool,
    /// What is asked.
    pub terms: RedriveTerms,
}

/// Reads the body of a redrive; nothing is needed.
pub fn read_redrive(bytes: &[u8]) -> Result<RedriveRequest, Box<RefusedRequest>> {
    let members = if bytes.is_empty() { Map::new() } else { body::object(bytes)? };
    let mut wrong: Vec<Violation> = Vec::new();
    let dry_run = match members.get("dry_run") {
        None | Some(Value::Null) => false,
        Some(Value::Bool(dry_run)) => *dry_run,
        Some(_) => {
            wrong.push(violation("dry_run", "must be true or false", "type"));
            false
        }
    };
    let mut number = |name: &str| match members.get(name) {
        None | Some(Value::Null) => None,
        Some(value) => {
            let number = value.as_u64().filter(|number| *number > 0);
            if number.is_none() {
                wrong.push(violation(name, "must be an integer of at least 1, or null", "minimum"));
            }
            number
        }
    };
    let limit = number("limit");
    let failures_max = match members.get("max_failures") {
        None => Some(FAILURES_MAX),
        Some(_) => number("max_failures"),
    };
    let per_1000_s = read_rate(&members, &mut wrong).flatten().map(u64::from);
    if !wrong.is_empty() {
        return Err(body::refused(Kind::InvalidArgs, wrong, REDRIVE.members));
    }
    Ok(RedriveRequest { dry_run, terms: RedriveTerms { limit, per_1000_s, failures_max } })
}

/// What a redrive would do.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(extend("required" = ["matched"])))]
pub struct RedrivePreview {
    /// Always true.
    pub dry_run: bool,
    /// How many jobs stand failed for this reason.
    pub matched: u64,
    /// How many of them would be tried again.
    pub would_redrive: u64,
    /// The first of them, oldest first.
    pub jobs: Vec<String>,
    /// How long it would take at the rate, in seconds; null without a rate.
    // Null comes first, so that it stays: this member is left out only where nothing is left to do.
    #[cfg_attr(feature = "schema", schemars(extend("type" = ["null", "integer"])))]
    pub takes_s: Option<u64>,
}

impl RedrivePreview {
    /// The preview of a redrive that begins with these jobs.
    pub fn new(matched: u64, would_redrive: u64, terms: &RedriveTerms, first: &[Job]) -> RedrivePreview {
        let takes_s = terms.per_1000_s.map(|rate| would_redrive.saturating_mul(1000).div_ceil(rate.max(1)));
        let jobs = first.iter().map(|job| job.id.to_string()).collect();
        RedrivePreview { dry_run: true, matched, would_redrive, jobs, takes_s }
    }
}

/// A redrive has begun.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RedriveStarted {
    /// Its own job.
    pub job_id: String,
    /// How many jobs stand failed for this reason.
    pub matched: u64,
    /// How many of them are tried again: each begins another execution, which may fail again.
    pub will_redrive: u64,
}

/// There is nothing to redrive.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub struct RedriveUseless {
    /// Zero.
    pub matched: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_with_its_defaults_and_nonsense_is_refused() {
        let default = RedriveTerms { limit: None, per_1000_s: None, failures_max: Some(FAILURES_MAX) };
        let read = |text: &str| read_redrive(text.as_bytes());
        assert_eq!(read("").unwrap(), RedriveRequest { dry_run: false, terms: default });
        let full = r#"{"dry_run":true,"limit":5,"rate_per_s":0.5,"max_failures":null}"#;
        let terms = RedriveTerms { limit: Some(5), per_1000_s: Some(500), failures_max: None };
        assert_eq!(read(full).unwrap(), RedriveRequest { dry_run: true, terms });
        for wrong in [
            r#"{"limit":0}"#,
            r#"{"rate_per_s":-1}"#,
            r#"{"rate_per_s":"7"}"#,
            r#"{"dry_run":1}"#,
            r#"{"max_failures":1.5}"#,
        ] {
            assert_eq!(read(wrong).unwrap_err().violations.len(), 1, "{wrong}");
        }
    }

    #[test]
    fn a_preview_tells_how_long_it_would_take() {
        let terms = RedriveTerms { per_1000_s: Some(2500), ..RedriveTerms::default() };
        assert_eq!(RedrivePreview::new(10, 6, &terms, &[]).takes_s, Some(3));
        assert_eq!(RedrivePreview::new(10, 6, &RedriveTerms::default(), &[]).takes_s, None);
    }
}
