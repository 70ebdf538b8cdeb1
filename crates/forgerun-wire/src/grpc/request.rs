//! From a message to the body that it would be on `/ojs/v1`, where it is then read, checked and refused as such bodies are.
//!
//! Proto3 cannot tell zero from unsaid, so zero and empty count as unsaid. What `/ojs/v1` calls the same is called the same here, so
//! that a refusal names fields that the client knows.

use forgerun_core::catalog::Kind;
use prost_types::{Struct, Value};

use super::json::{self, NotJson};
use super::moment;
use super::v1;
use crate::body;
use crate::problem::RefusedRequest;

type Written = Result<String, Box<RefusedRequest>>;

/// An object on its way to a body.
struct BodyWriter(String);

impl BodyWriter {
    fn new() -> BodyWriter {
        BodyWriter("{".to_owned())
    }

    /// Begins a member; its value follows.
    fn member(&mut self, name: &str) -> &mut String {
        if self.0.len() > 1 {
            self.0.push(',');
        }
        self.0.push('"');
        self.0.push_str(name);
        self.0.push_str("\":");
        &mut self.0
    }

    /// A member that is JSON already.
    fn raw(&mut self, name: &str, json: &str) {
        self.member(name).push_str(json);
    }

    /// Text, if it says something.
    fn text(&mut self, name: &str, text: &str) {
        if !text.is_empty() {
            json::write_text(text, self.member(name));
        }
    }

    /// A number, if it is not zero.
    fn number(&mut self, name: &str, number: i64) {
        if number != 0 {
            self.raw(name, &number.to_string());
        }
    }

