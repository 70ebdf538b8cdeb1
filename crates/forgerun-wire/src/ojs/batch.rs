//! Many envelopes in one body: a batch, all or none, and bulk, each for itself.

use forgerun_core::catalog::Kind;
use forgerun_core::limits::SUBMISSION_JOBS_MAX;
use serde_json::value::RawValue;

use super::envelope::{JobEnvelope, Rules, read_members};
use super::members::{Members, ViolationList};
use crate::language::Language;
use crate::problem::{RefusedRequest, summary};

/// What is wrong with envelopes, as far as a refusal names it. Whoever made this many mistakes made one.
const VIOLATIONS_MAX: usize = 20;

/// Reads `{jobs: […]}`; one envelope with a fault refuses all. The refusal is that of the first, `details.index` tells which, and
/// it names what is wrong with the others too.
pub fn read_batch(body: &[u8], rules: Rules<'_>) -> Result<Vec<JobEnvelope>, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let (mut good, mut bad): (Vec<JobEnvelope>, Option<Box<RefusedRequest>>) = (Vec::new(), None);
    for (index, job) in jobs(&members)?.into_iter().enumerate() {
        match (read_one(job, index, rules), &mut bad) {
            (Ok(job), _) => good.push(job),
            (Err(refused), None) => bad = Some(refused),
            (Err(refused), Some(first)) if first.violations.len() < VIOLATIONS_MAX => {
                first.violations.extend(refused.violations);
            }
            (Err(_), Some(_)) => break,
        }
    }
    match bad {
        None => Ok(good),
        Some(mut refused) => {
            refused.violations.truncate(VIOLATIONS_MAX);
            refused.detail = summary(&refused.violations, Language::English);
            Err(refused)
        }
    }
}

/// Many jobs, each accepted or refused for itself.
#[derive(Debug)]
pub struct BulkRequest {
    /// One refusal refuses all.
    pub atomic: bool,
    /// Makes a repetition harmless.
    pub idempotency_key: Option<String>,
    /// In the order of the request.
    pub jobs: Vec<Result<JobEnvelope, Box<RefusedRequest>>>,
}

/// Reads `{atomicity, idempotency_key, jobs: […]}`.
pub fn read_bulk(body: &[u8], rules: Rules<'_>) -> Result<BulkRequest, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    let kind = Kind::MalformedRequest;
    let word: Option<String> = violations.typed(kind, "atomicity", members.get("atomicity"), "a string");
    let atomic = match word.as_deref() {
        None | Some("partial") => false,
        Some("atomic") => true,
        Some(_) => {
            violations.add(kind, "atomicity", "must be partial or atomic", "enum");
            false
        }
    };
    let name = "idempotency_key";
    let idempotency_key = violations.typed(kind, name, members.get(name), "a string");
    violations.settle(Some(()))?;
    let jobs = jobs(&members)?;
    let jobs = jobs.iter().enumerate().map(|(index, job)| read_one(job, index, rules)).collect();
    Ok(BulkRequest { atomic, idempotency_key, jobs })
}

fn jobs<'a>(members: &Members<'a>) -> Result<Vec<&'a RawValue>, Box<RefusedRequest>> {
    let mut violations = ViolationList::default();
    let kind = Kind::MalformedRequest;
    let Some(value) = members.get("jobs") else {
        violations.add(kind, "jobs", "is required", "required");
        return violations.settle(None);
    };
    let jobs: Option<Vec<&'a RawValue>> = serde_json::from_str(value.get()).ok();
    match &jobs {
        None => violations.add(kind, "jobs", "must be a list of job envelopes", "type"),
        Some(jobs) if jobs.is_empty() => {
            violations.add(kind, "jobs", format!("must have 1 to {SUBMISSION_JOBS_MAX} entries"), "minItems");
        }
        Some(jobs) if jobs.len() > SUBMISSION_JOBS_MAX => {
            let detail = format!("must have 1 to {SUBMISSION_JOBS_MAX} entries, not {}", jobs.len());
            violations.add(Kind::JobPayloadTooLarge, "jobs", detail, "maxItems");
        }
        Some(_) => {}
    }
    violations.settle(jobs)
}

fn read_one(job: &RawValue, index: usize, rules: Rules<'_>) -> Result<JobEnvelope, Box<RefusedRequest>> {
    let at = format!("jobs.{index}.");
    let read = match Members::of_value(job) {
        Some(members) => read_members(members, &at, rules),
        None => {
            let mut violations = ViolationList::default();
            let path = at.trim_end_matches('.');
            violations.add(Kind::MalformedRequest, path, "must be an object", "type");
            violations.settle(None)
        }
    };
    read.map_err(|refused| Box::new((*refused).fact("index", index)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use forgerun_core::time::Time;

    fn rules() -> Rules<'static> {
        Rules { now: Time::ZERO, tenant: None, strict_catalog: false, test_hooks: false }
    }

    #[test]
    fn one_bad_envelope_refuses_a_batch_and_says_which() {
        let good = br#"{"jobs":[{"type":"a","args":[]},{"type":"b","args":[]}]}"#;
        assert_eq!(read_batch(good, rules()).unwrap().len(), 2);
        let refused =
            read_batch(br#"{"jobs":[{"type":"a","args":[]},{"type":"B","args":[]}]}"#, rules()).unwrap_err();
        assert_eq!(refused.kind, Kind::UnknownJobType);
        assert_eq!(
            (&refused.details["index"], &refused.details["field"]),
            (&1.into(), &"jobs.1.type".into())
        );
        let body = br#"{"jobs":[{"type":"B","args":[]},{"type":"a","args":[]},{"type":"a","args":[],"priority":[]},7]}"#;
        let refused = read_batch(body, rules()).unwrap_err();
        let pointers: Vec<&str> = refused.violations.iter().map(|violation| &*violation.pointer).collect();
        assert_eq!(pointers, ["#/jobs/0/type", "#/jobs/2/priority", "#/jobs/3"]);
        assert_eq!((refused.kind, &refused.details["index"]), (Kind::UnknownJobType, &0.into()));
        let many = format!(r#"{{"jobs":[{}7]}}"#, "7,".repeat(50));
        assert_eq!(read_batch(many.as_bytes(), rules()).unwrap_err().violations.len(), 20);
        for bad in ["{}", r#"{"jobs":[]}"#, r#"{"jobs":{}}"#, r#"{"jobs":[1]}"#, "[]", ""] {
            assert_eq!(
                read_batch(bad.as_bytes(), rules()).unwrap_err().kind,
                Kind::MalformedRequest,
                "{bad}"
            );
        }
        let many = format!(r#"{{"jobs":[{}1]}}"#, "1,".repeat(SUBMISSION_JOBS_MAX));
        assert_eq!(read_batch(many.as_bytes(), rules()).unwrap_err().details["constraint"], "maxItems");
        assert_eq!(read_batch(br#"{"jobs":[]}"#, rules()).unwrap_err().details["constraint"], "minItems");
    }

    #[test]
    fn bulk_takes_each_for_itself() {
        let body = br#"{"atomicity":"partial","jobs":[{"type":"a","args":[]},{"args":[]}]}"#;
        let bulk = read_bulk(body, rules()).unwrap();
        assert!(!bulk.atomic && bulk.jobs[0].is_ok() && bulk.jobs[1].is_err());
        assert!(read_bulk(br#"{"atomicity":"maybe","jobs":[{}]}"#, rules()).is_err());
    }
}
