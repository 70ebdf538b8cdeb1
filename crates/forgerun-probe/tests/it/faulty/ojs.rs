//! The core of Open Job Spec.

use hyper::Method;
use serde_json::{Value, json};

use super::{Asked, Fault, FaultyServer, Reply};

const NOW: &str = "2026-01-01T00:00:00.000Z";

pub(super) fn route(server: &FaultyServer, asked: &Asked) -> Reply {
    let reply = routed(server, asked).with("ojs-version", "1.0");
    let media_type =
        if server.is(Fault::BodiesAreText) { "text/plain" } else { "application/openjobspec+json" };
    reply.with("content-type", media_type)
}

fn routed(server: &FaultyServer, asked: &Asked) -> Reply {
    if asked.path == "/ojs/manifest" {
        let manifest = json!({
            "specversion": "1.0", "implementation": {"name": "faulty"}, "conformance_level": 0, "protocols": ["http"],
        });
        return match server.is(Fault::NoManifest) {
            true => refusal(server, 404, "NOT_FOUND"),
            false => Reply::json(200, &manifest),
        };
    }
    if !server.knows(asked) {
        return refusal(server, 401, "UNAUTHENTICATED").with("www-authenticate", "Bearer");
    }
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let path = asked.path.trim_start_matches("/ojs/v1");
    match (&asked.method, path) {
        (&Method::POST, "/jobs") => push(server, &body),
        (&Method::POST, "/workers/fetch") => fetch(server, &body),
        (&Method::POST, "/workers/ack") => ack(server, &body),
        (&Method::POST, "/workers/nack") => nack(server, &body),
        (&Method::GET, _) => {
            with_job(server, path.trim_start_matches("/jobs/"), |_, job| Reply::json(200, job))
        }
        (&Method::DELETE, _) => with_job(server, path.trim_start_matches("/jobs/"), cancel),
        _ => refusal(server, 405, "METHOD_NOT_ALLOWED"),
    }
}

fn refusal(server: &FaultyServer, status: u16, code: &str) -> Reply {
    let mut body = json!({"code": code, "message": "it cannot be done", "retryable": false});
    match server.fault {
        Fault::ErrorsWithoutCode => drop(body.as_object_mut().unwrap().remove("code")),
        Fault::EmptyMessages => body["message"] = "".into(),
        Fault::RefusalsAreRetryable => body["retryable"] = true.into(),
        _ => {}
    }
    Reply::json(status, &body)
}

/// The code of what is wrong with an envelope.
fn mistake(server: &FaultyServer, envelope: &Value) -> Option<&'static str> {
    let is_name = |text: &str| {
        text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"-._".contains(&b))
    };
    let typed = envelope["type"].as_str();
    let queue = envelope["options"]["queue"].as_str().unwrap_or("default");
    let attempts = envelope["options"]["retry"]["max_attempts"].as_i64();
    match () {
        () if typed.is_none() && !server.is(Fault::TypeIsOptional) => Some("INVALID_PAYLOAD"),
        () if !typed.is_none_or(is_name) => Some("INVALID_JOB_TYPE"),
        () if !envelope["args"].is_array() && !server.is(Fault::AnyArgs) => Some("INVALID_ARGS"),
        () if !is_name(queue) && !server.is(Fault::AnyQueue) => Some("INVALID_QUEUE"),
        () if attempts.is_some_and(|n| n < 0) && !server.is(Fault::AnyPolicy) => Some("INVALID_RETRY_POLICY"),
        () => None,
    }
}

fn push(server: &FaultyServer, envelope: &Value) -> Reply {
    if let Some(code) = mistake(server, envelope) {
        return refusal(server, 400, code);
    }
    let mut state = server.state.lock().unwrap();
    let id = format!("0190c5a0-0000-7000-9000-{:012x}", state.ojs.len());
    let word = if server.is(Fault::OwnWords) { "ready" } else { "available" };
    let mut job = json!({
        "id": id, "type": envelope["type"], "args": envelope["args"], "meta": envelope["meta"],
        "queue": envelope["options"]["queue"], "state": word, "attempt": 0, "created_at": NOW,
        "max_attempts": envelope["options"]["retry"]["max_attempts"].as_u64().unwrap_or(3),
    });
    if server.is(Fault::ArgsAreChanged) {
        job["args"] = json!([1]);
    }
    state.ojs.push(job.clone());
    Reply::json(201, &json!({ "job": job })).with("location", format!("/ojs/v1/jobs/{id}"))
}

fn with_job(server: &FaultyServer, id: &str, act: fn(&FaultyServer, &mut Value) -> Reply) -> Reply {
    let mut state = server.state.lock().unwrap();
    match state.ojs.iter_mut().find(|job| job["id"] == id) {
        Some(job) => act(server, job),
        None => refusal(server, if server.is(Fault::UnknownIs400) { 400 } else { 404 }, "NOT_FOUND"),
    }
}

fn is_ended(job: &Value) -> bool {
    ["completed", "cancelled", "discarded"].contains(&job["state"].as_str().unwrap())
}

fn cancel(server: &FaultyServer, job: &mut Value) -> Reply {
    if server.is(Fault::CannotCancel) {
        return refusal(server, 405, "METHOD_NOT_ALLOWED");
    }
    if is_ended(job) && !server.is(Fault::CancelLate) {
        return refusal(server, 409, "INVALID_STATE_TRANSITION");
    }
    job["state"] = "cancelled".into();
    Reply::json(200, job)
}

fn fetch(server: &FaultyServer, body: &Value) -> Reply {
    let mut state = server.state.lock().unwrap();
    let waits = |job: &&mut Value| {
        ["available", "ready"].contains(&job["state"].as_str().unwrap()) && job["queue"] == body["queues"][0]
    };
    let taken = state.ojs.iter_mut().find(waits).map(|job| {
        job["state"] = "active".into();
        job["attempt"] = u8::from(!server.is(Fault::AttemptIsNotCounted)).into();
        job.clone()
    });
    Reply::json(200, &json!({"jobs": Vec::from_iter(taken)}))
}

fn ack(server: &FaultyServer, body: &Value) -> Reply {
    with_job(server, body["job_id"].as_str().unwrap(), |server, job| {
        if is_ended(job) && !server.is(Fault::AckTwice) {
            return refusal(server, 409, "JOB_ALREADY_COMPLETED");
        }
        job["state"] = "completed".into();
        Reply::json(200, &json!({"acknowledged": true, "state": "completed"}))
    })
}

fn nack(server: &FaultyServer, body: &Value) -> Reply {
    let mut state = server.state.lock().unwrap();
    let job = state.ojs.iter_mut().find(|job| job["id"] == body["job_id"]).unwrap();
    let again = match server.fault {
        Fault::NeverRetries => false,
        Fault::AlwaysRetries => true,
        _ => body["error"]["retryable"] == true,
    };
    job["state"] = if again { "retryable" } else { "discarded" }.into();
    let mut entry = body["error"].clone();
    entry["attempt"] = 1.into();
    if !server.is(Fault::NoOccurredAt) {
        entry["occurred_at"] = NOW.into();
    }
    if !server.is(Fault::NoHistory) {
        job["errors"] = json!([entry]);
    }
    Reply::json(200, job)
}
