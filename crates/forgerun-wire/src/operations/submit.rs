//! The bodies of requests. The short way reads them straight into their members; only a body that does not fit is read again
//! with the care that good error messages need.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::fair::Fair;
use forgerun_core::limits::NAME_BYTES_MAX;
use forgerun_core::retry::Mode;
use forgerun_core::work::WorkKind;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::body::{self, Deadline, violation};
use crate::members::UnknownMembers;
use crate::ojs::limit::{self, Limited};
use crate::problem::{RefusedRequest, Violation};
use crate::reader::{BodyReader, LooseMembers};
use crate::{request_body, shares};

/// A submission whose shape is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitRequest {
    /// What kind of job it is; free text of a line.
    pub job_type: Option<String>,
    /// What it works on: a JSON object, as received.
    pub parameters: Option<Vec<u8>>,
    /// Where to wait.
    pub queue: Option<String>,
    /// What to simulate; without it the work is real.
    pub work_kind: Option<WorkKind>,
    /// Higher goes first.
    pub priority: Option<i16>,
    /// Whom its queue shares itself between.
    pub fair: Option<Fair>,
    /// What it shares with others, all of which must have room.
    pub limits: Vec<Limited>,
    /// Whom to tell.
    pub callback: Option<String>,
    /// Whether the server retries by itself.
    pub retry_mode: Option<Mode>,
    /// How often, at most.
    pub max_retries: Option<u32>,
    /// How long one attempt may run.
    pub timeout: Option<Duration>,
    /// By when it must have ended.
    pub deadline: Option<Deadline>,
    /// Labels.
    pub tags: Vec<String>,
    /// What the client calls the job.
    pub correlation_id: Option<String>,
}

request_body! {
    /// A job to be done in the background.
    pub SUBMIT = "BeginRequest" {
        /// What kind of job it is.
        "type": name(NAME_BYTES_MAX),
        /// What it works on.
        "parameters": maybe(object()),
        /// The queue to wait in.
        "queue": maybe(queue()),
        /// What to simulate. Without it the work is real and waits for one of your workers.
        "work_kind": work_kind(),
        /// Jobs with a higher priority go first.
        "priority": priority(),
        /// Jobs of a queue and priority take turns by key, `weight` (1 to 100, default 1) turns at a time.
        "fair": shares::schema(),
        /// Up to four limits shared with other jobs of the client: at once, or per second, minute or hour. All must have room.
        "limits": limit::schema(),
        /// Where to send notifications: http or https.
        "callback": maybe(url()),
        /// Whether the server retries by itself.
        "retry_mode": retry_mode(),
        /// Attempts after the first.
        "maxRetries": max_retries(),
        /// How long one attempt may run, such as `90s` or `1h30m`.
        "timeout": maybe(text()),
        /// By when the whole job must have ended: so long after its submission, such as `90s` or `1h30m`, or a time. Then a
        /// running attempt fails as timed out, and a waiting job is cancelled with reason `deadline`.
        "deadline": maybe(text()),
        /// Labels. Lists can be filtered by them with `tag`.
        "tags": tags(),
        /// The client's own id of the job; sanitised.
        "correlationId": maybe(text()),
    }
    ; required &["type"]
    ; examples {
        "report": {"value": {
            "type": "market-analysis", "parameters": {"region": "EU", "year": 2025, "format": "PDF"},
        }},
        "simulated": {"value": {"type": "test", "work_kind": "SUCCESS_FAST", "correlationId": "order-4711"}},
        "real": {"value": {"type": "mail.send", "queue": "mail", "priority": 5, "maxRetries": 5}},
        "told": {"value": {
            "type": "a", "callback": "https://client.example/hooks", "retry_mode": "manual", "parameters": {},
        }},
    }
}

/// A refusal that names everything that is wrong.
pub fn refused(kind: Kind, violations: Vec<Violation>) -> Box<RefusedRequest> {
    body::refused(kind, violations, SUBMIT.members)
}

/// Reads a submission. `type_needed` where nothing else says what kind of job it is.
pub fn read_submit(
    bytes: &[u8],
    unknown: UnknownMembers,
    type_needed: bool,
) -> Result<SubmitRequest, Box<RefusedRequest>> {
    let (members, mut reader) = BodyReader::members(bytes, SUBMIT.members, unknown, Members::one_by_one)?;
    let request = read(&mut reader, members, type_needed);
    reader.settle(Some(request), SUBMIT.members)
}

/// The members of the right JSON types; null counts as absent.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Members {
    #[serde(rename = "type")]
    job_type: Option<String>,
    parameters: Option<Box<RawValue>>,
    queue: Option<String>,
    #[serde(rename = "work_kind")]
    work_kind: Option<String>,
    priority: Option<i64>,
    fair: Option<Box<RawValue>>,
    limits: Option<Box<RawValue>>,
    callback: Option<String>,
    #[serde(rename = "retry_mode")]
    retry_mode: Option<String>,
    max_retries: Option<i64>,
    timeout: Option<String>,
    deadline: Option<String>,
    tags: Option<Vec<String>>,
    correlation_id: Option<String>,
}

