//! The async-operations pattern: `/api/v1/jobs`, or `/tasks` where the addresses are others.

use hyper::Method;
use serde_json::{Value, json};

use super::{Asked, Fault, FaultyServer, Reply};

const SUBMITTED: &str = "2026-01-01T00:00:00Z";
const ENDED: &str = "2026-01-01T00:00:05Z";

/// How a job will end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    Succeed,
    Fail,
    /// Runs until it is cancelled.
    Wait,
}

/// A job that moves on with every question.
#[derive(Clone, Debug)]
pub(super) struct Job {
    plan: Plan,
    correlation: String,
    n_polls: u32,
    n_reports: u32,
    cancelled: bool,
    gone: bool,
}

fn base(server: &FaultyServer) -> &'static str {
    if server.is(Fault::OtherAddresses) { "/tasks" } else { "/api/v1/jobs" }
}

pub(super) fn route(server: &FaultyServer, asked: &Asked) -> Reply {
    let Some(rest) = asked.path.strip_prefix(base(server)) else {
        return missing(server, asked, &asked.path);
    };
    let rest = rest.trim_start_matches('/').replace("alias-", "");
    let (id, action) = rest.split_once('/').unwrap_or((&rest, ""));
    match (&asked.method, id, action) {
        (&Method::POST, "", _) => submit(server, asked),
        (_, "", _) => server.problem(asked, 405, "method-not-allowed", "Method Not Allowed", "use POST"),
        (&Method::GET, id, "") => show(server, asked, id),
        (&Method::GET, id, "result") => match server.is(Fault::NoResult) {
            true => missing(server, asked, id),
            false => Reply::json(200, &json!({"answer": 42})),
        },
        (&Method::DELETE, id, "") => change(server, asked, id, |job| job.gone = true),
        (_, id, "cancel") => change(server, asked, id, |job| job.cancelled = true),
        _ => missing(server, asked, id),
    }
}

fn missing(server: &FaultyServer, asked: &Asked, id: &str) -> Reply {
    let status = match server.fault {
        Fault::UnknownPagesAreFine => return Reply::json(200, &json!({})),
        Fault::UnknownIs400 => 400,
        _ => 404,
    };
    server.problem(asked, status, "job-not-found", "Job not found", &format!("there is no {id}"))
}

fn change(server: &FaultyServer, asked: &Asked, id: &str, change: fn(&mut Job)) -> Reply {
    match server.state.lock().unwrap().jobs.get_mut(id) {
        Some(job) => change(job),
        None => return missing(server, asked, id),
    }
    Reply::json(200, &json!({}))
}

/// What a body asks for; `None` if it will not do.
fn plan_of(server: &FaultyServer, body: &[u8]) -> Option<Plan> {
    let body: Value = serde_json::from_slice(body).ok()?;
    let member = if server.is(Fault::OtherAddresses) { "do" } else { "work_kind" };
    match body[member].as_str() {
        Some("SUCCESS_FAST" | "succeed") => Some(Plan::Succeed),
        Some("FAIL_IMMEDIATE" | "fail") => Some(Plan::Fail),
        Some("SUCCESS_SLOW" | "wait") => Some(Plan::Wait),
        _ => server.is(Fault::TakesAnything).then_some(Plan::Succeed),
    }
}

fn submit(server: &FaultyServer, asked: &Asked) -> Reply {
    let Some(plan) = plan_of(server, &asked.body) else {
        return server.problem(asked, 400, "validation", "Validation Failed", "the body will not do");
    };
    let key = asked.header("idempotency-key").to_owned();
    let correlation = match asked.header("x-correlation-id") {
        "" => "made-up".to_owned(),
        sent => sent.to_owned(),
    };
    let id = {
        let mut state = server.state.lock().unwrap();
        let known = state.keys.get(&key).filter(|_| !server.is(Fault::KeyMakesANewJob)).cloned();
        let n = if server.is(Fault::OneIdForAll) { 0 } else { state.jobs.len() };
        let id = known.clone().unwrap_or_else(|| format!("0190c5a0-0000-7000-8000-{n:012x}"));
        if !key.is_empty() {
            state.keys.insert(key, id.clone());
        }
        if known.is_none() {
            let correlation = correlation.clone();
            let job = Job { plan, correlation, n_polls: 0, n_reports: 0, cancelled: false, gone: false };
            state.jobs.insert(id.clone(), job);
        }
        id
    };
    accepted(server, &id, &correlation)
}

