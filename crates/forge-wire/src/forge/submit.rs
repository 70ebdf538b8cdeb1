//! The body of a submission, read with the care that good error messages need: every wrong member is named at once.

use forge_core::catalog::Kind;
use forge_core::job::Form;
use forge_core::time::Time;
use forge_core::work::{Behaviour, WorkKind};
use forge_problem::Digest;
use serde_json::{Map, Value};

use crate::problem::{Refused, Violation};
use crate::{time, words};

/// A submission whose shape is right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubmitRequest {
    /// EXECUTE, DEFERRED or EMIT_EVENT.
    pub form: Form,
    /// When to run it.
    pub execution_at: Option<Time>,
    /// Whom to tell.
    pub callback: Option<String>,
    /// Makes a repetition harmless.
    pub idempotency_key: Option<String>,
    /// What to simulate; chosen by the server if absent.
    pub work_kind: Option<WorkKind>,
    /// Where to wait.
    pub queue: Option<String>,
    /// Higher goes first.
    pub priority: Option<i16>,
    /// Whether the server retries by itself.
    pub retry_mode: Option<forge_core::retry::Mode>,
    /// What the client calls the job.
    pub correlation_id: Option<String>,
    /// The payload, as received.
    pub payload: Option<Vec<u8>>,
}

/// The members of a submission, before anybody has looked at them.
#[derive(Clone, Debug)]
pub struct Submission {
    members: Map<String, Value>,
}

impl Submission {
    /// Reads a body as far as its being a JSON object.
    pub fn parse(body: &[u8]) -> Result<Submission, Box<Refused>> {
        let malformed = |detail: String| Box::new(Refused::new(Kind::MalformedRequest, detail));
        match serde_json::from_slice(body) {
            Ok(Value::Object(members)) => Ok(Submission { members }),
            Ok(_) => Err(malformed("The body is not a JSON object.".into())),
            Err(error) => Err(malformed(format!("The body is not JSON: {error}."))),
        }
    }

    /// What makes two requests the same one: the digest of the canonical body without its idempotency key, so that it does
    /// not matter how a request is laid out, or whether the key stands in the body or in the header.
    pub fn fingerprint(&mut self) -> [u8; 32] {
        let key = self.members.remove(IDEMPOTENCY_KEY);
        let value = Value::Object(std::mem::take(&mut self.members));
        let digest = Digest::of(forge_problem::canonical(&value).as_bytes()).0;
        if let Value::Object(members) = value {
            self.members = members;
        }
        self.members.extend(key.map(|key| (IDEMPOTENCY_KEY.to_owned(), key)));
        digest
    }

    /// Whether the body brings an idempotency key.
    pub fn has_key(&self) -> bool {
        self.members.get(IDEMPOTENCY_KEY).is_some_and(|key| !key.is_null())
    }

    /// Looks at the members. Shape errors (missing, wrong type, no time) are malformed; values that break a rule are
    /// validation errors.
    pub fn read(self) -> Result<SubmitRequest, Box<Refused>> {
        let mut reader = Reader {
            members: self.members,
            malformed: Vec::new(),
            invalid: Vec::new(),
            kind: Kind::InvalidArgs,
        };
        let request = reader.read();
        if !reader.malformed.is_empty() {
            return Err(refused(Kind::MalformedRequest, reader.malformed));
        }
        if !reader.invalid.is_empty() {
            return Err(refused(reader.kind, reader.invalid));
        }
        request.ok_or_else(|| refused(Kind::MalformedRequest, Vec::new()))
    }
}

/// Reads a body as a whole.
pub fn read_submit(body: &[u8]) -> Result<SubmitRequest, Box<Refused>> {
    Submission::parse(body)?.read()
}

const IDEMPOTENCY_KEY: &str = "idempotency_key";

/// A refusal that names everything that is wrong.
pub fn refused(kind: Kind, violations: Vec<Violation>) -> Box<Refused> {
    Box::new(Refused::new(kind, summary(&violations)).violations(violations))
}

fn summary(violations: &[Violation]) -> String {
    let parts: Vec<String> =
        violations.iter().map(|v| format!("`{}` {}", v.pointer.trim_start_matches("#/"), v.detail)).collect();
    format!("{}.", parts.join("; "))
}

struct Reader {
    members: Map<String, Value>,
    malformed: Vec<Violation>,
    invalid: Vec<Violation>,
    kind: Kind,
}

impl Reader {
    fn read(&mut self) -> Option<SubmitRequest> {
        let form = self.form();
        let scheduled = self.is_given("execution_at");
        let execution_at = self.text("execution_at").and_then(|text| self.moment(&text));
        if form == Some(Form::Deferred) && !scheduled {
            self.malformed("execution_at", "is mandatory for a DEFERRED job", "required");
        }
        if form == Some(Form::Execute) && execution_at.is_some() {
            self.invalid(
                "execution_at",
                "is only for DEFERRED jobs; leave it out to run at once",
                "forbidden",
            );
        }
        let callback = self.text("callback");
        let idempotency_key = self.text(IDEMPOTENCY_KEY);
        let work_kind = self.work_kind();
        let queue = self.text("queue");
        let priority = self.priority();
        let retry_mode = self.retry_mode();
        let correlation_id = self.text("correlation_id");
        let payload = self.members.get("payload").filter(|value| !value.is_null());
        let payload = payload.map(|value| value.to_string().into_bytes());
        Some(SubmitRequest {
            form: form?,
            execution_at,
            callback,
            idempotency_key,
            work_kind,
            queue,
            priority,
            retry_mode,
            correlation_id,
            payload,
        })
    }