    /// Texts, if there are any.
    fn texts<'t>(&mut self, name: &str, texts: impl ExactSizeIterator<Item = &'t str>) {
        if texts.len() == 0 {
            return;
        }
        let out = self.member(name);
        for (at, text) in texts.enumerate() {
            out.push(if at == 0 { '[' } else { ',' });
            json::write_text(text, out);
        }
        out.push(']');
    }

    fn finish(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

/// Refuses a value that JSON has no words for.
fn refused(kind: Kind, at: &str, why: NotJson) -> Box<RefusedRequest> {
    body::refused(kind, vec![body::violation(&at.replace('.', "/"), why, "type")], &[])
}

/// The envelope of a submission.
pub fn enqueue(request: &v1::EnqueueRequest) -> Written {
    envelope("", &request.r#type, &request.args, request.options.as_ref(), None)
}

/// The body of a registration of a cron job.
pub fn cron(request: &v1::RegisterCronRequest) -> Written {
    let job = envelope("job_template.", &request.r#type, &request.args, request.options.as_ref(), None)?;
    let mut out = BodyWriter::new();
    out.text("name", &request.name);
    out.text("cron", &request.cron);
    out.text("timezone", &request.timezone);
    out.raw("job_template", &job);
    Ok(out.finish())
}

/// The envelopes of a batch.
pub fn batch(request: &v1::EnqueueBatchRequest) -> Written {
    let mut out = String::from("{\"jobs\":[");
    for (at, job) in request.jobs.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let place = format!("jobs.{at}.");
        let options = job.options.as_ref();
        out.push_str(&envelope(&place, &job.r#type, &job.args, options, request.default_options.as_ref())?);
    }
    out.push_str("]}");
    Ok(out)
}

/// The description of a workflow: steps that name those they wait for.
pub fn workflow(request: &v1::CreateWorkflowRequest) -> Written {
    let mut body = BodyWriter::new();
    body.text("name", &request.name);
    let out = body.member("steps");
    out.push('[');
    for (at, step) in request.steps.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        let place = format!("steps.{at}.");
        let job = envelope(&place, &step.r#type, &step.args, step.options.as_ref(), None)?;
        let mut of_step = BodyWriter::new();
        of_step.text("id", &step.id);
        of_step.texts("depends_on", step.depends_on.iter().map(String::as_str));
        out.push_str(&of_step.0);
        if of_step.0.len() > 1 {
            out.push(',');
        }
        out.push_str(&job[1..]);
    }
    out.push(']');
    Ok(body.finish())
}

fn envelope(
    at: &str,
    job_type: &str,
    args: &[Value],
    options: Option<&v1::EnqueueOptions>,
    defaults: Option<&v1::EnqueueOptions>,
) -> Written {
    let mut out = BodyWriter::new();
    out.text("type", job_type);
    json::write_list(args, out.member("args"))
        .map_err(|why| refused(Kind::InvalidArgs, &format!("{at}args"), why))?;
    let unsaid = v1::EnqueueOptions::default();
    let options = Options { own: options.unwrap_or(&unsaid), defaults: defaults.unwrap_or(&unsaid) };
    let written = options.write(at)?;
    if written.len() > "{}".len() {
        out.raw("options", &written);
    }
    let trace_id = options.text(|options| &options.trace_id);
    out.text("trace_id", trace_id);
    Ok(out.finish())
}

/// The options of a job over those of its batch.
struct Options<'a> {
    own: &'a v1::EnqueueOptions,
    defaults: &'a v1::EnqueueOptions,
}

impl<'a> Options<'a> {
    fn some<T>(&self, field: impl Fn(&'a v1::EnqueueOptions) -> Option<&'a T>) -> Option<&'a T> {
        field(self.own).or_else(|| field(self.defaults))
    }

    fn text(&self, field: impl Fn(&'a v1::EnqueueOptions) -> &'a String) -> &'a str {
        let own = field(self.own);
        if own.is_empty() { field(self.defaults) } else { own }
    }

    fn number(&self, field: impl Fn(&v1::EnqueueOptions) -> i32) -> i64 {
        let own = field(self.own);
        i64::from(if own == 0 { field(self.defaults) } else { own })
    }

    fn write(&self, at: &str) -> Written {
        let mut out = BodyWriter::new();
        out.text("queue", self.text(|options| &options.queue));
        out.number("priority", self.number(|options| options.priority));
        if let Some(until) = self.some(|options| options.delay_until.as_ref()) {
            out.text("delay_until", &until.to_string());
        }
        for (name, span) in [
            ("timeout", self.some(|options| options.timeout.as_ref())),
            ("visibility_timeout", self.some(|options| options.visibility_timeout.as_ref())),
        ] {
            if let Some(span) = span {
                out.raw(name, &moment::seconds(span));
            }
        }
        if let Some(ttl) = self.some(|options| options.ttl.as_ref()) {
            out.text("expires_at", &format!("+{}", moment::iso(ttl)));
        }
        if let Some(retry) = self.some(|options| options.retry.as_ref()) {
            out.raw("retry", &retry_policy(retry));
        }
        if let Some(unique) = self.some(|options| options.unique.as_ref()) {
            out.raw("unique", &unique_policy(unique));
        }
        let tags = if self.own.tags.is_empty() { &self.defaults.tags } else { &self.own.tags };
        out.texts("tags", tags.iter().map(String::as_str));
        if let Some(meta) = self.some(|options| options.meta.as_ref()) {
            object(&mut out, "meta", meta, Kind::InvalidMetadata, &format!("{at}options.meta"))?;
        }
        out.number("max_attempts", self.number(|options| options.max_attempts));
        if self.own.pending || self.defaults.pending {
            out.raw("pending", "true");
        }
        Ok(out.finish())
    }
}

fn object(
    out: &mut BodyWriter,
    name: &str,
    members: &Struct,
    kind: Kind,
    at: &str,
) -> Result<(), Box<RefusedRequest>> {
    json::write_struct(members, out.member(name)).map_err(|why| refused(kind, at, why))
}

fn retry_policy(retry: &v1::RetryPolicy) -> String {
    let mut out = BodyWriter::new();
    out.number("max_attempts", retry.max_attempts.into());
    for (name, span) in [("initial_interval", &retry.initial_interval), ("max_interval", &retry.max_interval)]
    {
        if let Some(span) = span {
            out.text(name, &moment::iso(span));
        }
    }
    // Not a number is no JSON; the reader says so of null too, but what is null counts as unsaid there.
    if retry.backoff_coefficient.is_finite() && retry.backoff_coefficient != 0.0 {
        out.raw("backoff_coefficient", &retry.backoff_coefficient.to_string());
    } else if retry.backoff_coefficient != 0.0 {
        out.raw("backoff_coefficient", "-1");
    }
    out.raw("jitter", if retry.jitter { "true" } else { "false" });
    out.texts("non_retryable_errors", retry.non_retryable_errors.iter().map(String::as_str));
    out.text("on_exhaustion", &retry.on_exhaustion);
    out.finish()
}

fn unique_policy(unique: &v1::UniquePolicy) -> String {
    use v1::UniqueConflictAction as Action;
    let mut out = BodyWriter::new();
    out.texts("key", unique.key.iter().map(String::as_str));
    out.texts("args_keys", unique.args_keys.iter().map(String::as_str));
    out.texts("meta_keys", unique.meta_keys.iter().map(String::as_str));
    if let Some(period) = &unique.period {
        out.text("period", &moment::iso(period));
    }
    out.texts("states", unique.states.iter().map(|state| state_word(*state)));
    out.text(
        "on_conflict",
        match Action::try_from(unique.on_conflict) {
            Ok(Action::Unspecified) => "",
            Ok(Action::Reject) => "reject",
            Ok(Action::Replace) => "replace",
            Ok(Action::Ignore) => "ignore",
            Ok(Action::ReplaceExceptSchedule) => "replace_except_schedule",
            Err(_) => "unknown",
        },
    );
    out.finish()
}

/// OJS's word for a state; one that is none has no word, and is refused for it.
fn state_word(state: i32) -> &'static str {
    use v1::JobState;
    match JobState::try_from(state) {
        Ok(JobState::Scheduled) => "scheduled",
        Ok(JobState::Available) => "available",
        Ok(JobState::Pending) => "pending",
        Ok(JobState::Active) => "active",
        Ok(JobState::Completed) => "completed",
        Ok(JobState::Retryable) => "retryable",
        Ok(JobState::Cancelled) => "cancelled",
        Ok(JobState::Discarded) => "discarded",
        Ok(JobState::Unspecified) | Err(_) => "unspecified",
    }
}

/// What a worker that fetches says.
pub fn fetch(request: &v1::FetchRequest) -> String {
    let mut out = BodyWriter::new();
    out.texts("queues", request.queues.iter().map(String::as_str));
    out.number("count", request.count.into());
    out.text("worker_id", &request.worker_id);
    span(&mut out, "visibility_timeout_ms", request.visibility_timeout.as_ref());
    span(&mut out, "wait_ms", request.wait.as_ref());
    out.finish()
}

/// What a worker says that wants a stream of jobs: a fetch of as many as it can hold.
pub fn stream_jobs(request: &v1::StreamJobsRequest) -> String {
    let mut out = BodyWriter::new();
    out.texts("queues", request.queues.iter().map(String::as_str));
    out.number("count", request.max_concurrent.into());
    out.text("worker_id", &request.worker_id);
    span(&mut out, "visibility_timeout_ms", request.visibility_timeout.as_ref());
    out.finish()
}

fn span(out: &mut BodyWriter, name: &str, span: Option<&prost_types::Duration>) {
    if let Some(span) = span {
        out.raw(name, &moment::millis(span).to_string());
    }
}

/// What a worker says of a job that is done; `token` is its lease token, where it gives one.
pub fn ack(request: &v1::AckRequest, token: Option<&str>) -> Written {
    let mut out = BodyWriter::new();
    out.text("job_id", &request.job_id);
    out.text("lease_token", token.unwrap_or_default());
    if let Some(result) = &request.result {
        object(&mut out, "result", result, Kind::MalformedRequest, "result")?;
    }
    Ok(out.finish())
}

/// What a worker says of an attempt that failed.
pub fn nack(request: &v1::NackRequest, token: Option<&str>) -> Written {
    let mut out = BodyWriter::new();
    out.text("job_id", &request.job_id);
    out.text("lease_token", token.unwrap_or_default());
    if request.requeue {
        out.raw("requeue", "true");
    }
    if let Some(error) = &request.error {
        let mut inner = BodyWriter::new();
        inner.text("code", &error.code);
        inner.text("message", &error.message);
        // False is what nobody said (C-102).
        if let Some(retryable) = request.retryable.or(error.retryable.then_some(true)) {
            inner.raw("retryable", if retryable { "true" } else { "false" });
        }
        inner.text("backtrace", &error.backtrace);
        if let Some(details) = &error.details {
            object(&mut inner, "details", details, Kind::MalformedRequest, "error.details")?;
        }
        out.raw("error", &inner.finish());
    }
    Ok(out.finish())
}

/// A sign of life.
pub fn heartbeat(request: &v1::HeartbeatRequest, token: Option<&str>) -> String {
    use v1::WorkerState;
    let mut out = BodyWriter::new();
    out.text("worker_id", &request.worker_id);
    if !request.id.is_empty() {
        out.texts("active_jobs", [request.id.as_str()].into_iter());
        if let Some(token) = token {
            let mut tokens = BodyWriter::new();
            json::write_text(&request.id, &mut tokens.0);
            tokens.0.push(':');
            json::write_text(token, &mut tokens.0);
            out.raw("lease_tokens", &tokens.finish());
        }
    }
    span(&mut out, "visibility_timeout_ms", request.extend_by.as_ref());
    out.text(
        "state",
        match WorkerState::try_from(request.current_state) {
            Ok(WorkerState::Unspecified) => "",
            Ok(WorkerState::Running) => "running",
            Ok(WorkerState::Quiet) => "quiet",
            Ok(WorkerState::Terminate) => "terminate",
            Err(_) => "unknown",
        },
    );
    out.finish()
}

#[cfg(test)]
mod tests {
    use forgerun_core::time::Time;

    use super::*;
    use crate::ojs::batch::read_batch;
    use crate::ojs::envelope::{self, Rules};
    use crate::ojs::worker::{Nack, read_ack, read_fetch, read_heartbeat, read_nack};

    fn rules() -> Rules<'static> {
        Rules { now: Time::ZERO, tenant: None, strict_catalog: false, test_hooks: false }
    }

    fn value(text: &str) -> Value {
        json::read(text.as_bytes()).unwrap()
    }

    fn members(text: &str) -> Struct {
        json::read_struct(text.as_bytes()).unwrap()
    }

    fn span_of(seconds: i64, nanos: i32) -> Option<prost_types::Duration> {
        Some(prost_types::Duration { seconds, nanos })
    }

    fn options() -> v1::EnqueueOptions {
        v1::EnqueueOptions {
            queue: "emails".into(),
            priority: -5,
            delay_until: Some(prost_types::Timestamp { seconds: 4_102_444_799, nanos: 500_000_000 }),
            timeout: span_of(90, 500_000_000),
            retry: Some(v1::RetryPolicy {
                max_attempts: 5,
                initial_interval: span_of(2, 0),
                backoff_coefficient: 1.5,
                max_interval: span_of(60, 0),
                jitter: false,
                non_retryable_errors: vec!["Auth.*".into()],
                on_exhaustion: "dead_letter".into(),
            }),
            unique: Some(v1::UniquePolicy {
                key: vec!["type".into(), "args".into()],
                period: span_of(3600, 0),
                on_conflict: v1::UniqueConflictAction::Ignore.into(),
                states: vec![v1::JobState::Active.into()],
                ..Default::default()
            }),
            ttl: span_of(10, 0),
            tags: vec!["a\"b".into()],
            trace_id: "t-1".into(),
            meta: Some(members(r#"{"locale":"de"}"#)),
            max_attempts: 9,
            visibility_timeout: span_of(30, 0),
            pending: true,
        }
    }

    #[test]
    fn every_option_arrives_as_it_would_over_http() {
        let request = v1::EnqueueRequest {
            r#type: "email.send".into(),
            args: vec![value("1"), value(r#"{"to":"ü"}"#)],
            options: Some(options()),
        };
        let body = enqueue(&request).unwrap();
        let over_http = r#"{"type":"email.send","args":[1,{"to":"ü"}],"trace_id":"t-1","options":{"queue":"emails","priority":-5,
            "delay_until":"2099-12-31T23:59:59.500Z","timeout_ms":90500,"visibility_timeout_ms":30000,"expires_at":"+PT10S",
            "retry":{"max_attempts":5,"initial_interval":"PT2S","backoff_coefficient":1.5,"max_interval":"PT1M","jitter":false,
                "non_retryable_errors":["Auth.*"],"on_exhaustion":"dead_letter"},
            "unique":{"key":["type","args"],"period":"PT1H","states":["active"],"on_conflict":"ignore"},
            "tags":["a\"b"],"meta":{"locale":"de"},"max_attempts":9,"pending":true}}"#;
        let mut ours = envelope::read(body.as_bytes(), rules()).unwrap();
        let mut theirs = envelope::read(over_http.as_bytes(), rules()).unwrap();
        // Moments and policies are shown again as they were spelled.
        assert!(String::from_utf8(ours.kept.clone()).unwrap().contains(r#""unknown":{"trace_id":"t-1"}"#));
        for envelope in [&mut ours, &mut theirs] {
            envelope.kept.clear();
            envelope.scheduled_at.as_mut().unwrap().given = None;
        }
        assert_eq!(ours, theirs);
    }

    #[test]
    fn what_is_not_said_is_left_to_the_server() {
        let bare = v1::EnqueueRequest { r#type: "a".into(), ..Default::default() };
        assert_eq!(enqueue(&bare).unwrap(), r#"{"type":"a","args":[]}"#);
        let said = v1::EnqueueRequest { options: Some(Default::default()), ..bare };
        assert_eq!(enqueue(&said).unwrap(), r#"{"type":"a","args":[]}"#);
    }

    #[test]
    fn what_is_wrong_is_refused_by_the_name_of_its_field() {
        let with = |options| v1::EnqueueRequest { r#type: "a".into(), args: vec![], options: Some(options) };
        let cases = [
            (v1::EnqueueOptions { queue: "A".into(), ..Default::default() }, "options.queue"),
            (v1::EnqueueOptions { priority: 101, ..Default::default() }, "options.priority"),
            (v1::EnqueueOptions { timeout: span_of(-1, 0), ..Default::default() }, "options.timeout"),
            (v1::EnqueueOptions { timeout: span_of(0, 0), ..Default::default() }, "options.timeout"),
            (v1::EnqueueOptions { ttl: span_of(-1, 0), ..Default::default() }, "options.expires_at"),
            (v1::EnqueueOptions { max_attempts: -1, ..Default::default() }, "options.max_attempts"),
            (
                v1::EnqueueOptions {
                    delay_until: Some(prost_types::Timestamp { seconds: i64::MAX / 4, nanos: 0 }),
                    ..Default::default()
                },
                "options.delay_until",
            ),
            (
                v1::EnqueueOptions {
                    retry: Some(v1::RetryPolicy { initial_interval: span_of(-1, 0), ..Default::default() }),
                    ..Default::default()
                },
                "options.retry.initial_interval",
            ),
            (
                v1::EnqueueOptions {
                    retry: Some(v1::RetryPolicy { backoff_coefficient: f64::NAN, ..Default::default() }),
                    ..Default::default()
                },
                "options.retry.backoff_coefficient",
            ),
            (
                v1::EnqueueOptions {
                    unique: Some(v1::UniquePolicy { states: vec![99], ..Default::default() }),
                    ..Default::default()
                },
                "options.unique.states",
            ),
            (
                v1::EnqueueOptions {
                    unique: Some(v1::UniquePolicy { on_conflict: 99, ..Default::default() }),
                    ..Default::default()
                },
                "options.unique.on_conflict",
            ),
        ];
        for (options, field) in cases {
            let read = enqueue(&with(options)).and_then(|body| envelope::read(body.as_bytes(), rules()));
            assert_eq!(read.unwrap_err().details["field"], field);
        }
        let nan = Value { kind: Some(prost_types::value::Kind::NumberValue(f64::NAN)) };
        let wrong = v1::EnqueueRequest { r#type: "a".into(), args: vec![nan], options: None };
        let refused = enqueue(&wrong).unwrap_err();
        assert_eq!((refused.kind, &refused.details["field"]), (Kind::InvalidArgs, &"args".into()));
    }

    #[test]
    fn the_options_of_a_job_go_before_those_of_its_batch() {
        let jobs = vec![
            v1::BatchJobEntry { r#type: "a".into(), ..Default::default() },
            v1::BatchJobEntry {
                r#type: "b".into(),
                options: Some(v1::EnqueueOptions { queue: "own".into(), ..Default::default() }),
                ..Default::default()
            },
        ];
        let request = v1::EnqueueBatchRequest { jobs, default_options: Some(options()) };
        let read = read_batch(batch(&request).unwrap().as_bytes(), rules()).unwrap();
        let queues: Vec<&str> = read.iter().map(|job| job.queue.as_ref().unwrap().as_str()).collect();
        assert_eq!(queues, ["emails", "own"]);
        assert!(read.iter().all(|job| job.priority == -5 && job.pending));
    }

    #[test]
    fn workers_are_understood() {
        let fetched = read_fetch(
            fetch(&v1::FetchRequest {
                queues: vec!["a".into()],
                worker_id: "w".into(),
                wait: span_of(1, 0),
                ..Default::default()
            })
            .as_bytes(),
        )
        .unwrap();
        assert_eq!((fetched.count, fetched.wait.as_millis()), (1, 1000));
        assert!(read_fetch(fetch(&v1::FetchRequest::default()).as_bytes()).is_err(), "no queues");
        let negative = v1::FetchRequest { queues: vec!["a".into()], count: -1, ..Default::default() };
        assert!(read_fetch(fetch(&negative).as_bytes()).is_err());
        let id = "019461a8-1a2b-7c3d-8e4f-5a6b7c8d9e0f";
        let done = v1::AckRequest { job_id: id.into(), result: Some(members(r#"{"n":1}"#)) };
        let read = read_ack(ack(&done, Some("t")).unwrap().as_bytes(), None).unwrap();
        assert_eq!(read.result.unwrap().get(), r#"{"n":1}"#);
        let nothing = v1::AckRequest::default();
        let refused = read_ack(ack(&nothing, None).unwrap().as_bytes(), None).unwrap_err();
        assert_eq!(refused.details["field"], "job_id");
        let error = v1::JobError {
            code: "boom".into(),
            message: "it broke".into(),
            details: Some(members(r#"{"error_class":"Oops"}"#)),
            ..Default::default()
        };
        let failed = v1::NackRequest { job_id: id.into(), error: Some(error), ..Default::default() };
        let read = read_nack(nack(&failed, None).unwrap().as_bytes(), None).unwrap();
        let Nack::Fail(said) = read.answer else { panic!("{:?}", read.answer) };
        assert_eq!((said.class.as_deref(), said.retryable), (Some("Oops"), Some(true)), "false is unsaid");
        let outright = v1::NackRequest { retryable: Some(false), ..failed.clone() };
        let read = read_nack(nack(&outright, None).unwrap().as_bytes(), None).unwrap();
        assert!(matches!(read.answer, Nack::Fail(said) if said.retryable == Some(false)));
        let back = v1::NackRequest { requeue: true, error: None, ..failed };
        let read = read_nack(nack(&back, None).unwrap().as_bytes(), None).unwrap();
        assert!(matches!(read.answer, Nack::Requeue { delay, until_signal: None } if delay.is_zero()));
        let alive = v1::HeartbeatRequest { worker_id: "w".into(), ..Default::default() };
        assert!(read_heartbeat(heartbeat(&alive, None).as_bytes()).unwrap().jobs.is_empty());
        let holds = v1::HeartbeatRequest { id: id.into(), extend_by: span_of(5, 0), ..alive };
        let beat = read_heartbeat(heartbeat(&holds, Some("t")).as_bytes()).unwrap();
        assert_eq!((beat.jobs.len(), beat.lease.unwrap().as_secs()), (1, 5));
    }
}
