//! A job as a message.

use forgerun_core::job::{AttemptError, Job};
use forgerun_core::retry::{Exhaustion, Jitter, RetryPolicy};
use prost_types::Struct;
use prost_types::value::Kind;
use serde_json::Value;
use serde_json::value::RawValue;

use super::moment::{duration, timestamp};
use super::{ARGS_WRAPPED_MEMBER, LEASE_TOKEN_MEMBER, PARENT_RESULTS_MEMBER, PARENT_STEPS_MEMBER, json, v1};
use crate::ojs::duration as iso;
use crate::ojs::job::{
    JobView, VERSION, args_wrapped, attempts, completed_at, error_view, shown_args, shown_meta, shown_type,
};
use crate::ojs::kept::Kept;
use crate::ojs::state::StateWord;
use crate::readable;

/// The state that OJS has a word for.
pub const fn state(word: StateWord) -> v1::JobState {
    match word {
        StateWord::Scheduled => v1::JobState::Scheduled,
        StateWord::Available => v1::JobState::Available,
        StateWord::Pending => v1::JobState::Pending,
        StateWord::Active => v1::JobState::Active,
        StateWord::Completed => v1::JobState::Completed,
        StateWord::Retryable => v1::JobState::Retryable,
        StateWord::Cancelled => v1::JobState::Cancelled,
        StateWord::Discarded => v1::JobState::Discarded,
    }
}

/// The job of a view.
pub fn message(view: &JobView<'_>) -> v1::Job {
    message_with(view, json::read_list(shown_args(&view.job.head, view.input).get().as_bytes()))
}

/// The job of a view, with these arguments, for whoever has them at hand.
pub fn message_with(view: &JobView<'_>, args: Vec<prost_types::Value>) -> v1::Job {
    let JobView { job, input, result, result_url, lease_token, parents } = view;
    let head = &job.head;
    let kept = Kept::of(&input.extra);
    let mut meta = json::read_struct(shown_meta(&job.head, input).get().as_bytes()).unwrap_or_default();
    if let Some(token) = lease_token {
        meta.fields.insert(LEASE_TOKEN_MEMBER.to_owned(), json::text(token));
        if let Some(wrapped) = args_wrapped(head, input) {
            let wrapped = prost_types::Value { kind: Some(Kind::BoolValue(wrapped)) };
            meta.fields.insert(ARGS_WRAPPED_MEMBER.to_owned(), wrapped);
        }
    }
    if let Some(parents) = parents.filter(|parents| !parents.results.is_empty()) {
        let result = |result: &Option<Box<RawValue>>| match result {
            Some(result) => json::read_shown(result.get().as_bytes()),
            None => prost_types::Value { kind: Some(Kind::NullValue(0)) },
        };
        let values = parents.results.iter().map(result).collect();
        let list = Kind::ListValue(prost_types::ListValue { values });
        meta.fields.insert(PARENT_RESULTS_MEMBER.to_owned(), prost_types::Value { kind: Some(list) });
        let values = parents.steps.iter().map(|step| json::text(step)).collect();
        let list = Kind::ListValue(prost_types::ListValue { values });
        meta.fields.insert(PARENT_STEPS_MEMBER.to_owned(), prost_types::Value { kind: Some(list) });
    }
    v1::Job {
        id: job.id.to_string(),
        r#type: shown_type(head).to_owned(),
        queue: head.queue.as_str().to_owned(),
        args,
        meta: Some(meta),
        state: state(StateWord::of(job)).into(),
        priority: head.priority.into(),
        attempt: whole(attempts(job)),
        max_attempts: whole(head.retry.attempts_max),
        retry_policy: Some(retry_policy(&head.retry)),
        unique_policy: kept.unique.map(unique_policy),
        result: result.map(|result| as_object(result.get())),
        errors: job.errors.iter().map(error).collect(),
        created_at: Some(timestamp(head.created_at)),
        enqueued_at: job.queued_at.map(timestamp),
        scheduled_at: head.execution_at.map(timestamp),
        started_at: job.started_at.map(timestamp),
        completed_at: completed_at(job).map(timestamp),
        expires_at: job.expires_at().map(timestamp),
        timeout: head.timeout.map(duration),
        visibility_timeout: head.lease.map(duration),
        tags: head.tags.clone(),
        trace_id: trace_id(job, &kept),
        workflow_id: head.workflow.map(|step| step.workflow.to_string()).unwrap_or_default(),
        specversion: VERSION.to_owned(),
        failure: Vec::new(),
        result_url: result_url.unwrap_or_default().to_owned(),
    }
}

