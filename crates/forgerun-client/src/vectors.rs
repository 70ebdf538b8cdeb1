//! Runs the cases of `sdk/vectors`, which the SDKs of all languages share, against this crate.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use forgerun_problem::canonical;
use forgerun_problem::polling::Poll;
use http::{HeaderMap, HeaderName, StatusCode};
use serde_json::{Map, Value, json};

use crate::Schedule;
use crate::codes::Report;
use crate::error::{ApiError, Error, Unreachable};
use crate::forge::Submit;
use crate::ojs::Taken;
use crate::retry::{Repeat, RetryPolicy};

/// A file of vectors; a file without cases is a mistake.
fn vectors(name: &str) -> Value {
    let path = format!("{}/../../sdk/vectors/{name}", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_slice(&fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))).unwrap()
}

fn cases<'a>(file: &'a Value, list: &str) -> &'a Vec<Value> {
    file[list].as_array().filter(|cases| !cases.is_empty()).expect("cases")
}

fn ms(value: &Value) -> Option<Duration> {
    value.as_u64().map(Duration::from_millis)
}

fn in_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap()
}

fn headers(case: &Value) -> HeaderMap {
    let pair = |(name, value): (&String, &Value)| {
        (name.parse::<HeaderName>().unwrap(), value.as_str().unwrap().parse().unwrap())
    };
    case["headers"].as_object().unwrap().iter().map(pair).collect()
}

/// The error behind an answer; `None` if it is none.
fn error_of(case: &Value, now: SystemTime) -> Option<ApiError> {
    let body = case["body"].as_str().unwrap().as_bytes();
    match case["status"].as_u64() {
        None => Some(ApiError::of_report(Report::from_json(&serde_json::from_slice(body).unwrap()), None)),
        Some(status) if status < 400 => None,
        Some(status) => {
            let status = StatusCode::from_u16(u16::try_from(status).unwrap()).unwrap();
            Some(ApiError::of_answer(status, &headers(case), body, now))
        }
    }
}

#[test]
fn errors() {
    let file = vectors("errors.json");
    let now = UNIX_EPOCH + Duration::from_secs(file["now"].as_u64().unwrap());
    for case in cases(&file, "cases") {
        let found = error_of(case, now).map_or(Value::Null, |error| {
            json!({
                "class": error.class(),
                "code": error.code,
                "canonical": error.canonical,
                "message": error.message,
                "retryable": error.retryable,
                "retry_after_ms": error.retry_after.map(in_ms),
                "details": error.details,
                "request_id": error.request_id,
            })
        });
        assert_eq!(found, case["expect"], "{}", case["name"]);
    }
}

#[test]
fn outcomes() {
    for case in cases(&vectors("outcomes.json"), "cases") {
        let problem = case["problem"].as_str().map(str::as_bytes);
        let error = ApiError::of_job(case["state"].as_str().unwrap(), problem);
        let found = json!({
            "class": error.class(),
            "code": error.code,
            "message": error.message,
            "retryable": error.retryable,
            "details": error.details,
        });
        assert_eq!(found, case["expect"], "{}", case["name"]);
        assert!(matches!(error.into_error(), Error::Execution(_)));
    }
}

#[test]
fn retries() {
    for case in cases(&vectors("retries.json"), "cases") {
        let failure = &case["failure"];
        let error = match failure["unreachable"]["maybe_sent"].as_bool() {
            Some(maybe_sent) => Error::Unreachable(Unreachable::new("a", "refused", maybe_sent)),
            None => error_of(failure, UNIX_EPOCH).unwrap().into_error(),
        };
        let repeat = match case["repeat"].as_str().unwrap() {
            "harmless" => Repeat::Harmless,
            "only_if_not_sent" => Repeat::OnlyIfNotSent,
            other => panic!("{other}"),
        };
        let made = u32::try_from(case["retries_made"].as_u64().unwrap()).unwrap();
        let wait = RetryPolicy::default().next(&error, repeat, made, case["random"].as_f64().unwrap());
        assert_eq!(wait, ms(&case["expect_wait_ms"]), "{}", case["name"]);
    }
}

