//! As much of `/v1` as a journey needs. A job moves on each time its status is asked for.

use hyper::Method;
use serde_json::{Value, json};

use super::{Asked, Fault, FaultyServer, Reply};

const TIME: &str = "2026-01-01T00:00:00Z";

/// A job.
#[derive(Clone, Debug)]
pub(super) struct Job {
    fails: bool,
    canceled: bool,
    n_polls: u32,
}

impl Job {
    fn state(&self, server: &FaultyServer) -> &'static str {
        let end = if self.fails { "FAILED" } else { "SUCCEEDED" };
        match self.n_polls {
            _ if self.canceled && !server.is(Fault::CancelLies) => "CANCELED",
            0 | 1 => "QUEUED",
            2 => "RUNNING",
            3 if server.is(Fault::StateGoesBack) => "QUEUED",
            4.. if server.is(Fault::EndIsUndone) => "CANCELED",
            _ => end,
        }
    }
}

pub(super) fn route(server: &FaultyServer, asked: &Asked) -> Reply {
    let reply = routed(server, asked);
    match reply.status {
        400.. => named(server, reply),
        _ => reply,
    }
}

/// The id of a request is also in its problem.
fn named(server: &FaultyServer, mut reply: Reply) -> Reply {
    let Ok(mut body) = serde_json::from_str::<Value>(&reply.body) else {
        return reply;
    };
    body["instance"] = "urn:uuid:7".into();
    reply.body = body.to_string();
    let media_type =
        if server.is(Fault::RefusesPlainly) { "application/json" } else { "application/problem+json" };
    reply.with("x-request-id", "7").with("content-type", media_type)
}

fn routed(server: &FaultyServer, asked: &Asked) -> Reply {
    let path = asked.path.trim_start_matches("/v1/");
    let parts: Vec<&str> = path.split('/').collect();
    match (&asked.method, parts.as_slice()) {
        (_, ["", "health"]) => Reply::json(200, &json!({"status": "ok"})),
        (&Method::POST, ["clients"]) => Reply::json(201, &json!({"client_id": "c"})),
        (&Method::POST, ["clients", _, "keys"]) => Reply::json(201, &json!({"api_key": "right"})),
        (&Method::POST, ["jobs"]) => submit(server, asked),
        (&Method::POST, ["jobs", id, "cancel"]) => cancel(server, id),
        (&Method::GET, ["jobs", id]) => show(server, asked, id),
        (&Method::GET, ["jobs", _, "result"]) => Reply::json(200, &json!({"done": true})),
        (&Method::GET, ["jobs", id, "report"]) => report(server, asked, id),
        _ => missing(server, asked),
    }
}

fn missing(server: &FaultyServer, asked: &Asked) -> Reply {
    server.problem(asked, 404, "not-found", "Not found", "there is no such thing")
}

fn submit(server: &FaultyServer, asked: &Asked) -> Reply {
    let body: Value = serde_json::from_slice(&asked.body).unwrap_or_default();
    let key = asked.header("idempotency-key").to_owned();
    let is_other = body["payload"]["other"] == true;
    let n = {
        let mut state = server.state.lock().unwrap();
        state.n_answers += 1;
        state.n_answers
    };
    if is_other && !server.is(Fault::KeyTakesAnyBody) {
        return server.problem(asked, 409, "idempotency-conflict", "Idempotency Key Reused", "another body");
    }
    if server.is(Fault::BusyWithoutAnHour) {
        return server.problem(asked, 429, "rate-limited", "Too Many Requests", "slow down");
    }
    let is_odd = body["correlation_id"].as_str().is_some_and(|id| id.ends_with(['1', '3', '5', '7', '9']));
    if server.is(Fault::FailsAtTimes) && is_odd {
        return server
            .problem(asked, 500, "internal-error", "Internal Server Error", "it failed")
            .with("retry-after", 1);
    }
    if server.is(Fault::RefusesPlainly) {
        return server.problem(asked, 400, "malformed", "Malformed", "no");
    }
    let mut state = server.state.lock().unwrap();
    let known = state.keys.get(&key).filter(|_| !server.is(Fault::TwoJobsForOneKey)).cloned();
    let fresh = if server.is(Fault::SameIdTwice) { "job-same".to_owned() } else { format!("job-{n}") };
    let id = known.unwrap_or(fresh);
    if !key.is_empty() {
        state.keys.insert(key, id.clone());
    }
    let fails = body["work_kind"].as_str().is_some_and(|kind| kind.starts_with("FAIL"));
    state.forge.entry(id.clone()).or_insert(Job { fails, canceled: false, n_polls: 0 });
    let body = json!({"job_id": id, "state": "QUEUED", "created_at": TIME});
    Reply::json(202, &body).with("location", format!("/v1/jobs/{id}"))
}