fn accepted(server: &FaultyServer, id: &str, correlation: &str) -> Reply {
    let url = format!("{}/{id}", base(server));
    let word = if server.is(Fault::FirstStatusIsRunning) { "Running" } else { "Queued" };
    let mut body = json!({"jobId": id, "status": word, "statusUrl": url, "submittedAt": submitted(server)});
    if server.is(Fault::NoStatusUrl) {
        body.as_object_mut().unwrap().remove("statusUrl");
    }
    let status = if server.is(Fault::NotAccepted) { 201 } else { 202 };
    let mut reply = plain(server, status, &body);
    if !server.is(Fault::NoLocation) {
        let alias = if server.is(Fault::OtherIdInLocation) { "alias-" } else { "" };
        reply = reply.with("location", format!("{}/{alias}{id}", base(server)));
    }
    if !server.is(Fault::NoRetryAfter) {
        reply = reply.with("retry-after", 5);
    }
    if !server.is(Fault::NoCorrelation) {
        reply = reply.with("x-correlation-id", correlation);
    }
    if !server.is(Fault::NoLink) {
        reply = reply.with("link", format!("<{url}>; rel=\"status\""));
    }
    reply
}

fn plain(server: &FaultyServer, status: u16, body: &Value) -> Reply {
    let reply = Reply::json(status, body);
    if server.is(Fault::BodiesAreText) { reply.with("content-type", "text/plain") } else { reply }
}

fn submitted(server: &FaultyServer) -> &'static str {
    if server.is(Fault::SubmittedAtIsLocal) { "2026-01-01T00:00:00+01:00" } else { SUBMITTED }
}

fn show(server: &FaultyServer, asked: &Asked, id: &str) -> Reply {
    let job = {
        let mut state = server.state.lock().unwrap();
        state.jobs.get_mut(id).map(|job| {
            job.n_polls += 1;
            job.n_reports += u32::from(asked.header("accept").contains("problem+json"));
            job.clone()
        })
    };
    let Some(job) = job else {
        return missing(server, asked, id);
    };
    if job.gone {
        return gone(server, asked, id);
    }
    let goes_back = server.is(Fault::GoesBack) && job.n_polls == 3;
    match (job.n_polls, job.plan) {
        _ if job.cancelled => ended(server, id, "Cancelled", "CANCELLED", &job),
        (1, _) => under_way(server, id, "Queued", "ACCEPTED"),
        _ if goes_back => under_way(server, id, "Queued", "ACCEPTED"),
        (2, _) | (_, Plan::Wait) => under_way(server, id, "Running", "PROCESSING"),
        (_, Plan::Succeed) => ended(server, id, "Completed", "COMPLETED", &job),
        (_, Plan::Fail) if asked.header("accept").contains("problem+json") => report(server, id, &job),
        (_, Plan::Fail) => ended(server, id, "Failed", "FAILED", &job),
    }
}

fn gone(server: &FaultyServer, asked: &Asked, id: &str) -> Reply {
    if server.is(Fault::GoneIs404) {
        return missing(server, asked, id);
    }
    let mut reply = server.problem(asked, 410, "job-expired", "Job Expired", &format!("{id} is gone"));
    let mut object: Value = serde_json::from_str(&reply.body).unwrap();
    object["jobId"] = id.into();
    object["expiredAt"] = ENDED.into();
    reply.body = object.to_string();
    reply
}

