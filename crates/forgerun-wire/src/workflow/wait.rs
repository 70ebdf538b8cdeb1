//! Waiting steps: how they are described, and how `/v1` shows them.

use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::job::Job;
use forgerun_core::limits::{SIGNAL_SCHEMA_BYTES_MAX, WAIT_MAX};
use forgerun_core::state::State;
use forgerun_core::time::Time;
use forgerun_core::workflow::{SignalToken, SignalWait, Wait, is_signal_name};
use serde::{Deserialize, Serialize};
use serde_json::json;
use serde_json::value::RawValue;

use super::rows::StepRows;
use crate::ojs::duration;
use crate::ojs::members::{Members, ViolationList};
use crate::problem::RefusedRequest;
use crate::request::RequestBody;
use crate::{time, words};

/// The body of a signal: any JSON value.
pub const SIGNAL: RequestBody = RequestBody {
    name: "Signal",
    about: "Any JSON value. It becomes the result of the step, and must fit the schema of the wait.",
    members: &[],
    required: &[],
    properties: Vec::new,
    parts: &[],
    rules: || json!({"type": ["object", "array", "string", "number", "boolean", "null"]}),
    examples: || json!({"approval": {"value": {"approved": true, "by": "kim"}}}),
};

/// What is expected of the name of a signal.
pub const SIGNAL_NAME: &str = "must have 1 to 64 of the characters a-z, 0-9, `.`, `_` and `-`";

/// What a step waits for, as the client describes it.
#[derive(Clone, Debug)]
pub enum WaitRequest {
    For(Duration),
    Until(Time),
    Signal {
        name: String,
        timeout: Duration,
        /// JSON Schema of the body.
        schema: Option<Box<RawValue>>,
    },
}

impl WaitRequest {
    /// The wait; `secret` becomes part of its token.
    pub fn into_wait(self, secret: u128) -> Wait {
        match self {
            WaitRequest::For(span) => Wait::For(span),
            WaitRequest::Until(at) => Wait::Until(at),
            WaitRequest::Signal { name, timeout, schema } => {
                let schema = schema.map_or_else(Vec::new, |schema| schema.get().as_bytes().to_vec());
                Wait::Signal(SignalWait { name, timeout, schema, secret })
            }
        }
    }
}

const FORMS: &str = "must be {\"for\": \"2h\"}, {\"until\": TIME} or {\"signal\": NAME, \"timeout\": \"2d\"}";

/// The members of `wait`.
const MEMBERS: [&str; 5] = ["for", "until", "signal", "timeout", "schema"];

/// Reads the `wait` of a step at this path.
pub(super) fn read(value: &RawValue, path: &str) -> Result<WaitRequest, Box<RefusedRequest>> {
    let mut violations = ViolationList::default();
    let read = match Members::of_value(value) {
        None => {
            violations.add(Kind::MalformedRequest, path, FORMS, "type");
            None
        }
        Some(members) => WaitReader { members, path, violations: &mut violations }.read(),
    };
    violations.settle(read)
}

struct WaitReader<'r, 'a> {
    members: Members<'a>,
    path: &'r str,
    violations: &'r mut ViolationList,
}

impl WaitReader<'_, '_> {
    fn read(&mut self) -> Option<WaitRequest> {
        for (name, _) in self.members.0.iter().filter(|(name, _)| !MEMBERS.contains(&&**name)) {
            let path = format!("{}.{name:.60}", self.path);
            let detail = format!("is unknown; expected one of {}", MEMBERS.join(", "));
            self.violations.add(Kind::MalformedRequest, &path, detail, "unknown");
        }
        let has = |name| self.members.get(name).is_some();
        let form = match (has("for"), has("until"), has("signal")) {
            (true, false, false) => "for",
            (false, true, false) => "until",
            (false, false, true) => "signal",
            _ => {
                self.violations.add(Kind::MalformedRequest, self.path, FORMS, "oneOf");
                return None;
            }
        };
        for name in ["timeout", "schema"].into_iter().filter(|name| form != "signal" && has(name)) {
            let path = format!("{}.{name}", self.path);
            self.violations.add(Kind::MalformedRequest, &path, "is for a wait for a signal", "unsupported");
        }
        match form {
            "for" => self.span("for").map(WaitRequest::For),
            "until" => self.until().map(WaitRequest::Until),
            _ => self.signal(),
        }
    }

