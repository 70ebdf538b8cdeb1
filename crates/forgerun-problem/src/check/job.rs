//! The async-job members.

use serde_json::Value;

use super::{Carrier, Inspection, Level, has_defined_type, level};
use crate::correlation::is_harmless;
use crate::job_status::JobStatus;
use crate::limits::CORRELATION_CHARS_MAX;
use crate::member::{JOB_NAMES, STANDARD_NAMES};
use crate::timestamp::{Timestamp, TimestampError};
use crate::uri::ABOUT_BLANK;

pub(super) fn inspect(inspection: &mut Inspection<'_>, carrier: Carrier) {
    nesting(inspection);
    types(inspection);
    if level(inspection.object) == Level::None {
        return;
    }
    presence(inspection);
    identity(inspection);
    state(inspection);
    times(inspection);
    retry(inspection);
    correlation(inspection);
    equivalent_status(inspection, carrier);
}

/// The members belong to the top level; an object inside that looks like a job has been put one too
/// deep.
fn nesting(inspection: &mut Inspection<'_>) {
    let object = inspection.object;
    for (name, value) in object.iter().filter(|(name, _)| !STANDARD_NAMES.contains(&name.as_str())) {
        let looks_like_a_job = value.get("jobId").is_some() || value.get("jobStatus").is_some();
        if looks_like_a_job && level(object) == Level::None {
            inspection.must("AJ-AJM-01", name, "put the job's members at the top level of the object");
        }
    }
}

fn types(inspection: &mut Inspection<'_>) {
    for name in JOB_NAMES {
        if inspection.object.get(name).is_none_or(|value| has_defined_type(name, value)) {
            continue;
        }
        let (requirement, mend) = match name {
            "jobId" => ("AJ-AJM-04", "make it a JSON string"),
            "submittedAt" => ("AJ-AJM-07", "make it an RFC 3339 time in a JSON string"),
            "completedAt" => ("AJ-AJM-08", "make it an RFC 3339 time in a JSON string"),
            "retryable" => ("AJ-AJM-10", "make it true or false, without quotes"),
            "retryAfter" => ("AJ-AJM-20", "make it a whole number of seconds, not below 0"),
            "results" => ("AJ-BAT-01", "make it an array of objects"),
            _ => ("AJ-AJM-20", "make it a JSON string"),
        };
        inspection.must(requirement, name, mend);
    }
}

fn presence(inspection: &mut Inspection<'_>) {
    for name in ["jobId", "jobStatus", "submittedAt"] {
        if !inspection.object.contains_key(name) {
            inspection.should("AJ-AJM-03", name, "add it, so that the report is fully conformant");
        }
    }
    if inspection.text("type").is_none_or(|uri| uri == ABOUT_BLANK) && is_failure(inspection) {
        inspection.should("AJ-AJM-16", "type", "name the kind of failure by a URI of your own");
    }
    if inspection.text("instance").is_none() && is_failure(inspection) {
        inspection.should("AJ-AJM-17", "instance", "add the URI of the job's status resource");
    }
}

fn identity(inspection: &mut Inspection<'_>) {
    if inspection.text("jobId").is_some_and(|id| !is_uuid(id)) {
        inspection.should("AJ-AJM-05", "jobId", "use a UUID, best of version 7");
    }
}

fn state(inspection: &mut Inspection<'_>) {
    let Some(name) = inspection.text("jobStatus") else {
        return;
    };
    let status = JobStatus::new(name);
    let JobStatus::Other(_) = status else {
        if name == "FAILED" && inspection.text("detail").is_none_or(str::is_empty) {
            inspection.should("AJ-AJM-21", "detail", "say what made the job fail");
        }
        return;
    };
    if status.is_misspelt() {
        inspection.must(
            "AJ-STM-02",
            "jobStatus",
            "write the registered state in capitals, exactly as registered",
        );
    } else if !is_upper_snake(name) {
        inspection.should("AJ-STM-03", "jobStatus", "write states of your own in UPPER_SNAKE_CASE");
    }
}

