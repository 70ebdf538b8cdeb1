//! The body of a submission. The short way reads it straight into its members; only a body that does not fit is read again
//! with the care that good error messages need, so that every wrong member is named at once.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::fair::Fair;
use forgerun_core::job::JobForm;
use forgerun_core::limits::NAME_BYTES_MAX;
use forgerun_core::retry::Mode;
use forgerun_core::time::Time;
use forgerun_core::work::WorkKind;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::body::{self, Deadline, violation};
use crate::members::UnknownMembers;
use crate::ojs::limit::{self, Limited};
use crate::problem::{RefusedRequest, Violation};
use crate::reader::{BodyReader, LooseMembers};
use crate::request_body;
use crate::{shares, time, words};

/// A submission whose shape is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitRequest {
    /// EXECUTE, DEFERRED or EMIT_EVENT.
    pub form: JobForm,
    /// When to run it.
    pub execution_at: Option<Time>,
    /// Whom to tell.
    pub callback: Option<String>,
    /// Makes a repetition harmless.
    pub idempotency_key: Option<String>,
    /// What to simulate. Without it and `job_type` the server chooses.
    pub work_kind: Option<WorkKind>,
    /// What kind of work it is, for workers outside: the work is real.
    pub job_type: Option<String>,
    /// Where to wait.
    pub queue: Option<String>,
    /// Higher goes first.
    pub priority: Option<i16>,
    /// Whom its queue shares itself between.
    pub fair: Option<Fair>,
    /// What it shares with others, all of which must have room.
    pub limits: Vec<Limited>,
    /// Whether the server retries by itself.
    pub retry_mode: Option<Mode>,
    /// How often the server retries real work by itself.
    pub max_retries: Option<u32>,
    /// How long one attempt may run.
    pub timeout: Option<Duration>,
    /// By when it must have ended.
    pub deadline: Option<Deadline>,
    /// Labels.
    pub tags: Vec<String>,
    /// Refuses a second job with this key until the first has ended.
    pub unique_key: Option<String>,
    /// What the client calls the job.
    pub correlation_id: Option<String>,
    /// The payload, as received.
    pub payload: Option<Vec<u8>>,
}

/// Reads a body. Shape errors (JSON, missing, wrong type, no time) are malformed; values that break a rule are validation
/// errors.
pub fn read_submit(bytes: &[u8], unknown: UnknownMembers) -> Result<SubmitRequest, Box<RefusedRequest>> {
    let (members, mut reader) = BodyReader::members(bytes, SUBMIT.members, unknown, Members::one_by_one)?;
    let request = read(&mut reader, members);
    reader.settle(request, SUBMIT.members)
}

/// A refusal that names everything that is wrong.
pub fn refused(kind: Kind, violations: Vec<Violation>) -> Box<RefusedRequest> {
    body::refused(kind, violations, SUBMIT.members)
}