impl Members {
    fn one_by_one(members: &mut LooseMembers) -> Members {
        Members {
            parameters: members.raw("parameters"),
            priority: members.number("priority"),
            fair: members.raw("fair"),
            limits: members.raw("limits"),
            max_retries: members.number("maxRetries"),
            timeout: members.text("timeout"),
            deadline: members.text("deadline"),
            tags: members.texts("tags"),
            job_type: members.text("type"),
            queue: members.text("queue"),
            work_kind: members.text("work_kind"),
            callback: members.text("callback"),
            retry_mode: members.text("retry_mode"),
            correlation_id: members.text("correlationId"),
        }
    }
}

fn read(reader: &mut BodyReader, members: Members, type_needed: bool) -> SubmitRequest {
    match members.job_type.as_deref() {
        None if type_needed => reader.mandatory("type", "is required"),
        None => {}
        Some(text) => {
            if let Some((kind, detail, constraint)) = body::bad_job_type(text) {
                reader.invalid(kind, "type", detail, constraint);
            }
        }
    }
    let parameters = members.parameters.and_then(|given| parameters(reader, given));
    let work_kind = members.work_kind.and_then(|word| reader.value_of(body::work_kind(&word)));
    let priority = members.priority.and_then(|number| reader.value_of(body::priority(number)));
    let fair =
        members.fair.and_then(|fair| reader.value_of(shares::read(&fair).map_err(|bad| bad.violation())));
    let limits = members.limits.map(|given| reader.limits(&given)).unwrap_or_default();
    let retry_mode =
        members.retry_mode.and_then(|word| reader.value_of(body::retry_mode("retry_mode", &word)));
    let timeout = members.timeout.and_then(|text| reader.value_of(body::span("timeout", &text)));
    let deadline = members.deadline.and_then(|text| reader.value_of(body::deadline(&text)));
    let tags = members.tags.and_then(|tags| reader.value_of(body::tags(tags)));
    let max_retries =
        members.max_retries.and_then(|number| reader.value_of(body::max_retries("maxRetries", number)));
    SubmitRequest {
        job_type: members.job_type,
        parameters,
        queue: members.queue,
        work_kind,
        priority,
        fair,
        limits,
        callback: members.callback,
        retry_mode,
        max_retries,
        timeout,
        deadline,
        tags: tags.unwrap_or_default(),
        correlation_id: members.correlation_id,
    }
}

fn parameters(reader: &mut BodyReader, parameters: Box<RawValue>) -> Option<Vec<u8>> {
    match parameters.get() {
        "null" => None,
        text if text.starts_with('{') => reader.verbatim("parameters", parameters),
        _ => {
            reader.malformed("parameters", "must be an object", "type");
            None
        }
    }
}

request_body! {
    /// Why it is cancelled.
    pub CANCEL = "CancelRequest" {
        /// In a line.
        "reason": maybe(text()),
    }
    ; examples {"why": {"value": {"reason": "ordered twice"}}}
}

/// What may be said with a cancel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
pub struct CancelRequest {
    /// Why.
    pub reason: Option<String>,
}

