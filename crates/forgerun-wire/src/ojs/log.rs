//! Log lines that a worker sends.

use forgerun_core::catalog::Kind;
use forgerun_core::command::LeaseProof;
use forgerun_core::id::JobId;
use forgerun_core::limits::{LOG_CHUNK_BYTES_MAX, LOG_LINE_BYTES_MAX, LOG_LINES_MAX, LOG_NAME_BYTES_MAX};
use forgerun_core::log::{LEVEL, LogLine, STREAM};
use forgerun_core::time::Time;
use serde_json::value::RawValue;

use super::members::{Members, ViolationList};
use super::worker::{BAD, claimed};
use crate::problem::RefusedRequest;
use crate::request_body;
use crate::time;

request_body! {
    /// Lines that a worker printed.
    pub LOGS = "OjsLogsRequest" {
        /// The job.
        "job_id": text(),
        /// What proves that the worker holds the job.
        "lease_token": text(),
        /// The lines, oldest first.
        "lines": json!({"type": "array", "minItems": 1, "maxItems": LOG_LINES_MAX, "items": {
            "type": "object",
            "required": ["text"],
            "properties": {
                "at": {"type": "string", "format": "date-time"},
                "level": {"type": "string", "maxLength": LOG_NAME_BYTES_MAX},
                "stream": {"type": "string", "maxLength": LOG_NAME_BYTES_MAX},
                "text": {"type": "string", "maxLength": LOG_LINE_BYTES_MAX}
            }
        }}),
    }
    ; required &["job_id", "lease_token", "lines"]
}

/// Bytes that a line takes beside its text, at most.
const LINE_OVERHEAD: usize = 96;

#[derive(Debug, PartialEq, Eq)]
pub struct LogsRequest {
    /// `None` if the id is malformed.
    pub job: Option<JobId>,
    pub proof: LeaseProof,
    pub lines: Vec<LogLine>,
}

/// Reads lines; those without a moment were printed `now`.
pub fn read_logs(body: &[u8], now: Time) -> Result<LogsRequest, Box<RefusedRequest>> {
    let members = Members::of_body(body)?;
    let mut violations = ViolationList::default();
    if members.get("lease_token").is_none() {
        violations.add(BAD, "lease_token", "is required", "required");
    }
    let held = claimed(&members, None, &mut violations);
    let lines = lines(&members, now, &mut violations);
    violations.settle(Some(LogsRequest { job: held.job, proof: held.proof, lines }))
}

fn lines(members: &Members<'_>, now: Time, violations: &mut ViolationList) -> Vec<LogLine> {
    let Some(given) = members.get("lines") else {
        violations.add(BAD, "lines", "is required", "required");
        return Vec::new();
    };
    let Ok(entries) = serde_json::from_str::<Vec<&RawValue>>(given.get()) else {
        violations.add(BAD, "lines", "must be a list of objects", "type");
        return Vec::new();
    };
    if !(1..=LOG_LINES_MAX).contains(&entries.len()) {
        violations.add(BAD, "lines", format!("must have 1 to {LOG_LINES_MAX} entries"), "maxItems");
        return Vec::new();
    }
    let mut lines = Vec::with_capacity(entries.len());
    for (at, entry) in entries.into_iter().enumerate() {
        lines.extend(line(entry, at, now, violations));
        if !violations.is_empty() {
            return Vec::new();
        }
    }
    let n_bytes: usize = lines.iter().map(|line| line.text.len() + LINE_OVERHEAD).sum();
    if n_bytes > LOG_CHUNK_BYTES_MAX {
        let detail = format!(
            "must have at most {} KB in all, each line counting {LINE_OVERHEAD} bytes more than its text",
            LOG_CHUNK_BYTES_MAX / 1024
        );
        violations.add(Kind::JobPayloadTooLarge, "lines", detail, "maxLength");
    }
    lines
}