request_body! {
    /// A job to be done.
    pub SUBMIT = "SubmitRequest" {
        /// What to do: run at once, run later, or only send the notification. May be left out beside `job_type`.
        "type": form(),
        /// When to run it. Required for DEFERRED, not allowed for EXECUTE.
        "execution_at": maybe(time()),
        /// What to simulate. Without it and `job_type` the server chooses, unless simulation is off.
        "work_kind": work_kind(),
        /// The type of real work, for your own workers. Not beside `work_kind`.
        "job_type": maybe(json!({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^\s\p{C}]+$"})),
        /// The queue to wait in.
        "queue": or(maybe(queue()), "default"),
        /// Where to send notifications: http or https.
        "callback": maybe(url()),
        /// Makes a repetition harmless, as the header does.
        "idempotency_key": maybe(short(NAME_BYTES_MAX)),
        /// Jobs with a higher priority go first.
        "priority": priority(),
        /// Jobs of a queue and priority take turns by key, `weight` (1 to 100, default 1) turns at a time.
        "fair": shares::schema(),
        /// Up to four limits shared with other jobs of the client: at once, or per second, minute or hour. All must have room.
        "limits": limit::schema(),
        /// Whether the server retries by itself.
        "retry_mode": retry_mode(),
        /// How often the server retries by itself. Only beside `job_type`; 0 if absent.
        "max_retries": max_retries(),
        /// How long one attempt may run, such as `90s` or `1h30m`.
        "timeout": maybe(text()),
        /// By when the whole job must have ended: so long after its submission, such as `90s` or `1h30m`, or a time. Then a
        /// running attempt fails as timed out, and a waiting job is cancelled with reason `deadline`.
        "deadline": maybe(text()),
        /// Labels. Lists can be filtered by them with `tag`.
        "tags": tags(),
        /// A second job with this key is refused (409) until the first has ended.
        "unique_key": maybe(name(NAME_BYTES_MAX)),
        /// The client's own id of the job; sanitised.
        "correlation_id": maybe(text()),
        /// Any JSON, up to `limits.max_job_payload_kb`.
        "payload": json!({}),
    }
    ; rules {"if": {"properties": {"type": {"const": "DEFERRED"}}}, "then": {"required": ["execution_at"]}}
    ; examples {
        "at_once": {"value": {"type": "EXECUTE", "work_kind": "SUCCESS_FAST"}},
        "later": {"value": {
            "type": "DEFERRED", "execution_at": "2999-01-31T12:00:00Z", "queue": "reports", "priority": 5,
        }},
        "event": {"value": {
            "type": "EMIT_EVENT", "callback": "https://client.example/hooks", "payload": {"order": 4711},
        }},
        "repeatable": {"value": {
            "type": "EXECUTE", "idempotency_key": "order-4711", "retry_mode": "auto", "correlation_id": "a-1",
        }},
    }
}

/// The members of the right JSON types; null counts as absent.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Members {
    #[serde(rename = "type")]
    form: Option<String>,
    execution_at: Option<String>,
    callback: Option<String>,
    idempotency_key: Option<String>,
    work_kind: Option<String>,
    job_type: Option<String>,
    queue: Option<String>,
    priority: Option<i64>,
    fair: Option<Box<RawValue>>,
    limits: Option<Box<RawValue>>,
    retry_mode: Option<String>,
    max_retries: Option<i64>,
    timeout: Option<String>,
    deadline: Option<String>,
    tags: Option<Vec<String>>,
    unique_key: Option<String>,
    correlation_id: Option<String>,
    payload: Option<Box<RawValue>>,
}

impl Members {
    fn one_by_one(members: &mut LooseMembers) -> Members {
        Members {
            payload: members.raw("payload"),
            priority: members.number("priority"),
            fair: members.raw("fair"),
            limits: members.raw("limits"),
            form: members.text("type"),
            execution_at: members.text("execution_at"),
            callback: members.text("callback"),
            idempotency_key: members.text("idempotency_key"),
            work_kind: members.text("work_kind"),
            job_type: members.text("job_type"),
            queue: members.text("queue"),
            retry_mode: members.text("retry_mode"),
            max_retries: members.number("max_retries"),
            timeout: members.text("timeout"),
            deadline: members.text("deadline"),
            tags: members.texts("tags"),
            unique_key: members.text("unique_key"),
            correlation_id: members.text("correlation_id"),
        }
    }
}

fn read(reader: &mut BodyReader, members: Members) -> Option<SubmitRequest> {
    let form = match (&members.form, &members.job_type) {
        // Work of one's own is to be done: now, or at its time.
        (None, Some(_)) if members.execution_at.is_some() => Some(JobForm::Deferred),
        (None, Some(_)) => Some(JobForm::Execute),
        (form_word, _) => form(reader, form_word.as_deref()),
    };
    let execution_at = execution_at(reader, members.execution_at.as_deref(), form);
    let is_simulated = members.job_type.is_none();
    let job_type = job_type(reader, members.job_type, members.work_kind.is_some(), form);
    let work_kind = members.work_kind.and_then(|word| reader.value_of(body::work_kind(&word)));
    let max_retries =
        members.max_retries.and_then(|number| reader.value_of(body::max_retries("max_retries", number)));
    if max_retries.is_some() && is_simulated {
        let detail = "is for work with a `job_type`; simulated work has `retry_mode`";
        reader.invalid(Kind::InvalidArgs, "max_retries", detail, "forbidden");
    }
    let timeout = members.timeout.and_then(|text| reader.value_of(body::span("timeout", &text)));
    let deadline = members.deadline.and_then(|text| reader.value_of(body::deadline(&text)));
    let tags = members.tags.and_then(|tags| reader.value_of(body::tags(tags)));
    let unique_key = members.unique_key.and_then(|text| reader.value_of(unique_key(text)));
    let priority = members.priority.and_then(|number| reader.value_of(body::priority(number)));
    let fair =
        members.fair.and_then(|fair| reader.value_of(shares::read(&fair).map_err(|bad| bad.violation())));
    let limits = members.limits.map(|given| reader.limits(&given)).unwrap_or_default();
    let retry_mode =
        members.retry_mode.and_then(|word| reader.value_of(body::retry_mode("retry_mode", &word)));
    Some(SubmitRequest {
        form: form?,
        execution_at,
        callback: members.callback,
        idempotency_key: members.idempotency_key,
        work_kind,
        job_type,
        queue: members.queue,
        priority,
        fair,
        limits,
        retry_mode,
        max_retries,
        timeout,
        deadline,
        tags: tags.unwrap_or_default(),
        unique_key,
        correlation_id: members.correlation_id,
        payload: members.payload.and_then(|payload| reader.verbatim("payload", payload)),
    })
}

/// The type of real work. A job is simulated or real, so it has no `work_kind` beside it.
fn job_type(
    reader: &mut BodyReader,
    text: Option<String>,
    has_work_kind: bool,
    form: Option<JobForm>,
) -> Option<String> {
    let text = text?;
    if let Some((kind, detail, constraint)) = bad_job_type(&text) {
        reader.invalid(kind, "job_type", detail, constraint);
    } else if has_work_kind {
        let detail = "must not stand beside `work_kind`: a job is work for your workers or simulated";
        reader.invalid(Kind::InvalidArgs, "job_type", detail, "forbidden");
    } else if form == Some(JobForm::EmitEvent) {
        let detail = "must not stand beside the type EMIT_EVENT, whose work is the notification";
        reader.invalid(Kind::InvalidArgs, "job_type", detail, "forbidden");
    }
    Some(text)
}

/// What is wrong with the text of a `job_type`, with the rule it breaks.
pub(crate) fn bad_job_type(text: &str) -> Option<(Kind, &'static str, &'static str)> {
    if text.len() > NAME_BYTES_MAX {
        return Some((Kind::JobTypeTooLong, "must have at most 255 bytes", "maxLength"));
    }
    let bad = text.is_empty() || text.chars().any(|c| c.is_control() || c.is_whitespace());
    bad.then_some((Kind::UnknownJobType, "must have 1 to 255 printable characters and no spaces", "format"))
}

fn unique_key(text: String) -> Result<String, Violation> {
    let good = !text.is_empty() && text.len() <= NAME_BYTES_MAX && !text.chars().any(char::is_control);
    let detail = "must have 1 to 255 bytes and no control characters";
    good.then_some(text).ok_or_else(|| violation("unique_key", detail, "format"))
}

fn form(reader: &mut BodyReader, word: Option<&str>) -> Option<JobForm> {
    let Some(word) = word else {
        reader.mandatory("type", "is required");
        return None;
    };
    let form = words::parse_forge_type(word);
    if form.is_none() {
        let detail = "must be EXECUTE, DEFERRED or EMIT_EVENT";
        reader.invalid(Kind::UnknownJobType, "type", detail, "enum");
    }
    form
}

fn execution_at(reader: &mut BodyReader, text: Option<&str>, form: Option<JobForm>) -> Option<Time> {
    let Some(text) = text else {
        if form == Some(JobForm::Deferred) {
            reader.mandatory("execution_at", "is required for a DEFERRED job");
        }
        return None;
    };
    let moment = time::parse(text);
    if moment.is_none() {
        reader.malformed("execution_at", "must be a time like 2030-01-31T12:00:00Z", "format");
    } else if form == Some(JobForm::Execute) {
        let detail = "is only for DEFERRED jobs; leave it out to run at once";
        reader.invalid(Kind::InvalidArgs, "execution_at", detail, "forbidden");
    }
    moment
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_submission_is_understood() {
        let request = read_submit(br#"{"type":"execute"}"#, UnknownMembers::Ignore).unwrap();
        assert_eq!((request.form, request.work_kind, request.payload), (JobForm::Execute, None, None));
    }

    #[test]
    fn work_of_ones_own_needs_no_type_beside_its_job_type() {
        let form =
            |body: &str| read_submit(body.as_bytes(), UnknownMembers::Refuse).map(|request| request.form);
        assert_eq!(form(r#"{"job_type":"mail"}"#).unwrap(), JobForm::Execute);
        assert_eq!(
            form(r#"{"job_type":"mail","execution_at":"2030-01-01T00:00:00Z"}"#).unwrap(),
            JobForm::Deferred
        );
        assert_eq!(form(r#"{"payload":1}"#).unwrap_err().violations[0].pointer, "#/type");
    }

    #[test]
    fn a_payload_that_no_value_can_be_made_of_is_refused_both_ways() {
        for bad in [r#""\ud83d""#, "1e400"] {
            for stranger in ["", r#","stranger":1"#] {
                let body = format!(r#"{{"type":"EXECUTE","payload":{{"a":[{bad}]}}{stranger}}}"#);
                let refused = read_submit(body.as_bytes(), UnknownMembers::Ignore).unwrap_err();
                assert_eq!(refused.kind, Kind::MalformedRequest, "{body}");
                assert_eq!(refused.violations[0].pointer, "#/payload/a/0", "{body}");
            }
        }
    }

    #[test]
    fn a_payload_that_is_nested_too_deeply_is_refused() {
        let nested = |depth: usize| {
            let body =
                format!(r#"{{"type":"EXECUTE","payload":{}1{}}}"#, "[".repeat(depth), "]".repeat(depth));
            read_submit(body.as_bytes(), UnknownMembers::Ignore)
        };
        assert!(nested(128).is_ok());
        for depth in [129, 100_000] {
            let refused = nested(depth).unwrap_err();
            assert_eq!(refused.violations[0].detail, "is nested deeper than 128 levels");
            assert_eq!(refused.violations[0].pointer, "#/payload");
        }
    }

    #[test]
    fn both_ways_of_reading_understand_the_same() {
        let body = r#"{"type":"DEFERRED","execution_at":"2030-01-01T00:00:00Z","callback":"http://a","idempotency_key":"k",
            "job_type":"Mail/Send","queue":"q","priority":-7,"retry_mode":"auto","correlation_id":null,
            "max_retries":4,"timeout":"1h30m","deadline":"2030-01-02T00:00:00Z","tags":["eu","a:1"],"unique_key":"order 7",
            "payload":{"a":[1,2.50,"x"]}}"#;
        let short = read_submit(body.as_bytes(), UnknownMembers::Refuse).unwrap();
        // A member that nobody knows is nothing for the short way.
        let stranger = body.replacen('{', r#"{"unknown":{"deep":[{}]},"#, 1);
        let long = read_submit(stranger.as_bytes(), UnknownMembers::Ignore).unwrap();
        assert_eq!((short.job_type.as_deref(), short.max_retries), (Some("Mail/Send"), Some(4)));
        assert_eq!(
            (short.timeout, short.unique_key.as_deref()),
            (Some(Duration::from_secs(5400)), Some("order 7"))
        );
        let deadline = time::parse("2030-01-02T00:00:00Z").map(Deadline::At);
        assert_eq!((short.deadline, short.tags.as_slice()), (deadline, &["eu".to_owned(), "a:1".into()][..]));
        assert_eq!(short.payload.as_deref(), Some(br#"{"a":[1,2.50,"x"]}"#.as_slice()));
        assert_eq!(SubmitRequest { payload: None, ..long }, SubmitRequest { payload: None, ..short });
    }

    #[test]
    fn the_short_way_takes_every_member_and_none_that_is_to_be_refused() {
        for name in SUBMIT.members {
            assert!(serde_json::from_str::<Members>(&format!(r#"{{"{name}":null}}"#)).is_ok(), "{name}");
        }
        let refused = |body: &str, unknown| {
            let refused = read_submit(body.as_bytes(), unknown).unwrap_err();
            (refused.kind, refused.violations[0].pointer.clone())
        };
        let stranger = r#"{"type":"EXECUTE","work_knd":"SUCCESS_FAST"}"#;
        assert_eq!(refused(stranger, UnknownMembers::Refuse), (Kind::InvalidArgs, "#/work_knd".into()));
        let twice = r#"{"type":"EXECUTE","queue":"a","payload":{"x":1,"x":2},"queue":"b"}"#;
        for unknown in [UnknownMembers::Refuse, UnknownMembers::Ignore] {
            assert_eq!(refused(twice, unknown), (Kind::MalformedRequest, "#/queue".into()));
        }
    }

    #[test]
    fn every_wrong_member_is_named_with_its_code() {
        let cases: [(&str, Kind, &[&str]); 29] = [
            ("{", Kind::MalformedRequest, &[]),
            ("[]", Kind::MalformedRequest, &[]),
            (r#"["EXECUTE"]"#, Kind::MalformedRequest, &[]),
            ("{}", Kind::MalformedRequest, &["#/type"]),
            (r#"{"type":7}"#, Kind::MalformedRequest, &["#/type"]),
            (r#"{"type":"FOO"}"#, Kind::UnknownJobType, &["#/type"]),
            (r#"{"type":"DEFERRED"}"#, Kind::MalformedRequest, &["#/execution_at"]),
            (r#"{"type":"DEFERRED","execution_at":"tomorrow"}"#, Kind::MalformedRequest, &["#/execution_at"]),
            (r#"{"type":"DEFERRED","execution_at":5}"#, Kind::MalformedRequest, &["#/execution_at"]),
            (
                r#"{"type":"EXECUTE","execution_at":"2030-01-01T00:00:00Z"}"#,
                Kind::InvalidArgs,
                &["#/execution_at"],
            ),
            (r#"{"type":"EXECUTE","work_kind":"NOPE"}"#, Kind::InvalidArgs, &["#/work_kind"]),
            (r#"{"type":"EXECUTE","work_kind":"PAYLOAD_INVALID"}"#, Kind::InvalidArgs, &["#/work_kind"]),
            (
                r#"{"type":"EXECUTE","work_kind":"SUCCESS_FAST","job_type":"a"}"#,
                Kind::InvalidArgs,
                &["#/job_type"],
            ),
            (r#"{"type":"EXECUTE","job_type":""}"#, Kind::UnknownJobType, &["#/job_type"]),
            (r#"{"type":"EXECUTE","job_type":"a b"}"#, Kind::UnknownJobType, &["#/job_type"]),
            (r#"{"type":"EMIT_EVENT","job_type":"a"}"#, Kind::InvalidArgs, &["#/job_type"]),
            (r#"{"type":"EXECUTE","max_retries":1}"#, Kind::InvalidArgs, &["#/max_retries"]),
            (r#"{"type":"EXECUTE","job_type":"a","max_retries":64}"#, Kind::InvalidArgs, &["#/max_retries"]),
            (r#"{"type":"EXECUTE","timeout":"soon"}"#, Kind::InvalidArgs, &["#/timeout"]),
            (r#"{"type":"EXECUTE","timeout":"0s"}"#, Kind::InvalidArgs, &["#/timeout"]),
            (r#"{"type":"EXECUTE","deadline":"soon"}"#, Kind::InvalidArgs, &["#/deadline"]),
            (r#"{"type":"EXECUTE","deadline":"0s"}"#, Kind::InvalidArgs, &["#/deadline"]),
            (r#"{"type":"EXECUTE","tags":"eu"}"#, Kind::MalformedRequest, &["#/tags"]),
            (r#"{"type":"EXECUTE","tags":["eu",7]}"#, Kind::MalformedRequest, &["#/tags"]),
            (r#"{"type":"EXECUTE","tags":["eu","Asia"]}"#, Kind::InvalidArgs, &["#/tags/1"]),
            (
                r#"{"type":"EXECUTE","tags":["eu","eu"],"priority":101}"#,
                Kind::InvalidArgs,
                &["#/priority", "#/tags/1"],
            ),
            (r#"{"type":"EXECUTE","unique_key":""}"#, Kind::InvalidArgs, &["#/unique_key"]),
            (r#"{"type":"EXECUTE","priority":101}"#, Kind::InvalidArgs, &["#/priority"]),
            (
                r#"{"callback":1,"queue":2,"priority":1.5}"#,
                Kind::MalformedRequest,
                &["#/type", "#/queue", "#/callback", "#/priority"],
            ),
        ];
        for (body, kind, pointers) in cases {
            let refused = read_submit(body.as_bytes(), UnknownMembers::Ignore).unwrap_err();
            assert_eq!(refused.kind, kind, "{body}");
            let named: Vec<&str> =
                refused.violations.iter().map(|violation| violation.pointer.as_str()).collect();
            assert_eq!(named, pointers, "{body}");
        }
    }
}