/// Reads a cancel; an empty body says nothing.
pub fn read_cancel(bytes: &[u8]) -> Result<CancelRequest, Box<RefusedRequest>> {
    if bytes.is_empty() {
        return Ok(CancelRequest::default());
    }
    match body::object(bytes)?.remove("reason") {
        None | Some(Value::Null) => Ok(CancelRequest::default()),
        Some(Value::String(reason)) => {
            let reason = Some(reason.trim().to_owned()).filter(|reason| !reason.is_empty());
            if reason.as_ref().is_some_and(|reason| reason.chars().any(char::is_control)) {
                let detail = "must not have control characters";
                return Err(refused(Kind::InvalidArgs, vec![violation("reason", detail, "format")]));
            }
            Ok(CancelRequest { reason })
        }
        Some(_) => {
            Err(refused(Kind::MalformedRequest, vec![violation("reason", "must be a string", "type")]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_pattern_are_understood() {
        let body = br#"{"type":"market-analysis","parameters":{"region":"EU","year":2025,"format":"PDF"}}"#;
        let request = read_submit(body, UnknownMembers::Refuse, true).unwrap();
        assert_eq!(request.job_type.as_deref(), Some("market-analysis"));
        let parameters = br#"{"region":"EU","year":2025,"format":"PDF"}"#;
        assert_eq!(request.parameters.as_deref(), Some(parameters.as_slice()));
        assert_eq!(
            read_submit(br#"{"type":"test"}"#, UnknownMembers::Refuse, true).unwrap().parameters,
            None
        );
        assert_eq!(read_submit(b"{}", UnknownMembers::Refuse, false).unwrap().job_type, None);
    }

    #[test]
    fn a_parameters_that_no_value_can_be_made_of_is_refused_both_ways() {
        for bad in [r#""\ud83d""#, "1e400"] {
            for stranger in ["", r#","stranger":1"#] {
                let body = format!(r#"{{"type":"EXECUTE","parameters":{{"a":[{bad}]}}{stranger}}}"#);
                let refused = read_submit(body.as_bytes(), UnknownMembers::Ignore, true).unwrap_err();
                assert_eq!(refused.kind, Kind::MalformedRequest, "{body}");
                assert_eq!(refused.violations[0].pointer, "#/parameters/a/0", "{body}");
            }
        }
    }

    #[test]
    fn both_ways_of_reading_understand_the_same() {
        let body = r#"{"type":"a","parameters":{"b":[1]},"queue":"q","work_kind":"SUCCESS_FAST","priority":-7,
            "callback":"http://a","retry_mode":"manual","maxRetries":5,"timeout":"90s","correlationId":"c"}"#;
        let short = read_submit(body.as_bytes(), UnknownMembers::Refuse, true).unwrap();
        // A member that nobody knows is nothing for the short way.
        let stranger = body.replacen('{', r#"{"unknown":{},"#, 1);
        assert_eq!(read_submit(stranger.as_bytes(), UnknownMembers::Ignore, true).unwrap(), short);
        assert_eq!((short.max_retries, short.retry_mode), (Some(5), Some(Mode::Manual)));
        assert_eq!(short.timeout, Some(Duration::from_secs(90)));
    }

    #[test]
    fn the_short_way_takes_every_member_and_none_that_is_to_be_refused() {
        for name in SUBMIT.members {
            assert!(serde_json::from_str::<Members>(&format!(r#"{{"{name}":null}}"#)).is_ok(), "{name}");
        }
        let stranger = br#"{"type":"a","max_retries":1}"#;
        let refused = read_submit(stranger, UnknownMembers::Refuse, true).unwrap_err();
        assert_eq!((refused.kind, &*refused.violations[0].pointer), (Kind::InvalidArgs, "#/max_retries"));
        let twice = br#"{"type":"a","parameters":{"x":1,"x":2},"type":"b"}"#;
        for unknown in [UnknownMembers::Refuse, UnknownMembers::Ignore] {
            let refused = read_submit(twice, unknown, true).unwrap_err();
            assert_eq!((refused.kind, &*refused.violations[0].pointer), (Kind::MalformedRequest, "#/type"));
        }
    }

    #[test]
    fn every_wrong_member_is_named_with_its_code() {
        let long = format!(r#"{{"type":"{}"}}"#, "x".repeat(256));
        let cases: [(&str, Kind, &[&str]); 13] = [
            ("{", Kind::MalformedRequest, &[]),
            ("[]", Kind::MalformedRequest, &[]),
            (r#"["a"]"#, Kind::MalformedRequest, &[]),
            ("{}", Kind::MalformedRequest, &["#/type"]),
            (r#"{"type":null}"#, Kind::MalformedRequest, &["#/type"]),
            (r#"{"type":7,"parameters":[]}"#, Kind::MalformedRequest, &["#/type", "#/parameters"]),
            (r#"{"type":"a","parameters":"b"}"#, Kind::MalformedRequest, &["#/parameters"]),
            (r#"{"type":" "}"#, Kind::UnknownJobType, &["#/type"]),
            (&long, Kind::JobTypeTooLong, &["#/type"]),
            (r#"{"type":"a","work_kind":"NOPE"}"#, Kind::InvalidArgs, &["#/work_kind"]),
            (
                r#"{"type":"a","maxRetries":64,"priority":101}"#,
                Kind::InvalidArgs,
                &["#/priority", "#/maxRetries"],
            ),
            (r#"{"type":"a","maxRetries":"3"}"#, Kind::MalformedRequest, &["#/maxRetries"]),
            (r#"{"type":"a","retry_mode":"never"}"#, Kind::InvalidArgs, &["#/retry_mode"]),
        ];
        for (body, kind, pointers) in cases {
            let refused = read_submit(body.as_bytes(), UnknownMembers::Ignore, true).unwrap_err();
            assert_eq!(refused.kind, kind, "{body}");
            let named: Vec<&str> =
                refused.violations.iter().map(|violation| violation.pointer.as_str()).collect();
            assert_eq!(named, pointers, "{body}");
        }
    }

    #[test]
    fn a_cancel_may_say_why() {
        assert_eq!(read_cancel(b"").unwrap().reason, None);
        assert_eq!(read_cancel(b"{}").unwrap().reason, None);
        assert_eq!(read_cancel(br#"{"reason":" too late "}"#).unwrap().reason.as_deref(), Some("too late"));
        for bad in ["[]", "{", r#"{"reason":1}"#, r#"{"reason":"a\nb"}"#] {
            assert!(read_cancel(bad.as_bytes()).is_err(), "{bad}");
        }
    }
}