fn under_way(server: &FaultyServer, id: &str, word: &str, state: &str) -> Reply {
    let mut body = json!({
        "jobId": id, "status": word, "jobStatus": state, "submittedAt": submitted(server), "updatedAt": SUBMITTED,
    });
    if word == "Running" {
        body["startedAt"] = SUBMITTED.into();
        body["progress"] = if server.is(Fault::ProgressIsText) { "half".into() } else { 50.into() };
    }
    match server.fault {
        Fault::CompletedAtWhileRunning => body["completedAt"] = ENDED.into(),
        Fault::NoUpdatedAt => body["updatedAt"] = Value::Null,
        _ => {}
    }
    let status = if server.is(Fault::UnderWayIs200) { 200 } else { 202 };
    let reply = plain(server, status, &body);
    if server.is(Fault::NoRetryAfter) { reply } else { reply.with("retry-after", 5) }
}

fn ended(server: &FaultyServer, id: &str, word: &str, state: &str, job: &Job) -> Reply {
    let mut body = json!({
        "jobId": id, "status": word, "jobStatus": state, "submittedAt": submitted(server), "startedAt": SUBMITTED,
        "updatedAt": ENDED, "completedAt": ENDED, "correlationId": job.correlation,
    });
    match word {
        "Completed" => {
            body["duration"] = 5.into();
            body["resultUrl"] = format!("{}/{id}/result", base(server)).into();
            body["resultType"] = "json".into();
        }
        "Failed" => {
            body["failedAt"] = ENDED.into();
            body["retryCount"] = 0.into();
            body["maxRetries"] = 3.into();
            body["error"] =
                json!({"type": "Boom", "message": "it failed", "errorCode": "BOOM", "retryable": false});
        }
        _ => {
            body["cancelledAt"] = ENDED.into();
            body["cancelledBy"] = "user".into();
            body["reason"] = "asked to".into();
        }
    }
    let mut status = 200;
    match server.fault {
        Fault::EndedIs202 => status = 202,
        Fault::FailedIs500 if word == "Failed" => status = 500,
        Fault::NoResultUrl => body["resultUrl"] = Value::Null,
        Fault::NoErrorCode if word == "Failed" => body["error"]["errorCode"] = Value::Null,
        Fault::NoReason => body["reason"] = Value::Null,
        Fault::OwnWords if word == "Completed" => body["status"] = "Done".into(),
        Fault::StateIsMisspelt => body["jobStatus"] = word.into(),
        _ => {}
    }
    let reply = plain(server, status, &body);
    let problem = server.is(Fault::SuccessIsAProblem) && word == "Completed";
    if problem { reply.with("content-type", "application/problem+json") } else { reply }
}

fn report(server: &FaultyServer, id: &str, job: &Job) -> Reply {
    let mut object = json!({
        "type": format!("http://{}/problems/job-failed", server.address), "title": "Job Failed", "status": 500,
        "detail": "the work failed", "instance": format!("{}/{id}", base(server)), "jobId": id, "jobStatus": "FAILED",
        "submittedAt": submitted(server), "completedAt": ENDED, "retryable": true, "retryAfter": 5,
        "processingStage": "processing", "correlationId": job.correlation,
    });
    let members = object.as_object_mut().unwrap();
    match server.fault {
        Fault::StateIsMisspelt => drop(members.insert("jobStatus".to_owned(), "Failed".into())),
        Fault::EndedJobChanges if job.n_reports > 1 => {
            drop(members.insert("jobStatus".to_owned(), "TIMED_OUT".into()));
        }
        Fault::ReportSaysSuccess => drop(members.insert("status".to_owned(), 200.into())),
        Fault::NoCorrelation => drop(members.remove("correlationId")),
        Fault::InstanceLeadsNowhere => drop(members.insert("instance".to_owned(), "/nowhere".into())),
        Fault::NoSubmittedAt => drop(members.remove("submittedAt")),
        Fault::NoMembers => {
            members.retain(|name, _| ["type", "title", "status", "detail"].contains(&name.as_str()))
        }
        _ => {}
    }
    let media_type =
        if server.is(Fault::ReportIsPlainJson) { "application/json" } else { "application/problem+json" };
    let seconds = if server.is(Fault::RetryAfterDiffers) { 7 } else { 5 };
    Reply::json(200, &object).with("content-type", media_type).with("retry-after", seconds)
}