#[test]
fn polling() {
    let file = vectors("polling.json");
    for case in cases(&file, "cases") {
        let total = ms(&case["timeout_ms"]).unwrap();
        let schedule = Schedule {
            first: ms(&file["first_ms"]).unwrap(),
            longest: ms(&file["longest_ms"]).unwrap(),
            total,
        };
        assert_eq!(
            (schedule.first, schedule.longest),
            (Schedule::default().first, Schedule::default().longest)
        );
        let mut answers = case["answers"].as_array().unwrap().iter();
        let (mut waits, mut waited, mut retry_after) = (Vec::new(), Duration::ZERO, None);
        let end = loop {
            let wait = match schedule.next(u32::try_from(waits.len()).unwrap(), waited, retry_after) {
                Poll::After(wait) => wait,
                Poll::TimedOut => break "timed_out",
            };
            waits.push(in_ms(wait));
            waited += wait;
            let answer = answers.next().unwrap_or_else(|| panic!("one question too many: {case}"));
            if answer["ended"] == true {
                break "ended";
            }
            retry_after = ms(&answer["retry_after_ms"]);
        };
        assert_eq!(
            (json!(waits), json!(end)),
            (case["expect_waits_ms"].clone(), case["ends"].clone()),
            "{case}"
        );
        assert_eq!(answers.next(), None, "an answer is left over: {case}");
    }
}

#[test]
fn canonical_bytes() {
    for case in cases(&vectors("canonical.json"), "cases") {
        let read = serde_json::from_str::<Value>(case["input"].as_str().unwrap()).ok();
        let text = read.as_ref().map(canonical);
        assert_eq!(text.as_deref(), case["expect"].as_str(), "{}", case["name"]);
    }
}

/// A submission with the options of a case.
fn submission(case: &Value) -> Submit {
    let mut job = Submit::job(case["type"].as_str().unwrap(), case["args"].clone());
    let empty = Map::new();
    for (name, value) in case["options"].as_object().unwrap_or(&empty) {
        let text = || value.as_str().unwrap().to_owned();
        job = match name.as_str() {
            "queue" => job.queue(text()),
            "priority" => job.priority(value.as_i64().unwrap().try_into().unwrap()),
            "max_retries" => job.max_retries(value.as_u64().unwrap().try_into().unwrap()),
            "timeout" => job.timeout(text()),
            "timeout_ms" => job.timeout(format!("{value}ms")),
            "deadline" => job.deadline(text()),
            "tags" => value.as_array().unwrap().iter().fold(job, |job, tag| job.tag(tag.as_str().unwrap())),
            "unique_key" => job.unique_key(text()),
            "idempotency_key" => job.idempotency_key(text()),
            "delay_ms" => job.delay(ms(value).unwrap()),
            "at" => job.at(text()),
            other => panic!("an option that is not known here: {other}"),
        };
    }
    match case["queue"].as_str() {
        Some(queue) => job.queue(queue),
        None => job,
    }
}

#[test]
fn submissions() {
    let file = vectors("envelopes.json");
    let now = UNIX_EPOCH + Duration::from_millis(1_795_035_600_000);
    assert_eq!(file["now"], "2026-11-18T21:00:00.000Z");
    for case in cases(&file, "submissions") {
        let body = serde_json::to_value(submission(case).at_moment(now)).unwrap();
        assert_eq!(body, case["expect"]["body"], "{}", case["name"]);
    }
}

#[test]
fn batches() {
    let file = vectors("envelopes.json");
    let now = UNIX_EPOCH + Duration::from_millis(1_795_035_600_000);
    for case in cases(&file, "batches") {
        let envelope = |job: &Value| submission(job).at_moment(now).envelope().unwrap();
        let jobs: Vec<_> = case["jobs"].as_array().unwrap().iter().map(envelope).collect();
        let body = serde_json::to_value(json!({"jobs": jobs})).unwrap();
        assert_eq!(body, case["expect"]["body"], "{}", case["name"]);
    }
}

#[test]
fn received_jobs() {
    for case in cases(&vectors("envelopes.json"), "received") {
        let job: Taken = serde_json::from_value(case["job"].clone()).unwrap();
        let parents: Map<String, Value> = job
            .parents()
            .into_iter()
            .map(|(step, result)| (step.to_owned(), serde_json::to_value(result).unwrap()))
            .collect();
        let found = json!({
            "id": job.id,
            "type": job.job_type,
            "queue": job.queue,
            "attempt": job.attempt,
            "tags": job.tags,
            "meta": job.meta,
            "input": job.argument::<Value>().unwrap(),
            "parents": parents,
            "traceparent": job.traceparent(),
            "lease_token": job.lease_token,
        });
        assert_eq!(found, case["expect"], "{}", case["name"]);
    }
}