    fn span(&mut self, name: &str) -> Option<Duration> {
        let path = format!("{}.{name}", self.path);
        let Some(value) = self.members.get(name) else {
            let detail = "is required: how long to wait for the signal, such as 2h or 3d";
            self.violations.add(Kind::MalformedRequest, &path, detail, "required");
            return None;
        };
        let span = text(value).and_then(|text| duration::parse(&text));
        let span = span.filter(|span| !span.is_zero() && *span <= WAIT_MAX);
        if span.is_none() {
            let detail = "must be a duration above zero and of ten years at most, such as 90s, 2h or 3d";
            self.violations.add_value(Kind::MalformedRequest, &path, value, detail, "format");
        }
        span
    }

    fn until(&mut self) -> Option<Time> {
        let value = self.members.get("until")?;
        let at = text(value).and_then(|text| time::parse(&text));
        if at.is_none() {
            let path = format!("{}.until", self.path);
            let detail = "must be a time like 2030-01-31T12:00:00Z";
            self.violations.add_value(Kind::MalformedRequest, &path, value, detail, "format");
        }
        at
    }

    fn signal(&mut self) -> Option<WaitRequest> {
        let value = self.members.get("signal")?;
        let name = text(value).filter(|name| is_signal_name(name));
        if name.is_none() {
            let path = format!("{}.signal", self.path);
            self.violations.add_value(Kind::MalformedRequest, &path, value, SIGNAL_NAME, "pattern");
        }
        let timeout = self.span("timeout");
        let schema = self.members.get("schema");
        if schema.is_some_and(|schema| schema.get().len() > SIGNAL_SCHEMA_BYTES_MAX) {
            let path = format!("{}.schema", self.path);
            let detail = format!("must have at most {SIGNAL_SCHEMA_BYTES_MAX} bytes");
            self.violations.add(Kind::MalformedRequest, &path, detail, "maxLength");
        }
        let schema = schema.map(ToOwned::to_owned);
        Some(WaitRequest::Signal { name: name?, timeout: timeout?, schema })
    }
}

fn text(value: &RawValue) -> Option<String> {
    serde_json::from_str(value.get()).ok()
}

/// What a step waits for.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WorkflowWait"))]
pub struct WaitView {
    /// How long, such as `2h`.
    #[serde(rename = "for", skip_serializing_if = "Option::is_none", default)]
    pub span: Option<String>,
    /// Until when.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub until: Option<String>,
    /// The name of the signal.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub signal: Option<String>,
    /// How long it waits for the signal before the step fails.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub timeout: Option<String>,
    /// JSON Schema of the signal's body.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub schema: Option<Box<RawValue>>,
    /// When the wait ends by itself; set once it has begun.
    pub due_at: Option<String>,
    /// Sends the signal without a key, as `POST /v1/signals/{token}`. Set while the step waits, for
    /// callers that may send it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub token: Option<String>,
    /// A page for people with the question and a button.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub url: Option<String>,
}

impl WaitView {
    /// `None` for a step that works. `signals_at` is the address of `/v1/signals`, for callers that
    /// may send the signal.
    pub(super) fn new(of: &StepRows<'_>, signals_at: Option<&str>) -> Option<WaitView> {
        let wait = of.wait()?;
        let token = of.signal_token().filter(|_| signals_at.is_some()).map(|token| token.to_string());
        let url = token.as_ref().zip(signals_at).map(|(token, at)| format!("{at}/{token}"));
        let began_at = of.job.and_then(|job| job.started_at);
        let due_at = began_at.map(|began_at| time::millis(wait.ends_at(began_at)));
        let empty = WaitView { due_at, token, url, ..WaitView::default() };
        Some(match wait {
            Wait::For(span) => WaitView { span: Some(duration::short_text(*span)), ..empty },
            Wait::Until(at) => WaitView { until: Some(time::millis(*at)), ..empty },
            Wait::Signal(signal) => WaitView {
                signal: Some(signal.name.clone()),
                timeout: Some(duration::short_text(signal.timeout)),
                schema: serde_json::from_slice(&signal.schema).ok(),
                ..empty
            },
        })
    }
}

