//! Messages of jobs that failed, and names on the broker.

use forgerun_core::Command;
use forgerun_core::catalog::Kind;
use forgerun_core::command::{Fail, WorkError};
use forgerun_core::job::Dialect;
use forgerun_core::retry::RetryPolicy;
use forgerun_core::time::Time;

use super::*;
use crate::example::ExampleJob;
use crate::ojs::envelope::{self, Rules};
use crate::ojs::retry::defaults;
use crate::outcome::Outcomes;

fn failed(kind: Kind, attempts_max: u32) -> ExampleJob {
    let begun = ExampleJob::begin(Outcomes::default(), |head| {
        head.dialect = Dialect::Ojs;
        head.job_type = "email.send".into();
        head.tags = vec!["a".into(), "b".into()];
        head.retry = RetryPolicy { attempts_max, ..defaults() };
    });
    let story = begun.begins();
    let error = WorkError {
        class: Some("SmtpConnectionError".into()),
        ..WorkError::new(kind, "SMTP connection refused on port 25")
    };
    let fail = Command::Fail(Fail { held: story.held(), error });
    story.then(fail)
}

fn event(job: &Job) -> EventId {
    job.history.events().last().unwrap().id(job.id)
}

fn field<'a>(head: &'a MessageHead, name: &str) -> &'a HeaderField {
    let found = head.headers.iter().find(|(known, _)| *known == name);
    &found.unwrap_or_else(|| panic!("{name} in {head:?}")).1
}

fn text_of<'a>(head: &'a MessageHead, name: &str) -> &'a str {
    match field(head, name) {
        HeaderField::Text(text) => text,
        HeaderField::Int(_) => panic!("{name} is a number"),
    }
}

#[test]
fn a_message_for_another_attempt_has_the_headers_of_the_catalogue() {
    let story = failed(Kind::HandlerError, 3);
    let job = story.job();
    let error = job.last_error().unwrap();
    let head =
        MessageHead::of_failure(job, error, AfterFailure::Retry(Duration::from_millis(5000)), event(job));
    assert_eq!(head.message_id, Some(job.id.to_string()));
    assert_eq!(
        (head.kind.as_deref(), head.priority, head.expiration_ms),
        (Some("email.send"), Some(4), Some(5000))
    );
    assert_eq!(text_of(&head, "x-ojs-job-id"), job.id.to_string());
    assert_eq!(text_of(&head, "x-ojs-queue"), job.head.queue.as_str());
    assert_eq!(text_of(&head, "x-ojs-tags"), "a,b");
    assert_eq!(
        (field(&head, "x-ojs-attempt"), field(&head, "x-ojs-max-attempts")),
        (&HeaderField::Int(2), &HeaderField::Int(3))
    );
    assert_eq!(text_of(&head, "x-ojs-error-code"), "HANDLER_ERROR");
    assert_eq!(text_of(&head, "x-ojs-error-message"), "SMTP connection refused on port 25");
    let details: Value = serde_json::from_str(text_of(&head, "x-ojs-error-details")).unwrap();
    assert_eq!(
        details,
        json!({"type": "SmtpConnectionError", "attempt": 1, "occurred_at": time::millis(error.at)})
    );
}

#[test]
fn a_dead_letter_names_the_attempt_that_was_the_last() {
    let story = failed(Kind::HandlerTimeout, 1);
    let job = story.job();
    let head = MessageHead::of_failure(job, job.last_error().unwrap(), AfterFailure::Dead, event(job));
    assert_eq!((field(&head, "x-ojs-attempt"), head.expiration_ms), (&HeaderField::Int(1), None));
    assert_eq!(text_of(&head, "x-ojs-error-code"), "HANDLER_TIMEOUT");
}