fn cancel(server: &FaultyServer, id: &str) -> Reply {
    let mut state = server.state.lock().unwrap();
    let job = state.forge.get_mut(id).unwrap();
    let ended = job.n_polls > 2;
    job.canceled |= !ended;
    let word = if ended && !server.is(Fault::CancelLies) { job.state(server) } else { "CANCELED" };
    Reply::json(200, &json!({"job_id": id, "state": word, "updated_at": TIME}))
}

fn show(server: &FaultyServer, asked: &Asked, id: &str) -> Reply {
    let job = {
        let mut state = server.state.lock().unwrap();
        state.forge.get_mut(id).map(|job| {
            job.n_polls += 1;
            job.clone()
        })
    };
    // Found while it runs, and lost once it has ended.
    let Some(job) = job.filter(|job| !server.is(Fault::LosesJobs) || job.n_polls < 4) else {
        return missing(server, asked);
    };
    let word = job.state(server);
    if asked.header("accept").contains("problem") && matches!(word, "FAILED" | "CANCELED") {
        return Reply::json(200, &failure(id, word)).with("content-type", "application/problem+json");
    }
    let outcome = match word {
        "SUCCEEDED" if server.is(Fault::OutcomeIsWrong) => json!("FAILED"),
        "SUCCEEDED" => json!("SUCCESS"),
        "FAILED" | "CANCELED" => json!(word),
        _ => Value::Null,
    };
    let body = json!({
        "job_id": id, "type": "EXECUTE", "state": word, "outcome": outcome, "created_at": TIME, "execution_at": null,
        "updated_at": TIME, "attempt": 1, "callback": null,
    });
    Reply::json(200, &body)
}

fn failure(id: &str, word: &str) -> Value {
    let status = if word == "FAILED" { "FAILED" } else { "CANCELLED" };
    json!({
        "type": "/problems/job-failed", "title": "Job Failed", "status": 500, "detail": "it failed", "instance": format!("/v1/jobs/{id}"),
        "code": "RFA_EXEC_JOB_FAILED", "jobId": "0190c5a0-0000-7000-8000-000000000000", "jobStatus": status, "submittedAt": TIME,
        "completedAt": TIME, "retryable": false,
    })
}

/// Whether `/api/v1` is asked for a job of `/v1`.
pub(super) fn knows(_: &FaultyServer, asked: &Asked) -> bool {
    asked.path.starts_with("/api/v1/jobs/job-")
}

/// The failure object on the other dialect.
pub(super) fn elsewhere(server: &FaultyServer, asked: &Asked) -> Reply {
    let id = asked.path.trim_start_matches("/api/v1/jobs/");
    let word = server.state.lock().unwrap().forge[id].state(server);
    let mut body = failure(id, word);
    if server.is(Fault::OtherBytesElsewhere) {
        body["detail"] = "it failed, they say".into();
    }
    Reply::json(200, &body).with("content-type", "application/problem+json")
}

fn report(server: &FaultyServer, asked: &Asked, id: &str) -> Reply {
    if server.is(Fault::NoReport) {
        return missing(server, asked);
    }
    let job = server.state.lock().unwrap().forge[id].clone();
    let end = job.state(server);
    let mut states = vec!["CREATED", "QUEUED"];
    if end != "CANCELED" {
        states.extend(["ASSIGNED", "RUNNING"]);
    }
    states.push(end);
    match server.fault {
        Fault::ChainIsBroken => drop(states.remove(2)),
        Fault::EndsTwice => states.push(end),
        _ => {}
    }
    let mut events = Vec::new();
    let mut previous = Value::Null;
    for (n, state) in states.iter().enumerate() {
        let name = "job_changed";
        events.push(json!({
            "event_id": n.to_string(), "job_id": id, "event_name": name, "prev_state": previous, "next_state": state,
            "timestamp": format!("2026-01-01T00:00:0{n}Z"),
        }));
        previous = (*state).into();
    }
    let outcome = if end == "SUCCEEDED" { "SUCCESS" } else { end };
    Reply::json(
        200,
        &json!({
            "job_id": id, "outcome": outcome, "events": events, "started_at": TIME, "finished_at": TIME, "duration_ms": 1,
        }),
    )
}