fn line(entry: &RawValue, nth: usize, now: Time, violations: &mut ViolationList) -> Option<LogLine> {
    let path = |member: &str| format!("lines.{nth}.{member}");
    let Some(members) = Members::of_value(entry) else {
        violations.add(BAD, &format!("lines.{nth}"), "must be an object", "type");
        return None;
    };
    let mut string = |member: &str| {
        let value = members.get(member);
        violations.typed::<String>(BAD, &path(member), value, "a string")
    };
    let (text, level, stream, at) = (string("text"), string("level"), string("stream"), string("at"));
    match &text {
        Some(text) if text.len() > LOG_LINE_BYTES_MAX => {
            let detail = format!("must have at most {LOG_LINE_BYTES_MAX} bytes");
            violations.add(Kind::JobPayloadTooLarge, &path("text"), detail, "maxLength");
        }
        None if members.get("text").is_none() => {
            violations.add(BAD, &path("text"), "is required", "required");
        }
        Some(_) | None => {}
    }
    for (member, name) in [("level", &level), ("stream", &stream)] {
        if name.as_ref().is_some_and(|name| !is_name(name)) {
            let detail =
                format!("must have 1 to {LOG_NAME_BYTES_MAX} letters, digits, dots, hyphens or underscores");
            violations.add(BAD, &path(member), detail, "pattern");
        }
    }
    let at = at.map(|text| {
        let at = time::parse(&text);
        if at.is_none() {
            violations.add(BAD, &path("at"), "must be a moment as in RFC 3339", "format");
        }
        at
    });
    Some(LogLine {
        at: at.flatten().unwrap_or(now),
        level: level.unwrap_or_else(|| LEVEL.into()),
        stream: stream.unwrap_or_else(|| STREAM.into()),
        text: text?,
    })
}

/// Whether a text can be the name of a stream or a level.
pub fn is_name(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_');
    (1..=LOG_NAME_BYTES_MAX).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::from_millis(7);
    const JOB: &str = "01890a5d-ac96-7001-bcce-b302099a8057";

    fn read(lines: &str) -> Result<LogsRequest, Box<RefusedRequest>> {
        let body = format!(r#"{{"job_id":"{JOB}","lease_token":"t","lines":{lines}}}"#);
        read_logs(body.as_bytes(), NOW)
    }

    #[test]
    fn a_line_needs_no_more_than_its_text() {
        let given =
            r#"[{"text":"a"},{"text":"","level":"error","stream":"output","at":"1970-01-01T00:00:00.003Z"}]"#;
        let request = read(given).unwrap();
        assert_eq!(request.job, JOB.parse().ok());
        let plain = LogLine { at: NOW, level: "info".into(), stream: "log".into(), text: "a".into() };
        let full = LogLine {
            at: Time::from_millis(3),
            level: "error".into(),
            stream: "output".into(),
            text: String::new(),
        };
        assert_eq!(request.lines, [plain, full]);
    }

    #[test]
    fn what_is_wrong_is_named() {
        let long = format!(r#"[{{"text":"{}"}}]"#, "x".repeat(LOG_LINE_BYTES_MAX + 1));
        let many = format!("[{}]", [r#"{"text":""}"#; LOG_LINES_MAX + 1].join(","));
        let large = format!("[{}]", vec![format!(r#"{{"text":"{}"}}"#, "x".repeat(16_000)); 9].join(","));
        for (lines, kind, pointer) in [
            ("[]", BAD, "#/lines"),
            ("{}", BAD, "#/lines"),
            ("null", BAD, "#/lines"),
            ("[1]", BAD, "#/lines/0"),
            ("[{}]", BAD, "#/lines/0/text"),
            (r#"[{"text":"a"},{"text":1}]"#, BAD, "#/lines/1/text"),
            (r#"[{"text":"a","stream":"a b"}]"#, BAD, "#/lines/0/stream"),
            (r#"[{"text":"a","level":""}]"#, BAD, "#/lines/0/level"),
            (r#"[{"text":"a","at":"now"}]"#, BAD, "#/lines/0/at"),
            (&long, Kind::JobPayloadTooLarge, "#/lines/0/text"),
            (&many, BAD, "#/lines"),
            (&large, Kind::JobPayloadTooLarge, "#/lines"),
        ] {
            let refused = read(lines).unwrap_err();
            assert_eq!((refused.kind, &*refused.violations[0].pointer), (kind, pointer), "{lines:.60}");
        }
        let refused = read_logs(br#"{"lines":[{"text":"a"}]}"#, NOW).unwrap_err();
        let pointers: Vec<&str> = refused.violations.iter().map(|violation| &*violation.pointer).collect();
        assert_eq!(pointers, ["#/lease_token", "#/job_id"]);
    }
}