#[test]
fn the_body_can_be_submitted_again_as_it_is() {
    let story = failed(Kind::HandlerError, 3);
    let job = story.job();
    let input = Input { payload: b"[1e300, 12345678901234567890123]".to_vec(), ..Input::default() };
    let body = failure_body(job, &input, job.last_error().unwrap());
    let rules = Rules { now: Time::ZERO, tenant: None, strict_catalog: false, test_hooks: false };
    let read = envelope::read(&body, rules).unwrap();
    assert_eq!((read.id, read.job_type.as_str(), &read.args), (Some(job.id), "email.send", &input.payload));
    assert_eq!((read.queue.as_ref(), read.retry.attempts_max), (Some(&job.head.queue), 3));
    let shown: Value =
        serde_json::from_slice(&failure_body(job, &Input::default(), job.last_error().unwrap())).unwrap();
    assert_eq!((&shown["attempt"], &shown["error"]["code"]), (&json!(1), &json!("HANDLER_ERROR")));
    assert!(shown.get("state").is_none() && shown.get("lease_token").is_none(), "{shown}");
}

#[test]
fn a_wait_goes_to_the_shortest_step_that_is_long_enough() {
    for (wait_ms, step_ms) in [
        (0, 1000),
        (1, 1000),
        (1000, 1000),
        (1001, 2000),
        (5000, 8000),
        (2_048_001, 3_600_000),
        (u64::MAX, 3_600_000),
    ] {
        assert_eq!(delay_step_ms(Duration::from_millis(wait_ms)), step_ms, "{wait_ms}");
    }
}

#[test]
fn names_that_belong_to_another_queue_cannot_be_bridged() {
    for (name, expected) in [
        ("emails", true),
        ("dlx", true),
        ("dlx.emails", false),
        ("retry.emails.1000", false),
        ("control.emails", false),
    ] {
        assert_eq!(can_be_bridged(name), expected, "{name}");
    }
    assert!(
        can_be_bridged(&"q".repeat(QUEUE_BYTES_MAX)) && !can_be_bridged(&"q".repeat(QUEUE_BYTES_MAX + 1))
    );
    let longest = delay_queue(&"q".repeat(QUEUE_BYTES_MAX), DELAY_STEPS_MS[DELAY_STEPS_MS.len() - 1]);
    assert!(longest.len() <= 255, "{longest}");
}

#[test]
fn priorities_span_the_ten_levels() {
    for (priority, expected) in [(-100, 0), (0, 4), (100, 9), (i16::MAX, 9), (i16::MIN, 0)] {
        assert_eq!(amqp_priority(priority), expected, "{priority}");
    }
}

#[test]
fn a_refusal_says_what_is_wrong_in_bounded_headers() {
    let refused = RefusedRequest::new(Kind::MalformedRequest, "ä".repeat(HEADER_BYTES_MAX))
        .fact("field", "x".repeat(HEADER_BYTES_MAX));
    let headers = refusal_headers(&refused, "2026-01-01T00:00:00Z");
    let head = MessageHead { headers, ..MessageHead::default() };
    assert_eq!(text_of(&head, "x-ojs-error-code"), "INVALID_PAYLOAD");
    assert!(text_of(&head, "x-ojs-error-message").len() <= HEADER_BYTES_MAX);
    assert_eq!(text_of(&head, "x-ojs-error-details"), "{\"occurred_at\":\"2026-01-01T00:00:00Z\"}");
}

#[test]
fn a_control_message_names_a_job_or_is_refused() {
    let id = JobId::v7(1, 2);
    assert_eq!(read_control(json!({"job_id": id.to_string()}).to_string().as_bytes()).unwrap(), id);
    for body in ["", "[]", "{}", "{\"job_id\": 7}", "{\"job_id\": \"x\"}"] {
        assert!(read_control(body.as_bytes()).is_err(), "{body}");
    }
}

#[test]
fn a_message_is_held_back_for_an_hour_at_most() {
    let story = failed(Kind::HandlerError, 3);
    let job = story.job();
    let held_ms = |wait: Duration| {
        let after = AfterFailure::Retry(wait);
        MessageHead::of_failure(job, job.last_error().unwrap(), after, event(job)).expiration_ms
    };
    let hour = Duration::from_secs(3600);
    let waits = [hour - Duration::from_millis(1), hour, 50 * 24 * hour, Duration::MAX];
    assert_eq!(waits.map(held_ms), [3_599_999, 3_600_000, 3_600_000, 3_600_000].map(Some));
}