fn whole(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// The trace that the client named, or the one that its request came in.
fn trace_id(job: &Job, kept: &Kept<'_>) -> String {
    let named = kept.unknown.get("trace_id").and_then(|value| serde_json::from_str(value.get()).ok());
    named.or_else(|| job.head.traceparent.clone()).unwrap_or_default()
}

/// A result as an object; one that is none stands in it as `value` (D45).
fn as_object(result: &str) -> Struct {
    let value = json::read_shown(result.as_bytes());
    match value.kind {
        Some(Kind::StructValue(members)) => members,
        _ => Struct { fields: [("value".to_owned(), value)].into_iter().collect() },
    }
}

fn retry_policy(retry: &RetryPolicy) -> v1::RetryPolicy {
    v1::RetryPolicy {
        max_attempts: whole(retry.attempts_max),
        initial_interval: Some(duration(retry.initial)),
        backoff_coefficient: f64::from(retry.coefficient_milli) / 1000.0,
        max_interval: Some(duration(retry.max)),
        jitter: retry.jitter != Jitter::None,
        non_retryable_errors: retry.non_retryable.clone(),
        on_exhaustion: match retry.on_exhaustion {
            Exhaustion::Discard => "discard".to_owned(),
            Exhaustion::DeadLetterIfExhausted | Exhaustion::DeadLetter => "dead_letter".to_owned(),
        },
    }
}

/// The policy as the client gave it.
fn unique_policy(given: &RawValue) -> v1::UniquePolicy {
    use v1::UniqueConflictAction as Action;
    let given: Value = serde_json::from_slice(&readable::mended(given.get().as_bytes())).unwrap_or_default();
    let texts = |name: &str| -> Vec<String> {
        let entries = given[name].as_array().into_iter().flatten();
        entries.filter_map(|entry| entry.as_str().map(str::to_owned)).collect()
    };
    let keys = texts("keys");
    let states = texts("states").into_iter().filter_map(|word| StateWord::parse(&word));
    let on_conflict = match given["on_conflict"].as_str() {
        Some("replace") => Action::Replace,
        Some("ignore") => Action::Ignore,
        Some("replace_except_schedule") => Action::ReplaceExceptSchedule,
        _ => Action::Reject,
    };
    v1::UniquePolicy {
        key: if keys.is_empty() { texts("key") } else { keys },
        period: given["period"].as_str().and_then(iso::parse).map(duration),
        on_conflict: on_conflict.into(),
        states: states.map(|word| state(word).into()).collect(),
        args_keys: texts("args_keys"),
        meta_keys: texts("meta_keys"),
    }
}

/// An entry of the error history. The class of the error goes to the details, for want of a field.
fn error(error: &AttemptError) -> v1::JobError {
    let view = error_view(error);
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut details = json::of_object(&view["details"]);
    if let Some(class) = &error.class {
        let members = details.get_or_insert_default();
        members.fields.entry("error_class".to_owned()).or_insert_with(|| json::text(class));
    }
    let backtrace = match &view["backtrace"] {
        Value::Array(lines) => lines.iter().map(text).collect::<Vec<_>>().join("\n"),
        one => text(one),
    };
    v1::JobError {
        code: error.code.clone(),
        message: text(&view["message"]),
        retryable: error.retryable,
        attempt: whole(error.attempt),
        occurred_at: Some(timestamp(error.at)),
        backtrace,
        details,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forgerun_core::job::Input;

    use super::*;
    use crate::example::ExampleJob;
    use crate::outcome::Outcomes;

    #[test]
    fn a_job_is_shown_with_all_that_its_view_has() {
        let story = ExampleJob::begin(Outcomes::default(), |head| {
            head.job_type = "email.send".into();
            head.timeout = Some(Duration::from_millis(1500));
            head.traceparent = Some("00-1-2-00".into());
            head.tags = vec!["a".into()];
        })
        .begins();
        let job = &story.told().last().unwrap().job;
        let input = Input {
            payload: br#"[1,{"a":true}]"#.to_vec(),
            meta: br#"{"locale":"de"}"#.to_vec(),
            extra:
                br#"{"unique":{"keys":["type"],"period":"PT1H","on_conflict":"ignore","states":["active"]}}"#
                    .to_vec(),
            items: Vec::new(),
        };
        let result = RawValue::from_string("[7]".into()).unwrap();
        let view = JobView { lease_token: Some("t.1"), result: Some(&result), ..JobView::new(job, &input) };
        let shown = message(&view);
        assert_eq!((shown.id.as_str(), shown.r#type.as_str()), (job.id.to_string().as_str(), "email.send"));
        assert_eq!((shown.state(), shown.attempt), (v1::JobState::Active, 1));
        assert_eq!(shown.args, json::read_list(br#"[1,{"a":true}]"#));
        let meta = json::read_struct(
            br#"{"locale":"de","forgerun.lease_token":"t.1","forgerun.args_wrapped":false}"#,
        );
        assert_eq!(shown.meta, meta);
        assert_eq!(shown.result, json::read_struct(br#"{"value":[7]}"#), "no object, so within one");
        assert_eq!(shown.timeout, Some(prost_types::Duration { seconds: 1, nanos: 500_000_000 }));
        assert_eq!((shown.trace_id.as_str(), shown.specversion.as_str()), ("00-1-2-00", "1.0"));
        let unique = shown.unique_policy.unwrap();
        assert_eq!(
            (unique.key.as_slice(), unique.on_conflict()),
            (&["type".to_owned()][..], v1::UniqueConflictAction::Ignore)
        );
        assert_eq!(unique.period.unwrap().seconds, 3600);
        assert!(shown.completed_at.is_none() && shown.started_at.is_some());
    }

    #[test]
    fn a_cancelled_job_has_completed_nothing() {
        let story = ExampleJob::begin(Outcomes::default(), |_| {}).is_cancelled();
        let shown = message(&JobView::new(story.job(), &Input::default()));
        assert_eq!((shown.state(), shown.completed_at), (v1::JobState::Cancelled, None));
    }

    #[test]
    fn an_error_keeps_its_class_and_its_details() {
        let failed = AttemptError {
            attempt: 2,
            at: forgerun_core::time::Time::from_millis(1),
            kind: forgerun_core::catalog::Kind::HandlerError,
            code: "boom".into(),
            message: String::new(),
            class: Some("Oops".into()),
            retryable: true,
            details: br#"{"details":{"a":1},"backtrace":["x","y"]}"#.to_vec(),
            wait: None,
            discarded: false,
            execution: 1,
        };
        let shown = error(&failed);
        assert_eq!((shown.code.as_str(), shown.backtrace.as_str(), shown.attempt), ("boom", "x\ny", 2));
        assert!(!shown.message.is_empty(), "the kind says what it means");
        assert_eq!(shown.details, json::read_struct(br#"{"a":1,"error_class":"Oops"}"#));
    }
}
