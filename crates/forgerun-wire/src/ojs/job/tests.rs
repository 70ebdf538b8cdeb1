//! Jobs in every state, as OJS shows them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use forgerun_core::catalog::Kind;
use forgerun_core::command::{Fail, Owned, Retry, Succeed, WorkError};
use forgerun_core::id::ExecutionId;
use forgerun_core::retry::{Exhaustion, RetryPolicy};
use forgerun_core::workflow::WorkflowStep;
use forgerun_core::{Command, job::Dialect};

use super::*;
use crate::example::ExampleJob;
use crate::ojs::retry::defaults;
use crate::outcome::Outcomes;

fn begun(attempts_max: u32) -> ExampleJob {
    ExampleJob::begin(Outcomes::default(), |head| {
        head.dialect = Dialect::Ojs;
        head.job_type = "email.send".into();
        head.retry = RetryPolicy { attempts_max, on_exhaustion: Exhaustion::DeadLetter, ..defaults() };
    })
}

fn value(view: &JobView<'_>) -> Value {
    serde_json::from_str(view.raw().get()).unwrap()
}

fn shown(story: &ExampleJob) -> Value {
    value(&JobView::new(story.job(), &Input::default()))
}

fn fails(story: ExampleJob) -> ExampleJob {
    let error = WorkError {
        retryable: Some(true),
        code: "handler_error".into(),
        ..WorkError::new(Kind::HandlerError, "boom")
    };
    let fail = Command::Fail(Fail { held: story.held(), error });
    story.then(fail)
}

fn absent(job: &Value, names: &[&str]) {
    for name in names {
        assert!(job.get(name).is_none(), "{name} in {job}");
    }
}

#[test]
fn a_fresh_job_has_nothing_of_what_is_to_come() {
    let job = shown(&begun(3));
    assert_eq!(
        (&job["state"], &job["attempt"], &job["max_attempts"]),
        (&json!("available"), &json!(0), &json!(3))
    );
    assert_eq!((&job["args"], &job["meta"], &job["tags"]), (&json!([]), &json!({}), &json!([])));
    assert_eq!((&job["specversion"], &job["type"]), (&json!("1.0"), &json!("email.send")));
    assert!(job["enqueued_at"].is_string() && job["created_at"].is_string());
    absent(
        &job,
        &[
            "started_at",
            "completed_at",
            "error",
            "errors",
            "result",
            "worker_id",
            "lease_token",
            "cancelled_at",
        ],
    );
}

#[test]
fn a_job_in_work_names_its_holder() {
    let job = shown(&begun(3).begins());
    assert_eq!((&job["state"], &job["attempt"]), (&json!("active"), &json!(1)));
    assert_eq!(job["worker_id"], "worker-1");
    assert!(job["started_at"].is_string());
    absent(&job, &["completed_at", "next_attempt_at"]);
}

#[test]
fn a_failed_attempt_is_shown_with_the_wait() {
    let job = shown(&fails(begun(3).begins()));
    assert_eq!((&job["state"], &job["attempt"]), (&json!("retryable"), &json!(1)));
    assert!((500..=1500).contains(&job["retry_delay_ms"].as_u64().unwrap()), "{job}");
    assert!(job["next_attempt_at"].is_string());
    assert_eq!(job["error"]["message"], "boom");
    assert_eq!(
        (&job["error"]["type"], &job["error"]["code"]),
        (&json!("handler_error"), &json!("handler_error"))
    );
    assert_eq!(job["error"]["canonical_code"], "HANDLER_ERROR");
    assert_eq!((&job["errors"][0]["attempt"], job["errors"].as_array().unwrap().len()), (&json!(1), 1));
    absent(&job, &["completed_at", "discarded_at"]);
}

#[test]
fn an_exhausted_job_is_discarded_and_a_dead_letter() {
    let job = shown(&fails(begun(1).begins()));
    assert_eq!((&job["state"], &job["attempt"]), (&json!("discarded"), &json!(1)));
    for name in ["completed_at", "discarded_at", "dead_lettered_at"] {
        assert!(job[name].is_string(), "{name}");
    }
}