/// A signal that is waited for, as the bearer of its token sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(rename = "WaitedSignal"))]
pub struct SignalView {
    /// The name of the signal.
    pub signal: String,
    /// WAITING, then SUCCEEDED once it was sent, FAILED after its timeout, or CANCELED.
    #[cfg_attr(feature = "schema", schemars(with = "crate::schema::StepState"))]
    pub state: String,
    /// When the wait fails without it.
    pub due_at: Option<String>,
    /// JSON Schema of the body.
    #[cfg_attr(feature = "schema", schemars(with = "Option<serde_json::Value>"))]
    pub schema: Option<Box<RawValue>>,
}

impl SignalView {
    /// The wait of this job.
    pub fn new(job: &Job, wait: &SignalWait) -> SignalView {
        let state = match job.state {
            State::Running => "WAITING",
            state => words::forge_state(state),
        };
        SignalView {
            signal: wait.name.clone(),
            state: state.to_owned(),
            due_at: job.ends_by_itself_at().filter(|_| job.state == State::Running).map(time::millis),
            schema: serde_json::from_slice(&wait.schema).ok(),
        }
    }
}

impl<'a> StepRows<'a> {
    /// What the step waits for, if it does.
    pub fn wait(&self) -> Option<&'a Wait> {
        self.head()?.wait.as_deref()
    }

    /// Whether the step waits right now, not for other steps.
    pub fn is_waiting(&self) -> bool {
        self.wait().is_some() && self.job.is_some_and(|job| job.state == State::Running)
    }

    /// The token of its signal, while the step waits for it.
    pub fn signal_token(&self) -> Option<SignalToken> {
        let signal = self.wait()?.signal()?;
        let job = self.job_id.filter(|_| self.is_waiting())?;
        Some(SignalToken::new(job, signal))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait(text: &str) -> Result<Wait, String> {
        let value: Box<RawValue> = serde_json::from_str(text).unwrap();
        match read(&value, "steps.1.wait") {
            Ok(request) => Ok(request.into_wait(7)),
            Err(refused) => {
                let first = &refused.violations[0];
                Err(format!("{} {}", first.pointer, first.constraint))
            }
        }
    }

    #[test]
    fn a_wait_is_for_a_time_until_a_time_or_for_a_signal() {
        assert_eq!(wait(r#"{"for":"2h"}"#), Ok(Wait::For(Duration::from_secs(7200))));
        assert_eq!(wait(r#"{"for":"PT2H"}"#), Ok(Wait::For(Duration::from_secs(7200))));
        let until = Time::from_millis(1_893_456_000_000);
        assert_eq!(wait(r#"{"until":"2030-01-01T00:00:00Z"}"#), Ok(Wait::Until(until)));
        let signal = |schema: &str| {
            let timeout = Duration::from_secs(86_400);
            let schema = schema.as_bytes().to_vec();
            Ok(Wait::Signal(SignalWait { name: "a.b".into(), timeout, schema, secret: 7 }))
        };
        assert_eq!(wait(r#"{"signal":"a.b","timeout":"1d"}"#), signal(""));
        assert_eq!(
            wait(r#"{"signal":"a.b","timeout":"1d","schema":{"type": "null"}}"#),
            signal(r#"{"type": "null"}"#)
        );
    }

    #[test]
    fn a_bad_wait_is_refused_with_its_place() {
        let long =
            format!(r#"{{"signal":"a","timeout":"1s","schema":{{"title":"{}"}}}}"#, "x".repeat(17_000));
        for (text, expected) in [
            ("7", "#/steps/1/wait type"),
            ("{}", "#/steps/1/wait oneOf"),
            (r#"{"for":"2h","until":"2030-01-01T00:00:00Z"}"#, "#/steps/1/wait oneOf"),
            (r#"{"for":"2h","tiemout":"1s"}"#, "#/steps/1/wait/tiemout unknown"),
            (r#"{"for":"2h","timeout":"1s"}"#, "#/steps/1/wait/timeout unsupported"),
            (r#"{"for":"0s"}"#, "#/steps/1/wait/for format"),
            (r#"{"for":7}"#, "#/steps/1/wait/for format"),
            (r#"{"for":"4000d"}"#, "#/steps/1/wait/for format"),
            (r#"{"until":"tomorrow"}"#, "#/steps/1/wait/until format"),
            (r#"{"signal":"A","timeout":"1s"}"#, "#/steps/1/wait/signal pattern"),
            (r#"{"signal":"a"}"#, "#/steps/1/wait/timeout required"),
            (&long, "#/steps/1/wait/schema maxLength"),
        ] {
            assert_eq!(wait(text).unwrap_err(), expected, "{text:.80}");
        }
    }
}