    fn form(&mut self) -> Option<Form> {
        if !self.is_given("type") {
            self.malformed("type", "is mandatory", "required");
            return None;
        }
        let word = self.text("type")?;
        let form = words::parse_forge_type(&word);
        if form.is_none() {
            self.kind = Kind::UnknownJobType;
            self.invalid("type", "must be EXECUTE, DEFERRED or EMIT_EVENT", "enum");
        }
        form
    }

    fn work_kind(&mut self) -> Option<WorkKind> {
        let word = self.text("work_kind")?;
        match WorkKind::parse(&word) {
            Some(kind) if kind.behaviour() == Behaviour::Refused => {
                self.invalid(
                    "work_kind",
                    "asks for a payload that is not valid, so it is refused",
                    "payload",
                );
                None
            }
            Some(kind) => Some(kind),
            None => {
                self.invalid("work_kind", "is not in the catalog of work kinds", "enum");
                None
            }
        }
    }

    fn priority(&mut self) -> Option<i16> {
        let value = self.members.get("priority").filter(|value| !value.is_null())?;
        match value.as_i64() {
            None => self.malformed("priority", "must be an integer", "type"),
            Some(number @ -100..=100) => return i16::try_from(number).ok(),
            Some(_) => self.invalid("priority", "must lie between -100 and 100", "range"),
        }
        None
    }

    fn retry_mode(&mut self) -> Option<forge_core::retry::Mode> {
        match self.text("retry_mode")?.to_ascii_lowercase().as_str() {
            "manual" => Some(forge_core::retry::Mode::Manual),
            "auto" => Some(forge_core::retry::Mode::Auto),
            _ => {
                self.invalid("retry_mode", "must be manual or auto", "enum");
                None
            }
        }
    }

    fn moment(&mut self, text: &str) -> Option<Time> {
        let moment = time::parse(text);
        if moment.is_none() {
            self.malformed("execution_at", "must be a time like 2030-01-31T12:00:00Z", "format");
        }
        moment
    }

    fn is_given(&self, name: &str) -> bool {
        self.members.get(name).is_some_and(|value| !value.is_null())
    }

    fn text(&mut self, name: &str) -> Option<String> {
        match self.members.remove(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text),
            Some(_) => {
                self.malformed(name, "must be a string", "type");
                None
            }
        }
    }

    fn malformed(&mut self, name: &str, detail: &str, constraint: &'static str) {
        self.malformed.push(Violation { pointer: format!("#/{name}"), detail: detail.into(), constraint });
    }

    fn invalid(&mut self, name: &str, detail: &str, constraint: &'static str) {
        self.invalid.push(Violation { pointer: format!("#/{name}"), detail: detail.into(), constraint });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shortest_submission_is_understood() {
        let request = read_submit(br#"{"type":"execute"}"#).unwrap();
        assert_eq!((request.form, request.work_kind, request.payload), (Form::Execute, None, None));
    }

    #[test]
    fn the_fingerprint_sees_the_request_and_not_its_layout_or_its_key() {
        let fingerprint = |body: &str| Submission::parse(body.as_bytes()).unwrap().fingerprint();
        let plain = fingerprint(r#"{"type":"EXECUTE","work_kind":"SUCCESS_FAST"}"#);
        assert_eq!(plain, fingerprint(r#"{ "work_kind":"SUCCESS_FAST", "type":"EXECUTE" }"#));
        assert_eq!(
            plain,
            fingerprint(r#"{"idempotency_key":"a","type":"EXECUTE","work_kind":"SUCCESS_FAST"}"#)
        );
        assert_ne!(plain, fingerprint(r#"{"type":"EXECUTE","work_kind":"SUCCESS_SLOW"}"#));
    }

    #[test]
    fn the_key_is_still_there_after_the_fingerprint_was_taken() {
        let mut submission = Submission::parse(br#"{"type":"EXECUTE","idempotency_key":"a"}"#).unwrap();
        submission.fingerprint();
        assert!(submission.has_key());
        assert_eq!(submission.read().unwrap().idempotency_key.as_deref(), Some("a"));
    }

    #[test]
    fn every_wrong_member_is_named_with_its_code() {
        let cases: [(&str, Kind, &[&str]); 12] = [
            ("{", Kind::MalformedRequest, &[]),
            ("[]", Kind::MalformedRequest, &[]),
            ("{}", Kind::MalformedRequest, &["#/type"]),
            (r#"{"type":7}"#, Kind::MalformedRequest, &["#/type"]),
            (r#"{"type":"FOO"}"#, Kind::UnknownJobType, &["#/type"]),
            (r#"{"type":"DEFERRED"}"#, Kind::MalformedRequest, &["#/execution_at"]),
            (r#"{"type":"DEFERRED","execution_at":"tomorrow"}"#, Kind::MalformedRequest, &["#/execution_at"]),
            (
                r#"{"type":"EXECUTE","execution_at":"2030-01-01T00:00:00Z"}"#,
                Kind::InvalidArgs,
                &["#/execution_at"],
            ),
            (r#"{"type":"EXECUTE","work_kind":"NOPE"}"#, Kind::InvalidArgs, &["#/work_kind"]),
            (r#"{"type":"EXECUTE","work_kind":"PAYLOAD_INVALID"}"#, Kind::InvalidArgs, &["#/work_kind"]),
            (r#"{"type":"EXECUTE","priority":101}"#, Kind::InvalidArgs, &["#/priority"]),
            (r#"{"callback":1,"queue":2}"#, Kind::MalformedRequest, &["#/type", "#/callback", "#/queue"]),
        ];
        for (body, kind, pointers) in cases {
            let refused = read_submit(body.as_bytes()).unwrap_err();
            assert_eq!(refused.kind, kind, "{body}");
            let named: Vec<&str> =
                refused.violations.iter().map(|violation| violation.pointer.as_str()).collect();
            assert_eq!(named, pointers, "{body}");
        }
    }
}