#[test]
fn success_ends_the_error_and_keeps_the_errors() {
    let story = begun(3).begins();
    let done = Command::Succeed(Succeed { held: story.held(), output: None });
    let job = shown(&story.then(done));
    assert_eq!(job["state"], "completed");
    assert!(job["completed_at"].is_string());
    absent(&job, &["error", "discarded_at"]);
}

#[test]
fn a_cancelled_job_has_completed_nothing() {
    let job = shown(&begun(3).is_cancelled());
    assert_eq!((&job["state"], &job["attempt"]), (&json!("cancelled"), &json!(0)));
    assert!(job["cancelled_at"].is_string());
    absent(&job, &["completed_at", "discarded_at"]);
}

#[test]
fn an_attempt_that_was_handed_back_does_not_count_after_a_cancel_either() {
    let handed_back = |story: ExampleJob| {
        let back = Command::HandBack(story.held());
        story.then(back)
    };
    let counted = |story: ExampleJob| shown(&story.is_cancelled())["attempt"].clone();
    assert_eq!(counted(begun(3).begins()), 1, "a worker has it");
    assert_eq!(counted(begun(3).claimed(false)), 1);
    assert_eq!(counted(handed_back(begun(3).begins())), 0);
    assert_eq!(counted(handed_back(begun(3).claimed(false))), 0);
    assert_eq!(counted(fails(begun(3).begins())), 1, "a failure counts, and what would follow it does not");
    assert_eq!(counted(handed_back(fails(begun(3).begins()).then(Command::Due(1)).begins())), 1);
}

#[test]
fn a_job_is_shown_under_its_own_type_and_under_one_of_ours_if_it_has_none() {
    let foreign = ExampleJob::begin(Outcomes::default(), |head| head.job_type = "Market Analysis".into());
    assert_eq!(shown(&foreign)["type"], "Market Analysis");
    let untyped = ExampleJob::begin(Outcomes::default(), |head| head.job_type = String::new());
    assert_eq!(shown(&untyped)["type"], FOREIGN_TYPE);
}

#[test]
fn what_a_client_gave_is_shown_as_it_was_given() {
    let story = ExampleJob::begin(Outcomes::default(), |head| {
        head.expires_at = time::parse("2099-12-31T23:59:59Z");
        head.execution_at = time::parse("2026-05-28T14:00:02+02:00");
    });
    let input = Input {
        payload: b"[1.50]".to_vec(),
        meta: br#"{"a": 1}"#.to_vec(),
        extra: br#"{"retry":{"max_attempts":3,"multiplier":2},"expires_at":"2099-12-31T23:59:59Z","scheduled_at":"2026-05-28T14:00:02+02:00","unknown":{"x":{"y": 1.0}}}"#.to_vec(),
        ..Input::default()
    };
    let text = serde_json::to_string(&JobView::new(story.job(), &input)).unwrap();
    for part in [
        r#""args":[1.50]"#,
        r#""meta":{"a": 1}"#,
        r#""x":{"y": 1.0}"#,
        r#""expires_at":"2099-12-31T23:59:59Z""#,
        r#""scheduled_at":"2026-05-28T14:00:02+02:00""#,
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["retry"]["multiplier"], 2);
}

#[test]
fn a_moment_that_does_not_count_is_not_shown() {
    let extra = br#"{"scheduled_at":"2099-12-31T23:59:59Z","expires_at":"2026-05-28T12:00:03Z"}"#.to_vec();
    let input = Input { extra, ..Input::default() };
    let shown = |story: &ExampleJob| value(&JobView::new(story.job(), &input));
    let story = ExampleJob::begin(Outcomes::default(), |head| {
        head.retry = RetryPolicy { attempts_max: 1, on_exhaustion: Exhaustion::DeadLetter, ..defaults() };
        // As the job had it whose schedule this one keeps.
        head.execution_at = time::parse("2026-05-28T12:00:00Z");
        head.expires_at = time::parse("2026-05-28T12:00:03Z");
    });
    let job = shown(&story);
    assert_eq!(
        (&job["scheduled_at"], &job["expires_at"]),
        (&json!("2026-05-28T12:00:00.000Z"), &json!("2026-05-28T12:00:03Z"))
    );
    let failed = fails(story.begins());
    assert!(shown(&failed)["expires_at"].is_string());
    let owned = Owned { job: failed.job().id, client: None };
    let execution = failed.job().id.first_execution();
    let retry = Retry { owned, execution: another(execution), afresh: true, dead_letter: true, from: None };
    let retried = shown(&failed.then(Command::Retry(retry)));
    assert_eq!(retried["state"], "available");
    absent(&retried, &["expires_at"]);
}