fn times(inspection: &mut Inspection<'_>) {
    for (name, requirement) in [("submittedAt", "AJ-AJM-07"), ("completedAt", "AJ-AJM-08")] {
        match inspection.text(name).map(Timestamp::parse) {
            Some(Err(TimestampError::NotUtc)) => {
                inspection.must(requirement, name, "convert it to UTC and end it with Z");
            }
            Some(Err(TimestampError::Malformed | TimestampError::OutOfRange)) => {
                inspection.must(requirement, name, "write it like 2026-02-26T10:00:00Z");
            }
            Some(Ok(_)) | None => {}
        }
    }
    let Some(status) = inspection.text("jobStatus").map(JobStatus::new) else {
        return;
    };
    // A state of the server's own may be documented as terminal; only the registered ones are
    // certain.
    let (unfinished, finished) = match status {
        JobStatus::Other(_) => (false, false),
        registered => (!registered.is_terminal(), registered.is_terminal()),
    };
    let completed = inspection.object.contains_key("completedAt");
    if unfinished && completed {
        inspection.must(
            "AJ-AJM-09",
            "completedAt",
            "leave it out until the job has reached a terminal state",
        );
    }
    if finished && !completed {
        inspection.should(
            "AJ-AJM-08",
            "completedAt",
            "add the time at which the job reached its terminal state",
        );
    }
}

fn retry(inspection: &mut Inspection<'_>) {
    let retryable = inspection.object.get("retryable").and_then(Value::as_bool).unwrap_or(false);
    let retry_after = inspection.object.contains_key("retryAfter");
    if retryable && !retry_after {
        inspection.should("AJ-AJM-11", "retryAfter", "say how many seconds to wait before trying again");
    }
    if !retryable && retry_after {
        inspection.should("AJ-AJM-12", "retryAfter", "leave it out where a retry is not advised");
    }
}

fn correlation(inspection: &mut Inspection<'_>) {
    let Some(id) = inspection.text("correlationId") else {
        return;
    };
    if id.chars().any(char::is_control) {
        inspection.must(
            "AJ-SEC-05",
            "correlationId",
            "sanitise it: it carries control characters from a client",
        );
    } else if id.chars().count() > CORRELATION_CHARS_MAX || !id.chars().all(is_harmless) {
        inspection.should(
            "AJ-AJM-15",
            "correlationId",
            "cut it to 256 letters, digits, dots, dashes, underscores",
        );
    }
}

/// A failed job whose `status` says success has been given the code of its carrier.
fn equivalent_status(inspection: &mut Inspection<'_>, carrier: Carrier) {
    let status = inspection.object.get("status").and_then(Value::as_u64).unwrap_or(500);
    let failed = matches!(inspection.text("jobStatus"), Some("FAILED" | "TIMED_OUT"));
    if carrier == Carrier::Report && failed && status < 400 {
        inspection.must(
            "AJ-AJM-18",
            "status",
            "use the code a synchronous answer to the failed job would have had",
        );
    }
}

fn is_failure(inspection: &Inspection<'_>) -> bool {
    match inspection.text("jobStatus").map(JobStatus::new) {
        Some(JobStatus::Accepted | JobStatus::Processing | JobStatus::Completed | JobStatus::Other(_)) => {
            false
        }
        Some(
            JobStatus::Failed | JobStatus::Cancelled | JobStatus::TimedOut | JobStatus::CompletedWithErrors,
        ) => true,
        None => inspection.object.contains_key("title") || inspection.object.contains_key("type"),
    }
}

fn is_uuid(id: &str) -> bool {
    let hyphen = |index: usize| matches!(index, 8 | 13 | 18 | 23);
    let fits =
        |(index, byte): (usize, u8)| if hyphen(index) { byte == b'-' } else { byte.is_ascii_hexdigit() };
    id.len() == 36 && id.bytes().enumerate().all(fits)
}

fn is_upper_snake(name: &str) -> bool {
    let word =
        |word: &str| !word.is_empty() && word.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit());
    name.split('_').all(word)
}