fn another(execution: ExecutionId) -> ExecutionId {
    ExecutionId::from_u128(execution.as_u128() + 1)
}

#[test]
fn what_no_value_can_be_made_of_hides_nothing() {
    let story = begun(3);
    let input = Input {
        payload: br#"["caf\ud83d",12345678901234567890123456789]"#.to_vec(),
        meta: br#"{"a":1e400}"#.to_vec(),
        extra: br#"{"retry":{"x":"\ud83d","max_attempts":3},"unknown":{"y":"\ud83d"}}"#.to_vec(),
        items: Vec::new(),
    };
    let view = JobView::new(story.job(), &input);
    let text = view.raw().get().to_owned();
    for part in [
        r#""args":["caf\ud83d",12345678901234567890123456789]"#,
        r#""meta":{"a":1e400}"#,
        r#""y":"\ud83d""#,
        "\"x\":\"\u{fffd}\"",
    ] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

/// Whoever adds a member to the view adds it to what clients cannot submit.
#[test]
fn every_member_of_a_view_is_one_that_clients_cannot_forge() {
    let result = RawValue::from_string("1".into()).unwrap();
    let parents = ParentResults::default();
    let step = WorkflowStep { workflow: JobId::from_u128(1), index: 0 };
    let expired = {
        let story = begun(3);
        let mut job = story.job().clone();
        (job.expired, job.state, job.finished_at) = (true, State::Canceled, Some(Time::ZERO));
        job
    };
    let mut jobs: Vec<Job> = [begun(3), begun(3).begins(), fails(begun(3).begins()), begun(3).is_cancelled()]
        .iter()
        .map(|story| story.job().clone())
        .collect();
    jobs.extend([fails(begun(1).begins()).job().clone(), expired]);
    let mut seen = BTreeSet::new();
    for job in &mut jobs {
        job.progress = Some(1);
        (job.message, job.dead_lettered_at) = (Some("x".into()), Some(Time::ZERO));
        let head = Arc::make_mut(&mut job.head);
        head.workflow = Some(step);
        (head.timeout, head.lease) = (Some(Duration::from_secs(1)), Some(Duration::from_secs(1)));
        (head.execution_at, head.expires_at) = (Some(Time::ZERO), Some(Time::ZERO));
        (head.traceparent, head.tracestate) = (Some("x".into()), Some("y".into()));
        let input = Input {
            extra: br#"{"unique":{},"rate_limit":{},"schema":"x","unknown":{"cancel_reason":1,"state":2,"mine":3}}"#.to_vec(),
            ..Input::default()
        };
        let view = JobView {
            result: Some(&result),
            result_url: Some("http://a"),
            lease_token: Some("t"),
            parents: Some(&parents),
            ..JobView::new(job, &input)
        };
        let Value::Object(members) = value(&view) else { panic!("an object") };
        let text = view.raw().get().to_owned();
        for name in members.keys().filter(|name| *name != "mine") {
            assert!(is_known(name), "clients could submit {name}");
        }
        for name in ["cancel_reason", "state", "mine"] {
            assert!(text.matches(&format!("\"{name}\":")).count() <= 1, "{name} twice in {text}");
        }
        assert_eq!(members["mine"], 3);
        seen.extend(members.into_iter().map(|(name, _)| name));
    }
    for name in
        ["cancel_reason", "discard_reason", "result_url", "next_attempt_at", "parent_jobs", "worker_id"]
    {
        assert!(seen.contains(name), "no job here has {name}");
    }
}
